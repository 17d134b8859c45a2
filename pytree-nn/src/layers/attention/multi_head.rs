//! The attention layer.

use super::cache::{KeyValueCache, check_room, nan_if_full, positions_from};
use super::dot_product::{AttentionOptions, Extras, WeightDropout, mix};
use super::masks::causal_from;
use super::options::{AttentionDirection, DropoutMask, MultiHeadAttentionOptions};
use super::projections::{HeadProjection, OutputProjection};
use super::rotary::{RotaryScaling, try_scaled};
use super::scores::Mixed;
use crate::error::or_panic;
use crate::layers::linear::LinearOptions;
use crate::layers::mode::Mode;
use crate::layers::normalization::{LayerNorm, NormOptions, RmsNorm};
use crate::layers::prelude::*;
use crate::random::RngStream;

const ATTENTION: &str = "MultiHeadAttention";

/// Computes multi-head attention (Vaswani et al. 2017, section 3.2.2).
///
/// The layer projects its input to the queries, keys and values of all heads, computes
/// [`dot_product_attention`](crate::dot_product_attention()) for each head, and projects the results.
///
/// [`forward`](Self::forward) computes self-attention. [`attend`](Self::attend) computes attention between any inputs,
/// for example cross-attention. The weights have the shapes of `nnx.MultiHeadAttention`. After
/// [`with_cache`](crate::with_cache()), `forward` receives only new tokens, and reads the keys and values of earlier
/// tokens from the cache. [`eval`](crate::eval()) disables the dropout of attention weights.
///
/// # Examples
/// ```
/// use pytree_nn::{AttentionOptions, MultiHeadAttention, Rngs, padding_mask};
/// use pytree_transform::{DType, Tensor};
/// let mut rngs = Rngs::new(0);
/// let mut attention = MultiHeadAttention::new(16, 4, &mut rngs);
/// let (x, context) = (rngs.normal(DType::F32, [2, 5, 16]), rngs.normal(DType::F32, [2, 7, 16]));
/// assert_eq!(attention.forward(&x).shape(), [2, 5, 16]);
/// // The sequences have 5 and 3 tokens, and padding after them.
/// let mask = padding_mask(&Tensor::from([5, 3]), 5);
/// assert_eq!(attention.forward_masked(&x, &mask).shape(), [2, 5, 16]);
/// // The tokens of x attend to those of the context.
/// let options = AttentionOptions::default();
/// assert_eq!(attention.attend(&x, &context, &context, &options).shape(), [2, 5, 16]);
/// ```
#[doc(alias("nnx.MultiHeadAttention", "nn.MultiheadAttention"))]
#[derive(Module, Clone, Debug, PartialEq)]
pub struct MultiHeadAttention {
    /// The projection to queries: a weight `[features, heads, head_dim]`.
    pub query: HeadProjection,
    /// The projection to keys: a weight `[kv_features, kv_heads, head_dim]`.
    pub key: HeadProjection,
    /// The projection to values: a weight `[kv_features, kv_heads, head_dim]`.
    pub value: HeadProjection,
    /// The normalisation of queries: `query_ln` in Flax. `None` means no normalisation.
    pub query_norm: Option<HeadNorm>,
    /// The normalisation of keys: `key_ln` in Flax. `None` means no normalisation.
    pub key_norm: Option<HeadNorm>,
    /// The projection of the results of all heads: a weight `[heads, head_dim, out]`.
    pub out: OutputProjection,
    /// The cache for decoding, which [`with_cache`](crate::with_cache()) creates. `None` means no cache.
    pub cache: Option<KeyValueCache>,
    stream: Option<RngStream>,
    /// Which tokens a token attends to.
    #[r#static]
    pub direction: AttentionDirection,
    /// The base of the [rotary embedding](crate::rotary()) of queries and keys. `None` means no rotary embedding.
    #[r#static]
    pub rotary_base: Option<f64>,
    /// How the frequencies of the rotary embedding change for longer sequences.
    #[r#static]
    pub rotary_scaling: RotaryScaling,
    /// The number of tokens that a token of a causal layer attends to, itself and those before it. `None` means all of them.
    #[r#static]
    pub window: Option<usize>,
    /// The probability that an attention weight is dropped.
    #[r#static]
    pub dropout_rate: f64,
    /// Which attention weights are dropped together.
    #[r#static]
    pub dropout_mask: DropoutMask,
    /// Attention weights are dropped only in [`Mode::Train`].
    #[r#static]
    pub mode: Mode,
}

