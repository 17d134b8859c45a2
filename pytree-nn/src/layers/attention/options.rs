//! The options of a new attention layer.

use crate::initializers::Initializer;
use crate::layers::LinearOptions;

/// The options of a new [`MultiHeadAttention`](crate::MultiHeadAttention), with the defaults of Flax.
///
/// # Examples
/// ```
/// use pytree_nn::{MultiHeadAttention, MultiHeadAttentionOptions, Rngs};
/// use pytree_transform::{DType, Tensor};
/// let options = MultiHeadAttentionOptions {
///     is_causal: true,
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
    /// The number of elements of all heads of a query together; by default `None`, which means the number of features.
    pub qkv_features: Option<usize>,
    /// The number of features of the result; by default `None`, which means the number of features of the queries.
    pub out_features: Option<usize>,
    /// The number of features of the inputs for keys and values; by default `None`, which means the number of features
    /// of the queries. Cross-attention may have another number.
    pub kv_in_features: Option<usize>,
    /// The number of heads of keys and values: `num_kv_heads` in Flax. By default `None`, which means the number of
    /// heads. It divides the number of heads.
    pub kv_heads: Option<usize>,
    /// Whether query i attends only to the keys 0 to i; by default false. Only causal layers have a cache.
    pub is_causal: bool,
    /// The base of the [rotary embedding](crate::rotary()) of queries and keys; by default `None`, which means no such
    /// embedding. The usual base is 10000 (Su et al. 2021, section 3.2.2).
    pub rotary_base: Option<f64>,
    /// Whether a [`LayerNorm`](crate::LayerNorm) without a bias normalises each query and each key (Dehghani et al.
    /// 2023); by default false.
    pub normalize_qk: bool,
    /// The probability that an attention weight is dropped in training; by default 0.
    pub dropout_rate: f64,
    /// Whether each batch and head draws its own weights to drop; by default false: all drop the same weights, as with
    /// `broadcast_dropout=True` in Flax.
    pub dropout_per_head: bool,
    /// The options of the projections.
    pub linear: LinearOptions,
    /// The initializer of the weight of the output projection; by default `None`, which means that of the other
    /// projections.
    pub out_weight_init: Option<Initializer>,
}
