//! Windows of a tensor whose place may be traced: reads and updates of them.

use std::sync::Arc;

use pytree_base::lists::Tuple;
use pytree_kernels::base::array::row_major_strides;
use pytree_kernels::base::shape::{AxisList, PerAxis};
use pytree_kernels::loops::elementwise::{Binary, Comparison};
use pytree_kernels::loops::strided::gather;
use pytree_kernels::loops::update_slice;
use smallvec::SmallVec;

use crate::primitives::create::{broadcast_in_dim, iota, known_scalar, or_zeros};
use crate::primitives::elementwise::{binary, compare};
use crate::primitives::gather::Take;
use crate::primitives::prelude::*;
use crate::primitives::select::select;
use crate::primitives::shape::batch_axis_first;
use crate::primitives::slice::part::{inserted, slice};

/// Reads a window of a tensor. The operands are the tensor, and the start of the window on each of `axes`, a scalar of i64. On the other
/// axes, the window begins at 0. A start out of range is clamped, so that the window is within the tensor.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct DynamicSlice {
    pub(crate) axes: AxisList,
    pub(crate) sizes: PerAxis,
}

/// Returns the window of `operand` with the lengths `sizes` that begins at `starts` on `axes`.
#[track_caller]
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a known start is clamped, so it is a position on the axis"
)]
pub(crate) fn window(
    operand: &Tensor,
    axes: &[usize],
    starts: &[Tensor],
    sizes: &[usize],
) -> Result<Tensor, TensorError> {
    let known: Option<SmallVec<[f64; 4]>> = starts.iter().map(known_scalar).collect();
    if let Some(known) = known {
        let mut first: AxisList = sizes.iter().map(|_| 0).collect();
        for (&axis, start) in axes.iter().zip(known) {
            let last = operand.shape()[axis] - sizes[axis];
            first[axis] = start.clamp(0.0, last as f64) as usize;
        }
        let limit: AxisList = first
            .iter()
            .zip(sizes)
            .map(|(first, size)| first + size)
            .collect();
        return slice(operand, &first, &limit, &vec![1; sizes.len()]);
    }
    let operands: Vec<&Tensor> = std::iter::once(operand).chain(starts).collect();
    let (axes, sizes) = (AxisList::from_slice(axes), PerAxis::from_slice(sizes));
    bind_one(&DynamicSlice { axes, sizes }, &operands)
}

/// Clamps a start so that a window of `size` elements is within an axis.
#[track_caller]
fn clamped(start: &Tensor, size: usize, length: usize) -> Result<Tensor, TensorError> {
    let number = |number: usize| Tensor::constant(start.dtype(), number as f64);
    let start = binary(Binary::Max, start, &number(0))?;
    binary(Binary::Min, &start, &number(length - size))
}

/// Returns the first position of a window on each axis.
fn first_positions(
    axes: &[usize],
    shape: &[usize],
    sizes: &[usize],
    starts: impl Iterator<Item = Arc<Array>>,
) -> AxisList {
    let mut first: AxisList = shape.iter().map(|_| 0).collect();
    for (&axis, start) in axes.iter().zip(starts) {
        let last = shape[axis] - sizes[axis];
        let start = start.elements::<i64>()[0].max(0);
        first[axis] = usize::try_from(start).map_or(last, |start| start.min(last));
    }
    first
}

/// Checks that a window is within a tensor, and that there is a start, a scalar of i64, for each of its axes.
fn check_window(
    doing: &'static str,
    operands: &[&AbstractArray],
    starts: &[&AbstractArray],
    (axes, sizes): (&[usize], &[usize]),
) -> Result<(), TensorError> {
    let is_start = |start: &&AbstractArray| **start == AbstractArray::new(DType::I64, []);
    if !starts.iter().all(is_start) {
        return Err(TensorError::dtype(
            doing,
            operands,
            "scalars of i64 as starts",
        ));
    }
    let shape = &operands[0].shape;
    let is_within =
        sizes.len() == shape.len() && sizes.iter().zip(shape).all(|(size, length)| size <= length);
    if !is_within || starts.len() != axes.len() {
        return Err(TensorError::shape(
            doing,
            operands,
            format!(
                "the window {sizes:?} does not fit the tensor, or the axes {axes:?} have other starts"
            ),
            "pass one start for each of these axes, and a window that is no longer than the tensor on any axis",
        ));
    }
    Ok(())
}

impl DynamicSlice {
    fn bind(&self, operand: &Tensor, starts: &[Tensor]) -> Tensor {
        or_panic(window(operand, &self.axes, starts, &self.sizes))
    }

