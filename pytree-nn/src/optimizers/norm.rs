//! The global norm of gradients.

use pytree_core::{PytreeOf, graph};
use pytree_transform::extend::{called, called_with_floats};
use pytree_transform::{DType, Tensor};

use crate::convert_floats::{at_least_f32, at_least_f32_dtype};
use crate::optimizers::scheduled::widest;

/// Returns the square root of the sum of the squares of all elements, as `optax.global_norm`.
///
/// `tree` is a gradient, a model or another pytree of floats. The result is a scalar of the widest dtype of the leaves,
/// and at least f32. It is 0 of dtype f32 if there are no leaves. A shared leaf counts once.
///
/// # Panics
/// If a leaf is not a tensor of floats. A model with such states has a part of floats:
/// `partition::filter(&model, &Filter::param())`.
///
/// # Examples
/// ```
/// use pytree_nn::{Linear, Rngs, global_norm};
/// use pytree_transform::{DType, Tensor, grad};
/// let linear = Linear::new(2, 1, &mut Rngs::new(0));
/// let x = Tensor::from([2.0_f32, 3.0]);
/// let gradient = grad(|linear: &Linear| linear.forward(&x).sum())(&linear);
/// // The gradient is (2, 3) for the weight and 1 for the bias.
/// assert_eq!(global_norm(&gradient).item::<f32>(), 14.0_f32.sqrt());
/// ```
#[doc(alias = "optax.global_norm")]
#[track_caller]
pub fn global_norm<T: PytreeOf<Tensor>>(tree: &T) -> Tensor {
    let leaves: Vec<Tensor> = graph::leaves(tree).into_iter().cloned().collect();
    for leaf in &leaves {
        let _called = called_with_floats("global_norm", leaf);
    }
    let _called = called("global_norm");
    joint_norm(&leaves).unwrap_or_else(|| Tensor::zeros(DType::F32, []))
}

/// Returns the norm of all elements of the tensors in their widest dtype and at least in f32, or `None` without tensors.
pub(super) fn joint_norm(tensors: &[Tensor]) -> Option<Tensor> {
    let dtype = at_least_f32_dtype(widest(tensors));
    let squares = tensors
        .iter()
        .map(|tensor| at_least_f32(tensor).square().sum().convert(dtype));
    squares
        .reduce(|left, right| left + right)
        .map(|sum| sum.sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn norm_has_the_widest_dtype() {
        let tree = vec![Tensor::from([3.0_f32]), Tensor::from([[4.0, 12.0]])];
        assert_eq!(global_norm(&tree), Tensor::from(13.0));
        assert_eq!(global_norm(&Vec::<Tensor>::new()), Tensor::from(0.0_f32));
    }

    #[test]
    #[should_panic(expected = "global_norm")]
    fn integers_are_refused() {
        let _ = global_norm(&vec![Tensor::from(1.0_f32), Tensor::from(3)]);
    }
}
