//! The primitives of values that are rows of a table.

use pytree_kernels::loops::gather::{self, Outside};

use super::super::only_evaluated::only_evaluated;
use crate::primitives::prelude::*;

/// An operation on rows of a table of `length` rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum RowOperation {
    /// Returns the distinct positions of indices in ascending order, and for each index the place of its position among them.
    Positions { length: usize, outside: Outside },
    /// Adds rows to the rows of a table at distinct positions. The operands are the table, the positions and the rows.
    Add,
    /// Returns the sum of the table whose only rows that are not zero are given. The operands are the positions and the rows.
    Sum { length: usize },
}

impl Primitive for RowOperation {
    fn name(&self) -> &'static str {
        match self {
            Self::Positions { .. } => "distinct_positions",
            Self::Add => "add_rows",
            Self::Sum { .. } => "sum_of_rows",
        }
    }

    fn abstract_evaluation(&self, operands: &[&AbstractArray]) -> AbstractResults {
        Ok(match self {
            Self::Positions { .. } => smallvec![
                AbstractArray::new(DType::I32, [operands[0].len()]),
                AbstractArray::new(DType::I32, operands[0].shape.clone()),
            ],
            Self::Add => one(operands[0].clone()),
            Self::Sum { .. } => one(AbstractArray::new(operands[1].dtype, [])),
        })
    }

    fn evaluate(&self, operands: Operands) -> Outputs<Array> {
        match *self {
            Self::Positions { length, outside } => {
                let [indices] = take(operands);
                Outputs::from_iter(gather::distinct_positions(&indices, length, outside))
            }
            Self::Add => {
                let [table, positions, rows] = take(operands);
                one(gather::add_rows(table, &positions, &rows))
            }
            Self::Sum { length } => {
                let [positions, rows] = take(operands);
                one(gather::sum_of_rows(&positions, &rows, length))
            }
        }
    }

    fn overwritten(&self) -> Option<usize> {
        (*self == Self::Add).then_some(0)
    }

    fn accepts_narrow(&self) -> bool {
        matches!(self, Self::Positions { .. })
    }

    only_evaluated!();

    fn write_parameters(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Positions { length, outside } => write!(f, "length={length} outside={outside:?}"),
            Self::Add => Ok(()),
            Self::Sum { length } => write!(f, "length={length}"),
        }
    }
}