    /// Reads the window of each example at its own start. The starts have a batch axis, and the operand may have one.
    #[track_caller]
    fn take(
        &self,
        operand: &Tensor,
        axis: Option<usize>,
        starts: &[Tensor],
        batch: &BatchAxis,
    ) -> Result<(Tensor, Option<usize>), TensorError> {
        let (mut window, mut batched) = (operand.clone(), axis);
        for (&axis, start) in self.axes.iter().zip(starts) {
            let is_before = batched.is_some_and(|batched| batched <= axis);
            let length = window.shape()[axis + usize::from(is_before)];
            let start = clamped(start, self.sizes[axis], length)?;
            let shape = [batch.size, self.sizes[axis]];
            let start = broadcast_in_dim(&start, &shape, &[0])?;
            let places = binary(Binary::Add, &iota(DType::I64, &shape, 1)?, &start)?;
            let take = Take::clamped(axis, 0);
            let (mut windows, axes) = take.batch(&[window, places], &[batched, Some(0)], batch);
            (window, batched) = (windows.remove(0), axes[0]);
        }
        Ok((window, batched))
    }
}

impl Primitive for DynamicSlice {
    fn name(&self) -> &'static str {
        "dynamic_slice"
    }

    fn abstract_evaluation(&self, operands: &[&AbstractArray]) -> AbstractResults {
        let window = (&self.axes[..], &self.sizes[..]);
        check_window("slice", &operands[..1], &operands[1..], window)?;
        Ok(one(AbstractArray::new(operands[0].dtype, &self.sizes)))
    }

    fn evaluate(&self, operands: Operands) -> Outputs<Array> {
        let mut operands = operands.into_iter();
        let Some(operand) = operands.next() else {
            return Outputs::new();
        };
        let strides = row_major_strides(operand.shape());
        let first = first_positions(&self.axes, operand.shape(), &self.sizes, operands);
        let offset = first.iter().zip(&strides).map(|(at, stride)| at * stride);
        let steps: PerAxis<isize> = strides.iter().map(|stride| stride.cast_signed()).collect();
        one(gather(&operand, &self.sizes, &steps, offset.sum()))
    }

    fn jvp(&self, primals: &[Tensor], tangents: &[Option<Tensor>]) -> WithTangents {
        let starts = &primals[1..];
        let tangent = tangents[0].as_ref();
        let tangent = tangent.map(|tangent| self.bind(tangent, starts));
        (one(self.bind(&primals[0], starts)), one(tangent))
    }

    fn transpose(&self, cotangents: &[Option<Tensor>], operands: &[Linear]) -> Cotangents {
        let mut found: Cotangents = operands.iter().map(|_| None).collect();
        if let Some(cotangent) = &cotangents[0] {
            let starts = operands[1..].iter();
            let starts: Vec<Tensor> = starts.map(|start| start.known().clone()).collect();
            let zeros = or_zeros(None, &operands[0].info());
            let spread = update_slice(&zeros, cotangent, &self.axes, &starts);
            found[0] = Some(or_panic(spread));
        }
        found
    }

    fn batch(&self, operands: &[Tensor], axes: &[Option<usize>], batch: &BatchAxis) -> Batched {
        if axes[1..].iter().all(Option::is_none) {
            let operand = or_panic(batch_axis_first(&operands[0], axes[0], batch.size));
            let batched = Self {
                axes: self.axes.iter().map(|axis| axis + 1).collect(),
                sizes: inserted(&self.sizes, 0, batch.size),
            };
            return (one(batched.bind(&operand, &operands[1..])), one(Some(0)));
        }
        let first = |at: usize| or_panic(batch_axis_first(&operands[at], axes[at], batch.size));
        let starts: Vec<Tensor> = (1..operands.len()).map(first).collect();
        let (window, axis) = or_panic(self.take(&operands[0], axes[0], &starts, batch));
        (one(window), one(axis))
    }

    fn lower(&self, block: &mut Block<'_>, operands: &[Value], _: &Infos<'_>) -> Lowered {
        let zero = block.number(&AbstractArray::new(DType::I64, []), 0.0);
        let starts = starts_of_all_axes(&self.axes, operands[0].rank(), &operands[1..], &zero);
        Ok(one(block.window(&operands[0], &starts, &self.sizes)))
    }

    fn accepts_narrow(&self) -> bool {
        true
    }

    fn write_parameters(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { axes, sizes } = self;
        write!(f, "axes={} slice_sizes={}", Tuple(axes), Tuple(sizes))
    }
}

