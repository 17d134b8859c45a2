//! Rolling, repeating and splitting tensors, and evenly spaced numbers.

use std::borrow::Borrow;

use pytree_derive::panicking_twin;
use pytree_kernels::base::dtype::{AbstractArray, DType};
use pytree_kernels::base::memory::is_granted;
use pytree_kernels::base::narrow::wide;
use pytree_kernels::base::shape::{AxisList, PerAxis, Shape};

use crate::base::error::{TensorError, called, or_panic};
use crate::operations::axes::axis_of;
use crate::operations::fused::try_fused;
use crate::primitives::create::{self, broadcast_in_dim};
use crate::primitives::shape::{reshape, transpose};
use crate::primitives::slice::{concatenate, slice};
use crate::tensor::Tensor;

/// Returns the part of a tensor from `start` to `limit` along one axis, without the element at `limit`.
#[track_caller]
fn along(tensor: &Tensor, axis: usize, start: usize, limit: usize) -> Result<Tensor, TensorError> {
    let mut starts: PerAxis = tensor.shape().iter().map(|_| 0).collect();
    let mut limits = PerAxis::from_slice(tensor.shape());
    let strides: PerAxis = tensor.shape().iter().map(|_| 1).collect();
    (starts[axis], limits[axis]) = (start, limit);
    slice(tensor, &starts, &limits, &strides)
}

/// Operations that change the order and the number of elements.
impl Tensor {
    /// Shifts the elements along `axis` by `shift` positions. Elements that are shifted past one end reappear at the
    /// other end.
    ///
    /// # Panics
    /// Panics if `axis` is out of range.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// assert_eq!(Tensor::from([1, 2, 3, 4]).roll(1, 0), Tensor::from([4, 1, 2, 3]));
    /// ```
    #[doc(alias("jnp.roll", "torch.roll"))]
    #[panicking_twin(roll, Axis)]
    pub fn try_roll(&self, shift: isize, axis: isize) -> Result<Self, TensorError> {
        let _called = called("roll");
        let axis = axis_of("roll", self.info(), axis)?;
        let length = self.shape()[axis];
        if length == 0 {
            return Ok(self.clone());
        }
        let behind = length - shift.rem_euclid(length.cast_signed()).cast_unsigned();
        if behind == length {
            return Ok(self.clone());
        }
        try_fused(&[self], || {
            let (first, last) = (
                along(self, axis, 0, behind)?,
                along(self, axis, behind, length)?,
            );
            concatenate(&[&last, &first], axis)
        })
    }

    /// Repeats the whole tensor along each axis. If `repeats` has fewer numbers than axes, they apply to the last axes.
    /// If `repeats` has more numbers than axes, the tensor gets new leading axes.
    ///
    /// # Panics
    /// Panics if the size overflows, or if the allocation fails.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// assert_eq!(Tensor::from([1, 2]).tile([2]), Tensor::from([1, 2, 1, 2]));
    /// assert_eq!(Tensor::from([1, 2]).tile([2, 1]), Tensor::from([[1, 2], [1, 2]]));
    /// ```
    #[doc(alias("jnp.tile", "torch.tile"))]
    #[must_use]
    #[track_caller]
    pub fn tile(&self, repeats: impl AsRef<[usize]>) -> Self {
        let _called = called("tile");
        let repeats = repeats.as_ref();
        let rank = self.rank().max(repeats.len());
        let at = |numbers: &[usize], axis: usize| {
            let missing = rank - numbers.len();
            axis.checked_sub(missing).map_or(1, |axis| numbers[axis])
        };
        let lengths: Shape = (0..rank).map(|axis| at(self.shape(), axis)).collect();
        let pairs: Shape = (0..rank)
            .flat_map(|axis| [at(repeats, axis), lengths[axis]])
            .collect();
        let own: AxisList = (0..rank).map(|axis| 2 * axis + 1).collect();
        let whole = or_panic(reshape(self, &lengths));
        let repeated = or_panic(broadcast_in_dim(&whole, &pairs, &own));
        // The broadcast to the shape `pairs` succeeded. So the products of the lengths in `pairs` do not overflow.
        let joined: Shape = (0..rank)
            .map(|axis| at(repeats, axis) * lengths[axis])
            .collect();
        or_panic(reshape(&repeated, &joined))
    }

    /// Repeats each element `repeats` times along `axis`.
    ///
    /// # Panics
    /// Panics if `axis` is out of range.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// assert_eq!(Tensor::from([1, 2]).repeat(2, 0), Tensor::from([1, 1, 2, 2]));
    /// ```
    #[doc(alias("jnp.repeat", "torch.repeat_interleave"))]
    #[panicking_twin(repeat, Axis)]
    pub fn try_repeat(&self, repeats: usize, axis: isize) -> Result<Self, TensorError> {
        let _called = called("repeat");
        let axis = axis_of("repeat", self.info(), axis)?;
        let mut pairs = self.info().shape.clone();
        pairs.insert(axis + 1, repeats);
        let own: AxisList = (0..=self.rank())
            .filter(|&place| place != axis + 1)
            .collect();
        let repeated = broadcast_in_dim(self, &pairs, &own)?;
        let mut joined = self.info().shape.clone();
        joined[axis] *= repeats;
        reshape(&repeated, &joined)
    }

