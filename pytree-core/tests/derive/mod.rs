//! What the derives accept, and what the derived types do. What they refuse is in the workspace's
//! `tests/ui`.

#![allow(
    clippy::unwrap_used,
    reason = "a failed unwrap is a failed test, and says where"
)]

mod bound;
mod container;
mod generic;
mod leaf;
mod module;
mod object;
mod renamed;
mod statics;

use pytree_core::{Pytree, tree};

/// Takes a value apart and puts it together again.
fn rebuilt<T: Pytree>(value: &T) -> T {
    let (leaves, treedef) = tree::flatten_any(value);
    tree::unflatten(&treedef, leaves).unwrap()
}

/// The structure as it is displayed.
fn shown<T: Pytree>(value: &T) -> String {
    tree::structure(value).to_string()
}