/// Returns the start on each axis: one of `starts` on `axes`, and `zero` on the others.
fn starts_of_all_axes<'v>(
    axes: &[usize],
    rank: usize,
    starts: &'v [Value],
    zero: &'v Value,
) -> SmallVec<[&'v Value; 4]> {
    let start = |axis: usize| {
        let place = axes.iter().position(|&other| other == axis);
        place.map_or(zero, |place| &starts[place])
    };
    (0..rank).map(start).collect()
}

/// Writes an update over a window of a tensor. The operands are the tensor, the update, and the start of the window on each of `axes`, a
/// scalar of i64. On the other axes, the window begins at 0. A start out of range is clamped, so that the window is within the tensor.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct UpdateSlice {
    pub(crate) axes: AxisList,
}

/// Returns `operand` with the window that begins at `starts` on `axes` replaced by `update`.
#[track_caller]
pub(crate) fn update_slice(
    operand: &Tensor,
    update: &Tensor,
    axes: &[usize],
    starts: &[Tensor],
) -> Result<Tensor, TensorError> {
    let operands: Vec<&Tensor> = [operand, update].into_iter().chain(starts).collect();
    let axes = AxisList::from_slice(axes);
    bind_one(&UpdateSlice { axes }, &operands)
}

impl UpdateSlice {
    fn bind(&self, operand: &Tensor, update: &Tensor, starts: &[Tensor]) -> Tensor {
        or_panic(update_slice(operand, update, &self.axes, starts))
    }

    /// Writes the update of each example at its own start, `[batch]`. The batch axis is the first one.
    #[track_caller]
    fn select(
        &self,
        operand: &Tensor,
        update: &Tensor,
        starts: &[Tensor],
    ) -> Result<Tensor, TensorError> {
        let (mut spread, mut inside) = (update.clone(), None);
        let first: AxisList = AxisList::from_slice(&[0]);
        for (axis, start) in self.axes.iter().map(|axis| axis + 1).zip(starts) {
            let (size, length) = (update.shape()[axis], operand.shape()[axis]);
            let start = clamped(start, size, length)?;
            let shape = [operand.shape()[0], length];
            let places = iota(DType::I64, &shape, 1)?;
            let places = binary(
                Binary::Sub,
                &places,
                &broadcast_in_dim(&start, &shape, &first)?,
            )?;
            let take = Take::clamped(axis, 1);
            spread = bind_one(&take, &[&spread, &places])?;
            let number = |number: usize| Tensor::constant(DType::I64, number as f64);
            let from_start = compare(Comparison::Ge, &places, &number(0))?;
            let to_end = compare(Comparison::Lt, &places, &number(size))?;
            let here = binary(Binary::And, &from_start, &to_end)?;
            let here = broadcast_in_dim(&here, operand.shape(), &[0, axis])?;
            inside = Some(match inside {
                Some(inside) => binary(Binary::And, &inside, &here)?,
                None => here,
            });
        }
        match inside {
            Some(inside) => select(&inside, &spread, operand),
            None => Ok(spread),
        }
    }
}

