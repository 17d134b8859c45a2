//! `Linear` on plain ndarray fields, trained by a hand-written gradient, without tensors.

use ndarray::{Array1, Array2, Axis};
use pytree_core::{Module, ModuleType, graph};

#[derive(Module, Clone, Debug)]
struct Linear {
    #[param]
    weight: Array2<f64>,
    #[param]
    bias: Array1<f64>,
}

impl Linear {
    fn forward(&self, x: &Array2<f64>) -> Array2<f64> {
        x.dot(&self.weight) + &self.bias
    }

    /// Returns the mean squared error and its gradient. The gradient is also a `Linear`.
    fn loss(&self, x: &Array2<f64>, y: &Array2<f64>) -> (f64, Self) {
        let residual = self.forward(x) - y;
        let count = residual.len() as f64;
        let error = &residual * (2.0 / count);
        let gradient = Self {
            weight: x.t().dot(&error),
            bias: error.sum_axis(Axis(0)),
        };
        (residual.mapv(|r| r * r).sum() / count, gradient)
    }
}

#[test]
fn model_of_ndarrays_is_trained_by_hand() {
    let x = Array2::from_shape_fn((32, 3), |(i, j)| ((i * 3 + j) as f64 * 0.37).sin());
    let truth = Linear {
        weight: Array2::from_shape_fn((3, 2), |(i, j)| i as f64 - j as f64),
        bias: Array1::from(vec![0.5, -1.0]),
    };
    let y = truth.forward(&x);
    let mut model = Linear {
        weight: Array2::zeros((3, 2)),
        bias: Array1::zeros(2),
    };
    for _ in 0..2000 {
        let (_, gradient) = model.loss(&x, &y);
        model = graph::map2_any(model, &gradient, |mut parameter, gradient| {
            let gradient = gradient.array_view::<f64>().unwrap();
            parameter
                .array_view_mut::<f64>()
                .unwrap()
                .scaled_add(-0.5, &gradient);
            parameter
        })
        .unwrap();
    }
    assert!(model.loss(&x, &y).0 < 1e-10);
    let kinds: Vec<&str> = Linear::REGISTRY.iter().map(|(name, _)| *name).collect();
    assert_eq!(kinds, ["weight", "bias"]);
    assert_eq!(
        graph::any_leaves(&model)[0]
            .array_info()
            .unwrap()
            .to_string(),
        "f64[3,2]"
    );
}
