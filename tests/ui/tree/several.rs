//! One tree is written, not several.

use pytree_core::tree;

fn main() {
    let _ = tree!(1, 2);
    let _ = tree!();
}
