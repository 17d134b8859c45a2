//! The fields of a generic module that holds itself are checked too.

use pytree_core::Module;

#[derive(Module)]
struct Node<T> {
    #[param]
    value: T,
    #[param]
    children: Vec<Node<T>>,
}

fn main() {}
