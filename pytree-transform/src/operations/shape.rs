//! Operations that permute, insert and remove axes, and operations that broadcast, stack and concatenate tensors.

use std::borrow::Borrow;

use pytree_derive::panicking_twin;
use pytree_kernels::base::dtype::AbstractArray;
use pytree_kernels::base::shape::{AxisList, without_axes};
use smallvec::SmallVec;

use crate::base::error::{Mistake, TensorError, called, or_panic};
use crate::operations::axes::{TensorAxes, axes_of, axes_where, axis_of, new_axes_of, new_axis_of};
use crate::primitives::create::broadcast_to;
use crate::primitives::{shape, slice};
use crate::tensor::Tensor;

impl Tensor {
    /// Returns the tensor with its axes in reverse order. For a matrix, this is the transpose.
    ///
    /// # Panics
    /// Panics if the tensor is traced and its transformation has finished.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// assert_eq!(Tensor::from([[1, 2], [3, 4]]).t(), Tensor::from([[1, 3], [2, 4]]));
    /// ```
    #[doc(alias("jnp.matrix_transpose", "torch.t"))]
    #[must_use]
    #[track_caller]
    pub fn t(&self) -> Self {
        let permutation: AxisList = (0..self.rank()).rev().collect();
        or_panic(shape::transpose(self, &permutation))
    }

    /// Permutes the axes: axis `i` of the result is axis `permutation[i]`. Negative axes count from the end.
    ///
    /// # Panics
    /// Panics unless `permutation` names each axis once.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::{DType, Tensor};
    /// assert_eq!(Tensor::zeros(DType::F32, [2, 3, 4]).transpose([-1, 0, 1]).shape(), [4, 2, 3]);
    /// ```
    #[doc(alias("jnp.transpose", "torch.permute"))]
    #[panicking_twin(transpose, Axis | Shape)]
    pub fn try_transpose(&self, permutation: impl AsRef<[isize]>) -> Result<Self, TensorError> {
        let permutation = axes_of("transpose", self.info(), permutation.as_ref())?;
        shape::transpose(self, &permutation)
    }

    /// Moves one axis to another position. The other axes keep their order. Negative positions count from the end.
    ///
    /// # Panics
    /// Panics if an axis is out of range.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::{DType, Tensor};
    /// assert_eq!(Tensor::zeros(DType::F32, [2, 3, 4]).move_axis(0, -1).shape(), [3, 4, 2]);
    /// ```
    #[doc(alias("jnp.moveaxis", "torch.movedim"))]
    #[panicking_twin(move_axis, Axis)]
    pub fn try_move_axis(&self, from: isize, to: isize) -> Result<Self, TensorError> {
        let from = axis_of("move an axis of", self.info(), from)?;
        let to = axis_of("move an axis of", self.info(), to)?;
        shape::move_axis(self, from, to)
    }

    /// Inserts one or several new axes of length 1. `axes` has the positions of the new axes in the result. The axis -1
    /// is the last axis of the result.
    ///
    /// # Panics
    /// Panics if an axis is out of range for the result or given twice. The message lists all wrong axes.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// let x = Tensor::from([1, 2, 3]);
    /// assert_eq!(x.expand_dims(0).shape(), [1, 3]);
    /// assert_eq!(x.expand_dims(-1).shape(), [3, 1]);
    /// assert_eq!(x.expand_dims([0, 2]).shape(), [1, 3, 1]);
    /// ```
    #[doc(alias("jnp.expand_dims", "torch.unsqueeze"))]
    #[panicking_twin(expand_dims, Shape)]
    pub fn try_expand_dims(&self, axes: impl TensorAxes) -> Result<Self, TensorError> {
        expand_dims(self, axes.axes())
    }

    /// Removes one or several axes of length 1. Negative axes count from the end.
    ///
    /// # Panics
    /// Panics if an axis is out of range or given twice, or if the length of an axis is not 1. The message lists all
    /// wrong axes.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::{DType, Tensor};
    /// assert_eq!(Tensor::from([[1, 2]]).squeeze(0), Tensor::from([1, 2]));
    /// assert_eq!(Tensor::zeros(DType::F32, [1, 3, 1]).squeeze([0, -1]).shape(), [3]);
    /// ```
    #[doc(alias("jnp.squeeze", "torch.squeeze"))]
    #[panicking_twin(squeeze, Axis | Shape)]
    pub fn try_squeeze(&self, axes: impl TensorAxes) -> Result<Self, TensorError> {
        squeeze(self, axes.axes())
    }

