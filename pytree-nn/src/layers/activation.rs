//! Activations as values, so that a model can hold one as a static field.

use pytree_core::Static;
use pytree_transform::Tensor;

use crate::functions::{gelu, silu, softplus};

/// A function element by element between two layers.
///
/// # Examples
/// ```
/// use pytree_nn::Activation;
/// use pytree_transform::Tensor;
/// let y = Activation::Relu.apply(&Tensor::from([-1.0_f32, 2.0]));
/// assert_eq!(y.to_vec::<f32>(), [0.0, 2.0]);
/// ```
#[derive(Static, Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub enum Activation {
    /// max(x, 0).
    #[default]
    Relu,
    /// The hyperbolic tangent.
    Tanh,
    /// 1 / (1 + e⁻ˣ).
    Sigmoid,
    /// x Φ(x) in its tanh form: see [`gelu`](crate::gelu()).
    Gelu,
    /// x σ(x): see [`silu`](crate::silu()).
    Silu,
    /// log(1 + eˣ): see [`softplus`](crate::softplus()).
    Softplus,
    /// x, or x times the given slope where x is negative.
    LeakyRelu(f64),
    /// x itself.
    Identity,
}

impl Activation {
    /// The function of each element: `x: [..]` to `[..]`.
    ///
    /// # Panics
    /// If `x` is no tensor of floats.
    #[track_caller]
    pub fn apply(self, x: &Tensor) -> Tensor {
        match self {
            Self::Relu => x.relu(),
            Self::Tanh => x.tanh(),
            Self::Sigmoid => x.sigmoid(),
            Self::Gelu => gelu(x),
            Self::Silu => silu(x),
            Self::Softplus => softplus(x),
            Self::LeakyRelu(slope) => x.greater_equal(0.0).select(x, &(x * slope)),
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
