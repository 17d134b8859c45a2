//! The positions of extrema along an axis.

use std::fmt;

use super::{axes_exist, batched_axes, not_empty, reduction, without_axes};
use crate::base::array::{Array, with_type};
use crate::base::dtype::{AbstractArray, DType, Tuple};
use crate::base::error::{TensorError, or_panic};
use crate::primitives::shape::check_positions;
use crate::tensor::Tensor;
use crate::tensor::primitive::{
    AbstractResults, BatchAxis, Batched, Cotangents, Linear, Lowered, Operands, Outputs, Primitive,
    WithTangents, alone, not_linear, one, take,
};
use crate::tensor::stablehlo::{Block, Value};
use crate::tensor::trace::bind_one;

/// Selects the maximum or the minimum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Extremum {
    Max,
    Min,
}

/// Finds the position of the first extremum along an axis, as i32. If there is a NaN, finds the first NaN.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ArgExtremum {
    pub(crate) extremum: Extremum,
    pub(crate) axis: usize,
}

/// Returns the position of the first extremum along an axis.
#[track_caller]
pub(crate) fn argument_of(
    extremum: Extremum,
    operand: &Tensor,
    axis: usize,
) -> Result<Tensor, TensorError> {
    bind_one(&ArgExtremum { extremum, axis }, &[operand])
}

impl Primitive for ArgExtremum {
    fn name(&self) -> &'static str {
        match self.extremum {
            Extremum::Max => "argmax",
            Extremum::Min => "argmin",
        }
    }

    fn abstract_evaluation(&self, operands: &[&AbstractArray]) -> AbstractResults {
        let operand = operands[0];
        axes_exist(Primitive::name(self), operand, &[self.axis])?;
        not_empty(Primitive::name(self), operand, &[self.axis])?;
        check_positions(Primitive::name(self), operand, self.axis)?;
        Ok(one(AbstractArray {
            dtype: DType::I32,
            shape: without_axes(&operand.shape, &[self.axis]),
        }))
    }

    fn evaluate(&self, operands: Operands) -> Outputs<Array> {
        let [operand] = take(operands);
        one(
            with_type!(operand.dtype(), T => reduction::argument_array::<T>(self.extremum, &operand, self.axis)),
        )
    }

    fn jvp(&self, primals: &[Tensor], _: &[Option<Tensor>]) -> WithTangents {
        alone(self, primals)
    }

    fn transpose(&self, _: &[Option<Tensor>], _: &[Linear]) -> Cotangents {
        not_linear(self)
    }

    fn batch(&self, operands: &[Tensor], axes: &[Option<usize>], _: &BatchAxis) -> Batched {
        let Some(batch) = axes[0] else {
            return alone(self, operands);
        };
        let (axes, batch) = batched_axes(&[self.axis], batch);
        (
            one(or_panic(argument_of(self.extremum, &operands[0], axes[0]))),
            one(Some(batch)),
        )
    }

    fn lower(&self, block: &mut Block<'_>, operands: &[Value], _: &[&AbstractArray]) -> Lowered {
        Err(block.refused(operands, "TODO", "TODO"))
    }

    fn write_parameters(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "axes={} index_dtype=i32", Tuple(&[self.axis]))
    }
}
