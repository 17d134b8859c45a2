//! Collectives: operations over a named batch axis of an enclosing `vmap`.
//!
//! The mapped function computes one example. A collective in this function combines the values of all examples.
//! [`Vmap::axis_name`](crate::Vmap::axis_name) binds the name of the batch axis. If nested batch axes have the same
//! name, the innermost axis is used.
//!
//! A value without the batch axis is the same for all examples. Collectives are differentiated, batched and compiled
//! like other operations.

use std::panic::Location;
use std::sync::Arc;

use pytree_core::graph;
use pytree_kernels::base::dtype::DType;

use crate::base::axis_names::{AxisName, AxisNames};
use crate::base::error::{TensorError, or_panic};
use crate::operations::axes::{axis_of, new_axis_of};
use crate::primitives::collectives;
use crate::tensor::Tensor;
use crate::tensor::trace::{at_line_by_default, axis_length};
use crate::tensor::traceable::{Traceable, rebuild};

/// Applies `apply` to each leaf of a pytree. Rebuilds the pytree from the results.
#[track_caller]
fn each_leaf<T: Traceable>(
    operation: &'static str,
    value: &T,
    names: &AxisNames,
    apply: impl Fn(&Tensor, &[AxisName]) -> Result<Tensor, TensorError>,
) -> T {
    or_panic(check(operation, names));
    let (leaves, treedef) = graph::flatten::<Tensor, T>(value);
    let mut results = Vec::with_capacity(leaves.len());
    let line = Location::caller();
    for leaf in &leaves {
        let applied = at_line_by_default(line, || apply(leaf, names.as_slice()));
        results.push(or_panic(applied));
    }
    rebuild(&treedef, results)
}

/// Returns an error if the name of a batch axis occurs twice or is not bound.
fn check(operation: &'static str, names: &AxisNames) -> Result<(), TensorError> {
    if let Some(name) = names.duplicate() {
        return Err(TensorError::DuplicateAxis {
            operation,
            name: name.to_string(),
        });
    }
    length_of(operation, names).map(drop)
}

/// Returns the number of examples: the product of the lengths of the named axes.
fn length_of(operation: &'static str, names: &AxisNames) -> Result<usize, TensorError> {
    let mut lengths = names.as_slice().iter();
    lengths.try_fold(1, |product, name| {
        Ok(product * axis_length(operation, name)?)
    })
}

/// Returns the sum over all examples, `Σⱼ xⱼ`, of each leaf of a pytree. Bools are summed as i32.
///
/// A value that is the same for all examples is multiplied by the number of examples. In reverse mode, each example
/// receives the sum of the cotangents of all examples. Equivalent to `jax.lax.psum`.
///
/// # Panics
/// Panics if an axis name is not bound or is given twice.
///
/// # Examples
/// ```
/// use pytree_transform::{Tensor, psum, vmap};
/// let normalize = vmap(|x: Tensor| &x / psum(&x, "batch")).axis_name("batch");
/// assert_eq!(normalize(Tensor::from([1.0, 3.0])).to_vec::<f64>(), [0.25, 0.75]);
/// ```
#[doc(alias("lax.psum", "torch.distributed.all_reduce"))]
#[must_use]
#[track_caller]
pub fn psum<T: Traceable>(value: &T, axis_name: impl Into<AxisNames>) -> T {
    each_leaf("psum", value, &axis_name.into(), |leaf, names| {
        if leaf.dtype() == DType::Bool {
            return collectives::psum(&leaf.convert(DType::I32), names);
        }
        collectives::psum(leaf, names)
    })
}

