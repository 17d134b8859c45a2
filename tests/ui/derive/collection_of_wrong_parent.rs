//! The parent of a collection is a collection.

use pytree_core::Collection;

struct Parent;

#[derive(Collection)]
#[collection(parent = Parent)]
struct Average;

fn main() {}
