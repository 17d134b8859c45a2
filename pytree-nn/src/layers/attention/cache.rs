//! The cache of attention keys and values. With this cache, a model decodes a sequence token by token.

use std::any::Any;

use pytree_core::kind::Cache;
use pytree_core::{Module, Pytree, edit};
use pytree_transform::{DType, Tensor};

use super::positions::{LearnedPositions, SinusoidalPositions};
use super::{MultiHeadAttention, masks};
use crate::error::InputError;

/// The keys and values of the tokens that an attention layer has received. The layer reads earlier keys and values from
/// the cache, and computes only the keys and values of new tokens.
///
/// [`with_cache`] creates the caches of a model. The leaves are states of the collection `Cache`.
#[derive(Module, Clone, Debug, PartialEq)]
pub struct KeyValueCache {
    /// The keys of all tokens, after normalisation and rotary embedding. Keys of future tokens are 0.
    #[state(Cache, "T[*batch length kv_heads head_dim]")]
    pub key: Tensor,
    /// The values of all tokens. Values of future tokens are 0.
    #[state(Cache, "T[*batch length kv_heads value_dim]")]
    pub value: Tensor,
    /// The number of tokens in the cache.
    #[state(Cache, "i32[]")]
    pub index: Tensor,
}

impl KeyValueCache {
    /// Creates an empty cache for `length` tokens of each sequence of a batch.
    ///
    /// # Panics
    /// If the memory for the cache cannot be allocated.
    #[track_caller]
    pub fn new(
        dtype: DType,
        batch: &[usize],
        length: usize,
        kv_heads: usize,
        head_dim: usize,
    ) -> Self {
        let shape = [batch, &[length, kv_heads, head_dim]].concat();
        Self {
            key: Tensor::zeros(dtype, &shape),
            value: Tensor::zeros(dtype, &shape),
            index: Tensor::from(0_i32),
        }
    }

    /// Returns the shape of the batch.
    pub(super) fn batch(&self) -> &[usize] {
        let shape = self.key.shape();
        &shape[..shape.len().saturating_sub(3)]
    }

    /// Returns the number of tokens per sequence that the cache can hold.
    pub fn length(&self) -> usize {
        let axis = self.batch().len();
        self.key.shape().get(axis).copied().unwrap_or_default()
    }

    /// Returns the cache after the keys and values of further tokens were added, and the causal mask of the new
    /// queries: `bool[queries, length]`.
    #[track_caller]
    pub(super) fn extended(&self, key: &Tensor, value: &Tensor) -> (Self, Tensor) {
        let tokens = key.shape()[self.batch().len()];
        let positions = positions_from(&self.index, tokens);
        let extended = Self {
            key: self.written(&self.key, key),
            value: self.written(&self.value, value),
            index: &self.index + &Tensor::full(DType::I32, [], tokens),
        };
        (extended, masks::causal_from(&positions, self.length()))
    }

    /// Returns `cached` with the rows `new` written from position `index` on.
    #[track_caller]
    fn written(&self, cached: &Tensor, new: &Tensor) -> Tensor {
        let axis = self.batch().len();
        let mut starts = vec![Tensor::from(0_i32); cached.rank()];
        starts[axis] = self.index.clone();
        cached.dynamic_update_slice(new, &starts)
    }
}

/// Returns the positions `index..index + tokens`: `i32[tokens]`.
#[track_caller]
pub(super) fn positions_from(index: &Tensor, tokens: usize) -> Tensor {
    Tensor::arange(DType::I32, tokens) + index
}

/// Checks that `tokens` more tokens fit in `length` places. The value of a traced index is unknown, so a traced index
/// counts as 0.
pub(super) fn check_room(
    what: &'static str,
    index: &Tensor,
    tokens: usize,
    length: usize,
) -> Result<(), InputError> {
    let before = if index.is_traced() {
        0
    } else {
        let index = index.read::<i32>().map_err(InputError::inside(what))?;
        let index = index.first().copied().unwrap_or_default();
        usize::try_from(index).unwrap_or_default()
    };
    if before + tokens <= length {
        return Ok(());
    }
    Err(InputError::CacheFull {
        what,
        length,
        index: before,
        tokens,
    })
}

