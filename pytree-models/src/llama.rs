//! Llama, and the models with its architecture. Its block is in `llama_block.rs`.

use pytree_core::{Module, shapes};
use pytree_io::checkpoint::{LoadReport, WeightNames};
use pytree_nn::{Embed, Linear, RmsNorm};
use pytree_transform::Tensor;

use crate::error::ModelError;
use crate::folder::{Folder, Pretrained};
use crate::language_model::LanguageModel;
use crate::llama_block::{BlockConfig, LlamaBlock, linear};

/// Llama (Touvron et al. 2023) and, by configuration, Qwen 2 and 3, `SmolLM` and Mistral: rotary positions, grouped queries, a gated
/// perceptron, and normalisations by the mean square.
///
/// # Examples
/// ```no_run
/// use pytree_models::{GenerateOptions, Generator, Llama, Tokens};
/// let llama = Llama::from_pretrained("models/SmolLM2-135M")?;
/// let mut generator = Generator::new(&llama, GenerateOptions::default())?;
/// println!("{:?}", generator.generate(&Tokens::new(&[vec![1, 2, 3]]))?);
/// # Ok::<(), pytree_models::ModelError>(())
/// ```
#[doc(alias(
    "transformers.LlamaForCausalLM",
    "transformers.Qwen3ForCausalLM",
    "transformers.MistralForCausalLM"
))]
#[derive(Module, Clone, Debug, PartialEq)]
pub struct Llama {
    /// The vectors of the tokens.
    pub tokens: Embed,
    /// The blocks.
    pub blocks: Vec<LlamaBlock>,
    /// The normalisation before the last layer.
    pub norm: RmsNorm,
    /// The last layer. `None` if it is the table of tokens.
    pub head: Option<Linear>,
}

impl Llama {
    /// Loads a folder of Hugging Face. Heads of other tasks are not loaded.
    ///
    /// # Errors
    /// Returns [`ModelError`] if a file is missing, if the folder has another architecture, or if the weights do not fit.
    pub fn from_pretrained(folder: impl Into<Pretrained>) -> Result<Self, ModelError> {
        Self::from_pretrained_with_report(folder).map(|(llama, _)| llama)
    }

    /// Loads a folder like [`from_pretrained`](Self::from_pretrained), and returns a report, which names the weights that are left out.
    ///
    /// # Errors
    /// Returns the errors of [`from_pretrained`](Self::from_pretrained).
    pub fn from_pretrained_with_report(
        folder: impl Into<Pretrained>,
    ) -> Result<(Self, LoadReport), ModelError> {
        let mut folder = Folder::open(folder, &["llama", "mistral", "qwen2", "qwen3"])?;
        let [vocabulary, blocks] = ["vocab_size", "num_hidden_layers"].map(|key| folder.size(key));
        folder.check_layers("num_hidden_layers");
        let config = BlockConfig::read(&mut folder);
        let (width, norm) = (config.width, config.norm);
        let is_tied = folder.flag_or("tie_word_embeddings", false);
        if !is_tied && !folder.has_weight("lm_head.weight") {
            folder.refuse(
                "tie_word_embeddings",
                "true, because the weights have no `lm_head.weight`",
            );
        }
        // Files of the base model have no prefix, and those that answer questions have another.
        let renamed = |name: &str| {
            let name = name.strip_prefix("transformer.").unwrap_or(name);
            let is_known = |start: &&str| name.starts_with(start);
            if HEADS.iter().chain(&["model."]).any(is_known) {
                name.to_owned()
            } else {
                format!("model.{name}")
            }
        };
        folder.load_with_report(names(is_tied), renamed, |rngs| Self {
            tokens: Embed::new(vocabulary, width, rngs),
            blocks: (0..blocks).map(|_| config.block(rngs)).collect(),
            norm: RmsNorm::with_options(width, norm, rngs),
            head: (!is_tied).then(|| Linear::with_options(width, vocabulary, linear(false), rngs)),
        })
    }

    /// Returns the names of transformers, by which [`save_with`](pytree_io::checkpoint::save_with) writes a file for it.
    pub fn names(&self) -> WeightNames {
        names(self.head.is_none())
    }

    /// Returns the logits of the next token after each token: `[batch, tokens, vocabulary]`.
    ///
    /// # Panics
    /// If the model has a cache with too little room. Under `jit`, the logits are NaN instead.
    #[shapes(tokens = "i32[batch tokens]", return = "float[batch tokens _]")]
    #[track_caller]
    pub fn forward(&mut self, tokens: &Tensor) -> Tensor {
        let x = self.features(tokens);
        self.logits(&x)
    }
}

impl LanguageModel for Llama {
    #[track_caller]
    fn features(&mut self, tokens: &Tensor) -> Tensor {
        let mut x = self.tokens.forward(tokens);
        for block in &mut self.blocks {
            x = block.forward(&x);
        }
        self.norm.forward(&x)
    }

    #[track_caller]
    fn logits(&self, features: &Tensor) -> Tensor {
        match &self.head {
            Some(head) => head.forward(features),
            None => self.tokens.attend(features),
        }
    }
}

/// The names in a block of transformers, and here.
const BLOCK: [(&str, &str); 9] = [
    ("input_layernorm", "attention_norm"),
    ("self_attn.q_proj", "attention.query"),
    ("self_attn.k_proj", "attention.key"),
    ("self_attn.v_proj", "attention.value"),
    ("self_attn.o_proj", "attention.out"),
    ("self_attn.q_norm", "attention.query_norm.0"),
    ("self_attn.k_norm", "attention.key_norm.0"),
    ("post_attention_layernorm", "mlp_norm"),
    ("mlp.{part}_proj", "mlp.{part}"),
];

/// The last layer, and the heads of other tasks.
const HEADS: [&str; 3] = ["lm_head.", "score.", "qa_outputs."];

/// The names of `LlamaForCausalLM` in transformers.
fn names(is_tied: bool) -> WeightNames {
    let names = WeightNames::pytorch()
        .rename("model.embed_tokens", "tokens")
        .rename("model.norm", "norm")
        .rename("lm_head", "head")
        .rename_in("model.layers.{i}", "blocks[{i}]", BLOCK)
        .ignore("model.layers.{i}.self_attn.rotary_emb")
        .ignore("score")
        .ignore("qa_outputs");
    if is_tied {
        names.tied("model.embed_tokens", "lm_head")
    } else {
        names
    }
}
