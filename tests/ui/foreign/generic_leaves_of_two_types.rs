//! A counter beside the tensors of any library.

use pytree_core::{Filter, Leaf, Module, partition};

#[derive(Leaf, Clone, Debug)]
#[leaf(param)]
struct Array(Vec<f32>);

#[derive(Module, Clone, Debug)]
struct Counted<T: 'static> {
    #[param]
    weight: T,
    #[state]
    steps: i64,
}

fn weights(model: &Counted<Array>) -> usize {
    partition::filter(model, &Filter::param()).len()
}

fn main() {}