/// Returns the mean over all examples of each leaf of a pytree. Equivalent to `jax.lax.pmean`.
///
/// # Panics
/// Panics if an axis name is not bound or is given twice, or if a leaf does not contain floats.
///
/// # Examples
/// ```
/// use pytree_transform::{Tensor, pmean, vmap};
/// let center = vmap(|x: Tensor| &x - pmean(&x, "batch")).axis_name("batch");
/// assert_eq!(center(Tensor::from([1.0, 3.0])).to_vec::<f64>(), [-1.0, 1.0]);
/// ```
#[doc(alias = "lax.pmean")]
#[must_use]
#[track_caller]
pub fn pmean<T: Traceable>(value: &T, axis_name: impl Into<AxisNames>) -> T {
    let axis_name = axis_name.into();
    let length = or_panic(length_of("pmean", &axis_name));
    each_leaf("pmean", value, &axis_name, |leaf, names| {
        if !leaf.dtype().is_float() {
            return Err(TensorError::dtype("pmean", &[leaf.info()], "a float dtype"));
        }
        let count = Tensor::constant(leaf.dtype(), length as f64);
        Ok(collectives::psum(leaf, names)? / count)
    })
}

/// Returns the elementwise maximum over all examples of each leaf of a pytree.
///
/// Examples that share the maximum receive equal shares of the cotangent. Equivalent to `jax.lax.pmax`.
///
/// # Panics
/// Panics if an axis name is not bound or is given twice, or if there are no examples.
///
/// # Examples
/// ```
/// use pytree_transform::{Tensor, pmax, vmap};
/// let scale = vmap(|x: Tensor| &x / pmax(&x, "batch")).axis_name("batch");
/// assert_eq!(scale(Tensor::from([1.0, 4.0])).to_vec::<f64>(), [0.25, 1.0]);
/// ```
#[doc(alias = "lax.pmax")]
#[must_use]
#[track_caller]
pub fn pmax<T: Traceable>(value: &T, axis_name: impl Into<AxisNames>) -> T {
    each_leaf("pmax", value, &axis_name.into(), collectives::pmax)
}

/// Returns the elementwise minimum over all examples of each leaf of a pytree.
///
/// Examples that share the minimum receive equal shares of the cotangent. Equivalent to `jax.lax.pmin`.
///
/// # Panics
/// Panics in the same cases as [`pmax`].
///
/// # Examples
/// ```
/// use pytree_transform::{Tensor, pmin, vmap};
/// let shift = vmap(|x: Tensor| &x - pmin(&x, "batch")).axis_name("batch");
/// assert_eq!(shift(Tensor::from([3, 1])).to_vec::<i32>(), [2, 0]);
/// ```
#[doc(alias = "lax.pmin")]
#[must_use]
#[track_caller]
pub fn pmin<T: Traceable>(value: &T, axis_name: impl Into<AxisNames>) -> T {
    each_leaf("pmin", value, &axis_name.into(), |leaf, names| {
        collectives::pmax(&in_reverse_order(leaf), names).map(|max| in_reverse_order(&max))
    })
}

/// Reverses the order of the values, so that the greatest becomes the least. A second call restores the leaf.
fn in_reverse_order(leaf: &Tensor) -> Tensor {
    if leaf.dtype().is_float() {
        return -leaf;
    }
    // The bitwise complement reverses the order of integers. A negation would overflow for the least integer.
    !leaf
}

/// The way in which [`all_gather`] and [`all_to_all`] join the values of examples (`tiled` in JAX).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Tiling {
    /// Stacks the values along a new axis, like `tiled=False`.
    Stacked,
    /// Concatenates the values along an existing axis, like `tiled=True`.
    Tiled,
}

