//! The elementwise operations of a tile.

#![allow(
    clippy::inline_always,
    reason = "only inlined code is compiled for the wide instruction sets"
)]

use std::hint::select_unpredictable;

use super::{Float, Tiles};
use crate::executor::kernel::{Arithmetic, Chain, Here, Place, Side};
use crate::primitives::elementwise::{Map, Zip};
use crate::tensor::elementwise::{Binary, Comparison, Elementwise, Unary};

/// The operand of an operation with one operand, its factor, and the memory for its result.
struct ToTile<'a, F> {
    operand: &'a [F],
    factor: F,
    output: &'a mut [F],
}

impl<F: Float> Map<F> for ToTile<'_, F> {
    type Output = ();

    #[inline(always)]
    fn map(self, function: impl Fn(F) -> F) {
        for (output, &operand) in self.output.iter_mut().zip(self.operand) {
            *output = function(operand * self.factor);
        }
    }
}

/// The two operands of an operation, and the memory for its result.
struct PairToTile<'a, F> {
    left: &'a [F],
    right: &'a [F],
    output: &'a mut [F],
}

impl<F: Copy> Zip<F> for PairToTile<'_, F> {
    type Output = ();

    #[inline(always)]
    fn zip(self, function: impl Fn(F, F) -> F) {
        let operands = self.left.iter().zip(self.right);
        for (output, (&left, &right)) in self.output.iter_mut().zip(operands) {
            *output = function(left, right);
        }
    }
}

impl<F: Float> Tiles<F> {
    /// Runs one elementwise operation on a tile.
    #[inline(always)]
    pub(in crate::executor) fn apply(
        &mut self,
        operation: Elementwise,
        operands: &[Place],
        factor: F,
        output: usize,
        here: &Here<'_, '_, F>,
    ) {
        let of_bools = match operation {
            Elementwise::Compare(_) | Elementwise::Unary(Unary::Not) => true,
            Elementwise::Binary(binary) => matches!(binary, Binary::And | Binary::Or | Binary::Xor),
            _ => false,
        };
        if of_bools {
            let mut result = std::mem::take(&mut self.0.bools[output]);
            self.apply_to_bools(operation, operands, here, &mut result[..here.count]);
            self.0.bools[output] = result;
        } else {
            let mut result = std::mem::take(&mut self.0.floats[output]);
            self.apply_to_floats(operation, operands, factor, here, &mut result[..here.count]);
            self.0.floats[output] = result;
        }
    }

    /// Runs an operation of arithmetic on a tile.
    #[inline(always)]
    pub(in crate::executor) fn apply_arithmetic(
        &mut self,
        arithmetic: Arithmetic,
        operands: &[Place],
        [of_left, of_right]: [F; 2],
        output: usize,
        here: &Here<'_, '_, F>,
    ) {
        let mut result = std::mem::take(&mut self.0.floats[output]);
        let pair = PairToTile {
            left: self.floats(operands[0], here),
            right: self.floats(operands[1], here),
            output: &mut result[..here.count],
        };
        match arithmetic {
            Arithmetic::Add => pair.zip(|left, right| left * of_left + right * of_right),
            Arithmetic::Sub => pair.zip(|left, right| left * of_left - right * of_right),
            Arithmetic::Mul => pair.zip(|left, right| left * of_left * (right * of_right)),
            Arithmetic::Div => pair.zip(|left, right| left * of_left / (right * of_right)),
        }
        self.0.floats[output] = result;
    }

    /// Runs a chain of two operations on a tile.
    #[inline(always)]
    pub(in crate::executor) fn apply_chain(
        &mut self,
        chain: Chain,
        operands: &[Place],
        factors: [F; 4],
        output: usize,
        here: &Here<'_, '_, F>,
    ) {
        let mut result = std::mem::take(&mut self.0.floats[output]);
        let operands = [0, 1, 2].map(|operand| self.floats(operands[operand], here));
        chain_tiles(chain, operands, factors, &mut result[..here.count]);
        self.0.floats[output] = result;
    }

