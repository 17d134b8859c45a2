//! Operations on matrices that the rules of this folder share, and the checks of their operands.

use pytree_core::bug::bug;

use crate::base::array::{Array, reused};
use crate::base::dtype::{AbstractArray, DType};
use crate::base::error::{TensorError, or_panic};
use crate::base::shape::{AxisList, Shape};
use crate::primitives::convert::convert;
use crate::primitives::create;
use crate::primitives::dot::dot_general;
use crate::primitives::elementwise::compare;
use crate::primitives::gather::Take;
use crate::primitives::reduce::sum;
use crate::primitives::select::select;
use crate::primitives::shape::{broadcast_in_dim, reshape, transpose};
use crate::tensor::Tensor;
use crate::tensor::elementwise::Comparison;
use crate::tensor::trace::bind_one;

use super::matrix_kernels::Real;

/// Runs an expression with `$type` as an alias of `f32` or `f64`, which is the type of the dtype's elements.
macro_rules! with_real {
    ($dtype:expr, $type:ident => $body:expr) => {
        if $dtype == $crate::base::dtype::DType::F32 {
            type $type = f32;
            $body
        } else {
            type $type = f64;
            $body
        }
    };
}
pub(super) use with_real;

/// Returns an error if the operands are not all f32 or all f64.
pub(crate) fn check_real(
    operation: &'static str,
    operands: &[&AbstractArray],
) -> Result<(), TensorError> {
    let is_real = |dtype: DType| matches!(dtype, DType::F32 | DType::F64);
    if !operands.iter().all(|operand| is_real(operand.dtype)) {
        return Err(TensorError::dtype(
            operation,
            operands,
            "f32 or f64; convert the tensor, for instance with `.convert(DType::F32)`",
        ));
    }
    if operands
        .iter()
        .any(|operand| operand.dtype != operands[0].dtype)
    {
        return Err(TensorError::dtype(
            operation,
            operands,
            "the same element type in all tensors",
        ));
    }
    Ok(())
}

/// Returns the lengths of the last two axes, or an error if there are fewer axes.
pub(super) fn matrix_lengths(
    operation: &'static str,
    operand: &AbstractArray,
) -> Result<[usize; 2], TensorError> {
    if let [.., rows, columns] = operand.shape[..] {
        return Ok([rows, columns]);
    }
    Err(TensorError::shape(
        operation,
        &[operand],
        format!(
            "the tensor has {} axes, but a matrix has 2 or more",
            operand.rank()
        ),
        "add axes with `.expand_dims(…)` or `.reshape(…)`",
    ))
}

/// Returns the number of rows of square matrices, or an error if the last two axes have different lengths.
pub(super) fn square_length(
    operation: &'static str,
    operand: &AbstractArray,
) -> Result<usize, TensorError> {
    let [rows, columns] = matrix_lengths(operation, operand)?;
    if rows == columns {
        return Ok(rows);
    }
    Err(TensorError::shape(
        operation,
        &[operand],
        format!("the matrices have {rows} rows and {columns} columns"),
        "pass square matrices: the last two axes must have the same length",
    ))
}

/// Returns an error if the batch axes of two operands differ.
pub(super) fn check_batch_axes(
    operation: &'static str,
    matrix: &AbstractArray,
    other: &AbstractArray,
    axes: usize,
) -> Result<(), TensorError> {
    let batch = matrix.rank() - 2;
    if other.rank() == batch + axes && other.shape[..batch] == matrix.shape[..batch] {
        return Ok(());
    }
    Err(TensorError::shape(
        operation,
        &[matrix, other],
        "the axes before the matrices differ",
        "broadcast one of the tensors",
    ))
}

/// Returns the dtype and shape of an array whose matrices have other lengths. The batch axes do not change.
pub(super) fn with_lengths(operand: &AbstractArray, lengths: &[usize]) -> AbstractArray {
    let batch = operand.rank() - 2;
    let shape = operand.shape[..batch].iter().chain(lengths);
    AbstractArray {
        dtype: operand.dtype,
        shape: shape.copied().collect(),
    }
}

