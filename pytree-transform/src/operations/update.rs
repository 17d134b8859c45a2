//! Updates of a part of a tensor. NumPy's `x[1:] = y` changes `x`, but [`Tensor::at`] returns a new tensor.
//!
//! An update at ranges and positions writes a window, or pads a value that is added or multiplied to the shape of the tensor. An update
//! at a tensor of indices is a scatter. A tensor of indices may be traced, but ranges are static.

mod scattered;

use std::panic::Location;

use pytree_derive::panicking_twin;
use pytree_kernels::base::dtype::{AbstractArray, DType};
use pytree_kernels::loops::elementwise::Binary;

use self::scattered::{Scattered, Update, combined};
use super::indexing::Index;
use crate::base::error::TensorError;
use crate::operations::axes::axis_of;
use crate::operations::indexing::{Indices, Plan};
use crate::primitives::create::broadcast_to;
use crate::primitives::elementwise::binary;
use crate::primitives::elementwise::operand::Operand;
use crate::primitives::gather::take;
use crate::tensor::Tensor;
use crate::tensor::trace::at_line_by_default;

/// A part of a tensor to read or update. [`Tensor::at`] and [`Tensor::at_indices`] return an `At`.
///
/// No method changes the tensor in place: each method returns a new tensor.
#[derive(Clone, Debug)]
#[must_use = "nothing changes in place: `set` and the other methods return the new tensor"]
pub struct At<'t> {
    tensor: &'t Tensor,
    place: Selection,
}

#[derive(Clone, Debug)]
enum Selection {
    Basic(Vec<Index>),
    /// Indices along an axis, in the user's notation. Negative indices and a negative axis count from the end.
    Indices(Tensor, isize),
}

impl Tensor {
    /// Selects the part at positions and ranges for an update, as in [`index`](Self::index). JAX's `x.at[1:].set(y)` is
    /// `x.at(ix![1..]).set(&y)`.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::{Tensor, ix};
    /// let x = Tensor::from([[1.0, 2.0], [3.0, 4.0]]);
    /// let row = Tensor::from([5.0, 6.0]);
    /// assert_eq!(x.at(ix![0]).set(&row), Tensor::from([[5.0, 6.0], [3.0, 4.0]]));
    /// assert_eq!(x.at(ix![.., -1]).add(1.0), Tensor::from([[1.0, 3.0], [3.0, 5.0]]));
    /// ```
    #[doc(alias = "jnp.ndarray.at")]
    pub fn at(&self, indices: impl Indices) -> At<'_> {
        At {
            tensor: self,
            place: Selection::Basic(indices.indices().to_vec()),
        }
    }

    /// Selects the slices along `axis` at an integer tensor of indices for an update. JAX's `x.at[i].set(y)` is
    /// `x.at_indices(&i, 0).set(&y)`. In the shape of the selected part, the axes of `indices` replace `axis`.
    ///
    /// As in JAX, a negative index counts from the end. An index out of range updates nothing. For such an index,
    /// [`get`](At::get) reads the nearest element, and this element receives the gradient, like
    /// `x.at[i].get(mode="clip")` in JAX. By default, JAX also reads the nearest element, but the element receives no
    /// gradient.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// let x = Tensor::from([1, 2, 3]);
    /// let places = Tensor::from([0, -1, 7]);
    /// assert_eq!(x.at_indices(&places, 0).set(0), Tensor::from([0, 2, 0]));
    /// ```
    #[doc(alias("jnp.ndarray.at", "torch.index_put"))]
    pub fn at_indices(&self, indices: &Self, axis: isize) -> At<'_> {
        At {
            tensor: self,
            place: Selection::Indices(indices.clone(), axis),
        }
    }
}

