//! The registers of a fused pass: tiles of elements that stay in the first-level cache.
//!
//! Everything that touches elements is inlined into the pass, which is compiled for several instruction
//! sets and chosen when the program runs.

#![allow(
    clippy::inline_always,
    reason = "only what is inlined is compiled for the wide instruction sets"
)]

use std::cell::RefCell;
use std::sync::Arc;

use crate::array::Array;
use crate::dtype::TensorElement;
use crate::primitives::elementwise::{Binary, Comparison, Elementwise, Kernels, Map, Unary, Zip};
use crate::transformations::fusion::{Place, holds};

/// The elements of a tile: 2 KiB of f32, so that a dozen registers fit the first-level cache.
pub(crate) const TILE: usize = 512;

/// A float type that fills tiles.
pub(crate) trait Float: Kernels {
    fn from_f64(value: f64) -> Self;
    fn of_bool(value: bool) -> Self;
    /// Runs a function with this thread's registers.
    fn spare() -> &'static std::thread::LocalKey<RefCell<Vec<Registers<Self>>>>;
}

/// The operand of an operation, and where its result goes.
struct ToTile<'a, F> {
    operand: &'a [F],
    output: &'a mut [F],
}

impl<F: Copy> Map<F> for ToTile<'_, F> {
    type Output = ();

    #[inline(always)]
    fn map(self, function: impl Fn(F) -> F) {
        for (output, &operand) in self.output.iter_mut().zip(self.operand) {
            *output = function(operand);
        }
    }
}

/// The operands of an operation, and where its result goes.
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

/// Registers of floats and of bools.
#[derive(Default)]
pub(crate) struct Registers<F> {
    floats: Vec<Vec<F>>,
    bools: Vec<Vec<bool>>,
}

/// The registers of a pass, given back to the thread afterwards.
pub(crate) struct Tiles<F: Float>(Registers<F>);

impl<F: Float> Drop for Tiles<F> {
    fn drop(&mut self) {
        let registers = std::mem::replace(
            &mut self.0,
            Registers {
                floats: Vec::new(),
                bools: Vec::new(),
            },
        );
        F::spare().with_borrow_mut(|spare| spare.push(registers));
    }
}

impl<F: Float> Tiles<F> {
    /// At least `count` registers of each type.
    pub(crate) fn borrow(count: usize) -> Self {
        let mut registers = F::spare()
            .with_borrow_mut(Vec::pop)
            .unwrap_or_else(|| Registers {
                floats: Vec::new(),
                bools: Vec::new(),
            });
        if registers.floats.len() < count {
            registers
                .floats
                .resize_with(count, || vec![F::default(); TILE]);
            registers.bools.resize_with(count, || vec![false; TILE]);
        }
        Self(registers)
    }

    /// One value in all places.
    #[inline(always)]
    pub(crate) fn fill(&mut self, register: usize, value: F) {
        self.0.floats[register].fill(value);
    }

    /// A row repeated.
    #[inline(always)]
    pub(crate) fn cycle(
        &mut self,
        register: usize,
        source: &[F],
        period: usize,
        start: usize,
        count: usize,
    ) {
        let output = &mut self.0.floats[register][..count];
        let mut at = start % period;
        let mut done = 0;
        while done < count {
            let run = (period - at).min(count - done);
            output[done..done + run].copy_from_slice(&source[at..at + run]);
            done += run;
            at = 0;
        }
    }

    /// A column repeated.
    #[inline(always)]
    pub(crate) fn stretch(
        &mut self,
        register: usize,
        source: &[F],
        times: usize,
        start: usize,
        count: usize,
    ) {
        let output = &mut self.0.floats[register][..count];
        let (mut at, mut left) = (start / times, times - start % times);
        let mut done = 0;
        while done < count {
            let run = left.min(count - done);
            output[done..done + run].fill(source[at]);
            done += run;
            at += 1;
            left = times;
        }
    }

    /// Copies a register into a result.
    #[inline(always)]
    pub(crate) fn store(&self, register: usize, result: &mut Array, start: usize, count: usize) {
        if let Some(elements) = F::slice_mut(&mut result.data) {
            elements[start..start + count].copy_from_slice(&self.0.floats[register][..count]);
        } else if let Some(elements) = bool::slice_mut(&mut result.data) {
            elements[start..start + count].copy_from_slice(&self.0.bools[register][..count]);
        }
    }