/// Computes one result for each matrix of an operand with nonempty matrices. `compute` gets a matrix in row-major
/// order, and writes the elements of the result.
pub(super) fn each_matrix<T: Real>(
    operand: &Array,
    lengths: &[usize],
    mut compute: impl FnMut(&[T], &mut [T]),
) -> Array {
    let result = with_lengths(&operand.info, lengths);
    let rank = operand.shape().len();
    let size: usize = operand.shape()[rank - 2..].iter().product();
    let count: usize = lengths.iter().product();
    let mut elements = reused::<T>(result.len());
    if size > 0 && count > 0 {
        let matrices = operand.elements::<T>().chunks_exact(size);
        for (matrix, target) in matrices.zip(elements.chunks_exact_mut(count)) {
            compute(matrix, target);
        }
    }
    Array::new(&result.shape, elements)
}

/// Returns the elements of an array for writing. Their type must be `T`.
pub(super) fn elements_mut<T: Real>(array: &mut Array) -> &mut [T] {
    let dtype = array.dtype();
    match T::slice_mut(&mut array.data) {
        Some(elements) => elements,
        None => bug(format_args!("elements of {}, found {dtype}", T::DTYPE)),
    }
}

fn batch_axes(operand: &Tensor) -> AxisList {
    (0..operand.rank() - 2).collect()
}

/// Returns the products of matrices: `[…, m, k] × […, k, n] → […, m, n]`.
#[track_caller]
pub(crate) fn product(left: &Tensor, right: &Tensor) -> Tensor {
    let batch = batch_axes(left);
    let rank = left.rank();
    let contract: (&[usize], &[usize]) = (&[rank - 1], &[rank - 2]);
    or_panic(dot_general(left, right, contract, (&batch, &batch)))
}

/// Returns the transposed matrices.
#[track_caller]
pub(crate) fn adjoint(operand: &Tensor) -> Tensor {
    let mut axes: AxisList = (0..operand.rank()).collect();
    axes.swap(operand.rank() - 2, operand.rank() - 1);
    or_panic(transpose(operand, &axes))
}

/// Returns whether `comparison` of the column with the row holds, for each element of the matrices.
#[track_caller]
pub(super) fn mask(operand: &Tensor, comparison: Comparison) -> Tensor {
    let axes: AxisList = (operand.rank() - 2..operand.rank()).collect();
    let lengths = &operand.shape()[operand.rank() - 2..];
    let rows = or_panic(create::iota(DType::I32, lengths, 0));
    let columns = or_panic(create::iota(DType::I32, lengths, 1));
    let holds = or_panic(compare(comparison, &columns, &rows));
    or_panic(broadcast_in_dim(&holds, operand.shape(), &axes))
}

/// Returns the matrices with zeros where `comparison` of the column with the row does not hold.
#[track_caller]
pub(super) fn part(operand: &Tensor, comparison: Comparison) -> Tensor {
    let zeros = create::zeros_like(operand);
    or_panic(select(&mask(operand, comparison), operand, &zeros))
}

/// Returns the diagonals of square matrices: `[…, n, n] → […, n]`.
#[track_caller]
pub(crate) fn diagonal(operand: &Tensor) -> Tensor {
    or_panic(sum(&part(operand, Comparison::Eq), &[operand.rank() - 1]))
}

/// Returns identity matrices with the dtype and shape of `operand`.
#[track_caller]
pub(crate) fn identity(operand: &Tensor) -> Tensor {
    or_panic(convert(&mask(operand, Comparison::Eq), operand.dtype()))
}

/// Returns a tensor with an axis of length 1 at position `axis`.
#[track_caller]
pub(super) fn with_axis(operand: &Tensor, axis: usize) -> Tensor {
    let mut shape = Shape::from(operand.shape());
    shape.insert(axis, 1);
    or_panic(reshape(operand, &shape))
}

/// Returns the matrices with their rows in the order of `permutation`, which has the shape `[…, n]`.
#[track_caller]
pub(super) fn permuted_rows(operand: &Tensor, permutation: &Tensor) -> Tensor {
    let axis = operand.rank() - 2;
    let take = Take {
        axis,
        batch_axes: axis,
    };
    or_panic(bind_one(&take, &[operand, permutation]))
}
