//! Sums of slices that are scattered to indices. A scattered sum is the transpose of a gather.

use pytree_core::leaf::NumberKind;
use pytree_kernels::base::shape::{PerAxis, Shape};
use pytree_kernels::loops::elementwise::{Binary, Comparison};
use pytree_kernels::loops::gather::{self, Outside};

use super::take::{Take, behind_parallel_axes, check_indices, lower_positions, write_batch_axes};
use crate::primitives::convert::convert;
use crate::primitives::create::{broadcast_in_dim, zeros_like};
use crate::primitives::elementwise::{binary, compare};
use crate::primitives::prelude::*;
use crate::primitives::select::select;
use crate::primitives::shape::{batch_axis_first, move_axis};
use crate::tensor::primitive::{Division, take as take_operands};

/// Returns zeros with length `length` along `axis`, plus the updates at the indices. This primitive is the transpose of [`Take`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ScatterAdd {
    pub(crate) axis: usize,
    pub(crate) length: usize,
    pub(crate) outside: Outside,
    pub(crate) batch_axes: usize,
}

/// Returns zeros with length `length` along `axis`, plus `updates` at `indices`. Updates at indices out of range are dropped.
#[track_caller]
pub(crate) fn scatter_add(
    updates: &Tensor,
    indices: &Tensor,
    axis: usize,
    length: usize,
) -> Result<Tensor, TensorError> {
    let scatter = ScatterAdd {
        axis,
        length,
        outside: Outside::Drop,
        batch_axes: 0,
    };
    bind_one(&scatter, &[updates, indices])
}

impl ScatterAdd {
    /// Returns the transpose of a gather of an operand.
    pub(super) fn of(take: Take, operand: &AbstractArray) -> Self {
        Self {
            axis: take.axis,
            length: operand.shape[take.axis],
            outside: take.outside,
            batch_axes: take.batch_axes,
        }
    }

    pub(super) fn bind(self, updates: &Tensor, indices: &Tensor) -> Tensor {
        or_panic(bind_one(&self, &[updates, indices]))
    }

    /// Returns the gather whose transpose this is.
    pub(crate) fn take(self) -> Take {
        Take {
            axis: self.axis,
            outside: self.outside,
            batch_axes: self.batch_axes,
        }
    }

    /// Replaces each update whose index is out of range by 0.
    pub(super) fn without_dropped(
        self,
        updates: &Tensor,
        indices: &Tensor,
    ) -> Result<Tensor, TensorError> {
        let range = indices.dtype().integer_range();
        let holds_length = range.is_none_or(|(_, greatest)| {
            i64::try_from(self.length).is_ok_and(|length| length <= greatest)
        });
        let indices = &if holds_length {
            indices.clone()
        } else {
            convert(indices, DType::I64)?
        };
        let number = |number: f64| Tensor::constant(indices.dtype(), number);
        let length = self.length as f64;
        let below = compare(Comparison::Lt, indices, &number(length))?;
        // `-length` is the least index.
        let is_inside = if indices.dtype().kind() == NumberKind::Unsigned {
            below
        } else {
            let not_before = compare(Comparison::Ge, indices, &number(-length))?;
            binary(Binary::And, &not_before, &below)?
        };
        let after = self.axis + indices.rank() - self.batch_axes;
        let places: PerAxis = (0..self.batch_axes).chain(self.axis..after).collect();
        let is_inside = broadcast_in_dim(&is_inside, updates.shape(), &places)?;
        select(&is_inside, updates, &zeros_like(updates))
    }

    fn result_shape(self, updates: &[usize], indices: &[usize]) -> Shape {
        let after = self.axis + indices.len() - self.batch_axes;
        [&updates[..self.axis], &[self.length], &updates[after..]]
            .concat()
            .into_iter()
            .collect()
    }
}