fallible_forward!(MultiHeadAttention);

/// The normalisation of each head of queries and keys. A new layer has a [`LayerNorm`] or none; set the fields of the layer to have
/// an [`RmsNorm`], as in Qwen 3.
#[derive(Module, Clone, Debug, PartialEq)]
pub enum HeadNorm {
    /// A normalisation by mean and variance.
    Layer(LayerNorm),
    /// A normalisation by the mean square.
    Rms(RmsNorm),
}

/// The inputs that the three projections receive.
struct Inputs<'a> {
    query: &'a Tensor,
    key: &'a Tensor,
    value: &'a Tensor,
}

impl MultiHeadAttention {
    /// Creates an f32 layer for self-attention with the defaults of Flax: see [`MultiHeadAttentionOptions`].
    ///
    /// Draws eight keys of the stream `params`.
    ///
    /// # Panics
    /// If `heads` does not divide `features`, or if there is no stream to draw from.
    #[track_caller]
    pub fn new(features: usize, heads: usize, rngs: &mut Rngs) -> Self {
        Self::with_options(features, heads, MultiHeadAttentionOptions::default(), rngs)
    }

    /// Creates an f32 layer like [`new`](Self::new), in which each token attends only to itself and earlier tokens.
    ///
    /// # Panics
    /// In the same cases as [`new`](Self::new).
    #[track_caller]
    pub fn causal(features: usize, heads: usize, rngs: &mut Rngs) -> Self {
        let options = MultiHeadAttentionOptions {
            direction: AttentionDirection::Causal,
            ..MultiHeadAttentionOptions::default()
        };
        Self::with_options(features, heads, options, rngs)
    }

    /// Creates a layer with the given options.
    ///
    /// Draws keys of the stream `params` in the order of Flax: first for the weight and the bias of the query, of the
    /// key and of the value, then for the parameters of the normalisations, and last for the weight and the bias of the
    /// output. If the dropout rate is above 0, also forks the stream `dropout`.
    ///
    /// # Panics
    /// If `heads` does not divide `qkv_features`, if `kv_heads` does not divide `heads`, if the length of a head is odd
    /// in a layer with a rotary embedding, if the window is 0, if the dropout rate is not in [0, 1), or if there is no stream to draw from.
    #[track_caller]
    pub fn with_options(
        features: usize,
        heads: usize,
        options: MultiHeadAttentionOptions,
        rngs: &mut Rngs,
    ) -> Self {
        let kv_heads = options.kv_heads.unwrap_or(heads);
        let head_dim = checked_head_dim(features, heads, kv_heads, &options);
        let kv_features = options.kv_in_features.unwrap_or(features);
        let linear = options.linear;
        let query = HeadProjection::new(features, heads, head_dim, linear, rngs);
        let key = HeadProjection::new(kv_features, kv_heads, head_dim, linear, rngs);
        let value = HeadProjection::new(kv_features, kv_heads, head_dim, linear, rngs);
        let (mut query_norm, mut key_norm) = (None, None);
        if let Some(norm) = options.qk_norm {
            let norm = NormOptions {
                param_dtype: linear.param_dtype,
                ..norm
            };
            let mut norm = || HeadNorm::Layer(LayerNorm::with_options(head_dim, norm, rngs));
            (query_norm, key_norm) = (Some(norm()), Some(norm()));
        }
        let of_output = LinearOptions {
            weight_init: options.out_weight_init.unwrap_or(linear.weight_init),
            ..linear
        };
        let out_features = options.out_features.unwrap_or(features);
        let out = OutputProjection::new(heads, head_dim, out_features, of_output, rngs);
        let mut stream = None;
        if options.dropout_rate > 0.0 {
            stream = Some(or_panic(rngs.stream_mut("dropout")).fork());
        }
        Self {
            query,
            key,
            value,
            query_norm,
            key_norm,
            out,
            cache: None,
            stream,
            direction: options.direction,
            rotary_base: options.rotary_base,
            rotary_scaling: options.rotary_scaling,
            window: options.window,
            dropout_rate: options.dropout_rate,
            dropout_mask: options.dropout_mask,
            mode: Mode::Train,
        }
    }

