//! A linear model on ndarray's arrays, trained with a handwritten gradient.
//!
//! The example needs only `pytree-core`: no tensors and no transformations. Run it with
//! `cargo run --example linear_ndarray`. It prints:
//!
//!     PyTreeDef(Linear { weight: *, bias: * })
//!     weight: f64[3,2], Param
//!     bias: f64[2], Param
//!     step   0: loss 2.989706
//!     step  20: loss 0.016596
//!     step  40: loss 0.001041
//!     step  60: loss 0.000065
//!     step  80: loss 0.000004
//!     step 100: loss 0.000000
//!     bias: [0.500, -1.000]

use ndarray::{Array1, Array2, Axis};
use pytree_core::{Module, TreeError, graph, tree};

/// A linear model: x · weight + bias.
#[derive(Module, Clone, Debug)]
struct Linear {
    /// `[inputs, outputs]`.
    #[param]
    weight: Array2<f64>,
    /// `[outputs]`.
    #[param]
    bias: Array1<f64>,
}

impl Linear {
    fn zeros(inputs: usize, outputs: usize) -> Self {
        Self {
            weight: Array2::zeros((inputs, outputs)),
            bias: Array1::zeros(outputs),
        }
    }

    /// Applies the model: `x: [examples, inputs]` to `[examples, outputs]`.
    fn forward(&self, x: &Array2<f64>) -> Array2<f64> {
        x.dot(&self.weight) + &self.bias
    }

    /// Returns the mean squared error and its gradient. The gradient also has the type `Linear`.
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

/// Returns the model after one gradient step. The step maps over the leaves of the model and of the gradient together.
fn step(model: Linear, gradient: &Linear, rate: f64) -> Result<Linear, TreeError> {
    graph::map2_any(model, gradient, |mut parameter, gradient| {
        if let (Some(mut parameter), Some(gradient)) = (
            parameter.array_view_mut::<f64>(),
            gradient.array_view::<f64>(),
        ) {
            parameter.scaled_add(-rate, &gradient);
        }
        parameter
    })
}

fn main() -> Result<(), TreeError> {
    let x = Array2::from_shape_fn((32, 3), |(i, j)| ((i * 3 + j) as f64 * 0.37).sin());
    let truth = Linear {
        weight: Array2::from_shape_fn((3, 2), |(i, j)| i as f64 - j as f64),
        bias: Array1::from(vec![0.5, -1.0]),
    };
    let y = truth.forward(&x);

    let mut model = Linear::zeros(3, 2);
    let treedef = tree::structure(&model);
    println!("{treedef}");
    let places = treedef.leaf_paths().into_iter().zip(treedef.leaf_kinds());
    for ((path, kind), leaf) in places.zip(tree::any_leaves(&model)) {
        if let (Some(info), Some(kind)) = (leaf.array_info(), kind) {
            println!("{path}: {info}, {kind}");
        }
    }

    for count in 0..=100 {
        let (loss, gradient) = model.loss(&x, &y);
        if count % 20 == 0 {
            println!("step {count:3}: loss {loss:.6}");
        }
        model = step(model, &gradient, 0.5)?;
    }
    println!("bias: {:.3}", model.bias);
    Ok(())
}
