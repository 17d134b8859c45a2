//! `associative_scan`: computes all prefix combinations in a number of steps that grows with the logarithm of the
//! length.

use std::panic::Location;

use pytree_base::bug::{LEAVES, pairs};
use pytree_core::boundary::flatten_with_references;
use pytree_core::graph;
use pytree_kernels::base::dtype::AbstractArray;
use pytree_kernels::base::shape::{PerAxis, Shape};

use crate::base::error::or_panic;
use crate::primitives::slice::{concatenate, reverse, slice};
use crate::tensor::Tensor;
use crate::tensor::trace::at_line_by_default;
use crate::tensor::traceable::{Traceable, rebuild};
use crate::transformations::control::loops::{ScanOptions, length_of};
use crate::transformations::control::mismatch::{differences, fix};
use crate::transformations::function::call_reading;
use crate::transformations::returned::Returned;

/// Combines the first 1, 2, 3, … elements along axis 0 by an associative function, and returns the stacked
/// combinations.
///
/// The function receives two stacks of elements and must combine them pair by pair. For n elements, the function is
/// called about 2 log₂ n times, but a [`scan`](crate::scan) calls it n - 1 times. Fewer calls are possible because
/// `(a + b) + (c + d)` equals `a + (b + (c + d))` for an associative function (Blelloch 1990, "Prefix sums and their
/// applications").
///
/// The function may return a `Result`; see [`Returned`]. If the function returns an `Err`, the call returns this `Err`.
///
/// # Examples
/// ```
/// use pytree_transform::{Tensor, associative_scan};
/// let x = Tensor::from([1.0_f32, 2.0, 3.0, 4.0]);
/// let products = associative_scan(|a, b| a * b, x);
/// assert_eq!(products.to_vec::<f32>(), [1.0, 2.0, 6.0, 24.0]);
/// ```
///
/// # Panics
/// If the leaves of `elements` have no axes or differ in the length of their first axis, or if the result of the
/// function differs from an element in structure, shape or dtype.
#[doc(alias = "lax.associative_scan")]
#[track_caller]
pub fn associative_scan<X: Traceable, R: Returned<K, Value = X>, K>(
    function: impl Fn(X, X) -> R,
    elements: X,
) -> R::With<X> {
    associative_scan_with(ScanOptions::new(), function, elements)
}

/// Combines elements as [`associative_scan`] does, with options. With [`ScanOptions::reverse`], combines the last 1, 2,
/// 3, … elements. The first argument of the function is then the later element.
///
/// # Examples
/// ```
/// use pytree_transform::{ScanOptions, Tensor, associative_scan_with};
/// let x = Tensor::from([1.0_f32, 2.0, 3.0]);
/// let sums = associative_scan_with(ScanOptions::new().reverse(), |a, b| a + b, x);
/// assert_eq!(sums.to_vec::<f32>(), [6.0, 5.0, 3.0]);
/// ```
///
/// # Panics
/// Panics in the same cases as [`associative_scan`], and if the length option differs from the length of the elements.
#[track_caller]
pub fn associative_scan_with<X: Traceable, R: Returned<K, Value = X>, K>(
    options: ScanOptions,
    function: impl Fn(X, X) -> R,
    elements: X,
) -> R::With<X> {
    let (leaves, treedef, _) = flatten_with_references::<Tensor, X>(&elements);
    length_of("scan", &treedef, &leaves, options.given_length());
    let flipped = |leaves: Vec<Tensor>| -> Vec<Tensor> {
        if !options.is_reverse() {
            return leaves;
        }
        let flip = |leaf: &Tensor| or_panic(reverse(leaf, &[0]));
        leaves.iter().map(flip).collect()
    };
    let line = Location::caller();
    let leaves = at_line_by_default(line, || flipped(leaves));
    let combine = |left: Vec<Tensor>, right: Vec<Tensor>| {
        let expected = infos(&left);
        let result = call_reading("associative_scan", &treedef, left, |left| {
            call_reading("associative_scan", &treedef, right, |right| {
                function(left, right).into_value()
            })
        });
        let (leaves, after) = graph::flatten::<Tensor, X>(&result.map_err(Failure::Returned)?);
        let problems = differences((&treedef, &expected), (&after, &infos(&leaves)));
        if problems.is_empty() {
            return Ok(leaves);
        }
        Err(Failure::Differs(problems))
    };
    let results = match at_line_by_default(line, || prefixes(&combine, leaves)) {
        Ok(results) => results,
        Err(Failure::Returned(error)) => return R::with(Err(error)),
        Err(Failure::Differs(problems)) => panic!(
            "cannot scan: the combination of two elements differs from an element: {}; the combination must keep structure, shapes and element types: {}",
            problems.join("; "),
            fix(&problems)
        ),
    };
    let results = at_line_by_default(line, || flipped(results));
    R::with(Ok(rebuild(&treedef, results)))
}