impl At<'_> {
    /// Returns the elements of the selected part.
    ///
    /// # Panics
    /// Panics if the part is out of range.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::{Tensor, ix};
    /// let x = Tensor::from([1, 2, 3]);
    /// assert_eq!(x.at(ix![1..]).get(), Tensor::from([2, 3]));
    /// assert_eq!(x.at_indices(&Tensor::from(-1), 0).get(), Tensor::from(3));
    /// ```
    #[doc(alias = "jnp.ndarray.at.get")]
    #[must_use]
    #[panicking_twin(get, Shape | DType | Axis)]
    pub fn try_get(&self) -> Result<Tensor, TensorError> {
        match &self.place {
            Selection::Basic(indices) => self.tensor.try_index(indices),
            Selection::Indices(indices, axis) => {
                let axis = axis_of("update", self.tensor.info(), *axis)?;
                take(self.tensor, indices, axis)
            }
        }
    }

    /// Returns the tensor with the selected part replaced by `value`. If an index occurs several times, its last update
    /// is used.
    ///
    /// # Panics
    /// Panics if the part is out of range, if the value does not broadcast to the part, or if the dtypes differ.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::{Tensor, ix};
    /// let x = Tensor::from([1, 2, 3]);
    /// assert_eq!(x.at(ix![1..]).set(0), Tensor::from([1, 0, 0]));
    /// ```
    #[doc(alias("jnp.ndarray.at.set", "torch.index_copy"))]
    #[must_use]
    #[panicking_twin(set, Shape | DType | Axis | Number)]
    pub fn try_set(&self, value: impl Operand) -> Result<Tensor, TensorError> {
        self.update(Update::Set, &value)
    }

    /// Returns the tensor with `value` added to the selected part. If an index occurs several times, all its updates
    /// are added.
    ///
    /// # Panics
    /// Panics if the part is out of range, if the value does not broadcast to the part, or if the dtypes differ or
    /// are bool.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::{Tensor, ix};
    /// let x = Tensor::from([1, 2, 3]);
    /// assert_eq!(x.at(ix![0]).add(10), Tensor::from([11, 2, 3]));
    /// let bins = Tensor::from([0, 2, 2]);
    /// assert_eq!(x.at_indices(&bins, 0).add(1), Tensor::from([2, 2, 5]));
    /// ```
    #[doc(alias("jnp.ndarray.at.add", "torch.index_add"))]
    #[must_use]
    #[panicking_twin(add, Shape | DType | Axis | Number)]
    pub fn try_add(&self, value: impl Operand) -> Result<Tensor, TensorError> {
        self.update(Update::Add, &value)
    }

    /// Returns the tensor with the selected part multiplied by `value`. If an index occurs several times, the element
    /// is multiplied by all its updates.
    ///
    /// # Panics
    /// Panics if the part is out of range, if the value does not broadcast to the part, or if the dtypes differ or
    /// are bool.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::{Tensor, ix};
    /// let x = Tensor::from([[1.0, 2.0], [3.0, 4.0]]);
    /// assert_eq!(x.at(ix![.., 1]).multiply(2.0), Tensor::from([[1.0, 4.0], [3.0, 8.0]]));
    /// ```
    #[doc(alias = "jnp.ndarray.at.multiply")]
    #[must_use]
    #[panicking_twin(multiply, Shape | DType | Axis | Number)]
    pub fn try_multiply(&self, value: impl Operand) -> Result<Tensor, TensorError> {
        self.update(Update::Multiply, &value)
    }

    /// Returns the tensor with the selected part replaced by the elementwise minimum of the part and `value`. The
    /// minimum is NaN if either element is NaN.
    ///
    /// # Panics
    /// Panics if the part is out of range, if the value does not broadcast to the part, or if the dtypes differ or
    /// are bool.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::{Tensor, ix};
    /// let x = Tensor::from([1, 2, 3]);
    /// assert_eq!(x.at(ix![1..]).min(2), Tensor::from([1, 2, 2]));
    /// ```
    #[doc(alias = "jnp.ndarray.at.min")]
    #[must_use]
    #[panicking_twin(min, Shape | DType | Axis | Number)]
    pub fn try_min(&self, value: impl Operand) -> Result<Tensor, TensorError> {
        self.update(Update::Min, &value)
    }

    /// Returns the tensor with the selected part replaced by the elementwise maximum of the part and `value`. The
    /// maximum is NaN if either element is NaN.
    ///
    /// # Panics
    /// Panics if the part is out of range, if the value does not broadcast to the part, or if the dtypes differ or
    /// are bool.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::{Tensor, ix};
    /// let x = Tensor::from([1, 2, 3]);
    /// assert_eq!(x.at(ix![..2]).max(2), Tensor::from([2, 2, 3]));
    /// ```
    #[doc(alias = "jnp.ndarray.at.max")]
    #[must_use]
    #[panicking_twin(max, Shape | DType | Axis | Number)]
    pub fn try_max(&self, value: impl Operand) -> Result<Tensor, TensorError> {
        self.update(Update::Max, &value)
    }

    #[track_caller]
    fn update(&self, update: Update, value: &impl Operand) -> Result<Tensor, TensorError> {
        let value = value.beside(self.tensor)?;
        let numbers = self.tensor.dtype() != DType::Bool || update == Update::Set;
        if value.dtype() != self.tensor.dtype() || !numbers {
            return Err(TensorError::dtype(
                "update",
                &[self.tensor.info(), value.info()],
                if numbers {
                    "the same element type in the tensor and the value"
                } else {
                    "numbers; for bools use `set`"
                },
            ));
        }
        match &self.place {
            Selection::Basic(indices) => {
                let plan = Plan::new(self.tensor.info(), indices)?;
                let value = fitted(self.tensor.info(), &value, &plan.shape)?;
                update_part(self.tensor, update, &plan, &value)
            }
            Selection::Indices(indices, axis) => {
                let scattered = Scattered::new(self.tensor, indices, *axis)?;
                let value = fitted(self.tensor.info(), &value, &scattered.shape(self.tensor))?;
                scattered.update(self.tensor, update, &value)
            }
        }
    }
}

