//! Clipping of gradients.

use pytree_core::{Module, Tree};
use pytree_transform::{DType, Tensor};

use crate::optimizers::transformation::Scalar;
use crate::optimizers::{Chain, GradientTransformation};

/// Scales the gradients down if their global norm is too large: see [`clip_by_global_norm`].
#[derive(Module, Clone, Debug)]
pub struct ClipByGlobalNorm {
    #[r#static]
    longest: f64,
}

/// Returns the transformation that limits the global norm of the gradients to `longest`. If the norm is greater, all
/// gradients are multiplied by the same factor, and the new norm is `longest`. The global norm is the square root of
/// the sum of all squares (Pascanu et al. 2012, "On the difficulty of training recurrent neural networks", algorithm
/// 1).
pub fn clip_by_global_norm(longest: f64) -> Chain {
    Chain::of(ClipByGlobalNorm { longest })
}

impl GradientTransformation for ClipByGlobalNorm {
    fn init(&mut self, _: &Tree<Tensor>) {}

    fn update(&mut self, gradients: Vec<Tensor>, _: &[Tensor]) -> Vec<Tensor> {
        let widest = gradients
            .iter()
            .map(Tensor::dtype)
            .max()
            .unwrap_or(DType::F32);
        let squares = gradients
            .iter()
            .map(|gradient| gradient.square().sum().convert(widest));
        let Some(norm) = squares
            .reduce(|left, right| left + right)
            .map(|sum| sum.sqrt())
        else {
            return gradients;
        };
        // A NaN norm fails the comparison, so NaN gradients stay visible.
        let factor = norm
            .less(self.longest)
            .select(&Tensor::ones_like(&norm), &(self.longest / &norm));
        let mut factor = Scalar::new(factor);
        gradients
            .iter()
            .map(|gradient| gradient * factor.of_type(gradient.dtype()))
            .collect()
    }
}

#[cfg(test)]
mod tests {
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
