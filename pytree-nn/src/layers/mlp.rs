//! The multilayer perceptron.

use crate::layers::activation::Activation;
use crate::layers::linear::{Linear, LinearOptions};
use crate::layers::prelude::*;

/// A chain of linear layers with an activation between neighbouring layers.
///
/// # Examples
/// ```
/// use pytree_nn::{Activation, Mlp, Rngs};
/// use pytree_transform::{DType, Tensor};
/// let mlp = Mlp::new(&[64, 128, 10], Activation::Relu, &mut Rngs::new(0));
/// let logits = mlp.forward(&Tensor::zeros(DType::F32, [32, 64]));
/// assert_eq!(logits.shape(), [32, 10]);
/// ```
#[doc(alias = "eqx.nn.MLP")]
#[derive(Module, Clone, Debug, PartialEq)]
pub struct Mlp {
    /// The layers, from input to output.
    pub layers: Vec<Linear>,
    /// The function that is applied between layers.
    #[r#static]
    pub activation: Activation,
}

fallible_forward!(Mlp);

impl Mlp {
    /// Creates an f32 perceptron. `widths` lists the number of inputs, the number of units of each hidden layer, and
    /// the number of outputs.
    ///
    /// # Panics
    /// If there are fewer than two widths, or if there is no stream to draw from.
    #[track_caller]
    pub fn new(widths: &[usize], activation: Activation, rngs: &mut Rngs) -> Self {
        Self::with_options(widths, activation, LinearOptions::default(), rngs)
    }

    /// Creates a perceptron like [`new`](Self::new), with the given options for each layer.
    ///
    /// # Panics
    /// In the same cases as [`new`](Self::new), and if `param_dtype` is not a float.
    #[track_caller]
    pub fn with_options(
        widths: &[usize],
        activation: Activation,
        options: LinearOptions,
        rngs: &mut Rngs,
    ) -> Self {
        assert!(
            widths.len() >= 2,
            "Mlp expects at least two widths, the numbers of inputs and outputs, found {widths:?}; write for instance `&[64, 128, 10]`"
        );
        let mut layers = Vec::with_capacity(widths.len() - 1);
        for pair in widths.windows(2) {
            layers.push(Linear::with_options(pair[0], pair[1], options, rngs));
        }
        Self { layers, activation }
    }

    /// Applies the layers: `x: [.., inputs]` to `[.., outputs]`.
    ///
    /// # Panics
    /// If the length of the last axis of `x` is not the number of inputs, or if the dtypes differ.
    #[panicking_twin(forward)]
    pub fn try_forward(&self, x: &Tensor) -> Result<Tensor, InputError> {
        let mut x = x.clone();
        for (position, layer) in self.layers.iter().enumerate() {
            if position > 0 {
                x = self.activation.apply(&x);
            }
            x = layer.try_forward(&x)?;
        }
        Ok(x)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(
        expected = "Mlp expects at least two widths, the numbers of inputs and outputs, found [3]"
    )]
    fn one_width_makes_no_layer() {
        let _ = Mlp::new(&[3], Activation::Relu, &mut Rngs::new(0));
    }
}
