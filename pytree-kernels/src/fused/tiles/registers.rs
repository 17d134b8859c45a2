//! The registers of each type, which hold the tiles of a running kernel.

use std::cell::RefCell;
use std::ops::{Add, Div, Mul, Sub};

use pytree_base::bug::{bug, expect_some};

use super::register::Register;
use crate::base::array::Array;
use crate::base::combine::{Number, Ordered, with_fold};
use crate::base::dtype::DType;
use crate::base::fold::{self, Fold};
use crate::base::narrow::Half;
use crate::base::pattern::{Pattern, stretch};
use crate::base::target::Target;
use crate::fused::places::{Filler, Here, KernelInput, OperandPlace};
use crate::loops::dot::Factor;
use crate::loops::elementwise::blocks::{Operand, Output};
use crate::loops::elementwise::classes::{Class, Memory, class_of, with_class};

/// The elements of a place, as text for the panic message of a library bug.
pub(super) const OWN: &str = "elements of the type in which the step computes";

/// A type whose numbers registers hold.
pub(crate) trait Held: Class {
    fn registers(registers: &Registers) -> &Vec<Register<Self>>;
    fn registers_mut(registers: &mut Registers) -> &mut Vec<Register<Self>>;
}

/// A float type in which a kernel computes: `f32` or `f64`.
pub(crate) trait Float:
    Held
    + Number
    + Ordered
    + Factor
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
{
    /// Rounds each number to a half-precision type.
    fn round(half: Half, numbers: &mut [Self]);
}

/// Registers of each type.
#[derive(Default)]
pub(crate) struct Registers {
    singles: Vec<Register<f32>>,
    doubles: Vec<Register<f64>>,
    integers: Vec<Register<i32>>,
    longs: Vec<Register<i64>>,
    bools: Vec<Register<bool>>,
}

macro_rules! held {
    ($($class:ident: $field:ident),*) => {$(
        impl Held for $class {
            #[inline(always)]
            fn registers(registers: &Registers) -> &Vec<Register<Self>> {
                &registers.$field
            }

            #[inline(always)]
            fn registers_mut(registers: &mut Registers) -> &mut Vec<Register<Self>> {
                &mut registers.$field
            }
        }
    )*};
}
held!(f32: singles, f64: doubles, i32: integers, i64: longs, bool: bools);

thread_local! {
    /// The registers that no kernel currently uses.
    static SPARE: RefCell<Vec<Registers>> = const { RefCell::new(Vec::new()) };
}

/// The registers that a kernel uses while it runs. Dropping this value returns the registers to the thread's list for
/// the next kernel.
pub(crate) struct Tiles(Registers);

impl Drop for Tiles {
    fn drop(&mut self) {
        let registers = std::mem::take(&mut self.0);
        // At the end of a thread, the thread's list may already be dropped. In this case, the registers are also
        // dropped.
        let _ = SPARE.try_with(|spare| spare.borrow_mut().push(registers));
    }
}

impl Tiles {
    /// Returns the given registers, each for at least `length` elements of a dtype.
    pub(crate) fn borrow(wanted: &[(DType, usize)], length: usize) -> Self {
        let spare = SPARE.try_with(|spare| spare.borrow_mut().pop());
        let mut registers = spare.ok().flatten().unwrap_or_default();
        for &(dtype, register) in wanted {
            with_class!(dtype, C => {
                let all = C::registers_mut(&mut registers);
                if all.len() <= register {
                    all.resize_with(register + 1, Register::default);
                }
                all[register].reserve(length);
            });
        }
        Self(registers)
    }

    pub(super) fn register<C: Held>(&self, register: usize) -> &[C] {
        &C::registers(&self.0)[register]
    }

    fn register_mut<C: Held>(&mut self, register: usize) -> &mut [C] {
        &mut C::registers_mut(&mut self.0)[register]
    }

