//! Attention as a function of queries, keys and values.

use std::ops::Range;

use super::masks::{causal_from, padding_mask, window_from};
use super::options::{AttentionDirection, DropoutMask};
use super::scores::{LIMITS, Limits, Mixed, ScoreAxes, part, zero};
use crate::convert_floats::at_least_f32_dtype;
use crate::functions::{softmax, wide_integers};
use crate::layers::prelude::*;
use crate::random::Key;

/// The options of [`dot_product_attention`](crate::dot_product_attention()), with the defaults of
/// `jax.nn.dot_product_attention`.
///
/// # Examples
/// ```
/// use pytree_nn::{AttentionOptions, Key, dot_product_attention};
/// use pytree_transform::{DType, Tensor};
/// let x = Key::new(0).normal(DType::F32, [2, 5, 4, 8]);
/// let options = AttentionOptions { key_lengths: Some(Tensor::from([5, 3])), ..AttentionOptions::default() };
/// assert_eq!(dot_product_attention(&x, &x, &x, &options).shape(), [2, 5, 4, 8]);
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AttentionOptions {
    /// The numbers that are added to the scaled scores; by default none. Broadcasts to
    /// `[*batch, heads, queries, keys]`.
    pub bias: Option<Tensor>,
    /// The mask, which is true where a query may attend to a key; by default, all queries attend to all keys.
    /// Broadcasts to `[*batch, heads, queries, keys]`.
    pub mask: Option<Tensor>,
    /// Which keys a query may attend to, depending on the order of the keys; by default
    /// [`AttentionDirection::Bidirectional`].
    pub direction: AttentionDirection,
    /// The factor of the scores; by default `None`, which means `1/√head_dim`.
    pub scale: Option<f64>,
    /// The local window `(left, right)`: query i attends only to the keys i - left to i + right; by default none.
    pub local_window: Option<(usize, usize)>,
    /// The number of valid queries of each sequence, `int[*batch]`; by default, all queries are valid. The results of
    /// invalid queries are 0.
    pub query_lengths: Option<Tensor>,
    /// The number of valid keys of each sequence, `int[*batch]`; by default, all keys are valid. No query attends to an
    /// invalid key.
    pub key_lengths: Option<Tensor>,
}

/// Returns softmax(query · keyᵀ · scale + bias) · value for each head (Vaswani et al. 2017, equation 1).
///
/// If there are fewer key heads than query heads, consecutive query heads share a key head. The result is grouped-query
/// attention (Ainslie et al. 2023), or multi-query attention if there is only one key head (Shazeer 2019).
///
/// The scores and the softmax of half-precision floats are computed in f32, as in JAX. The scores and the softmax of
/// f64 are computed in f64. (JAX rounds the scores to f32.)
///
/// Scores that a mask excludes are replaced by a large negative number, as in JAX. So if the mask excludes all keys of
/// a query, the result of the query is the mean of all values. Pass a mask instead of a bias with infinities, because
/// the softmax of a row of infinities is NaN.
///
/// From 512 tokens on, the scores are computed in blocks of queries, and again for derivatives. So the memory grows with the number of
/// tokens, and not with its square. Scores outside of the causal triangle or of the window are not computed, unless there are masks or
/// lengths, too. Scores with dropout are not divided.
///
/// # Examples
/// ```
/// use pytree_nn::{AttentionDirection, AttentionOptions, Key, dot_product_attention};
/// use pytree_transform::{DType, Tensor, ix};
/// let query = Key::new(0).normal(DType::F32, [2, 5, 4, 8]);
/// let (key, value) = (Key::new(1).normal(DType::F32, [2, 5, 2, 8]), Key::new(2).normal(DType::F32, [2, 5, 2, 8]));
/// let options = AttentionOptions { direction: AttentionDirection::Causal, ..AttentionOptions::default() };
/// let mixed = dot_product_attention(&query, &key, &value, &options);
/// assert_eq!(mixed.shape(), [2, 5, 4, 8]);
/// // The first query attends only to the first key. The query heads 0 and 1 share the key head 0.
/// let first = mixed.index(ix![.., 0, 1]) - value.index(ix![.., 0, 0]);
/// assert!(first.abs().max().item::<f32>() < 1e-6);
/// ```
///
/// # Panics
/// If the shapes or dtypes do not match, if the number of query heads is not a multiple of the number of key heads, or
/// if a mask, bias or length in the options does not fit the inputs.
#[doc(alias(
    "nnx.dot_product_attention",
    "jax.nn.dot_product_attention",
    "F.scaled_dot_product_attention"
))]
#[shapes(
    query = "T: float[*batch queries heads head_dim]",
    key = "T[*batch keys kv_heads head_dim]",
    value = "T[*batch keys kv_heads value_dim]",
    return = "T[*batch queries heads value_dim]"
)]
#[panicking_twin(dot_product_attention)]
pub fn try_dot_product_attention(
    query: &Tensor,
    key: &Tensor,
    value: &Tensor,
    options: &AttentionOptions,
) -> Result<Tensor, InputError> {
    match mix(
        "dot_product_attention",
        query,
        key,
        value,
        options,
        &Extras::default(),
    ) {
        Ok(mixed) => Ok(mixed.by_query()),
        Err(error) => Err(error),
    }
}

