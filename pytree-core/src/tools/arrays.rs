//! Functions over all arrays of one element type, whatever their dimensions.
//!
//! A model with `ndarray` fields usually has arrays of several dimensions: the weights are `Array2<f32>`, the biases
//! `Array1<f32>`. These are different types, so the functions of [`tree`](mod@crate::tree), whose leaves all have one
//! type, do not accept such a model. The functions of this module show each array of the element type `A`, and each
//! number of this type, as a view of dynamic dimension. They leave all other leaves as they are.
//!
//! A shared node is visited once, as by the functions of [`graph`].
//!
//! # Examples
//! ```
//! use ndarray::{Array1, Array2, ArrayViewD, ArrayViewMutD, array};
//! use pytree_core::{Module, arrays};
//!
//! #[derive(Module)]
//! struct Linear {
//!     #[param]
//!     weight: Array2<f32>,
//!     #[param]
//!     bias: Array1<f32>,
//!     #[state]
//!     count: i32,
//! }
//!
//! let mut model = Linear { weight: array![[1.0, 2.0]], bias: array![3.0, 4.0], count: 7 };
//! let gradient = arrays::map(&model, |x: ArrayViewD<'_, f32>| &x * 10.0);
//! model = arrays::map2(&model, &gradient, |x: ArrayViewD<'_, f32>, slope: ArrayViewD<'_, f32>| &x - &slope * 0.01)?;
//! assert_eq!(arrays::to_vec::<f32, _>(&model), [0.9, 1.8, 2.7, 3.6]);
//! arrays::for_each_mut(&mut model, |mut x: ArrayViewMutD<'_, f32>| x.fill(0.0));
//! assert_eq!((model.weight[[0, 1]], model.bias[1], model.count), (0.0, 0.0, 7));
//! # Ok::<(), pytree_core::TreeError>(())
//! ```

use std::any::type_name;

use ndarray::{ArrayD, ArrayViewD, ArrayViewMutD};
use pytree_derive::panicking_twin;

use crate::base::error::{LeafMismatch, TreeError};
use crate::base::text::short_name;
use crate::contract::arena::Arena;
use crate::contract::flatten::Sharing;
use crate::contract::pytree::{Pytree, not_rebuilt};
use crate::contract::unflatten::unflatten_unchecked;
use crate::node::leaf::{AnyLeaf, Element, Leaf};
use crate::references::boundary;
use crate::treedef::TreeDef;
use crate::trees::dynamic::same_but_for_some;
use crate::trees::functions::flatten_borrowed;
use crate::trees::graph;

/// Calls `function` with a view of each array.
///
/// # Examples
/// ```
/// use ndarray::{ArrayViewD, array};
/// use pytree_core::arrays;
/// let model = (array![[1.0_f32, 2.0]], array![3.0_f32], 4_i64);
/// let mut squares = 0.0;
/// arrays::for_each(&model, |x: ArrayViewD<'_, f32>| squares += x.mapv(|x| x * x).sum());
/// assert_eq!(squares, 14.0);
/// ```
///
/// # Panics
/// If the model is nested too deep, or a reference may not be read here.
///
/// # Errors
/// The errors of [`graph::try_structure`].
#[panicking_twin(for_each)]
pub fn try_for_each<A: Element, M: Pytree>(
    model: &M,
    mut function: impl FnMut(ArrayViewD<'_, A>),
) -> Result<(), TreeError> {
    let arena = Arena::default();
    let (leaves, _) = flatten_borrowed(Sharing::Preserve, model, &arena)?;
    let views = leaves.into_iter().filter_map(|leaf| leaf.array_view());
    views.for_each(&mut function);
    Ok(())
}

/// Returns the elements of all arrays as one list: the arrays in order, and the elements of each array in row-major
/// order.
///
/// [`ravel`](crate::ravel::ravel) also returns the form, which builds a model from such a list.
///
/// # Examples
/// ```
/// use ndarray::array;
/// use pytree_core::arrays;
/// let model = (array![[1.0_f32, 2.0]], array![3.0_f32], 4_i64);
/// assert_eq!(arrays::to_vec::<f32, _>(&model), [1.0, 2.0, 3.0]);
/// ```
///
/// # Panics
/// In the same cases as [`for_each`].
#[must_use]
#[track_caller]
pub fn to_vec<A: Element, M: Pytree>(model: &M) -> Vec<A> {
    let mut elements = Vec::new();
    for_each(model, |array: ArrayViewD<'_, A>| {
        elements.extend(array.iter().copied());
    });
    elements
}

