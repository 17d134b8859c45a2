//! Transformations that handle NaN and infinite gradients, centre gradients, or normalise gradients.

use crate::optimizers::error::OptimizerError;
use crate::optimizers::norm::joint_norm;
use crate::optimizers::prelude::*;
use crate::optimizers::transformation::keep_states_where;

/// Replaces NaN by 0.
#[derive(Module, Clone, Debug)]
struct ZeroNans {
    /// Whether the last gradient of each parameter contained a NaN: `bool[]`.
    #[state(OptState)]
    found_nan: Tree<Tensor>,
}

/// Returns the transformation that replaces each NaN in the gradients by 0, like `optax.zero_nans`.
///
/// # Examples
/// ```
/// use pytree_nn::{adam, chain, zero_nans};
/// let guarded = chain([zero_nans(), adam(1e-3)]);
/// ```
#[doc(alias = "optax.zero_nans")]
pub fn zero_nans() -> Chain {
    Chain::of(ZeroNans {
        found_nan: Tree::none(),
    })
}

impl GradientTransformation for ZeroNans {
    fn init(&mut self, parameters: &Tree<Tensor>) {
        self.found_nan = parameters.map(|_| Tensor::from(false));
    }

    fn update(&mut self, gradients: Vec<Tensor>, _: &[Tensor]) -> Vec<Tensor> {
        each([&mut self.found_nan], gradients, |[found], gradient| {
            let is_nan = gradient.isnan();
            *found = is_nan.any();
            is_nan.select(Tensor::zeros_like(&gradient), &gradient)
        })
    }
}

/// Subtracts from each gradient its mean over all axes except the first.
#[derive(Module, Clone, Debug)]
struct Centralize;

/// Returns the transformation that subtracts from a gradient its mean over all axes except the first, like
/// `optax.centralize` (Yong et al. 2020, "Gradient centralization: a new optimization technique for deep neural
/// networks", equation 1). Gradients with fewer than two axes do not change.
///
/// # Examples
/// ```
/// use pytree_nn::{GradientTransformation, centralize};
/// use pytree_transform::Tensor;
/// let updates = centralize().update(vec![Tensor::from([[1.0, 3.0], [2.0, 2.0]])], &[]);
/// assert_eq!(updates[0], Tensor::from([[-1.0, 1.0], [0.0, 0.0]]));
/// ```
#[doc(alias = "optax.centralize")]
pub fn centralize() -> Chain {
    Chain::of(Centralize)
}

impl GradientTransformation for Centralize {
    fn init(&mut self, _: &Tree<Tensor>) {}

    fn update(&mut self, gradients: Vec<Tensor>, _: &[Tensor]) -> Vec<Tensor> {
        let centered = |gradient: Tensor| {
            let rank = isize::try_from(gradient.rank()).unwrap_or(isize::MAX);
            if rank < 2 {
                return gradient;
            }
            &gradient - gradient.mean_keep((1..rank).collect::<Vec<isize>>())
        };
        gradients.into_iter().map(centered).collect()
    }
}

/// Divides gradients by their global norm.
#[derive(Module, Clone, Debug)]
struct NormalizeByGlobalNorm {
    #[r#static]
    epsilon: f64,
}

/// The number that is added to the global norm. The value is the default of `optax.normalize_by_update_norm`.
const NORM_EPSILON: f64 = 1e-6;

/// Returns the transformation that divides the gradients by their global norm + 10⁻⁶, like
/// `optax.normalize_by_update_norm`.
///
/// # Examples
/// ```
/// use pytree_nn::{chain, normalize_by_global_norm, sgd};
/// let normalized = chain([normalize_by_global_norm(), sgd(0.1)]);
/// ```
#[doc(alias = "optax.normalize_by_update_norm")]
pub fn normalize_by_global_norm() -> Chain {
    Chain::of(NormalizeByGlobalNorm {
        epsilon: NORM_EPSILON,
    })
}

impl GradientTransformation for NormalizeByGlobalNorm {
    fn init(&mut self, _: &Tree<Tensor>) {}

