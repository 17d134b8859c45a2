//! Reductions of sliding windows: sums, extrema, and the derivatives of extrema.
//!
//! Each derivative of these primitives, and each batched form, is again a primitive of this file. The transpose of a
//! sum of windows is again a sum of windows. The tangent of an extremum gathers the tangent of each window's selected
//! element. The transpose of this gather is a scatter.

mod lowering;
mod selection;
#[cfg(test)]
mod tests;
mod windows;

use std::sync::Arc;

use pytree_base::lists::Tuple;
use pytree_kernels::base::shape::PerAxis;
use pytree_kernels::loops::reduce_window::{self, Window};
use pytree_kernels::loops::reduction::Extremum;
use pytree_kernels::loops::sliding::Sliding;

use self::selection::{Direction, SelectAndAdd};
use self::windows::{apart, batched, result, write};
use super::slice::inserted;
use crate::primitives::create;
use crate::primitives::prelude::*;
use crate::tensor::linear_primitive::LinearPrimitive;
use crate::tensor::primitive::{Division, LoweredOne};

/// Adds the elements of each window.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ReduceWindowSum {
    pub(crate) window: Window,
    /// The distance between neighbouring elements of the tensor. The gaps between the elements are not reduced.
    pub(crate) base_dilation: PerAxis,
}

/// Returns the maximum or the minimum of each window. If a window contains NaN, returns the first NaN. For a window
/// without elements of the tensor, returns the least or the greatest value of the dtype.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ReduceWindowExtremum {
    pub(crate) extremum: Extremum,
    pub(crate) window: Window,
}

/// Returns the sum of each window.
#[track_caller]
pub(crate) fn sum_windows(operand: &Tensor, window: Window) -> Result<Tensor, TensorError> {
    let base_dilation = window.dimensions.iter().map(|_| 1).collect();
    ReduceWindowSum {
        window,
        base_dilation,
    }
    .apply(operand)
}

/// Returns the extremum of each window.
#[track_caller]
pub(crate) fn extremum_of_windows(
    extremum: Extremum,
    operand: &Tensor,
    window: Window,
) -> Result<Tensor, TensorError> {
    bind_one(&ReduceWindowExtremum { extremum, window }, &[operand])
}

impl LinearPrimitive for ReduceWindowSum {
    fn name(&self) -> &'static str {
        "reduce_window_sum"
    }

    fn result(&self, operand: &AbstractArray) -> Result<AbstractArray, TensorError> {
        result(
            &self.window,
            "sum windows of",
            operand,
            Some(&self.base_dilation),
        )
    }

    fn evaluate(&self, operand: Arc<Array>) -> Array {
        reduce_window::sums(&self.window, &self.base_dilation, &operand)
    }

    /// Sums windows of the cotangent. The window at an element of the operand contains the cotangent of each window
    /// that contains this element.
    fn transpose(&self, cotangent: &Tensor, operand: &AbstractArray) -> Tensor {
        if cotangent.is_empty() {
            return create::zeros(operand);
        }
        let transposed = |axis: usize| {
            let sliding = self
                .window
                .sliding(axis, operand.shape[axis], self.base_dilation[axis]);
            sliding.transposed(cotangent.shape()[axis])
        };
        let slidings: Vec<Sliding> = (0..operand.rank()).map(transposed).collect();
        let transposed = Self {
            window: Window {
                dimensions: self.window.dimensions.clone(),
                strides: slidings.iter().map(|sliding| sliding.stride).collect(),
                padding: slidings.iter().map(|sliding| sliding.padding).collect(),
            },
            base_dilation: slidings.iter().map(|sliding| sliding.dilation).collect(),
        };
        or_panic(transposed.apply(cotangent))
    }

    fn batch(&self, operand: &Tensor, axis: usize) -> (Tensor, usize) {
        let batched = Self {
            window: batched(&self.window, axis),
            base_dilation: inserted(&self.base_dilation, axis, 1),
        };
        (or_panic(batched.apply(operand)), axis)
    }

    fn lower(&self, block: &mut Block<'_>, operand: &Value, result: &AbstractArray) -> LoweredOne {
        lowering::lower_sums(&self.window, block, operand, &self.base_dilation, result)
    }

    fn division(&self, operand: &AbstractArray) -> Option<Division> {
        Division::along(
            operand,
            apart(&self.window).filter(|&axis| self.base_dilation[axis] == 1),
        )
    }

    fn write_parameters(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "base_dilation={} ", Tuple(&self.base_dilation))?;
        write(&self.window, f)
    }
}

impl Primitive for ReduceWindowExtremum {
    fn name(&self) -> &'static str {
        match self.extremum {
            Extremum::Max => "reduce_window_max",
            Extremum::Min => "reduce_window_min",
        }
    }

    fn abstract_evaluation(&self, operands: &[&AbstractArray]) -> AbstractResults {
        let operation = match self.extremum {
            Extremum::Max => "take the maximum of windows of",
            Extremum::Min => "take the minimum of windows of",
        };
        result(&self.window, operation, operands[0], None).map(one)
    }

    fn evaluate(&self, operands: Operands) -> Outputs<Array> {
        let [operand] = take(operands);
        one(reduce_window::extrema(
            self.extremum,
            &self.window,
            &operand,
        ))
    }

    fn jvp(&self, primals: &[Tensor], tangents: &[Option<Tensor>]) -> WithTangents {
        let result = or_panic(bind_one(self, &[&primals[0]]));
        let gather = SelectAndAdd {
            direction: Direction::Gather,
            extremum: self.extremum,
            window: self.window.clone(),
        };
        let gathered = |tangent| or_panic(bind_one(&gather, &[tangent, &primals[0]]));
        (one(result), one(tangents[0].as_ref().map(gathered)))
    }

    fn batch(&self, operands: &[Tensor], axes: &[Option<usize>], _: &BatchAxis) -> Batched {
        let Some(batch) = axes[0] else {
            return alone(self, operands);
        };
        let batched = Self {
            extremum: self.extremum,
            window: batched(&self.window, batch),
        };
        (
            one(or_panic(bind_one(&batched, &[&operands[0]]))),
            one(Some(batch)),
        )
    }

    fn lower(&self, block: &mut Block<'_>, operands: &[Value], results: &Infos<'_>) -> Lowered {
        lowering::lower_extrema(&self.window, self.extremum, block, &operands[0], results[0])
            .map(one)
    }

    fn division(&self, operands: &[&AbstractArray]) -> Option<Division> {
        Division::along(operands[0], apart(&self.window))
    }

    fn write_parameters(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write(&self.window, f)
    }
}
