//! Initialisers: what parameters begin with, as in `jax.nn.initializers`.

use pytree_core::Static;
use pytree_transform::{AbstractArray, DType, Tensor, raw};

use crate::error::or_panic;
use crate::random::Key;

/// How a parameter begins.
///
/// Those that scale by the variance take the last two axes of a shape as inputs and outputs of the layer,
/// and all before them as its receptive field.
///
/// # Examples
/// ```
/// use pytree_nn::{Initializer, Key};
/// use pytree_transform::DType;
/// let weight = Initializer::lecun_normal().initialize(&Key::new(0), DType::F32, &[64, 10]);
/// assert_eq!(weight.shape(), [64, 10]);
/// ```
#[derive(Static, Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Initializer {
    /// Zeros.
    Zeros,
    /// Ones.
    Ones,
    /// One number everywhere.
    Constant(f64),
    /// Normally distributed with mean 0 and the given deviation.
    Normal(f64),
    /// Evenly distributed in [0, scale).
    Uniform(f64),
    /// The normal distribution restricted to two deviations, times the given number. Its own deviation is
    /// smaller by the factor 0.8796.
    TruncatedNormal(f64),
    /// With the variance scale / fan.
    VarianceScaling {
        /// The number that is divided.
        scale: f64,
        /// What it is divided by.
        fan: Fan,
        /// The shape of the distribution.
        distribution: Distribution,
    },
}

/// A number of connections of a layer.
#[derive(Static, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fan {
    /// Those into one output.
    In,
    /// Those out of one input.
    Out,
    /// The mean of both.
    Average,
}

/// The shape of a distribution.
#[derive(Static, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Distribution {
    /// Normal, restricted to two deviations and scaled to the deviation wanted.
    TruncatedNormal,
    /// Normal.
    Normal,
    /// Even, symmetric around 0.
    Uniform,
}

impl Initializer {
    /// Variance 1 / fan in (Lecun et al. 1998, "Efficient backprop", section 4.6), truncated normal.
    pub const fn lecun_normal() -> Self {
        Self::scaling(1.0, Fan::In, Distribution::TruncatedNormal)
    }

    /// Variance 1 / fan in (Lecun et al. 1998, "Efficient backprop", section 4.6), even.
    pub const fn lecun_uniform() -> Self {
        Self::scaling(1.0, Fan::In, Distribution::Uniform)
    }

    /// Variance 2 / fan in (He et al. 2015, "Delving deep into rectifiers", equation 10), truncated normal.
    pub const fn he_normal() -> Self {
        Self::scaling(2.0, Fan::In, Distribution::TruncatedNormal)
    }

    /// Variance 2 / fan in (He et al. 2015, "Delving deep into rectifiers", equation 10), even.
    pub const fn he_uniform() -> Self {
        Self::scaling(2.0, Fan::In, Distribution::Uniform)
    }

    /// Variance 2 / (fan in + fan out) (Glorot and Bengio 2010, equation 12), truncated normal.
    pub const fn glorot_normal() -> Self {
        Self::scaling(1.0, Fan::Average, Distribution::TruncatedNormal)
    }

    /// Variance 2 / (fan in + fan out) (Glorot and Bengio 2010, equation 16), even.
    pub const fn glorot_uniform() -> Self {
        Self::scaling(1.0, Fan::Average, Distribution::Uniform)
    }

    const fn scaling(scale: f64, fan: Fan, distribution: Distribution) -> Self {
        Self::VarianceScaling {
            scale,
            fan,
            distribution,
        }
    }

    /// A new parameter: `[..shape]`.
    ///
    /// # Panics
    /// If `dtype` is not a float, or if the variance depends on inputs and outputs and the shape has fewer than
    /// two axes.
    #[track_caller]
    pub fn initialize(&self, key: &Key, dtype: DType, shape: &[usize]) -> Tensor {
        match *self {
            Self::Zeros => Tensor::zeros(dtype, shape),
            Self::Ones => Tensor::ones(dtype, shape),
            Self::Constant(value) => Tensor::full(dtype, shape, value),
            Self::Normal(deviation) => key.normal(dtype, shape) * deviation,
            Self::Uniform(scale) => key.uniform(dtype, shape) * scale,
            Self::TruncatedNormal(deviation) => {
                key.truncated_normal(dtype, shape, -2.0, 2.0) * deviation
            }
            Self::VarianceScaling {
                scale,
                fan,
                distribution,
            } => {
                or_panic(raw::check_memory(
                    "initialize",
                    &AbstractArray::new(dtype, shape),
                ));
                let variance = rounded(dtype, scale / connections(shape, fan));
                match distribution {
                    Distribution::TruncatedNormal => {
                        let deviation =
                            rounded(dtype, variance.sqrt()) / rounded(dtype, DEVIATION_WITHIN_TWO);
                        key.truncated_normal(dtype, shape, -2.0, 2.0) * rounded(dtype, deviation)
                    }
                    Distribution::Normal => {
                        key.normal(dtype, shape) * rounded(dtype, variance.sqrt())
                    }
                    Distribution::Uniform => {
                        let limit = rounded(dtype, rounded(dtype, 3.0 * variance).sqrt());
                        key.uniform_between(dtype, shape, -1.0, 1.0) * limit
                    }
                }
            }
        }
    }
}

/// The deviation of the standard normal distribution restricted to two deviations.
const DEVIATION_WITHIN_TWO: f64 = 0.879_625_661_034_239_8;

/// The number as an element of the type, which each step of the computation rounds to.
#[allow(
    clippy::cast_possible_truncation,
    reason = "rounding is what this does"
)]
fn rounded(dtype: DType, value: f64) -> f64 {
    if dtype == DType::F64 {
        value
    } else {
        f64::from(value as f32)
    }
}

#[track_caller]
fn connections(shape: &[usize], fan: Fan) -> f64 {
    let [field @ .., inputs, outputs] = shape else {
        panic!(
            "cannot initialise a parameter of shape {shape:?} by its inputs and outputs: expected at least two axes; choose `Initializer::Normal` or `Initializer::Zeros`"
        );
    };
    let field: f64 = field.iter().map(|&length| length as f64).product();
    let (fan_in, fan_out) = (*inputs as f64 * field, *outputs as f64 * field);
    match fan {
        Fan::In => fan_in,
        Fan::Out => fan_out,
        Fan::Average => f64::midpoint(fan_in, fan_out),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "expected at least two axes")]
    fn scaling_by_inputs_needs_two_axes() {
        let _ = Initializer::he_normal().initialize(&Key::new(0), DType::F32, &[3]);
    }

    #[test]
    fn fans_count_the_receptive_field() {
        let count = |fan| connections(&[3, 4, 6], fan);
        assert!((count(Fan::In) - 12.0).abs() < 1e-12);
        assert!((count(Fan::Out) - 18.0).abs() < 1e-12);
        assert!((count(Fan::Average) - 15.0).abs() < 1e-12);
    }

    #[test]
    fn constants_need_no_axes() {
        assert!(
            (Initializer::Constant(2.5)
                .initialize(&Key::new(0), DType::F64, &[])
                .item::<f64>()
                - 2.5)
                .abs()
                < 1e-300
        );
    }
}
