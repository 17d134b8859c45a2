//! The leaves of a model have two types.

use ndarray::Array1;
use pytree_core::{Filter, Module, partition};

#[derive(Module, Clone, Debug)]
struct Counted {
    #[param]
    weight: Array1<f32>,
    #[state]
    steps: i64,
}

fn weights(model: &Counted) -> usize {
    partition::filter(model, &Filter::param()).len()
}

fn main() {}
