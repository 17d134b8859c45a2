//! Comparisons whose results only choose between two numbers, and maxima and minima with a number that is the same for all elements.
//!
//! A comparison and the choice become one step, so that no truth values are stored. If the number of a maximum is neither 0 nor NaN,
//! one comparison is enough: the sign of a zero and NaN need no others. The results have the same bits as those of the single
//! operations.

use smallvec::smallvec;

use super::{Fill, Filled, Kernel, Number, Place, Work};
use crate::base::dtype::DType;
use crate::primitives::elementwise::{Binary, Comparison, Elementwise};

impl Kernel {
    /// Joins each comparison of floats with the choice, or with the conversion to 1 and 0, that alone reads its result.
    pub(super) fn join_choices(&mut self) {
        let uses = self.uses();
        let mut filled = vec![None; self.registers];
        let mut joined = vec![false; self.steps.len()];
        for position in 0..self.steps.len() {
            let step = &self.steps[position];
            filled[step.output] = Some(position);
            let converts = match step.work {
                Work::Elementwise(Elementwise::Select) => false,
                Work::Elementwise(Elementwise::Convert(_)) => true,
                _ => continue,
            };
            let Place::Register(register) = step.operands[0] else {
                continue;
            };
            let Some(earlier) = filled[register].filter(|_| uses[register] == 1) else {
                continue;
            };
            let before = &self.steps[earlier];
            if let Work::Elementwise(Elementwise::Compare(comparison)) = before.work
                && before.level == step.level
            {
                let [left, right] = [0, 1].map(|operand| before.operands[operand]);
                let [on_true, on_false] = if converts {
                    let dtype = step.dtype;
                    [1.0, 0.0].map(|number| Place::Register(self.number(number, dtype)))
                } else {
                    [1, 2].map(|operand| step.operands[operand])
                };
                let step = &mut self.steps[position];
                step.work = Work::Choice(comparison);
                step.is_narrowed = false;
                step.operands = smallvec![left, right, on_true, on_false];
                joined[earlier] = true;
            }
        }
        let mut joined = joined.into_iter();
        self.steps.retain(|_| !joined.next().unwrap_or(false));
    }

    /// Returns a register that is filled with a number of a dtype.
    fn number(&mut self, number: f64, dtype: DType) -> usize {
        let fill = Fill::Number(Number::Constant(number));
        let known = |filled: &&Filled| {
            matches!(filled.fill, Fill::Number(Number::Constant(known)) if known.to_bits() == number.to_bits())
                && filled.dtype == dtype
        };
        if let Some(filled) = self.fills.iter().find(known) {
            return filled.register;
        }
        let register = self.registers;
        self.registers += 1;
        self.fills.push(Filled {
            fill,
            dtype,
            register,
        });
        register
    }

    /// Turns each maximum or minimum with a number other than 0 into a single comparison.
    #[allow(
        clippy::cast_possible_truncation,
        reason = "the number is rounded as the kernel rounds it"
    )]
    pub(super) fn limit(&mut self) {
        for position in 0..self.steps.len() {
            let step = &self.steps[position];
            let comparison = match step.work {
                Work::Elementwise(Elementwise::Binary(Binary::Max)) => Comparison::Gt,
                Work::Elementwise(Elementwise::Binary(Binary::Min)) => Comparison::Lt,
                _ => continue,
            };
            let [left, right] = [step.operands[0], step.operands[1]];
            let is_limit = |place| match self.number_at(place) {
                // A number that underflows to 0 in f32 stays a maximum.
                Some(Number::Constant(number)) => number as f32 != 0.0 && !number.is_nan(),
                _ => false,
            };
            let (number, element) = match [left, right].map(is_limit) {
                [_, true] => (right, left),
                [true, _] => (left, right),
                _ => continue,
            };
            let step = &mut self.steps[position];
            step.work = Work::Limit(comparison);
            step.operands = smallvec![number, element];
        }
    }
}
