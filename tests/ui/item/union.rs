//! A union does not know its field.

use pytree_core::Module;

#[derive(Module)]
union Number {
    integer: i32,
    float: f32,
}

fn main() {}