    /// Splits the tensor along `axis` into `parts` parts of equal length. [`array_split`](Self::array_split) also
    /// accepts a length that is not a multiple of `parts`.
    ///
    /// # Panics
    /// Panics if `axis` is out of range, or if the length of the axis is not a multiple of `parts`.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// let parts = Tensor::from([1, 2, 3, 4]).split(2, 0);
    /// assert_eq!(parts, [Tensor::from([1, 2]), Tensor::from([3, 4])]);
    /// ```
    #[doc(alias("jnp.split", "torch.chunk"))]
    #[must_use]
    #[panicking_twin(split, Axis | Shape)]
    pub fn try_split(&self, parts: usize, axis: isize) -> Result<Vec<Self>, TensorError> {
        let place = axis_of("split", self.info(), axis)?;
        let length = self.shape()[place];
        if parts == 0 || !length.is_multiple_of(parts) {
            return Err(TensorError::shape(
                "split",
                &[self.info()],
                format!(
                    "axis {place} of length {length} cannot be divided into {parts} equal parts"
                ),
                "use `array_split` or `split_at` for parts of different lengths",
            ));
        }
        let _called = called("split");
        self.try_array_split(parts, axis)
    }

    /// Splits the tensor along `axis` into `parts` parts. If the length of the axis is not a multiple of `parts`, the
    /// first parts are longer by one.
    ///
    /// # Panics
    /// Panics if `axis` is out of range, or if `parts` is 0.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// let parts = Tensor::from([1, 2, 3]).array_split(2, 0);
    /// assert_eq!(parts, [Tensor::from([1, 2]), Tensor::from([3])]);
    /// ```
    #[doc(alias("jnp.array_split", "torch.tensor_split"))]
    #[must_use]
    #[panicking_twin(array_split, Axis | Shape)]
    pub fn try_array_split(&self, parts: usize, axis: isize) -> Result<Vec<Self>, TensorError> {
        let place = axis_of("array_split", self.info(), axis)?;
        if parts == 0 {
            return Err(TensorError::shape(
                "array_split",
                &[self.info()],
                "the number of parts is 0",
                "split the axis into at least 1 part",
            ));
        }
        let length = self.shape()[place];
        let (least, longer) = (length / parts, length % parts);
        let cut = |part: usize| part * least + part.min(longer);
        let mut places = Vec::new();
        let bytes = parts as u128 * (size_of::<usize>() + size_of::<Self>()) as u128;
        let granted = usize::try_from(bytes).is_ok_and(is_granted);
        if !granted {
            return Err(TensorError::shape(
                "array_split",
                &[self.info()],
                format!("{bytes} bytes of memory for {parts} parts are not available"),
                "split the axis into fewer parts",
            ));
        }
        places.extend((1..parts).map(cut));
        let _called = called("array_split");
        self.try_split_at(&places, axis)
    }

    /// Splits the tensor along `axis` before each of the ascending `positions`. As in NumPy, a position beyond the end
    /// is followed by an empty part.
    ///
    /// # Panics
    /// Panics if `axis` is out of range, or if the positions are not in ascending order.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// let parts = Tensor::from([1, 2, 3, 4]).split_at([1, 3], 0);
    /// assert_eq!(parts, [Tensor::from([1]), Tensor::from([2, 3]), Tensor::from([4])]);
    /// ```
    #[doc(alias("jnp.split", "torch.split"))]
    #[must_use]
    #[panicking_twin(split_at, Axis | Shape)]
    pub fn try_split_at(
        &self,
        positions: impl AsRef<[usize]>,
        axis: isize,
    ) -> Result<Vec<Self>, TensorError> {
        let (axis, positions) = (axis_of("split_at", self.info(), axis)?, positions.as_ref());
        if !positions.is_sorted() {
            return Err(TensorError::shape(
                "split_at",
                &[self.info()],
                format!("the positions {positions:?} are not in ascending order"),
                "sort the positions",
            ));
        }
        let length = self.shape()[axis];
        let ends = positions.iter().map(|&position| position.min(length));
        let mut parts = Vec::with_capacity(positions.len() + 1);
        let mut start = 0;
        for end in ends.chain([length]) {
            parts.push(along(self, axis, start, end)?);
            start = end;
        }
        Ok(parts)
    }

    /// Swaps two axes of the tensor.
    ///
    /// # Panics
    /// Panics if an axis is out of range.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::{DType, Tensor};
    /// assert_eq!(Tensor::zeros(DType::F32, [2, 3, 4]).swap_axes(0, -1).shape(), [4, 3, 2]);
    /// ```
    #[doc(alias("jnp.swapaxes", "torch.Tensor.transpose"))]
    #[panicking_twin(swap_axes, Axis)]
    pub fn try_swap_axes(&self, axis1: isize, axis2: isize) -> Result<Self, TensorError> {
        let first = axis_of("swap axes of", self.info(), axis1)?;
        let second = axis_of("swap axes of", self.info(), axis2)?;
        let mut permutation: AxisList = (0..self.rank()).collect();
        permutation.swap(first, second);
        transpose(self, &permutation)
    }
}

