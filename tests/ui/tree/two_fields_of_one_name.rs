//! A named tuple has a field once.

use pytree_core::tree;

fn main() {
    let _ = tree!(Point(x = 1, x = 2));
}
