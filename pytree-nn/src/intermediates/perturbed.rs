//! Zeros added to a value: their gradient is that of the value.
//!
//! For y = f(x + p) the gradient with respect to p at p = 0 is that with respect to x, which no argument of the model is.

use std::fmt;

use pytree_core::bug::{LEAVES, expect_next};
use pytree_core::field::{HoldsArrays, StateField};
use pytree_core::{
    KeyPath, Leaf, Partition, Pytree, PytreeOf, SelectPart, Tree, TreeDef, TreeError, Unflattener,
    Visitor, select_partition, tree,
};
use pytree_derive::panicking_twin;
use pytree_transform::{AbstractArray, Tensor, raw};
use thiserror::Error;

/// A value can't be perturbed; it is not changed.
#[derive(Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PerturbationError {
    /// The value has leaves of other shapes than the zeros that the first run made.
    #[error("cannot perturb a value of another shape than in the first run: {}; pop the zeros before a run of other shapes, with `partition::pop(&mut model, &Filter::state::<Perturbation>())`", shapes(.0))]
    Shapes(Vec<(KeyPath, AbstractArray, AbstractArray)>),
    /// The value has another structure than in the first run.
    #[error(
        "cannot perturb a value of another structure than in the first run: expected {expected}, found {found}"
    )]
    Structure {
        /// That of the first run.
        expected: Box<TreeDef>,
        /// That of the value.
        found: Box<TreeDef>,
    },
    /// A derivative is taken in the first run, which makes the zeros: it would lack theirs, silently.
    #[error(
        "cannot perturb for the first time while a gradient is taken: the zeros of {found} are made in this run, so that it would lack theirs; run the model once before, for instance `let _ = model.forward(&x);`"
    )]
    FirstRun {
        /// The first leaf of the value.
        found: AbstractArray,
    },
}

fn shapes(mismatches: &[(KeyPath, AbstractArray, AbstractArray)]) -> String {
    let each = mismatches.iter().map(|(path, expected, found)| {
        let place = if path.keys().is_empty() {
            String::new()
        } else {
            format!("at {path} ")
        };
        format!("{place}expected {expected}, found {found}")
    });
    each.collect::<Vec<_>>().join("; ")
}

impl fmt::Debug for PerturbationError {
    /// As it displays: this is what `unwrap` and a program print that returns it from `main`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Zeros that are added to a value of a forward pass, so that their gradient is the value's.
///
/// The first run makes them, in the value's shape; before it there are none. A field of it is a state, usually of the
/// collection [`Perturbation`](pytree_core::kind::Perturbation), so that a gradient is taken of it only if
/// `.wrt(filter)` says so.
///
/// # Examples
/// ```
/// use pytree_core::{Filter, Module, kind::Perturbation};
/// use pytree_nn::Perturbed;
/// use pytree_transform::{Tensor, value_and_grad_mut};
/// #[derive(Module, Clone, Debug)]
/// struct Model {
///     #[param]
///     scale: Tensor,
///     #[state(Perturbation)]
///     middle: Perturbed,
/// }
/// impl Model {
///     fn forward(&mut self, x: &Tensor) -> Tensor {
///         let x = self.middle.perturb(&(x * &self.scale));
///         x.square().sum()
///     }
/// }
/// let mut model = Model { scale: Tensor::from(3.0_f32), middle: Perturbed::new() };
/// let x = Tensor::from([1.0_f32, 2.0]);
/// let _ = model.forward(&x); // makes the zeros
/// let wrt = Filter::param() | Filter::state::<Perturbation>();
/// let (_, gradient) = value_and_grad_mut(|model: &mut Model| model.forward(&x)).wrt(wrt)(&mut model);
/// // The gradient of the sum of squares of x · scale with respect to x · scale.
/// assert_eq!(gradient["middle"].to_vec::<f32>(), [6.0, 12.0]);
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Perturbed<T = Tensor>(Option<T>);

impl<T> Perturbed<T> {
    /// No zeros yet.
    pub const fn new() -> Self {
        Self(None)
    }

