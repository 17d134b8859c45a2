//! The registers of a kernel: tiles of elements that stay in the first-level cache.
//!
//! All code that touches elements is inlined into the kernel, which is compiled for several instruction sets. The
//! program chooses the instruction set at run time.

#![allow(
    clippy::inline_always,
    reason = "only inlined code is compiled for the wide instruction sets"
)]

mod elementwise;
mod register;
mod totals;

use std::cell::RefCell;
use std::ops::{Add, Div, Mul, Sub};

use pytree_base::bug::{bug, expect_some};

use self::register::Register;
pub(super) use self::totals::{Accumulators, Total, Totals};
use super::kernel::{Here, Place};
use crate::base::array::Array;
use crate::base::dtype::ArrayElement;
use crate::base::fold;
use crate::base::fold::Fold;
use crate::base::narrow::Half;
use crate::base::target::Target;
use crate::primitives::dot::Factor;
use crate::primitives::elementwise::Kernels;
use crate::primitives::elementwise::blocks::Operand;

/// The dtypes that a result of a kernel may have, as text for the panic message of a library bug.
const STORED: &str = "floats of the kernel's dtype, half-precision floats or bools";

/// The expected content of a repeated column, as text for the panic message of a library bug.
const REPEATED: &str = "an element to repeat";

/// A float type that tiles can hold: `f32` or `f64`.
pub(super) trait Float:
    Kernels
    + Factor
    + Send
    + Sync
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
{
    fn from_f64(value: f64) -> Self;
    fn of_bool(value: bool) -> Self;
    /// Returns the initial accumulator of a reduction: its neutral element.
    fn start(fold: Fold) -> Self;
    fn combine(fold: Fold, left: Self, right: Self) -> Self;
    /// Rounds each number to a half-precision type.
    fn round(half: Half, numbers: &mut [Self]);
    /// Converts half-precision floats, given by their bits.
    fn widen(half: Half, bits: &[u16], numbers: &mut [Self]);
    /// Converts numbers to half-precision floats, and returns their bits.
    fn narrow(half: Half, numbers: &[Self], bits: &mut [u16]);
    /// Returns the thread-local list of registers that no kernel currently uses.
    fn spare() -> &'static std::thread::LocalKey<RefCell<Vec<Registers<Self>>>>;
}

/// The source of a kernel's input: an array, or the position of the result that overwrites the input.
pub(super) enum Source<'a> {
    Array(&'a Array),
    Result(usize),
}

impl Source<'_> {
    /// Returns all elements of an input that no result overwrites.
    #[inline(always)]
    pub(super) fn elements<F: Float>(&self) -> Elements<'_, F> {
        match self {
            Self::Array(array) => match Half::of(array.dtype()) {
                Some(half) => Elements::Halves(half, array.bits()),
                None => Elements::Floats(array.elements()),
            },
            Self::Result(_) => bug("no result to be written into a repeated array"),
        }
    }
}

/// The elements of an input: floats of the kernel's dtype, or the bits of half-precision floats.
#[derive(Clone, Copy)]
pub(super) enum Elements<'a, F> {
    Floats(&'a [F]),
    Halves(Half, &'a [u16]),
}

impl<F: Float> Elements<'_, F> {
    /// Returns the element at a position, or `None` if there are fewer elements.
    #[inline(always)]
    pub(super) fn get(&self, position: usize) -> Option<F> {
        match *self {
            Self::Floats(elements) => elements.get(position).copied(),
            Self::Halves(half, bits) => bits.get(position).map(|&bits| {
                let mut number = [F::default()];
                F::widen(half, &[bits], &mut number);
                number[0]
            }),
        }
    }

    /// Copies consecutive elements, beginning at the position `from`.
    #[inline(always)]
    fn copy_to(&self, from: usize, output: &mut [F]) {
        let to = from + output.len();
        match *self {
            Self::Floats(elements) => output.copy_from_slice(&elements[from..to]),
            Self::Halves(half, bits) => F::widen(half, &bits[from..to], output),
        }
    }
}

