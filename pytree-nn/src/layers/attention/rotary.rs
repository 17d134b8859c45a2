//! Rotary position embedding.

use pytree_core::shapes;
use pytree_derive::panicking_twin;
use pytree_transform::{DType, Tensor};

use crate::convert_floats::at_least_f32_dtype;
use crate::error::InputError;

/// Rotates pairs of elements of each head by angles that grow with the position (Su et al. 2021, "RoFormer", equation
/// 34). So the dot product of a rotated query and a rotated key depends on the positions only through their difference.
///
/// With h = head_dim / 2, the elements xᵢ and xᵢ₊ₕ of a head are a pair. At position p, the pair is rotated by the
/// angle a = p · base^(-i/h) to (xᵢ cos a - xᵢ₊ₕ sin a, xᵢ₊ₕ cos a + xᵢ sin a), as in Flax. The usual base is 10000.
/// The positions are integers or floats, and broadcast over leading axes of `x`. Half-precision floats are computed in
/// f32, and the result is rounded once.
///
/// # Examples
/// ```
/// use pytree_nn::{Key, rotary};
/// use pytree_transform::{DType, Tensor};
/// let x = Key::new(0).normal(DType::F32, [2, 5, 4, 8]);
/// let rotated = rotary(&x, &Tensor::arange(DType::I32, 5), 10_000.0);
/// assert_eq!(rotated.shape(), [2, 5, 4, 8]);
/// let lengths = |x: &Tensor| x.square().sum_axes([-1]);
/// assert!((lengths(&rotated) - lengths(&x)).abs().max().item::<f32>() < 1e-4);
/// ```
///
/// # Panics
/// If the last axis of `x` has an odd length, or if the positions do not fit the axis `length` of `x`.
#[shapes(
    x = "T: float[*batch length heads head_dim]",
    positions = "number[... length]",
    return = "T[*batch length heads head_dim]"
)]
#[panicking_twin(rotary)]
#[track_caller]
pub fn try_rotary(x: &Tensor, positions: &Tensor, base: f64) -> Result<Tensor, InputError> {
    let head_dim = x.shape().last().copied().unwrap_or_default();
    if head_dim.is_multiple_of(2) {
        Ok(rotated(x, positions, base))
    } else {
        let fix = "use an even number of elements for each head";
        let expected = "x with an even number of elements in each head";
        Err(InputError::input("rotary", expected, x, fix))
    }
}

#[track_caller]
fn rotated(x: &Tensor, positions: &Tensor, base: f64) -> Tensor {
    let dtype = at_least_f32_dtype(x.dtype());
    let half = x.shape().last().copied().unwrap_or_default() / 2;
    let angles = angles(positions, half, base, dtype).expand_dims(-2);
    let (cos, sin) = (angles.cos(), angles.sin());
    let halves = x.convert(dtype).split(2, -1);
    let (first, second) = (&halves[0], &halves[1]);
    let turned = [first * &cos - second * &sin, second * &cos + first * &sin];
    Tensor::concatenate(&turned, -1).convert(x.dtype())
}

/// Returns the angles position · base^(-i/count) for i in `0..count`: `[.., length]` to `[.., length, count]`.
#[track_caller]
pub(super) fn angles(positions: &Tensor, count: usize, base: f64, dtype: DType) -> Tensor {
    let frequency = |i: usize| base.powf(-(i as f64) / count as f64);
    let frequencies: Vec<f64> = (0..count).map(frequency).collect();
    positions.convert(dtype).expand_dims(-1) * Tensor::from(frequencies).convert(dtype)
}
