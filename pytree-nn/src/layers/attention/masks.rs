//! Masks, which select the keys that a query may attend to.
//!
//! A mask is a tensor of bools that broadcasts to `[*batch, heads, queries, keys]`. Where the mask is false, the query
//! does not attend to the key.

use pytree_core::shapes;
use pytree_transform::{DType, Tensor};

use crate::functions::wide_integers;

/// Returns the mask of causal attention: query i attends to the keys 0 to i. The result is `bool[queries, keys]`.
///
/// # Examples
/// ```
/// use pytree_nn::causal_mask;
/// use pytree_transform::Tensor;
/// assert_eq!(causal_mask(2, 3), Tensor::from([[true, false, false], [true, true, false]]));
/// ```
///
/// # Panics
/// If the memory for the mask cannot be allocated.
#[doc(alias(
    "nnx.make_causal_mask",
    "nn.Transformer.generate_square_subsequent_mask"
))]
#[track_caller]
pub fn causal_mask(queries: usize, keys: usize) -> Tensor {
    causal_from(&Tensor::arange(DType::I32, queries), keys)
}

/// Returns the causal mask of queries at the given positions: `i32[queries]` to `bool[queries, keys]`.
#[track_caller]
pub(super) fn causal_from(positions: &Tensor, keys: usize) -> Tensor {
    let keys = Tensor::arange(DType::I32, keys);
    positions.expand_dims(-1).greater_equal(keys)
}

/// Returns the mask of a local window: query i attends to the keys i - `left` to i + `right`. The result is
/// `bool[queries, keys]`.
///
/// # Examples
/// ```
/// use pytree_nn::window_mask;
/// use pytree_transform::Tensor;
/// let mask = window_mask(3, 3, 1, 0);
/// assert_eq!(mask, Tensor::from([[true, false, false], [true, true, false], [false, true, true]]));
/// ```
///
/// # Panics
/// If the memory for the mask cannot be allocated.
#[track_caller]
pub fn window_mask(queries: usize, keys: usize, left: usize, right: usize) -> Tensor {
    window_from(&Tensor::arange(DType::I64, queries), keys, left, right)
}

/// Returns the mask of a local window for queries at the given positions: `int[queries]` to `bool[queries, keys]`.
#[track_caller]
pub(super) fn window_from(positions: &Tensor, keys: usize, left: usize, right: usize) -> Tensor {
    let queries = positions.convert(DType::I64).expand_dims(-1);
    let keys = Tensor::arange(DType::I64, keys);
    // Lengths of axes are at most `i64::MAX`, so a longer window contains all keys.
    let [left, right] = [left, right].map(|length| i64::try_from(length).unwrap_or(i64::MAX));
    let from_query = &keys - &queries;
    from_query.greater_equal(Tensor::from(-left)) & from_query.less_equal(Tensor::from(right))
}

/// Returns the mask of padded sequences: all queries attend to the first `lengths[b]` keys of sequence b. The result
/// is `bool[*batch, 1, 1, keys]`, which broadcasts over heads and queries.
///
/// # Examples
/// ```
/// use pytree_nn::padding_mask;
/// use pytree_transform::Tensor;
/// let mask = padding_mask(&Tensor::from([1, 3]), 3);
/// assert_eq!(mask.shape(), [2, 1, 1, 3]);
/// assert_eq!(mask.squeeze(1).squeeze(1), Tensor::from([[true, false, false], [true, true, true]]));
/// ```
///
/// # Panics
/// If `lengths` is not a tensor of integers.
#[shapes(lengths = "int[*batch]", return = "bool[*batch 1 1 keys]")]
#[track_caller]
pub fn padding_mask(lengths: &Tensor, keys: usize) -> Tensor {
    let lengths = wide_integers(lengths);
    let lengths = lengths.expand_dims(-1).expand_dims(-1).expand_dims(-1);
    Tensor::arange(lengths.dtype(), keys).less(lengths)
}

/// Returns the mask that is true where all given masks are true, or `None` if `masks` is empty. The masks are broadcast
/// to a common shape.
///
/// # Examples
/// ```
/// use pytree_nn::{causal_mask, combine_masks, padding_mask};
/// use pytree_transform::Tensor;
/// let padding = padding_mask(&Tensor::from([1, 2]), 2);
/// let mask = combine_masks(&[&causal_mask(2, 2), &padding]).unwrap();
/// assert_eq!(mask.shape(), [2, 1, 2, 2]);
/// assert!(combine_masks(&[]).is_none());
/// ```
///
/// # Panics
/// If the dtypes of the masks differ, if several masks are floats, or if the shapes do not broadcast. A single mask is
/// returned without a check.
#[doc(alias = "nnx.combine_masks")]
#[track_caller]
pub fn combine_masks(masks: &[&Tensor]) -> Option<Tensor> {
    let (first, others) = masks.split_first()?;
    let mut combined = (*first).clone();
    for mask in others {
        combined = &combined & *mask;
    }
    Some(combined)
}
