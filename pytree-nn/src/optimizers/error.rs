//! What can go wrong with optimisers, with all parameters concerned.

use std::collections::BTreeSet;
use std::fmt;

use pytree_core::{KeyPath, TreeError};
use pytree_transform::AbstractArray;
use thiserror::Error;

/// A gradient can't be applied; nothing was changed.
#[derive(Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum OptimizerError {
    /// The gradients are not those of the parameters trained.
    #[error("cannot update the model:{}", list(.problems))]
    Gradients {
        /// Each leaf for which this is so.
        problems: Vec<GradientProblem>,
    },
    /// The model has another structure than the one that the optimiser was made for.
    #[error(
        "cannot update the model: the optimizer was made for a model of {expected} leaves, found {found}; make a new one with `Optimizer::new`"
    )]
    OtherModel {
        /// The leaves of the model the optimiser was made for.
        expected: usize,
        /// The leaves of the model to update.
        found: usize,
    },
    /// A leaf to be trained is not a float.
    #[error(
        "cannot train {path}: expected f32 or f64, found {found}; make it a state, or choose the leaves with `Optimizer::with_filter`"
    )]
    NotFloat {
        /// The leaf.
        path: String,
        /// What it is.
        found: AbstractArray,
    },
    /// No transformation of the chain has a learning rate.
    #[error(
        "cannot set the learning rate: no transformation of the chain has one; end the chain with `scale_by_learning_rate`"
    )]
    NoLearningRate,
    /// A learning rate that is not one number.
    #[error(
        "cannot set the learning rate: expected one number, found {found}; an optimizer has one rate, and parts of a model with rates of their own have an optimizer each"
    )]
    LearningRate {
        /// What was given.
        found: AbstractArray,
    },
    /// The filter names a path that is not there, or accepts no leaf.
    #[error("cannot choose what to train: {0}")]
    Filter(TreeError),
    /// The model does not go together again.
    #[error("cannot update the model: {0}")]
    Tree(#[from] TreeError),
}

impl fmt::Debug for OptimizerError {
    /// As it displays: this is what `unwrap` and a program print that returns it from `main`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// What is wrong with the gradient at one place.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum GradientProblem {
    /// A parameter that is trained received none.
    Missing(KeyPath),
    /// A leaf that is not trained received one.
    Frozen(KeyPath),
    /// A parameter received one that was a state, as in a frozen module, when the optimiser was made.
    ThawedSince(KeyPath),
    /// A parameter that is trained received none, because it is a state now, as in a frozen module.
    FrozenSince(KeyPath),
    /// The gradient is of another shape or element type than the parameter.
    Shape {
        /// The parameter.
        path: KeyPath,
        /// What it is.
        expected: AbstractArray,
        /// What its gradient is.
        found: AbstractArray,
    },
    /// The parameter is of another shape or element type than the optimiser was made for.
    Parameter {
        /// The parameter.
        path: KeyPath,
        /// What the optimiser was made for.
        expected: AbstractArray,
        /// What it is.
        found: AbstractArray,
    },
}

/// The most problems a message lists; the rest is counted.
const LISTED: usize = 20;

fn list(problems: &[GradientProblem]) -> String {
    let mut text = String::new();
    let mut mends = BTreeSet::new();
    for problem in problems.iter().take(LISTED) {
        let (line, mend) = match problem {
            GradientProblem::Missing(path) => (
                format!("{} received no gradient", path.or_root()),
                "the loss does not depend on a parameter without gradient, or `.wrt(filter)` left it out: use it, or freeze it with `Optimizer::with_filter(&model, …, &filter)`",
            ),
            GradientProblem::Frozen(path) => (
                format!("{} is frozen, but received a gradient", path.or_root()),
                "take the gradient with respect to the leaves that are trained: `.wrt(filter)`, with the filter of the optimizer",
            ),
            GradientProblem::ThawedSince(path) => (
                format!(
                    "{} was frozen, or a state, when the optimizer was made, and is a parameter now",
                    path.or_root()
                ),
                "make a new optimizer for the model as it is: `Optimizer::new(&model, …)`; or freeze again what was frozen",
            ),
            GradientProblem::FrozenSince(path) => (
                format!(
                    "{} was a parameter when the optimizer was made, and is frozen, or a state, now",
                    path.or_root()
                ),
                "make a new optimizer for the model as it is: `Optimizer::new(&model, …)`; or unfreeze again what was not frozen",
            ),
            GradientProblem::Parameter {
                path,
                expected,
                found,
            } => (
                format!(
                    "{} is {found}, the optimizer was made for {expected}",
                    path.or_root()
                ),
                "make a new optimizer for this model: `Optimizer::new(&model, …)`",
            ),
            GradientProblem::Shape {
                path,
                expected,
                found,
            } => (
                format!(
                    "the gradient at {} is {found}, expected {expected}",
                    path.or_root()
                ),
                "take the gradient of this model, or make a new optimizer if its shapes changed",
            ),
        };
        text.push_str("\n  ");
        text.push_str(&line);
        mends.insert(mend);
    }
    if problems.len() > LISTED {
        text.push_str("\n  and ");
        text.push_str(&(problems.len() - LISTED).to_string());
        text.push_str(" more");
    }
    for mend in mends {
        text.push('\n');
        text.push_str(mend);
    }
    text
}