impl Primitive for UpdateSlice {
    fn name(&self) -> &'static str {
        "dynamic_update_slice"
    }

    fn abstract_evaluation(&self, operands: &[&AbstractArray]) -> AbstractResults {
        let (operand, update) = (operands[0], operands[1]);
        if operand.dtype != update.dtype {
            return Err(TensorError::dtype(
                "update a slice of",
                operands,
                "the same element type in the tensor and the update",
            ));
        }
        let window = (&self.axes[..], &update.shape[..]);
        check_window("update a slice of", &operands[..2], &operands[2..], window)?;
        Ok(one(operand.clone()))
    }

    fn evaluate(&self, operands: Operands) -> Outputs<Array> {
        let mut operands = operands.into_iter();
        let (Some(operand), Some(update)) = (operands.next(), operands.next()) else {
            return Outputs::new();
        };
        let starts = first_positions(&self.axes, operand.shape(), update.shape(), operands);
        one(update_slice::update_slice(operand, &update, &starts))
    }

    fn jvp(&self, primals: &[Tensor], tangents: &[Option<Tensor>]) -> WithTangents {
        let starts = &primals[2..];
        let tangent = tangents[..2].iter().any(Option::is_some).then(|| {
            let [operand, update] =
                [0, 1].map(|place| or_zeros(tangents[place].as_ref(), primals[place].info()));
            self.bind(&operand, &update, starts)
        });
        let result = self.bind(&primals[0], &primals[1], starts);
        (one(result), one(tangent))
    }

    fn transpose(&self, cotangents: &[Option<Tensor>], operands: &[Linear]) -> Cotangents {
        let mut found: Cotangents = operands.iter().map(|_| None).collect();
        let Some(cotangent) = &cotangents[0] else {
            return found;
        };
        let starts: Vec<Tensor> = operands[2..]
            .iter()
            .map(|start| start.known().clone())
            .collect();
        let update = operands[1].info();
        if operands[0].is_unknown() {
            found[0] = Some(self.bind(cotangent, &or_zeros(None, &update), &starts));
        }
        if operands[1].is_unknown() {
            found[1] = Some(or_panic(window(
                cotangent,
                &self.axes,
                &starts,
                &update.shape,
            )));
        }
        found
    }

    fn batch(&self, operands: &[Tensor], axes: &[Option<usize>], batch: &BatchAxis) -> Batched {
        let first =
            |place: usize| or_panic(batch_axis_first(&operands[place], axes[place], batch.size));
        let (operand, update) = (first(0), first(1));
        let result = if axes[2..].iter().all(Option::is_none) {
            let axes = self.axes.iter().map(|axis| axis + 1).collect();
            Self { axes }.bind(&operand, &update, &operands[2..])
        } else {
            let starts: Vec<Tensor> = (2..operands.len()).map(first).collect();
            or_panic(self.select(&operand, &update, &starts))
        };
        (one(result), one(Some(0)))
    }

    fn lower(&self, block: &mut Block<'_>, operands: &[Value], _: &Infos<'_>) -> Lowered {
        let zero = block.number(&AbstractArray::new(DType::I64, []), 0.0);
        let starts = starts_of_all_axes(&self.axes, operands[0].rank(), &operands[2..], &zero);
        Ok(one(block.with_window(&operands[0], &operands[1], &starts)))
    }

    fn overwritten(&self) -> Option<usize> {
        Some(0)
    }

    fn accepts_narrow(&self) -> bool {
        true
    }

    fn write_parameters(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "axes={}", Tuple(&self.axes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::primitives::shape::tests::rule_checks::{
        check_batching, check_tangent, check_transpose, noise,
    };

    #[test]
    fn rules_of_windows_agree_with_evaluation() {
        let window = DynamicSlice {
            axes: AxisList::from_slice(&[0, 2]),
            sizes: PerAxis::from_slice(&[2, 3, 1]),
        };
        for [first, second] in [[0, 0], [1, 2], [-3, i64::MAX]] {
            let starts = [Tensor::from(first), Tensor::from(second)];
            let [first, second] = starts;
            let operands = [noise(&[4, 3, 5], 1), first.clone(), second.clone()];
            check_transpose(&window, &operands, 0);
            check_tangent(&window, &operands);
            let batched = [noise(&[4, 6, 3, 5], 1), first, second];
            check_batching(&window, &batched, &[Some(1), None, None]);
        }
        let each = Tensor::from([0_i64, 1, -2, 5, 2, 1]);
        let last = Tensor::from(3_i64);
        for (operand, axis) in [
            (noise(&[4, 3, 5], 1), None),
            (noise(&[4, 6, 3, 5], 1), Some(1)),
        ] {
            let operands = [operand, each.clone(), last.clone()];
            check_batching(&window, &operands, &[axis, Some(0), None]);
        }
    }

    #[test]
    fn rules_of_updates_agree_with_evaluation() {
        let update = UpdateSlice {
            axes: AxisList::from_slice(&[0, 2]),
        };
        let starts = |first: i64, second: i64| [Tensor::from(first), Tensor::from(second)];
        for [first, second] in [[0, 0], [1, 2], [-3, i64::MAX]] {
            let [first, second] = starts(first, second);
            let operands = [
                noise(&[4, 3, 5], 1),
                noise(&[2, 3, 1], 2),
                first.clone(),
                second.clone(),
            ];
            check_transpose(&update, &operands, 0);
            check_transpose(&update, &operands, 1);
            check_tangent(&update, &operands);
            let batched = [
                noise(&[4, 6, 3, 5], 1),
                noise(&[2, 3, 1, 6], 2),
                first,
                second,
            ];
            check_batching(&update, &batched, &[Some(1), Some(3), None, None]);
        }
        let each = Tensor::from([0_i64, 1, -2, 5, 2, 1]);
        let operands = [
            noise(&[6, 4, 3, 5], 1),
            noise(&[2, 3, 1], 2),
            each,
            Tensor::from(3_i64),
        ];
        check_batching(&update, &operands, &[Some(0), None, Some(0), None]);
    }
}
