//! The factorizations that StableHLO has no operation for, as loops over the columns of matrices.
//!
//! The loops compute on all matrices of a batch together, as arrays with one batch axis.

use pytree_transform::{DType, Tensor, fori_loop, ix, vmap};

use crate::primitives::matrices::{MatrixPart, count, lengths, mask, parity_sign, part, spread};

/// Returns an array with one batch axis in front of the last `kept` axes.
fn joined(value: &Tensor, kept: usize) -> Tensor {
    let (batch, rest) = value.shape().split_at(value.rank() - kept);
    value.reshape([&[batch.iter().product()], rest].concat())
}

/// Returns the positions along an axis, with the shape of `value`.
fn positions(value: &Tensor, axis: isize) -> Tensor {
    Tensor::iota(DType::I32, value.shape(), axis)
}

/// Returns the part of `value` at the position `step` along an axis, which is removed.
fn at(value: &Tensor, axis: isize, step: &Tensor) -> Tensor {
    value.take(step, axis)
}

/// Returns the factors of square matrices, the pivots and the permutation. The pivot is the first of the elements with the
/// greatest absolute value. NaN counts as the greatest.
pub(super) fn lu(operand: &Tensor) -> Vec<Tensor> {
    let outer = &operand.shape()[..operand.rank() - 1];
    let rows = Tensor::iota(DType::I32, outer, -1);
    if operand.is_empty() {
        return vec![operand.clone(), rows.clone(), rows];
    }
    let size = lengths(operand)[0];
    let carry = (joined(operand, 2), joined(&rows, 1), joined(&rows, 1));
    let (packed, pivots, permutation) = fori_loop(0, count(size), lu_step, carry);
    vec![
        packed.reshape(operand.shape()),
        pivots.reshape(outer),
        permutation.reshape(outer),
    ]
}

/// One step of the elimination: exchanges two rows, and subtracts multiples of the upper row from all rows below.
fn lu_step(
    step: Tensor,
    (matrices, pivots, permutation): (Tensor, Tensor, Tensor),
) -> (Tensor, Tensor, Tensor) {
    let pivot = pivot(&at(&matrices, 2, &step), &step);
    let exchange = |value: &Tensor| {
        let rows = positions(value, 1);
        let is_pivot = rows.equal(spread(&pivot, value.shape()));
        let own = at(value, 1, &step).expand_dims(1);
        let row = |(value, pivot): (Tensor, Tensor)| at(&value, 0, &pivot);
        let other = vmap(row)((value.clone(), pivot.clone())).expand_dims(1);
        let below = is_pivot.select(&own, value);
        rows.equal(&step).select(&other, &below)
    };
    let exchanged = exchange(&matrices);
    let permutation = exchange(&permutation);
    let pivots = positions(&pivots, 1)
        .equal(&step)
        .select(pivot.expand_dims(1), &pivots);
    let (column, row) = (at(&exchanged, 2, &step), at(&exchanged, 1, &step));
    let divisor = at(&column, 1, &step).expand_dims(1);
    let quotients = divisor.equal(0.0).select(&column, &column / &divisor);
    let is_below = positions(&column, 1).greater(&step);
    let quotients = is_below.select(&quotients, &column).expand_dims(2);
    let reduced = &exchanged - &quotients * row.expand_dims(1);
    let (rows, columns) = (positions(&exchanged, 1), positions(&exchanged, 2));
    let is_rest = rows.greater(&step) & columns.greater(&step);
    let next = is_rest.select(&reduced, &exchanged);
    let next = columns.equal(&step).select(&quotients, &next);
    (next, pivots, permutation)
}

/// Returns the row with the greatest absolute value of columns `[b, n]`, at or below the step: `i32[b]`.
fn pivot(column: &Tensor, step: &Tensor) -> Tensor {
    let rows = positions(column, 1);
    let infinity = Tensor::full_like(column, f64::INFINITY);
    let magnitudes = column.isnan().select(&infinity, column.abs());
    let none = Tensor::full_like(column, -1.0);
    let magnitudes = rows.greater_equal(step).select(&magnitudes, &none);
    let is_greatest = magnitudes.equal(magnitudes.max_axes(1).expand_dims(1));
    let last = Tensor::full_like(&rows, count(column.shape()[1]) - 1);
    is_greatest.select(&rows, &last).min_axes(1)
}

