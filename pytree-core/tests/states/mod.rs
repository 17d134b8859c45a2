//! States: displayed, as flat lists and pure dictionaries, changed place by place, laid over each other, popped.
//!
//! With `tests/edits/{filters,parts}.rs` and `tests/references` this covers what Flax NNX shows of split and merge, of its
//! states and of walks over a graph: flat and nested forms, places added and taken away, pure dictionaries, updates, pop,
//! differences, maps, metadata, displays, duplicates, modules and children in order, functions of every node, copies.

#![allow(
    clippy::pedantic,
    clippy::unwrap_used,
    clippy::type_complexity,
    missing_docs,
    unreachable_pub,
    reason = "a test says what it checks in its name, and fails by panicking"
)]

mod dictionary;
mod display;
mod flat;
mod metadata;
mod overlay;
mod pop;
mod pure;
mod references;
mod walks;

use pytree_core::kind::{BatchStat, Intermediate};
use pytree_core::{KeyPath, Module, Shared};

#[derive(Module, Clone, Debug, PartialEq)]
pub struct Linear {
    #[param]
    pub weight: Vec<f32>,
    #[param]
    pub bias: Option<f32>,
}

#[derive(Module, Clone, Debug, PartialEq)]
pub struct Block {
    pub linear: Linear,
    #[state(BatchStat)]
    pub mean: f32,
    #[state(Intermediate)]
    pub sown: Option<Vec<f32>>,
}

#[derive(Module, Clone, Debug, PartialEq)]
pub struct Mlp {
    pub blocks: Vec<Block>,
    #[r#static]
    pub name: String,
}

pub fn block(number: f32) -> Block {
    Block {
        linear: Linear {
            weight: vec![number, number + 0.5],
            bias: (number > 1.0).then_some(-number),
        },
        mean: number * 10.0,
        sown: Some(vec![number * 100.0, 7.0]),
    }
}

pub fn mlp() -> Mlp {
    Mlp {
        blocks: vec![block(1.0), block(2.0)],
        name: "mlp".to_owned(),
    }
}

#[derive(Module, Clone, Debug)]
pub struct Tied {
    #[param]
    pub embed: Shared<f32>,
    #[param]
    pub head: Shared<f32>,
    #[param]
    pub scale: f32,
}

pub fn tied() -> Tied {
    let embed = Shared::new(1.5);
    Tied {
        head: embed.clone(),
        embed,
        scale: 2.0,
    }
}

pub fn path(text: &str) -> KeyPath {
    text.parse().unwrap()
}
