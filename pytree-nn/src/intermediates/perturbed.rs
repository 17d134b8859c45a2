//! Gradients with respect to intermediate values. Zeros are added to a value, because the gradient with respect to
//! these zeros is the gradient with respect to the value.
//!
//! For y = f(x + p), the gradient with respect to p at p = 0 equals the gradient with respect to x. So the gradient
//! with respect to x is available even if x is not an argument of the model.

use std::fmt;

use pytree_base::bug::{LEAVES, expect_next};
use pytree_core::field::{HoldsArrays, StateField};
use pytree_core::{
    KeyPath, Leaf, Partition, Pytree, PytreeOf, SelectPart, Tree, TreeDef, TreeError, Unflattener,
    Visitor, tree,
};
use pytree_derive::panicking_twin;
use pytree_transform::extend::is_differentiated;
use pytree_transform::{AbstractArray, Tensor};
use thiserror::Error;

/// The reason why a value cannot be perturbed. After this error, the field that holds the perturbation is unchanged.
#[derive(Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PerturbationError {
    /// The shapes of the value differ from the shapes of the zeros that the first run created.
    #[error("cannot perturb a value whose shape differs from the first run: {}; before a run with other shapes, pop the stored zeros with `partition::pop(&mut model, &Filter::state::<Perturbation>())`", shapes(.0))]
    Shapes(Vec<(KeyPath, AbstractArray, AbstractArray)>),
    /// The structure of the value differs from the structure of the value in the first run.
    #[error(
        "cannot perturb a value whose structure differs from the first run: expected {expected}, found {found}; use the same structure in each run"
    )]
    Structure {
        /// The structure in the first run.
        expected: Box<TreeDef>,
        /// The structure of the value.
        found: Box<TreeDef>,
    },
    /// The first run creates the zeros, but this run is inside of a function that is differentiated. The gradient of
    /// this function would silently contain no gradient for the zeros.
    #[error(
        "cannot create a perturbation while a gradient is taken: the first run creates the zeros {found}, and the gradient would not contain them; run the model once before, for instance `let _ = model.forward(&x);`"
    )]
    FirstRun {
        /// The dtype and shape of the first leaf of the value.
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

pytree_base::debug_as_display!(PerturbationError);

/// Adds zeros to a value of a forward pass. The gradient with respect to the zeros is the gradient with respect to the
/// value.
///
/// The first run creates the zeros in the shape of the value; before the first run, the field has no leaf. A field of
/// this type is a state, usually of the collection [`Perturbation`](pytree_core::kind::Perturbation). So a gradient
/// includes the zeros only if `.wrt(filter)` selects this field.
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
    /// Creates a field without zeros; the first run creates them.
    pub const fn new() -> Self {
        Self(None)
    }

    /// Returns the zeros, if a run has created them.
    pub const fn perturbation(&self) -> Option<&T> {
        self.0.as_ref()
    }
}

impl<T: PytreeOf<Tensor>> Perturbed<T> {
    /// Returns `value` plus the stored zeros. The first call creates the zeros in the shape of `value`.
    ///
    /// # Panics
    /// If the shape, dtype or structure of the value differs from the first call, or if the first call is inside of a
    /// function that is differentiated.
    #[doc(alias("nnx.Module.perturb", "torch.Tensor.retain_grad"))]
    #[must_use = "use the returned value: only this value depends on the perturbation"]
    #[panicking_twin(perturb)]
    pub fn try_perturb(&mut self, value: &T) -> Result<T, PerturbationError> {
        let mut leaves = Vec::new();
        value.each_leaf(&mut |leaf: &Tensor| leaves.push(leaf));
        if let Some(perturbation) = &self.0 {
            check(perturbation, value, &leaves)?;
        } else if let Some(leaf) = leaves.iter().find(|leaf| is_differentiated(leaf)) {
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

/// Checks that `value` has the same structure, shapes and dtypes as `perturbation`, which holds the zeros of the first
/// run.
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
        Ok(Partition::from_tree(tree))
    }
}
#[diagnostic::do_not_recommend]
impl<T: StateField> StateField for Perturbed<T> {}
impl<T> HoldsArrays for Perturbed<T> {}
