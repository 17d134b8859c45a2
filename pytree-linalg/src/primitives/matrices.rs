//! Operations on matrices that the rules of this folder share, and the checks of their operands.

use pytree_transform::extend::{Examples, Operand, Primitive, Value, apply};
use pytree_transform::{AbstractArray, DType, Tensor, TensorElement, TensorError, vmap};

use crate::kernels::memory::filled;
use crate::kernels::real::Real;

/// Runs an expression with `$type` as an alias of `f32` or `f64`, which is the type of the dtype's elements.
macro_rules! with_real {
    ($dtype:expr, $type:ident => $body:expr) => {
        if $dtype == pytree_transform::DType::F32 {
            type $type = f32;
            $body
        } else {
            type $type = f64;
            $body
        }
    };
}
pub(super) use with_real;

/// The dtypes and shapes of operands or results.
pub(super) type Infos<'a> = [&'a AbstractArray];

/// The result of a lowering rule.
pub(super) type Lowered = Result<Vec<Value>, TensorError>;

/// The result of a transpose rule.
pub(super) type Cotangents = Vec<Option<Tensor>>;

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

/// Returns the error of an iteration that has not converged.
pub(super) fn not_converged(operation: &'static str, operand: &Tensor) -> TensorError {
    let fix = "add small numbers to the matrix, and report it: no matrix of finite numbers is known for which this happens";
    TensorError::not_converged(operation, &[operand.info()], fix)
}

/// Returns the results of an evaluation, and panics with its error.
pub(super) fn or_panic(results: Result<Vec<Tensor>, TensorError>) -> Vec<Tensor> {
    match results {
        Ok(results) => results,
        Err(error) => panic!("{error}"),
    }
}

