//! A collection has a parent, and no other arguments.

use pytree_core::Collection;
use pytree_core::kind::Param;

#[derive(Collection)]
#[collection(parents = Param)]
struct Adapter;

fn main() {}
