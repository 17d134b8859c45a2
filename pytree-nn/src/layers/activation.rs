//! Activation functions as values that a model can store in a static field.

use std::hash::{Hash, Hasher};

use pytree_core::{Module, Static, StaticValue};
use pytree_transform::Tensor;

use crate::functions::{
    celu, elu, gelu, gelu_exact, hard_sigmoid, hard_silu, hard_tanh, leaky_relu, log_sigmoid, mish,
    relu, relu6, selu, sigmoid, silu, soft_sign, softplus,
};

/// An elementwise function between two layers.
///
/// An `Activation` can be the value of a field with `#[r#static]`. An `Activation` is also a layer without arrays,
/// which a [`Sequential`](crate::Sequential) can contain.
///
/// # Examples
/// ```
/// use pytree_nn::Activation;
/// use pytree_transform::Tensor;
/// let y = Activation::Relu.apply(&Tensor::from([-1.0_f32, 2.0]));
/// assert_eq!(y.to_vec::<f32>(), [0.0, 2.0]);
/// ```
#[derive(Static, Module, Clone, Copy, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum Activation {
    /// max(x, 0).
    #[doc(alias = "nn.ReLU")]
    #[default]
    Relu,
    /// The hyperbolic tangent.
    #[doc(alias = "nn.Tanh")]
    Tanh,
    /// 1 / (1 + e⁻ˣ).
    #[doc(alias = "nn.Sigmoid")]
    Sigmoid,
    /// x Φ(x), where the normal distribution function Φ is approximated by tanh: see [`gelu`](crate::gelu()).
    Gelu,
    /// x σ(x), where σ is the sigmoid: see [`silu`](crate::silu()).
    #[doc(alias = "nn.SiLU")]
    Silu,
    /// log(1 + eˣ): see [`softplus`](crate::softplus()).
    #[doc(alias = "nn.Softplus")]
    Softplus,
    /// x if x is positive, otherwise x times the given slope: see [`leaky_relu`](crate::leaky_relu()).
    #[doc(alias = "nn.LeakyReLU")]
    LeakyRelu(#[r#static] f64),
    /// min(max(x, 0), 6): see [`relu6`](crate::relu6()).
    #[doc(alias = "nn.ReLU6")]
    Relu6,
    /// x Φ(x), where Φ is the normal distribution function: see [`gelu_exact`](crate::gelu_exact()).
    #[doc(alias = "nn.GELU")]
    GeluExact,
    /// x if x is positive, otherwise the given alpha times (eˣ - 1): see [`elu`](crate::elu()).
    #[doc(alias = "nn.ELU")]
    Elu(#[r#static] f64),
    /// A variant of `Elu` whose derivative is continuous: see [`celu`](crate::celu()).
    #[doc(alias = "nn.CELU")]
    Celu(#[r#static] f64),
    /// A scaled `Elu`, whose constants keep the mean 0 and the variance 1 of the values from layer to layer: see
    /// [`selu`](crate::selu()).
    #[doc(alias = "nn.SELU")]
    Selu,
    /// log σ(x), where σ is the sigmoid: see [`log_sigmoid`](crate::log_sigmoid()).
    #[doc(alias = "nn.LogSigmoid")]
    LogSigmoid,
    /// A piecewise linear sigmoid: see [`hard_sigmoid`](crate::hard_sigmoid()).
    #[doc(alias = "nn.Hardsigmoid")]
    HardSigmoid,
    /// x times `HardSigmoid`, also called hard swish: see [`hard_silu`](crate::hard_silu()).
    #[doc(alias = "nn.Hardswish")]
    HardSilu,
    /// x limited to the range from -1 to 1: see [`hard_tanh`](crate::hard_tanh()).
    #[doc(alias = "nn.Hardtanh")]
    HardTanh,
    /// x / (1 + |x|): see [`soft_sign`](crate::soft_sign()).
    #[doc(alias = "nn.Softsign")]
    SoftSign,
    /// x tanh(log(1 + eˣ)): see [`mish`](crate::mish()).
    #[doc(alias = "nn.Mish")]
    Mish,
    /// x itself.
    Identity,
}

/// Compares floats such as slopes by their bits, as treedefs do.
impl PartialEq for Activation {
    fn eq(&self, other: &Self) -> bool {
        self.static_eq(other)
    }
}
impl Eq for Activation {}
impl Hash for Activation {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.static_hash(state);
    }
}

crate::forward!(Activation);

impl Activation {
    /// Applies the function to each element, like [`apply`](Self::apply).
    ///
    /// # Panics
    /// If `x` is not a tensor of floats.
    #[track_caller]
    pub fn forward(&self, x: &Tensor) -> Tensor {
        self.apply(x)
    }

    /// Applies the function to each element. The result has the shape of `x`.
    ///
    /// # Panics
    /// If `x` is not a tensor of floats.
    #[track_caller]
    pub fn apply(self, x: &Tensor) -> Tensor {
        match self {
            Self::Relu => relu(x),
            Self::Tanh => x.tanh(),
            Self::Sigmoid => sigmoid(x),
            Self::Gelu => gelu(x),
            Self::Silu => silu(x),
            Self::Softplus => softplus(x),
            Self::LeakyRelu(slope) => leaky_relu(x, slope),
            Self::Relu6 => relu6(x),
            Self::GeluExact => gelu_exact(x),
            Self::Elu(alpha) => elu(x, alpha),
            Self::Celu(alpha) => celu(x, alpha),
            Self::Selu => selu(x),
            Self::LogSigmoid => log_sigmoid(x),
            Self::HardSigmoid => hard_sigmoid(x),
            Self::HardSilu => hard_silu(x),
            Self::HardTanh => hard_tanh(x),
            Self::SoftSign => soft_sign(x),
            Self::Mish => mish(x),
            Self::Identity => x.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_activation_is_its_function() {
        let x = Tensor::from([-2.0_f64, 0.5]);
        let cases = [
            (Activation::Relu, [0.0, 0.5]),
            (Activation::Tanh, [(-2.0_f64).tanh(), 0.5_f64.tanh()]),
            (
                Activation::Sigmoid,
                [1.0 / (1.0 + 2.0_f64.exp()), 1.0 / (1.0 + (-0.5_f64).exp())],
            ),
            (Activation::LeakyRelu(0.1), [-0.2, 0.5]),
            (Activation::Identity, [-2.0, 0.5]),
            (Activation::Relu6, [0.0, 0.5]),
            (Activation::Elu(2.0), [2.0 * (-2.0_f64).exp_m1(), 0.5]),
            (Activation::Celu(2.0), [2.0 * (-1.0_f64).exp_m1(), 0.5]),
            (Activation::HardSigmoid, [1.0 / 6.0, 3.5 / 6.0]),
            (Activation::HardSilu, [-2.0 / 6.0, 0.5 * 3.5 / 6.0]),
            (Activation::HardTanh, [-1.0, 0.5]),
            (Activation::SoftSign, [-2.0 / 3.0, 1.0 / 3.0]),
            (
                Activation::LogSigmoid,
                [-(2.0_f64.exp().ln_1p()), -((-0.5_f64).exp().ln_1p())],
            ),
            // Φ(2) = 0.9772498680518208, Φ(½) = 0.6914624612740131.
            (
                Activation::GeluExact,
                [
                    -2.0 * 0.022_750_131_948_179_21,
                    0.5 * 0.691_462_461_274_013_1,
                ],
            ),
            (
                Activation::Selu,
                [
                    1.758_099_340_847_376_6 * (-2.0_f64).exp_m1(),
                    0.525_350_493_677_740_2,
                ],
            ),
            (
                Activation::Mish,
                [
                    -2.0 * (-2.0_f64).exp().ln_1p().tanh(),
                    0.5 * 0.5_f64.exp().ln_1p().tanh(),
                ],
            ),
        ];
        for (activation, expected) in cases {
            for (found, expected) in activation.apply(&x).to_vec::<f64>().iter().zip(expected) {
                assert!(
                    (found - expected).abs() < 1e-15,
                    "{activation:?}: found {found}, expected {expected}"
                );
            }
        }
    }
}
