//! Adam and `AdamW`.

use pytree_core::bug::pairs;
use pytree_core::kind::OptState;
use pytree_core::{Module, Tree};
use pytree_transform::{AbstractArray, DType, Tensor};

use crate::optimizers::transformation::{Scalar, check_number, differing};
use crate::optimizers::{
    Chain, GradientTransformation, add_decayed_weights, chain, scale_by_learning_rate,
};

const BETA1: f64 = 0.9;
const BETA2: f64 = 0.999;
const EPSILON: f64 = 1e-8;

/// Returns Adam with the constants of its paper, β₁ = 0.9, β₂ = 0.999, ε = 10⁻⁸: see [`scale_by_adam`].
pub fn adam(learning_rate: f64) -> Chain {
    adam_with(learning_rate, BETA1, BETA2, EPSILON)
}

/// Returns Adam with the given constants: see [`scale_by_adam`].
pub fn adam_with(learning_rate: f64, beta1: f64, beta2: f64, epsilon: f64) -> Chain {
    chain([
        scale_by_adam(beta1, beta2, epsilon),
        scale_by_learning_rate(learning_rate),
    ])
}

/// Returns `AdamW` (Loshchilov and Hutter 2019, "Decoupled weight decay regularization", algorithm 2). An update is the
/// update of [`adam`], minus the product of the learning rate, `weight_decay` and the parameter.
pub fn adamw(learning_rate: f64, weight_decay: f64) -> Chain {
    adamw_with(learning_rate, weight_decay, BETA1, BETA2, EPSILON)
}

/// Returns `AdamW` with the given constants: see [`adamw`].
pub fn adamw_with(
    learning_rate: f64,
    weight_decay: f64,
    beta1: f64,
    beta2: f64,
    epsilon: f64,
) -> Chain {
    chain([
        scale_by_adam(beta1, beta2, epsilon),
        add_decayed_weights(weight_decay),
        scale_by_learning_rate(learning_rate),
    ])
}

/// Divides the running mean of the gradients by the root of their running mean square: see [`scale_by_adam`].
#[derive(Module, Clone, Debug)]
pub struct ScaleByAdam {
    /// The number of updates: `u32[]`.
    #[state(OptState)]
    count: Tensor,
    /// The running mean of the gradients, m.
    #[state(OptState)]
    mean: Tree<Tensor>,
    /// The running mean of the squared gradients, v.
    #[state(OptState)]
    square_mean: Tree<Tensor>,
    #[r#static]
    beta1: f64,
    #[r#static]
    beta2: f64,
    #[r#static]
    epsilon: f64,
}

/// Returns Adam without the learning rate (Kingma and Ba 2015, algorithm 1).
///
/// m ← β₁ m + (1 - β₁) g, v ← β₂ v + (1 - β₂) g², and the update is m̂ / (√v̂ + ε) with m̂ = m / (1 - β₁ᵗ)
/// and v̂ = v / (1 - β₂ᵗ).
pub fn scale_by_adam(beta1: f64, beta2: f64, epsilon: f64) -> Chain {
    Chain::of(ScaleByAdam {
        count: Tensor::from(0_u32),
        mean: Tree::none(),
        square_mean: Tree::none(),
        beta1,
        beta2,
        epsilon,
    })
}

impl ScaleByAdam {
    /// Returns 1 / (1 - βᵗ) for `beta` and the number `time` of updates. The result is computed in f64, because in f32
    /// the difference would lose half its digits in the first updates.
    fn correction(beta: f64, time: &Tensor) -> Scalar {
        Scalar::new(1.0 / (1.0 - (time * beta.ln()).exp()))
    }
}

impl GradientTransformation for ScaleByAdam {
    fn init(&mut self, parameters: &Tree<Tensor>) {
        self.mean = parameters.map(Tensor::zeros_like);
        self.square_mean = self.mean.clone();
    }

    fn other_parameters(&self, parameters: &[Tensor]) -> Vec<(usize, AbstractArray)> {
        differing(self.mean.leaves(), parameters)
    }

    fn update(&mut self, gradients: Vec<Tensor>, _: &[Tensor]) -> Vec<Tensor> {
        check_number("states", self.mean.leaves().len(), gradients.len());
        self.count = &self.count + 1;
        let time = self.count.convert(DType::F64);
        let mut mean_correction = Self::correction(self.beta1, &time);
        let mut square_correction = Self::correction(self.beta2, &time);
        let (beta1, beta2) = (self.beta1, self.beta2);
        let means = self.mean.leaves_mut();
        let states = pairs(
            means,
            self.square_mean.leaves_mut(),
            "two states for each parameter",
        );
        states
            .zip(gradients)
            .map(|((mean, square_mean), gradient)| {
                let dtype = gradient.dtype();
                *mean = &*mean * beta1 + &gradient * (1.0 - beta1);
                *square_mean = &*square_mean * beta2 + &gradient * &gradient * (1.0 - beta2);
                let deviation = (&*square_mean * square_correction.of_type(dtype)).sqrt();
                &*mean * mean_correction.of_type(dtype) / (deviation + self.epsilon)
            })
            .collect()
    }
}