/// The memory of a result, which the parts of a kernel share.
pub(super) enum Slot<'a, F> {
    Floats(Target<'a, F>),
    /// The bits of half-precision floats.
    Halves(Half, Target<'a, u16>),
    Bools(Target<'a, bool>),
}

impl<'a, F: Float> Slot<'a, F> {
    pub(super) fn new(array: &'a mut Array) -> Self {
        if let Some(half) = Half::of(array.dtype()) {
            Self::Halves(half, Target::new(array.bits_mut()))
        } else if array.dtype() == F::dtype() {
            let elements = expect_some(F::slice_mut(&mut array.data), STORED);
            Self::Floats(Target::new(elements))
        } else {
            let elements = expect_some(bool::slice_mut(&mut array.data), STORED);
            Self::Bools(Target::new(elements))
        }
    }

    #[inline(always)]
    fn floats(&self) -> &Target<'a, F> {
        match self {
            Self::Floats(elements) => elements,
            Self::Halves(..) | Self::Bools(_) => bug(STORED),
        }
    }

    #[inline(always)]
    fn bools(&self) -> &Target<'a, bool> {
        match self {
            Self::Bools(elements) => elements,
            Self::Floats(_) | Self::Halves(..) => bug(STORED),
        }
    }

    /// Returns the same memory for another part of the kernel.
    ///
    /// # Safety
    /// The parts use different elements.
    #[allow(unsafe_code, reason = "the caller promises that the elements differ")]
    pub(super) unsafe fn shared(&self) -> Self {
        // SAFETY: the caller promises it.
        unsafe {
            match self {
                Self::Floats(elements) => Self::Floats(elements.shared()),
                Self::Halves(half, bits) => Self::Halves(*half, bits.shared()),
                Self::Bools(elements) => Self::Bools(elements.shared()),
            }
        }
    }
}

/// Registers of floats and of bools.
#[derive(Default)]
pub(super) struct Registers<F> {
    floats: Vec<Register<F>>,
    bools: Vec<Register<bool>>,
}

/// The registers that a kernel uses while it runs. Dropping this value returns the registers to the thread's list for
/// the next kernel.
pub(super) struct Tiles<F: Float>(Registers<F>);

impl<F: Float> Drop for Tiles<F> {
    fn drop(&mut self) {
        let registers = Registers {
            floats: std::mem::take(&mut self.0.floats),
            bools: std::mem::take(&mut self.0.bools),
        };
        // At the end of a thread, the thread's list may already be dropped. In this case, the registers are also
        // dropped.
        let _ = F::spare().try_with(|spare| spare.borrow_mut().push(registers));
    }
}

impl<F: Float> Tiles<F> {
    /// Returns at least `count` registers of floats and as many of bools, each for at least `length` elements.
    pub(super) fn borrow(count: usize, length: usize) -> Self {
        let spare = F::spare().try_with(|spare| spare.borrow_mut().pop());
        let mut registers = spare.ok().flatten().unwrap_or_else(|| Registers {
            floats: Vec::new(),
            bools: Vec::new(),
        });
        if registers.floats.len() < count {
            registers.floats.resize_with(count, Register::default);
            registers.bools.resize_with(count, Register::default);
        }
        for (floats, bools) in registers
            .floats
            .iter_mut()
            .zip(&mut registers.bools)
            .take(count)
        {
            floats.reserve(length);
            bools.reserve(length);
        }
        Self(registers)
    }

    /// Fills a register with one value.
    #[inline(always)]
    pub(super) fn fill(&mut self, register: usize, value: F) {
        self.0.floats[register].fill(value);
    }

