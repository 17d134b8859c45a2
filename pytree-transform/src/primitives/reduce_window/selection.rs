//! The derivatives of extrema of windows. One primitive reads the selected elements, and the other primitive adds to
//! these elements.

use std::fmt;

use pytree_kernels::base::array::{Array, Operands};
use pytree_kernels::base::dtype::{AbstractArray, DType};
use pytree_kernels::primitives::reduce_window::{self, Window};
use pytree_kernels::primitives::reduction::Extremum;
use smallvec::smallvec;

use super::{batched, division_of_pair, lowering, result, write};
use crate::base::error::{TensorError, or_panic};
use crate::primitives::shape::batch_axis_first;
use crate::tensor::Tensor;
use crate::tensor::primitive::{
    AbstractResults, BatchAxis, Batched, Cotangents, Division, Linear, Lowered, Outputs, Primitive,
    WithTangents, alone, one, take,
};
use crate::tensor::stablehlo::{Block, Value};
use crate::tensor::trace::bind_one;

/// Returns, for each window, the element of the first operand at the position of the window's extremum in the second
/// operand. Both operands have the same shape. The result is 0 for a window without elements. The primitive is linear
/// in the first operand.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct SelectAndGatherAdd {
    pub(crate) extremum: Extremum,
    pub(crate) window: Window,
}

/// Adds the elements of the first operand at the positions of the windows' extrema in the second operand. The first
/// operand has one element for each window. The result has the shape of the second operand. This primitive is the
/// transpose of [`SelectAndGatherAdd`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct SelectAndScatterAdd {
    pub(crate) extremum: Extremum,
    pub(crate) window: Window,
}

/// Returns an error unless both operands have the same dtype.
fn same_dtype(operation: &'static str, operands: &[&AbstractArray]) -> Result<(), TensorError> {
    if operands[0].dtype == operands[1].dtype && operands[0].dtype != DType::Bool {
        return Ok(());
    }
    let expected = "numbers, with the same element type in both tensors";
    Err(TensorError::dtype(operation, operands, expected))
}

/// Returns an error unless an operand has the expected shape.
fn same_shape(
    operation: &'static str,
    operands: &[&AbstractArray],
    expected: &AbstractArray,
) -> Result<(), TensorError> {
    if operands[0].shape == expected.shape {
        return Ok(());
    }
    Err(TensorError::shape(
        operation,
        operands,
        format!(
            "the first tensor has the shape {:?}, expected {:?}",
            operands[0].shape, expected.shape
        ),
        "pass a first tensor of this shape",
    ))
}

/// Returns the result and the tangent of a primitive that is linear in its first operand. The second operand only
/// selects positions, so its tangent has no effect.
fn linear_in_first(
    primitive: &dyn Primitive,
    primals: &[Tensor],
    tangents: &[Option<Tensor>],
) -> WithTangents {
    let apply = |first: &Tensor| or_panic(bind_one(primitive, &[first, &primals[1]]));
    (
        one(apply(&primals[0])),
        one(tangents[0].as_ref().map(apply)),
    )
}

/// Returns the cotangent of the first operand. The primitive `transposed` computes this cotangent from the result's
/// cotangent and the second operand.
fn cotangent_of_first(
    transposed: &dyn Primitive,
    cotangents: &[Option<Tensor>],
    operands: &[Linear],
) -> Cotangents {
    let pulled = |cotangent| or_panic(bind_one(transposed, &[cotangent, operands[1].known()]));
    smallvec![cotangents[0].as_ref().map(pulled), None]
}

/// Returns the results for a batch. Moves the batch axis to the front.
fn batched_in_front(
    primitive: &dyn Primitive,
    operands: &[Tensor],
    axes: &[Option<usize>],
    size: usize,
) -> Batched {
    let front = |at: usize| or_panic(batch_axis_first(&operands[at], axes[at], size));
    (
        one(or_panic(bind_one(primitive, &[&front(0), &front(1)]))),
        one(Some(0)),
    )
}

