//! The block of Llama, and what a configuration says of it.

use pytree_core::{Module, shapes};
use pytree_nn::{
    Activation, AttentionDirection, GatedMlp, HeadNorm, LinearOptions, MultiHeadAttention,
    MultiHeadAttentionOptions, NormOptions, RmsNorm, Rngs,
};
use pytree_transform::Tensor;

use crate::folder::Folder;
use crate::rotary::rotary;

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

/// The blocks of a configuration.
pub(crate) struct BlockConfig {
    pub(crate) width: usize,
    pub(crate) norm: NormOptions,
    heads: usize,
    hidden: usize,
    attention: MultiHeadAttentionOptions,
    mlp: LinearOptions,
    activation: Activation,
    /// The projections of queries, keys and values have biases, and that of the output has none: Qwen 2.
    has_qkv_bias: bool,
    /// Each head of queries and keys is normalised: Qwen 3.
    has_head_norm: bool,
}

impl BlockConfig {
    /// Reads the keys of transformers.
    pub(crate) fn read(folder: &mut Folder) -> Self {
        let [width, heads, hidden] =
            ["hidden_size", "num_attention_heads", "intermediate_size"].map(|key| folder.size(key));
        let kv_heads = folder.size_or("num_key_value_heads", heads);
        if !folder.has("head_dim") {
            folder.check_multiple(["num_attention_heads", "hidden_size"]);
        }
        let head_dim = folder.size_or("head_dim", width / heads);
        let qkv_features = heads.saturating_mul(head_dim);
        let qkv_features = folder.bounded("num_attention_heads * head_dim", qkv_features);
        folder.check_multiple(["num_key_value_heads", "num_attention_heads"]);
        folder.check_multiple(["2", "head_dim"]); // the pairs of rotary positions
        folder.check_width("hidden_size");
        let (is_qwen2, is_qwen3) = ["qwen2", "qwen3"]
            .map(|name| folder.text("model_type") == name)
            .into();
        let (rotary_base, rotary_scaling) = rotary(folder);
        let window = folder.optional_size("sliding_window");
        Self {
            width,
            norm: NormOptions {
                epsilon: Some(folder.number_or("rms_norm_eps", 1e-6)),
                ..NormOptions::default()
            },
            heads,
            hidden,
            attention: MultiHeadAttentionOptions {
                qkv_features: Some(qkv_features),
                kv_heads: Some(kv_heads),
                direction: AttentionDirection::Causal,
                rotary_base: Some(rotary_base),
                rotary_scaling,
                // Qwen has a window only with `use_sliding_window`, which is refused.
                window: window.filter(|_| !is_qwen2 && !is_qwen3),
                linear: linear(folder.flag_or("attention_bias", is_qwen2)),
                ..MultiHeadAttentionOptions::default()
            },
            mlp: linear(folder.flag_or("mlp_bias", false)),
            activation: folder.activation("hidden_act"),
            has_qkv_bias: is_qwen2,
            has_head_norm: is_qwen3,
        }
    }

    /// Creates a block.
    pub(crate) fn block(&self, rngs: &mut Rngs) -> LlamaBlock {
        let sizes = [self.width, self.heads, self.hidden];
        let mut block = LlamaBlock::new(sizes, self.attention, self.norm, self.mlp, rngs);
        block.mlp.activation = self.activation;
        if self.has_qkv_bias {
            block.attention.out.bias = None;
        }
        if self.has_head_norm {
            let head_dim = block.attention.query.weight.shape()[2];
            let mut norm = || HeadNorm::Rms(RmsNorm::with_options(head_dim, self.norm, rngs));
            block.attention.query_norm = Some(norm());
            block.attention.key_norm = Some(norm());
        }
        block
    }
}

/// Returns the options of layers with or without biases.
pub(crate) fn linear(has_bias: bool) -> LinearOptions {
    let bias_init = LinearOptions::default().bias_init.filter(|_| has_bias);
    LinearOptions {
        bias_init,
        ..LinearOptions::default()
    }
}
