//! A decoder that attends to its own tokens, with a cache, and to the tokens of a source of another width.

use pytree::nn::{AttentionOptions, MultiHeadAttention, MultiHeadAttentionOptions, with_cache};
use pytree::prelude::*;

use crate::programs::panic_message;

#[derive(Module, Clone, Debug)]
struct Decoder {
    own: MultiHeadAttention,
    cross: MultiHeadAttention,
}

impl Decoder {
    fn new(width: usize, source_width: usize, rngs: &mut Rngs) -> Self {
        let options = MultiHeadAttentionOptions {
            kv_in_features: Some(source_width),
            ..MultiHeadAttentionOptions::default()
        };
        Self {
            own: MultiHeadAttention::causal(width, 2, rngs),
            cross: MultiHeadAttention::with_options(width, 2, options, rngs),
        }
    }

    #[shapes(
        x = "batch tokens width",
        source = "batch words _",
        return = "batch tokens width"
    )]
    fn forward(&mut self, x: &Tensor, source: &Tensor) -> Tensor {
        let x = x + self.own.forward(x);
        let options = AttentionOptions::default();
        &x + self.cross.attend(&x, source, source, &options)
    }
}

fn inputs() -> (Decoder, Tensor, Tensor) {
    let mut rngs = Rngs::new(0);
    let decoder = Decoder::new(8, 6, &mut rngs);
    let (x, source) = (
        rngs.normal(DType::F32, [2, 4, 8]),
        rngs.normal(DType::F32, [2, 5, 6]),
    );
    (decoder, x, source)
}

#[test]
fn decoder_with_cache_equals_decoder_without() {
    let (mut decoder, x, source) = inputs();
    let whole = decoder.forward(&x, &source);
    let mut cached = with_cache(&decoder, [2], 4);
    // Only self-attention has a cache.
    assert!(cached.own.cache.is_some() && cached.cross.cache.is_none());
    let step = jit_mut(|(decoder, x, source): (&mut Decoder, Tensor, Tensor)| {
        decoder.forward(&x, &source)
    });
    for token in 0..4 {
        let y = step((&mut cached, x.index(ix![.., token..=token]), source.clone()));
        let off = (y - whole.index(ix![.., token..=token])).abs().max();
        assert!(off.item::<f32>() < 1e-5);
    }
    assert_eq!(step.traces(), 1);
}

#[test]
fn decoder_is_trained() {
    let (mut decoder, x, source) = inputs();
    let mut optimizer = Optimizer::new(&decoder, adam(1e-2));
    let loss = |decoder: &mut Decoder| mse(&decoder.forward(&x, &source), &x);
    let mut losses = Vec::new();
    for _ in 0..10 {
        let (loss, gradient) = value_and_grad_mut(loss)(&mut decoder);
        optimizer.update(&mut decoder, &gradient);
        losses.push(loss.item::<f32>());
    }
    assert!(losses[9] < 0.5 * losses[0], "{losses:?}");
}

#[test]
fn source_of_another_width_is_reported() {
    let (mut decoder, x, _) = inputs();
    assert_eq!(
        panic_message(|| decoder.forward(&x, &x)),
        "HeadProjection::forward: x is f32[2,4,8], expected T[... in] with in = 6 (from weight: f32[6,2,4] as T[in heads head_dim]); \
         pass x with in = 6, or make the HeadProjection with in = 8; \
         in MultiHeadAttention::attend, queries = 4 (from query), keys = 4 (from key)"
    );
}