    /// Runs one operation on a tile.
    #[inline(always)]
    pub(crate) fn apply(
        &mut self,
        operation: Elementwise,
        operands: &[Place],
        output: usize,
        inputs: &[Arc<Array>],
        start: usize,
        count: usize,
    ) {
        let of_bools = match operation {
            Elementwise::Compare(_) | Elementwise::Unary(Unary::Not) => true,
            Elementwise::Binary(binary) => matches!(binary, Binary::And | Binary::Or | Binary::Xor),
            _ => false,
        };
        if of_bools {
            let mut result = std::mem::take(&mut self.0.bools[output]);
            self.apply_to_bools(operation, operands, inputs, start, &mut result[..count]);
            self.0.bools[output] = result;
        } else {
            let mut result = std::mem::take(&mut self.0.floats[output]);
            self.apply_to_floats(operation, operands, inputs, start, &mut result[..count]);
            self.0.floats[output] = result;
        }
    }

    #[inline(always)]
    fn floats<'a>(
        &'a self,
        place: Place,
        inputs: &'a [Arc<Array>],
        start: usize,
        count: usize,
    ) -> &'a [F] {
        match place {
            Place::Register(register) => &self.0.floats[register][..count],
            Place::Input(input) => &inputs[input].elements::<F>()[start..start + count],
        }
    }

    #[inline(always)]
    fn bools<'a>(
        &'a self,
        place: Place,
        inputs: &'a [Arc<Array>],
        start: usize,
        count: usize,
    ) -> &'a [bool] {
        match place {
            Place::Register(register) => &self.0.bools[register][..count],
            Place::Input(input) => &inputs[input].elements::<bool>()[start..start + count],
        }
    }

    #[inline(always)]
    fn apply_to_floats(
        &self,
        operation: Elementwise,
        operands: &[Place],
        inputs: &[Arc<Array>],
        start: usize,
        output: &mut [F],
    ) {
        let count = output.len();
        let float = |position: usize| self.floats(operands[position], inputs, start, count);
        match operation {
            Elementwise::Unary(unary) => {
                let operand = float(0);
                F::unary(unary, ToTile { operand, output });
            }
            Elementwise::Binary(binary) => {
                let (left, right) = (float(0), float(1));
                F::binary(
                    binary,
                    PairToTile {
                        left,
                        right,
                        output,
                    },
                );
            }
            Elementwise::Convert(_) => {
                let condition = self.bools(operands[0], inputs, start, count);
                output
                    .iter_mut()
                    .zip(condition)
                    .for_each(|(output, &condition)| *output = F::of_bool(condition));
            }
            _ => {
                let condition = self.bools(operands[0], inputs, start, count);
                let (on_true, on_false) = (float(1), float(2));
                for (((output, &condition), &on_true), &on_false) in
                    output.iter_mut().zip(condition).zip(on_true).zip(on_false)
                {
                    *output = if condition { on_true } else { on_false };
                }
            }
        }
    }

    #[inline(always)]
    fn apply_to_bools(
        &self,
        operation: Elementwise,
        operands: &[Place],
        inputs: &[Arc<Array>],
        start: usize,
        output: &mut [bool],
    ) {
        let count = output.len();
        let truth = |position: usize| self.bools(operands[position], inputs, start, count);
        match operation {
            Elementwise::Compare(comparison) => {
                let (left, right) = (
                    self.floats(operands[0], inputs, start, count),
                    self.floats(operands[1], inputs, start, count),
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

/// Each comparison in a loop of its own, so that the loop has no branch.
#[inline(always)]
fn compare<F: PartialOrd>(comparison: Comparison, left: &[F], right: &[F], output: &mut [bool]) {
    macro_rules! each {
        ($($comparison:ident),*) => {
            match comparison {$(
                Comparison::$comparison => {
                    for ((output, left), right) in output.iter_mut().zip(left).zip(right) {
                        *output = holds(Comparison::$comparison, left, right);
                    }
                }
            )*}
        };
    }
    each!(Eq, Ne, Lt, Le, Gt, Ge);
}

macro_rules! floats {
    ($($float:ident, $spare:ident;)*) => {$(
        thread_local! {
            static $spare: RefCell<Vec<Registers<$float>>> = const { RefCell::new(Vec::new()) };
        }

        impl Float for $float {
            #[allow(clippy::cast_possible_truncation, trivial_numeric_casts, reason = "a constant takes the type of its tensor")]
            #[inline(always)]
            fn from_f64(value: f64) -> Self {
                value as Self
            }

            #[inline(always)]
            fn of_bool(value: bool) -> Self {
                if value { 1.0 } else { 0.0 }
            }

            fn spare() -> &'static std::thread::LocalKey<RefCell<Vec<Registers<Self>>>> {
                &$spare
            }
        }
    )*};
}
floats! {
    f32, SPARE_F32;
    f64, SPARE_F64;
}