    #[inline(always)]
    fn apply_to_floats(
        &self,
        operation: Elementwise,
        operands: &[Place],
        factor: F,
        here: &Here<'_, '_, F>,
        output: &mut [F],
    ) {
        let float = |position: usize| self.floats(operands[position], here);
        match operation {
            Elementwise::Unary(unary) => F::unary(
                unary,
                ToTile {
                    operand: float(0),
                    factor,
                    output,
                },
            ),
            Elementwise::Binary(binary) => F::binary(
                binary,
                PairToTile {
                    left: float(0),
                    right: float(1),
                    output,
                },
            ),
            Elementwise::Convert(_) => {
                let condition = self.bools(operands[0], here);
                output
                    .iter_mut()
                    .zip(condition)
                    .for_each(|(output, &condition)| *output = F::of_bool(condition));
            }
            _ => {
                let condition = self.bools(operands[0], here);
                let (on_true, on_false) = (float(1), float(2));
                for (((output, &condition), &on_true), &on_false) in
                    output.iter_mut().zip(condition).zip(on_true).zip(on_false)
                {
                    // A branch would become a gather, because the compiler moves the loads of both values into the branches.
                    *output = select_unpredictable(condition, on_true, on_false);
                }
            }
        }
    }

    #[inline(always)]
    fn apply_to_bools(
        &self,
        operation: Elementwise,
        operands: &[Place],
        here: &Here<'_, '_, F>,
        output: &mut [bool],
    ) {
        let truth = |position: usize| self.bools(operands[position], here);
        match operation {
            Elementwise::Compare(comparison) => {
                let (left, right) = (
                    self.floats(operands[0], here),
                    self.floats(operands[1], here),
                );
                compare(comparison, left, right, output);
            }
            Elementwise::Binary(binary) => {
                for ((output, &left), &right) in output.iter_mut().zip(truth(0)).zip(truth(1)) {
                    *output = match binary {
                        Binary::And => left & right,
                        Binary::Or => left | right,
                        _ => left ^ right,
                    };
                }
            }
            _ => output
                .iter_mut()
                .zip(truth(0))
                .for_each(|(output, &value)| *output = !value),
        }
    }
}

/// Runs a chain on three tiles. Each chain has its own loop, so that no loop contains a branch.
#[inline(always)]
fn chain_tiles<F: Float>(
    chain: Chain,
    [left, right, other]: [&[F]; 3],
    [of_left, of_right, of_other, of_middle]: [F; 4],
    output: &mut [F],
) {
    macro_rules! each {
        ($first:tt) => {
            match chain.second {
                Arithmetic::Add => each!($first, +),
                Arithmetic::Sub => each!($first, -),
                Arithmetic::Mul => each!($first, *),
                Arithmetic::Div => each!($first, /),
            }
        };
        ($first:tt, $second:tt) => {
            match chain.side {
                Side::Left => each!(|middle, other| middle $second other, $first),
                Side::Right => each!(|middle, other| other $second middle, $first),
            }
        };
        ($second:expr, $first:tt) => {{
            let second = $second;
            let operands = left.iter().zip(right).zip(other);
            for (output, ((&left, &right), &other)) in output.iter_mut().zip(operands) {
                let middle = (left * of_left) $first (right * of_right);
                *output = second(middle * of_middle, other * of_other);
            }
        }};
    }
    match chain.first {
        Arithmetic::Add => each!(+),
        Arithmetic::Sub => each!(-),
        Arithmetic::Mul => each!(*),
        Arithmetic::Div => each!(/),
    }
}

/// Compares elements pairwise. Each comparison has its own loop, so that no loop contains a branch.
#[inline(always)]
fn compare<F: PartialOrd>(comparison: Comparison, left: &[F], right: &[F], output: &mut [bool]) {
    macro_rules! each {
        ($($comparison:ident $operator:tt),*) => {
            match comparison {$(
                Comparison::$comparison => {
                    for ((output, left), right) in output.iter_mut().zip(left).zip(right) {
                        *output = left $operator right;
                    }
                }
            )*}
        };
    }
    each!(Eq ==, Ne !=, Lt <, Le <=, Gt >, Ge >=);
}
