//! The elementwise operations of a tile.

use std::hint::select_unpredictable;

use super::registers::{Float, Held, Tiles, own};
use crate::base::dtype::DType;
use crate::base::instructions::leaf;
use crate::fused::places::{Here, OperandPlace};
use crate::fused::steps::{Arithmetic, Chain, Side, Types};
use crate::loops::elementwise::blocks::{
    Operand, Output, each_four, each_scaled, each_three, each_two,
};
use crate::loops::elementwise::classes::with_class;
use crate::loops::elementwise::{
    Comparison, Elementwise, Unary, binary_loop, compare_loop, conversion_loop, select_loop,
    unary_loop,
};

/// Returns the memory for the result of a step: that of a register, or that of the result for which the register stands.
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
    /// Runs an operation on one float of the kernel's type, which is multiplied by a factor first.
    pub(crate) fn call_scaled<F: Float>(
        &mut self,
        operation: Unary,
        operand: OperandPlace,
        factor: F,
        register: usize,
        here: &Here<'_, '_>,
    ) {
        let mut memory = self.take::<F>(register);
        let operand = self.operand(operand, here);
        let output = output(register, &mut memory, here);
        let (operand, output) = output.after(|output| {
            leaf! {
                each_scaled(operand, factor, output, |number| number);
            }
        });
        unary_loop(operation, F::dtype(), operand, output);
        self.put(register, memory);
    }

    /// Runs an operation of any types. Whole arrays use its loop, too.
    pub(crate) fn call(
        &mut self,
        operation: Elementwise,
        Types { from, to }: Types,
        operands: &[OperandPlace],
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

    fn pair<'a, C: Held>(
        &'a self,
        operands: &[OperandPlace],
        here: &'a Here<'_, '_>,
    ) -> [Operand<'a, C>; 2] {
        [0, 1].map(|operand| self.operand(operands[operand], here))
    }

    /// Runs an operation of arithmetic on a tile.
    pub(crate) fn apply_arithmetic<F: Float>(
        &mut self,
        arithmetic: Arithmetic,
        operands: &[OperandPlace],
        [of_left, of_right]: [F; 2],
        register: usize,
        here: &Here<'_, '_>,
    ) {
        let mut memory = self.take::<F>(register);
        let [left, right] = self.pair::<F>(operands, here);
        let output = output(register, &mut memory, here);
        let (form, sign) = Form::of(arithmetic);
        let of_right = F::from_number(sign) * of_right;
        macro_rules! run {
            ($operator:tt) => {
                leaf! {
                    each_two(left, right, output, |left, right| {
                        (left * of_left) $operator (right * of_right)
                    });
                }
            };
        }
        match form {
            Form::Add => run!(+),
            Form::Mul => run!(*),
            Form::Div => run!(/),
        }
        self.put(register, memory);
    }

    /// Runs a chain of two operations on a tile.
    pub(crate) fn apply_chain<F: Float>(
        &mut self,
        chain: Chain,
        operands: &[OperandPlace],
        [of_left, of_right, of_other, of_middle]: [F; 4],
        register: usize,
        here: &Here<'_, '_>,
    ) {
        let mut memory = self.take::<F>(register);
        let [left, right, other] =
            [0, 1, 2].map(|operand| self.operand::<F>(operands[operand], here));
        let output = output(register, &mut memory, here);
        let ((first, first_sign), (second, sign)) = (Form::of(chain.first), Form::of(chain.second));
        let of_right = F::from_number(first_sign) * of_right;
        let (middle_sign, other_sign) = match chain.side {
            Side::Left => (1.0, sign),
            Side::Right => (sign, 1.0),
        };
        let of_middle = F::from_number(middle_sign) * of_middle;
        let of_other = F::from_number(other_sign) * of_other;
        // Each chain has its own loop, so that no loop contains a branch.
        macro_rules! run {
            ($second:expr) => {
                match first {
                    Form::Add => run!($second, +),
                    Form::Mul => run!($second, *),
                    Form::Div => run!($second, /),
                }
            };
            ($second:expr, $first:tt) => {
                leaf! {
                    let second = $second;
                    each_three(left, right, other, output, |left, right, other| {
                        let middle = (left * of_left) $first (right * of_right);
                        second(middle * of_middle, other * of_other)
                    });
                }
            };
        }
        match (second, chain.side) {
            (Form::Add, _) => run!(|middle, other| middle + other),
            (Form::Mul, _) => run!(|middle, other| middle * other),
            (Form::Div, Side::Left) => run!(|middle, other| middle / other),
            (Form::Div, Side::Right) => run!(|middle, other| other / middle),
        }
        self.put(register, memory);
    }

    /// Compares the elements of two tiles, and chooses from two others. Other comparisons are those with exchanged operands.
    pub(crate) fn apply_choice<F: Float>(
        &mut self,
        comparison: Comparison,
        operands: &[OperandPlace],
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
                leaf! {
                    each_four(left, right, on_true, on_false, output, |left, right, on_true, on_false| {
                        select_unpredictable(left $operator right, on_true, on_false)
                    });
                }
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
    pub(crate) fn apply_limit<F: Float>(
        &mut self,
        comparison: Comparison,
        operands: &[OperandPlace],
        register: usize,
        here: &Here<'_, '_>,
    ) {
        let mut memory = self.take::<F>(register);
        let [left, right] = self.pair::<F>(operands, here);
        let output = output(register, &mut memory, here);
        match comparison {
            Comparison::Gt => leaf! {
                each_two(left, right, output, |left, right| if left > right { left } else { right });
            },
            _ => leaf! {
                each_two(left, right, output, |left, right| if left < right { left } else { right });
            },
        }
        self.put(register, memory);
    }
}

/// The forms of arithmetic that have loops. A difference is a sum whose second operand has the factor -1, which changes no bit.
#[derive(Clone, Copy)]
enum Form {
    Add,
    Mul,
    Div,
}

impl Form {
    /// Returns the form of an operation, and the factor of its right operand.
    fn of(arithmetic: Arithmetic) -> (Self, f64) {
        match arithmetic {
            Arithmetic::Add => (Self::Add, 1.0),
            Arithmetic::Sub => (Self::Add, -1.0),
            Arithmetic::Mul => (Self::Mul, 1.0),
            Arithmetic::Div => (Self::Div, 1.0),
        }
    }
}
