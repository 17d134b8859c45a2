//! The gated perceptron of Llama and its relatives.

use crate::layers::activation::Activation;
use crate::layers::linear::{Linear, LinearOptions};
use crate::layers::prelude::*;

/// down(activation(gate(x)) ⊙ up(x)): two linear layers whose outputs are multiplied, and a third that returns to the features of
/// the input (Shazeer 2020, "GLU Variants Improve Transformer"). With [`Activation::Silu`] it is called `SwiGLU`, with a GELU `GEGLU`.
///
/// # Examples
/// ```
/// use pytree_nn::{Activation, GatedMlp, Rngs};
/// use pytree_transform::{DType, Tensor};
/// let mlp = GatedMlp::new(64, 256, Activation::Silu, &mut Rngs::new(0));
/// assert_eq!(mlp.forward(&Tensor::ones(DType::F32, [8, 16, 64])).shape(), [8, 16, 64]);
/// ```
#[doc(alias("SwiGLU", "GEGLU", "transformers.LlamaMLP"))]
#[derive(Module, Clone, Debug, PartialEq)]
pub struct GatedMlp {
    /// The layer whose output passes through the activation.
    pub gate: Linear,
    /// The layer whose output is multiplied by that of the gate.
    pub up: Linear,
    /// The layer from the hidden units to the features.
    pub down: Linear,
    /// The function of the gate.
    #[r#static]
    pub activation: Activation,
}

fallible_forward!(GatedMlp);

impl GatedMlp {
    /// Creates an f32 perceptron from `features` to `hidden` units and back, with the defaults of [`Linear`]. The layers draw their
    /// keys in the order gate, up, down.
    ///
    /// # Panics
    /// If there is no stream to draw from.
    #[track_caller]
    pub fn new(features: usize, hidden: usize, activation: Activation, rngs: &mut Rngs) -> Self {
        Self::with_options(features, hidden, activation, LinearOptions::default(), rngs)
    }

    /// Creates a perceptron like [`new`](Self::new), with the given options for each layer.
    ///
    /// # Panics
    /// In the same cases as [`new`](Self::new), and if `param_dtype` is not a float.
    #[track_caller]
    pub fn with_options(
        features: usize,
        hidden: usize,
        activation: Activation,
        options: LinearOptions,
        rngs: &mut Rngs,
    ) -> Self {
        Self {
            gate: Linear::with_options(features, hidden, options, rngs),
            up: Linear::with_options(features, hidden, options, rngs),
            down: Linear::with_options(hidden, features, options, rngs),
            activation,
        }
    }

    /// Applies the layers: `x: [.., features]` to `[.., features]`.
    ///
    /// # Panics
    /// If the length of the last axis of `x` is not the number of features, or if the dtypes differ.
    #[shapes(x = "T[... features]", return = "T[... features]")]
    #[panicking_twin(forward)]
    pub fn try_forward(&self, x: &Tensor) -> Result<Tensor, InputError> {
        let gate = self.activation.apply(&self.gate.try_forward(x)?);
        self.down.try_forward(&(gate * self.up.try_forward(x)?))
    }
}

#[cfg(test)]
mod tests {
    use pytree_transform::DType;

    use super::*;

    #[test]
    fn gates_the_hidden_units() {
        let mut mlp = GatedMlp::new(1, 2, Activation::Relu, &mut Rngs::new(0));
        mlp.gate.weight = Tensor::from([[1.0_f32, -1.0]]);
        mlp.up.weight = Tensor::from([[3.0_f32, 5.0]]);
        mlp.down.weight = Tensor::from([[1.0_f32], [10.0]]);
        // relu(2) · 6 + 10 · relu(-2) · 10, and for -2: relu(-2) · -6 + 10 · relu(2) · -10.
        let y = mlp.forward(&Tensor::from([[2.0_f32], [-2.0]]));
        assert_eq!(y, Tensor::from([[12.0_f32], [-200.0]]));
        let error = mlp.try_forward(&Tensor::zeros(DType::F32, [3, 2]));
        assert!(error.unwrap_err().to_string().contains("[3,2]"));
    }
}