    /// Broadcasts the tensor to a shape by NumPy's rule: the tensor's axes align with the trailing axes of the shape,
    /// and axes of length 1 are repeated.
    ///
    /// # Panics
    /// Panics if the shapes do not broadcast.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// assert_eq!(Tensor::from([1, 2]).broadcast_to([2, 2]), Tensor::from([[1, 2], [1, 2]]));
    /// ```
    #[doc(alias("jnp.broadcast_to", "torch.Tensor.expand"))]
    #[panicking_twin(broadcast_to, Shape)]
    pub fn try_broadcast_to(&self, shape: impl AsRef<[usize]>) -> Result<Self, TensorError> {
        broadcast_to(self, shape.as_ref())
    }

    /// Stacks tensors of equal shapes along a new axis, which is axis `axis` of the result. The tensors may be
    /// references.
    ///
    /// # Panics
    /// Panics if the shapes or dtypes differ, if there are no tensors, or if `axis` is out of range.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// let (x, y) = (Tensor::from([1, 2]), Tensor::from([3, 4]));
    /// assert_eq!(Tensor::stack(&[&x, &y], 0), Tensor::from([[1, 2], [3, 4]]));
    /// assert_eq!(Tensor::stack(&[x, y], -1), Tensor::from([[1, 3], [2, 4]]));
    /// ```
    #[doc(alias("jnp.stack", "torch.stack"))]
    #[panicking_twin(stack, Shape | DType)]
    pub fn try_stack(tensors: &[impl Borrow<Self>], axis: isize) -> Result<Self, TensorError> {
        let _called = called("stack");
        let tensors: Vec<&Self> = tensors.iter().map(Borrow::borrow).collect();
        let found: SmallVec<[&AbstractArray; 4]> = tensors.iter().map(|x| x.info()).collect();
        let refused = |problem, fix| Err(TensorError::shape("stack", &found, problem, fix));
        let Some(first) = tensors.first() else {
            return refused(
                "the list of tensors is empty, so the result has no shape",
                "pass at least one tensor",
            );
        };
        if tensors.iter().any(|tensor| tensor.shape() != first.shape()) {
            return refused(
                "the shapes differ",
                "broadcast them first, or use `concatenate`",
            );
        }
        let place = new_axis_of("stack", first.info(), axis)?;
        let mut shape = first.info().shape.clone();
        shape.insert(place, 1);
        let mut parts = Vec::with_capacity(tensors.len());
        for tensor in tensors {
            parts.push(shape::reshape(tensor, &shape)?);
        }
        slice::concatenate(&parts.iter().collect::<Vec<_>>(), place)
    }

    /// Concatenates tensors along `axis`. The tensors may be references.
    ///
    /// # Panics
    /// Panics if the dtypes differ, if the lengths of an axis other than `axis` differ, if there are no tensors, or if
    /// `axis` is out of range.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// let (x, y) = (Tensor::from([[1, 2]]), Tensor::from([[3, 4]]));
    /// assert_eq!(Tensor::concatenate(&[&x, &y], 1), Tensor::from([[1, 2, 3, 4]]));
    /// assert_eq!(Tensor::concatenate(&[x, y], 0), Tensor::from([[1, 2], [3, 4]]));
    /// ```
    #[doc(alias("jnp.concatenate", "torch.cat"))]
    #[panicking_twin(concatenate, Shape | DType | Axis)]
    pub fn try_concatenate(
        tensors: &[impl Borrow<Self>],
        axis: isize,
    ) -> Result<Self, TensorError> {
        let tensors: Vec<&Self> = tensors.iter().map(Borrow::borrow).collect();
        let axis = match tensors.first() {
            Some(first) => axis_of("concatenate", first.info(), axis)?,
            None => 0,
        };
        slice::concatenate(&tensors, axis)
    }
}

// The functions below are not generic, so they are compiled once.

#[track_caller]
fn expand_dims(tensor: &Tensor, axes: &[isize]) -> Result<Tensor, TensorError> {
    let operation = match axes {
        [_] => "add an axis to",
        _ => "add axes to",
    };
    let mut places = new_axes_of(operation, tensor.info(), axes)?;
    // In ascending order, an insertion does not move the axes that were inserted before.
    places.sort_unstable();
    let mut shape = tensor.info().shape.clone();
    for &place in &places {
        shape.insert(place, 1);
    }
    shape::reshape(tensor, &shape)
}

#[track_caller]
fn squeeze(tensor: &Tensor, axes: &[isize]) -> Result<Tensor, TensorError> {
    let places = axes_where("squeeze", tensor.info(), axes, |place| {
        let length = tensor.shape()[place];
        (length != 1).then(|| {
            Mistake::new(
                format!("axis {place} has length {length}, not 1"),
                "select one element of the axis with `index`, or reduce the axis",
            )
        })
    })?;
    shape::reshape(tensor, &without_axes(tensor.shape(), &places))
}

