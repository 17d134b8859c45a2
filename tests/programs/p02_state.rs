//! State that is written under differentiation: the user's own batch normalisation and dropout.

use pytree::prelude::*;

#[derive(Module, Clone, Debug)]
struct BatchNorm {
    #[param]
    scale: Tensor,
    #[state(BatchStat)]
    mean: Tensor,
}

impl BatchNorm {
    fn forward(&mut self, x: &Tensor) -> Tensor {
        let batch_mean = x.mean_axes([0]);
        let centred = x - &batch_mean;
        self.mean = &self.mean * 0.9 + &batch_mean * 0.1;
        let deviation = (centred.square().mean_axes([0]) + 1e-5).sqrt();
        centred / deviation * &self.scale
    }
}

#[derive(Module, Clone, Debug)]
struct Noisy {
    norm: BatchNorm,
    rngs: Rngs,
    #[r#static]
    rate: f64,
}

impl Noisy {
    fn forward(&mut self, x: &Tensor) -> Tensor {
        let x = self.norm.forward(x);
        let kept = self.rngs.dropout().bernoulli(1.0 - self.rate, x.shape());
        kept.select(&x / (1.0 - self.rate), Tensor::zeros_like(&x))
    }
}

fn model(seed: u64) -> Noisy {
    let norm = BatchNorm {
        scale: Tensor::ones(DType::F32, [3]),
        mean: Tensor::zeros(DType::F32, [3]),
    };
    Noisy {
        norm,
        rngs: Rngs::new(seed),
        rate: 0.5,
    }
}

#[test]
fn states_advance_under_grad_and_jit() {
    let x = Key::new(1).normal(DType::F32, [8, 3]) + 2.0;
    let mut eager = model(0);
    let loss = |m: &mut Noisy| m.forward(&x).square().sum();
    let (first, gradient) = value_and_grad_mut(loss)(&mut eager);
    let (second, _) = value_and_grad_mut(loss)(&mut eager);
    assert!(
        first.item::<f32>() != second.item::<f32>(),
        "each step draws another mask"
    );
    assert_eq!(gradient.len(), 1);
    let expected = x.mean_axes([0]) * (0.1 + 0.09);
    assert!((&eager.norm.mean - expected).abs().max().item::<f32>() < 1e-6);

    let step = jit(|(mut m, x): (Noisy, Tensor)| {
        let (loss, _) = value_and_grad_mut(|m: &mut Noisy| m.forward(&x).square().sum())(&mut m);
        (m, loss)
    });
    let (jitted, first_jitted) = step((model(0), x.clone()));
    let (jitted, second_jitted) = step((jitted, x.clone()));
    assert!((first.item::<f32>() - first_jitted.item::<f32>()).abs() < 1e-4);
    assert!((second.item::<f32>() - second_jitted.item::<f32>()).abs() < 1e-4);
    assert!(
        (&jitted.norm.mean - &eager.norm.mean)
            .abs()
            .max()
            .item::<f32>()
            < 1e-6
    );
    assert_eq!(step.traces(), 1);
}
