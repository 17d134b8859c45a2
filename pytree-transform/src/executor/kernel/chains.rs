//! Chains of two operations of arithmetic, which run in one loop over a tile.
//!
//! An operation of arithmetic takes less time than its loads and stores. A chain keeps the result of its first operation
//! in a register of the processor, so it needs one store and one load less than two steps. Each operation rounds as it
//! does alone, so the results have the same bits.

use smallvec::smallvec;

use super::{Kernel, Place, Step, Work};
use crate::tensor::elementwise::{Binary, Elementwise};

/// An operation of arithmetic that can be part of a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::executor) enum Arithmetic {
    Add,
    Sub,
    Mul,
    Div,
}

impl Arithmetic {
    fn of(step: &Step) -> Option<Self> {
        match step.work {
            Work::Elementwise(Elementwise::Binary(binary)) => match binary {
                Binary::Add => Some(Self::Add),
                Binary::Sub => Some(Self::Sub),
                Binary::Mul => Some(Self::Mul),
                Binary::Div => Some(Self::Div),
                _ => None,
            },
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
pub(in crate::executor) enum Side {
    Left,
    Right,
}

/// Two operations. The operands of a step with a chain are those of the first operation, followed by the other operand
/// of the second operation.
#[derive(Clone, Copy, Debug)]
pub(in crate::executor) struct Chain {
    pub(in crate::executor) first: Arithmetic,
    pub(in crate::executor) second: Arithmetic,
    pub(in crate::executor) side: Side,
}

impl Kernel {
    /// Joins each operation of arithmetic with an earlier one whose result nothing else reads. Each register still has
    /// one step that fills it.
    pub(super) fn join_chains(&mut self) {
        let mut uses = vec![0_usize; self.registers];
        let operands = self.steps.iter().flat_map(|step| &step.operands);
        for operand in operands {
            if let Place::Register(register) = *operand {
                uses[register] += 1;
            }
        }
        for store in &self.stores {
            uses[store.register] += 1;
        }
        // For each register, the position of the step that fills it.
        let mut filled = vec![None; self.registers];
        let mut joined = vec![false; self.steps.len()];
        for position in 0..self.steps.len() {
            let step = &self.steps[position];
            filled[step.output] = Some(position);
            let Some(second) = Arithmetic::of(step) else {
                continue;
            };
            let found = [Side::Left, Side::Right].into_iter().find_map(|side| {
                let Place::Register(register) = step.operands[side as usize] else {
                    return None;
                };
                let earlier = filled[register]?;
                let before = &self.steps[earlier];
                let alone = uses[register] == 1 && before.round.is_none() && !joined[earlier];
                let first =
                    Arithmetic::of(before).filter(|_| alone && before.level == step.level)?;
                Some((
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
                self.steps[position].work = Work::Chain(chain);
                self.steps[position].operands = smallvec![left, right, other];
                joined[earlier] = true;
            }
        }
        let mut joined = joined.into_iter();
        self.steps.retain(|_| !joined.next().unwrap_or(false));
    }
}
