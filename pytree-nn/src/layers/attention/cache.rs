//! The cache of attention keys and values. With this cache, a model decodes a sequence token by token.

use pytree_core::Module;
use pytree_core::kind::Cache;
use pytree_transform::{DType, Tensor};

use super::masks;
use crate::error::InputError;

/// The keys and values of the tokens that an attention layer has received. The layer reads earlier keys and values from
/// the cache, and computes only the keys and values of new tokens.
///
/// [`with_cache`](crate::with_cache()) creates the caches of a model. The leaves are states of the collection `Cache`.
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
