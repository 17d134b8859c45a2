//! Values of a given number of leaves.

use std::collections::{BTreeMap, HashMap};

use pytree::prelude::*;

#[derive(Module, Clone, Debug)]
pub struct Layer {
    #[param]
    pub weight: Tensor,
    #[state]
    pub count: Tensor,
    #[r#static]
    pub width: usize,
}

#[derive(Module, Clone, Debug)]
pub struct Layers {
    pub layers: Vec<Layer>,
}

/// An array whose items hold what can be taken out.
#[derive(Module, Clone, Debug)]
pub struct Sown {
    #[state]
    pub all: [Vec<f32>; 1],
}

pub fn layers(size: usize) -> Layers {
    let layer = |number: usize| Layer {
        weight: Tensor::from(number as f32),
        count: Tensor::from(number as i32),
        width: number % 7,
    };
    Layers {
        layers: (0..size / 2).map(layer).collect(),
    }
}

pub fn numbers(size: usize) -> Vec<f32> {
    (0..size).map(|number| number as f32).collect()
}

pub fn hashed(size: usize) -> HashMap<String, f32> {
    let entry = |number: usize| (format!("leaf {number}"), number as f32);
    (0..size).map(entry).collect()
}

pub fn sorted(size: usize) -> BTreeMap<usize, f32> {
    (0..size).map(|number| (number, number as f32)).collect()
}
