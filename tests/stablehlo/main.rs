//! Programs in StableHLO: their texts, the refusals, and the cases that `tools/check-stablehlo` runs with XLA.

#![allow(
    clippy::pedantic,
    clippy::unwrap_used,
    clippy::type_complexity,
    missing_debug_implementations,
    missing_docs,
    unreachable_pub,
    reason = "a test says what it checks in its name, and fails by panicking"
)]

mod edges;
mod programs;
mod record;
mod replicas;
mod texts;

mod library {
    pub use pytree::stablehlo::StableHlo;
    pub use pytree::{DType, Tensor};
}

use pytree::{Tensor, jit};

/// A program of tensors, with its name and arguments.
pub struct Case {
    name: String,
    arguments: Vec<Tensor>,
    program: fn(&[Tensor]) -> Vec<Tensor>,
}

pub fn case<const N: usize>(
    name: impl Into<String>,
    arguments: [Tensor; N],
    program: fn(&[Tensor]) -> Vec<Tensor>,
) -> Case {
    Case {
        name: name.into(),
        arguments: arguments.to_vec(),
        program,
    }
}

impl Case {
    /// Lowers the program, compares the types of its results with those of our executor, and records it.
    fn check(&self) {
        let program = self.program;
        let compiled = jit(move |x: Vec<Tensor>| program(&x));
        let results = compiled(self.arguments.clone());
        let module = compiled.stablehlo(&self.arguments);
        let outputs: Vec<_> = results.iter().map(|result| result.info().clone()).collect();
        assert_eq!(module.outputs(), outputs, "{}", self.name);
        record::record(&self.name, &module, &self.arguments, &results);
    }
}

#[test]
fn edges_are_lowered() {
    let cases = edges::cases();
    assert!(cases.len() > 100, "{}", cases.len());
    cases.iter().for_each(Case::check);
}

#[test]
fn programs_are_lowered() {
    programs::cases().iter().for_each(Case::check);
}
