//! The plan of an indexing operation: a slice, a reversal and a reshape. The plan can also write a part back to the
//! selected positions.

use std::ops::Bound;

use pytree_kernels::base::dtype::{AbstractArray, DType};
use pytree_kernels::base::shape::{AxisList, PerAxis, Shape};

use crate::base::error::TensorError;
use crate::primitives::select::select;
use crate::primitives::{create, shape, slice};
use crate::tensor::Tensor;

/// The ascending positions of a range on an axis: every `stride`-th position from `start` up to, but not including,
/// `limit`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Positions {
    start: usize,
    limit: usize,
    stride: usize,
}

impl Positions {
    fn of_range((start, end): Bounds, step: isize, length: usize) -> Self {
        let from_front = |position: isize| {
            if position < 0 {
                position.saturating_add(length.cast_signed())
            } else {
                position
            }
        };
        let clipped = |position: isize| position.max(0).cast_unsigned().min(length);
        let end = match end {
            Bound::Excluded(end) => clipped(from_front(end)),
            Bound::Included(last) => clipped(from_front(last).saturating_add(1)),
            Bound::Unbounded => length,
        };
        let start = start.map_or(0, |start| clipped(from_front(start))).min(end);
        // A step longer than the axis selects one element. Clamping the stride prevents an overflow in later products.
        let stride = step.unsigned_abs().min(length.max(1));
        if step < 0 && start < end {
            // The step counts backward from the last element, so the first positions of the range may be omitted.
            return Self {
                start: start + (end - 1 - start) % stride,
                limit: end,
                stride,
            };
        }
        Self {
            start,
            limit: end,
            stride,
        }
    }

    fn count(self) -> usize {
        (self.limit - self.start).div_ceil(self.stride)
    }
}

/// The slice to take, the axes to reverse, and the shape of the result. The shape of the result lacks each axis whose
/// index is a single position.
pub(in crate::operations) struct Plan {
    start: PerAxis,
    limit: PerAxis,
    stride: PerAxis,
    reversed: AxisList,
    pub(in crate::operations) shape: Shape,
}

fn refused(found: &AbstractArray, problem: String, fix: String) -> TensorError {
    TensorError::shape("index", &[found], problem, fix)
}

impl Plan {
    pub(in crate::operations) fn new(
        found: &AbstractArray,
        indices: &[Index],
    ) -> Result<Self, TensorError> {
        let used = indices
            .iter()
            .filter(|index| matches!(index, Index::At(_) | Index::Range { .. }))
            .count();
        let ellipses = indices
            .iter()
            .filter(|index| matches!(index, Index::Ellipsis))
            .count();
        if used > found.rank() || ellipses > 1 {
            let problem = match ellipses {
                0 | 1 => format!("there are {used} indices for {} axes", found.rank()),
                _ => format!("there are {ellipses} ellipses"),
            };
            return Err(refused(
                found,
                problem,
                "give at most one index for each axis, and at most one ellipsis".to_owned(),
            ));
        }
        let mut plan = Self {
            start: PerAxis::new(),
            limit: PerAxis::new(),
            stride: PerAxis::new(),
            reversed: AxisList::new(),
            shape: Shape::new(),
        };
        let rest = found.rank() - used;
        for index in indices {
            match *index {
                Index::At(position) => plan.push_position(found, position)?,
                Index::Range { start, end, step } => plan.push_range(found, (start, end), step)?,
                Index::Ellipsis => plan.push_whole(found, rest),
                Index::NewAxis => plan.shape.push(1),
            }
        }
        let left = found.rank() - plan.start.len();
        plan.push_whole(found, left);
        Ok(plan)
    }

    /// Returns the part of a tensor that the plan selects.
    #[track_caller]
    pub(in crate::operations) fn part(&self, tensor: &Tensor) -> Result<Tensor, TensorError> {
        let part = slice::slice(tensor, &self.start, &self.limit, &self.stride)?;
        let part = slice::reverse(&part, &self.reversed)?;
        shape::reshape(&part, &self.shape)
    }

    /// Returns a tensor of shape `whole` with `part` at the selected positions, and `value` elsewhere.
    #[track_caller]
    pub(in crate::operations) fn put_back(
        &self,
        part: &Tensor,
        value: &Tensor,
        whole: &[usize],
    ) -> Result<Tensor, TensorError> {
        let part = self.in_place(part)?;
        let interior: PerAxis = self.stride.iter().map(|stride| stride - 1).collect();
        let low: PerAxis<isize> = self.start.iter().map(|start| start.cast_signed()).collect();
        let high: PerAxis<isize> = (0..whole.len())
            .map(|axis| {
                let length = part.shape()[axis];
                let spread = length + length.saturating_sub(1) * interior[axis];
                whole[axis].cast_signed() - low[axis] - spread.cast_signed()
            })
            .collect();
        slice::pad(&part, value, &low, &high, &interior)
    }

