//! The cosine of the angle between vectors.

use pytree_core::shapes;
use pytree_derive::panicking_twin;
use pytree_transform::Tensor;

use crate::error::InputError;

/// Returns a / √(max(|a|², ε)) for each vector a along the last axis.
#[track_caller]
fn normalized(vectors: &Tensor, epsilon: f64) -> Tensor {
    let squares = vectors.square().sum_keep([-1]);
    vectors / squares.maximum(epsilon).sqrt()
}

/// Returns, for each pair of vectors a and b along the last axis, the cosine of their angle:
/// a·b / √(max(|a|², ε) max(|b|², ε)), of shape `[*batch]`.
///
/// The number ε is `epsilon`, a lower bound of the squared length. If ε is positive, a zero vector has the result 0 and
/// a finite gradient. If ε is 0, the result and the gradient of a zero vector are NaN. The same function in optax,
/// `optax.cosine_similarity`, has the default ε = 0.
///
/// # Examples
/// ```
/// use pytree_nn::cosine_similarity;
/// use pytree_transform::Tensor;
/// let (a, b) = (Tensor::from([[3.0, 4.0]]), Tensor::from([[4.0, 3.0]]));
/// assert!((cosine_similarity(&a, &b, 1e-8) - 0.96).abs().item::<f64>() < 1e-15);
/// ```
///
/// # Panics
/// If the shapes or dtypes differ, or if the elements are not floats.
#[doc(alias("optax.cosine_similarity", "F.cosine_similarity"))]
#[shapes(
    predictions = "T: float[*batch features]",
    targets = "T[*batch features]",
    return = "T[*batch]"
)]
#[panicking_twin(cosine_similarity)]
pub fn try_cosine_similarity(
    predictions: &Tensor,
    targets: &Tensor,
    epsilon: f64,
) -> Result<Tensor, InputError> {
    let products = normalized(predictions, epsilon) * normalized(targets, epsilon);
    Ok(products.sum_axes([-1]))
}

/// Returns 1 - [`cosine_similarity`] for each pair of vectors: `[*batch]`. The distance is 0 for vectors of the same
/// direction, and 2 for vectors of opposite directions.
///
/// # Examples
/// ```
/// use pytree_nn::cosine_distance;
/// use pytree_transform::Tensor;
/// let (a, b) = (Tensor::from([[2.0, 0.0]]), Tensor::from([[-3.0, 0.0]]));
/// assert_eq!(cosine_distance(&a, &b, 0.0), Tensor::from([2.0]));
/// ```
///
/// # Panics
/// If the shapes or dtypes differ, or if the elements are not floats.
#[doc(alias = "optax.cosine_distance")]
#[shapes(
    predictions = "T: float[*batch features]",
    targets = "T[*batch features]",
    return = "T[*batch]"
)]
#[panicking_twin(cosine_distance)]
pub fn try_cosine_distance(
    predictions: &Tensor,
    targets: &Tensor,
    epsilon: f64,
) -> Result<Tensor, InputError> {
    Ok(1.0 - try_cosine_similarity(predictions, targets, epsilon)?)
}