    /// Applies self-attention to `x`: `[*batch, tokens, features]` to `[*batch, tokens, out]`.
    ///
    /// If the layer has a cache, `x` contains the next tokens of each sequence. These tokens attend to themselves and
    /// to all earlier tokens.
    ///
    /// # Panics
    /// If the number of features or the dtype of `x` is wrong, if the batch of `x` differs from the batch of the cache,
    /// or if the cache has too little room. Under `jit`, the number of tokens in the cache is unknown. So if the cache
    /// has too little room, the method returns NaNs and does not panic.
    #[shapes(x = "T: float[*batch tokens _]", return = "T[*batch tokens _]")]
    #[panicking_twin(forward)]
    pub fn try_forward(&mut self, x: &Tensor) -> Result<Tensor, InputError> {
        self.attend_to_self(x, None)
    }

    /// Applies self-attention to `x` like [`forward`](Self::forward), but no token attends to a key where `mask` is
    /// false. The mask broadcasts to `[*batch, heads, tokens, keys]`. The keys are the tokens of `x`, or all places of
    /// the cache if the layer has a cache.
    ///
    /// # Panics
    /// In the same cases as [`forward`](Self::forward), and if the mask is not a tensor of bools or does not broadcast
    /// to the shape above.
    #[shapes(
        x = "T: float[*batch tokens _]",
        mask = "bool[...]",
        return = "T[*batch tokens _]"
    )]
    #[panicking_twin(forward_masked)]
    pub fn try_forward_masked(&mut self, x: &Tensor, mask: &Tensor) -> Result<Tensor, InputError> {
        self.attend_to_self(x, Some(mask))
    }

    /// Computes the attention of the tokens of `query` to the tokens of `key`. The values are projections of `value`,
    /// which usually is the same tensor as `key`. The method does not use the cache.
    ///
    /// The shapes are `query: [*batch, queries, features]`, `key: [*batch, keys, kv_features]` and
    /// `value: [*batch, keys, kv_features]`. The result is `[*batch, queries, out]`. The attention is causal if the
    /// `direction` of the layer or of the options is [`Causal`](AttentionDirection::Causal).
    ///
    /// # Panics
    /// If an input has a wrong number of features, if the shapes or dtypes do not match, or if a mask, bias or length
    /// in the options does not fit the inputs.
    #[shapes(
        query = "T: float[*batch queries _]",
        key = "T[*batch keys _]",
        value = "T[*batch keys _]",
        return = "T[*batch queries _]"
    )]
    #[panicking_twin(attend)]
    pub fn try_attend(
        &mut self,
        query: &Tensor,
        key: &Tensor,
        value: &Tensor,
        options: &AttentionOptions,
    ) -> Result<Tensor, InputError> {
        self.attend_to(&Inputs { query, key, value }, options)
    }

    /// Returns the stream that decides which attention weights are dropped, or `None` if the layer was created with the
    /// dropout rate 0.
    pub fn stream(&self) -> Option<&RngStream> {
        self.stream.as_ref()
    }

    /// Creates an empty cache if the layer is causal.
    #[track_caller]
    pub(super) fn make_cache(&mut self, batch: &[usize], length: usize) {
        let weight = &self.key.weight;
        if let (AttentionDirection::Causal, &[_, kv_heads, head_dim]) =
            (self.direction, weight.shape())
        {
            let dtype = weight.dtype();
            self.cache = Some(KeyValueCache::new(dtype, batch, length, kv_heads, head_dim));
        }
    }

    #[track_caller]
    fn attend_to(
        &mut self,
        inputs: &Inputs<'_>,
        options: &AttentionOptions,
    ) -> Result<Tensor, InputError> {
        let [query, key, value] = self.projected(inputs)?;
        let tokens = |tensor: &Tensor| tensor.shape()[tensor.rank() - 3];
        let query = self.turned(&query, &Tensor::arange(DType::I32, tokens(&query)))?;
        let key = self.turned(&key, &Tensor::arange(DType::I32, tokens(&key)))?;
        let direction = match self.direction {
            AttentionDirection::Bidirectional => options.direction,
            AttentionDirection::Causal => AttentionDirection::Causal,
        };
        let window = self.window.map(|window| (window.saturating_sub(1), 0));
        let options = AttentionOptions {
            direction,
            local_window: options.local_window.or(window),
            ..options.clone()
        };
        let mixed = self.mixed(&query, &key, &value, &options, None)?;
        self.out.try_apply(&mixed)
    }

    #[track_caller]
    fn attend_to_self(&mut self, x: &Tensor, mask: Option<&Tensor>) -> Result<Tensor, InputError> {
        let inputs = Inputs {
            query: x,
            key: x,
            value: x,
        };
        let Some(cache) = self.cache.clone() else {
            let options = AttentionOptions {
                mask: mask.cloned(),
                ..AttentionOptions::default()
            };
            return self.attend_to(&inputs, &options);
        };
        let tokens = x.shape()[x.rank() - 2];
        check_batch(x, &cache)?;
        check_room(ATTENTION, &cache.index, tokens, cache.length())?;
        let [query, key, value] = self.projected(&inputs)?;
        check_like(&cache.key, &key)?;
        check_like(&cache.value, &value)?;
        let positions = positions_from(&cache.index, tokens);
        let query = self.turned(&query, &positions)?;
        let key = self.turned(&key, &positions)?;
        let (extended, mut allowed) = cache.extended(&key, &value);
        if let Some(window) = self.window {
            // A key that the window has left is one that a token `window` places earlier could attend to.
            let earlier = positions - Tensor::full(DType::I32, [], window as f64);
            allowed &= !causal_from(&earlier, cache.length());
        }
        let options = AttentionOptions {
            mask: mask.cloned(),
            ..AttentionOptions::default()
        };
        let (key, value) = (&extended.key, &extended.value);
        let mixed = self.mixed(&query, key, value, &options, Some(allowed))?;
        let y = self.out.try_apply(&mixed)?;
        self.cache = Some(extended);
        Ok(nan_if_full(y, &cache.index, tokens, cache.length()))
    }

    /// Returns the queries, keys and values of all heads.
    #[track_caller]
    fn projected(&self, inputs: &Inputs<'_>) -> Result<[Tensor; 3], InputError> {
        let query = self.query.try_forward(inputs.query)?;
        let key = self.key.try_forward(inputs.key)?;
        let value = self.value.try_forward(inputs.value)?;
        Ok([
            normalized(self.query_norm.as_ref(), query)?,
            normalized(self.key_norm.as_ref(), key)?,
            value,
        ])
    }

    /// Applies the rotary embedding if the layer has one.
    #[track_caller]
    fn turned(&self, x: &Tensor, positions: &Tensor) -> Result<Tensor, InputError> {
        match self.rotary_base {
            Some(base) => try_scaled(x, positions, base, self.rotary_scaling),
            None => Ok(x.clone()),
        }
    }

    /// Computes attention, with dropout in training. `allowed` is a further mask.
    #[track_caller]
    fn mixed(
        &mut self,
        query: &Tensor,
        key: &Tensor,
        value: &Tensor,
        options: &AttentionOptions,
        allowed: Option<Tensor>,
    ) -> Result<Mixed, InputError> {
        let is_dropping = self.mode == Mode::Train && self.dropout_rate > 0.0;
        let mut stream = self.stream.clone().filter(|_| is_dropping);
        let mut dropout = None;
        if let Some(stream) = &mut stream {
            dropout = Some(WeightDropout {
                key: stream.next_key(),
                rate: self.dropout_rate,
                mask: self.dropout_mask,
            });
        }
        let extras = Extras { allowed, dropout };
        let mixed = mix(ATTENTION, query, key, value, options, &extras)?;
        // The stream advances only after attention has succeeded, so an error leaves the layer unchanged.
        if stream.is_some() {
            self.stream = stream;
        }
        Ok(mixed)
    }
}

