//! Checks of the arguments of random numbers.
//!
//! **Invariant:** an argument whose value is known and that its distribution does not have is an error, which names the
//! argument, the value, and the accepted values. Rust numbers are always known, and tensors are known unless they are
//! traced or on a device. Each function says what it returns for a bad value that is not known.

use pytree_transform::Tensor;
use pytree_transform::extend::known_floats;

/// Panics if `number` is not a probability.
#[track_caller]
pub(super) fn check_probability(number: f64) {
    assert!(
        (0.0..=1.0).contains(&number),
        "cannot draw bools with the probability {number:?}: expected a number from 0 to 1"
    );
}

/// Panics unless the range `low..high` has a number, or no number is drawn. `low` and `high` are integers, with the bounds
/// of their dtype.
#[track_caller]
pub(super) fn check_range(shape: &[usize], (low, high): (i64, i64), (least, greatest): (i64, i64)) {
    if shape.contains(&0) {
        return;
    }
    assert!(
        low < high,
        "cannot draw integers from {low}..{high}: the range is empty; pass a greater upper bound, which is never drawn itself"
    );
    assert!(
        least <= low && (high <= greatest || high - 1 == greatest),
        "cannot draw integers from {low}..{high}: the dtype holds the integers {least} to {greatest}; use a wider dtype"
    );
}

/// Panics unless `low` is at most `high`. `low < high` is required if `is_open`. Infinite bounds are accepted only then.
#[track_caller]
pub(super) fn check_interval(low: f64, high: f64, is_open: bool) {
    let is_ordered = if is_open { low < high } else { low <= high };
    assert!(
        is_ordered && (is_open || (low.is_finite() && high.is_finite())),
        "cannot draw numbers between {low:?} and {high:?}: expected {}",
        if is_open {
            "a lower bound below the upper bound"
        } else {
            "finite bounds, the lower bound first"
        }
    );
}

/// Panics if an element of `argument` is known and not `accepted`.
#[track_caller]
pub(super) fn check_elements(
    argument: &Tensor,
    name: &str,
    expected: &str,
    accepted: impl Fn(f64) -> bool,
) {
    let Some(numbers) = known_floats(argument) else {
        return;
    };
    if let Some(position) = numbers.iter().position(|&number| !accepted(number)) {
        panic!(
            "cannot draw with {name} {:?} (element {position} of {}): expected {expected}",
            numbers[position],
            argument.info()
        );
    }
}

/// Panics if `weights` are known and do not give probabilities, or if fewer than `distinct` of them are above 0.
#[track_caller]
pub(super) fn check_weights(weights: &Tensor, distinct: usize) {
    let is_weight = |weight: f64| weight >= 0.0 && weight.is_finite();
    check_elements(
        weights,
        "the weight",
        "finite weights of at least 0",
        is_weight,
    );
    let Some(numbers) = known_floats(weights) else {
        return;
    };
    let positive = numbers.iter().filter(|&&weight| weight > 0.0).count();
    assert!(
        positive > 0,
        "cannot choose with weights {} that are all 0; pass a weight above 0",
        weights.info()
    );
    assert!(
        positive >= distinct,
        "cannot choose {distinct} numbers without replacement with {positive} weights above 0; draw fewer numbers, or use `Replacement::With`"
    );
    let sum: f64 = numbers.iter().sum();
    let greatest = match weights.dtype() {
        pytree_transform::DType::F64 => f64::MAX,
        pytree_transform::DType::F16 => pytree_transform::f16::MAX.into(),
        _ => f32::MAX.into(),
    };
    assert!(
        sum <= greatest,
        "cannot choose with weights whose sum {sum:?} overflows {}; divide the weights by their sum",
        weights.dtype()
    );
}
