//! Matrix products of tensors.

use pytree_derive::panicking_twin;
use pytree_kernels::base::shape::{AxisList, Shape, sorting_permutation};

use crate::base::error::{TensorError, called};
use crate::primitives::dot::dot_general;
use crate::primitives::shape::{reshape, transpose};
use crate::tensor::Tensor;

impl Tensor {
    /// Returns the matrix product by NumPy's rule: `[…, m, k] × […, k, n] → […, m, n]`. The axes before the last two
    /// broadcast. A vector `[k]` is a row as left operand and a column as right operand. The result does not have the
    /// axis of length 1 that makes the vector a matrix.
    ///
    /// # Panics
    /// Panics if the shapes do not match or the dtypes differ.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// let x = Tensor::from([[1.0, 2.0], [3.0, 4.0]]);
    /// assert_eq!(x.matmul(&Tensor::from([1.0, 10.0])), Tensor::from([21.0, 43.0]));
    /// ```
    #[doc(alias("jnp.matmul", "torch.matmul", "torch.mm", "torch.bmm"))]
    #[panicking_twin(matmul, Shape | DType)]
    pub fn try_matmul(&self, right: &Self) -> Result<Self, TensorError> {
        let _called = called("matmul");
        check(self, right)?;
        let pairing = Pairing::of(self, right)?;
        let left_axis = pairing.left.shape.len() - 1;
        let right_axis = pairing.right.shape.len() - if right.rank() == 1 { 1 } else { 2 };
        let left = reshape(self, &pairing.left.shape)?;
        let right = reshape(right, &pairing.right.shape)?;
        let batch = (
            pairing.left.shared.as_slice(),
            pairing.right.shared.as_slice(),
        );
        let product = dot_general(&left, &right, (&[left_axis], &[right_axis]), batch)?;
        transpose(&product, &sorting_permutation(&pairing.places))
    }
}

fn refused(left: &Tensor, right: &Tensor, problem: String, fix: &str) -> TensorError {
    TensorError::shape("matmul", &[left.info(), right.info()], problem, fix)
}

/// Checks that both operands have an axis to contract, and that the lengths of these axes are equal.
fn check(left: &Tensor, right: &Tensor) -> Result<(), TensorError> {
    if left.dtype() != right.dtype() {
        return Err(TensorError::dtype(
            "matmul",
            &[left.info(), right.info()],
            "the same element type in both tensors",
        ));
    }
    let (Some(&contracted), Some(&last)) = (left.shape().last(), right.shape().last()) else {
        let problem = "a tensor without axes is not a matrix".to_owned();
        return Err(refused(left, right, problem, "multiply with `*`"));
    };
    let (of_right, other) = match right.shape() {
        [.., before_last, _] => ("the second-to-last axis of the right tensor", *before_last),
        _ => ("the axis of the right tensor", last),
    };
    if contracted == other {
        return Ok(());
    }
    let of_left = if left.rank() == 1 {
        "the axis of the left tensor"
    } else {
        "the last axis of the left tensor"
    };
    let problem = format!("{of_left} has length {contracted}, but {of_right} has length {other}");
    Err(refused(
        left,
        right,
        problem,
        "did you mean to transpose one of them?",
    ))
}

/// The pairs of batch axes (the axes before the last two) of both operands.
#[derive(Default)]
struct Pairing {
    left: PairedOperand,
    right: PairedOperand,
    /// For each axis of the product, its position in the result. The product has first the shared axes, then the other
    /// axes of the left operand, then the other axes of the right operand.
    places: AxisList,
}

/// One operand of the product. `shape` omits the batch axes of length 1 that broadcast against the other operand.
/// `shared` holds the positions in `shape` of the batch axes that both operands have.
#[derive(Default)]
struct PairedOperand {
    shape: Shape,
    shared: AxisList,
}

