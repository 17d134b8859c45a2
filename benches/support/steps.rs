//! Compiled training steps over four batches.

use pytree::SelectPart;
use pytree::prelude::*;
use pytree::transform::Traceable;

use crate::{support, workload};

/// Measures a compiled training step.
pub fn train<M: Module + Traceable + SelectPart<Tensor> + Clone + 'static>(
    [section, workload]: [&str; 2],
    mut model: M,
    mut optimizer: Optimizer<M>,
    batches: Vec<(Tensor, Tensor)>,
    loss: fn(&mut M, &Tensor, &Tensor) -> Tensor,
) {
    let step = jit_mut(
        move |(model, optimizer, x, y): (&mut M, &mut Optimizer<M>, Tensor, Tensor)| {
            let (loss, gradient) = value_and_grad_mut(|model: &mut M| loss(model, &x, &y))(model);
            optimizer.update(model, &gradient);
            loss
        },
    );
    let mut batches = batches.iter().cycle();
    let advance = || {
        let (x, y) = batches.next().unwrap().clone();
        step((&mut model, &mut optimizer, x, y))
    };
    support::measure_steps([section, workload, "pytree"], advance, number);
}

pub fn number(loss: &Tensor) -> f64 {
    f64::from(loss.item::<f32>())
}

/// Returns four batches of texts, each with the letter after each letter.
pub fn texts(batch: usize, length: usize, letters: u64) -> Vec<(Tensor, Tensor)> {
    let text = |k: u64| {
        let text = workload::labels(20 + k, batch * (length + 1), letters);
        let text = Tensor::new([batch, length + 1], text);
        (text.index(ix![.., ..-1]), text.index(ix![.., 1..]))
    };
    (0..4).map(text).collect()
}
