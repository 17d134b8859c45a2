//! The derivatives of extrema of windows. One primitive reads the selected elements, and the other primitive adds to
//! these elements.

use pytree_kernels::loops::reduce_window::{self, Window};
use pytree_kernels::loops::reduction::Extremum;

use super::lowering;
use super::windows::{batched, division_of_pair, result, write};
use crate::primitives::prelude::*;
use crate::primitives::shape::batch_axis_first;
use crate::tensor::primitive::Division;

/// Moves elements between windows and the positions of the windows' extrema in the second operand. The primitive is linear in
/// the first operand, and each direction is the transpose of the other.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct SelectAndAdd {
    pub(crate) direction: Direction,
    pub(crate) extremum: Extremum,
    pub(crate) window: Window,
}

/// The direction of a [`SelectAndAdd`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Direction {
    /// Returns, for each window, the element of the first operand at the position of the extremum. Both operands have the same
    /// shape. The result is 0 for a window without elements.
    Gather,
    /// Adds the elements of the first operand at the positions of the extrema. The first operand has one element for each
    /// window. The result has the shape of the second operand.
    Scatter,
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

impl SelectAndAdd {
    #[track_caller]
    fn apply(&self, first: &Tensor, second: &Tensor) -> Tensor {
        or_panic(bind_one(self, &[first, second]))
    }
}

impl Primitive for SelectAndAdd {
    fn name(&self) -> &'static str {
        match self.direction {
            Direction::Gather => "select_and_gather_add",
            Direction::Scatter => "select_and_scatter_add",
        }
    }

    fn abstract_evaluation(&self, operands: &[&AbstractArray]) -> AbstractResults {
        let operation = match self.direction {
            Direction::Gather => "gather from windows of",
            Direction::Scatter => "scatter to windows of",
        };
        same_dtype(operation, operands)?;
        let windows = || result(&self.window, operation, operands[1], None);
        match self.direction {
            Direction::Gather => {
                same_shape(operation, operands, operands[1])?;
                windows().map(one)
            }
            Direction::Scatter => {
                same_shape(operation, operands, &windows()?)?;
                Ok(one(operands[1].clone()))
            }
        }
    }

    fn evaluate(&self, operands: Operands) -> Outputs<Array> {
        let [first, second] = take(operands);
        let kernel = match self.direction {
            Direction::Gather => reduce_window::gather,
            Direction::Scatter => reduce_window::scatter,
        };
        one(kernel(self.extremum, &self.window, &first, &second))
    }

    fn jvp(&self, primals: &[Tensor], tangents: &[Option<Tensor>]) -> WithTangents {
        // The second operand only selects positions, so its tangent has no effect.
        let apply = |first: &Tensor| self.apply(first, &primals[1]);
        let tangent = tangents[0].as_ref().map(apply);
        (one(apply(&primals[0])), one(tangent))
    }

    fn transpose(&self, cotangents: &[Option<Tensor>], operands: &[Linear]) -> Cotangents {
        let back = Self {
            direction: match self.direction {
                Direction::Gather => Direction::Scatter,
                Direction::Scatter => Direction::Gather,
            },
            ..self.clone()
        };
        let pulled = |cotangent| back.apply(cotangent, operands[1].known());
        smallvec![cotangents[0].as_ref().map(pulled), None]
    }

    fn batch(&self, operands: &[Tensor], axes: &[Option<usize>], batch: &BatchAxis) -> Batched {
        if axes == [None, None] {
            return alone(self, operands);
        }
        let batched = Self {
            window: batched(&self.window, 0),
            ..self.clone()
        };
        let front = |at: usize| or_panic(batch_axis_first(&operands[at], axes[at], batch.size));
        (one(batched.apply(&front(0), &front(1))), one(Some(0)))
    }

    fn lower(&self, block: &mut Block<'_>, operands: &[Value], results: &Infos<'_>) -> Lowered {
        let (window, [first, second]) = (&self.window, [&operands[0], &operands[1]]);
        let value = match self.direction {
            Direction::Gather => {
                lowering::lower_gather(window, self.extremum, block, first, second, results[0])
            }
            Direction::Scatter => {
                lowering::lower_scatter(window, self.extremum, block, first, second)
            }
        };
        value.map(one)
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