    /// Fills a register with one number.
    pub(crate) fn fill(
        &mut self,
        register: usize,
        dtype: DType,
        number: Filler,
        sources: &[KernelInput<'_>],
    ) {
        with_class!(dtype, C => {
            let number: C = number.value(sources);
            self.register_mut(register).fill(number);
        });
    }

    /// Fills a register with the elements of an input of the dtype that repeat by a pattern.
    pub(crate) fn load<F: Float>(
        &mut self,
        register: usize,
        dtype: DType,
        input: usize,
        pattern: Pattern,
        here: &Here<'_, '_>,
    ) {
        let Here { start, count, .. } = *here;
        match here.sources[input] {
            KernelInput::Array(array) => {
                self.load_array::<F>(register, pattern, array, start, count);
            }
            KernelInput::Result(result) => {
                self.reload(register, dtype, &here.slots[result], start, count);
            }
        }
    }

    /// Fills the first `count` numbers of a register with elements of a source that repeat by a pattern, from the element `start` on.
    pub(crate) fn load_array<F: Float>(
        &mut self,
        register: usize,
        pattern: Pattern,
        source: &Array,
        start: usize,
        count: usize,
    ) {
        if class_of(source.dtype()) == F::dtype() {
            load(
                &mut self.register_mut::<F>(register)[..count],
                pattern,
                source,
                start,
            );
        } else {
            self.load_others(register, pattern, source, start, count);
        }
    }

    fn load_others(
        &mut self,
        register: usize,
        pattern: Pattern,
        source: &Array,
        start: usize,
        count: usize,
    ) {
        with_class!(source.dtype(), C => {
            load(&mut self.register_mut::<C>(register)[..count], pattern, source, start);
        });
    }

    fn reload(
        &mut self,
        register: usize,
        dtype: DType,
        memory: &Memory<'_>,
        start: usize,
        count: usize,
    ) {
        with_class!(dtype, C => {
            C::reload(memory, start, &mut self.register_mut::<C>(register)[..count]);
        });
    }

    /// Copies the numbers at a place into a register.
    pub(crate) fn copy<F: Float>(
        &mut self,
        operand: OperandPlace,
        register: usize,
        here: &Here<'_, '_>,
    ) {
        let mut output = self.take::<F>(register);
        output[..here.count].copy_from_slice(self.elements(operand, here));
        self.put(register, output);
    }

    /// Rounds or wraps the first `count` numbers of a register to a narrower dtype.
    pub(crate) fn narrow<F: Float>(&mut self, dtype: DType, register: usize, count: usize) {
        match Half::of(dtype) {
            Some(half) => F::round(half, &mut self.register_mut(register)[..count]),
            None => self.wrap(dtype, register, count),
        }
    }

    fn wrap(&mut self, dtype: DType, register: usize, count: usize) {
        with_class!(dtype, C => {
            let numbers = Output::new(&mut self.register_mut::<C>(register)[..count]);
            let (operand, output) = numbers.after(|_| ());
            C::wrap(dtype, operand, output);
        });
    }

    /// Repeats the single number of each row of the tile along the row.
    pub(crate) fn spread<F: Float>(
        &mut self,
        dtype: DType,
        operand: OperandPlace,
        register: usize,
        row: usize,
        count: usize,
    ) {
        let OperandPlace::Register(operand) = operand else {
            bug("the numbers of rows to be in a register")
        };
        if class_of(dtype) == F::dtype() {
            self.spread_rows::<F>(operand, register, row, count);
        } else {
            with_class!(dtype, C => self.spread_rows::<C>(operand, register, row, count));
        }
    }

    fn spread_rows<C: Held>(&mut self, operand: usize, register: usize, row: usize, count: usize) {
        let mut output = self.take::<C>(register);
        stretch(&mut output[..count], self.register(operand), row, row);
        self.put(register, output);
    }

    /// Takes a register out of the tiles, so that a step can write to it while it reads the others.
    pub(super) fn take<C: Held>(&mut self, register: usize) -> Register<C> {
        std::mem::take(&mut C::registers_mut(&mut self.0)[register])
    }

    pub(super) fn put<C: Held>(&mut self, register: usize, taken: Register<C>) {
        C::registers_mut(&mut self.0)[register] = taken;
    }

    /// Reduces each row of the tile to one number.
    pub(crate) fn fold_rows<F: Float>(
        &mut self,
        fold: Fold,
        operand: OperandPlace,
        register: usize,
        row: usize,
        here: &Here<'_, '_>,
    ) {
        let mut output = self.take::<F>(register);
        let elements = self.elements(operand, here);
        let results = &mut output[..elements.len() / row];
        with_fold!(fold, C => fold::rows::<F, C>(results, elements, row));
        self.put(register, output);
    }

    /// Copies `count` values of a register into the memory of a result of the dtype, beginning at the position `from`.
    pub(crate) fn store<F: Float>(
        &self,
        dtype: DType,
        register: usize,
        memory: &mut Memory<'_>,
        from: usize,
        count: usize,
    ) {
        if class_of(dtype) == F::dtype() {
            F::store(&self.register(register)[..count], memory, from);
        } else {
            self.store_others(dtype, register, memory, from, count);
        }
    }

    fn store_others(
        &self,
        dtype: DType,
        register: usize,
        memory: &mut Memory<'_>,
        from: usize,
        count: usize,
    ) {
        with_class!(dtype, C => C::store(&self.register(register)[..count], memory, from));
    }

    /// Returns the elements of the tile at a place.
    #[allow(
        unsafe_code,
        reason = "no step writes to memory while the tiles are borrowed"
    )]
    pub(crate) fn elements<'a, C: Held>(
        &'a self,
        place: OperandPlace,
        here: &'a Here<'_, '_>,
    ) -> &'a [C] {
        // SAFETY: a step that writes borrows the tiles mutably.
        unsafe { self.operand(place, here).elements() }
    }

    /// Returns the elements of the tile at a place, which the step may overwrite.
    pub(super) fn operand<'a, C: Held>(
        &'a self,
        place: OperandPlace,
        here: &'a Here<'_, '_>,
    ) -> Operand<'a, C> {
        let Here { start, count, .. } = *here;
        let result = match place {
            OperandPlace::Register(register) => match here.destinations[register] {
                None => return Operand::new(&self.register(register)[..count]),
                Some(result) => result,
            },
            OperandPlace::Input(input) => match here.sources[input] {
                KernelInput::Array(array) => {
                    return Operand::new(&array.elements()[start..start + count]);
                }
                KernelInput::Result(result) => result,
            },
        };
        Operand::of_result(own(&here.slots[result]), start, count)
    }
}

/// Returns the memory of a result as elements of the type in which a step computes.
#[inline(always)]
pub(super) fn own<'m, 'a, C: Class>(memory: &'m Memory<'a>) -> &'m Target<'a, C> {
    expect_some(C::own(memory), OWN)
}

/// Fills a tile with elements of a source that repeat by a pattern, from the element `start` on.
#[inline(always)]
fn load<C: Class>(output: &mut [C], pattern: Pattern, source: &Array, start: usize) {
    pattern.fill(output, start, |at, elements| C::load(source, at, elements));
}

#[cold]
fn no_halves() -> ! {
    bug("a kernel of f32, because only such a kernel holds half-precision floats")
}

macro_rules! floats {
    ($($float:ident, $round:expr;)*) => {$(
        impl Float for $float {
            #[inline(always)]
            fn round(half: Half, numbers: &mut [Self]) {
                $round(half, numbers);
            }
        }
    )*};
}
floats! {
    f32, Half::round;
    f64, |_, _| no_halves();
}
