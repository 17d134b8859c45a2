//! The fields of variants have kinds too.

use pytree_core::Module;

#[derive(Module)]
enum Layer {
    Scale { factor: f32 },
    Identity,
}

fn main() {}