/// The dropout of attention weights.
pub(super) struct WeightDropout {
    pub(super) key: Key,
    pub(super) rate: f64,
    pub(super) mask: DropoutMask,
}

/// The inputs of attention that only a layer passes, in addition to [`AttentionOptions`].
#[derive(Default)]
pub(super) struct Extras {
    /// A further mask, which is true for the positions of a cache that already hold keys.
    pub(super) allowed: Option<Tensor>,
    pub(super) dropout: Option<WeightDropout>,
}

/// Computes attention. Error messages name the function or layer `what`.
#[track_caller]
pub(super) fn mix(
    what: &'static str,
    query: &Tensor,
    key: &Tensor,
    value: &Tensor,
    options: &AttentionOptions,
    extras: &Extras,
) -> Result<Mixed, InputError> {
    check_heads(what, query, key)?;
    check_options(what, &score_shape(query, key), options)?;
    Ok(Attention::new(query, key, value, options, extras, LIMITS)
        .mixed(query, options.query_lengths.as_ref()))
}

/// The inputs of attention that are the same for all queries.
pub(super) struct Attention<'a> {
    pub(super) layout: ScoreAxes,
    pub(super) key: Tensor,
    pub(super) value: Tensor,
    /// The numbers that are added to the scores. They and the masks broadcast to `[*batch, heads, queries, keys]`.
    pub(super) bias: Option<Tensor>,
    pub(super) masks: Vec<Tensor>,
    pub(super) is_causal: bool,
    pub(super) window: Option<(usize, usize)>,
    pub(super) dropout: Option<&'a WeightDropout>,
    pub(super) scale: f64,
    /// The position of the first of `key`.
    pub(super) first_key: usize,
    /// The number of all queries.
    pub(super) queries: usize,
    /// The number of all keys.
    pub(super) keys: usize,
    pub(super) limits: Limits,
}

impl<'a> Attention<'a> {
    #[track_caller]
    pub(super) fn new(
        query: &Tensor,
        key: &Tensor,
        value: &Tensor,
        options: &AttentionOptions,
        extras: &'a Extras,
        limits: Limits,
    ) -> Self {
        let depth = query.shape().last().copied().unwrap_or_default();
        let layout = ScoreAxes::new(query, key);
        let dtype = at_least_f32_dtype(query.dtype());
        let lengths = options.key_lengths.as_ref();
        let masks = [
            lengths.map(|lengths| padding_mask(lengths, key.shape()[layout.batch])),
            options.mask.clone(),
            extras.allowed.clone(),
        ];
        Self {
            layout,
            key: key.convert(dtype),
            value: value.clone(),
            bias: options.bias.as_ref().map(|bias| bias.convert(dtype)),
            masks: masks.into_iter().flatten().collect(),
            is_causal: options.direction.is_causal(),
            window: options.local_window,
            dropout: extras.dropout.as_ref(),
            scale: options.scale.unwrap_or(1.0 / (depth as f64).sqrt()),
            first_key: 0,
            queries: query.shape()[layout.batch],
            keys: key.shape()[layout.batch],
            limits,
        }
    }

    /// Returns the values of all queries. Dropout draws one mask for all scores, which are not divided then.
    #[track_caller]
    pub(super) fn mixed(&self, query: &Tensor, query_lengths: Option<&Tensor>) -> Mixed {
        let scores = self.queries.saturating_mul(self.keys);
        let values = if scores >= self.limits.divided && self.dropout.is_none() {
            self.in_blocks(query)
        } else {
            self.rows(query, None)
        };
        let mut mixed = self.layout.values(values);
        if let Some(lengths) = query_lengths {
            let lengths = wide_integers(lengths);
            let queries = Tensor::arange(lengths.dtype(), self.queries);
            mixed.zero_unless(&queries.less(lengths.expand_dims(-1)));
        }
        mixed
    }

    /// Returns the values of the queries from `start` on, by default 0, which attend to no other keys.
    #[track_caller]
    pub(super) fn rows(&self, query: &Tensor, start: Option<&Tensor>) -> Tensor {
        let (layout, dtype) = (self.layout, self.key.dtype());
        let keys = self.key.shape()[layout.batch];
        let rows = Rows {
            start,
            count: query.shape()[layout.batch],
            keys: self.first_key..self.first_key + keys,
        };
        let mut scores = layout.scores(&query.convert(dtype), &self.key) * self.scale;
        if let Some(bias) = &self.bias {
            scores += layout.arranged(&rows.of(bias));
        }
        let causal = self.is_causal.then(|| causal_from(&rows.positions(), keys));
        let window = self.window;
        let window = window.map(|(left, right)| window_from(&rows.positions(), keys, left, right));
        let masks = self.masks.iter().map(|mask| rows.of(mask));
        let masks = causal.into_iter().chain(window).chain(masks);
        if let Some(mask) = masks.reduce(|first, second| first & second) {
            let low = Tensor::full(dtype, [], -0.7 * f64::from(f32::MAX));
            scores = layout.arranged(&mask).select(&scores, &low);
        }
        let mut weights = softmax(&scores, -1).convert(self.value.dtype());
        if let Some(dropout) = self.dropout {
            weights = dropped(layout, &weights, &score_shape(query, &self.key), dropout);
        }
        layout.mixed(&weights, &self.value)
    }
}

