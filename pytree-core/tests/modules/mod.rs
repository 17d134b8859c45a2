//! Modules whose fields are registered at run time, modules that can be frozen, and the lint for bugs.

#![allow(
    clippy::pedantic,
    clippy::unwrap_used,
    clippy::type_complexity,
    missing_docs,
    unreachable_pub,
    reason = "a failed unwrap is a failed test, and says where"
)]

mod errors;
mod flat;
mod freeze;
mod lint;
mod parents;
mod register;
mod typed;

use ndarray::{Array1, array};
use pytree_core::kind::BatchStat;
use pytree_core::{DynamicModule, Module, Pytree, tree};

#[derive(Module, Clone, Debug, PartialEq)]
pub struct Linear {
    #[param]
    pub weight: Array1<f32>,
    #[state(BatchStat)]
    pub mean: Array1<f32>,
    #[r#static]
    pub is_training: bool,
}

pub fn linear() -> Linear {
    Linear {
        weight: array![1.0, 2.0],
        mean: array![0.5],
        is_training: true,
    }
}

/// A module with a field of each sort.
pub fn model() -> DynamicModule {
    let mut model = DynamicModule::new("Model").unwrap();
    model.register_param("scale", 2.0_f32).unwrap();
    model.register_state("steps", 3_i32).unwrap();
    model
        .register_state_in::<BatchStat>("mean", array![0.5_f32])
        .unwrap();
    model.register("layers", vec![linear(), linear()]).unwrap();
    model.register_subtree("table", (1_i32, "a")).unwrap();
    model.register_static("is_training", true).unwrap();
    model
}

/// The module in itself, without the leaves that have no kind.
pub fn nested() -> DynamicModule {
    let mut outer = model();
    outer.unregister("table").unwrap();
    let inner = outer.clone();
    outer.register_module("inner", inner).unwrap();
    outer
}

pub fn shown<T: Pytree>(value: &T) -> String {
    tree::structure(value).to_string()
}
