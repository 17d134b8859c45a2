//! A dictionary has values.

use pytree_core::tree;

fn main() {
    let _ = tree!({"a": 1, "b"});
}
