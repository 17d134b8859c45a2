//! Test helpers that compare the rules of a primitive with its evaluation.

use pytree_transform::extend::{Operand, Primitive, apply};
use pytree_transform::{DType, Tensor};

use crate::primitives::matrices::count;

/// Returns a tensor of pseudo-random numbers between -1 and 1, which depend on `seed`.
pub(crate) fn noise(shape: &[usize], seed: u32) -> Tensor {
    let mut state = seed.wrapping_mul(2_654_435_761).wrapping_add(1);
    let mut draw = |_| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        f64::from(state >> 8) / f64::from(1 << 23) - 1.0
    };
    let count = shape.iter().product();
    Tensor::new(shape, (0..count).map(&mut draw).collect::<Vec<f64>>())
}

/// Asserts that the elements of two tensors differ at most by `tolerance`.
#[track_caller]
pub(crate) fn assert_close(found: &Tensor, expected: &Tensor, tolerance: f64) {
    assert_eq!(found.info(), expected.info());
    let as_f64 = |tensor: &Tensor| tensor.convert(DType::F64).to_vec::<f64>();
    for (found, expected) in as_f64(found).into_iter().zip(as_f64(expected)) {
        let close = (found - expected).abs() <= tolerance * expected.abs().max(1.0);
        assert!(
            close || (found.is_nan() && expected.is_nan()),
            "{found} is not {expected}"
        );
    }
}

/// Returns the example at `position` of a batch. `axis` is the batch axis, or `None` if all examples are equal.
fn example(batch: &Tensor, axis: Option<usize>, position: usize) -> Tensor {
    match axis {
        Some(axis) => batch.take(&Tensor::from(count(position)), axis.cast_signed()),
        None => batch.clone(),
    }
}

fn applied<P: Primitive>(primitive: &P, operands: &[Tensor]) -> Vec<Tensor> {
    apply(primitive, &operands.iter().collect::<Vec<_>>())
}

/// Asserts that the batching rule returns the same results as the evaluation of each example.
#[track_caller]
pub(crate) fn check_batching<P: Primitive>(
    primitive: &P,
    operands: &[Tensor],
    axes: &[Option<usize>],
) {
    let mut sizes = operands.iter().zip(axes);
    let size = sizes.find_map(|(operand, axis)| axis.map(|axis| operand.shape()[axis]));
    let size = size.unwrap_or(0);
    let (results, result_axes) = primitive.batch(operands, axes, size);
    for position in 0..size {
        let pairs = operands.iter().zip(axes);
        let examples: Vec<Tensor> = pairs
            .map(|(operand, &axis)| example(operand, axis, position))
            .collect();
        let expected = applied(primitive, &examples);
        for ((result, &axis), expected) in results.iter().zip(&result_axes).zip(expected) {
            assert_close(&example(result, axis, position), &expected, 1e-12);
        }
    }
}

/// Asserts that the transpose rule is the transpose of the JVP rule for one operand: ⟨v, J u⟩ = ⟨Jᵀ v, u⟩.
#[track_caller]
pub(crate) fn check_transpose<P: Primitive>(primitive: &P, operands: &[Tensor], operand: usize) {
    let u = noise(operands[operand].shape(), 101);
    let mut tangents = vec![None; operands.len()];
    tangents[operand] = Some(u.clone());
    let (_, mut tangents) = primitive.jvp(operands, &tangents);
    let pushed = tangents.remove(0).expect("a tangent");
    let v = noise(pushed.shape(), 102);
    let mut known: Vec<Operand> = operands.iter().cloned().map(Operand::Known).collect();
    known[operand] = Operand::Linear(operands[operand].info().clone());
    let pulled = primitive.transpose(&[Some(v.clone())], &known)[operand].clone();
    let pulled = pulled.expect("a cotangent");
    assert_eq!(pulled.info(), u.info());
    assert_close(&(v * pushed).sum(), &(pulled * u).sum(), 1e-12);
}

/// Asserts that the JVP rule, applied to tangents of all operands, agrees with central differences.
#[track_caller]
pub(crate) fn check_tangent<P: Primitive>(primitive: &P, operands: &[Tensor]) {
    const STEP: f64 = 1e-6;
    let directions: Vec<Tensor> = (200..)
        .zip(operands)
        .map(|(seed, operand)| noise(operand.shape(), seed))
        .collect();
    let tangents: Vec<Option<Tensor>> = directions.iter().cloned().map(Some).collect();
    let (results, found) = primitive.jvp(operands, &tangents);
    let moved = |step: f64| {
        let pairs = operands.iter().zip(&directions);
        let moved: Vec<Tensor> = pairs.map(|(x, direction)| x + direction * step).collect();
        applied(primitive, &moved).remove(0)
    };
    let expected = (moved(STEP) - moved(-STEP)) / (2.0 * STEP);
    assert_close(&results[0], &applied(primitive, operands)[0], 0.0);
    assert_close(found[0].as_ref().expect("a tangent"), &expected, 1e-8);
}
