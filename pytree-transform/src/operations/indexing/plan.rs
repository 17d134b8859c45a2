//! What indexing comes to: a slice, a reversal, a reshape; and the way back, which lays a part at its place.

use smallvec::SmallVec;

use super::{Bounds, Index};
use crate::base::dtype::{AbstractArray, Shape};
use crate::base::error::TensorError;
use crate::primitives::{shape, slice};
use crate::tensor::Tensor;

/// The ascending positions that a range names on an axis: every `stride`-th from `start` to before `limit`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Positions {
    start: usize,
    limit: usize,
    stride: usize,
}

impl Positions {
    fn of_range((start, end, inclusive): Bounds, step: isize, length: usize) -> Self {
        let from_front = |position: isize| {
            if position < 0 {
                position.saturating_add(length.cast_signed())
            } else {
                position
            }
        };
        let clipped = |position: isize| position.max(0).cast_unsigned().min(length);
        let end = end.map_or(length, |end| {
            clipped(from_front(end).saturating_add(isize::from(inclusive)))
        });
        let start = start.map_or(0, |start| clipped(from_front(start))).min(end);
        // A step over the whole axis meets one element, as any longer one does, which no product may overflow with.
        let stride = step.unsigned_abs().min(length.max(1));
        if step < 0 && start < end {
            // From the last element on backwards, which may leave some out at the start.
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

/// What indexing comes to: a slice, the axes to reverse, and the shape without and with some axes.
pub(in crate::operations) struct Plan {
    start: Shape,
    limit: Shape,
    stride: Shape,
    reversed: Shape,
    pub(in crate::operations) shape: Shape,
}

fn refused(found: &AbstractArray, problem: String, mend: String) -> TensorError {
    TensorError::shape("index", &[found], problem, mend)
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
                "give at most one index for each axis, and one ellipsis".to_owned(),
            ));
        }
        let mut plan = Self {
            start: Shape::new(),
            limit: Shape::new(),
            stride: Shape::new(),
            reversed: Shape::new(),
            shape: Shape::new(),
        };
        let rest = found.rank() - used;
        for index in indices {
            match *index {
                Index::At(position) => plan.push_position(found, position)?,
                Index::Range {
                    start,
                    end,
                    inclusive,
                    step,
                } => plan.push_range(found, (start, end, inclusive), step)?,
                Index::Ellipsis => plan.push_whole(found, rest),
                Index::NewAxis => plan.shape.push(1),
            }
        }
        let left = found.rank() - plan.start.len();
        plan.push_whole(found, left);
        Ok(plan)
    }

    /// The part of a tensor.
    #[track_caller]
    pub(in crate::operations) fn part(&self, tensor: &Tensor) -> Result<Tensor, TensorError> {
        let part = slice::slice(tensor, &self.start, &self.limit, &self.stride)?;
        let part = slice::reverse(&part, &self.reversed)?;
        shape::reshape(&part, &self.shape)
    }

    /// The way back: a part at its place in a tensor of shape `whole`, with `value` around it.
    #[track_caller]
    pub(in crate::operations) fn put_back(
        &self,
        part: &Tensor,
        value: &Tensor,
        whole: &[usize],
    ) -> Result<Tensor, TensorError> {
        let count = |axis: usize| (self.limit[axis] - self.start[axis]).div_ceil(self.stride[axis]);
        let axes = 0..whole.len();
        let lengths: Shape = axes.clone().map(count).collect();
        let interior: Shape = self.stride.iter().map(|stride| stride - 1).collect();
        let low: SmallVec<[isize; 4]> =
            self.start.iter().map(|start| start.cast_signed()).collect();
        let high: SmallVec<[isize; 4]> = axes
            .map(|axis| {
                let spread = lengths[axis] + lengths[axis].saturating_sub(1) * interior[axis];
                whole[axis].cast_signed() - low[axis] - spread.cast_signed()
            })
            .collect();
        let part = shape::reshape(part, &lengths)?;
        let part = slice::reverse(&part, &self.reversed)?;
        slice::pad(&part, value, &low, &high, &interior)
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
                let problem =
                    format!("position {position} is not on axis {axis}, which has length {length}");
                let mend = match length {
                    0 => "an axis without elements takes only ranges".to_owned(),
                    _ => format!("use -{length} to {}", length - 1),
                };
                Err(refused(found, problem, mend))
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
                "use 1, or -1 for backwards".to_owned(),
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
