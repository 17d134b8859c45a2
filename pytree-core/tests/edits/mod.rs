//! Places of models: selected, replaced, changed, compared, split and merged, and laid out as a vector.

#![allow(
    clippy::pedantic,
    clippy::unwrap_used,
    clippy::type_complexity,
    missing_docs,
    unreachable_pub,
    reason = "a test says what it checks in its name, and fails by panicking"
)]

mod apply;
mod arrays;
mod containers;
mod cycles;
mod differences;
mod each;
mod filters;
mod parts;
mod ravel;
mod replace;
mod select;
mod values;

use pytree_core::{KeyPath, Module, Shared};

#[derive(Module, Clone, Debug, PartialEq)]
pub struct Linear {
    #[param]
    pub weight: f32,
    #[param]
    pub bias: Option<f32>,
}

#[derive(Module, Clone, Debug, PartialEq)]
pub struct Mlp {
    pub layers: Vec<Linear>,
    pub output: Linear,
}

#[derive(Module, Clone, Debug)]
pub struct Tied {
    pub embed: Shared<Linear>,
    pub inner: Vec<Shared<Linear>>,
    #[param]
    pub scale: f32,
}

pub fn linear(weight: f32) -> Linear {
    Linear {
        weight,
        bias: Some(weight + 0.5),
    }
}

pub fn mlp() -> Mlp {
    Mlp {
        layers: vec![linear(1.0), linear(2.0)],
        output: linear(3.0),
    }
}

/// One layer at two places, and one of its own.
pub fn tied() -> Tied {
    let table = Shared::new(linear(1.0));
    Tied {
        embed: table.clone(),
        inner: vec![Shared::new(linear(2.0)), table],
        scale: 9.0,
    }
}

pub fn texts(paths: &[KeyPath]) -> Vec<String> {
    paths.iter().map(ToString::to_string).collect()
}
