//! Windows of a tensor whose place may be traced.

use pytree_base::lists::Tuple;
use pytree_kernels::base::shape::AxisList;
use pytree_kernels::loops::elementwise::{Binary, Comparison};
use pytree_kernels::loops::update_slice;
use smallvec::SmallVec;

use crate::primitives::create::{broadcast_in_dim, iota, known_scalar, or_zeros};
use crate::primitives::elementwise::{binary, compare};
use crate::primitives::gather::{Take, take};
use crate::primitives::prelude::*;
use crate::primitives::select::select;
use crate::primitives::shape::batch_axis_first;
use crate::primitives::slice::part::slice;

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
    let mut window = operand.clone();
    for (&axis, start) in axes.iter().zip(starts) {
        let (size, length) = (sizes[axis], operand.shape()[axis]);
        let start = clamped(start, size, length)?;
        let places = binary(Binary::Add, &iota(start.dtype(), &[size], 0)?, &start)?;
        window = take(&window, &places, axis)?;
    }
    Ok(window)
}

/// Clamps a start so that a window of `size` elements is within an axis.
#[track_caller]
fn clamped(start: &Tensor, size: usize, length: usize) -> Result<Tensor, TensorError> {
    let number = |number: usize| Tensor::constant(start.dtype(), number as f64);
    let start = binary(Binary::Max, start, &number(0))?;
    binary(Binary::Min, &start, &number(length - size))
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
            let take = Take {
                axis,
                batch_axes: 1,
            };
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
        let (operand, update, starts) = (operands[0], operands[1], &operands[2..]);
        let is_start = |start: &&AbstractArray| **start == AbstractArray::new(DType::I64, []);
        if operand.dtype != update.dtype || !starts.iter().all(is_start) {
            return Err(TensorError::dtype(
                "update a slice of",
                operands,
                "the same element type in the tensor and the update, and scalars of i64 as starts",
            ));
        }
        let is_within = operand.rank() == update.rank()
            && update
                .shape
                .iter()
                .zip(&operand.shape)
                .all(|(size, length)| size <= length);
        if !is_within || starts.len() != self.axes.len() {
            return Err(TensorError::shape(
                "update a slice of",
                operands,
                format!(
                    "the update does not fit the tensor, or the axes {:?} have other starts",
                    &*self.axes
                ),
                "pass one start for each of these axes, and an update that is no longer than the tensor on any axis",
            ));
        }
        Ok(one(operand.clone()))
    }

    fn evaluate(&self, operands: Operands) -> Outputs<Array> {
        let mut operands = operands.into_iter();
        let (Some(operand), Some(update)) = (operands.next(), operands.next()) else {
            return Outputs::new();
        };
        let mut starts: AxisList = operand.shape().iter().map(|_| 0).collect();
        for (&axis, start) in self.axes.iter().zip(operands) {
            let last = operand.shape()[axis] - update.shape()[axis];
            let start = start.elements::<i64>()[0].max(0);
            starts[axis] = usize::try_from(start).map_or(last, |start| start.min(last));
        }
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
        let starts = (0..operands[0].rank()).map(|axis| {
            let place = self.axes.iter().position(|&other| other == axis);
            place.map_or(&zero, |place| &operands[2 + place])
        });
        let starts: SmallVec<[&Value; 4]> = starts.collect();
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
