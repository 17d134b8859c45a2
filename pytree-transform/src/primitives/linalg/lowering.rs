//! The lowering rules of the factorizations that StableHLO has no operation for: loops over the columns of matrices.
//!
//! The loops compute on all matrices of a batch together, as arrays with one batch axis.

use crate::base::dtype::{AbstractArray, DType};
use crate::base::error::TensorError;
use crate::base::shape::AxisList;
use crate::tensor::stablehlo::{Block, Bound, GatherAxes, Value, bound, number};

fn array(dtype: DType, shape: &[usize]) -> AbstractArray {
    AbstractArray::new(dtype, shape)
}

/// Writes the matrices with zeros where the comparison `direction` of the column with the row does not hold.
pub(super) fn part(block: &mut Block<'_>, matrices: &Value, direction: &str) -> Value {
    let zeros = block.number_like(matrices, 0.0);
    selected(block, matrices, direction, &zeros)
}

/// Writes `matrices` where the comparison `direction` of the column with the row holds, and `others` elsewhere.
fn selected(block: &mut Block<'_>, matrices: &Value, direction: &str, others: &Value) -> Value {
    let positions = array(DType::I32, matrices.shape());
    let rows = block.positions(&positions, matrices.rank() - 2);
    let columns = block.positions(&positions, matrices.rank() - 1);
    let holds = block.comparison(direction, &columns, &rows);
    block.selection(&holds, matrices, others)
}

/// Writes the matrices with their rows in the order of `permutation`, which has the shape `[…, n]`.
pub(super) fn permuted_rows(block: &mut Block<'_>, matrices: &Value, permutation: &Value) -> Value {
    let batch = matrices.rank() - 2;
    let axes = GatherAxes {
        offset: [batch + 1].into_iter().collect(),
        collapsed: [batch].into_iter().collect(),
        operand_batch: (0..batch).collect(),
        indices_batch: (0..batch).collect(),
        indexed: [batch].into_iter().collect(),
        components: batch + 1,
    };
    block.gathered(matrices, permutation, &axes, &matrices.info)
}

/// Writes the inverse of permutations `[…, n]`: the position of each number.
pub(super) fn inverse_permutation(
    block: &mut Block<'_>,
    permutation: &Value,
) -> Result<Value, TensorError> {
    let rank = permutation.rank();
    let size = permutation.shape()[rank - 1];
    let shape = [permutation.shape(), &[size]].concat();
    let positions = array(DType::I32, &shape);
    let axes: AxisList = (0..rank).collect();
    let spread = block.broadcast(permutation, &shape, &axes);
    let numbers = block.positions(&positions, rank);
    let places = block.positions(&positions, rank - 1);
    let is_here = block.comparison("EQ", &spread, &numbers);
    let zeros = block.number_like(&places, 0.0);
    let here = block.selection(&is_here, &places, &zeros);
    block.reduced(
        "stablehlo.add",
        &here,
        &number(DType::I32, 0.0),
        &[rank - 1],
    )
}

/// The matrices of a loop, `[b, m, n]`, and the number of the present step.
struct Step<'a> {
    matrices: &'a Value,
    step: &'a Value,
}

impl Step<'_> {
    /// Writes the number of the step as an array of i32.
    fn number(&self, block: &mut Block<'_>, shape: &[usize]) -> Value {
        block.broadcast(self.step, shape, &[])
    }

    /// Writes whether the position along `axis` compares with the number of the step, as an array with a shape.
    fn compared(
        &self,
        block: &mut Block<'_>,
        shape: &[usize],
        axis: usize,
        direction: &str,
    ) -> Value {
        let positions = block.positions(&array(DType::I32, shape), axis);
        let step = self.number(block, shape);
        block.comparison(direction, &positions, &step)
    }

    /// Writes the column or the row with the number of the step, as `[b, m]` or `[b, n]`.
    fn line(&self, block: &mut Block<'_>, axis: usize) -> Value {
        let moved = block.with_moved_axis(self.matrices, axis, 0);
        block.element_at(&moved, self.step)
    }

    /// Writes the element of a line with the number of the step, as `[b]`.
    fn element(&self, block: &mut Block<'_>, line: &Value) -> Value {
        let moved = block.with_moved_axis(line, 1, 0);
        block.element_at(&moved, self.step)
    }
}

