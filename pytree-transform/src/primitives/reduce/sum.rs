//! Sums over axes.
use pytree_kernels::base::dtype::DType;
use pytree_kernels::base::shape::AxisList;

use crate::base::error::TensorError;
use crate::primitives::convert::convert;
use crate::tensor::Tensor;
use crate::tensor::trace::bind_one;

/// Sums a tensor over some axes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Sum {
    pub(crate) axes: AxisList,
    /// The dtype to which the operand is converted part by part, if it is not its own.
    pub(crate) dtype: Option<DType>,
}

/// Returns the sum over distinct `axes`. Returns the tensor itself if there are no axes.
#[track_caller]
pub(crate) fn sum(operand: &Tensor, axes: &[usize]) -> Result<Tensor, TensorError> {
    sum_as(operand.dtype(), operand, axes)
}

/// Returns the sum over distinct `axes` of a tensor that is converted to a dtype.
#[track_caller]
pub(crate) fn sum_as(
    dtype: DType,
    operand: &Tensor,
    axes: &[usize],
) -> Result<Tensor, TensorError> {
    if axes.is_empty() && dtype != DType::Bool {
        return convert(operand, dtype);
    }
    let sum = Sum {
        axes: sorted(axes),
        dtype: (dtype != operand.dtype()).then_some(dtype),
    };
    bind_one(&sum, &[operand])
}

pub(super) fn sorted(axes: &[usize]) -> AxisList {
    let mut axes = AxisList::from_slice(axes);
    axes.sort_unstable();
    axes
}