/// Gathers the values of all examples for each leaf of a pytree. Each example receives all values.
///
/// [`Tiling::Stacked`] stacks the values along a new axis, which is axis `axis` of the result. [`Tiling::Tiled`]
/// concatenates the values along the existing axis `axis`. Negative axes count from the end.
///
/// With more than one name, the index along the first named axis varies slowest. Equivalent to `jax.lax.all_gather`.
///
/// # Panics
/// Panics if a batch axis is not bound or is given twice, or if `axis` is out of range for a leaf.
///
/// # Examples
/// ```
/// use pytree_transform::{Tensor, Tiling, all_gather, vmap};
/// let all = vmap(|x: Tensor| all_gather(&x, "batch", 0, Tiling::Stacked)).axis_name("batch");
/// assert_eq!(all(Tensor::from([1, 2])), Tensor::from([[1, 2], [1, 2]]));
/// let rows = Tensor::from([[1, 2], [3, 4]]);
/// let all = vmap(|x: Tensor| all_gather(&x, "batch", 0, Tiling::Tiled)).axis_name("batch");
/// assert_eq!(all(rows), Tensor::from([[1, 2, 3, 4], [1, 2, 3, 4]]));
/// ```
#[doc(alias("lax.all_gather", "torch.distributed.all_gather"))]
#[must_use]
#[track_caller]
pub fn all_gather<T: Traceable>(
    value: &T,
    axis_name: impl Into<AxisNames>,
    axis: isize,
    tiling: Tiling,
) -> T {
    let tiled = tiling == Tiling::Tiled;
    each_leaf("all_gather", value, &axis_name.into(), |leaf, names| {
        let place = if tiled {
            axis_of("all_gather", leaf.info(), axis)?
        } else {
            new_axis_of("all_gather", leaf.info(), axis)?
        };
        let mut gathered = leaf.clone();
        for (position, name) in names.iter().rev().enumerate() {
            gathered = collectives::all_gather(&gathered, name, place)?;
            if tiled || position > 0 {
                gathered = joined(&gathered, place)?;
            }
        }
        Ok(gathered)
    })
}

/// Sums each leaf of a pytree over all examples, and gives each example one part of the sum along `axis`. Negative axes
/// count from the end.
///
/// With [`Tiling::Stacked`], the axis must be as long as the batch axis. Example `i` gets slice `i`, without the axis.
/// With [`Tiling::Tiled`], the axis is divided into one part of equal length for each example. Each example gets as many
/// elements as from [`psum`] followed by a slice, but the examples exchange only half as many. Bools are summed as i32.
/// Equivalent to `jax.lax.psum_scatter`.
///
/// # Panics
/// Panics unless exactly one axis name is given and is bound. Also panics if `axis` is out of range for a leaf, or if its
/// length does not fit the number of examples.
///
/// # Examples
/// ```
/// use pytree_transform::{Tensor, Tiling, psum_scatter, vmap};
/// let x = Tensor::from([[1, 2], [3, 4]]);
/// let f = vmap(|x: Tensor| psum_scatter(&x, "batch", 0, Tiling::Stacked)).axis_name("batch");
/// assert_eq!(f(x.clone()), Tensor::from([4, 6]));
/// let f = vmap(|x: Tensor| psum_scatter(&x, "batch", 0, Tiling::Tiled)).axis_name("batch");
/// assert_eq!(f(x), Tensor::from([[4], [6]]));
/// ```
#[doc(alias("lax.psum_scatter", "torch.distributed.reduce_scatter"))]
#[must_use]
#[track_caller]
pub fn psum_scatter<T: Traceable>(
    value: &T,
    axis_name: impl Into<AxisNames>,
    axis: isize,
    tiling: Tiling,
) -> T {
    let names = axis_name.into();
    single("psum_scatter", &names);
    each_leaf("psum_scatter", value, &names, |leaf, names| {
        let axis = axis_of("psum_scatter", leaf.info(), axis)?;
        let leaf = match leaf.dtype() {
            DType::Bool => &leaf.convert(DType::I32),
            _ => leaf,
        };
        match tiling {
            Tiling::Stacked => collectives::reduce_scatter(leaf, &names[0], axis),
            Tiling::Tiled => {
                let pieces = cut("psum_scatter", leaf, axis, &names[0])?;
                collectives::reduce_scatter(&pieces, &names[0], axis)
            }
        }
    })
}

/// Returns the tensor with `axis` and the next axis joined into one axis.
fn joined(tensor: &Tensor, axis: usize) -> Result<Tensor, TensorError> {
    let mut shape = tensor.info().shape.clone();
    let length = shape.remove(axis);
    shape[axis] *= length;
    tensor.try_reshape(shape)
}

