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

pub(crate) mod device;
mod edges;
mod linalg;
mod narrow;
mod programs;
pub(crate) mod record;
mod replicas;
mod texts;
mod windows;

/// The names that `tests/stablehlo/record.rs` uses, which tests of two packages share.
mod library {
    pub use pytree::stablehlo::StableHlo;
    pub use pytree::{DType, Tensor, bf16, f16, jit};

    pub use crate::stablehlo::device::device;
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

/// Lowers programs, compares the types of the results with those of our executor, and records the programs.
fn check(cases: &[Case], together: usize) {
    let mut group = record::Group::new(together);
    for Case {
        name,
        arguments,
        program,
    } in cases
    {
        let program = *program;
        let compiled = jit(move |x: Vec<Tensor>| program(&x));
        let results = compiled(arguments.clone());
        let module = compiled.stablehlo(arguments);
        let outputs: Vec<_> = results.iter().map(|result| result.info().clone()).collect();
        assert_eq!(module.outputs(), outputs, "{name}");
        group.add(name, arguments, program);
    }
}

#[test]
fn edges_are_lowered() {
    let cases = edges::cases();
    assert!(cases.len() > 100, "{}", cases.len());
    check(&cases, 6);
}

#[test]
fn programs_are_lowered() {
    check(&programs::cases(), 3);
}

#[test]
fn windows_are_lowered() {
    check(&windows::cases(), 3);
}

#[test]
fn linear_algebra_is_lowered() {
    check(&linalg::cases(), 3);
}

#[test]
fn narrow_dtypes_are_lowered() {
    check(&narrow::cases(), 3);
}
