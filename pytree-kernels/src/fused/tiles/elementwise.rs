//! The elementwise operations of a tile.

use std::hint::select_unpredictable;

use super::{Float, Held, Tiles, own};
use crate::base::dtype::DType;
use crate::fused::kernel::{Arithmetic, Chain, Here, Place, Side};
use crate::primitives::elementwise::blocks::{
    Operand, Output, each_four, each_one, each_scaled, each_three, each_two,
};
use crate::primitives::elementwise::classes::with_class;
use crate::primitives::elementwise::{
    Binary, Comparison, Elementwise, Unary, Zip, binary_loop, compare_loop, compare_tile,
    conversion_loop, select_loop, unary_loop,
};

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

/// The dtype of the operands of an operation other than its condition, and the dtype of its result.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Types {
    pub(crate) from: DType,
    pub(crate) to: DType,
}

/// Returns the memory for the result of a step: that of a register, or that of the result for which the register stands.
#[inline(always)]
#[allow(unsafe_code, reason = "a step may write into the memory of an operand")]
fn output<'a, C: Held>(
    register: usize,
    memory: &'a mut [C],
    here: &'a Here<'_, '_>,
) -> Output<'a, C> {
    let Here { start, count, .. } = *here;
    match here.destinations[register] {
        None => Output::new(&mut memory[..count]),
        // SAFETY: `Tiles::elements` alone lends slices of results. They borrow the tiles, and a step that writes borrows the tiles
        // mutably. All operands of a tile begin at the same element as its result.
        Some(result) => unsafe { Output::of_result(own(&here.slots[result]), start, count) },
    }
}

impl Tiles {
    /// Runs an operation on floats of the kernel's type, or a logical operation on bools.
    #[inline(always)]
    pub(crate) fn apply<F: Float>(
        &mut self,
        operation: Elementwise,
        operands: &[Place],
        factor: F,
        register: usize,
        here: &Here<'_, '_>,
    ) {
        let of_bools = match operation {
            Elementwise::Compare(_) | Elementwise::Unary(Unary::Not) => true,
            Elementwise::Binary(binary) => matches!(binary, Binary::And | Binary::Or | Binary::Xor),
            _ => false,
        };
        if of_bools {
            let mut memory = self.take(register);
            let output = output(register, &mut memory, here);
            self.apply_to_bools::<F>(operation, operands, here, output);
            self.put(register, memory);
        } else {
            let mut memory = self.take(register);
            let output = output(register, &mut memory, here);
            self.apply_to_floats(operation, operands, factor, here, output);
            self.put(register, memory);
        }
    }

    /// Runs an operation of any types. Its loop is compiled outside of the kernel, and whole arrays use it too.
    #[inline(never)]
    pub(crate) fn call(
        &mut self,
        operation: Elementwise,
        Types { from, to }: Types,
        operands: &[Place],
        register: usize,
        here: &Here<'_, '_>,
    ) {
        macro_rules! run {
            ($class:ident, $output:ident => $loop:expr) => {{
                let mut memory = self.take::<$class>(register);
                let $output = output(register, &mut memory, here);
                $loop;
                self.put(register, memory);
            }};
        }
        match operation {
            Elementwise::Unary(unary) => with_class!(to, C => run!(C, output => {
                unary_loop(unary, to, self.operand(operands[0], here), output);
            })),
            Elementwise::Binary(binary) => with_class!(to, C => run!(C, output => {
                binary_loop(binary, to, self.pair(operands, here), output);
            })),
            Elementwise::Compare(comparison) => with_class!(from, C => run!(bool, output => {
                compare_loop::<C>(comparison, self.pair(operands, here), output);
            })),
            Elementwise::Convert(_) => {
                with_class!(from, C => with_class!(to, R => run!(R, output => {
                    conversion_loop::<C, R>(to, self.operand(operands[0], here), output);
                })));
            }
            Elementwise::Select => with_class!(to, C => run!(C, output => {
                let condition = self.operand::<bool>(operands[0], here);
                select_loop(condition, self.pair(&operands[1..], here), output);
            })),
        }
    }