    /// Fills a register with repetitions of a row.
    #[inline(always)]
    pub(super) fn cycle(
        &mut self,
        register: usize,
        source: Elements<'_, F>,
        period: usize,
        start: usize,
        count: usize,
    ) {
        let output = &mut self.0.floats[register][..count];
        let mut at = start % period;
        let mut done = 0;
        while done < count {
            let run = (period - at).min(count - done);
            source.copy_to(at, &mut output[done..done + run]);
            done += run;
            at = 0;
        }
    }

    /// Copies consecutive elements into a register.
    #[inline(always)]
    pub(super) fn load(
        &mut self,
        register: usize,
        source: Elements<'_, F>,
        start: usize,
        count: usize,
    ) {
        source.copy_to(start, &mut self.0.floats[register][..count]);
    }

    /// Copies the numbers at a place into a register.
    #[inline(always)]
    pub(super) fn copy(&mut self, operand: Place, register: usize, here: &Here<'_, '_, F>) {
        let mut output = std::mem::take(&mut self.0.floats[register]);
        output[..here.count].copy_from_slice(self.floats(operand, here));
        self.0.floats[register] = output;
    }

    /// Rounds the first `count` numbers of a register to a half-precision type.
    #[inline(always)]
    pub(super) fn round(&mut self, half: Half, register: usize, count: usize) {
        F::round(half, &mut self.0.floats[register][..count]);
    }

    /// Repeats each element of a column, and fills a register with the repetitions.
    #[inline(always)]
    pub(super) fn stretch(
        &mut self,
        register: usize,
        source: Elements<'_, F>,
        times: usize,
        start: usize,
        count: usize,
    ) {
        stretch(&mut self.0.floats[register][..count], source, times, start);
    }

    /// Repeats the single number of each row of the tile along the row.
    #[inline(always)]
    pub(super) fn spread(&mut self, operand: Place, register: usize, row: usize, count: usize) {
        let Place::Register(operand) = operand else {
            bug("the numbers of rows to be in a register")
        };
        let mut output = std::mem::take(&mut self.0.floats[register]);
        let rows = Elements::Floats(&self.0.floats[operand]);
        stretch(&mut output[..count], rows, row, 0);
        self.0.floats[register] = output;
    }

    /// Reduces each row of the tile to one number.
    #[inline(always)]
    pub(super) fn fold_rows(
        &mut self,
        fold: Fold,
        operand: Place,
        register: usize,
        row: usize,
        here: &Here<'_, '_, F>,
    ) {
        let mut output = std::mem::take(&mut self.0.floats[register]);
        let rows = self.floats(operand, here).chunks_exact(row);
        match fold {
            Fold::Sum => fold_each(&mut output, rows, Fold::Sum),
            Fold::Max => fold_each(&mut output, rows, Fold::Max),
            Fold::Min => fold_each(&mut output, rows, Fold::Min),
        }
        self.0.floats[register] = output;
    }

    /// Copies `count` values of a register into the memory of a result, beginning at the position `from`.
    #[inline(always)]
    pub(super) fn store(&self, register: usize, slot: &mut Slot<'_, F>, from: usize, count: usize) {
        match slot {
            Slot::Floats(elements) => {
                let numbers = &self.0.floats[register][..count];
                elements.slice_mut(from, count).copy_from_slice(numbers);
            }
            Slot::Halves(half, bits) => {
                let numbers = &self.0.floats[register][..count];
                F::narrow(*half, numbers, bits.slice_mut(from, count));
            }
            Slot::Bools(elements) => {
                let bools = &self.0.bools[register][..count];
                elements.slice_mut(from, count).copy_from_slice(bools);
            }
        }
    }