    /// Returns a tensor with `part` at the selected positions.
    #[track_caller]
    pub(in crate::operations) fn replace(
        &self,
        tensor: &Tensor,
        part: &Tensor,
    ) -> Result<Tensor, TensorError> {
        let placed = self.in_place(part)?;
        if placed.is_empty() {
            return Ok(tensor.clone());
        }
        let (lengths, whole) = (placed.shape(), tensor.shape());
        if (0..whole.len()).any(|axis| self.stride[axis] > 1 && lengths[axis] > 1) {
            let spread = self.put_back(part, &Tensor::constant(part.dtype(), 0.0), whole)?;
            let inside = create::full(DType::Bool, part.shape(), 1.0)?;
            let inside = self.put_back(&inside, &Tensor::scalar(false), whole)?;
            return select(&inside, &spread, tensor);
        }
        let axes: AxisList = (0..whole.len())
            .filter(|&axis| lengths[axis] != whole[axis])
            .collect();
        if axes.is_empty() {
            return Ok(placed);
        }
        let start = |&axis: &usize| Tensor::constant(DType::I64, self.start[axis] as f64);
        let starts: Vec<Tensor> = axes.iter().map(start).collect();
        slice::update_slice(tensor, &placed, &axes, &starts)
    }

    /// Returns a part with the axes of the tensor, in the order of the positions.
    #[track_caller]
    fn in_place(&self, part: &Tensor) -> Result<Tensor, TensorError> {
        let count = |axis: usize| (self.limit[axis] - self.start[axis]).div_ceil(self.stride[axis]);
        let lengths: Shape = (0..self.start.len()).map(count).collect();
        slice::reverse(&shape::reshape(part, &lengths)?, &self.reversed)
    }

    fn push(
        &mut self,
        Positions {
            start,
            limit,
            stride,
        }: Positions,
    ) {
        self.start.push(start);
        self.limit.push(limit);
        self.stride.push(stride);
    }

    fn push_position(&mut self, found: &AbstractArray, position: isize) -> Result<(), TensorError> {
        let axis = self.start.len();
        let length = found.shape[axis];
        let from_front = if position < 0 {
            position.saturating_add(length.cast_signed())
        } else {
            position
        };
        match usize::try_from(from_front) {
            Ok(place) if place < length => {
                self.push(Positions {
                    start: place,
                    limit: place + 1,
                    stride: 1,
                });
                Ok(())
            }
            _ => {
                let problem = format!(
                    "position {position} is out of range on axis {axis}, which has length {length}"
                );
                let fix = match length {
                    0 => "use a range, because the axis has no elements".to_owned(),
                    _ => format!("use a position from -{length} to {}", length - 1),
                };
                Err(refused(found, problem, fix))
            }
        }
    }

    fn push_range(
        &mut self,
        found: &AbstractArray,
        bounds: Bounds,
        step: isize,
    ) -> Result<(), TensorError> {
        let axis = self.start.len();
        if step == 0 {
            return Err(refused(
                found,
                format!("the step on axis {axis} is 0"),
                "use a step of 1, or -1 to reverse the axis".to_owned(),
            ));
        }
        let positions = Positions::of_range(bounds, step, found.shape[axis]);
        if step < 0 && positions.count() > 1 {
            self.reversed.push(axis);
        }
        self.push(positions);
        self.shape.push(positions.count());
        Ok(())
    }

    fn push_whole(&mut self, found: &AbstractArray, count: usize) {
        for _ in 0..count {
            let length = found.shape[self.start.len()];
            self.push(Positions {
                start: 0,
                limit: length,
                stride: 1,
            });
            self.shape.push(length);
        }
    }
}

/// An index of one axis, for [`Tensor::index`]. [`ix!`](crate::ix) builds indices from numbers and ranges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Index {
    /// Selects the element at this position and removes the axis. A negative position counts from the end.
    At(isize),
    /// Selects the elements from `start` to `end`. Negative bounds count from the end. As in NumPy, positions out of
    /// range are omitted.
    Range {
        /// The first position of the range. `None` means 0.
        start: Option<isize>,
        /// The end of the range, included or excluded. [`Bound::Unbounded`] means the length of the axis.
        end: Bound<isize>,
        /// The distance between selected positions. With a negative step, the selection begins at the last element of
        /// the range and runs backwards.
        step: isize,
    },
    /// Selects all axes that no other index selects, like `...` in NumPy.
    Ellipsis,
    /// Inserts a new axis of length 1.
    NewAxis,
}

/// The bounds of a range: its start and its end.
pub(super) type Bounds = (Option<isize>, Bound<isize>);