/// Runs a loop with `count` steps. `body` maps the number of the step and the carry to the next carry.
fn repeated(
    block: &mut Block<'_>,
    count: usize,
    carry: Vec<Value>,
    body: impl FnOnce(&mut Block<'_>, &Value, &[Value]) -> Result<Vec<Value>, TensorError>,
) -> Result<Vec<Value>, TensorError> {
    let scalar = array(DType::I32, &[]);
    let start = block.number(&scalar, 0.0);
    let carry = [vec![start], carry].concat();
    let mut results = block.while_loop(
        &carry,
        |block, carry| Ok(vec![block.comparison_with("LT", &carry[0], count as f64)]),
        |block, carry| {
            let mut next = vec![block.binary_with("stablehlo.add", &carry[0], 1.0)];
            next.extend(body(block, &carry[0], &carry[1..])?);
            Ok(next)
        },
    )?;
    results.remove(0);
    Ok(results)
}

/// Writes an array with one batch axis in front of the last `kept` axes.
fn joined(block: &mut Block<'_>, value: &Value, kept: usize) -> Value {
    let (batch, rest) = value.shape().split_at(value.rank() - kept);
    let shape = [&[batch.iter().product()], rest].concat();
    block.reshaped(value, &shape)
}

/// Writes the LU decomposition of square matrices: the factors, the pivots and the permutation. The pivot is the first of
/// the elements with the greatest absolute value. NaN counts as the greatest.
pub(super) fn lu(block: &mut Block<'_>, operand: &Value) -> Result<Vec<Value>, TensorError> {
    let shape = operand.shape().to_vec();
    let outer = shape[..shape.len() - 1].to_vec();
    let positions = array(DType::I32, &outer);
    if operand.info.is_empty() {
        let zeros = block.number(&positions, 0.0);
        return Ok(vec![operand.clone(), zeros.clone(), zeros]);
    }
    let size = shape[shape.len() - 1];
    let rows = block.positions(&positions, outer.len() - 1);
    let carry = [(operand, 2), (&rows, 1), (&rows, 1)];
    let carry = carry
        .map(|(value, kept)| joined(block, value, kept))
        .to_vec();
    let results = repeated(block, size, carry, |block, step, carry| {
        lu_step(block, step, &carry[0], &carry[1], &carry[2])
    })?;
    let shapes = [&shape, &outer, &outer];
    let results = results.iter().zip(shapes);
    Ok(results
        .map(|(value, shape)| block.reshaped(value, shape))
        .collect())
}

/// Writes one step of the elimination: exchanges two rows, and subtracts multiples of the upper row from all rows below.
fn lu_step(
    block: &mut Block<'_>,
    step: &Value,
    matrices: &Value,
    pivots: &Value,
    permutation: &Value,
) -> Result<Vec<Value>, TensorError> {
    let shape = matrices.shape().to_vec();
    let line = [shape[0], shape[1]];
    let at = Step { matrices, step };
    let pivot = pivot(block, &at)?;
    // `[b, n]` and `[b, n, n]`: the rows that are exchanged.
    let pivot_of_line = block.broadcast(&pivot, &line, &[0]);
    let exchange = |block: &mut Block<'_>, value: &Value| {
        let shape = value.shape().to_vec();
        let positions = block.positions(&array(DType::I32, &shape), 1);
        let pivots = block.broadcast(&pivot, &shape, &[0]);
        let is_pivot = block.comparison("EQ", &positions, &pivots);
        let is_step = at.compared(block, &shape, 1, "EQ");
        let axes: AxisList = (0..shape.len()).filter(|&axis| axis != 1).collect();
        let own = Step {
            matrices: value,
            step,
        }
        .line(block, 1);
        let own = block.broadcast(&own, &shape, &axes);
        let other = row_at(block, value, &pivot);
        let other = block.broadcast(&other, &shape, &axes);
        let below = block.selection(&is_pivot, &own, value);
        block.selection(&is_step, &other, &below)
    };
    let exchanged = exchange(block, matrices);
    let permutation = exchange(block, permutation);
    let is_step = at.compared(block, &line, 1, "EQ");
    let pivots = block.selection(&is_step, &pivot_of_line, pivots);
    let at = Step {
        matrices: &exchanged,
        step,
    };
    let (column, row) = (at.line(block, 2), at.line(block, 1));
    let divisor = at.element(block, &column);
    let divisor = block.broadcast(&divisor, &line, &[0]);
    let quotients = block.binary("stablehlo.divide", &column, &divisor);
    let is_zero = block.comparison_with("EQ", &divisor, 0.0);
    let quotients = block.selection(&is_zero, &column, &quotients);
    let is_below = at.compared(block, &line, 1, "GT");
    let quotients = block.selection(&is_below, &quotients, &column);
    let left = block.broadcast(&quotients, &shape, &[0, 1]);
    let right = block.broadcast(&row, &shape, &[0, 2]);
    let product = block.binary("stablehlo.multiply", &left, &right);
    let reduced = block.binary("stablehlo.subtract", &exchanged, &product);
    let is_lower = at.compared(block, &shape, 1, "GT");
    let is_right = at.compared(block, &shape, 2, "GT");
    let is_rest = block.binary("stablehlo.and", &is_lower, &is_right);
    let is_column = at.compared(block, &shape, 2, "EQ");
    let next = block.selection(&is_rest, &reduced, &exchanged);
    let next = block.selection(&is_column, &left, &next);
    Ok(vec![next, pivots, permutation])
}

