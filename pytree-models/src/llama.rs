//! Llama, and the models with its architecture. Its block is in `llama_block.rs`.

use pytree_core::{Module, shapes};
use pytree_io::checkpoint::WeightNames;
use pytree_nn::{
    AttentionDirection, Embed, HeadNorm, Linear, LinearOptions, MultiHeadAttentionOptions,
    NormOptions, RmsNorm,
};
use pytree_transform::Tensor;

use crate::error::ModelError;
use crate::folder::{Folder, Pretrained};
use crate::language_model::LanguageModel;
use crate::llama_block::LlamaBlock;
use crate::rotary::rotary;

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
    /// Loads a folder of Hugging Face.
    ///
    /// # Errors
    /// Returns [`ModelError`] if a file is missing, if the folder has another architecture, or if the weights do not fit.
    pub fn from_pretrained(folder: impl Into<Pretrained>) -> Result<Self, ModelError> {
        let mut folder = Folder::open(folder, &["llama", "mistral", "qwen2", "qwen3"])?;
        let [vocabulary, width, blocks] =
            ["vocab_size", "hidden_size", "num_hidden_layers"].map(|key| folder.size(key));
        let [heads, hidden] =
            ["num_attention_heads", "intermediate_size"].map(|key| folder.size(key));
        let kv_heads = folder.size_or("num_key_value_heads", heads);
        if !folder.has("head_dim") {
            folder.check_multiple(["num_attention_heads", "hidden_size"]);
        }
        let head_dim = folder.size_or("head_dim", width / heads);
        folder.check_multiple(["num_key_value_heads", "num_attention_heads"]);
        folder.check_multiple(["2", "head_dim"]); // the pairs of rotary positions
        folder.check_layers("num_hidden_layers");
        folder.check_elements(&["vocab_size", "hidden_size"]);
        folder.check_elements(&["num_hidden_layers", "intermediate_size", "hidden_size"]);
        folder.check_elements(&[
            "num_hidden_layers",
            "num_attention_heads",
            "head_dim",
            "hidden_size",
        ]);
        let (is_qwen2, is_qwen3) = ["qwen2", "qwen3"]
            .map(|name| folder.text("model_type") == name)
            .into();
        if is_qwen2 || is_qwen3 {
            // Its key `sliding_window` has no effect without this one.
            folder.expect("use_sliding_window", false);
        }
        let mlp = linear(folder.flag_or("mlp_bias", false));
        let has_bias = folder.flag_or("attention_bias", is_qwen2);
        let (rotary_base, rotary_scaling) = rotary(&mut folder);
        let window = folder.optional_size("sliding_window");
        let attention = MultiHeadAttentionOptions {
            qkv_features: Some(heads.saturating_mul(head_dim)),
            kv_heads: Some(kv_heads),
            direction: AttentionDirection::Causal,
            rotary_base: Some(rotary_base),
            rotary_scaling,
            window: window.filter(|_| !is_qwen2 && !is_qwen3),
            linear: linear(has_bias),
            ..MultiHeadAttentionOptions::default()
        };
        let norm = NormOptions {
            epsilon: Some(folder.number_or("rms_norm_eps", 1e-6)),
            ..NormOptions::default()
        };
        let is_tied = folder.flag_or("tie_word_embeddings", false);
        let activation = folder.activation("hidden_act");
        folder.load(names(is_tied), str::to_owned, |rngs| Self {
            tokens: Embed::new(vocabulary, width, rngs),
            blocks: (0..blocks)
                .map(|_| {
                    let mut block =
                        LlamaBlock::new([width, heads, hidden], attention, norm, mlp, rngs);
                    block.mlp.activation = activation;
                    if is_qwen2 {
                        block.attention.out.bias = None;
                    }
                    if is_qwen3 {
                        let mut norm =
                            || HeadNorm::Rms(RmsNorm::with_options(head_dim, norm, rngs));
                        block.attention.query_norm = Some(norm());
                        block.attention.key_norm = Some(norm());
                    }
                    block
                })
                .collect(),
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

/// Returns the options of layers with or without biases.
fn linear(has_bias: bool) -> LinearOptions {
    let bias_init = LinearOptions::default().bias_init.filter(|_| has_bias);
    LinearOptions {
        bias_init,
        ..LinearOptions::default()
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

/// The names of `LlamaForCausalLM` in transformers.
fn names(is_tied: bool) -> WeightNames {
    let names = WeightNames::pytorch()
        .rename("model.embed_tokens", "tokens")
        .rename("model.norm", "norm")
        .rename("lm_head", "head")
        .rename_in("model.layers.{i}", "blocks[{i}]", BLOCK)
        .ignore("model.layers.{i}.self_attn.rotary_emb");
    if is_tied {
        names.tied("model.embed_tokens", "lm_head")
    } else {
        names
    }
}