    /// What is added, if a run has made it.
    pub const fn perturbation(&self) -> Option<&T> {
        self.0.as_ref()
    }
}

impl<T: PytreeOf<Tensor>> Perturbed<T> {
    /// The value with the perturbation added. The first time, zeros of its shape are made.
    ///
    /// # Panics
    /// If the value is of another shape, element type or structure than the first time, or if it is the first time and a
    /// derivative is being taken of the value.
    #[must_use = "the gradient is that of what this returns"]
    #[panicking_twin(perturb)]
    #[track_caller]
    pub fn try_perturb(&mut self, value: &T) -> Result<T, PerturbationError> {
        let mut leaves = Vec::new();
        value.each_leaf(&mut |leaf: &Tensor| leaves.push(leaf));
        if let Some(perturbation) = &self.0 {
            check(perturbation, value, &leaves)?;
        } else if let Some(leaf) = leaves.iter().find(|leaf| raw::is_differentiated(leaf)) {
            let found = leaf.info().clone();
            return Err(PerturbationError::FirstRun { found });
        }
        let perturbation = self
            .0
            .get_or_insert_with(|| value.map_leaves(&mut |leaf: &Tensor| Tensor::zeros_like(leaf)));
        let mut added = Vec::new();
        perturbation.each_leaf(&mut |leaf: &Tensor| added.push(leaf));
        let mut added = added.into_iter();
        Ok(value.map_leaves(&mut |leaf: &Tensor| leaf + expect_next(&mut added, LEAVES)))
    }
}

/// That a value is as the first one was.
fn check<T: PytreeOf<Tensor>>(
    perturbation: &T,
    value: &T,
    leaves: &[&Tensor],
) -> Result<(), PerturbationError> {
    let (structure, found) = (tree::structure(perturbation), tree::structure(value));
    if structure != found {
        return Err(PerturbationError::Structure {
            expected: Box::new(structure),
            found: Box::new(found),
        });
    }
    let mut expected = Vec::new();
    perturbation.each_leaf(&mut |leaf: &Tensor| expected.push(leaf.info()));
    let places = structure.leaf_paths().into_iter().zip(expected).zip(leaves);
    let mismatches: Vec<_> = places
        .filter(|((_, expected), leaf)| *expected != leaf.info())
        .map(|((path, expected), leaf)| (path, expected.clone(), leaf.info().clone()))
        .collect();
    if mismatches.is_empty() {
        return Ok(());
    }
    Err(PerturbationError::Shapes(mismatches))
}

impl<T> Default for Perturbed<T> {
    fn default() -> Self {
        Self::new()
    }
}
impl<T: fmt::Debug> fmt::Debug for Perturbed<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Some(perturbation) => perturbation.fmt(f),
            None => f.write_str("None"),
        }
    }
}

impl<T: Pytree> Pytree for Perturbed<T> {
    fn visit<'a>(&'a self, visitor: &mut dyn Visitor<'a>) {
        self.0.visit(visitor);
    }
    fn unflatten(source: &mut Unflattener<'_>) -> Result<Self, TreeError> {
        Option::unflatten(source).map(Self)
    }
}
impl<T: PytreeOf<L>, L: Leaf + Clone> PytreeOf<L> for Perturbed<T> {
    fn each_leaf<'a, F: FnMut(&'a L)>(&'a self, visit: &mut F) {
        self.0.each_leaf(visit);
    }
    fn map_leaves<F: FnMut(&L) -> L>(&self, function: &mut F) -> Self {
        Self(self.0.map_leaves(function))
    }
}
impl<T: PytreeOf<L>, L: Leaf + Clone> SelectPart<L> for Perturbed<T> {
    type Part = Partition<Self, L>;
    fn select_part(tree: Tree<L>) -> Result<Self::Part, TreeError> {
        select_partition(tree)
    }
}
#[diagnostic::do_not_recommend]
impl<T: StateField> StateField for Perturbed<T> {}
impl<T> HoldsArrays for Perturbed<T> {}
