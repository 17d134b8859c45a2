//! How far apart the results of two ways to compute the same may be.
//!
//! The ways differ in the order in which they add, so each sum is wrong by ε times its terms, and the
//! functions after it multiply that by their slopes. Programs keep what is not exact within a few units
//! and take no steep function of it, hence bounds that are some thousand times ε.

use pytree::{DType, Tensor};

/// The bound relative to the greatest figure and 1.
fn bound(dtype: DType) -> f64 {
    match dtype {
        DType::F32 => 2e-4,
        DType::F64 => 1e-11,
        _ => 0.0,
    }
}

/// The elements as f64, whatever their type.
fn numbers(tensor: &Tensor) -> Vec<f64> {
    tensor.convert(DType::F64).to_vec()
}

/// Asserts that tensors agree in type, shape and elements; NaN equals NaN.
#[track_caller]
pub fn assert_close(what: &str, found: &[Tensor], expected: &[Tensor]) {
    assert_eq!(found.len(), expected.len(), "{what}: the number of results");
    for (position, (found, expected)) in found.iter().zip(expected).enumerate() {
        assert_eq!(found.info(), expected.info(), "{what}: result {position}");
        let bound = bound(expected.dtype());
        let (found, expected) = (numbers(found), numbers(expected));
        let finite = expected.iter().filter(|x| x.is_finite());
        let greatest = finite.fold(1.0_f64, |greatest, x| greatest.max(x.abs()));
        for (index, (found, expected)) in found.into_iter().zip(expected).enumerate() {
            let same = found == expected || (found.is_nan() && expected.is_nan());
            assert!(
                same || (found - expected).abs() <= bound * greatest,
                "{what}: result {position}, element {index}: found {found}, expected {expected}"
            );
        }
    }
}

/// Asserts that tensors are the same bit for bit, as what a function computes compiled or not. All NaNs count as one.
#[track_caller]
pub fn assert_same_bits(what: &str, found: &[Tensor], expected: &[Tensor]) {
    assert_eq!(found.len(), expected.len(), "{what}: the number of results");
    for (position, (found, expected)) in found.iter().zip(expected).enumerate() {
        assert_eq!(found.info(), expected.info(), "{what}: result {position}");
        // Every f32 is an f64, so converting keeps what distinguishes them.
        for (index, (found, expected)) in numbers(found).iter().zip(numbers(expected)).enumerate() {
            let same =
                found.to_bits() == expected.to_bits() || (found.is_nan() && expected.is_nan());
            assert!(
                same,
                "{what}: result {position}, element {index}: found {found:e}, expected {expected:e}"
            );
        }
    }
}

/// Asserts that two inner products agree. What they may differ by depends on their terms, which may be
/// much greater than the sum.
#[track_caller]
pub fn assert_sums_close(
    what: &str,
    found: (&[Tensor], &[Tensor]),
    expected: (&[Tensor], &[Tensor]),
) {
    let terms = |(left, right): (&[Tensor], &[Tensor])| -> Vec<f64> {
        left.iter()
            .zip(right)
            .flat_map(|(left, right)| numbers(&(left * right)))
            .collect()
    };
    let (found, expected) = (terms(found), terms(expected));
    let weight: f64 = found.iter().chain(&expected).map(|term| term.abs()).sum();
    let (found, expected): (f64, f64) = (found.iter().sum(), expected.iter().sum());
    assert!(
        (found - expected).abs() <= bound(DType::F64) * weight.max(1.0),
        "{what}: found {found}, expected {expected}"
    );
}
