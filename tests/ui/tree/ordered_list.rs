//! A list has an order anyway.

use pytree_core::tree;

fn main() {
    let _ = tree!([ordered [1, 2]]);
}