#[cfg(test)]
mod tests {
    use pytree_kernels::base::dtype::DType;

    use super::*;

    #[test]
    fn errors_name_the_operands() {
        let x = Tensor::zeros(DType::F32, [2, 3]);
        let message = std::panic::catch_unwind(|| x.squeeze(1)).unwrap_err();
        assert_eq!(
            message.downcast_ref::<String>().map(String::as_str),
            Some(
                "cannot squeeze f32[2,3]: axis 1 has length 3, not 1; select one element of the axis with `index`, or reduce \
                 the axis"
            )
        );
        let error = Tensor::try_stack(&[x.clone(), x.t()], 0)
            .unwrap_err()
            .to_string();
        assert_eq!(
            error,
            "cannot stack f32[2,3] and f32[3,2]: the shapes differ; broadcast them first, or use `concatenate`"
        );
        assert!(Tensor::try_stack(&[] as &[Tensor], 0).is_err());
        let error = Tensor::try_stack(std::slice::from_ref(&x), 3).unwrap_err();
        assert_eq!(
            error.to_string(),
            "cannot stack f32[2,3]: axis 3 is out of range for a new axis in a result of 3 axes; use an axis from -3 to 2"
        );
        assert!(Tensor::try_concatenate(std::slice::from_ref(&x), 2).is_err());
        assert!(Tensor::try_concatenate(&[] as &[Tensor], 0).is_err());
        assert!(x.try_broadcast_to([3]).is_err());
    }

    #[test]
    fn all_mistakes_of_axes_are_reported() {
        let x = Tensor::zeros(DType::F32, [1, 3, 1]);
        let squeeze = |axes: &[isize]| x.try_squeeze(axes).unwrap_err().to_string();
        assert_eq!(
            squeeze(&[0, 1, -3, 5, 5, 2, 2, -1]),
            "cannot squeeze f32[1,3,1]: axis 5 is out of range; axis 0 is given twice in [0, 1, -3, 5, 5, 2, 2, -1]; axis 1 has \
             length 3, not 1; axis 2 is given 3 times in [0, 1, -3, 5, 5, 2, 2, -1]; use an axis from -3 to 2; give each axis once; \
             select one element of the axis with `index`, or reduce the axis"
        );
        assert_eq!(
            squeeze(&[0, 5]),
            "cannot squeeze f32[1,3,1]: axis 5 is out of range; use an axis from -3 to 2"
        );
        assert_eq!(
            x.try_expand_dims([-7, 0, -6]).unwrap_err().to_string(),
            "cannot add axes to f32[1,3,1]: axis -7 is out of range for a new axis in a result of 6 axes; axis 0 is given twice in \
             [-7, 0, -6]; use an axis from -6 to 5; give each axis once"
        );
        assert_eq!(
            x.try_sum_axes([3, -1, 2, 4]).unwrap_err().to_string(),
            "cannot sum f32[1,3,1]: axis 3 is out of range; axis 4 is out of range; axis 2 is given twice in [3, -1, 2, 4]; \
             use an axis from -3 to 2; give each axis once"
        );
    }

    #[test]
    fn several_axes_are_inserted_and_removed_together() {
        let x = Tensor::from([[1, 2], [3, 4]]);
        let expanded = x.expand_dims([4, 0, -3]);
        assert_eq!(expanded.shape(), [1, 2, 1, 2, 1]);
        assert_eq!(expanded.flatten(), x.flatten());
        assert_eq!(expanded.squeeze([0, -1]).shape(), [2, 1, 2]);
        assert_eq!(expanded.squeeze(vec![0, 2, 4]), x);
        assert_eq!(x.expand_dims([]).squeeze([]), x);
        let list = vec![0, 1];
        assert_eq!(x.expand_dims(&list).squeeze(list.as_slice()), x);
    }

    #[test]
    fn new_axes_are_at_the_given_position() {
        let x = Tensor::zeros(DType::F32, [2, 3]);
        assert_eq!(x.expand_dims(-1).shape(), [2, 3, 1]);
        assert_eq!(x.expand_dims(-3).shape(), [1, 2, 3]);
        assert_eq!(x.move_axis(-1, 0).shape(), [3, 2]);
        assert_eq!(
            Tensor::stack(&[x.clone(), x.clone()], -1).shape(),
            [2, 3, 2]
        );
        assert_eq!(Tensor::stack(&[x.clone(), x], 1).shape(), [2, 2, 3]);
    }
}