    fn update(&mut self, gradients: Vec<Tensor>, _: &[Tensor]) -> Vec<Tensor> {
        let Some(norm) = joint_norm(&gradients) else {
            return gradients;
        };
        let mut norm = Scalar::new(norm + self.epsilon);
        let divided = gradients
            .iter()
            .map(|gradient| gradient / norm.of_type(gradient.dtype()));
        divided.collect()
    }
}

/// Skips updates if a gradient is not finite.
#[derive(Module, Clone, Debug)]
struct ApplyIfFinite {
    /// The number of consecutive updates with gradients that were not finite: `u32[]`.
    #[state(OptState)]
    consecutive: Tensor,
    /// Whether the last gradients were finite: `bool[]`.
    #[state(OptState)]
    last_finite: Tensor,
    /// The number of all updates with gradients that were not finite: `u32[]`.
    #[state(OptState)]
    total: Tensor,
    inner: Chain,
    #[r#static]
    max_consecutive: u32,
}

/// Returns a chain that skips an update if a gradient is infinite or NaN, like `optax.apply_if_finite`.
///
/// If an update is skipped, the updates are 0, and the states of `inner` do not change. After `max_consecutive` skipped
/// updates in a row, the next update is applied even if its gradients are not finite. So the loss of a diverged model
/// becomes NaN, and the user notices the divergence.
///
/// # Examples
/// ```
/// use pytree_nn::{adam, apply_if_finite};
/// let guarded = apply_if_finite(5, adam(1e-3));
/// ```
#[doc(alias = "optax.apply_if_finite")]
pub fn apply_if_finite(max_consecutive: usize, inner: Chain) -> Chain {
    // After so many updates, the counter has its greatest value, too.
    let max_consecutive = u32::try_from(max_consecutive).unwrap_or(u32::MAX);
    Chain::of(ApplyIfFinite {
        consecutive: Tensor::from(0_u32),
        last_finite: Tensor::from(true),
        total: Tensor::from(0_u32),
        inner,
        max_consecutive,
    })
}

impl GradientTransformation for ApplyIfFinite {
    fn check(&self, parameters: &Tree<Tensor>) -> Result<(), OptimizerError> {
        self.inner.check(parameters)
    }

    fn init(&mut self, parameters: &Tree<Tensor>) {
        self.inner.init(parameters);
    }

    fn other_parameters(&self, parameters: &[Tensor]) -> Vec<(usize, AbstractArray)> {
        self.inner.other_parameters(parameters)
    }

    fn update(&mut self, gradients: Vec<Tensor>, parameters: &[Tensor]) -> Vec<Tensor> {
        let is_finite = all_finite(&gradients);
        let zero = Tensor::from(0_u32);
        self.consecutive = is_finite.select(&zero, &self.consecutive + 1);
        self.total = is_finite.select(&self.total, &self.total + 1);
        self.last_finite = is_finite.clone();
        let limit = Tensor::from(self.max_consecutive);
        let is_applied = is_finite | self.consecutive.greater(&limit);
        let before = self.inner.clone();
        let updates = self.inner.update(gradients, parameters);
        keep_states_where(&is_applied, &mut self.inner, &before);
        let kept = |update: &Tensor| is_applied.select(update, Tensor::zeros_like(update));
        updates.iter().map(kept).collect()
    }

    fn learning_rate(&self) -> Option<Tensor> {
        self.inner.learning_rate()
    }

    fn hyperparameters(&mut self) -> Vec<NamedHyperparameter<'_>> {
        self.inner.hyperparameters()
    }

    fn set_learning_rate(&mut self, rate: &Schedule) -> bool {
        self.inner.set_learning_rate(rate)
    }
}

/// Returns whether all numbers are finite: `bool[]`.
pub(super) fn all_finite(tensors: &[Tensor]) -> Tensor {
    let each = tensors.iter().map(|tensor| tensor.isfinite().all());
    let all = each.reduce(|left, right| left & right);
    all.unwrap_or_else(|| Tensor::from(true))
}
