//! The block of Llama.

use pytree_core::{Module, shapes};
use pytree_nn::{
    Activation, GatedMlp, LinearOptions, MultiHeadAttention, MultiHeadAttentionOptions,
    NormOptions, RmsNorm, Rngs,
};
use pytree_transform::Tensor;

/// A block of [`Llama`](crate::Llama): x + attention(norm(x)), and then x + mlp(norm(x)).
#[derive(Module, Clone, Debug, PartialEq)]
pub struct LlamaBlock {
    /// The normalisation before the attention.
    pub attention_norm: RmsNorm,
    /// The attention.
    pub attention: MultiHeadAttention,
    /// The normalisation before the perceptron.
    pub mlp_norm: RmsNorm,
    /// The perceptron.
    pub mlp: GatedMlp,
}

impl LlamaBlock {
    /// Creates a block for a number of features, with a number of heads and of hidden units. The activation is `silu`, as in Llama.
    ///
    /// # Panics
    /// In the same cases as [`MultiHeadAttention::with_options`].
    #[track_caller]
    pub fn new(
        [features, heads, hidden]: [usize; 3],
        attention: MultiHeadAttentionOptions,
        norm: NormOptions,
        mlp: LinearOptions,
        rngs: &mut Rngs,
    ) -> Self {
        Self {
            attention_norm: RmsNorm::with_options(features, norm, rngs),
            attention: MultiHeadAttention::with_options(features, heads, attention, rngs),
            mlp_norm: RmsNorm::with_options(features, norm, rngs),
            mlp: GatedMlp::with_options(features, hidden, Activation::Silu, mlp, rngs),
        }
    }

    /// Applies the block to `x: [batch, tokens, features]`. The result has the shape of `x`.
    ///
    /// # Panics
    /// In the same cases as [`MultiHeadAttention::forward`].
    #[shapes(
        x = "T: float[batch tokens features]",
        return = "T[batch tokens features]"
    )]
    #[track_caller]
    pub fn forward(&mut self, x: &Tensor) -> Tensor {
        let x = x + self.attention.forward(&self.attention_norm.forward(x));
        &x + self.mlp.forward(&self.mlp_norm.forward(&x))
    }
}
