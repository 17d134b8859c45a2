//! Padding with elements that are computed from the tensor: all modes of `numpy.pad` except a constant.

use pytree_derive::panicking_twin;
use pytree_kernels::base::dtype::DType;
use pytree_kernels::base::narrow::wide;

use crate::base::error::{TensorError, called};
use crate::operations::reduce::check_float;
use crate::primitives::gather::take;
use crate::primitives::slice::concatenate;
use crate::tensor::Tensor;

/// How [`Tensor::pad_mode`] chooses the elements that it adds along an axis. The names are the same as in `numpy.pad`.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum PadMode {
    /// Repeats the first and the last element: `a a [a b c] c c`.
    Edge,
    /// Mirrors at the first and the last element, which are not repeated: `c b [a b c] b a`.
    Reflect,
    /// Mirrors at the ends, and repeats the first and the last element: `b a [a b c] c b`.
    Symmetric,
    /// Continues with the elements of the other end: `b c [a b c] a b`.
    Wrap,
    /// Pads with numbers that fall or rise in equal steps to the given number, which is the outermost element. This
    /// mode needs floats.
    LinearRamp(f64),
    /// Pads with the maximum along the axis.
    Maximum,
    /// Pads with the minimum along the axis.
    Minimum,
    /// Pads with the mean along the axis. This mode needs floats.
    Mean,
    /// Pads with the median along the axis. This mode needs floats.
    Median,
}

const PAD: &str = "pad_mode";

impl Tensor {
    /// Pads the tensor with elements that are computed from its own elements, like `numpy.pad` with a mode. For each
    /// axis, `widths` holds the number of elements to add before the first element and after the last element. To pad
    /// with a constant, use [`pad`](Self::pad).
    ///
    /// The axes are padded in order. The padding of an axis is computed from the tensor that already has the padding of
    /// all earlier axes. If the padding is longer than the axis, `Reflect`, `Symmetric` and `Wrap` repeat, as in NumPy.
    ///
    /// # Panics
    /// Panics if `widths` does not have one pair for each axis, if an axis without elements is padded, or if the
    /// elements are not floats in a mode that needs floats.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// use pytree_transform::padding::PadMode;
    /// let x = Tensor::from([1, 2, 3]);
    /// assert_eq!(x.pad_mode(PadMode::Edge, [(1, 2)]), Tensor::from([1, 1, 2, 3, 3, 3]));
    /// assert_eq!(x.pad_mode(PadMode::Reflect, [(1, 2)]), Tensor::from([2, 1, 2, 3, 2, 1]));
    /// ```
    #[doc(alias("jnp.pad", "F.pad"))]
    #[panicking_twin(pad_mode, Shape | DType)]
    pub fn try_pad_mode(
        &self,
        mode: PadMode,
        widths: impl AsRef<[(usize, usize)]>,
    ) -> Result<Self, TensorError> {
        let _called = called(PAD);
        let widths = widths.as_ref();
        if widths.len() != self.rank() {
            let problem = format!(
                "there are {} pairs of widths for {} axes",
                widths.len(),
                self.rank()
            );
            let fix = "pass one pair of widths for each axis";
            return Err(TensorError::shape(PAD, &[self.info()], problem, fix));
        }
        if matches!(
            mode,
            PadMode::LinearRamp(_) | PadMode::Mean | PadMode::Median
        ) {
            check_float(PAD, self)?;
        }
        let mut padded = self.clone();
        for (axis, &(before, after)) in widths.iter().enumerate() {
            if before == 0 && after == 0 {
                continue;
            }
            if padded.shape()[axis] == 0 {
                let problem = format!("axis {axis} has no elements to pad with");
                let fix = "pad with a constant, by `pad`";
                return Err(TensorError::shape(PAD, &[self.info()], problem, fix));
            }
            padded = padded_axis(&padded, mode, axis, before, after)?;
        }
        Ok(padded)
    }
}

/// Pads one axis. The axis has at least one element.
#[track_caller]
fn padded_axis(
    tensor: &Tensor,
    mode: PadMode,
    axis: usize,
    before: usize,
    after: usize,
) -> Result<Tensor, TensorError> {
    let length = tensor.shape()[axis];
    let kept = [axis.cast_signed()];
    let constant = match mode {
        PadMode::Maximum => tensor.try_max_keep(kept)?,
        PadMode::Minimum => tensor.try_min_keep(kept)?,
        PadMode::Mean => tensor.try_mean_keep(kept)?,
        PadMode::Median => tensor.try_median_keep(kept)?,
        PadMode::LinearRamp(end) => {
            let low = ramp(tensor, axis, before, end, 0)?;
            let high = ramp(tensor, axis, after, end, length - 1)?.try_reverse(kept)?;
            return concatenate(&[&low, tensor, &high], axis);
        }
        PadMode::Edge | PadMode::Reflect | PadMode::Symmetric | PadMode::Wrap => {
            let positions = (0..before + length + after).map(|place| {
                let place = place.cast_signed() - before.cast_signed();
                source(mode, place, length.cast_signed())
            });
            return take(tensor, &positions_on(length, positions), axis);
        }
    };
    let repeated = |count: usize| {
        let mut shape = tensor.shape().to_vec();
        shape[axis] = count;
        constant.try_broadcast_to(shape)
    };
    concatenate(&[&repeated(before)?, tensor, &repeated(after)?], axis)
}

/// Returns the position in `0..length` of the element that is copied to `place`. The place may be outside of
/// `0..length`.
fn source(mode: PadMode, place: isize, length: isize) -> isize {
    let mirrored = |period: isize, last: isize| {
        let position = place.rem_euclid(period);
        if position < length {
            position
        } else {
            last - position
        }
    };
    match mode {
        PadMode::Wrap => place.rem_euclid(length),
        PadMode::Symmetric => mirrored(2 * length, 2 * length - 1),
        PadMode::Reflect if length > 1 => mirrored(2 * length - 2, 2 * length - 2),
        _ => place.clamp(0, length - 1),
    }
}

/// Returns positions on an axis as a tensor of indices.
fn positions_on(length: usize, positions: impl IntoIterator<Item = isize>) -> Tensor {
    let positions = positions.into_iter();
    if i32::try_from(length).is_ok() {
        let narrow = positions.map(|position| i32::try_from(position).unwrap_or(i32::MAX));
        return Tensor::from(narrow.collect::<Vec<i32>>());
    }
    let wide = positions.map(|position| i64::try_from(position).unwrap_or(i64::MAX));
    Tensor::from(wide.collect::<Vec<i64>>())
}

/// Returns `count` numbers for each row along `axis`. The numbers go in equal steps from `end` towards the element at
/// `position`, which is not included.
#[track_caller]
fn ramp(
    tensor: &Tensor,
    axis: usize,
    count: usize,
    end: f64,
    position: usize,
) -> Result<Tensor, TensorError> {
    let edge = take(
        tensor,
        &positions_on(position + 1, [position.cast_signed()]),
        axis,
    )?;
    let mut shape = vec![1; tensor.rank()];
    shape[axis] = count;
    let wide = wide(tensor.dtype());
    let fraction = Tensor::arange(DType::I32, count).convert(wide) / count.max(1) as f64;
    let ramp = (edge.convert(wide) - end) * fraction.try_reshape(shape)? + end;
    Ok(ramp.convert(tensor.dtype()))
}
