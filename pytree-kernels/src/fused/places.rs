//! The places from which a step of a kernel reads numbers.

use pytree_base::bug::bug;

use crate::base::array::Array;
use crate::loops::elementwise::classes::{Class, Memory};

/// Where a step reads an operand.
#[derive(Clone, Copy, Debug)]
pub enum OperandPlace {
    /// A register, given by its number.
    Register(usize),
    /// An input of the kernel, given by its position. The step reads the input without a copy.
    Input(usize),
}

/// A number that is the same for all elements.
#[derive(Clone, Copy, Debug)]
pub(super) enum Filler {
    /// A number of the dtype of the register or of the step that has it.
    Constant(f64),
    /// The only element of an input.
    Scalar { input: usize },
}

impl Filler {
    pub(crate) fn value<C: Class>(self, sources: &[KernelInput<'_>]) -> C {
        match self {
            Self::Constant(value) => C::from_number(value),
            Self::Scalar { input } => sources[input].number(),
        }
    }
}

/// The current tile, and the arrays that its steps read.
pub(crate) struct Here<'a, 's> {
    pub(crate) sources: &'a [KernelInput<'a>],
    pub(crate) slots: &'a [Memory<'s>],
    /// For each register, the result that a step writes to memory instead of the register.
    pub(crate) destinations: &'a [Option<usize>],
    /// The first element of the tile (`start`), and the number of elements of the tile (`count`).
    pub(crate) start: usize,
    pub(crate) count: usize,
}

/// The source of a kernel's input: an array, or the position of the result that overwrites the input.
pub(super) enum KernelInput<'a> {
    Array(&'a Array),
    Result(usize),
}

impl KernelInput<'_> {
    /// Returns the array of an input that no result overwrites.
    #[inline(always)]
    pub(super) fn array(&self) -> &Array {
        match self {
            Self::Array(array) => array,
            Self::Result(_) => bug("no result to be written into a repeated array"),
        }
    }

    /// Returns the only element of an input.
    pub(super) fn number<C: Class>(&self) -> C {
        let mut number = [C::default()];
        C::load(self.array(), 0, &mut number);
        number[0]
    }
}
