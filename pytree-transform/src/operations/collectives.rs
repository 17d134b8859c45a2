//! Collectives: operations over the examples of a `vmap` around, whose batch axis has a name.
//!
//! Inside of the function of one example they look at all examples. The name is bound by
//! [`Vmap::axis_name`](crate::Vmap::axis_name); of several batch axes of one name the innermost is meant. What is not
//! batched is the same for all examples. They are differentiated, batched and compiled as other operations are.

use std::panic::Location;
use std::sync::Arc;

use pytree_core::graph;

use crate::base::axis_names::{AxisName, AxisNames};
use crate::base::dtype::DType;
use crate::base::error::{TensorError, or_panic};
use crate::operations::shape::{axis_of, new_axis_of};
use crate::primitives::collectives;
use crate::tensor::Tensor;
use crate::tensor::trace::{at_line_by_default, axis_length};
use crate::tensor::traceable::{Traceable, rebuild};

/// Applies an operation over named axes to each leaf.
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

/// Fails if a name is given twice or not bound.
fn check(operation: &'static str, names: &AxisNames) -> Result<(), TensorError> {
    if let Some(name) = names.duplicate() {
        return Err(TensorError::DuplicateAxis {
            operation,
            name: name.to_string(),
        });
    }
    length_of(operation, names).map(drop)
}

/// The number of examples along all of the axes.
fn length_of(operation: &'static str, names: &AxisNames) -> Result<usize, TensorError> {
    let mut lengths = names.as_slice().iter();
    lengths.try_fold(1, |product, name| {
        Ok(product * axis_length(operation, name)?)
    })
}

/// The sum over all examples, `Σⱼ xⱼ`, of each leaf of a pytree; bools are counted, as i32.
///
/// What is the same for all examples is multiplied by their number. The cotangent of each example is the sum of
/// all. It is `jax.lax.psum`.
///
/// # Panics
/// If an axis is not bound, or named twice.
///
/// # Examples
/// ```
/// use pytree_transform::{Tensor, psum, vmap};
/// let normalize = vmap(|x: Tensor| &x / psum(&x, "batch")).axis_name("batch");
/// assert_eq!(normalize(Tensor::from([1.0, 3.0])).to_vec::<f64>(), [0.25, 0.75]);
/// ```
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

/// The mean over all examples of each leaf of a pytree. It is `jax.lax.pmean`.
///
/// # Panics
/// If an axis is not bound, or named twice, or if a leaf has no floats.
///
/// # Examples
/// ```
/// use pytree_transform::{Tensor, pmean, vmap};
/// let center = vmap(|x: Tensor| &x - pmean(&x, "batch")).axis_name("batch");
/// assert_eq!(center(Tensor::from([1.0, 3.0])).to_vec::<f64>(), [-1.0, 1.0]);
/// ```
#[must_use]
#[track_caller]
pub fn pmean<T: Traceable>(value: &T, axis_name: impl Into<AxisNames>) -> T {
    let axis_name = axis_name.into();
    let length = or_panic(length_of("pmean", &axis_name));
    each_leaf("pmean", value, &axis_name, |leaf, names| {
        if !leaf.dtype().is_float() {
            return Err(TensorError::dtype("pmean", &[leaf.info()], "f32 or f64"));
        }
        let count = Tensor::constant(leaf.dtype(), length as f64);
        Ok(collectives::psum(leaf, names)? / count)
    })
}

/// The maximum over all examples, element by element, of each leaf of a pytree. It is `jax.lax.pmax`; of several
/// examples that are the maximum, each has an equal share of the cotangent.
///
/// # Panics
/// If an axis is not bound, or named twice, or if there are no examples.
///
/// # Examples
/// ```
/// use pytree_transform::{Tensor, pmax, vmap};
/// let scale = vmap(|x: Tensor| &x / pmax(&x, "batch")).axis_name("batch");
/// assert_eq!(scale(Tensor::from([1.0, 4.0])).to_vec::<f64>(), [0.25, 1.0]);
/// ```
#[must_use]
#[track_caller]
pub fn pmax<T: Traceable>(value: &T, axis_name: impl Into<AxisNames>) -> T {
    each_leaf("pmax", value, &axis_name.into(), collectives::pmax)
}

