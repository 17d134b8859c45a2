//! Slices of static sizes whose start indices are tensors, which may be traced.

use pytree_derive::panicking_twin;
use pytree_kernels::base::dtype::{AbstractArray, DType};
use pytree_kernels::base::shape::AxisList;
use pytree_kernels::loops::elementwise::{Binary, Comparison};

use crate::base::error::{TensorError, called};
use crate::primitives::convert::convert;
use crate::primitives::elementwise::{binary, compare};
use crate::primitives::select::select;
use crate::primitives::slice::{update_slice, window};
use crate::tensor::Tensor;

/// Checks that the start indices and sizes of a slice match the tensor. The error lists every problem.
fn check(
    operation: &'static str,
    found: &AbstractArray,
    starts: &[Tensor],
    sizes: &[usize],
) -> Result<(), TensorError> {
    let mut problems = Vec::new();
    if starts.len() != found.rank() || sizes.len() != found.rank() {
        problems.push(format!(
            "{} starts and {} sizes were passed for {} axes",
            starts.len(),
            sizes.len(),
            found.rank()
        ));
    }
    for (axis, (&size, &length)) in sizes.iter().zip(&found.shape).enumerate() {
        if size > length {
            problems.push(format!(
                "axis {axis} has length {length}, which is less than the size {size} of the slice"
            ));
        }
    }
    for (axis, start) in starts.iter().enumerate() {
        if start.rank() > 0 || start.dtype().is_float() || start.dtype() == DType::Bool {
            problems.push(format!(
                "the start of axis {axis} is {}, not a scalar integer",
                start.info()
            ));
        }
    }
    if problems.is_empty() {
        return Ok(());
    }
    Err(TensorError::shape(
        operation,
        &[found],
        problems.join(", "),
        "for each axis, pass one scalar integer as the start, and a size that is at most the length of the axis",
    ))
}

/// Returns the axes on which the window does not have the length of the tensor, and the starts on them, as numbers of i64 that count from
/// the front.
#[track_caller]
fn starts_from_front(
    found: &AbstractArray,
    starts: &[Tensor],
    sizes: &[usize],
) -> Result<(AxisList, Vec<Tensor>), TensorError> {
    let axes: AxisList = (0..found.rank())
        .filter(|&axis| sizes[axis] != found.shape[axis])
        .collect();
    let mut from_front = Vec::with_capacity(axes.len());
    // No closure is used here, because its equations would not record the caller's line.
    for &axis in &axes {
        let start = convert(&starts[axis], DType::I64)?;
        let from_end = compare(Comparison::Lt, &start, &number(0))?;
        let length = number(found.shape[axis]);
        let counted = binary(Binary::Add, &start, &length)?;
        from_front.push(select(&from_end, &counted, &start)?);
    }
    Ok((axes, from_front))
}

fn number(number: usize) -> Tensor {
    Tensor::constant(DType::I64, number as f64)
}

impl Tensor {
    /// Returns the slice with the lengths `sizes` that begins at the indices `starts`. `starts` has one scalar integer
    /// tensor for each axis.
    ///
    /// A negative start counts from the end. A start that is too large is clamped so that the slice is in range, as in
    /// `jax.lax.dynamic_slice`.
    ///
    /// # Panics
    /// Panics unless there is one start and one size for each axis, each size is at most the length of its axis, and
    /// each start is a scalar integer.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// let x = Tensor::from([0, 10, 20, 30]);
    /// assert_eq!(x.dynamic_slice(&[Tensor::from(1)], [2]), Tensor::from([10, 20]));
    /// assert_eq!(x.dynamic_slice(&[Tensor::from(9)], [2]), Tensor::from([20, 30]));
    /// ```
    #[doc(alias = "lax.dynamic_slice")]
    #[panicking_twin(dynamic_slice, Shape)]
    pub fn try_dynamic_slice(
        &self,
        starts: &[Self],
        sizes: impl AsRef<[usize]>,
    ) -> Result<Self, TensorError> {
        let _called = called("dynamic_slice");
        let sizes = sizes.as_ref();
        check("slice", self.info(), starts, sizes)?;
        let (axes, starts) = starts_from_front(self.info(), starts, sizes)?;
        window(self, &axes, &starts, sizes)
    }

    /// Returns the tensor with `update` written at the indices `starts`. `update` has as many axes as the tensor. No
    /// axis of `update` is longer than the same axis of the tensor.
    ///
    /// A negative start counts from the end. A start that is too large is clamped so that the update is in range, as in
    /// `jax.lax.dynamic_update_slice`.
    ///
    /// # Panics
    /// Panics unless there is one scalar integer start for each axis, no axis of the update is longer than the same
    /// axis of the tensor, and the dtypes are equal.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// let (x, update) = (Tensor::from([0, 0, 0, 0]), Tensor::from([1, 2]));
    /// assert_eq!(x.dynamic_update_slice(&update, &[Tensor::from(1)]), Tensor::from([0, 1, 2, 0]));
    /// ```
    #[doc(alias = "lax.dynamic_update_slice")]
    #[panicking_twin(dynamic_update_slice, Shape | DType)]
    pub fn try_dynamic_update_slice(
        &self,
        update: &Self,
        starts: &[Self],
    ) -> Result<Self, TensorError> {
        let _called = called("dynamic_update_slice");
        check("update a slice of", self.info(), starts, update.shape())?;
        if update.dtype() != self.dtype() {
            return Err(TensorError::dtype(
                "update a slice of",
                &[self.info(), update.info()],
                "the same element type in the tensor and the update",
            ));
        }
        if update.is_empty() {
            return Ok(self.clone());
        }
        let (axes, starts) = starts_from_front(self.info(), starts, update.shape())?;
        if axes.is_empty() {
            return Ok(update.clone());
        }
        update_slice(self, update, &axes, &starts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_lists_all_problems() {
        let x = Tensor::zeros(DType::F32, [2, 3]);
        let starts = [Tensor::from(0.5), Tensor::from([1])];
        let error = x.try_dynamic_slice(&starts, [3, 1]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "cannot dynamic_slice f32[2,3]: axis 0 has length 2, which is less than the size 3 of the slice, the start of axis 0 is \
             f64[], not a scalar integer, the start of axis 1 is i32[1], not a scalar integer; for each axis, pass one scalar integer as the start, and a size that is at most the length of the axis"
        );
        assert!(x.try_dynamic_slice(&starts[..1], [1]).is_err());
        let start = [Tensor::from(0), Tensor::from(0)];
        assert!(
            x.try_dynamic_update_slice(&Tensor::zeros(DType::F64, [1, 1]), &start)
                .is_err()
        );
    }

    #[test]
    fn unsigned_starts_and_empty_windows_work() {
        let x = Tensor::from([[1, 2, 3], [4, 5, 6]]);
        let starts = [Tensor::from(5_u32), Tensor::from(1_u32)];
        assert_eq!(x.dynamic_slice(&starts, [1, 2]), Tensor::from([[5, 6]]));
        assert_eq!(x.dynamic_slice(&starts, [0, 2]).shape(), [0, 2]);
        assert_eq!(x.dynamic_slice(&starts, [2, 3]), x);
        let update = Tensor::from([[7, 8]]);
        let expected = Tensor::from([[1, 2, 3], [4, 7, 8]]);
        assert_eq!(x.dynamic_update_slice(&update, &starts), expected);
        assert_eq!(Tensor::from(3).dynamic_slice(&[], []), Tensor::from(3));
        assert_eq!(
            Tensor::from(3).dynamic_update_slice(&Tensor::from(4), &[]),
            Tensor::from(4)
        );
    }
}
