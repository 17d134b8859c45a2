//! Returns the tolerance for figures of JAX, by dtype.
//!
//! Both sides round differently only in the order of sums and in the last bit of transcendental functions.
//! f32 has 2⁻²⁴ ≈ 6e-8 of relative error an operation, f64 1e-16; second derivatives of small
//! expressions combine some tens of operations and may cancel, hence the absolute part.

use pytree::{DType, Tensor};

/// Relative and absolute tolerance of an element type.
fn of(dtype: DType) -> (f64, f64) {
    match dtype {
        DType::F32 => (2e-5, 2e-6),
        DType::F64 => (1e-12, 1e-13),
        _ => (0.0, 0.0),
    }
}

/// The elements as f64, whatever their type.
pub fn numbers(tensor: &Tensor) -> Vec<f64> {
    tensor.convert(DType::F64).to_vec()
}

/// Asserts that two tensors agree in type, shape and elements.
pub fn assert_close(what: &str, found: &Tensor, expected: &Tensor) {
    assert_eq!(found.info(), expected.info(), "{what}");
    let (relative, absolute) = of(expected.dtype());
    for (index, (found, expected)) in numbers(found).iter().zip(numbers(expected)).enumerate() {
        let same = found.to_bits() == expected.to_bits()
            || *found == expected
            || (found.is_nan() && expected.is_nan())
            || (found - expected).abs() <= absolute + relative * expected.abs();
        assert!(
            same,
            "{what}, element {index}: found {found}, expected {expected}"
        );
    }
}

/// Asserts that two tensors agree in the digits of each element, however small or large, in infinities, NaN
/// and the signs of zeros.
///
/// A function of JAX is right to some units in the last place: its exponentials to 8 near overflow, where the
/// argument's rounding counts. XLA takes numbers below the least normal one for 0, on the way too; we don't.
pub fn assert_digits(what: &str, inputs: &[Tensor], found: &Tensor, expected: &Tensor) {
    assert_eq!(found.info(), expected.info(), "{what}");
    let (relative, least) = match expected.dtype() {
        DType::F32 => (2e-6, f64::from(f32::MIN_POSITIVE)),
        DType::F64 => (2e-14, f64::MIN_POSITIVE),
        _ => return assert_eq!(found, expected, "{what}"),
    };
    let mut wrong = Vec::new();
    for (index, (found, expected)) in numbers(found)
        .into_iter()
        .zip(numbers(expected))
        .enumerate()
    {
        let same = if found == expected {
            found != 0.0 || found.is_sign_negative() == expected.is_sign_negative()
        } else {
            (found.is_nan() && expected.is_nan())
                || (found - expected).abs() <= relative * expected.abs()
                || (expected == 0.0 && found.abs() <= least)
        };
        if !same {
            let at: Vec<f64> = inputs
                .iter()
                .filter(|input| input.shape() == inputs[0].shape())
                .map(|input| numbers(input).get(index).copied().unwrap_or(f64::NAN))
                .collect();
            wrong.push(format!("at {at:?} found {found:e}, expected {expected:e}"));
        }
    }
    assert!(wrong.is_empty(), "{what}: {}", wrong.join("; "));
}
