//! Initializers of parameters, as in `jax.nn.initializers`.

use pytree_core::Static;
use pytree_transform::{AbstractArray, DType, Tensor, raw};

use crate::error::or_panic;
use crate::random::{Key, rounded};

/// The distribution of a parameter's initial values.
///
/// [`VarianceScaling`](Self::VarianceScaling) treats the last two axes of a parameter as the inputs and the outputs of
/// the layer, and all axes before them as the receptive field of the layer.
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
    /// All elements are 0.
    Zeros,
    /// All elements are 1.
    Ones,
    /// All elements are the given number.
    Constant(f64),
    /// The normal distribution with mean 0 and the given standard deviation.
    Normal(f64),
    /// The uniform distribution over [0, b), where b is the given number.
    Uniform(f64),
    /// The standard normal distribution, truncated at two standard deviations, times the given number. Because of the
    /// truncation, the standard deviation is 0.8796 times the given number.
    TruncatedNormal(f64),
    /// A distribution with the variance scale / fan.
    VarianceScaling {
        /// The numerator of the variance.
        scale: f64,
        /// The denominator of the variance.
        fan: Fan,
        /// The type of the distribution.
        distribution: Distribution,
    },
}

/// The number of connections of a layer. [`Initializer::VarianceScaling`] divides the variance by this number.
#[derive(Static, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fan {
    /// The number of inputs that each output depends on (fan in).
    In,
    /// The number of outputs that each input affects (fan out).
    Out,
    /// The mean of fan in and fan out.
    Average,
}

/// The type of a distribution.
#[derive(Static, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Distribution {
    /// The normal distribution, truncated at two standard deviations and rescaled to the required
    /// variance.
    TruncatedNormal,
    /// The normal distribution.
    Normal,
    /// The uniform distribution, symmetric around 0.
    Uniform,
}

impl Initializer {
    /// The truncated normal distribution with variance 1 / fan in (Lecun et al. 1998, "Efficient
    /// backprop", section 4.6).
    pub const fn lecun_normal() -> Self {
        Self::scaling(1.0, Fan::In, Distribution::TruncatedNormal)
    }

    /// The uniform distribution with variance 1 / fan in (Lecun et al. 1998, "Efficient backprop",
    /// section 4.6).
    pub const fn lecun_uniform() -> Self {
        Self::scaling(1.0, Fan::In, Distribution::Uniform)
    }

    /// The truncated normal distribution with variance 2 / fan in (He et al. 2015, "Delving deep
    /// into rectifiers", equation 10).
    pub const fn he_normal() -> Self {
        Self::scaling(2.0, Fan::In, Distribution::TruncatedNormal)
    }

    /// The uniform distribution with variance 2 / fan in (He et al. 2015, "Delving deep into
    /// rectifiers", equation 10).
    pub const fn he_uniform() -> Self {
        Self::scaling(2.0, Fan::In, Distribution::Uniform)
    }

    /// The truncated normal distribution with variance 2 / (fan in + fan out) (Glorot and Bengio
    /// 2010, equation 12).
    pub const fn glorot_normal() -> Self {
        Self::scaling(1.0, Fan::Average, Distribution::TruncatedNormal)
    }

    /// The uniform distribution with variance 2 / (fan in + fan out) (Glorot and Bengio 2010,
    /// equation 16).
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

    /// Returns a new parameter of shape `shape`, drawn from the distribution.
    ///
    /// # Panics
    /// If `dtype` is not a float, or if this is a [`VarianceScaling`](Self::VarianceScaling) and the shape has fewer
    /// than two axes.
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

/// The standard deviation of the standard normal distribution truncated at two standard deviations.
const DEVIATION_WITHIN_TWO: f64 = 0.879_625_661_034_239_8;

#[track_caller]
fn connections(shape: &[usize], fan: Fan) -> f64 {
    let [field @ .., inputs, outputs] = shape else {
        panic!(
            "cannot scale the initial values of a parameter of shape {shape:?} by its numbers of inputs and outputs: expected at least two axes; use `Initializer::Normal` or `Initializer::Zeros`"
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
