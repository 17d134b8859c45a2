//! The steps of a kernel, and the registers that are filled before the first tile.

use smallvec::SmallVec;

use super::places::{Filler, OperandPlace};
use crate::base::dtype::DType;
use crate::base::fold::Fold;
use crate::base::pattern::Pattern;
use crate::loops::elementwise::classes::class_of;
use crate::loops::elementwise::{Binary, Comparison, Elementwise};

/// Whether a kernel value has one number for each element, or one number for each row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Level {
    /// One number for each element.
    Element,
    /// One number for each row.
    Row,
}

/// The operation of a step.
#[derive(Clone, Copy, Debug)]
pub(super) enum Work {
    /// Reads an input of the kernel and repeats its elements by a pattern.
    Load {
        input: usize,
        pattern: Pattern,
    },
    Elementwise(Elementwise),
    /// An elementwise operation of any types, which runs in a loop outside of the kernel's.
    Called(Elementwise, Types),
    Arithmetic(Arithmetic),
    Chain(Chain),
    /// Compares two numbers and chooses one of two others. The operands are the numbers to compare, followed by the number where the
    /// comparison holds, and the number elsewhere.
    Choice(Comparison),
    /// Chooses the number that is greater or less than the other, and the second one if they are equal or one is NaN.
    Limit(Comparison),
    /// Copies numbers, which the step then rounds to another dtype.
    Convert,
    /// Repeats the single number of each row along the row.
    Spread,
    /// Reduces each row to a number.
    Rows(Fold),
    /// Reduces all rows of the tile, element by element, to a single row, and adds this row to a total.
    Columns {
        total: usize,
    },
}

#[derive(Debug)]
pub(super) struct Step {
    pub(super) work: Work,
    /// Whether the step returns one number for each element, or one number for each row.
    pub(super) level: Level,
    /// The dtype of the results.
    pub(super) dtype: DType,
    /// Whether the results are rounded or wrapped to their dtype, which is narrower than the numbers of the register.
    pub(super) is_narrowed: bool,
    pub(super) operands: SmallVec<[OperandPlace; 3]>,
    /// For each operand, the position of its factor in [`Kernel::factors`], and last that of the factor between the operations of a
    /// chain. Only operations of arithmetic and operations with one operand have factors.
    pub(super) factors: Factors,
    pub(super) output: usize,
}

impl Step {
    /// Returns the inputs of which the step reads the elements at the positions of its results.
    pub(super) fn inputs(&self) -> impl Iterator<Item = usize> {
        let loaded = match self.work {
            Work::Load { input, pattern } => (pattern == Pattern::Same).then_some(input),
            _ => None,
        };
        let operands = self.operands.iter().filter_map(|place| match *place {
            OperandPlace::Input(input) => Some(input),
            OperandPlace::Register(_) => None,
        });
        operands.chain(loaded)
    }

    /// Returns the input whose elements the step repeats.
    pub(super) fn repeated(&self) -> Option<usize> {
        match self.work {
            Work::Load { input, pattern } => (pattern != Pattern::Same).then_some(input),
            _ => None,
        }
    }
}

/// The positions of the factors of a step. `None` means 1, and multiplication by 1 changes no number.
pub(super) type Factors = [Option<usize>; 4];

/// How a register is filled before the first tile.
#[derive(Clone, Copy, Debug)]
pub(super) enum Fill {
    Number(Filler),
    Row { input: usize, period: usize },
}

/// A register that is filled before the first tile.
#[derive(Clone, Copy, Debug)]
pub(super) struct Filled {
    pub(super) fill: Fill,
    pub(super) dtype: DType,
    pub(super) register: usize,
}

/// An operation of arithmetic that can be part of a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arithmetic {
    Add,
    Sub,
    Mul,
    Div,
}

impl Arithmetic {
    pub(super) fn of(elementwise: Elementwise) -> Option<Self> {
        match elementwise {
            Elementwise::Binary(Binary::Add) => Some(Self::Add),
            Elementwise::Binary(Binary::Sub) => Some(Self::Sub),
            Elementwise::Binary(Binary::Mul) => Some(Self::Mul),
            Elementwise::Binary(Binary::Div) => Some(Self::Div),
            _ => None,
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Add => "add",
            Self::Sub => "sub",
            Self::Mul => "mul",
            Self::Div => "div",
        }
    }
}

/// The operand of the second operation of a chain that is the result of the first operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Left,
    Right,
}

/// Two operations. The operands of a step with a chain are those of the first operation, followed by the other operand
/// of the second operation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chain {
    pub(crate) first: Arithmetic,
    pub(crate) second: Arithmetic,
    pub(crate) side: Side,
}

/// The dtype of the operands of an operation other than its condition, and the dtype of its result.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Types {
    pub(crate) from: DType,
    pub(crate) to: DType,
}

impl Types {
    /// Returns the types of an operation on floats of a kernel, or on bools, whose result has the dtype `to`.
    pub(crate) fn of_own(operation: Elementwise, float: DType, to: DType) -> Self {
        let from = match operation {
            Elementwise::Convert(_) => DType::Bool,
            _ => float,
        };
        Self { from, to }
    }
}

/// Returns the dtype of the numbers of registers that hold elements of a dtype. If it is wider, a step loads the elements.
pub fn held_as(dtype: DType) -> DType {
    class_of(dtype)
}
