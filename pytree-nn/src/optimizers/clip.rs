//! Clipping of gradients.

use pytree_core::{Module, Static, Tree};
use pytree_transform::Tensor;

use crate::hyperparameter::{Hyperparameter, NamedHyperparameter};
use crate::optimizers::norm::joint_norm;
use crate::optimizers::ranges::positive;
use crate::optimizers::transformation::{Chain, GradientTransformation, Scalar, check_number};

/// Scales the gradients down if their global norm is too large: see [`clip_by_global_norm`].
#[derive(Module, Clone, Debug)]
pub struct ClipByGlobalNorm {
    longest: Hyperparameter,
}

/// Returns the transformation that limits the global norm of the gradients to `longest`.
///
/// If the global norm exceeds `longest`, all gradients are multiplied by `longest` / norm. The global norm is the
/// square root of the sum of all squares (Pascanu et al. 2012, "On the difficulty of training recurrent neural
/// networks", algorithm 1).
///
/// # Panics
/// If `longest` is not finite or not above 0.
#[doc(alias("optax.clip_by_global_norm", "torch.nn.utils.clip_grad_norm_"))]
#[track_caller]
pub fn clip_by_global_norm(longest: f64) -> Chain {
    positive("clip_by_global_norm", "longest", longest);
    let longest = longest.into();
    Chain::of(ClipByGlobalNorm { longest })
}

impl GradientTransformation for ClipByGlobalNorm {
    fn init(&mut self, _: &Tree<Tensor>) {}

    fn update(&mut self, gradients: Vec<Tensor>, _: &[Tensor]) -> Vec<Tensor> {
        let Some(norm) = joint_norm(&gradients) else {
            return gradients;
        };
        // A NaN norm fails the comparison, so NaN gradients stay visible.
        let (is_short, factor) = match &self.longest {
            Hyperparameter::Number(longest) => (norm.less(*longest), *longest / &norm),
            Hyperparameter::Tensor(longest) => {
                let longest = longest.convert(norm.dtype());
                (norm.less(&longest), longest / &norm)
            }
        };
        let factor = is_short.select(Tensor::ones_like(&norm), &factor);
        let mut factor = Scalar::new(factor);
        gradients
            .iter()
            .map(|gradient| gradient * factor.of_type(gradient.dtype()))
            .collect()
    }

    fn hyperparameters(&mut self) -> Vec<NamedHyperparameter<'_>> {
        vec![NamedHyperparameter::positive("longest", &mut self.longest)]
    }
}

/// A limit for each number, or for each gradient separately.
#[derive(Static, Clone, Copy, Debug, PartialEq)]
enum Limit {
    Value(f64),
    BlockRms(f64),
    LeafNorm(f64),
}

/// Limits each gradient separately.
#[derive(Module, Clone, Debug)]
struct ClipEach {
    #[r#static]
    limit: Limit,
}

/// Returns the transformation that limits each number of the gradients to the range from -`largest` to `largest`, like
/// `optax.clip`.
///
/// # Examples
/// ```
/// use pytree_nn::{GradientTransformation, clip_by_value};
/// use pytree_transform::Tensor;
/// let updates = clip_by_value(1.0).update(vec![Tensor::from([0.5, -3.0])], &[]);
/// assert_eq!(updates[0], Tensor::from([0.5, -1.0]));
/// ```
///
/// # Panics
/// If `largest` is not finite or not above 0.
#[doc(alias("optax.clip", "torch.nn.utils.clip_grad_value_"))]
#[track_caller]
pub fn clip_by_value(largest: f64) -> Chain {
    positive("clip_by_value", "largest", largest);
    Chain::of(ClipEach {
        limit: Limit::Value(largest),
    })
}

/// Returns the transformation that limits the root mean square of each gradient to `threshold`, like
/// `optax.clip_by_block_rms` (Shazeer and Stern 2018, "Adafactor: adaptive learning rates with sublinear memory cost",
/// section 6).
///
/// # Examples
/// ```
/// use pytree_nn::{GradientTransformation, clip_by_block_rms};
/// use pytree_transform::Tensor;
/// let updates = clip_by_block_rms(1.0).update(vec![Tensor::from([4.0, -4.0])], &[]);
/// assert_eq!(updates[0], Tensor::from([1.0, -1.0]));
/// ```
///
/// # Panics
/// If `threshold` is not finite or not above 0.
#[doc(alias = "optax.clip_by_block_rms")]
#[track_caller]
pub fn clip_by_block_rms(threshold: f64) -> Chain {
    positive("clip_by_block_rms", "threshold", threshold);
    Chain::of(ClipEach {
        limit: Limit::BlockRms(threshold),
    })
}

/// Returns the transformation that limits the norm of each gradient to `longest`. Unlike [`clip_by_global_norm`], each
/// parameter has its own norm.
///
/// # Examples
/// ```
/// use pytree_nn::{GradientTransformation, clip_by_leaf_norm};
/// use pytree_transform::Tensor;
/// let gradients = vec![Tensor::from([30.0, 40.0]), Tensor::from([3.0, 4.0])];
/// let updates = clip_by_leaf_norm(5.0).update(gradients, &[]);
/// assert_eq!(updates, [Tensor::from([3.0, 4.0]), Tensor::from([3.0, 4.0])]);
/// ```
///
/// # Panics
/// If `longest` is not finite or not above 0.
#[track_caller]
pub fn clip_by_leaf_norm(longest: f64) -> Chain {
    positive("clip_by_leaf_norm", "longest", longest);
    Chain::of(ClipEach {
        limit: Limit::LeafNorm(longest),
    })
}

