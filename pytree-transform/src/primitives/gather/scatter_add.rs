//! Sums of slices that are scattered to indices. A scattered sum is the transpose of a gather.

use std::fmt;

use pytree_kernels::base::array::{Array, Operands};
use pytree_kernels::base::dtype::{AbstractArray, DType};
use pytree_kernels::base::shape::Shape;
use pytree_kernels::primitives::gather;
use smallvec::smallvec;

use super::{Take, behind_parallel_axes, check_indices, lower_positions, write_batch_axes};
use crate::base::error::{TensorError, or_panic};
use crate::primitives::shape::{batch_axis_first, move_axis};
use crate::tensor::Tensor;
use crate::tensor::primitive::{
    AbstractResults, BatchAxis, Batched, Cotangents, Division, Linear, Lowered, Outputs, Primitive,
    WithTangents, one, take as take_operands,
};
use crate::tensor::stablehlo::{Block, Value};
use crate::tensor::trace::bind_one;

/// Returns zeros with length `length` along `axis`, plus the updates at the indices. This primitive is the transpose of
/// [`Take`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ScatterAdd {
    pub(crate) axis: usize,
    pub(crate) length: usize,
    pub(crate) batch_axes: usize,
}

/// Returns zeros with length `length` along `axis`, plus `updates` at `indices`.
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
        batch_axes: 0,
    };
    bind_one(&scatter, &[updates, indices])
}

impl ScatterAdd {
    pub(super) fn bind(self, updates: &Tensor, indices: &Tensor) -> Tensor {
        or_panic(bind_one(&self, &[updates, indices]))
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
        let blocks = Take {
            axis: self.axis,
            batch_axes: self.batch_axes,
        }
        .blocks(&shape);
        one(gather::scatter_add(&updates, &indices, &blocks, shape))
    }

    fn jvp(&self, primals: &[Tensor], tangents: &[Option<Tensor>]) -> WithTangents {
        let tangent = tangents[0]
            .as_ref()
            .map(|tangent| self.bind(tangent, &primals[1]));
        (one(self.bind(&primals[0], &primals[1])), one(tangent))
    }

    fn transpose(&self, cotangents: &[Option<Tensor>], operands: &[Linear]) -> Cotangents {
        let take = Take {
            axis: self.axis,
            batch_axes: self.batch_axes,
        };
        smallvec![
            cotangents[0]
                .as_ref()
                .map(|cotangent| take.bind(cotangent, operands[1].known())),
            None
        ]
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

    fn lower(
        &self,
        block: &mut Block<'_>,
        operands: &[Value],
        results: &[&AbstractArray],
    ) -> Lowered {
        let (updates, indices) = (&operands[0], &operands[1]);
        let zeros = block.number(results[0], 0.0);
        if updates.info.is_empty() {
            return Ok(one(zeros));
        }
        let take = Take {
            axis: self.axis,
            batch_axes: self.batch_axes,
        };
        let axes = take.gather_axes(zeros.rank(), indices.rank());
        let indices = lower_positions(block, indices, self.length);
        block
            .scattered("stablehlo.add", &zeros, &indices, updates, &axes)
            .map(one)
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
        write_batch_axes(f, self.batch_axes)
    }
}
