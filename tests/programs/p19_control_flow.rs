//! Loops and branches on values: a recurrent network trained through a scan, Newton's iteration under `vmap`, a
//! gradient that is clipped inside of a model, and layers that the backward pass computes again.

use pytree::control::{scan, while_loop};
use pytree::prelude::*;
use pytree::{custom_vjp, remat, saved_residuals};

#[derive(Module, Clone, Debug)]
struct Rnn {
    #[param]
    input: Tensor,
    #[param]
    hidden: Tensor,
    readout: Linear,
}

impl Rnn {
    fn new(size: usize, rngs: &mut Rngs) -> Self {
        Self {
            input: Tensor::ones(DType::F32, [1, size]),
            hidden: Tensor::eye(DType::F32, size) * 0.5,
            readout: Linear::new(size, 1, rngs),
        }
    }

    /// x: `[time, 1]`.
    fn forward(&self, x: &Tensor) -> Tensor {
        let start = Tensor::zeros(DType::F32, [self.hidden.shape()[0]]);
        let (_, states) = scan(
            |h, x: Tensor| {
                let h = (x.matmul(&self.input) + h.matmul(&self.hidden)).tanh();
                (h.clone(), h)
            },
            start,
            x.clone(),
        );
        self.readout.forward(&states)
    }
}

/// Returns a wave and its running mean.
fn sample() -> (Tensor, Tensor) {
    let wave: Vec<f32> = (0..12).map(|t| (0.7 * t as f32).sin()).collect();
    let means: Vec<f32> = (1..=12)
        .map(|t| wave[..t].iter().sum::<f32>() / t as f32)
        .collect();
    (Tensor::new([12, 1], wave), Tensor::new([12, 1], means))
}

#[test]
fn a_recurrent_network_learns_through_a_scan() {
    let (x, y) = sample();
    let mut model = Rnn::new(4, &mut Rngs::new(0));
    let mut optimizer = Optimizer::new(&model, adam(0.02));
    let step = jit(
        |(mut model, mut optimizer, x, y): (Rnn, Optimizer<Rnn>, Tensor, Tensor)| {
            let (loss, grads) = value_and_grad(|m: &Rnn| mse(&m.forward(&x), &y))(&model);
            optimizer.update(&mut model, &grads);
            (model, optimizer, loss)
        },
    );
    let mut losses = Vec::new();
    for _ in 0..60 {
        let loss;
        (model, optimizer, loss) = step((model, optimizer, x.clone(), y.clone()));
        losses.push(loss.item::<f32>());
    }
    assert_eq!(step.traces(), 1);
    assert!(
        losses[59] < 0.2 * losses[0],
        "{} to {}",
        losses[0],
        losses[59]
    );
}

#[test]
fn newton_iteration_ends_per_example() {
    let root = |a: Tensor| {
        let (count, x) = while_loop(
            |(count, x)| (x.square() - &a).abs().greater(1e-4) & count.less(20),
            |(count, x): (Tensor, Tensor)| (count + 1, (&x + &a / &x) / 2.0),
            (Tensor::from(0), a.clone()),
        );
        (x, count)
    };
    let (roots, counts) = vmap(root)(Tensor::from([1.0_f32, 4.0, 100.0]));
    let expected = [1.0, 2.0, 10.0];
    for (root, expected) in roots.to_vec::<f32>().into_iter().zip(expected) {
        assert!((root - expected).abs() < 1e-3, "{root}");
    }
    let counts = counts.to_vec::<i32>();
    assert_eq!(counts[0], 0);
    assert!(counts[1] < counts[2]);
}

#[test]
fn a_gradient_is_clipped_where_it_passes() {
    let limit = 0.5;
    let clip = custom_vjp(
        |x: &Tensor| x.clone(),
        |x| (x.clone(), ()),
        move |(), cotangent| cotangent.clip(-limit, limit),
    );
    let loss = |x: &Tensor| clip(x).square().sum();
    let x = Tensor::from([0.1_f32, 4.0, -4.0]);
    assert_eq!(grad(loss)(&x).to_vec::<f32>(), [0.2, 0.5, -0.5]);
    assert_eq!(vmap(grad(loss))(x).to_vec::<f32>(), [0.2, 0.5, -0.5]);
}

#[test]
fn layers_computed_again_keep_less() {
    let layer = |x: &Tensor| x.sin().exp().tanh();
    let thrifty = remat(layer);
    let x = Tensor::from([0.5_f32, 1.5]);
    let deep = |x: &Tensor| layer(&layer(x)).sum();
    let again = |x: &Tensor| thrifty(&thrifty(x)).sum();
    assert_eq!(grad(deep)(&x), grad(again)(&x));
    assert!(saved_residuals(again, &x).len() < saved_residuals(deep, &x).len());
}
