//! Tensor products other than matrix products, for instance `dot_general`, `outer` and `kron`.

use std::panic::Location;

use pytree_derive::panicking_twin;
use pytree_kernels::base::shape::{AxisList, Shape};

use crate::base::error::{TensorError, called};
use crate::operations::axes::axes_of;
use crate::primitives::dot::dot_general;
use crate::primitives::shape::{reshape, transpose};
use crate::tensor::Tensor;
use crate::tensor::trace::at_line_by_default;

fn refused(
    operation: &'static str,
    left: &Tensor,
    right: &Tensor,
    problem: String,
    fix: &str,
) -> TensorError {
    TensorError::shape(operation, &[left.info(), right.info()], problem, fix)
}

impl Tensor {
    /// Returns the product of two tensors, summed over pairs of axes, like `jax.lax.dot_general`.
    ///
    /// Sums over and removes the contracted axes `contract.0[i]` of this tensor and `contract.1[i]` of the other
    /// tensor. The batch axes `batch.0[i]` and `batch.1[i]` become one axis. The result has the batch axes, then the
    /// other axes of this tensor, then the other axes of the other tensor. Negative axes count from the end.
    ///
    /// # Panics
    /// Panics if an axis is out of range or given twice, if the lengths or dtypes differ, or if the elements are
    /// bool.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::{DType, Tensor};
    /// let (x, y) = (Tensor::ones(DType::F32, [8, 2, 3]), Tensor::ones(DType::F32, [3, 5, 8]));
    /// let product = x.dot_general(&y, ([2], [0]), ([0], [2]));
    /// assert_eq!(product.shape(), [8, 2, 5]);
    /// ```
    #[doc(alias = "lax.dot_general")]
    #[panicking_twin(dot_general, Shape | Axis | DType)]
    pub fn try_dot_general(
        &self,
        other: &Self,
        contract: (impl AsRef<[isize]>, impl AsRef<[isize]>),
        batch: (impl AsRef<[isize]>, impl AsRef<[isize]>),
    ) -> Result<Self, TensorError> {
        let _called = called("dot_general");
        let contract = (contract.0.as_ref(), contract.1.as_ref());
        let batch = (batch.0.as_ref(), batch.1.as_ref());
        let counts = [(contract.0, contract.1), (batch.0, batch.1)];
        if counts.iter().any(|(left, right)| left.len() != right.len()) {
            let problem = format!(
                "the two tensors have different numbers of contracted axes {contract:?} or of batch axes {batch:?}"
            );
            let fix = "name the same number of axes for both tensors";
            return Err(refused("dot_general", self, other, problem, fix));
        }
        let pairs = [(self, contract.0, batch.0), (other, contract.1, batch.1)];
        let [left, right] = pairs.map(|(tensor, contracted, batch)| {
            axes_of("dot_general", tensor.info(), &[contracted, batch].concat())
        });
        let (left, right) = (left?, right?);
        let (left, left_batch) = left.split_at(contract.0.len());
        let (right, right_batch) = right.split_at(contract.1.len());
        dot_general(self, other, (left, right), (left_batch, right_batch))
    }

    /// Returns the product of two tensors, summed over pairs of axes, like `jnp.tensordot`. The axes `axes.0[i]` of
    /// this tensor and `axes.1[i]` of the other tensor are summed over and removed. Negative axes count from the end.
    ///
    /// # Panics
    /// Panics in the same cases as [`dot_general`](Self::dot_general).
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::{DType, Tensor};
    /// let (x, y) = (Tensor::ones(DType::F32, [2, 3, 4]), Tensor::ones(DType::F32, [4, 3, 5]));
    /// let product = x.tensordot(&y, ([1, 2], [1, 0]));
    /// assert_eq!(product, Tensor::full(DType::F32, [2, 5], 12.0));
    /// ```
    #[doc(alias("jnp.tensordot", "torch.tensordot"))]
    #[panicking_twin(tensordot, Shape | Axis | DType)]
    pub fn try_tensordot(
        &self,
        other: &Self,
        axes: (impl AsRef<[isize]>, impl AsRef<[isize]>),
    ) -> Result<Self, TensorError> {
        let _called = called("tensordot");
        self.try_dot_general(other, axes, ([], []))
    }

    /// Returns the product of two tensors, like `jnp.dot`. Sums over the last axis of this tensor and the second last
    /// axis of the other tensor, or its only axis if it is a vector. If an operand is a scalar, returns the elementwise
    /// product.
    ///
    /// `[left.., k] · [k] → [left..]`, and `[left.., k] · [right.., k, n] → [left.., right.., n]`. For batches of
    /// matrices, use [`matmul`](Self::matmul).
    ///
    /// # Panics
    /// Panics if the lengths or the dtypes differ, or if the elements are bool.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// let x = Tensor::from([1, 2]);
    /// assert_eq!(x.dot(&Tensor::from([3, 4])), Tensor::from(11));
    /// assert_eq!(Tensor::from([[1, 2], [3, 4]]).dot(&x), Tensor::from([5, 11]));
    /// ```
    #[doc(alias("jnp.dot", "torch.dot"))]
    #[panicking_twin(dot, Shape | DType)]
    pub fn try_dot(&self, other: &Self) -> Result<Self, TensorError> {
        let _called = called("dot");
        if self.rank() == 0 || other.rank() == 0 {
            return self.try_multiply(other);
        }
        let contracted = other.rank().saturating_sub(2).cast_signed();
        self.try_dot_general(other, ([-1], [contracted]), ([], []))
    }