/// Returns the model with each array replaced by the result of `function`, which must have as many axes as the array.
/// Shared nodes stay shared, and references are new.
///
/// # Examples
/// ```
/// use ndarray::{ArrayViewD, array};
/// use pytree_core::arrays;
/// let model = (array![[1.0_f32, 2.0]], array![3.0_f32], 4_i64);
/// let doubled = arrays::map(&model, |x: ArrayViewD<'_, f32>| &x * 2.0);
/// assert_eq!(doubled, (array![[2.0, 4.0]], array![6.0], 4));
/// ```
///
/// # Panics
/// If a result has another number of axes than its array, and in the cases of [`for_each`].
///
/// # Errors
/// [`TreeError::LeafTypes`] if a result has another number of axes than its array, or the errors of
/// [`try_for_each`].
#[panicking_twin(map)]
pub fn try_map<A: Element, M: Pytree>(
    model: &M,
    mut function: impl FnMut(ArrayViewD<'_, A>) -> ArrayD<A>,
) -> Result<M, TreeError> {
    let (mut leaves, treedef) = graph::try_flatten_any(model)?;
    let mut problems = Problems::default();
    for (position, leaf) in leaves.iter_mut().enumerate() {
        if let Some(array) = leaf.array_view() {
            let mapped = function(array);
            problems.put(position, leaf, mapped);
        }
    }
    problems.check("cannot map arrays", &treedef)?;
    unflatten_unchecked(&treedef, leaves).map_err(not_rebuilt::<M>)
}

/// Returns the model with each array replaced by the result of `function`, which receives the array and the array at
/// the same place in `other`. See [`map`].
///
/// # Examples
/// ```
/// use ndarray::{ArrayViewD, array};
/// use pytree_core::arrays;
/// let model = (array![[1.0_f32, 2.0]], array![3.0_f32]);
/// let sum = arrays::map2(&model, &model, |x: ArrayViewD<'_, f32>, y: ArrayViewD<'_, f32>| &x + &y)?;
/// assert_eq!(sum, (array![[2.0, 4.0]], array![6.0]));
/// # Ok::<(), pytree_core::TreeError>(())
/// ```
///
/// # Errors
/// - [`TreeError::Structure`] or [`TreeError::LeafTypes`] if the structures differ, or if a leaf of `other` is not an
///   array of `B`.
/// - The errors of [`try_map`].
#[track_caller]
pub fn map2<A: Element, B: Element, M: Pytree, N: Pytree>(
    model: &M,
    other: &N,
    mut function: impl FnMut(ArrayViewD<'_, A>, ArrayViewD<'_, B>) -> ArrayD<A>,
) -> Result<M, TreeError> {
    let (mut leaves, treedef) = graph::try_flatten_any(model)?;
    let arena = Arena::default();
    let (others, found) = flatten_borrowed(Sharing::Preserve, other, &arena)?;
    same_but_for_some("cannot map two models together", &treedef, &found)?;
    let is_wrong = |(left, right): &(&AnyLeaf, &&dyn Leaf)| {
        left.array_view::<A>().is_some() && right.array_view::<B>().is_none()
    };
    let mut problems = Problems::default();
    for (position, pair) in leaves.iter().zip(&others).enumerate() {
        if is_wrong(&pair) {
            let expected = format!("an array of {}", short_name(type_name::<B>()));
            problems.0.push((position, expected, described(*pair.1)));
        }
    }
    problems.check("cannot map two models together", &treedef)?;
    let mut problems = Problems::default();
    for (position, (leaf, other)) in leaves.iter_mut().zip(others).enumerate() {
        if let (Some(left), Some(right)) = (leaf.array_view(), other.array_view()) {
            let mapped = function(left, right);
            problems.put(position, leaf, mapped);
        }
    }
    problems.check("cannot map arrays", &treedef)?;
    unflatten_unchecked(&treedef, leaves).map_err(not_rebuilt::<M>)
}

/// Calls `function` with a mutable view of each array of a copy of the model, and then replaces the model by the copy.
/// Writes the references of the model that contain arrays.
///
/// # Examples
/// ```
/// use ndarray::{ArrayViewMutD, array};
/// use pytree_core::arrays;
/// let mut model = (array![[1.0_f32, 2.0]], array![3.0_f32], 4_i64);
/// arrays::for_each_mut(&mut model, |mut x: ArrayViewMutD<'_, f32>| x *= 2.0);
/// assert_eq!(model, (array![[2.0, 4.0]], array![6.0], 4));
/// ```
///
/// # Panics
/// If a reference may not be read or written here, or if another thread writes a reference of the model during the
/// call.
///
/// # Errors
/// The errors of [`try_for_each`], and [`TreeError::Reference`] if a reference may not be written here, or if another
/// thread writes a reference of the model during the call. After an error, the model is unchanged.
#[panicking_twin(for_each_mut)]
pub fn try_for_each_mut<A: Element, M: Pytree>(
    model: &mut M,
    mut function: impl FnMut(ArrayViewMutD<'_, A>),
) -> Result<(), TreeError> {
    let (mut leaves, treedef, references) = boundary::try_flatten_any_with_references(model)?;
    let mut is_array = Vec::with_capacity(leaves.len());
    for leaf in &mut leaves {
        let array = leaf.array_view_mut();
        is_array.push(array.is_some());
        array.into_iter().for_each(&mut function);
    }
    *model = boundary::unflatten_changed(&treedef, leaves, &references, |leaf| is_array[leaf])?;
    Ok(())
}

/// Leaves that cannot be what they should be: the position of each, what was expected, and what was found.
#[derive(Default)]
struct Problems(Vec<(usize, String, String)>);

impl Problems {
    /// Replaces a leaf by an array, which must have as many axes as the leaf.
    fn put<A: Element>(&mut self, position: usize, leaf: &mut AnyLeaf, array: ArrayD<A>) {
        let axes = array.ndim();
        if !leaf.put_array(array) {
            let found = format!("a result with {axes} axes");
            self.0.push((position, described(leaf), found));
        }
    }

    /// # Errors
    /// [`TreeError::LeafTypes`] with all problems.
    fn check(self, doing: &'static str, treedef: &TreeDef) -> Result<(), TreeError> {
        if self.0.is_empty() {
            return Ok(());
        }
        let paths = treedef.leaf_paths();
        let mismatch = |(position, expected, found): (usize, String, String)| LeafMismatch {
            path: paths[position].clone(),
            expected,
            found,
        };
        Err(TreeError::LeafTypes {
            doing,
            mismatches: self.0.into_iter().map(mismatch).collect(),
        })
    }
}

/// Returns the dtype and shape of a leaf, or its type if it is not an array.
fn described(leaf: &dyn Leaf) -> String {
    match leaf.array_info() {
        Some(info) => info.to_string(),
        None => short_name(leaf.type_name()),
    }
}
