//! The options of a new attention layer.

use pytree_core::Static;

use super::rotary::RotaryScaling;
use crate::initializers::Initializer;
use crate::layers::linear::LinearOptions;
use crate::layers::normalization::NormOptions;

/// Which tokens a token may attend to, depending on the order of the tokens.
#[derive(Static, Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum AttentionDirection {
    /// Each token attends to all tokens, as in BERT: `is_causal=False` in JAX.
    #[default]
    Bidirectional,
    /// Each token attends to itself and to earlier tokens, as in GPT: `is_causal=True` in JAX.
    Causal,
}

impl AttentionDirection {
    pub(super) fn is_causal(self) -> bool {
        self == Self::Causal
    }
}

/// Which attention weights are dropped together in training.
#[derive(Static, Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum DropoutMask {
    /// All heads of all sequences drop the same pairs of query and key: `broadcast_dropout=True` in Flax.
    #[default]
    Shared,
    /// Each head of each sequence drops pairs independently: `broadcast_dropout=False` in Flax.
    PerHead,
}

/// The options of a new [`MultiHeadAttention`](crate::MultiHeadAttention), with the defaults of Flax.
///
/// # Examples
/// ```
/// use pytree_nn::{AttentionDirection, MultiHeadAttention, MultiHeadAttentionOptions, Rngs};
/// use pytree_transform::{DType, Tensor};
/// let options = MultiHeadAttentionOptions {
///     direction: AttentionDirection::Causal,
///     kv_heads: Some(2),
///     rotary_base: Some(10_000.0),
///     ..MultiHeadAttentionOptions::default()
/// };
/// let mut attention = MultiHeadAttention::with_options(32, 8, options, &mut Rngs::new(0));
/// assert_eq!(attention.key.weight.shape(), [32, 2, 4]);
/// assert_eq!(attention.forward(&Tensor::ones(DType::F32, [3, 5, 32])).shape(), [3, 5, 32]);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct MultiHeadAttentionOptions {
    /// The total length of all heads of a query; by default `None`, which means the number of features.
    pub qkv_features: Option<usize>,
    /// The number of features of the result; by default `None`, which means as many features as the queries have.
    pub out_features: Option<usize>,
    /// The number of input features for keys and values; by default `None`, which means as many features as the queries
    /// have. The two numbers may differ in cross-attention.
    pub kv_in_features: Option<usize>,
    /// The number of heads of keys and values: `num_kv_heads` in Flax. By default `None`, which means the number of
    /// heads. `kv_heads` must divide the number of heads.
    pub kv_heads: Option<usize>,
    /// Which tokens a token attends to; by default [`AttentionDirection::Bidirectional`]. Only causal layers have a
    /// cache.
    pub direction: AttentionDirection,
    /// The base of the [rotary embedding](crate::rotary()) of queries and keys; by default `None`, which means no
    /// rotary embedding. The usual base is 10000 (Su et al. 2021, section 3.2.2).
    pub rotary_base: Option<f64>,
    /// How the frequencies of the rotary embedding change for longer sequences; by default [`RotaryScaling::None`].
    pub rotary_scaling: RotaryScaling,
    /// The number of tokens that a token of a causal layer attends to, itself and those before it; by default `None`, which means
    /// all of them: `sliding_window` in transformers.
    pub window: Option<usize>,
    /// The options of the [`LayerNorm`](crate::LayerNorm)s of queries and keys (Dehghani et al. 2023); by default
    /// `None`, which means no normalisation. The `param_dtype` of these options is ignored: the normalisations have the
    /// dtype of the projections. To get `normalize_qk=True` of Flax, which has no bias, write
    /// `Some(NormOptions { bias_init: None, ..NormOptions::default() })`.
    pub qk_norm: Option<NormOptions>,
    /// The probability that an attention weight is dropped in training; by default 0.
    pub dropout_rate: f64,
    /// Which weights are dropped together; by default [`DropoutMask::Shared`].
    pub dropout_mask: DropoutMask,
    /// The options of the projections.
    pub linear: LinearOptions,
    /// The initializer of the weight of the output projection; by default `None`, which means the initializer of the
    /// other projections.
    pub out_weight_init: Option<Initializer>,
}