#[track_caller]
fn normalized(norm: Option<&HeadNorm>, x: Tensor) -> Result<Tensor, InputError> {
    match norm {
        Some(HeadNorm::Layer(norm)) => norm.try_forward(&x),
        Some(HeadNorm::Rms(norm)) => norm.try_forward(&x),
        None => Ok(x),
    }
}

/// Checks that `x` and the cache have the same batch.
fn check_batch(x: &Tensor, cache: &KeyValueCache) -> Result<(), InputError> {
    let (batch, _) = x.shape().split_at(x.rank() - 2);
    if batch == cache.batch() {
        return Ok(());
    }
    let expected = format!("x with the batch {:?} of its cache", cache.batch());
    let fix = "pass as many sequences as the cache has, or call `with_cache` with the batch of x";
    Err(InputError::input(ATTENTION, expected, x, fix))
}

/// Checks that new keys or values have the same dtype, number of heads and head length as `cached`.
fn check_like(cached: &Tensor, new: &Tensor) -> Result<(), InputError> {
    let heads = |tensor: &Tensor| tensor.shape()[tensor.rank().saturating_sub(2)..].to_vec();
    if cached.dtype() == new.dtype() && heads(cached) == heads(new) {
        return Ok(());
    }
    let expected = format!("keys and values like those in its cache, {}", cached.info());
    let fix = "call `with_cache` again after the layer was changed";
    Err(InputError::input(ATTENTION, expected, new, fix))
}