/// The minimum over all examples, element by element, of each leaf of a pytree. It is `jax.lax.pmin`, with
/// cotangents as those of [`pmax`].
///
/// # Panics
/// As [`pmax`].
///
/// # Examples
/// ```
/// use pytree_transform::{Tensor, pmin, vmap};
/// let shift = vmap(|x: Tensor| &x - pmin(&x, "batch")).axis_name("batch");
/// assert_eq!(shift(Tensor::from([3, 1])).to_vec::<i32>(), [2, 0]);
/// ```
#[must_use]
#[track_caller]
pub fn pmin<T: Traceable>(value: &T, axis_name: impl Into<AxisNames>) -> T {
    each_leaf("pmin", value, &axis_name.into(), |leaf, names| {
        collectives::pmax(&in_reverse_order(leaf)?, names).and_then(|max| in_reverse_order(&max))
    })
}

/// The elements with their order turned round; its own inverse.
fn in_reverse_order(leaf: &Tensor) -> Result<Tensor, TensorError> {
    Ok(match leaf.dtype() {
        DType::F32 | DType::F64 => -leaf,
        DType::Bool => !leaf,
        // Minus one has all bits set, and so keeps the least integer in range.
        DType::I32 | DType::I64 => leaf.try_bit_xor(Tensor::constant(leaf.dtype(), -1.0))?,
        DType::U32 => leaf.try_bit_xor(Tensor::constant(leaf.dtype(), f64::from(u32::MAX)))?,
    })
}

/// The tensors of all examples, of each leaf of a pytree: along a new axis at `axis` of the result, or, if `tiled`,
/// one behind the other along an axis that the leaf has. Negative axes count from the end.
///
/// Of several names, the first is the slowest. It is `jax.lax.all_gather`.
///
/// # Panics
/// If a batch axis is not bound, or named twice, or if a leaf has no such axis.
///
/// # Examples
/// ```
/// use pytree_transform::{Tensor, all_gather, vmap};
/// let all = vmap(|x: Tensor| all_gather(&x, "batch", 0, false)).axis_name("batch");
/// assert_eq!(all(Tensor::from([1, 2])), Tensor::from([[1, 2], [1, 2]]));
/// let rows = Tensor::from([[1, 2], [3, 4]]);
/// let all = vmap(|x: Tensor| all_gather(&x, "batch", 0, true)).axis_name("batch");
/// assert_eq!(all(rows), Tensor::from([[1, 2, 3, 4], [1, 2, 3, 4]]));
/// ```
#[must_use]
#[track_caller]
pub fn all_gather<T: Traceable>(
    value: &T,
    axis_name: impl Into<AxisNames>,
    axis: isize,
    tiled: bool,
) -> T {
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

/// The tensor with an axis and the one behind it made one.
fn joined(tensor: &Tensor, axis: usize) -> Result<Tensor, TensorError> {
    let mut shape = tensor.info().shape.clone();
    let length = shape.remove(axis);
    shape[axis] *= length;
    tensor.try_reshape(shape)
}

/// The position of the example among all, as i32; of several names, the first is the slowest. It is
/// `jax.lax.axis_index`.
///
/// # Panics
/// If an axis is not bound, or named twice.
///
/// # Examples
/// ```
/// use pytree_transform::{Tensor, axis_index, vmap};
/// let numbered = vmap(|x: Tensor| x * axis_index("batch")).axis_name("batch");
/// assert_eq!(numbered(Tensor::from([5, 5, 5])).to_vec::<i32>(), [0, 5, 10]);
/// ```
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

/// The number of examples; of several names, along all of the axes. It is `jax.lax.axis_size`.
///
/// # Panics
/// If an axis is not bound, or named twice.
///
/// # Examples
/// ```
/// use pytree_transform::{Tensor, axis_size, vmap};
/// let shares = vmap(|x: Tensor| x / axis_size("batch") as f64).axis_name("batch");
/// assert_eq!(shares(Tensor::from([2.0, 4.0])).to_vec::<f64>(), [1.0, 2.0]);
/// ```
#[must_use]
#[track_caller]
pub fn axis_size(axis_name: impl Into<AxisNames>) -> usize {
    let names = axis_name.into();
    or_panic(check("axis_size", &names));
    or_panic(length_of("axis_size", &names))
}

/// The name of an operation over one axis.
#[track_caller]
fn single(operation: &'static str, names: &AxisNames) {
    assert!(
        names.as_slice().len() == 1,
        "cannot {operation} over the batch axes {names}: it works over one; give a single name"
    );
}

/// Each leaf of a pytree of example `from` becomes that of example `to`, for each pair `(from, to)`; an example that
/// gets none has zeros. It is `jax.lax.ppermute`.
///
/// # Panics
/// If the axis is not bound, or not one, or if an example is not there, sends twice, or gets twice.
///
/// # Examples
/// ```
/// use pytree_transform::{Tensor, ppermute, vmap};
/// let shift = vmap(|x: Tensor| ppermute(&x, "batch", [(0, 1), (1, 2)])).axis_name("batch");
/// assert_eq!(shift(Tensor::from([5, 6, 7])).to_vec::<i32>(), [0, 5, 6]);
/// ```
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

/// Example `i` gets each leaf of a pytree of example `permutation[i]`. It is `jax.lax.pshuffle`.
///
/// # Panics
/// As [`ppermute`], and if the permutation is not as long as the axis.
///
/// # Examples
/// ```
/// use pytree_transform::{Tensor, pshuffle, vmap};
/// let shuffle = vmap(|x: Tensor| pshuffle(&x, "batch", [2, 0, 1])).axis_name("batch");
/// assert_eq!(shuffle(Tensor::from([5, 6, 7])).to_vec::<i32>(), [7, 5, 6]);
/// ```
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
        "cannot pshuffle over the batch axis `{names}` of length {length} by {permutation:?}: it names {} examples; name each once",
        permutation.len()
    );
    let pairs: Vec<(usize, usize)> = permutation.iter().copied().zip(0..).collect();
    ppermute(value, names, pairs)
}

