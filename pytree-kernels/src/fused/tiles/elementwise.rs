//! The elementwise operations of a tile.

#![allow(
    clippy::inline_always,
    reason = "only inlined code is compiled for the wide instruction sets"
)]

use std::hint::select_unpredictable;

use super::{Float, Slot, Tiles};
use crate::base::dtype::ArrayElement;
use crate::base::target::Target;
use crate::fused::kernel::{Arithmetic, Chain, Here, Place, Side};
use crate::primitives::elementwise::blocks::{
    Operand, Output, each_one, each_scaled, each_three, each_two,
};
use crate::primitives::elementwise::{Binary, Elementwise, Unary, Zip, compare_tile, unary_loop};

/// The two operands of an operation, and the memory for its result.
struct PairToTile<'a, 'o, F> {
    operands: [Operand<'a, F>; 2],
    output: Output<'o, F>,
}

impl<F: Float> Zip<F> for PairToTile<'_, '_, F> {
    type Output = ();

    #[inline(always)]
    fn zip(self, function: impl Fn(F, F) -> F) {
        let [left, right] = self.operands;
        each_two(left, right, self.output, function);
    }
}

/// Returns the memory for the result of a step: that of a register, or that of the result for which the register stands.
#[inline(always)]
#[allow(unsafe_code, reason = "a step may write into the memory of an operand")]
fn output<'a, 's, F: Float, T: ArrayElement>(
    register: usize,
    memory: &'a mut [T],
    here: &'a Here<'_, 's, F>,
    target: impl FnOnce(&'a Slot<'s, F>) -> &'a Target<'s, T>,
) -> Output<'a, T> {
    let Here { start, count, .. } = *here;
    match here.destinations[register] {
        None => Output::new(&mut memory[..count]),
        // SAFETY: `Tiles::floats` alone lends slices of results. They borrow the tiles, and a step that writes borrows the tiles
        // mutably. All operands of a tile begin at the same element as its result.
        Some(result) => unsafe { Output::of_result(target(&here.slots[result]), start, count) },
    }
}

impl<F: Float> Tiles<F> {
    /// Runs one elementwise operation on a tile.
    #[inline(always)]
    pub(crate) fn apply(
        &mut self,
        operation: Elementwise,
        operands: &[Place],
        factor: F,
        register: usize,
        here: &Here<'_, '_, F>,
    ) {
        let of_bools = match operation {
            Elementwise::Compare(_) | Elementwise::Unary(Unary::Not) => true,
            Elementwise::Binary(binary) => matches!(binary, Binary::And | Binary::Or | Binary::Xor),
            _ => false,
        };
        if of_bools {
            let mut memory = std::mem::take(&mut self.0.bools[register]);
            let output = output(register, &mut memory, here, Slot::bools);
            self.apply_to_bools(operation, operands, here, output);
            self.0.bools[register] = memory;
        } else {
            let mut memory = std::mem::take(&mut self.0.floats[register]);
            let output = output(register, &mut memory, here, Slot::floats);
            self.apply_to_floats(operation, operands, factor, here, output);
            self.0.floats[register] = memory;
        }
    }

    /// Runs an operation of arithmetic on a tile.
    #[inline(always)]
    pub(crate) fn apply_arithmetic(
        &mut self,
        arithmetic: Arithmetic,
        operands: &[Place],
        [of_left, of_right]: [F; 2],
        register: usize,
        here: &Here<'_, '_, F>,
    ) {
        let mut memory = std::mem::take(&mut self.0.floats[register]);
        let pair = PairToTile {
            operands: [0, 1].map(|operand| self.float_operand(operands[operand], here)),
            output: output(register, &mut memory, here, Slot::floats),
        };
        match arithmetic {
            Arithmetic::Add => pair.zip(|left, right| left * of_left + right * of_right),
            Arithmetic::Sub => pair.zip(|left, right| left * of_left - right * of_right),
            Arithmetic::Mul => pair.zip(|left, right| left * of_left * (right * of_right)),
            Arithmetic::Div => pair.zip(|left, right| left * of_left / (right * of_right)),
        }
        self.0.floats[register] = memory;
    }