impl Primitive for SelectAndGatherAdd {
    fn name(&self) -> &'static str {
        "select_and_gather_add"
    }

    fn abstract_evaluation(&self, operands: &[&AbstractArray]) -> AbstractResults {
        let operation = "gather from windows of";
        same_dtype(operation, operands)?;
        same_shape(operation, operands, operands[1])?;
        result(&self.window, operation, operands[1], None).map(one)
    }

    fn evaluate(&self, operands: Operands) -> Outputs<Array> {
        let [tangents, operand] = take(operands);
        one(reduce_window::gather(
            self.extremum,
            &self.window,
            &tangents,
            &operand,
        ))
    }

    fn jvp(&self, primals: &[Tensor], tangents: &[Option<Tensor>]) -> WithTangents {
        linear_in_first(self, primals, tangents)
    }

    fn transpose(&self, cotangents: &[Option<Tensor>], operands: &[Linear]) -> Cotangents {
        let scatter = SelectAndScatterAdd {
            extremum: self.extremum,
            window: self.window.clone(),
        };
        cotangent_of_first(&scatter, cotangents, operands)
    }

    fn batch(&self, operands: &[Tensor], axes: &[Option<usize>], batch: &BatchAxis) -> Batched {
        if axes == [None, None] {
            return alone(self, operands);
        }
        let batched = Self {
            extremum: self.extremum,
            window: batched(&self.window, 0),
        };
        batched_in_front(&batched, operands, axes, batch.size)
    }

    fn lower(
        &self,
        block: &mut Block<'_>,
        operands: &[Value],
        results: &[&AbstractArray],
    ) -> Lowered {
        lowering::lower_gather(
            &self.window,
            self.extremum,
            block,
            &operands[0],
            &operands[1],
            results[0],
        )
        .map(one)
    }

    fn division(&self, operands: &[&AbstractArray]) -> Option<Division> {
        division_of_pair(&self.window, operands[1])
    }

    fn write_parameters(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_selection(self.extremum, &self.window, f)
    }
}

impl Primitive for SelectAndScatterAdd {
    fn name(&self) -> &'static str {
        "select_and_scatter_add"
    }

    fn abstract_evaluation(&self, operands: &[&AbstractArray]) -> AbstractResults {
        let operation = "scatter to windows of";
        same_dtype(operation, operands)?;
        let windows = result(&self.window, operation, operands[1], None)?;
        same_shape(operation, operands, &windows)?;
        Ok(one(operands[1].clone()))
    }

    fn evaluate(&self, operands: Operands) -> Outputs<Array> {
        let [source, operand] = take(operands);
        one(reduce_window::scatter(
            self.extremum,
            &self.window,
            &source,
            &operand,
        ))
    }

    fn jvp(&self, primals: &[Tensor], tangents: &[Option<Tensor>]) -> WithTangents {
        linear_in_first(self, primals, tangents)
    }

    fn transpose(&self, cotangents: &[Option<Tensor>], operands: &[Linear]) -> Cotangents {
        let gather = SelectAndGatherAdd {
            extremum: self.extremum,
            window: self.window.clone(),
        };
        cotangent_of_first(&gather, cotangents, operands)
    }

    fn batch(&self, operands: &[Tensor], axes: &[Option<usize>], batch: &BatchAxis) -> Batched {
        if axes == [None, None] {
            return alone(self, operands);
        }
        let batched = Self {
            extremum: self.extremum,
            window: batched(&self.window, 0),
        };
        batched_in_front(&batched, operands, axes, batch.size)
    }

    fn lower(&self, block: &mut Block<'_>, operands: &[Value], _: &[&AbstractArray]) -> Lowered {
        lowering::lower_scatter(
            &self.window,
            self.extremum,
            block,
            &operands[0],
            &operands[1],
        )
        .map(one)
    }

    fn division(&self, operands: &[&AbstractArray]) -> Option<Division> {
        division_of_pair(&self.window, operands[1])
    }

    fn write_parameters(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_selection(self.extremum, &self.window, f)
    }
}

/// Writes the parameters as JAX does. The comparison is the comparison by which an element is preferred to the others.
fn write_selection(extremum: Extremum, window: &Window, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let comparison = match extremum {
        Extremum::Max => "ge",
        Extremum::Min => "le",
    };
    write!(f, "select_prim={comparison} ")?;
    write(window, f)
}