/// Returns the index of the current example along the batch axis, as a scalar i32.
///
/// With more than one name, the index along the first named axis varies slowest. Equivalent to `jax.lax.axis_index`.
///
/// # Panics
/// Panics if an axis name is not bound or is given twice.
///
/// # Examples
/// ```
/// use pytree_transform::{Tensor, axis_index, vmap};
/// let numbered = vmap(|x: Tensor| x * axis_index("batch")).axis_name("batch");
/// assert_eq!(numbered(Tensor::from([5, 5, 5])).to_vec::<i32>(), [0, 5, 10]);
/// ```
#[doc(alias("lax.axis_index", "torch.distributed.get_rank"))]
#[must_use]
#[track_caller]
pub fn axis_index(axis_name: impl Into<AxisNames>) -> Tensor {
    let names = axis_name.into();
    or_panic(check("axis_index", &names));
    let mut position: Option<Tensor> = None;
    for name in names.as_slice() {
        let own = or_panic(collectives::axis_index(name));
        let length = or_panic(axis_length("axis_index", name));
        position = Some(match position {
            Some(slower) => slower * Tensor::constant(DType::I32, length as f64) + own,
            None => own,
        });
    }
    position.unwrap_or_else(|| Tensor::constant(DType::I32, 0.0))
}

/// Returns the number of examples: the product of the lengths of the named axes. Equivalent to `jax.lax.axis_size`.
///
/// # Panics
/// Panics if an axis name is not bound or is given twice.
///
/// # Examples
/// ```
/// use pytree_transform::{Tensor, axis_size, vmap};
/// let shares = vmap(|x: Tensor| x / axis_size("batch") as f64).axis_name("batch");
/// assert_eq!(shares(Tensor::from([2.0, 4.0])).to_vec::<f64>(), [1.0, 2.0]);
/// ```
#[doc(alias("lax.axis_size", "torch.distributed.get_world_size"))]
#[must_use]
#[track_caller]
pub fn axis_size(axis_name: impl Into<AxisNames>) -> usize {
    let names = axis_name.into();
    or_panic(check("axis_size", &names));
    or_panic(length_of("axis_size", &names))
}

/// Panics unless there is exactly one axis name.
#[track_caller]
fn single(operation: &'static str, names: &AxisNames) {
    assert!(
        names.as_slice().len() == 1,
        "cannot {operation} over the batch axes {names}: expected one axis name, found {}; pass a single name",
        names.as_slice().len()
    );
}

/// Sends each leaf of a pytree from example `from` to example `to`, for each pair `(from, to)`.
///
/// An example that receives nothing gets zeros. Equivalent to `jax.lax.ppermute`.
///
/// # Panics
/// Panics unless exactly one axis name is given and is bound. Also panics if an example is out of range, sends twice or
/// receives twice.
///
/// # Examples
/// ```
/// use pytree_transform::{Tensor, ppermute, vmap};
/// let shift = vmap(|x: Tensor| ppermute(&x, "batch", [(0, 1), (1, 2)])).axis_name("batch");
/// assert_eq!(shift(Tensor::from([5, 6, 7])).to_vec::<i32>(), [0, 5, 6]);
/// ```
#[doc(alias = "lax.ppermute")]
#[must_use]
#[track_caller]
pub fn ppermute<T: Traceable>(
    value: &T,
    axis_name: impl Into<AxisNames>,
    permutation: impl AsRef<[(usize, usize)]>,
) -> T {
    let names = axis_name.into();
    single("ppermute", &names);
    let pairs: Arc<[(usize, usize)]> = permutation.as_ref().into();
    each_leaf("ppermute", value, &names, |leaf, names| {
        collectives::ppermute(leaf, &names[0], Arc::clone(&pairs))
    })
}