impl GradientTransformation for ClipEach {
    fn init(&mut self, _: &Tree<Tensor>) {}

    fn update(&mut self, gradients: Vec<Tensor>, _: &[Tensor]) -> Vec<Tensor> {
        let clip = |gradient: &Tensor| match self.limit {
            Limit::Value(largest) => gradient.clip(-largest, largest),
            Limit::BlockRms(threshold) => {
                let excess = gradient.square().mean().sqrt() / threshold;
                gradient / excess.maximum(1.0)
            }
            Limit::LeafNorm(longest) => {
                let norm = gradient.square().sum().sqrt();
                // A NaN norm fails the comparison, so NaN gradients stay visible.
                let is_short = norm.less(longest);
                is_short.select(gradient, gradient / &norm * longest)
            }
        };
        gradients.iter().map(clip).collect()
    }
}

/// Limits the norms of gradients relative to the norms of the parameters.
#[derive(Module, Clone, Debug)]
struct AdaptiveGradientClip {
    #[r#static]
    clipping: f64,
    #[r#static]
    epsilon: f64,
}

/// The lower bound of a parameter's norm in [`adaptive_gradient_clip`]. The value is the default of optax.
const LEAST_NORM: f64 = 1e-3;
/// The lower bound of the norm by which a gradient is divided. The value is a constant of optax.
const LEAST_GRADIENT: f64 = 1e-6;

/// Returns the transformation that limits gradients separately for each output unit, like `optax.adaptive_grad_clip`.
/// For the part of a parameter that belongs to one output unit, the norm of the gradient is limited to `clipping` times
/// the norm of the part (Brock et al. 2021, "High-performance large-scale image recognition without normalization",
/// section 4). A norm of a part below 10⁻³ counts as 10⁻³.
///
/// For a parameter with 2 or 3 axes, the output units are along all axes except the first. For a parameter with more
/// axes, the output units are along the last axis. If at most one axis of a parameter has a length other than 1, the
/// parameter belongs to a single output unit.
///
/// # Examples
/// ```
/// use pytree_nn::{adaptive_gradient_clip, chain, sgd};
/// let clipped = chain([adaptive_gradient_clip(0.01), sgd(0.1)]);
/// ```
///
/// # Panics
/// If `clipping` is not finite or not above 0.
#[doc(alias = "optax.adaptive_grad_clip")]
#[track_caller]
pub fn adaptive_gradient_clip(clipping: f64) -> Chain {
    positive("adaptive_gradient_clip", "clipping", clipping);
    Chain::of(AdaptiveGradientClip {
        clipping,
        epsilon: LEAST_NORM,
    })
}

/// Returns the norm of the part of a parameter that belongs to each output unit: see [`adaptive_gradient_clip`]. The
/// reduced axes are kept with length 1.
fn output_norms(tensor: &Tensor) -> Tensor {
    let long_axes = tensor.shape().iter().filter(|length| **length != 1).count();
    let square = tensor.square();
    let rank = isize::try_from(tensor.rank()).unwrap_or(isize::MAX);
    let axes: Vec<isize> = match rank {
        _ if long_axes <= 1 => (0..rank).collect(),
        2 | 3 => vec![0],
        _ => (0..rank - 1).collect(),
    };
    square.sum_keep(axes).sqrt()
}

impl GradientTransformation for AdaptiveGradientClip {
    fn init(&mut self, _: &Tree<Tensor>) {}

    fn update(&mut self, gradients: Vec<Tensor>, parameters: &[Tensor]) -> Vec<Tensor> {
        check_number("parameters", parameters.len(), gradients.len());
        let pairs = gradients.iter().zip(parameters);
        pairs
            .map(|(gradient, parameter)| {
                let norm = output_norms(gradient);
                let longest = output_norms(parameter).maximum(self.epsilon) * self.clipping;
                let clipped = gradient * (&longest / norm.maximum(LEAST_GRADIENT));
                norm.less(&longest).select(gradient, &clipped)
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use pytree_transform::DType;

    use super::*;

    fn clipped(gradients: &[Tensor]) -> Vec<Tensor> {
        clip_by_global_norm(5.0).update(gradients.to_vec(), &[])
    }

    #[test]
    fn short_gradients_stay() {
        let gradients = [Tensor::from([3.0_f32]), Tensor::from(2.0_f64)];
        assert_eq!(clipped(&gradients), gradients);
        assert!(clipped(&[]).is_empty());
        let zeros = [Tensor::zeros(DType::F32, [2])];
        assert_eq!(clipped(&zeros), zeros);
    }

    #[test]
    fn long_gradients_are_shortened_together() {
        let found = clipped(&[Tensor::from([6.0_f32]), Tensor::from(8.0_f64)]);
        assert!((found[0].item::<f32>() - 3.0).abs() < 1e-6);
        assert!((found[1].item::<f64>() - 4.0).abs() < 1e-12);
    }
}
