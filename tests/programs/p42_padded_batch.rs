//! A batch of sentences of different lengths: padding has no effect on the other tokens.

use pytree::nn::{SinusoidalPositions, padding_mask};
use pytree::prelude::*;

/// Classifies sentences by the mean of their tokens.
#[derive(Module, Clone, Debug)]
struct Classifier {
    tokens: Embed,
    positions: SinusoidalPositions,
    blocks: Vec<TransformerBlock>,
    head: Linear,
}

impl Classifier {
    fn new(rngs: &mut Rngs) -> Self {
        Self {
            tokens: Embed::new(10, 16, rngs),
            positions: SinusoidalPositions::default(),
            blocks: vec![TransformerBlock::new(16, 4, rngs)],
            head: Linear::new(16, 2, rngs),
        }
    }

    #[shapes(
        tokens = "i32[batch tokens]",
        lengths = "i32[batch]",
        return = "f32[batch 2]"
    )]
    fn forward(&mut self, tokens: &Tensor, lengths: &Tensor) -> Tensor {
        let mask = padding_mask(lengths, tokens.shape()[1]);
        let mut x = self.positions.forward(&self.tokens.forward(tokens));
        for block in &mut self.blocks {
            x = block.forward_masked(&x, &mask);
        }
        let weights = mask.squeeze([1, 2]).convert(DType::F32);
        let sum = (x * weights.expand_dims(-1)).sum_axes([1]);
        self.head.forward(&(sum / weights.sum_keep([1])))
    }
}

#[test]
fn padding_changes_nothing() {
    let mut model = Classifier::new(&mut Rngs::new(0));
    let tokens = Tensor::from([[1, 2, 3, 4], [5, 6, 0, 0]]);
    let lengths = Tensor::from([4, 2]);
    let y = model.forward(&tokens, &lengths);
    let other_padding = Tensor::from([[1, 2, 3, 4], [5, 6, 7, 8]]);
    assert_eq!(model.forward(&other_padding, &lengths), y);
    let short = model.forward(&Tensor::from([[5, 6]]), &Tensor::from([2]));
    let off = (short.index(ix![0]) - y.index(ix![1])).abs().max();
    assert!(off.item::<f32>() < 1e-5);
}

#[test]
fn padded_batch_is_trained() {
    let mut rngs = Rngs::new(1);
    let mut model = Classifier::new(&mut rngs);
    let mut optimizer = Optimizer::new(&model, adam(1e-2));
    let lengths = Tensor::from([6, 3, 5, 2, 4, 6, 1, 3]);
    let tokens = rngs.next("data").randint([8, 6], 0, 10);
    // The label is 1 if the first token of the sentence is greater than 4.
    let labels = tokens.index(ix![.., 0]).greater(4).convert(DType::I32);
    let step = jit_mut(
        |(model, optimizer, tokens, lengths, labels): (
            &mut Classifier,
            &mut Optimizer<Classifier>,
            Tensor,
            Tensor,
            Tensor,
        )| {
            let loss = |model: &mut Classifier| {
                softmax_cross_entropy(&model.forward(&tokens, &lengths), &labels).mean()
            };
            let (loss, gradient) = value_and_grad_mut(loss)(model);
            optimizer.update(model, &gradient);
            loss
        },
    );
    let mut losses = Vec::new();
    for _ in 0..40 {
        let batch = (tokens.clone(), lengths.clone(), labels.clone());
        let loss = step((&mut model, &mut optimizer, batch.0, batch.1, batch.2));
        losses.push(loss.item::<f32>());
    }
    assert!(losses[39] < 0.1, "{losses:?}");
}
