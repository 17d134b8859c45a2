//! Test helpers that compare the rules of a primitive with its evaluation.

use pytree_kernels::base::dtype::DType;
use pytree_kernels::base::shape::{AxisList, PerAxis};

use crate::base::error::or_panic;
use crate::primitives::reduce::sum;
use crate::primitives::shape::reshape;
use crate::primitives::slice::slice;
use crate::tensor::Tensor;
use crate::tensor::primitive::{BatchAxis, Linear, Primitive};
use crate::tensor::trace::bind;

/// Returns a tensor of pseudo-random numbers between -1 and 1, which depend on `seed`.
pub(crate) fn noise(shape: &[usize], seed: u32) -> Tensor {
    let mut state = seed.wrapping_mul(2_654_435_761).wrapping_add(1);
    let mut draw = |_| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        f64::from(state >> 8) / f64::from(1 << 23) - 1.0
    };
    Tensor::new(
        shape,
        (0..shape.iter().product())
            .map(&mut draw)
            .collect::<Vec<f64>>(),
    )
}

/// Returns the indices of all elements of an array of this shape, in row-major order.
pub(crate) fn all_indices(shape: &[usize]) -> impl Iterator<Item = Vec<usize>> {
    let shape = shape.to_vec();
    (0..shape.iter().product()).map(move |mut flat: usize| {
        let mut index = vec![0; shape.len()];
        for axis in (0..shape.len()).rev() {
            index[axis] = flat % shape[axis];
            flat /= shape[axis];
        }
        index
    })
}

/// Asserts that the elements of two tensors differ at most by `tolerance`.
#[track_caller]
pub(crate) fn assert_close(found: &Tensor, expected: &Tensor, tolerance: f64) {
    assert_eq!(found.info(), expected.info());
    let as_f64 = |tensor: &Tensor| {
        or_panic(crate::primitives::convert::convert(tensor, DType::F64)).to_vec::<f64>()
    };
    for (found, expected) in as_f64(found).into_iter().zip(as_f64(expected)) {
        let close = (found - expected).abs() <= tolerance * expected.abs().max(1.0);
        assert!(
            close || found.to_bits() == expected.to_bits() || (found.is_nan() && expected.is_nan()),
            "{found} is not {expected}"
        );
    }
}

/// Returns the example at `position` of a batch. `axis` is the batch axis, or `None` if all examples are equal.
fn example(batch: &Tensor, axis: Option<usize>, position: usize) -> Tensor {
    let Some(axis) = axis else {
        return batch.clone();
    };
    let mut start: PerAxis = batch.shape().iter().map(|_| 0).collect();
    let mut limit = PerAxis::from_slice(batch.shape());
    let stride: PerAxis = batch.shape().iter().map(|_| 1).collect();
    (start[axis], limit[axis]) = (position, position + 1);
    let part = or_panic(slice(batch, &start, &limit, &stride));
    limit.remove(axis);
    or_panic(reshape(&part, &limit))
}

/// Asserts that the batching rule returns the same results as the evaluation of each example.
#[track_caller]
pub(crate) fn check_batching(
    primitive: &dyn Primitive,
    operands: &[Tensor],
    axes: &[Option<usize>],
) {
    let size = operands
        .iter()
        .zip(axes)
        .find_map(|(operand, axis)| axis.map(|axis| operand.shape()[axis]));
    let size = size.unwrap_or(0);
    let (results, result_axes) = primitive.batch(operands, axes, &BatchAxis::unnamed(size));
    for position in 0..size {
        let examples: Vec<Tensor> = operands
            .iter()
            .zip(axes)
            .map(|(operand, &axis)| example(operand, axis, position))
            .collect();
        let expected = or_panic(bind(primitive, &examples.iter().collect::<Vec<_>>()));
        for ((result, &axis), expected) in results.iter().zip(&result_axes).zip(expected) {
            assert_close(&example(result, axis, position), &expected, 1e-12);
        }
    }
}

/// Asserts that the transpose rule is the transpose of the JVP rule for one operand: ⟨v, J u⟩ = ⟨Jᵀ v, u⟩.
#[track_caller]
pub(crate) fn check_transpose(primitive: &dyn Primitive, operands: &[Tensor], operand: usize) {
    let u = noise(operands[operand].shape(), 101);
    let mut tangents = vec![None; operands.len()];
    tangents[operand] = Some(u.clone());
    let (_, mut tangents) = primitive.jvp(operands, &tangents);
    let pushed = tangents.remove(0).expect("a tangent");
    let v = noise(pushed.shape(), 102);
    let linear: Vec<Linear> = operands
        .iter()
        .enumerate()
        .map(|(position, tensor)| {
            if position == operand {
                Linear::Unknown(tensor.info().clone())
            } else {
                Linear::Known(tensor.clone())
            }
        })
        .collect();
    let pulled = primitive.transpose(&[Some(v.clone())], &linear)[operand]
        .clone()
        .expect("a cotangent");
    assert_eq!(pulled.info(), u.info());
    assert_close(
        &inner_product(&v, &pushed),
        &inner_product(&pulled, &u),
        1e-12,
    );
}

fn inner_product(left: &Tensor, right: &Tensor) -> Tensor {
    let axes: AxisList = (0..left.rank()).collect();
    or_panic(sum(&(left * right), &axes))
}

/// Asserts that the JVP rule, applied to tangents of all operands, agrees with central differences.
#[track_caller]
pub(crate) fn check_tangent(primitive: &dyn Primitive, operands: &[Tensor]) {
    const STEP: f64 = 1e-6;
    let direction = |(position, operand): (usize, &Tensor)| {
        operand
            .dtype()
            .is_float()
            .then(|| noise(operand.shape(), 200 + u32::try_from(position).unwrap_or(0)))
    };
    let tangents: Vec<Option<Tensor>> = operands.iter().enumerate().map(direction).collect();
    let (results, found) = primitive.jvp(operands, &tangents);
    let moved = |step: f64| {
        let moved: Vec<Tensor> = operands
            .iter()
            .zip(&tangents)
            .map(|(operand, tangent)| {
                tangent
                    .as_ref()
                    .map_or(operand.clone(), |tangent| operand + tangent * step)
            })
            .collect();
        or_panic(bind(primitive, &moved.iter().collect::<Vec<_>>())).remove(0)
    };
    let expected = (moved(STEP) - moved(-STEP)) / (2.0 * STEP);
    assert_close(
        &results[0],
        &or_panic(bind(primitive, &operands.iter().collect::<Vec<_>>()))[0],
        0.0,
    );
    assert_close(found[0].as_ref().expect("a tangent"), &expected, 1e-8);
}
