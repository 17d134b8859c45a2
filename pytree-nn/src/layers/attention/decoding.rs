//! `with_cache`: prepares a model for decoding.

use std::any::Any;

use pytree_core::{Pytree, edit};
use pytree_transform::Tensor;

use super::multi_head::MultiHeadAttention;
use super::positions::{LearnedPositions, SinusoidalPositions};

/// Returns the model with empty caches for `length` tokens of each sequence of a batch, for decoding.
///
/// Each causal [`MultiHeadAttention`] gets a [`KeyValueCache`](crate::KeyValueCache), and [`LearnedPositions`] and [`SinusoidalPositions`]
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