impl Pairing {
    /// Pairs the batch axes. A batch axis is not paired if one operand lacks the axis, or if the axis has length 1 in
    /// one operand. So the product broadcasts without copying an operand.
    fn of(left: &Tensor, right: &Tensor) -> Result<Self, TensorError> {
        let batch_rank = |tensor: &Tensor| tensor.rank().saturating_sub(2);
        let rank = batch_rank(left).max(batch_rank(right));
        let length = |tensor: &Tensor, place: usize| {
            (place + batch_rank(tensor))
                .checked_sub(rank)
                .map(|axis| tensor.shape()[axis])
        };
        let mut pairing = Self::default();
        let (mut left_places, mut right_places) = (AxisList::new(), AxisList::new());
        for place in 0..rank {
            match (length(left, place), length(right, place)) {
                (Some(l), Some(r)) if l == r => {
                    pairing.left.shared.push(pairing.left.shape.len());
                    pairing.right.shared.push(pairing.right.shape.len());
                    pairing.left.shape.push(l);
                    pairing.right.shape.push(r);
                    pairing.places.push(place);
                }
                (Some(l), None | Some(1)) => {
                    pairing.left.shape.push(l);
                    left_places.push(place);
                }
                (None | Some(1), Some(r)) => {
                    pairing.right.shape.push(r);
                    right_places.push(place);
                }
                _ => {
                    let problem =
                        "the axes before the last two axes do not broadcast: their lengths must be equal or 1"
                            .to_owned();
                    return Err(refused(left, right, problem, "reshape one of the tensors"));
                }
            }
        }
        let matrix = |tensor: &Tensor| Shape::from(&tensor.shape()[batch_rank(tensor)..]);
        pairing.left.shape.extend(matrix(left));
        pairing.right.shape.extend(matrix(right));
        pairing.places.extend(left_places);
        if left.rank() > 1 {
            pairing.places.push(rank);
        }
        pairing.places.extend(right_places);
        if right.rank() > 1 {
            pairing.places.push(rank + 1);
        }
        Ok(pairing)
    }
}

#[cfg(test)]
mod tests {
    use pytree_kernels::base::dtype::DType;

    use super::*;
    use crate::primitives::shape::tests::rule_checks::{assert_close, noise};

    #[test]
    fn batch_axes_broadcast() {
        for (left, right, result) in [
            (&[2, 3, 4][..], &[2, 4, 5][..], &[2, 3, 5][..]),
            (&[3, 4], &[2, 4, 5], &[2, 3, 5]),
            (&[2, 3, 4], &[4, 5], &[2, 3, 5]),
            (&[2, 1, 3, 4], &[7, 4, 5], &[2, 7, 3, 5]),
            (&[1, 7, 3, 4], &[2, 1, 4, 5], &[2, 7, 3, 5]),
            (&[4], &[2, 4, 5], &[2, 5]),
            (&[2, 3, 4], &[4], &[2, 3]),
            (&[1, 3, 4], &[1, 4, 5], &[1, 3, 5]),
            (&[6, 1, 3, 4], &[6, 2, 4, 5], &[6, 2, 3, 5]),
        ] {
            let (x, y) = (noise(left, 1), noise(right, 2));
            let found = x.matmul(&y);
            assert_eq!(found.shape(), result, "{left:?} × {right:?}");
            // The reference broadcasts both operands to all axes, multiplies them, and sums over the contracted axis.
            let columns = if right.len() == 1 {
                y.expand_dims(-1)
            } else {
                y.clone()
            };
            let rows = if left.len() == 1 {
                x.expand_dims(0)
            } else {
                x.clone()
            };
            let columns = if columns.rank() < 2 {
                columns.clone()
            } else {
                columns.expand_dims(-3)
            };
            let expected = (rows.expand_dims(-1) * columns).sum_axes([-2]);
            assert_close(&found, &expected.reshape(result), 1e-14);
        }
    }

    #[test]
    fn errors_name_mismatched_axes() {
        let zeros = |shape: &[usize]| Tensor::zeros(DType::F32, shape);
        assert_eq!(
            zeros(&[3, 4])
                .try_matmul(&zeros(&[5, 6]))
                .unwrap_err()
                .to_string(),
            "cannot matmul f32[3,4] and f32[5,6]: the last axis of the left tensor has length 4, but the \
             second-to-last axis of the right tensor has length 5; did you mean to transpose one of them?"
        );
        let error = zeros(&[3, 4])
            .try_matmul(&zeros(&[3]))
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("has length 4, but the axis of the right tensor has length 3"),
            "{error}"
        );
        let error = zeros(&[2, 3, 4])
            .try_matmul(&zeros(&[3, 4, 5]))
            .unwrap_err()
            .to_string();
        assert!(error.contains("do not broadcast"), "{error}");
        assert!(
            zeros(&[])
                .try_matmul(&zeros(&[3]))
                .unwrap_err()
                .to_string()
                .contains("multiply with `*`")
        );
        assert!(zeros(&[3]).try_matmul(&Tensor::from([1, 2, 3])).is_err());
    }
}
