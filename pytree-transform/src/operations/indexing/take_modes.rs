//! Indexing with a choice for indices that are out of range: the modes of `jnp.take`.

use pytree_derive::panicking_twin;
use pytree_kernels::base::dtype::DType;
use pytree_kernels::loops::elementwise::Comparison;

use crate::base::error::TensorError;
use crate::operations::axes::axis_of;
use crate::primitives::create::{broadcast_in_dim, full};
use crate::primitives::elementwise::compare;
use crate::primitives::gather::take;
use crate::primitives::select::select;
use crate::tensor::Tensor;

/// What [`Tensor::take_mode`] returns for an index that is out of range. The names are the same as in `jnp.take`.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum TakeMode {
    /// Reads the nearest element. As in NumPy, negative indices do not count from the end: they read the first element.
    Clip,
    /// Continues at the other end: an index is taken modulo the length of the axis.
    Wrap,
    /// Returns the given number. An index from `-length` to `-1` counts from the end.
    Fill(f64),
}

const TAKE: &str = "take_mode";

impl Tensor {
    /// Returns the slices along `axis` at `indices`, an integer tensor of any shape, like `jnp.take` with a mode. In
    /// the result, the axes of `indices` replace `axis`. [`take`](Self::take) is similar: it counts negative indices
    /// from the end and then clamps all indices.
    ///
    /// JAX's default is `TakeMode::Fill(f64::NAN)` for floats. The gradient of a filled slice is 0.
    ///
    /// # Panics
    /// Panics if `axis` is out of range or has no elements, or if `indices` does not contain integers.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// use pytree_transform::indexing::TakeMode;
    /// let (x, indices) = (Tensor::from([1, 2, 3]), Tensor::from([-1, 3]));
    /// assert_eq!(x.take_mode(&indices, 0, TakeMode::Clip), Tensor::from([1, 3]));
    /// assert_eq!(x.take_mode(&indices, 0, TakeMode::Wrap), Tensor::from([3, 1]));
    /// assert_eq!(x.take_mode(&indices, 0, TakeMode::Fill(0.0)), Tensor::from([3, 0]));
    /// ```
    #[doc(alias = "jnp.take")]
    #[must_use]
    #[panicking_twin(take_mode, Axis | DType | Shape)]
    #[track_caller]
    pub fn try_take_mode(
        &self,
        indices: &Self,
        axis: isize,
        mode: TakeMode,
    ) -> Result<Self, TensorError> {
        let operands = [self.info(), indices.info()];
        if indices.dtype().is_float() || indices.dtype() == DType::Bool {
            return Err(TensorError::dtype(TAKE, &operands, "integers as indices"));
        }
        let axis = axis_of(TAKE, self.info(), axis)?;
        let length = self.shape()[axis];
        if length == 0 {
            let problem = format!("axis {axis} has no elements");
            return Err(TensorError::shape(
                TAKE,
                &operands,
                problem,
                "index an axis with elements",
            ));
        }
        // A narrow dtype of indices may be unable to hold the length of the axis.
        let indices = indices.convert(DType::I64);
        let zero = Tensor::zeros_like(&indices);
        let end = Tensor::full_like(&indices, length as f64);
        match mode {
            TakeMode::Clip => take(self, &indices.maximum(&zero), axis),
            TakeMode::Wrap => take(self, &indices.remainder(&end), axis),
            TakeMode::Fill(value) => {
                let taken = take(self, &indices, axis)?;
                let inside = compare(Comparison::Ge, &indices, &-&end)?
                    & compare(Comparison::Lt, &indices, &end)?;
                let places: Vec<usize> = (axis..axis + indices.rank()).collect();
                let inside = broadcast_in_dim(&inside, taken.shape(), &places)?;
                let filled = full(self.dtype(), taken.shape(), value)?;
                select(&inside, &taken, &filled)
            }
        }
    }
}
