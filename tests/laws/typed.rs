//! Random values of a type that has every form of field: the typed counterpart of a dynamic tree.

use std::collections::{BTreeMap, HashMap};
use std::marker::PhantomData;

use proptest::collection::{btree_map, hash_map, vec};
use proptest::option;
use proptest::prelude::*;
use pytree::kind::BatchStat;
use pytree::{Module, Pytree};

/// An enum with every form of variant.
#[derive(Module, Clone, Debug, PartialEq)]
pub enum Block {
    Dense {
        #[param]
        weight: f64,
        #[param]
        bias: Option<f64>,
        #[r#static]
        name: String,
    },
    Norm(#[param] f64, #[state(BatchStat)] Vec<f64>),
    Pass,
}

/// A container that is not a module.
#[derive(Pytree, Clone, Debug, PartialEq)]
pub struct Pair<T> {
    pub left: T,
    pub right: (T, [T; 2]),
}

/// A module with fields of every container and kind.
#[derive(Module, Clone, Debug, PartialEq)]
pub struct Model<T: 'static> {
    pub blocks: Vec<Block>,
    pub head: Option<Box<Block>>,
    pub ends: (Block, [Block; 2]),
    #[param]
    pub by_name: BTreeMap<String, f64>,
    #[state]
    pub counts: HashMap<i32, f64>,
    #[state(BatchStat)]
    pub statistics: Pair<f64>,
    #[r#static]
    pub rate: f64,
    #[r#static]
    pub activation: Option<String>,
    pub marker: PhantomData<T>,
}

fn leaves() -> impl Strategy<Value = f64> {
    (-1000..1000_i32).prop_map(|number| f64::from(number) / 8.0)
}

fn blocks() -> impl Strategy<Value = Block> {
    prop_oneof![
        (leaves(), option::of(leaves()), "[a-z]{0,2}")
            .prop_map(|(weight, bias, name)| Block::Dense { weight, bias, name }),
        (leaves(), vec(leaves(), 0..3)).prop_map(|(scale, means)| Block::Norm(scale, means)),
        Just(Block::Pass),
    ]
}

/// Random models.
pub fn models() -> impl Strategy<Value = Model<String>> {
    let modules = (
        vec(blocks(), 0..3),
        option::of(blocks().prop_map(Box::new)),
        (blocks(), [blocks(), blocks()]),
    );
    let leaves = (
        btree_map("[a-c]{0,2}", leaves(), 0..3),
        hash_map(-3..3_i32, leaves(), 0..3),
        [leaves(), leaves(), leaves(), leaves()],
    );
    let statics = (
        prop::sample::select(vec![0.0, -0.0, 0.5]),
        option::of("[a-b]"),
    );
    (modules, leaves, statics).prop_map(|(modules, leaves, statics)| {
        let [left, a, b, c] = leaves.2;
        Model {
            blocks: modules.0,
            head: modules.1,
            ends: modules.2,
            by_name: leaves.0,
            counts: leaves.1,
            statistics: Pair {
                left,
                right: (a, [b, c]),
            },
            rate: statics.0,
            activation: statics.1,
            marker: PhantomData,
        }
    })
}
