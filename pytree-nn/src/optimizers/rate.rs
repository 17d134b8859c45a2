//! The learning rate, and plain gradient descent.

use pytree_core::kind::OptState;
use pytree_core::{Module, Tree};
use pytree_transform::{DType, Tensor};

use crate::optimizers::transformation::Scalar;
use crate::optimizers::{Chain, GradientTransformation};

/// Returns stochastic gradient descent: p ← p - `learning_rate` · g.
pub fn sgd(learning_rate: f64) -> Chain {
    scale_by_learning_rate(learning_rate)
}

/// Multiplies gradients by the negative learning rate: see [`scale_by_learning_rate`].
#[derive(Module, Clone, Debug)]
pub struct ScaleByLearningRate {
    /// The learning rate, a scalar of the widest dtype of the parameters.
    #[state(OptState)]
    learning_rate: Tensor,
}

/// Returns the transformation that multiplies gradients by the negative learning rate. Most chains end with this
/// transformation.
pub fn scale_by_learning_rate(learning_rate: f64) -> Chain {
    Chain::of(ScaleByLearningRate {
        learning_rate: Tensor::from(learning_rate),
    })
}

impl GradientTransformation for ScaleByLearningRate {
    fn init(&mut self, parameters: &Tree<Tensor>) {
        let widest = parameters
            .leaves()
            .iter()
            .map(Tensor::dtype)
            .max()
            .unwrap_or(DType::F32);
        self.learning_rate = self.learning_rate.convert(widest);
    }

    fn update(&mut self, gradients: Vec<Tensor>, _: &[Tensor]) -> Vec<Tensor> {
        let mut factor = Scalar::new(-&self.learning_rate);
        gradients
            .iter()
            .map(|gradient| gradient * factor.of_type(gradient.dtype()))
            .collect()
    }

    fn learning_rate(&self) -> Option<&Tensor> {
        Some(&self.learning_rate)
    }

    fn set_learning_rate(&mut self, rate: &Tensor) -> bool {
        self.learning_rate = rate.convert(self.learning_rate.dtype());
        true
    }
}
