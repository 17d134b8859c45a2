//! The functions on dynamic trees and treedefs, by themselves and against JAX and optree.

#![allow(
    clippy::pedantic,
    clippy::unwrap_used,
    clippy::type_complexity,
    missing_docs,
    unreachable_pub,
    reason = "a test crate: a failed unwrap is a failed test, and says where"
)]

mod choices;
mod common;
mod compose;
mod deep;
mod display;
mod errors;
mod golden_tree;
mod goldens;
mod leaves;
mod lies;
mod numbers;
mod obstacles;
mod option_forms;
mod options;
mod paths;
mod prefix;
mod python_containers;
mod reduce;
mod structures;
mod subtree;
mod transpose;
mod unflatten;
mod visitors;

use pytree_core::{KeyPath, Tree};

/// A dynamic tree of integers.
fn integers(tree: &Tree) -> Tree<i64> {
    tree.map(|leaf| {
        let wide = leaf.downcast_ref::<i64>().copied();
        wide.unwrap_or_else(|| i64::from(*leaf.downcast_ref::<i32>().unwrap()))
    })
}

fn path(text: &str) -> KeyPath {
    text.parse().unwrap()
}