/// Some consecutive queries, and the keys that they attend to.
struct Rows<'a> {
    start: Option<&'a Tensor>,
    count: usize,
    keys: Range<usize>,
}

impl Rows<'_> {
    /// Returns the positions of the queries, counted from the first key.
    #[track_caller]
    fn positions(&self) -> Tensor {
        let positions = Tensor::arange(DType::I32, self.count) - self.keys.start;
        self.start
            .map_or(positions.clone(), |start| positions + start)
    }

    /// Returns the part for these queries and keys of a tensor that broadcasts to `[*batch, heads, queries, keys]`.
    #[track_caller]
    fn of(&self, tensor: &Tensor) -> Tensor {
        let mut part_of = tensor.clone();
        let Some(keys) = tensor.rank().checked_sub(1) else {
            return part_of;
        };
        if tensor.shape()[keys] != 1 {
            part_of = part(&part_of, keys, self.keys.clone());
        }
        match (self.start, keys.checked_sub(1)) {
            (Some(start), Some(queries)) if tensor.shape()[queries] != 1 => {
                let mut starts = vec![Tensor::zeros(DType::I32, []); tensor.rank()];
                starts[queries] = start.clone();
                let mut sizes = part_of.shape().to_vec();
                sizes[queries] = self.count;
                part_of.dynamic_slice(&starts, sizes)
            }
            _ => part_of,
        }
    }
}

/// Returns the shape `[*batch, heads, queries, keys]`.
fn score_shape(query: &Tensor, key: &Tensor) -> Vec<usize> {
    let (batch, rest) = query.shape().split_at(query.rank() - 3);
    [batch, &[rest[1], rest[0], key.shape()[batch.len()]]].concat()
}

/// Sets weights to 0 with the probability `rate`, and divides the other weights by 1 - `rate`.
#[track_caller]
fn dropped(layout: ScoreAxes, weights: &Tensor, full: &[usize], dropout: &WeightDropout) -> Tensor {
    let shape = match dropout.mask {
        DropoutMask::Shared => &full[full.len() - 2..],
        DropoutMask::PerHead => full,
    };
    let kept = 1.0 - dropout.rate;
    let keep = layout.arranged(&dropout.key.bernoulli(kept, shape));
    keep.select(weights / kept, zero(weights.dtype()))
}

fn check_heads(what: &'static str, query: &Tensor, key: &Tensor) -> Result<(), InputError> {
    let axis = query.rank() - 2;
    let (heads, kv_heads) = (query.shape()[axis], key.shape()[axis]);
    if kv_heads > 0 && heads.is_multiple_of(kv_heads) {
        return Ok(());
    }
    let expected = format!("a number of key heads that divides the {heads} heads of the query");
    let fix =
        "pass a key and a value whose number of heads divides the number of heads of the query";
    Err(InputError::input(what, expected, key, fix))
}

/// Checks the tensors of the options against the shape `[*batch, heads, queries, keys]`.
fn check_options(
    what: &'static str,
    full: &[usize],
    options: &AttentionOptions,
) -> Result<(), InputError> {
    let broadcasts = |tensor: &Tensor| {
        let mut lengths = tensor.shape().iter().rev().zip(full.iter().rev());
        tensor.rank() <= full.len()
            && lengths.all(|(&length, &wanted)| length == wanted || length == 1)
    };
    let axes = "[*batch, heads, queries, keys]";
    if let Some(mask) = &options.mask
        && (mask.dtype() != DType::Bool || !broadcasts(mask))
    {
        let expected = format!("a bool mask that broadcasts to {axes} = {full:?}");
        let fix = "set the mask to true where a query attends to a key, and add axes of length 1 for the axes over which the mask is the same";
        return Err(InputError::input(what, expected, mask, fix));
    }
    if let Some(bias) = &options.bias
        && (!bias.dtype().is_float() || !broadcasts(bias))
    {
        let expected = format!("a float bias that broadcasts to {axes} = {full:?}");
        let fix = "add axes of length 1 for the axes over which the bias is the same; pass a tensor of bools as the mask";
        return Err(InputError::input(what, expected, bias, fix));
    }
    let batch = &full[..full.len() - 3];
    let lengths = [&options.query_lengths, &options.key_lengths];
    for lengths in lengths.into_iter().flatten() {
        let is_integer = !lengths.dtype().is_float() && lengths.dtype() != DType::Bool;
        if !is_integer || lengths.shape() != batch {
            let expected = format!("integer lengths of the shape {batch:?}");
            let fix = "pass one length for each sequence of the batch";
            return Err(InputError::input(what, expected, lengths, fix));
        }
    }
    Ok(())
}