/// Returns the determinants: the products of the pivots, with the signs of the permutations.
pub(super) fn determinant(operand: &Tensor) -> Tensor {
    let factors = lu(operand);
    let (packed, pivots) = (&factors[0], &factors[1]);
    let ones = Tensor::ones_like(packed);
    let on_diagonal = mask(packed, MatrixPart::Diagonal).select(packed, &ones);
    on_diagonal.prod_axes([-2, -1]) * parity_sign(pivots, operand.dtype())
}

/// Returns `Q` and `R` by Householder reflections, as `kernels/reflections.rs` computes them.
pub(super) fn qr(operand: &Tensor) -> Vec<Tensor> {
    let [rows, columns] = lengths(operand);
    let size = rows.min(columns);
    let matrices = joined(operand, 2);
    let (batch, dtype) = (matrices.shape()[0], operand.dtype());
    // The reflections are kept, because `Q` is the product of the reflections in the other order.
    let vectors = Tensor::zeros(dtype, [size, batch, rows]);
    let scales = Tensor::zeros(dtype, [size, batch]);
    let reflect = |step: Tensor, (matrices, vectors, scales): (Tensor, Tensor, Tensor)| {
        let (vector, scale) = reflection(&at(&matrices, 2, &step), &step);
        let is_step = |value: &Tensor| positions(value, 0).equal(&step);
        (
            reflected(&matrices, &vector, &scale),
            is_step(&vectors).select(&vector, &vectors),
            is_step(&scales).select(&scale, &scales),
        )
    };
    let carry = (matrices, vectors, scales);
    let (triangular, vectors, scales) = fori_loop(0, count(size), reflect, carry);
    let zeros = Tensor::zeros(dtype, [batch, rows, size]);
    let identity = mask(&zeros, MatrixPart::Diagonal).convert(dtype);
    let multiply = |step: Tensor, product: Tensor| {
        let step = -step + (count(size) - 1);
        reflected(&product, &at(&vectors, 0, &step), &at(&scales, 0, &step))
    };
    let orthogonal = fori_loop(0, count(size), multiply, identity);
    let triangular = part(&triangular.index(ix![.., ..size]), MatrixPart::Upper);
    let batch = &operand.shape()[..operand.rank() - 2];
    vec![
        orthogonal.reshape([batch, &[rows, size]].concat()),
        triangular.reshape([batch, &[size, columns]].concat()),
    ]
}

/// Returns the vectors `v: [b, m]` and the scales τ: `[b]` of the reflections that clear columns `[b, m]` below the row of the
/// step. Both are zeros above the step.
fn reflection(column: &Tensor, step: &Tensor) -> (Tensor, Tensor) {
    let rows = positions(column, 1);
    let tail = rows
        .greater(step)
        .select(column, Tensor::zeros_like(column));
    let head = at(column, 1, step);
    let ones = Tensor::ones_like(&head);
    let greatest = tail.abs().max_axes(1);
    let is_clear = greatest.equal(0.0);
    let greatest = is_clear.select(&ones, greatest.maximum(head.abs()));
    let sum = (&tail / greatest.expand_dims(1)).square().sum_axes(1);
    let norm = (sum + (&head / &greatest).square()).sqrt() * &greatest;
    let target = head.less(0.0).select(&norm, &-&norm);
    // If the column is clear, nothing is reflected: τ is zero, and the divisors are ones.
    let target = is_clear.select(&ones, &target);
    let difference = &target - &head;
    let scale = is_clear.select(Tensor::zeros_like(&head), &difference / &target);
    let divisor = is_clear.select(&ones, &-&difference);
    let vector = tail / divisor.expand_dims(1);
    let vector = rows.equal(step).select(Tensor::ones_like(&vector), &vector);
    (vector, scale)
}

/// Returns `A - τ v (vᵀ A)` for matrices `A: [b, m, n]`.
fn reflected(matrices: &Tensor, vector: &Tensor, scale: &Tensor) -> Tensor {
    let vector = vector.expand_dims(2);
    let projection = (&vector * matrices).sum_axes(1) * scale.expand_dims(1);
    matrices - vector * projection.expand_dims(1)
}