    /// Returns the product of each element of this tensor with each element of the other tensor: `[m] × [n] → [m, n]`.
    /// Both tensors are flattened first, as in NumPy.
    ///
    /// # Panics
    /// Panics if the dtypes differ, or if the elements are bool.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// assert_eq!(Tensor::from([1, 2]).outer(&Tensor::from([3, 4])), Tensor::from([[3, 4], [6, 8]]));
    /// ```
    #[doc(alias("jnp.outer", "torch.outer"))]
    #[panicking_twin(outer, DType)]
    pub fn try_outer(&self, other: &Self) -> Result<Self, TensorError> {
        let _called = called("outer");
        let (left, right) = (self.flatten(), other.flatten());
        let dtype = left.dtype();
        // Products of integers are exact, and need no sums. Those of floats are added to 0, as in all products.
        if dtype == right.dtype() && dtype.is_integer() && dtype.bytes() >= 4 {
            let column = reshape(&left, &[left.len(), 1])?;
            return column.try_multiply(&right);
        }
        dot_general(&left, &right, (&[], &[]), (&[], &[]))
    }

    /// Returns the product of two tensors, summed over their last axes: `[left…, k] × [right…, k] → [left…, right…]`.
    /// If an operand is a scalar, returns the elementwise product.
    ///
    /// # Panics
    /// Panics if the lengths or the dtypes differ.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// let x = Tensor::from([[1, 2], [3, 4]]);
    /// assert_eq!(x.inner(&Tensor::from([1, 10])), Tensor::from([21, 43]));
    /// ```
    #[doc(alias("jnp.inner", "torch.inner"))]
    #[panicking_twin(inner, Shape | DType)]
    pub fn try_inner(&self, other: &Self) -> Result<Self, TensorError> {
        let _called = called("inner");
        match (self.rank().checked_sub(1), other.rank().checked_sub(1)) {
            (Some(left), Some(right)) => dot_general(self, other, (&[left], &[right]), (&[], &[])),
            _ => self.try_multiply(other),
        }
    }

    /// Multiplies two tensors with the same number of elements element by element, and returns the sum of the products,
    /// like `jnp.vdot`.
    ///
    /// # Panics
    /// Panics if the numbers of elements or the dtypes differ.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// assert_eq!(Tensor::from([[1, 2]]).vdot(&Tensor::from([3, 4])), Tensor::from(11));
    /// ```
    #[doc(alias("jnp.vdot", "torch.vdot"))]
    #[panicking_twin(vdot, Shape | DType)]
    pub fn try_vdot(&self, other: &Self) -> Result<Self, TensorError> {
        let _called = called("vdot");
        if self.len() != other.len() {
            let problem = format!(
                "the tensors have {} and {} elements",
                self.len(),
                other.len()
            );
            let fix = "give two tensors with the same number of elements";
            return Err(refused("vdot", self, other, problem, fix));
        }
        dot_general(&self.flatten(), &other.flatten(), (&[0], &[0]), (&[], &[]))
    }

    /// Returns the Kronecker product: replaces each element of this tensor by the product of this element with the
    /// whole other tensor. If one tensor has fewer axes, it first gets leading axes of length 1.
    ///
    /// # Panics
    /// Panics if the dtypes differ, or if the elements are bool.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// assert_eq!(Tensor::from([1, 10]).kron(&Tensor::from([1, 2])), Tensor::from([1, 2, 10, 20]));
    /// ```
    #[doc(alias("jnp.kron", "torch.kron"))]
    #[panicking_twin(kron, DType)]
    pub fn try_kron(&self, other: &Self) -> Result<Self, TensorError> {
        let _called = called("kron");
        let rank = self.rank().max(other.rank());
        let padded = |tensor: &Self| -> Result<Self, TensorError> {
            let ones = std::iter::repeat_n(1, rank - tensor.rank());
            let shape: Shape = ones.chain(tensor.shape().iter().copied()).collect();
            reshape(tensor, &shape)
        };
        let (left, right) = at_line_by_default(Location::caller(), || {
            Ok::<_, TensorError>((padded(self)?, padded(other)?))
        })?;
        let product = dot_general(&left, &right, (&[], &[]), (&[], &[]))?;
        let order: AxisList = (0..rank).flat_map(|axis| [axis, axis + rank]).collect();
        let lengths = left.shape().iter().zip(right.shape());
        let shape: Shape = lengths.map(|(left, right)| left * right).collect();
        reshape(&transpose(&product, &order)?, &shape)
    }
}

#[cfg(test)]
mod tests {
    use pytree_kernels::base::dtype::DType;

    use super::*;

    #[test]
    fn errors_name_the_mistake() {
        let zeros = |shape: &[usize]| Tensor::zeros(DType::F32, shape);
        let (x, y) = (zeros(&[2, 3]), zeros(&[3, 2]));
        let message = |result: Result<Tensor, TensorError>| result.unwrap_err().to_string();
        let error = message(x.try_dot_general(&y, (&[1], &[]), (&[], &[])));
        assert!(
            error.contains("different numbers of contracted axes"),
            "{error}"
        );
        let error = message(x.try_dot_general(&y, (&[1], &[0]), (&[1], &[1])));
        assert!(error.contains("axis 1 is given twice"), "{error}");
        assert!(x.try_dot_general(&y, (&[2], &[0]), (&[], &[])).is_err());
        let error = message(x.try_tensordot(&y, (&[1], &[1])));
        assert!(
            error.contains("the contracted axes 1 and 1 differ in length"),
            "{error}"
        );
        let error = message(x.try_vdot(&zeros(&[5])));
        assert!(
            error.contains("the tensors have 6 and 5 elements"),
            "{error}"
        );
        assert!(x.try_inner(&zeros(&[4])).is_err());
    }
}
