//! The model: a GPT over letters (Radford et al. 2019).

use pytree::nn::{Embed, LayerNorm, LearnedPositions, TransformerBlock};
use pytree::prelude::*;

/// The maximum number of letters in an input of the model.
pub(crate) const LENGTH: usize = 64;
const WIDTH: usize = 64;
const HEADS: usize = 4;
const BLOCKS: usize = 2;

/// Predicts the next letter. The table with a vector for each letter is also the weight of the output layer.
#[derive(Module, Clone, Debug)]
pub(crate) struct Gpt {
    tokens: Embed,
    positions: LearnedPositions,
    blocks: Vec<TransformerBlock>,
    norm: LayerNorm,
}

impl Gpt {
    /// Creates a model. The keys are drawn in the order of `flax_losses.py`.
    pub(crate) fn new(vocabulary: usize, rngs: &mut Rngs) -> Self {
        Self {
            tokens: Embed::new(vocabulary, WIDTH, rngs),
            positions: LearnedPositions::new(LENGTH, WIDTH, rngs),
            blocks: (0..BLOCKS)
                .map(|_| TransformerBlock::causal(WIDTH, HEADS, rngs))
                .collect(),
            norm: LayerNorm::new(WIDTH, rngs),
        }
    }

    /// Returns the logits of the next letter after each letter.
    #[shapes(tokens = "i32[batch length]", return = "f32[batch length _]")]
    pub(crate) fn forward(&mut self, tokens: &Tensor) -> Tensor {
        let mut x = self.positions.forward(&self.tokens.forward(tokens));
        for block in &mut self.blocks {
            x = block.forward(&x);
        }
        self.tokens.attend(&self.norm.forward(&x))
    }
}
