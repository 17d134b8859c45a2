//! Regression with a Gaussian process (Rasmussen and Williams 2006, algorithm 2.1): the hyperparameters are trained by
//! the gradient of the marginal likelihood, which goes through a Cholesky factor.

use std::f64::consts::PI;

use pytree::linalg::{Triangular, cho_solve, cholesky, triangular_solve};
use pytree::prelude::*;

#[derive(Module, Clone, Debug)]
struct Process {
    #[param]
    log_length: Tensor,
    #[param]
    log_noise: Tensor,
}

impl Process {
    fn kernel(&self, x: &Tensor, y: &Tensor) -> Tensor {
        let distance = (x.expand_dims(1) - y.expand_dims(0)) / self.log_length.exp();
        (distance.square() * -0.5).exp()
    }

    /// The factor of the covariance of the observations.
    fn factor(&self, x: &Tensor) -> Tensor {
        let noise = Tensor::eye(DType::F64, x.len()) * (&self.log_noise * 2.0).exp();
        cholesky(&(self.kernel(x, x) + noise))
    }

    fn negative_log_likelihood(&self, x: &Tensor, y: &Tensor) -> Tensor {
        let l = self.factor(x);
        let fit = y.dot(&cho_solve(&l, y)) * 0.5;
        let constant = 0.5 * x.len() as f64 * (2.0 * PI).ln();
        fit + l.diagonal(0, 0, 1).log().sum() + constant
    }

    /// The mean and the variance at new points.
    fn predict(&self, x: &Tensor, y: &Tensor, at: &Tensor) -> (Tensor, Tensor) {
        let (l, cross) = (self.factor(x), self.kernel(x, at));
        let mean = cross.t().matmul(&cho_solve(&l, y));
        let explained = triangular_solve(&l, &cross, Triangular::lower());
        (mean, 1.0 - explained.square().sum_axes([0]))
    }
}

#[test]
fn trained_process_predicts_sine() {
    let x = Tensor::linspace(DType::F64, 0.0, 6.0, 25);
    let y = x.sin() + (&x * 37.0).sin() * 0.05;
    let (log_length, log_noise) = (Tensor::from(0.0), Tensor::from(-1.0));
    let mut process = Process {
        log_length,
        log_noise,
    };
    let mut optimizer = Optimizer::new(&process, adam(0.1));
    let step = jit_mut(
        |(process, optimizer, x, y): (&mut Process, &mut Optimizer<_>, Tensor, Tensor)| {
            let loss = value_and_grad(|process: &Process| process.negative_log_likelihood(&x, &y));
            let (loss, gradient) = loss(process);
            optimizer.update(process, &gradient);
            loss
        },
    );
    let losses: Vec<f64> = (0..80)
        .map(|_| step((&mut process, &mut optimizer, x.clone(), y.clone())).item())
        .collect();
    assert!(losses[79] < losses[0] - 10.0, "{losses:?}");
    // The noise was sampled with a standard deviation of about 0.035.
    assert!((process.log_noise.exp().item::<f64>() - 0.035).abs() < 0.02);
    let (mean, variance) = process.predict(&x, &y, &Tensor::from([0.7, 3.3, 12.0]));
    let mean = mean.to_vec::<f64>();
    assert!((mean[0] - 0.7_f64.sin()).abs() < 0.05 && (mean[1] - 3.3_f64.sin()).abs() < 0.05);
    // Far from the observations, the variance is that of the prior.
    let variance = variance.to_vec::<f64>();
    assert!(variance[0] < 1e-3 && variance[2] > 0.9, "{variance:?}");
}
