//! The gradients of the table in half-precision floats.
//!
//! The steps of finite differences are lost in the rounding of a half-precision float. So these gradients are compared
//! with those in f32 at the same operands.

use pytree_transform::{DType, Tensor};

use crate::gradients::case::Case;
use crate::gradients::derivatives::{floats, pulled, with_floats};
use crate::gradients::sample::Random;
use crate::gradients::table::table;

/// The greatest number of roundings between the operands of a case and a gradient. Each rounding changes a number by at
/// most half of the distance between neighbouring numbers of the dtype.
const ROUNDINGS: f64 = 16.0;

/// Returns the gradients of the case in `half` and in f32, at operands that both represent. Returns `None` for a case
/// whose function requires another dtype.
fn gradients(case: &Case, seed: u64, half: DType) -> Option<[Vec<Tensor>; 2]> {
    let mut random = Random(seed);
    let operands = case.sample(&mut random);
    let weights = random.like(&(case.function)(&operands));
    let in_half = |x: &Tensor| x.convert(half);
    let rounded: Vec<Tensor> = floats(&operands).iter().map(in_half).collect();
    let evaluate = || (case.function)(&with_floats(&operands, &rounded));
    let value = std::panic::catch_unwind(std::panic::AssertUnwindSafe(evaluate)).ok()?;
    if value.dtype() != half {
        return None;
    }
    let weights = weights.convert(half);
    let wide: Vec<Tensor> = rounded.iter().map(|x| x.convert(DType::F32)).collect();
    let gradient = |x: &[Tensor], weights: &Tensor| {
        pulled(&case.function, &with_floats(&operands, x), weights)
    };
    let narrow = gradient(&rounded, &weights);
    Some([narrow, gradient(&wide, &weights.convert(DType::F32))])
}

/// Returns the greatest distance of two gradients, relative to 1 or the greatest element.
fn distance(found: &[Tensor], expected: &[Tensor]) -> f64 {
    let numbers = |tensors: &[Tensor]| -> Vec<f64> {
        let all = tensors.iter().map(|x| x.convert(DType::F64).to_vec());
        all.collect::<Vec<Vec<f64>>>().concat()
    };
    let (found, expected) = (numbers(found), numbers(expected));
    assert_eq!(found.len(), expected.len());
    let size = expected.iter().fold(1.0_f64, |size, x| size.max(x.abs()));
    let pairs = found.iter().zip(&expected);
    let distances = pairs.map(|(found, expected)| {
        let distance = (found - expected).abs() / size;
        if distance.is_nan() {
            f64::INFINITY
        } else {
            distance
        }
    });
    distances.fold(0.0, f64::max)
}

#[test]
fn half_gradients_are_those_of_f32() {
    for (half, digits) in [(DType::BF16, 7), (DType::F16, 10)] {
        let tolerance = ROUNDINGS * 0.5 * f64::from(-digits).exp2();
        let (mut compared, mut wrong) = (0, Vec::new());
        for (case, seed) in table().iter().zip(0..) {
            let Some([narrow, wide]) = gradients(case, seed, half) else {
                continue;
            };
            compared += 1;
            assert!(narrow.iter().all(|x| x.dtype() == half), "{}", case.name);
            let distance = distance(&narrow, &wide);
            if distance > tolerance {
                wrong.push((case.name, distance));
            }
        }
        assert!(compared > 200, "only {compared} cases accept {half}");
        assert!(wrong.is_empty(), "{half}, tolerance {tolerance}: {wrong:?}");
    }
}
