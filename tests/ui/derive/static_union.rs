//! A union can't be compared.

use pytree_core::Static;

#[derive(Static, Clone, Copy)]
union Number {
    integer: i32,
    float: f32,
}

fn main() {}