    /// Returns the floats of the tile at a place.
    #[inline(always)]
    #[allow(
        unsafe_code,
        reason = "no step writes to memory while the tiles are borrowed"
    )]
    pub(super) fn floats<'a>(&'a self, place: Place, here: &'a Here<'_, '_, F>) -> &'a [F] {
        // SAFETY: a step that writes borrows the tiles mutably.
        unsafe { self.float_operand(place, here).elements() }
    }

    #[inline(always)]
    fn float_operand<'a>(&'a self, place: Place, here: &'a Here<'_, '_, F>) -> Operand<'a, F> {
        operand(place, &self.0.floats, here, Slot::floats)
    }

    #[inline(always)]
    fn bool_operand<'a>(&'a self, place: Place, here: &'a Here<'_, '_, F>) -> Operand<'a, bool> {
        operand(place, &self.0.bools, here, Slot::bools)
    }
}

/// Returns the elements of the tile at a place.
#[inline(always)]
fn operand<'a, 's, F: Float, T: ArrayElement>(
    place: Place,
    registers: &'a [Register<T>],
    here: &'a Here<'_, 's, F>,
    target: impl FnOnce(&'a Slot<'s, F>) -> &'a Target<'s, T>,
) -> Operand<'a, T> {
    let Here { start, count, .. } = *here;
    let result = match place {
        Place::Register(register) => match here.destinations[register] {
            None => return Operand::new(&registers[register][..count]),
            Some(result) => result,
        },
        Place::Input(input) => match here.sources[input] {
            Source::Array(array) => {
                return Operand::new(&array.elements::<T>()[start..start + count]);
            }
            Source::Result(result) => result,
        },
    };
    Operand::of_result(target(&here.slots[result]), start, count)
}

#[inline(always)]
fn stretch<F: Float>(output: &mut [F], source: Elements<'_, F>, times: usize, start: usize) {
    let (mut at, mut left) = (start / times, times - start % times);
    let mut done = 0;
    while done < output.len() {
        let run = left.min(output.len() - done);
        output[done..done + run].fill(expect_some(source.get(at), REPEATED));
        done += run;
        at += 1;
        left = times;
    }
}

#[inline(always)]
fn fold_each<'a, F: Float>(output: &mut [F], rows: impl Iterator<Item = &'a [F]>, fold: Fold) {
    for (output, row) in output.iter_mut().zip(rows) {
        *output = fold::row(row, F::start(fold), |left, right| {
            F::combine(fold, left, right)
        });
    }
}

#[cold]
fn no_halves() -> ! {
    bug("a kernel of f32, because only such a kernel holds half-precision floats")
}

macro_rules! floats {
    ($($float:ident, $spare:ident, $round:expr, $widen:expr, $narrow:expr;)*) => {$(
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

            #[inline(always)]
            fn start(fold: Fold) -> Self {
                match fold {
                    Fold::Sum => 0.0,
                    Fold::Max => Self::NEG_INFINITY,
                    Fold::Min => Self::INFINITY,
                }
            }

            /// Combines two elements. For a maximum or minimum, returns NaN if either element is NaN.
            #[inline(always)]
            fn combine(fold: Fold, left: Self, right: Self) -> Self {
                match fold {
                    Fold::Sum => left + right,
                    Fold::Max => if left > right || left.is_nan() { left } else { right },
                    Fold::Min => if left < right || left.is_nan() { left } else { right },
                }
            }

            #[inline(always)]
            fn round(half: Half, numbers: &mut [Self]) {
                $round(half, numbers);
            }

            #[inline(always)]
            fn widen(half: Half, bits: &[u16], numbers: &mut [Self]) {
                $widen(half, bits, numbers);
            }

            #[inline(always)]
            fn narrow(half: Half, numbers: &[Self], bits: &mut [u16]) {
                $narrow(half, numbers, bits);
            }

            fn spare() -> &'static std::thread::LocalKey<RefCell<Vec<Registers<Self>>>> {
                &$spare
            }
        }
    )*};
}
floats! {
    f32, SPARE_F32, Half::round, Half::widen, Half::narrow;
    f64, SPARE_F64, |_, _| no_halves(), |_, _, _| no_halves(), |_, _, _| no_halves();
}
