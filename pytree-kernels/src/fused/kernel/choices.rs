//! Comparisons whose results only choose between two numbers, and maxima and minima with a number that is the same for all elements.
//!
//! A comparison and the choice become one step, so that no truth values are stored. A choice by the conjunction or the disjunction of
//! two comparisons becomes two choices. If the number of a maximum is neither 0 nor NaN, one comparison is enough: the sign of a zero
//! and NaN need no others. The results have the same bits as those of the single operations.

use smallvec::smallvec;

use super::program::Kernel;
use crate::base::dtype::DType;
use crate::fused::places::{Filler, OperandPlace};
use crate::fused::steps::{Fill, Filled, Step, Work};
use crate::loops::elementwise::{Binary, Comparison, Elementwise};

/// The greatest number of choices that compute the same comparison. To store and read truth values takes as long as about two
/// comparisons.
const MOST_CHOICES: usize = 2;

impl Step {
    /// If the step chooses between two numbers, or between 1 and 0, returns the register of its truth values, and whether the numbers
    /// are 1 and 0.
    fn chooses_by(&self) -> Option<(usize, bool)> {
        let converts = match self.work {
            Work::Elementwise(Elementwise::Select) => false,
            Work::Elementwise(Elementwise::Convert(_)) => true,
            _ => return None,
        };
        match self.operands[0] {
            OperandPlace::Register(register) => Some((register, converts)),
            OperandPlace::Input(_) => None,
        }
    }
}

impl Kernel {
    /// Turns each choice by the conjunction or the disjunction of two comparisons of floats into two choices, if nothing else reads
    /// these three truth values.
    pub(super) fn split_conditions(&mut self) {
        let uses = self.uses();
        let mut filled = vec![None; self.registers];
        let mut splits = Vec::new();
        for (position, step) in self.steps.iter().enumerate() {
            filled[step.output] = Some(step);
            let made = |place| match place {
                OperandPlace::Register(register) if uses[register] == 1 => {
                    filled[register].filter(|before: &&Step| before.level == step.level)
                }
                _ => None,
            };
            let is_comparison = |place| {
                made(place).is_some_and(|before| {
                    matches!(before.work, Work::Elementwise(Elementwise::Compare(_)))
                })
            };
            if let Work::Elementwise(Elementwise::Select) = step.work
                && let Some(condition) = made(step.operands[0])
                && let Work::Elementwise(Elementwise::Binary(
                    operation @ (Binary::And | Binary::Or),
                )) = condition.work
                && condition.operands.iter().copied().all(is_comparison)
            {
                let comparisons = [condition.operands[0], condition.operands[1]];
                splits.push((position, condition.output, operation, comparisons));
            }
        }
        let split: Vec<usize> = splits.iter().map(|split| split.1).collect();
        // Backwards, so that the positions before an inserted step stay.
        for (position, _, operation, [left, right]) in splits.into_iter().rev() {
            let output = self.registers;
            self.registers += 1;
            let outer = &mut self.steps[position];
            let [on_true, on_false] = [1, 2].map(|operand| outer.operands[operand]);
            let inner = Step {
                operands: smallvec![right, on_true, on_false],
                output,
                ..*outer
            };
            let inner_place = OperandPlace::Register(output);
            outer.operands = if operation == Binary::And {
                smallvec![left, inner_place, on_false]
            } else {
                smallvec![left, on_true, inner_place]
            };
            self.steps.insert(position, inner);
        }
        self.steps.retain(|step| !split.contains(&step.output));
    }

    /// Joins each comparison of floats with the choices, and with the conversions to 1 and 0, that alone read its result.
    pub(super) fn join_choices(&mut self) {
        let uses = self.uses();
        let mut filled = vec![None; self.registers];
        // For each register, the number of steps that choose by it.
        let mut choices = vec![0; self.registers];
        for (position, step) in self.steps.iter().enumerate() {
            filled[step.output] = Some(position);
            if let Some((register, _)) = step.chooses_by()
                && let Some(earlier) = filled[register]
                && self.steps[earlier].level == step.level
            {
                choices[register] += 1;
            }
        }
        let mut joined = vec![false; self.steps.len()];
        for position in 0..self.steps.len() {
            let step = &self.steps[position];
            let Some((register, converts)) = step.chooses_by() else {
                continue;
            };
            let alone = choices[register] == uses[register] && uses[register] <= MOST_CHOICES;
            let Some(earlier) = filled[register].filter(|_| alone) else {
                continue;
            };
            let before = &self.steps[earlier];
            if let Work::Elementwise(Elementwise::Compare(comparison)) = before.work {
                let [left, right] = [0, 1].map(|operand| before.operands[operand]);
                let [on_true, on_false] = if converts {
                    let dtype = step.dtype;
                    [1.0, 0.0].map(|number| OperandPlace::Register(self.number(number, dtype)))
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
        self.remove_steps(joined);
    }

    /// Returns a register that is filled with a number of a dtype.
    pub(super) fn number(&mut self, number: f64, dtype: DType) -> usize {
        let fill = Fill::Number(Filler::Constant(number));
        let known = |filled: &&Filled| {
            matches!(filled.fill, Fill::Number(Filler::Constant(known)) if known.to_bits() == number.to_bits())
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
                Some(Filler::Constant(number)) => number as f32 != 0.0 && !number.is_nan(),
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