/// Permutes the examples: example `i` receives each leaf of example `permutation[i]`. Equivalent to
/// `jax.lax.pshuffle`.
///
/// # Panics
/// Panics in the same cases as [`ppermute`], and if `permutation` is not as long as the batch axis.
///
/// # Examples
/// ```
/// use pytree_transform::{Tensor, pshuffle, vmap};
/// let shuffle = vmap(|x: Tensor| pshuffle(&x, "batch", [2, 0, 1])).axis_name("batch");
/// assert_eq!(shuffle(Tensor::from([5, 6, 7])).to_vec::<i32>(), [7, 5, 6]);
/// ```
#[doc(alias = "lax.pshuffle")]
#[must_use]
#[track_caller]
pub fn pshuffle<T: Traceable>(
    value: &T,
    axis_name: impl Into<AxisNames>,
    permutation: impl AsRef<[usize]>,
) -> T {
    let (names, permutation) = (axis_name.into(), permutation.as_ref());
    single("pshuffle", &names);
    let length = or_panic(length_of("pshuffle", &names));
    assert!(
        permutation.len() == length,
        "cannot pshuffle over the batch axis `{names}` of length {length} by {permutation:?}: expected {length} entries, found {}; list each example once",
        permutation.len()
    );
    let pairs: Vec<(usize, usize)> = permutation.iter().copied().zip(0..).collect();
    ppermute(value, names, pairs)
}

/// Splits each leaf of a pytree along `split_axis` and sends one part to each example. Each example joins the received
/// parts along `concat_axis`. Negative axes count from the end.
///
/// With [`Tiling::Stacked`], the split axis must be as long as the batch axis. The split axis is removed, and the
/// received parts are stacked along a new axis at `concat_axis`. With [`Tiling::Tiled`], both axes are kept: the split
/// axis is divided into one part for each example, and the received parts are concatenated along the concat axis.
/// Equivalent to `jax.lax.all_to_all`.
///
/// # Panics
/// Panics unless exactly one axis name is given and is bound. Also panics if an axis is out of range for a leaf, or if
/// the length of the split axis does not fit the number of examples.
///
/// # Examples
/// ```
/// use pytree_transform::{Tensor, Tiling, all_to_all, vmap};
/// let exchange = vmap(|x: Tensor| all_to_all(&x, "batch", 0, 0, Tiling::Stacked)).axis_name("batch");
/// assert_eq!(exchange(Tensor::from([[1, 2], [3, 4]])), Tensor::from([[1, 3], [2, 4]]));
/// ```
#[doc(alias("lax.all_to_all", "torch.distributed.all_to_all"))]
#[must_use]
#[track_caller]
pub fn all_to_all<T: Traceable>(
    value: &T,
    axis_name: impl Into<AxisNames>,
    split_axis: isize,
    concat_axis: isize,
    tiling: Tiling,
) -> T {
    let names = axis_name.into();
    single("all_to_all", &names);
    each_leaf("all_to_all", value, &names, |leaf, names| {
        let split = axis_of("all_to_all", leaf.info(), split_axis)?;
        let concat = axis_of("all_to_all", leaf.info(), concat_axis)?;
        if tiling == Tiling::Stacked {
            return collectives::all_to_all(leaf, &names[0], split, concat);
        }
        let pieces = cut("all_to_all", leaf, split, &names[0])?;
        // `all_to_all` inserts an axis for the received pieces at position `concat`. This axis is then joined with the
        // axis after it.
        let sent = collectives::all_to_all(&pieces, &names[0], split, concat)?;
        joined(&sent, concat)
    })
}

/// Divides `axis` of a tensor into one piece for each example. The result has a new axis of the pieces before `axis`.
fn cut(
    operation: &'static str,
    leaf: &Tensor,
    axis: usize,
    name: &AxisName,
) -> Result<Tensor, TensorError> {
    let length = axis_length(operation, name)?;
    let mut shape = leaf.info().shape.clone();
    let whole = shape[axis];
    if length == 0 || !whole.is_multiple_of(length) {
        return Err(TensorError::shape(
            operation,
            &[leaf.info()],
            format!(
                "axis {axis} of length {whole} cannot be divided into {length} pieces, one for each example of `{name}`"
            ),
            "pad the axis to a multiple of the number of examples",
        ));
    }
    shape[axis] = whole / length;
    shape.insert(axis, length);
    leaf.try_reshape(shape)
}