    #[inline(always)]
    fn pair<'a, C: Held>(
        &'a self,
        operands: &[Place],
        here: &'a Here<'_, '_>,
    ) -> [Operand<'a, C>; 2] {
        [0, 1].map(|operand| self.operand(operands[operand], here))
    }

    /// Runs an operation of arithmetic on a tile.
    #[inline(always)]
    pub(crate) fn apply_arithmetic<F: Float>(
        &mut self,
        arithmetic: Arithmetic,
        operands: &[Place],
        [of_left, of_right]: [F; 2],
        register: usize,
        here: &Here<'_, '_>,
    ) {
        let mut memory = self.take::<F>(register);
        let pair = PairToTile {
            operands: self.pair(operands, here),
            output: output(register, &mut memory, here),
        };
        match arithmetic {
            Arithmetic::Add => pair.zip(|left, right| left * of_left + right * of_right),
            Arithmetic::Sub => pair.zip(|left, right| left * of_left - right * of_right),
            Arithmetic::Mul => pair.zip(|left, right| left * of_left * (right * of_right)),
            Arithmetic::Div => pair.zip(|left, right| left * of_left / (right * of_right)),
        }
        self.put(register, memory);
    }

    /// Runs a chain of two operations on a tile.
    #[inline(always)]
    pub(crate) fn apply_chain<F: Float>(
        &mut self,
        chain: Chain,
        operands: &[Place],
        factors: [F; 4],
        register: usize,
        here: &Here<'_, '_>,
    ) {
        let mut memory = self.take(register);
        let operands = [0, 1, 2].map(|operand| self.operand(operands[operand], here));
        let output = output(register, &mut memory, here);
        chain_tiles(chain, operands, factors, output);
        self.put(register, memory);
    }

    /// Compares the elements of two tiles, and chooses from two others. Other comparisons are those with exchanged operands.
    #[inline(always)]
    pub(crate) fn apply_choice<F: Float>(
        &mut self,
        comparison: Comparison,
        operands: &[Place],
        register: usize,
        here: &Here<'_, '_>,
    ) {
        let mut memory = self.take::<F>(register);
        let [left, right] = self.pair::<F>(operands, here);
        let [on_true, on_false] = self.pair::<F>(&operands[2..], here);
        let output = output(register, &mut memory, here);
        let (left, right) = match comparison {
            Comparison::Gt | Comparison::Ge => (right, left),
            _ => (left, right),
        };
        let (on_true, on_false) = match comparison {
            Comparison::Ne => (on_false, on_true),
            _ => (on_true, on_false),
        };
        macro_rules! run {
            ($operator:tt) => {
                each_four(left, right, on_true, on_false, output, |left, right, on_true, on_false| {
                    select_unpredictable(left $operator right, on_true, on_false)
                })
            };
        }
        match comparison {
            Comparison::Eq | Comparison::Ne => run!(==),
            Comparison::Lt | Comparison::Gt => run!(<),
            Comparison::Le | Comparison::Ge => run!(<=),
        }
        self.put(register, memory);
    }

    /// Chooses the numbers of the first tile that are greater or less than those of the second one, and the others of the second one.
    #[inline(always)]
    pub(crate) fn apply_limit<F: Float>(
        &mut self,
        comparison: Comparison,
        operands: &[Place],
        register: usize,
        here: &Here<'_, '_>,
    ) {
        let mut memory = self.take::<F>(register);
        let pair = PairToTile {
            operands: self.pair(operands, here),
            output: output(register, &mut memory, here),
        };
        match comparison {
            Comparison::Gt => pair.zip(|left, right| if left > right { left } else { right }),
            _ => pair.zip(|left, right| if left < right { left } else { right }),
        }
        self.put(register, memory);
    }

    #[inline(always)]
    fn apply_to_floats<F: Float>(
        &self,
        operation: Elementwise,
        operands: &[Place],
        factor: F,
        here: &Here<'_, '_>,
        output: Output<'_, F>,
    ) {
        let float = |position: usize| self.operand(operands[position], here);
        match operation {
            Elementwise::Unary(operation) => {
                let mut step = (float(0), output);
                if factor != F::from_number(1.0) {
                    let (operand, output) = step;
                    step = output.after(|output| each_scaled(operand, factor, output, |x| x));
                }
                unary_loop(operation, F::dtype(), step.0, step.1);
            }
            Elementwise::Binary(binary) => F::binary(
                binary,
                F::dtype(),
                PairToTile {
                    operands: self.pair(operands, here),
                    output,
                },
            ),
            Elementwise::Convert(_) => {
                each_one(self.operand(operands[0], here), output, F::of_bool);
            }
            _ => {
                let condition = self.operand::<bool>(operands[0], here);
                // A branch would become a gather, because the compiler moves the loads of both values into the branches.
                each_three(condition, float(1), float(2), output, select_unpredictable);
            }
        }
    }

    #[inline(always)]
    fn apply_to_bools<F: Float>(
        &self,
        operation: Elementwise,
        operands: &[Place],
        here: &Here<'_, '_>,
        output: Output<'_, bool>,
    ) {
        let truth = |position: usize| self.operand::<bool>(operands[position], here);
        match operation {
            Elementwise::Compare(comparison) => {
                let [left, right] = self.pair::<F>(operands, here);
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