/// Sends the parts of each leaf of a pytree along `split_axis` one to each example, which puts the parts it gets along
/// `concat_axis`. Negative axes count from the end.
///
/// The split axis is as long as the batch axis and goes; a new axis is at `concat_axis` of the result. If `tiled`, both
/// axes stay: the first is cut into as many pieces as there are examples, and those that arrive are put one behind the
/// other along the second. It is `jax.lax.all_to_all`.
///
/// # Panics
/// If the batch axis is not bound, or not one, if a leaf has no such axis, or if the split axis has another length, or,
/// if `tiled`, can't be cut.
///
/// # Examples
/// ```
/// use pytree_transform::{Tensor, all_to_all, vmap};
/// let exchange = vmap(|x: Tensor| all_to_all(&x, "batch", 0, 0, false)).axis_name("batch");
/// assert_eq!(exchange(Tensor::from([[1, 2], [3, 4]])), Tensor::from([[1, 3], [2, 4]]));
/// ```
#[must_use]
#[track_caller]
pub fn all_to_all<T: Traceable>(
    value: &T,
    axis_name: impl Into<AxisNames>,
    split_axis: isize,
    concat_axis: isize,
    tiled: bool,
) -> T {
    let names = axis_name.into();
    single("all_to_all", &names);
    each_leaf("all_to_all", value, &names, |leaf, names| {
        let split = axis_of("all_to_all", leaf.info(), split_axis)?;
        let concat = axis_of("all_to_all", leaf.info(), concat_axis)?;
        if !tiled {
            return collectives::all_to_all(leaf, &names[0], split, concat);
        }
        let pieces = cut(leaf, split, &names[0])?;
        // In the result the pieces are before what is joined with them.
        let sent = collectives::all_to_all(&pieces, &names[0], split, concat)?;
        joined(&sent, concat)
    })
}

/// The tensor with an axis cut into one piece for each example: the new axis is before it.
fn cut(leaf: &Tensor, axis: usize, name: &AxisName) -> Result<Tensor, TensorError> {
    let length = axis_length("all_to_all", name)?;
    let mut shape = leaf.info().shape.clone();
    let whole = shape[axis];
    if length == 0 || !whole.is_multiple_of(length) {
        return Err(TensorError::shape(
            "all_to_all",
            &[leaf.info()],
            format!(
                "axis {axis} of length {whole} can't be cut into {length} pieces, one for each example of `{name}`"
            ),
            "choose a length that can be divided, or pad it",
        ));
    }
    shape[axis] = whole / length;
    shape.insert(axis, length);
    leaf.try_reshape(shape)
}