/// The reason why two stacks of elements cannot be combined: the user's function returned an error, or a result that
/// differs from an element in structure, shape or dtype.
enum Failure<E> {
    Returned(E),
    Differs(Vec<String>),
}

fn infos(leaves: &[Tensor]) -> Vec<AbstractArray> {
    leaves.iter().map(|leaf| leaf.info().clone()).collect()
}

/// Returns every `step`-th element along axis 0, from `start` up to, but not including, `limit`.
fn part(leaf: &Tensor, start: usize, limit: usize, step: usize) -> Tensor {
    let mut starts: PerAxis = leaf.shape().iter().map(|_| 0).collect();
    let mut limits = PerAxis::from_slice(leaf.shape());
    let mut steps: PerAxis = leaf.shape().iter().map(|_| 1).collect();
    (starts[0], limits[0], steps[0]) = (start, limit, step);
    or_panic(slice(leaf, &starts, &limits, &steps))
}

/// A function that combines two stacks of elements pair by pair.
type Combine<'c, E> = dyn Fn(Vec<Tensor>, Vec<Tensor>) -> Result<Vec<Tensor>, Failure<E>> + 'c;

/// Returns all prefix combinations. Combines neighbours in pairs. A recursive call on the pairs returns the results at
/// odd positions. The result at an even position combines the previous result with the element at this position.
fn prefixes<E>(combine: &Combine<'_, E>, leaves: Vec<Tensor>) -> Result<Vec<Tensor>, Failure<E>> {
    let length = leaves.first().map_or(0, |leaf| leaf.shape()[0]);
    if length < 2 {
        return Ok(leaves);
    }
    let parts = |start: usize, limit: usize, step: usize| -> Vec<Tensor> {
        let part = |leaf: &Tensor| part(leaf, start, limit, step);
        leaves.iter().map(part).collect()
    };
    let neighbours = combine(parts(0, length - 1, 2), parts(1, length, 2))?;
    let odd = prefixes(combine, neighbours)?;
    let first = parts(0, 1, 1);
    let even = if length == 2 {
        first
    } else {
        let before: Vec<Tensor> = odd
            .iter()
            .map(|leaf| part(leaf, 0, (length - 1) / 2, 1))
            .collect();
        let rest = combine(before, parts(2, length, 2))?;
        let both = pairs(&first, &rest, LEAVES);
        both.map(|(first, rest)| or_panic(concatenate(&[first, rest], 0)))
            .collect()
    };
    let both = pairs(&even, &odd, LEAVES);
    Ok(both.map(|(even, odd)| interleaved(even, odd)).collect())
}

/// Interleaves the elements of two stacks. The first stack may have one element more than the second stack.
fn interleaved(even: &Tensor, odd: &Tensor) -> Tensor {
    let count = odd.shape()[0];
    let pairs = [part(even, 0, count, 1), odd.clone()];
    let mut shape = Shape::from(even.shape());
    shape[0] = 2 * count;
    let mixed = Tensor::stack(&pairs, 1).reshape(&shape);
    if even.shape()[0] == count {
        return mixed;
    }
    let last = part(even, count, count + 1, 1);
    or_panic(concatenate(&[&mixed, &last], 0))
}