/// Writes the row with the greatest absolute value in the column of the step, at or below the step: `i32[b]`.
fn pivot(block: &mut Block<'_>, at: &Step<'_>) -> Result<Value, TensorError> {
    let column = at.line(block, 2);
    let shape = column.shape().to_vec();
    let magnitudes = block.unary("stablehlo.abs", &column);
    let infinity = block.splat(&column.info, &bound(column.dtype(), Bound::Greatest));
    let is_not_a_number = block.is_not_a_number(&column);
    let magnitudes = block.selection(&is_not_a_number, &infinity, &magnitudes);
    let none = block.number_like(&column, -1.0);
    let is_candidate = at.compared(block, &shape, 1, "GE");
    let magnitudes = block.selection(&is_candidate, &magnitudes, &none);
    let start = number(column.dtype(), -1.0);
    let greatest = block.reduced("stablehlo.maximum", &magnitudes, &start, &[1])?;
    let greatest = block.broadcast(&greatest, &shape, &[0]);
    let is_greatest = block.comparison("EQ", &magnitudes, &greatest);
    let rows = block.positions(&array(DType::I32, &shape), 1);
    let last = block.number_like(&rows, (shape[1] - 1) as f64);
    let rows = block.selection(&is_greatest, &rows, &last);
    let start = number(DType::I32, (shape[1] - 1) as f64);
    block.reduced("stablehlo.minimum", &rows, &start, &[1])
}

/// Writes the row of each matrix `[b, n, …]` with the number `position`, `i32[b]`.
fn row_at(block: &mut Block<'_>, value: &Value, position: &Value) -> Value {
    let axes = GatherAxes {
        offset: (1..value.rank() - 1).collect(),
        collapsed: [1].into_iter().collect(),
        operand_batch: [0].into_iter().collect(),
        indices_batch: [0].into_iter().collect(),
        indexed: [1].into_iter().collect(),
        components: 1,
    };
    let mut shape = value.shape().to_vec();
    shape.remove(1);
    block.gathered(value, position, &axes, &array(value.dtype(), &shape))
}