impl Primitive for ScatterAdd {
    fn name(&self) -> &'static str {
        "scatter_add"
    }

    fn abstract_evaluation(&self, operands: &[&AbstractArray]) -> AbstractResults {
        let (updates, indices) = (operands[0], operands[1]);
        check_indices("add at indices", operands)?;
        if updates.dtype == DType::Bool {
            return Err(TensorError::dtype(
                "add at indices",
                operands,
                "numbers to add",
            ));
        }
        let after = self.axis + indices.rank() - self.batch_axes;
        let fits = updates.rank() >= after
            && updates.shape[..self.batch_axes] == indices.shape[..self.batch_axes]
            && updates.shape[self.axis..after] == indices.shape[self.batch_axes..]
            && (self.length > 0 || indices.is_empty());
        if !fits {
            return Err(TensorError::shape(
                "add at indices",
                operands,
                format!(
                    "from axis {} on, the axes of the updates differ from the axes of the indices",
                    self.axis
                ),
                "reshape the updates",
            ));
        }
        Ok(one(AbstractArray {
            dtype: updates.dtype,
            shape: self.result_shape(&updates.shape, &indices.shape),
        }))
    }

    fn evaluate(&self, operands: Operands) -> Outputs<Array> {
        let [updates, indices] = take_operands(operands);
        let shape = self.result_shape(updates.shape(), indices.shape());
        let blocks = self.take().blocks(&shape);
        let (outside, indices) = (self.outside, &indices);
        one(gather::scatter_add(
            &updates, indices, outside, &blocks, shape,
        ))
    }

    fn jvp(&self, primals: &[Tensor], tangents: &[Option<Tensor>]) -> WithTangents {
        let tangent = tangents[0]
            .as_ref()
            .map(|tangent| self.bind(tangent, &primals[1]));
        (one(self.bind(&primals[0], &primals[1])), one(tangent))
    }

    fn transpose(&self, cotangents: &[Option<Tensor>], operands: &[Linear]) -> Cotangents {
        let indices = operands[1].known();
        let cotangent = cotangents[0].as_ref();
        let pulled = cotangent.map(|cotangent| self.take().bind(cotangent, indices));
        smallvec![pulled, None]
    }

    fn batch(&self, operands: &[Tensor], axes: &[Option<usize>], batch: &BatchAxis) -> Batched {
        let size = batch.size;
        let (updates, indices) = (&operands[0], &operands[1]);
        let index_axes = indices.rank() - self.batch_axes;
        let (result, axis) = match (axes[0], axes[1]) {
            // A batch axis after the axes of the indices is handled as one more axis of each update.
            (Some(batch), None) if batch >= self.axis + index_axes => {
                (self.bind(updates, indices), batch + 1 - index_axes)
            }
            (Some(batch), None) => {
                let (updates, batch) = match batch {
                    inside if inside > self.axis => {
                        (or_panic(move_axis(updates, inside, self.axis)), self.axis)
                    }
                    before => behind_parallel_axes(updates, before, self.batch_axes),
                };
                (
                    Self {
                        axis: self.axis + 1,
                        ..*self
                    }
                    .bind(&updates, indices),
                    batch,
                )
            }
            _ => {
                let updates = or_panic(batch_axis_first(updates, axes[0], size));
                let indices = or_panic(batch_axis_first(indices, axes[1], size));
                let scatter = Self {
                    axis: self.axis + 1,
                    batch_axes: self.batch_axes + 1,
                    ..*self
                };
                (scatter.bind(&updates, &indices), 0)
            }
        };
        (one(result), one(Some(axis)))
    }

    fn lower(&self, block: &mut Block<'_>, operands: &[Value], results: &Infos<'_>) -> Lowered {
        let (updates, indices) = (&operands[0], &operands[1]);
        let zeros = block.number(results[0], 0.0);
        if updates.info.is_empty() {
            return Ok(one(zeros));
        }
        let axes = self.take().gather_axes(zeros.rank(), indices.rank());
        let indices = lower_positions(block, indices, self.length, self.outside);
        block
            .scattered("stablehlo.add", &zeros, &indices, updates, &axes)
            .map(one)
    }

    fn accepts_halves(&self) -> bool {
        true
    }

    fn division(&self, operands: &[&AbstractArray]) -> Option<Division> {
        let after = operands[1].rank() - self.batch_axes;
        let others = (self.batch_axes..self.axis).chain(self.axis + after..operands[0].rank());
        let mut division = Division::along(operands[0], others)?;
        division.operands.push(None);
        if division.result >= self.axis {
            division.result = division.result + 1 - after;
        }
        Some(division)
    }

    fn write_parameters(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "axis={} length={}", self.axis, self.length)?;
        if self.outside == Outside::Drop {
            f.write_str(" outside=drop")?;
        }
        write_batch_axes(f, self.batch_axes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::stage::stage;
    use crate::tensor::trace::Recorder;

    #[test]
    fn narrow_index_dtype_reaches_long_axes() {
        let recorded = |length: usize, dtype: DType| {
            let infos = [
                AbstractArray::new(DType::F32, [1]),
                AbstractArray::new(dtype, [1]),
            ];
            let scatter = ScatterAdd {
                axis: 0,
                length,
                outside: Outside::Drop,
                batch_axes: 0,
            };
            let (jaxpr, _, ()) = stage(Recorder::EvalShape, &infos, |inputs| {
                let kept = scatter.without_dropped(&inputs[0], &inputs[1]);
                (vec![kept.unwrap()], ())
            });
            jaxpr.to_string()
        };
        let text = recorded(3_000_000_000, DType::I32);
        assert!(
            text.contains("[dtype=i64 shape=(1,) value=3000000000.0]"),
            "{text}"
        );
        let text = recorded(3_000_000_000, DType::U32);
        assert!(
            text.contains("[dtype=u32 shape=(1,) value=3000000000.0]"),
            "{text}"
        );
        let text = recorded(5_000_000_000, DType::U32);
        assert!(
            text.contains("[dtype=i64 shape=(1,) value=5000000000.0]"),
            "{text}"
        );
        let text = recorded(2_000_000_000, DType::I32);
        assert!(
            text.contains("[dtype=i32 shape=(1,) value=2000000000.0]"),
            "{text}"
        );
    }
}
