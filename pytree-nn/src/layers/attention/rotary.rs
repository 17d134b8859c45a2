//! Rotary position embedding.

use std::f64::consts::TAU;

use pytree_core::{Static, shapes};
use pytree_derive::panicking_twin;
use pytree_transform::{DType, Tensor};

use crate::convert_floats::at_least_f32_dtype;
use crate::error::InputError;

/// How the frequencies of a [rotary embedding](crate::rotary()) change, so that a model can use longer sequences than those of its
/// first training: `rope_scaling` in transformers.
///
/// λ = 2π / frequency is the wavelength of a pair of elements in tokens.
#[derive(Static, Clone, Copy, Debug, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum RotaryScaling {
    /// The frequencies do not change.
    #[default]
    None,
    /// All frequencies are divided by the factor (Chen et al. 2023, "Position Interpolation", equation 4).
    Linear {
        /// The factor, by which sequences may be longer.
        factor: f64,
    },
    /// Long waves are divided by the factor, and short waves stay, as in Llama 3.1. With turns = `length` / λ, a wave is long if
    /// turns < `low_turns`, and short if turns > `high_turns`. Between the two, the frequency is interpolated.
    Llama3 {
        /// The factor, by which sequences may be longer.
        factor: f64,
        /// The number of turns below which a wave is long: `low_freq_factor`.
        low_turns: f64,
        /// The number of turns above which a wave is short: `high_freq_factor`.
        high_turns: f64,
        /// The length of the sequences of the first training: `original_max_position_embeddings`.
        length: f64,
    },
    /// `YaRN` (Peng et al. 2023, equations 17 to 22): as [`Llama3`](Self::Llama3), but the interpolation is linear in the number of the
    /// pair of elements, from `high_turns` to `low_turns`, and the rotated elements are multiplied by `magnitude`.
    Yarn {
        /// The factor, by which sequences may be longer.
        factor: f64,
        /// The number of turns below which a wave is long: `beta_slow`.
        low_turns: f64,
        /// The number of turns above which a wave is short: `beta_fast`.
        high_turns: f64,
        /// The length of the sequences of the first training: `original_max_position_embeddings`.
        length: f64,
        /// The factor of the rotated elements: `attention_factor`, 0.1 · ln(factor) + 1 in the paper.
        magnitude: f64,
    },
}

impl RotaryScaling {
    /// Returns the frequencies of `count` pairs of elements, from base⁰ to base^(-(count - 1)/count).
    pub(super) fn frequencies(self, count: usize, base: f64) -> Vec<f64> {
        let frequency = |i: usize| base.powf(-(i as f64) / count as f64);
        let scaled = |i: usize| match self {
            Self::None => frequency(i),
            Self::Linear { factor } => frequency(i) / factor,
            Self::Llama3 {
                factor,
                low_turns,
                high_turns,
                length,
            } => {
                let turns = length * frequency(i) / TAU;
                let kept = ((turns - low_turns) / (high_turns - low_turns)).clamp(0.0, 1.0);
                frequency(i) * (kept + (1.0 - kept) / factor)
            }
            Self::Yarn {
                factor,
                low_turns,
                high_turns,
                length,
                ..
            } => {
                // The number of the pair whose wave makes so many turns.
                let pair = |turns: f64| count as f64 * (length / (turns * TAU)).ln() / base.ln();
                let first = pair(high_turns).floor().max(0.0);
                let last = pair(low_turns).ceil().min(2.0 * count as f64 - 1.0);
                let width = (last - first).max(0.001);
                let divided = ((i as f64 - first) / width).clamp(0.0, 1.0);
                frequency(i) * (1.0 - divided + divided / factor)
            }
        };
        (0..count).map(scaled).collect()
    }
}

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
pub fn try_rotary(x: &Tensor, positions: &Tensor, base: f64) -> Result<Tensor, InputError> {
    try_scaled(x, positions, base, RotaryScaling::None)
}

/// Rotates pairs of elements like [`try_rotary`], with changed frequencies.
#[track_caller]
pub(super) fn try_scaled(
    x: &Tensor,
    positions: &Tensor,
    base: f64,
    scaling: RotaryScaling,
) -> Result<Tensor, InputError> {
    let head_dim = x.shape().last().copied().unwrap_or_default();
    if !head_dim.is_multiple_of(2) {
        let fix = "use an even number of elements for each head";
        let expected = "x with an even number of elements in each head";
        return Err(InputError::input("rotary", expected, x, fix));
    }
    let dtype = at_least_f32_dtype(x.dtype());
    let frequencies = scaling.frequencies(head_dim / 2, base);
    let angles = angles(positions, frequencies, dtype).expand_dims(-2);
    let (mut cos, mut sin) = (angles.cos(), angles.sin());
    if let RotaryScaling::Yarn { magnitude, .. } = scaling {
        (cos, sin) = (cos * magnitude, sin * magnitude);
    }
    let halves = x.convert(dtype).split(2, -1);
    let (first, second) = (&halves[0], &halves[1]);
    let turned = [first * &cos - second * &sin, second * &cos + first * &sin];
    Ok(Tensor::concatenate(&turned, -1).convert(x.dtype()))
}

/// Returns the angles position · frequency: `[.., length]` to `[.., length, frequencies]`.
#[track_caller]
pub(super) fn angles(positions: &Tensor, frequencies: Vec<f64>, dtype: DType) -> Tensor {
    positions.convert(dtype).expand_dims(-1) * Tensor::from(frequencies).convert(dtype)
}