/// Writes the determinants: the products of the pivots, with the signs of the permutations.
pub(super) fn determinant(block: &mut Block<'_>, operand: &Value) -> Result<Value, TensorError> {
    let rank = operand.rank();
    let factors = lu(block, operand)?;
    let (packed, pivots) = (&factors[0], &factors[1]);
    let one = number(operand.dtype(), 1.0);
    let ones = block.number_like(packed, 1.0);
    let on_diagonal = selected(block, packed, "EQ", &ones);
    let axes = [rank - 2, rank - 1];
    let product = block.reduced("stablehlo.multiply", &on_diagonal, &one, &axes)?;
    let rows = block.positions(&pivots.info, rank - 2);
    let is_exchanged = block.comparison("NE", pivots, &rows);
    let info = array(operand.dtype(), pivots.shape());
    let (positive, negative) = (block.number(&info, 1.0), block.number(&info, -1.0));
    let signs = block.selection(&is_exchanged, &negative, &positive);
    let sign = block.reduced("stablehlo.multiply", &signs, &one, &[rank - 2])?;
    Ok(block.binary("stablehlo.multiply", &product, &sign))
}

/// Writes `Q` and `R` by Householder reflections, as `spectral_kernels.rs` computes them.
pub(super) fn qr(
    block: &mut Block<'_>,
    operand: &Value,
    results: &[&AbstractArray],
) -> Result<Vec<Value>, TensorError> {
    let rank = operand.rank();
    let (rows, columns) = (operand.shape()[rank - 2], operand.shape()[rank - 1]);
    let count = rows.min(columns);
    if operand.info.is_empty() {
        return Ok(results.iter().map(|info| block.number(info, 0.0)).collect());
    }
    let matrices = joined(block, operand, 2);
    let batch = matrices.shape()[0];
    let dtype = operand.dtype();
    // The reflections are kept, because `Q` is the product of the reflections in the other order.
    let reflections = block.number(&array(dtype, &[count, batch, rows]), 0.0);
    let scales = block.number(&array(dtype, &[count, batch]), 0.0);
    let carry = vec![matrices, reflections, scales];
    let factors = repeated(block, count, carry, |block, step, carry| {
        let at = Step {
            matrices: &carry[0],
            step,
        };
        let (reflection, scale) = reflection(block, &at)?;
        let reflected = reflected(block, &carry[0], &reflection, &scale)?;
        let reflections = block.with_element(&carry[1], &reflection, step);
        Ok(vec![
            reflected,
            reflections,
            block.with_element(&carry[2], &scale, step),
        ])
    })?;
    let (reflections, scales) = (factors[1].clone(), factors[2].clone());
    let shape = [batch, rows, count];
    let zeros = block.number(&array(dtype, &shape), 0.0);
    let ones = block.number(&array(dtype, &shape), 1.0);
    let identity = selected(block, &ones, "EQ", &zeros);
    let carry = vec![identity, reflections, scales];
    let orthogonal = repeated(block, count, carry, |block, step, carry| {
        let last = block.number_like(step, (count - 1) as f64);
        let step = block.binary("stablehlo.subtract", &last, step);
        let reflection = block.element_at(&carry[1], &step);
        let scale = block.element_at(&carry[2], &step);
        let next = reflected(block, &carry[0], &reflection, &scale)?;
        Ok(vec![next, carry[1].clone(), carry[2].clone()])
    })?;
    let q = block.reshaped(&orthogonal[0], &results[0].shape);
    let (start, stride) = ([0, 0, 0], [1, 1, 1]);
    let triangular = block.sliced(&factors[0], &start, &[batch, count, columns], &stride);
    let triangular = part(block, &triangular, "GE");
    Ok(vec![q, block.reshaped(&triangular, &results[1].shape)])
}

