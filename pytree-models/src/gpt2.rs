//! GPT-2.

use pytree_core::{Module, shapes};
use pytree_io::checkpoint::{LoadReport, WeightLayout, WeightNames};
use pytree_nn::{
    AttentionDirection, Embed, LayerNorm, LearnedPositions, MultiHeadAttentionOptions, NormOptions,
    TransformerBlock, TransformerBlockOptions,
};
use pytree_transform::Tensor;

use crate::error::ModelError;
use crate::folder::{Folder, Pretrained};
use crate::language_model::LanguageModel;

/// GPT-2 (Radford et al. 2019), such as `openai-community/gpt2` or `distilbert/distilgpt2`. The table of tokens is also the last layer.
///
/// # Examples
/// ```no_run
/// use pytree_models::{GenerateOptions, Generator, Gpt2, Tokens};
/// let gpt2 = Gpt2::from_pretrained("models/gpt2")?;
/// let mut generator = Generator::new(&gpt2, GenerateOptions::default())?;
/// let start = Tokens::new(&[vec![464, 3139, 286, 4881, 318]]); // "The capital of France is"
/// println!("{:?}", generator.generate(&start)?);
/// # Ok::<(), pytree_models::ModelError>(())
/// ```
#[doc(alias("transformers.GPT2LMHeadModel"))]
#[derive(Module, Clone, Debug, PartialEq)]
pub struct Gpt2 {
    /// The vectors of the tokens.
    pub tokens: Embed,
    /// The vectors of the positions.
    pub positions: LearnedPositions,
    /// The blocks, which normalise before each part.
    pub blocks: Vec<TransformerBlock>,
    /// The normalisation before the last layer.
    pub norm: LayerNorm,
}

impl Gpt2 {
    /// Loads a folder of Hugging Face. Heads of other tasks are not loaded.
    ///
    /// # Errors
    /// Returns [`ModelError`] if a file is missing, if the folder has another architecture, or if the weights do not fit.
    pub fn from_pretrained(folder: impl Into<Pretrained>) -> Result<Self, ModelError> {
        Self::from_pretrained_with_report(folder).map(|(gpt2, _)| gpt2)
    }

    /// Loads a folder like [`from_pretrained`](Self::from_pretrained), and returns a report, which names the weights that are left out.
    ///
    /// # Errors
    /// Returns the errors of [`from_pretrained`](Self::from_pretrained).
    pub fn from_pretrained_with_report(
        folder: impl Into<Pretrained>,
    ) -> Result<(Self, LoadReport), ModelError> {
        let mut folder = Folder::open(folder, &["gpt2"])?;
        let keys = ["vocab_size", "n_positions", "n_embd", "n_layer", "n_head"];
        let [vocabulary, length, width, blocks, heads] = keys.map(|key| folder.size(key));
        let hidden = folder.size_or("n_inner", width.saturating_mul(4));
        folder.check_multiple(["n_head", "n_embd"]);
        folder.check_layers("n_layer");
        folder.check_width("n_embd");
        let norm = NormOptions {
            epsilon: Some(folder.number_or("layer_norm_epsilon", 1e-5)),
            ..NormOptions::default()
        };
        let attention = MultiHeadAttentionOptions {
            direction: AttentionDirection::Causal,
            ..MultiHeadAttentionOptions::default()
        };
        let block = TransformerBlockOptions {
            attention,
            hidden: Some(hidden),
            activation: folder.activation("activation_function"),
            norm,
            ..TransformerBlockOptions::default()
        };
        // Files of `GPT2LMHeadModel` have a prefix.
        let renamed = |name: &str| name.strip_prefix("transformer.").unwrap_or(name).to_owned();
        folder.load_with_report(names(), renamed, |rngs| Self {
            tokens: Embed::new(vocabulary, width, rngs),
            positions: LearnedPositions::new(length, width, rngs),
            blocks: (0..blocks)
                .map(|_| TransformerBlock::with_options(width, heads, block, rngs))
                .collect(),
            norm: LayerNorm::with_options(width, norm, rngs),
        })
    }

    /// Returns the names of transformers, by which [`save_with`](pytree_io::checkpoint::save_with) writes a file for it.
    pub fn names(&self) -> WeightNames {
        names()
    }

    /// Returns the logits of the next token after each token: `[batch, tokens, vocabulary]`.
    ///
    /// # Panics
    /// If there are more tokens than positions. Under `jit` with a cache, the logits are NaN instead.
    #[shapes(tokens = "i32[batch tokens]", return = "float[batch tokens _]")]
    #[track_caller]
    pub fn forward(&mut self, tokens: &Tensor) -> Tensor {
        let x = self.features(tokens);
        self.logits(&x)
    }
}

impl LanguageModel for Gpt2 {
    #[track_caller]
    fn features(&mut self, tokens: &Tensor) -> Tensor {
        let mut x = self.positions.forward(&self.tokens.forward(tokens));
        for block in &mut self.blocks {
            x = block.forward(&x);
        }
        self.norm.forward(&x)
    }

    #[track_caller]
    fn logits(&self, features: &Tensor) -> Tensor {
        self.tokens.attend(features)
    }

    fn context(&self) -> Option<usize> {
        Some(self.positions.embedding.shape()[0])
    }
}

/// The names in a block of transformers, and here.
const BLOCK: [(&str, &str); 5] = [
    ("ln_1", "attention_norm"),
    ("attn.c_proj", "attention.out"),
    ("ln_2", "mlp_norm"),
    ("mlp.c_fc", "mlp.layers[0]"),
    ("mlp.c_proj", "mlp.layers[1]"),
];

/// The names of `GPT2Model` in transformers.
fn names() -> WeightNames {
    let attention = ["query", "key", "value"].map(|part| format!("blocks[{{i}}].attention.{part}"));
    WeightNames::pytorch()
        .rename("wte", "tokens")
        .rename("wpe", "positions")
        .split("h.{i}.attn.c_attn", attention)
        .rename_in("h.{i}", "blocks[{i}]", BLOCK)
        .layout("blocks[{i}]", WeightLayout::OutputsLast) // `Conv1D` is not transposed
        .rename("ln_f", "norm")
        .ignore("h.{i}.attn.bias")
        .ignore("h.{i}.attn.masked_bias")
        .tied("wte", "lm_head")
        // The heads of other tasks.
        .ignore("score")
        .ignore("classifier")
        .ignore("qa_outputs")
        .ignore("multiple_choice_head")
}