/// Returns the lengths of the last two axes, or an error if there are fewer axes.
pub(crate) fn matrix_lengths(
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
pub(crate) fn square_length(
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
pub(crate) fn check_batch_axes(
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
    AbstractArray::new(operand.dtype, [&operand.shape[..batch], lengths].concat())
}

/// Returns the lengths of the last two axes of matrices.
pub(super) fn lengths(matrices: &Tensor) -> [usize; 2] {
    let rank = matrices.rank();
    [matrices.shape()[rank - 2], matrices.shape()[rank - 1]]
}

/// Returns a length as an `i32`, for positions and steps.
pub(super) fn count(length: usize) -> i32 {
    i32::try_from(length).unwrap_or(i32::MAX)
}

/// Returns the elements of an operand of an evaluation rule.
pub(super) fn elements<T: TensorElement>(operand: &Tensor) -> &[T] {
    match operand.read() {
        Ok(elements) => elements,
        Err(error) => panic!("{error}"),
    }
}

/// Computes one result for each matrix of an operand with nonempty matrices. `compute` gets a matrix in row-major
/// order, and writes the elements of the result.
pub(super) fn each_matrix<T: Real>(
    operand: &Tensor,
    result_lengths: &[usize],
    mut compute: impl FnMut(&[T], &mut [T]),
) -> Tensor {
    let result = with_lengths(operand.info(), result_lengths);
    let size: usize = lengths(operand).iter().product();
    let count: usize = result_lengths.iter().product();
    let mut found = filled(T::ZERO, result.len());
    if size > 0 && count > 0 {
        let matrices = elements::<T>(operand).chunks_exact(size);
        for (matrix, target) in matrices.zip(found.chunks_exact_mut(count)) {
            compute(matrix, target);
        }
    }
    Tensor::new(&result.shape[..], found)
}

/// Returns tensors with the given shapes and elements.
pub(super) fn shaped<T: Real, const N: usize>(
    infos: &[AbstractArray; N],
    elements: [Vec<T>; N],
) -> Vec<Tensor> {
    let pairs = infos.iter().zip(elements);
    pairs
        .map(|(info, elements)| Tensor::new(&info.shape[..], elements))
        .collect()
}

/// Returns the results of a primitive with one operand for a batch.
pub(super) fn batch_of_one<P: Primitive>(
    primitive: &P,
    operands: &[Tensor],
    axes: &[Option<usize>],
) -> Examples {
    let operand = match axes[0] {
        Some(axis) => operands[0].move_axis(axis.cast_signed(), 0),
        None => operands[0].clone(),
    };
    let results = apply(primitive, &[&operand]);
    let axes = vec![axes[0].map(|_| 0); results.len()];
    (results, axes)
}

/// Returns the result of a primitive with one result for a batch. Operands without a batch axis are repeated, unless no operand
/// has a batch axis.
pub(super) fn batch_of_all<P: Primitive>(
    primitive: &P,
    operands: &[Tensor],
    axes: &[Option<usize>],
    size: usize,
) -> Examples {
    let is_mapped = axes.iter().any(Option::is_some);
    let first = |(operand, axis): (&Tensor, &Option<usize>)| match axis {
        Some(axis) => operand.move_axis(axis.cast_signed(), 0),
        None if is_mapped => operand.broadcast_to([&[size], operand.shape()].concat()),
        None => operand.clone(),
    };
    let operands: Vec<Tensor> = operands.iter().zip(axes).map(first).collect();
    let results = apply(primitive, &operands.iter().collect::<Vec<_>>());
    (results, vec![is_mapped.then_some(0)])
}

/// Returns the value of an operand in which a primitive is not linear.
pub(super) fn known(operand: &Operand) -> &Tensor {
    match operand.known() {
        Some(value) => value,
        None => panic!("bug in pytree: the transpose rule needs the value of {operand:?}"),
    }
}

/// Refuses to transpose a primitive whose JVP rule does not apply it to tangents.
pub(super) fn not_linear<P: Primitive>(primitive: &P) -> ! {
    panic!(
        "bug in pytree: `{}` is linear in no operand",
        primitive.name()
    )
}

/// Returns the sum of two tangents. `None` is zero.
pub(super) fn sum_of(left: Option<Tensor>, right: Option<Tensor>) -> Option<Tensor> {
    match (left, right) {
        (Some(left), Some(right)) => Some(left + right),
        (left, right) => left.or(right),
    }
}

/// Returns the products of matrices: `[…, m, k] × […, k, n] → […, m, n]`.
#[track_caller]
pub(crate) fn product(left: &Tensor, right: &Tensor) -> Tensor {
    let batch: Vec<isize> = (0..left.rank().cast_signed() - 2).collect();
    left.dot_general(right, (&[-1], &[-2]), (&batch, &batch))
}

/// Returns the transposed matrices.
#[track_caller]
pub(crate) fn adjoint(operand: &Tensor) -> Tensor {
    operand.swap_axes(-2, -1)
}

/// A part of a matrix, by the column of an element compared with its row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MatrixPart {
    BelowDiagonal,
    Lower,
    Diagonal,
    Upper,
    AboveDiagonal,
}

/// Returns whether an element is in the part, for each element of the matrices.
#[track_caller]
pub(super) fn mask(operand: &Tensor, part: MatrixPart) -> Tensor {
    let lengths = lengths(operand);
    let rows = Tensor::iota(DType::I32, lengths, 0);
    let columns = Tensor::iota(DType::I32, lengths, 1);
    let is_inside = match part {
        MatrixPart::BelowDiagonal => columns.less(&rows),
        MatrixPart::Lower => columns.less_equal(&rows),
        MatrixPart::Diagonal => columns.equal(&rows),
        MatrixPart::Upper => columns.greater_equal(&rows),
        MatrixPart::AboveDiagonal => columns.greater(&rows),
    };
    is_inside.broadcast_to(operand.shape())
}

/// Returns the matrices with zeros outside of the part.
#[track_caller]
pub(super) fn part(operand: &Tensor, part: MatrixPart) -> Tensor {
    mask(operand, part).select(operand, Tensor::zeros_like(operand))
}

/// Returns the diagonals of square matrices: `[…, n, n] → […, n]`.
#[track_caller]
pub(crate) fn diagonal(operand: &Tensor) -> Tensor {
    part(operand, MatrixPart::Diagonal).sum_axes(-1)
}

/// Returns identity matrices with the dtype and shape of `operand`.
#[track_caller]
pub(crate) fn identity(operand: &Tensor) -> Tensor {
    mask(operand, MatrixPart::Diagonal).convert(operand.dtype())
}

/// Returns a value of each batch example, `[…]`, as an array whose first axes are these.
#[track_caller]
pub(super) fn spread(value: &Tensor, shape: &[usize]) -> Tensor {
    let ones = shape.len() - value.rank();
    let column = value.reshape([value.shape(), &vec![1; ones]].concat());
    column.broadcast_to(shape)
}

/// Returns the matrices with their rows in the order of `permutation`, which has the shape `[…, n]`.
#[track_caller]
pub(super) fn permuted_rows(operand: &Tensor, permutation: &Tensor) -> Tensor {
    if operand.rank() == 2 {
        return operand.take(permutation, 0);
    }
    let permute = |(matrix, permutation): (Tensor, Tensor)| permuted_rows(&matrix, &permutation);
    vmap(permute)((operand.clone(), permutation.clone()))
}

/// Returns the sign of a permutation with the dtype `dtype`: 1 for an even number of exchanges, else -1.
#[track_caller]
pub(crate) fn parity_sign(pivots: &Tensor, dtype: DType) -> Tensor {
    let is_exchanged = pivots.not_equal(Tensor::iota(DType::I32, pivots.shape(), -1));
    let ones = Tensor::ones(dtype, pivots.shape());
    is_exchanged.select(&-&ones, &ones).prod_axes(-1)
}
