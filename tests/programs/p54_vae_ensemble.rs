//! An ensemble of variational autoencoders with averaged parameters, stopped inside an epoch and resumed from a file.

use pytree::data::{Batches, Position};
use pytree::nn::{normal_kl_divergence, sigmoid_binary_cross_entropy};
use pytree::optim::ParameterAverage;
use pytree::prelude::*;

const CODE: usize = 2;

#[derive(Module, Clone, Debug)]
struct Vae {
    encoder: Mlp,
    decoder: Mlp,
    rngs: Rngs,
}

impl Vae {
    /// Returns the negative evidence lower bound of images: `[batch, 16]` to `[]`.
    fn loss(&mut self, images: &Tensor) -> Tensor {
        let code = self.encoder.forward(images);
        let (mean, log_variance) = (code.index(ix![.., ..CODE]), code.index(ix![.., CODE..]));
        let noise = self.rngs.normal(DType::F32, mean.shape());
        let logits = (self.decoder).forward(&(&mean + (&log_variance * 0.5).exp() * noise));
        let reconstruction = sigmoid_binary_cross_entropy(&logits, images).sum_axes([-1]);
        (reconstruction + normal_kl_divergence(&mean, &log_variance)).mean()
    }
}

/// What changes in a run. The leaves have an axis of members in front.
type Run = (Vae, (Optimizer<Vae>, ParameterAverage));

fn create(mut rngs: Rngs) -> Run {
    let encoder = Mlp::new(&[16, 24, 2 * CODE], Activation::Relu, &mut rngs);
    let decoder = Mlp::new(&[CODE, 24, 16], Activation::Relu, &mut rngs);
    let model = Vae {
        encoder,
        decoder,
        rngs,
    };
    let optimizer = Optimizer::new(&model, adam(1e-2));
    let average = ParameterAverage::new(&model, 0.95);
    (model, (optimizer, average))
}

fn step(((model, (optimizer, average)), images): (&mut Run, Tensor)) {
    let (_, gradient) = value_and_grad_mut(|model: &mut Vae| model.loss(&images))(model);
    optimizer.update(model, &gradient);
    average.update(model);
}

#[test]
fn resumed_ensemble_equals_uninterrupted_one() {
    // Images of 4 × 4 pixels with one bright row.
    let rows = Key::new(0).randint([100, 1], 0, 4).one_hot(4, DType::F32);
    let images = rows.reshape([100, 4, 1]) * Tensor::ones(DType::F32, [4]);
    let images = images.reshape([100, 16]);
    let batches = Batches::new(images.clone(), 20).shuffle(&Key::new(1));
    let step = jit_mut(vmap_mut(step).in_axes((0, None)));
    let train = |(mut run, mut position): (Run, Position), steps: usize| {
        for _ in 0..steps {
            let (next, batch) = batches.resume(&position).next().unwrap();
            step((&mut run, batch));
            position = next;
        }
        (run, position)
    };
    let start = || (vmap(create)(Rngs::new(0).split(3)), batches.start());
    let whole = train(start(), 300);

    let path = std::env::temp_dir().join(format!("p54-{}.safetensors", std::process::id()));
    checkpoint::save(&path, &train(start(), 98)).unwrap();
    let stopped = checkpoint::load(&path, &start()).unwrap();
    std::fs::remove_file(path).unwrap();
    assert_eq!((stopped.1.epoch(), stopped.1.batch()), (19, 3));
    let difference = diff(&train(stopped, 202), &whole);
    assert!(difference.is_empty(), "{difference}");

    let loss = vmap_mut(|(model, x): (&mut Vae, Tensor)| model.loss(&x)).in_axes((0, None));
    let loss = |mut model: Vae| loss((&mut model, images.clone()));
    let (model, (_, average)) = &whole.0;
    let (before, after) = (loss(start().0.0), loss(average.apply(model)));
    let is_better = after.max().less(before.min() * 0.5).item::<bool>();
    assert!(is_better, "{before} before, {after} after");
}
