//! `vmap` maps over one key that holds several: rustc proposes the conversion.

use pytree::prelude::*;

fn main() {
    let sample = vmap(|key: Key| key.normal(DType::F32, [3]));
    let _ = sample(Key::new(0).split(4));
}