/// Returns `y`, or NaNs if there is too little room. Only a traced index is checked here, because `check_room` checks
/// other indices.
#[track_caller]
pub(super) fn nan_if_full(y: Tensor, index: &Tensor, tokens: usize, length: usize) -> Tensor {
    if !index.is_traced() {
        return y;
    }
    let last_start = Tensor::full(DType::I32, [], length as f64 - tokens as f64);
    let has_room = index.less_equal(last_start);
    has_room.select(&y, Tensor::full(y.dtype(), [], f64::NAN))
}

/// Returns the model with empty caches for `length` tokens of each sequence of a batch, for decoding.
///
/// Each causal [`MultiHeadAttention`] gets a [`KeyValueCache`], and [`LearnedPositions`] and [`SinusoidalPositions`]
/// get the index of the next token. Each later call of `forward` receives one or more new tokens of each sequence. The
/// new tokens attend to themselves and to all earlier tokens, so the results equal the results of one call with all
/// tokens. Call [`eval`](crate::eval()) to disable dropout.
///
/// The shapes of the caches are fixed, so `jit` compiles a decoding step only once. Call `with_cache` again to empty
/// the caches.
///
/// `batch` is the shape of the batch: `[batch]`, or `[]` for one sequence without a batch axis. The caches have the
/// dtype of the weights. A call is an error if the caches have too little room for its tokens. Under `jit` and `scan`,
/// the number of earlier tokens is unknown, so such a call returns NaNs and no error.
///
/// # Examples
/// ```
/// use pytree_nn::{MultiHeadAttention, Rngs, with_cache};
/// use pytree_transform::{DType, Tensor, ix, jit_mut};
/// let mut rngs = Rngs::new(0);
/// let mut attention = MultiHeadAttention::causal(16, 4, &mut rngs);
/// let x = rngs.normal(DType::F32, [2, 6, 16]);
/// let whole = attention.forward(&x);
///
/// let mut decoder = with_cache(&attention, [2], 6);
/// let step = jit_mut(|(layer, x): (&mut MultiHeadAttention, Tensor)| layer.forward(&x));
/// for token in 0..6 {
///     let y = step((&mut decoder, x.index(ix![.., token..=token])));
///     let expected = whole.index(ix![.., token..=token]);
///     assert!((y - expected).abs().max().item::<f32>() < 1e-5);
/// }
/// assert_eq!(step.traces(), 1);
/// ```
///
/// # Panics
/// If the model has neither a causal attention layer nor a layer of positions.
#[doc(alias = "nnx.MultiHeadAttention.init_cache")]
#[must_use]
#[track_caller]
pub fn with_cache<M: Pytree + Clone>(model: &M, batch: impl AsRef<[usize]>, length: usize) -> M {
    let batch = batch.as_ref();
    let mut count = 0;
    let changed = edit::apply_any(model.clone(), |_, node: &mut dyn Any| {
        if let Some(layer) = node.downcast_mut::<MultiHeadAttention>() {
            count += usize::from(layer.direction.is_causal());
            layer.make_cache(batch, length);
        } else if let Some(layer) = node.downcast_mut::<LearnedPositions>() {
            count += 1;
            layer.index = Some(Tensor::from(0_i32));
        } else if let Some(layer) = node.downcast_mut::<SinusoidalPositions>() {
            count += 1;
            layer.index = Some(Tensor::from(0_i32));
        }
    });
    assert!(
        count > 0,
        "cannot create caches: the model has no causal MultiHeadAttention and no layer of positions; create the attention layers with `direction: AttentionDirection::Causal`"
    );
    changed
}