    /// Runs a chain of two operations on a tile.
    #[inline(always)]
    pub(crate) fn apply_chain(
        &mut self,
        chain: Chain,
        operands: &[Place],
        factors: [F; 4],
        register: usize,
        here: &Here<'_, '_, F>,
    ) {
        let mut memory = std::mem::take(&mut self.0.floats[register]);
        let operands = [0, 1, 2].map(|operand| self.float_operand(operands[operand], here));
        let output = output(register, &mut memory, here, Slot::floats);
        chain_tiles(chain, operands, factors, output);
        self.0.floats[register] = memory;
    }

    #[inline(always)]
    fn apply_to_floats(
        &self,
        operation: Elementwise,
        operands: &[Place],
        factor: F,
        here: &Here<'_, '_, F>,
        output: Output<'_, F>,
    ) {
        let float = |position: usize| self.float_operand(operands[position], here);
        match operation {
            Elementwise::Unary(operation) => {
                let mut step = (float(0), output);
                if factor != F::from_f64(1.0) {
                    let (operand, output) = step;
                    step = output.after(|output| each_scaled(operand, factor, output, |x| x));
                }
                unary_loop(operation, F::dtype(), step.0, step.1);
            }
            Elementwise::Binary(binary) => F::binary(
                binary,
                F::dtype(),
                PairToTile {
                    operands: [float(0), float(1)],
                    output,
                },
            ),
            Elementwise::Convert(_) => {
                let condition = self.bool_operand(operands[0], here);
                each_one(condition, output, F::of_bool);
            }
            _ => {
                let condition = self.bool_operand(operands[0], here);
                // A branch would become a gather, because the compiler moves the loads of both values into the branches.
                each_three(condition, float(1), float(2), output, select_unpredictable);
            }
        }
    }

    #[inline(always)]
    fn apply_to_bools(
        &self,
        operation: Elementwise,
        operands: &[Place],
        here: &Here<'_, '_, F>,
        output: Output<'_, bool>,
    ) {
        let truth = |position: usize| self.bool_operand(operands[position], here);
        match operation {
            Elementwise::Compare(comparison) => {
                let [left, right] =
                    [0, 1].map(|operand| self.float_operand(operands[operand], here));
                compare_tile(comparison, left, right, output);
            }
            Elementwise::Binary(binary) => {
                each_two(truth(0), truth(1), output, |left, right| match binary {
                    Binary::And => left & right,
                    Binary::Or => left | right,
                    _ => left ^ right,
                });
            }
            _ => each_one(truth(0), output, |value: bool| !value),
        }
    }
}

/// Runs a chain on three tiles. Each chain has its own loop, so that no loop contains a branch.
#[inline(always)]
fn chain_tiles<F: Float>(
    chain: Chain,
    [left, right, other]: [Operand<'_, F>; 3],
    [of_left, of_right, of_other, of_middle]: [F; 4],
    output: Output<'_, F>,
) {
    macro_rules! run {
        ($first:tt) => {
            match chain.second {
                Arithmetic::Add => run!($first, +),
                Arithmetic::Sub => run!($first, -),
                Arithmetic::Mul => run!($first, *),
                Arithmetic::Div => run!($first, /),
            }
        };
        ($first:tt, $second:tt) => {
            match chain.side {
                Side::Left => run!(|middle, other| middle $second other, $first),
                Side::Right => run!(|middle, other| other $second middle, $first),
            }
        };
        ($second:expr, $first:tt) => {{
            let second = $second;
            each_three(left, right, other, output, |left, right, other| {
                let middle = (left * of_left) $first (right * of_right);
                second(middle * of_middle, other * of_other)
            });
        }};
    }
    match chain.first {
        Arithmetic::Add => run!(+),
        Arithmetic::Sub => run!(-),
        Arithmetic::Mul => run!(*),
        Arithmetic::Div => run!(/),
    }
}
