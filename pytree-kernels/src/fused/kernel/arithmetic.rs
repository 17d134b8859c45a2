//! Several operations of arithmetic that run in one loop over a tile.
//!
//! An operation of arithmetic takes less time than its loads and stores. So a multiplication by a number that is the same for all
//! elements becomes a factor of the operand of a later step, and two operations become a chain, which keeps the result of the first
//! one in a register of the processor. Each operation rounds as it does alone, so the results have the same bits.

use smallvec::smallvec;

use super::program::Kernel;
use crate::fused::places::{Filler, OperandPlace};
use crate::fused::steps::{Arithmetic, Chain, Fill, Side, Step, Work};
use crate::loops::elementwise::{Elementwise, Unary};

impl Step {
    /// Returns whether the operands of the step may have factors.
    fn takes_factors(&self) -> bool {
        match self.work {
            Work::Arithmetic(_) => true,
            Work::Elementwise(Elementwise::Unary(unary)) => unary != Unary::Not,
            _ => false,
        }
    }
}

impl Kernel {
    /// Returns how many steps and results read each register.
    pub(super) fn uses(&self) -> Vec<usize> {
        let mut uses = vec![0; self.registers];
        let operands = self.steps.iter().flat_map(|step| &step.operands);
        for operand in operands {
            if let OperandPlace::Register(register) = *operand {
                uses[register] += 1;
            }
        }
        for store in &self.stores {
            uses[store.register] += 1;
        }
        uses
    }

    /// Returns the number that a place holds, if it is the same for all elements.
    pub(super) fn number_at(&self, place: OperandPlace) -> Option<Filler> {
        let OperandPlace::Register(register) = place else {
            return None;
        };
        let mut fills = self.fills.iter();
        match fills.find(|filled| filled.register == register)?.fill {
            Fill::Number(number) => Some(number),
            Fill::Row { .. } => None,
        }
    }

    /// Returns the operand and the number of a step that multiplies by a number, or negates, and does nothing else.
    fn scaled(&self, step: &Step) -> Option<(OperandPlace, Filler)> {
        if step.is_narrowed || step.factors != [None; 4] {
            return None;
        }
        match step.work {
            Work::Elementwise(Elementwise::Unary(Unary::Neg)) => {
                return Some((step.operands[0], Filler::Constant(-1.0)));
            }
            Work::Arithmetic(Arithmetic::Mul) => {}
            _ => return None,
        }
        let [left, right] = [step.operands[0], step.operands[1]];
        let of_right = self.number_at(right).map(|number| (left, number));
        of_right.or_else(|| Some((right, self.number_at(left)?)))
    }

    /// Replaces operations by arithmetic with the same bits, which can be part of a chain: a division by a power of two, and a square.
    pub(super) fn replace_operations(&mut self) {
        for position in 0..self.steps.len() {
            let step = &self.steps[position];
            let operand = step.operands.first().copied();
            let factor = match step.work {
                Work::Elementwise(Elementwise::Unary(Unary::IntegerPower(2))) => operand,
                Work::Arithmetic(Arithmetic::Div) => match self.number_at(step.operands[1]) {
                    Some(Filler::Constant(divisor)) if is_power_of_two(divisor) => {
                        let dtype = step.dtype;
                        Some(OperandPlace::Register(self.number(1.0 / divisor, dtype)))
                    }
                    _ => None,
                },
                _ => None,
            };
            if let (Some(operand), Some(factor)) = (operand, factor) {
                let step = &mut self.steps[position];
                step.work = Work::Arithmetic(Arithmetic::Mul);
                step.operands = smallvec![operand, factor];
            }
        }
    }

    /// Turns each multiplication by a number into a factor of the step that reads its result, if no other step reads it.
    pub(super) fn absorb_factors(&mut self) {
        let uses = self.uses();
        // For each register, the position of the step that fills it.
        let mut filled = vec![None; self.registers];
        let mut absorbed = vec![false; self.steps.len()];
        for position in 0..self.steps.len() {
            filled[self.steps[position].output] = Some(position);
            if !self.steps[position].takes_factors() {
                continue;
            }
            for operand in 0..self.steps[position].operands.len() {
                let step = &self.steps[position];
                let OperandPlace::Register(register) = step.operands[operand] else {
                    continue;
                };
                let Some(earlier) = filled[register].filter(|_| uses[register] == 1) else {
                    continue;
                };
                let before = &self.steps[earlier];
                let scaled = self.scaled(before).filter(|_| before.level == step.level);
                if let Some((place, number)) = scaled {
                    self.steps[position].operands[operand] = place;
                    self.steps[position].factors[operand] = Some(self.factors.len());
                    self.factors.push(number);
                    absorbed[earlier] = true;
                }
            }
        }
        self.remove_steps(absorbed);
        let uses = self.uses();
        self.fills.retain(|filled| uses[filled.register] > 0);
    }

    /// Joins each operation of arithmetic with an earlier one whose result nothing else reads. Each register still has
    /// one step that fills it.
    pub(super) fn join_chains(&mut self) {
        let uses = self.uses();
        let mut filled = vec![None; self.registers];
        let mut joined = vec![false; self.steps.len()];
        for position in 0..self.steps.len() {
            let step = &self.steps[position];
            filled[step.output] = Some(position);
            let Work::Arithmetic(second) = step.work else {
                continue;
            };
            let found = [Side::Left, Side::Right].into_iter().find_map(|side| {
                let OperandPlace::Register(register) = step.operands[side as usize] else {
                    return None;
                };
                let earlier = filled[register]?;
                let before = &self.steps[earlier];
                let alone = uses[register] == 1 && !before.is_narrowed && !joined[earlier];
                let Work::Arithmetic(first) = before.work else {
                    return None;
                };
                (alone && before.level == step.level).then_some((
                    earlier,
                    Chain {
                        first,
                        second,
                        side,
                    },
                ))
            });
            if let Some((earlier, chain)) = found {
                let other = step.operands[1 - chain.side as usize];
                let [left, right] = [0, 1].map(|operand| self.steps[earlier].operands[operand]);
                let [of_left, of_right, ..] = self.steps[earlier].factors;
                let step = &mut self.steps[position];
                let of_middle = step.factors[chain.side as usize];
                let of_other = step.factors[1 - chain.side as usize];
                step.work = Work::Chain(chain);
                step.operands = smallvec![left, right, other];
                step.factors = [of_left, of_right, of_other, of_middle];
                joined[earlier] = true;
            }
        }
        self.remove_steps(joined);
    }

    /// Removes the steps at the positions that are marked.
    pub(super) fn remove_steps(&mut self, marked: Vec<bool>) {
        let mut marked = marked.into_iter();
        self.steps.retain(|_| !marked.next().unwrap_or(false));
    }
}

/// Returns whether a number is a power of two, and so is its reciprocal. In f32, both are normal numbers.
fn is_power_of_two(number: f64) -> bool {
    number.to_bits().trailing_zeros() >= 52
        && (2.0_f64.powi(-126)..=2.0_f64.powi(126)).contains(&number)
}