/// Broadcasts the value of an update to the shape of the selected part.
#[track_caller]
fn fitted(found: &AbstractArray, value: &Tensor, part: &[usize]) -> Result<Tensor, TensorError> {
    broadcast_to(value, part).map_err(|_| {
        TensorError::shape(
            "update",
            &[found, value.info()],
            format!("the value does not broadcast to the shape {part:?} of the selected part"),
            "reshape the value, or choose another part",
        )
    })
}

#[track_caller]
fn update_part(
    tensor: &Tensor,
    update: Update,
    plan: &Plan,
    value: &Tensor,
) -> Result<Tensor, TensorError> {
    let around = |number: f64| {
        let number = Tensor::constant(tensor.dtype(), number);
        plan.put_back(value, &number, tensor.shape())
    };
    let extremum = |of: Binary| {
        let part = plan.part(tensor)?;
        plan.replace(tensor, &binary(of, &part, value)?)
    };
    at_line_by_default(Location::caller(), || match update {
        Update::Set => plan.replace(tensor, value),
        Update::Add => combined(Binary::Add, tensor, around(0.0)?),
        Update::Multiply => combined(Binary::Mul, tensor, around(1.0)?),
        Update::Min => extremum(Binary::Min),
        Update::Max => extremum(Binary::Max),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ix;

    #[test]
    fn updated_parts_keep_their_place() {
        let x = Tensor::arange(DType::I32, 12).reshape([3, 4]);
        for indices in [
            vec![Index::from(1)],
            vec![Index::from(..), Index::from(-1)],
            vec![
                Index::from(crate::operations::indexing::Step(.., -2)),
                Index::from(1..3),
            ],
            vec![Index::NewAxis, Index::Ellipsis, Index::from(2..2)],
        ] {
            let part = x.index(&indices);
            let changed = x.at(&indices).set(part.clone() * 10);
            assert_eq!(changed.index(&indices), &part * 10);
            let same = x.sum() + part.sum() * 9;
            assert_eq!(changed.sum(), same);
            assert_eq!(x.at(&indices).add(&part * 9), changed);
            assert_eq!(x.at(&indices).multiply(10), changed);
            assert_eq!(x.at(&indices).max(&part * 10), changed);
            assert_eq!(x.at(&indices).min(&part * 10), x);
        }
    }

    #[test]
    fn out_of_range_index_changes_nothing() {
        let x = Tensor::from([[1, 2], [3, 4]]);
        let at = Tensor::from([0, -1, 0, 2, -3]);
        let value = Tensor::from([[10], [20], [30], [40], [50]]);
        let place = x.at_indices(&at, 0);
        assert_eq!(place.set(&value), Tensor::from([[30, 30], [20, 20]]));
        assert_eq!(place.add(&value), Tensor::from([[41, 42], [23, 24]]));
        assert_eq!(place.multiply(&value), Tensor::from([[300, 600], [60, 80]]));
        assert_eq!(place.max(25), Tensor::from([[25, 25], [25, 25]]));
        assert_eq!(place.min(-25), Tensor::from([[-25, -25], [-25, -25]]));
        let truth = Tensor::from([false, false]);
        assert_eq!(
            truth
                .at_indices(&Tensor::from(1), 0)
                .set(Tensor::from(true)),
            Tensor::from([false, true])
        );
        let nothing = Tensor::zeros(DType::F32, [0]);
        assert_eq!(nothing.at_indices(&at, 0).add(1.0), nothing);
        let at = Tensor::zeros(DType::I32, [0]);
        assert_eq!(x.at_indices(&at, 1).set(7), x);
    }

    #[test]
    fn errors_name_the_part() {
        let x = Tensor::zeros(DType::F32, [2, 3]);
        let error = x
            .at(ix![0])
            .try_set(Tensor::from([1.0_f32, 2.0]))
            .unwrap_err();
        assert_eq!(
            error.to_string(),
            "cannot update f32[2,3] and f32[2]: the value does not broadcast to the shape [3] of the selected part; reshape \
             the value, or choose another part"
        );
        assert!(x.at(ix![2]).try_add(1.0).is_err());
        assert!(x.at_indices(&Tensor::from(0.5), 0).try_set(1.0).is_err());
        assert!(x.at_indices(&Tensor::from(0), 2).try_set(1.0).is_err());
        assert!(x.at(ix![0]).try_set(Tensor::from(1.0_f64)).is_err());
        let error = Tensor::from([true]).at(ix![0]).try_add(Tensor::from(true));
        assert!(
            error
                .unwrap_err()
                .to_string()
                .contains("for bools use `set`")
        );
    }
}