/// Writes the vector `v: [b, m]` and the scale τ: `[b]` of the reflection that clears the column of the step below the
/// diagonal. Both are zeros above the step.
fn reflection(block: &mut Block<'_>, at: &Step<'_>) -> Result<(Value, Value), TensorError> {
    let column = at.line(block, 2);
    let shape = column.shape().to_vec();
    let zeros = block.number_like(&column, 0.0);
    let is_tail = at.compared(block, &shape, 1, "GT");
    let tail = block.selection(&is_tail, &column, &zeros);
    let head = at.element(block, &column);
    let magnitudes = block.unary("stablehlo.abs", &tail);
    let start = number(column.dtype(), 0.0);
    let greatest = block.reduced("stablehlo.maximum", &magnitudes, &start, &[1])?;
    let is_clear = block.comparison_with("EQ", &greatest, 0.0);
    let of_head = block.unary("stablehlo.abs", &head);
    let greatest = block.binary("stablehlo.maximum", &greatest, &of_head);
    let ones = block.number_like(&greatest, 1.0);
    let greatest = block.selection(&is_clear, &ones, &greatest);
    let spread = block.broadcast(&greatest, &shape, &[0]);
    let quotients = block.binary("stablehlo.divide", &tail, &spread);
    let squares = block.binary("stablehlo.multiply", &quotients, &quotients);
    let sum = block.reduced("stablehlo.add", &squares, &start, &[1])?;
    let of_head = block.binary("stablehlo.divide", &head, &greatest);
    let square = block.binary("stablehlo.multiply", &of_head, &of_head);
    let sum = block.binary("stablehlo.add", &sum, &square);
    let root = block.unary("stablehlo.sqrt", &sum);
    let norm = block.binary("stablehlo.multiply", &root, &greatest);
    let negated = block.unary("stablehlo.negate", &norm);
    let is_negative = block.comparison_with("LT", &head, 0.0);
    let target = block.selection(&is_negative, &norm, &negated);
    // If the column is clear, nothing is reflected: τ is zero, and the divisors are ones.
    let target = block.selection(&is_clear, &ones, &target);
    let difference = block.binary("stablehlo.subtract", &target, &head);
    let scale = block.binary("stablehlo.divide", &difference, &target);
    let none = block.number_like(&scale, 0.0);
    let scale = block.selection(&is_clear, &none, &scale);
    let divisor = block.unary("stablehlo.negate", &difference);
    let divisor = block.selection(&is_clear, &ones, &divisor);
    let divisor = block.broadcast(&divisor, &shape, &[0]);
    let vector = block.binary("stablehlo.divide", &tail, &divisor);
    let is_head = at.compared(block, &shape, 1, "EQ");
    let ones = block.number_like(&vector, 1.0);
    Ok((block.selection(&is_head, &ones, &vector), scale))
}

/// Writes `A - τ v (vᵀ A)` for matrices `A: [b, m, n]`.
fn reflected(
    block: &mut Block<'_>,
    matrices: &Value,
    vector: &Value,
    scale: &Value,
) -> Result<Value, TensorError> {
    let shape = matrices.shape().to_vec();
    let spread = block.broadcast(vector, &shape, &[0, 1]);
    let products = block.binary("stablehlo.multiply", &spread, matrices);
    let start = number(matrices.dtype(), 0.0);
    let projection = block.reduced("stablehlo.add", &products, &start, &[1])?;
    let scale = block.broadcast(scale, projection.shape(), &[0]);
    let projection = block.binary("stablehlo.multiply", &projection, &scale);
    let projection = block.broadcast(&projection, &shape, &[0, 2]);
    let change = block.binary("stablehlo.multiply", &spread, &projection);
    Ok(block.binary("stablehlo.subtract", matrices, &change))
}
