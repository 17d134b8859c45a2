//! Examples of a batch that are averaged along their named axis, and models that write their states under `vmap`.

use pytree::Axes;
use pytree::collectives::pmean;
use pytree::prelude::*;

#[derive(Module, Clone, Debug)]
struct BatchNorm {
    #[param]
    scale: Tensor,
    #[state(BatchStat)]
    mean: Tensor,
}

impl BatchNorm {
    /// Normalises one example with the statistics of all examples.
    fn forward(&mut self, x: &Tensor) -> Tensor {
        let mean = pmean(x, "batch");
        let variance = pmean(&(x - &mean).square(), "batch");
        self.mean = &self.mean * 0.9 + &mean * 0.1;
        (x - mean) / (variance + 1e-5).sqrt() * &self.scale
    }
}

fn batch_norm() -> BatchNorm {
    BatchNorm {
        scale: Tensor::from([1.0, 1.0]),
        mean: Tensor::from([0.0, 0.0]),
    }
}

#[test]
fn layer_under_vmap_normalises_over_batch() {
    let mut model = batch_norm();
    let x = Tensor::from([[1.0, 2.0], [3.0, 6.0]]);
    let forward = vmap_mut(|(model, x): (&mut BatchNorm, Tensor)| model.forward(&x))
        .in_axes((None, 0))
        .axis_name("batch");
    let y = forward((&mut model, x));
    assert!((y.mean_axes([0])).abs().max().item::<f64>() < 1e-12);
    assert!(
        (model.mean - Tensor::from([0.2, 0.4]))
            .abs()
            .max()
            .item::<f64>()
            < 1e-12
    );
}

#[test]
fn training_step_works_under_vmap() {
    let mut model = batch_norm();
    let x = Tensor::from([[1.0, 2.0], [3.0, 6.0], [0.0, 1.0]]);
    let (loss, gradient) = value_and_grad_mut(|model: &mut BatchNorm| {
        let forward = vmap_mut(|(model, x): (&mut BatchNorm, Tensor)| model.forward(&x).powi(3))
            .in_axes((None, 0))
            .axis_name("batch");
        forward((model, x.clone())).sum()
    })(&mut model);
    // The loss is a third power of the scale. So the product of the scale and the gradient is three times the loss.
    let slope = (&gradient["scale"] * &model.scale).sum().item::<f64>();
    assert!((slope - 3.0 * loss.item::<f64>()).abs() < 1e-9);
    assert!((model.mean.sum().item::<f64>() - 0.1 * 13.0 / 3.0).abs() < 1e-12);
}

#[test]
fn ensemble_shares_only_some_states() {
    let mut members = stack(&[batch_norm(), batch_norm()], 0);
    members.scale = Tensor::from([[1.0, 1.0], [2.0, 2.0]]);
    members.mean = Tensor::from([0.0, 0.0]);
    let x = Tensor::from([[1.0, 2.0], [3.0, 6.0]]);
    let axes = Axes::filter([(Filter::param(), Some(0)), (Filter::everything(), None)]);
    let step = vmap_mut(|(member, x): (&mut BatchNorm, Tensor)| {
        member.scale = &member.scale * 2.0;
        member.mean = pmean(&(&x * &member.scale), "members");
        x.sum()
    })
    .in_axes((axes, 0))
    .axis_name("members");
    step((&mut members, x));
    assert_eq!(members.scale, Tensor::from([[2.0, 2.0], [4.0, 4.0]]));
    assert_eq!(members.mean, Tensor::from([7.0, 14.0]));
}