/// Evenly spaced numbers.
impl Tensor {
    /// Returns `count` evenly spaced numbers from `start` to `end`, including `end`, as a tensor of shape `[count]`.
    ///
    /// # Panics
    /// Panics if the dtype is not a float type.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::{DType, Tensor};
    /// assert_eq!(Tensor::linspace(DType::F64, 0.0, 1.0, 3), Tensor::from([0.0, 0.5, 1.0]));
    /// ```
    #[doc(alias("jnp.linspace", "torch.linspace"))]
    #[must_use]
    #[track_caller]
    pub fn linspace(dtype: DType, start: f64, end: f64, count: usize) -> Self {
        let _called = called("linspace");
        if !dtype.is_float() {
            let found = AbstractArray::new(dtype, [count]);
            let error = TensorError::dtype("linspace", &[&found], "a float dtype");
            return or_panic(Err(error));
        }
        if count < 2 {
            return Self::full(dtype, [count], start);
        }
        // Interpolate between `start` and `end`, so that the first and the last number are exact.
        let steps = (count - 1) as f64;
        let towards = or_panic(create::iota(wide(dtype), &[count - 1], 0)) / steps;
        let inner = (start * (1.0 - &towards) + end * &towards).convert(dtype);
        or_panic(concatenate(&[&inner, &Self::full(dtype, [1], end)], 0))
    }

    /// Returns the coordinates of a grid. Result `i` has the elements of tensor `i` along axis `i`, and repeats them
    /// along all other axes. The lengths of the tensors are the shape of each result. The tensors may be references.
    ///
    /// Equivalent to `np.meshgrid` with `indexing="ij"`. NumPy's default swaps the first two axes.
    ///
    /// # Panics
    /// Panics unless each tensor has exactly one axis.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// let (x, y) = (Tensor::from([1, 2]), Tensor::from([3, 4, 5]));
    /// let grid = Tensor::meshgrid(&[&x, &y]);
    /// assert_eq!(grid[0], Tensor::from([[1, 1, 1], [2, 2, 2]]));
    /// assert_eq!(grid[1], Tensor::from([[3, 4, 5], [3, 4, 5]]));
    /// ```
    #[doc(alias("jnp.meshgrid", "torch.meshgrid"))]
    #[must_use]
    #[panicking_twin(meshgrid, Shape)]
    pub fn try_meshgrid(tensors: &[impl Borrow<Self>]) -> Result<Vec<Self>, TensorError> {
        let tensors: Vec<&Self> = tensors.iter().map(Borrow::borrow).collect();
        if tensors.iter().any(|tensor| tensor.rank() != 1) {
            let found: Vec<&AbstractArray> = tensors.iter().map(|x| x.info()).collect();
            let problem = "each tensor must have one axis";
            return Err(TensorError::shape(
                "meshgrid",
                &found,
                problem,
                "flatten the tensors first",
            ));
        }
        let _called = called("meshgrid");
        let lengths: Shape = tensors.iter().map(|x| x.len()).collect();
        let axes = tensors.iter().enumerate();
        axes.map(|(axis, tensor)| broadcast_in_dim(tensor, &lengths, &[axis]))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_tensors_roll_repeat_and_split() {
        let nothing = Tensor::zeros(DType::F32, [0, 2]);
        assert_eq!(nothing.roll(3, 0), nothing);
        assert_eq!(nothing.tile([2, 2]).shape(), [0, 4]);
        assert_eq!(nothing.repeat(3, 1).shape(), [0, 6]);
        assert_eq!(nothing.split(2, 0).len(), 2);
        let x = Tensor::from(5);
        assert_eq!(x.tile([]), x);
        assert_eq!(x.tile([2]), Tensor::from([5, 5]));
        assert_eq!(Tensor::from([1, 2]).tile([0]).shape(), [0]);
        assert_eq!(Tensor::from([1, 2]).array_split(3, 0)[2].shape(), [0]);
        assert_eq!(Tensor::from([1, 2]).split_at([5], 0)[1].shape(), [0]);
    }

    #[test]
    fn errors_name_the_mistake() {
        let x = Tensor::from([1, 2, 3]);
        let error = x.try_split(2, 0).unwrap_err().to_string();
        assert_eq!(
            error,
            "cannot split i32[3]: axis 0 of length 3 cannot be divided into 2 equal parts; use `array_split` or \
             `split_at` for parts of different lengths"
        );
        assert!(x.try_split(0, 0).is_err());
        assert!(x.try_array_split(0, 0).is_err());
        assert!(x.try_split_at([2, 1], 0).is_err());
        assert!(x.try_roll(1, 1).is_err());
        assert!(Tensor::try_meshgrid(&[Tensor::from(1)]).is_err());
    }
}