/// Checks the sizes of a new layer, and returns the length of a head.
#[track_caller]
fn checked_head_dim(
    features: usize,
    heads: usize,
    kv_heads: usize,
    options: &MultiHeadAttentionOptions,
) -> usize {
    let qkv_features = options.qkv_features.unwrap_or(features);
    assert!(
        heads > 0 && qkv_features.is_multiple_of(heads),
        "MultiHeadAttention expects the number of heads to divide the number of features of a query, found {heads} heads and {qkv_features} features; choose a number of heads that divides {qkv_features}, or set `qkv_features`"
    );
    assert!(
        kv_heads > 0 && heads.is_multiple_of(kv_heads),
        "MultiHeadAttention expects the number of key heads to divide the number of heads, found {kv_heads} key heads and {heads} heads; choose a `kv_heads` that divides {heads}"
    );
    let head_dim = qkv_features / heads;
    assert!(
        options.rotary_base.is_none() || head_dim.is_multiple_of(2),
        "MultiHeadAttention expects heads of an even length for a rotary embedding, found {head_dim}; choose `qkv_features` as an even multiple of the {heads} heads"
    );
    assert!(
        options.window != Some(0),
        "MultiHeadAttention expects a window of at least 1 token, found 0; a token attends at least to itself"
    );
    let rate = options.dropout_rate;
    assert!(
        (0.0..1.0).contains(&rate),
        "MultiHeadAttention expects a dropout rate of at least 0 and less than 1, found {rate}; it is the probability of dropping an attention weight"
    );
    head_dim
}
