//! Short programs: elementwise operations and moves of few elements, which run many times.
//!
//! The body of a loop often computes with a few numbers, and then an operation takes less time than the allocation of its
//! result. So all values of a short program have fixed places, which [`ShortProgram::start`] allocates once for all
//! iterations. The functions of elements, and so the bits of the results, are those of whole arrays.

use std::hint::select_unpredictable;

use super::blocks::{Operand, Output, each_three, each_two};
use super::classes::{Class, Memory, class_of, with_class};
use crate::base::array::Array;
use crate::base::dtype::{AbstractArray, DType};
use crate::base::narrow::Half;
use crate::base::target::Target;
use crate::loops::elementwise::operations::{Binary, Elementwise, Unary};
use crate::loops::elementwise::whole::{binary_loop, compare_loop, conversion_loop, unary_loop};
use crate::loops::threefry;

/// The greatest number of elements of a value. Longer values are left to fused kernels, which read and write memory less
/// often.
const MOST_ELEMENTS: usize = 128;

/// The place of a value: numbers of the class in which kernels compute the elements of its dtype.
#[derive(Clone, Copy, Debug)]
pub struct Register {
    dtype: DType,
    first: usize,
    count: usize,
}

/// The numbers of all values, by class.
#[derive(Clone, Debug, Default)]
struct Numbers {
    bools: Vec<bool>,
    integers: Vec<i32>,
    longs: Vec<i64>,
    singles: Vec<f32>,
    doubles: Vec<f64>,
}

/// The memory of [`Numbers`] while a program runs.
struct Targets<'a> {
    bools: Target<'a, bool>,
    integers: Target<'a, i32>,
    longs: Target<'a, i64>,
    singles: Target<'a, f32>,
    doubles: Target<'a, f64>,
}

/// A class whose numbers a short program holds.
trait Held: Class {
    fn numbers(numbers: &mut Numbers) -> &mut Vec<Self>;
    fn target<'t, 'a>(targets: &'t Targets<'a>) -> &'t Target<'a, Self>;

    /// Computes an operation of arithmetic without a call. Returns the output if the operation is another one.
    fn arithmetic<'o>(
        _: Binary,
        _: [Operand<'_, Self>; 2],
        output: Output<'o, Self>,
    ) -> Option<Output<'o, Self>> {
        Some(output)
    }
}

macro_rules! held {
    ($($class:ident $field:ident $({ $($operation:ident: $function:expr),* })?;)*) => {$(
        impl Held for $class {
            #[inline]
            fn numbers(numbers: &mut Numbers) -> &mut Vec<Self> {
                &mut numbers.$field
            }

            #[inline]
            fn target<'t, 'a>(targets: &'t Targets<'a>) -> &'t Target<'a, Self> {
                &targets.$field
            }

            $(
                #[inline]
                fn arithmetic<'o>(
                    operation: Binary,
                    [left, right]: [Operand<'_, Self>; 2],
                    output: Output<'o, Self>,
                ) -> Option<Output<'o, Self>> {
                    match operation {
                        $(Binary::$operation => each_two(left, right, output, $function),)*
                        _ => return Some(output),
                    }
                    None
                }
            )?
        }
    )*};
}
held! {
    bool bools;
    i32 integers { Add: i32::wrapping_add, Sub: i32::wrapping_sub, Mul: i32::wrapping_mul };
    i64 longs { Add: i64::wrapping_add, Sub: i64::wrapping_sub, Mul: i64::wrapping_mul };
    f32 singles { Add: |x, y| x + y, Sub: |x, y| x - y, Mul: |x, y| x * y, Div: |x, y| x / y };
    f64 doubles { Add: |x, y| x + y, Sub: |x, y| x - y, Mul: |x, y| x * y, Div: |x, y| x / y };
}

/// The operation of an instruction.
#[derive(Debug)]
enum Work {
    Elementwise(Elementwise),
    /// Copies the numbers at these positions, which are those of the class.
    Move(Box<[usize]>),
    /// Computes two words from two words of keys and two words of counters. The second word is written to this register.
    Threefry(Register),
}

#[derive(Debug)]
struct Instruction {
    work: Work,
    operands: [Register; 4],
    output: Register,
}

/// Operations on values of few elements. See the [module](self).
#[derive(Debug)]
pub struct ShortProgram {
    /// The numbers of the constants, and zeros in all other places.
    numbers: Numbers,
    instructions: Vec<Instruction>,
    inputs: Vec<Register>,
    outputs: Vec<Register>,
}

/// Builds a short program, operation by operation.
#[derive(Debug, Default)]
pub struct ShortBuilder {
    numbers: Numbers,
    instructions: Vec<Instruction>,
    inputs: Vec<Register>,
}

impl ShortBuilder {
    /// Makes a place for a value. Returns `None` if short programs do not hold such values.
    fn register(&mut self, info: &AbstractArray) -> Option<Register> {
        if info.len() > MOST_ELEMENTS || Half::of(info.dtype).is_some() {
            return None;
        }
        let count = info.len();
        let first = with_class!(info.dtype, C => {
            let numbers = C::numbers(&mut self.numbers);
            numbers.resize(numbers.len() + count, C::default());
            numbers.len() - count
        });
        let dtype = info.dtype;
        Some(Register {
            dtype,
            first,
            count,
        })
    }

    /// Adds an input. Returns `None` if short programs do not hold such values.
    pub fn input(&mut self, info: &AbstractArray) -> Option<Register> {
        let register = self.register(info)?;
        self.inputs.push(register);
        Some(register)
    }

    /// Adds a constant. Returns `None` if short programs do not hold such values.
    pub fn constant(&mut self, array: &Array) -> Option<Register> {
        let register = self.register(&array.info)?;
        self.numbers.load(register, array, 0);
        Some(register)
    }

    /// Adds an elementwise operation. An operand with a single element is repeated.
    pub fn elementwise(
        &mut self,
        operation: Elementwise,
        operands: &[Register],
        info: &AbstractArray,
    ) -> Option<Register> {
        if operation == Elementwise::Unary(Unary::StopGradient) {
            return operands.first().copied();
        }
        let repeated: Option<Vec<Register>> = operands
            .iter()
            .map(|&operand| self.repeated(operand, info.len()))
            .collect();
        let output = self.register(info)?;
        self.push(Work::Elementwise(operation), &repeated?, output)
    }

    fn repeated(&mut self, operand: Register, count: usize) -> Option<Register> {
        if operand.count == count {
            return Some(operand);
        }
        let info = AbstractArray::new(operand.dtype, [count]);
        (operand.count == 1).then_some(())?;
        self.moved(&[operand], &vec![0; count], &info)
    }

    /// Adds a value whose elements are those of the operands at the positions `table`. The positions count the elements of all
    /// operands, one after the other.
    pub fn moved(
        &mut self,
        operands: &[Register],
        table: &[usize],
        info: &AbstractArray,
    ) -> Option<Register> {
        let [first, rest @ ..] = operands else {
            return None;
        };
        if rest.is_empty() && table.iter().copied().eq(0..first.count) {
            return Some(*first);
        }
        let places: Vec<usize> = operands
            .iter()
            .flat_map(|operand| operand.first..operand.first + operand.count)
            .collect();
        let table = table.iter().map(|&position| places[position]).collect();
        let output = self.register(info)?;
        self.push(Work::Move(table), &[*first], output)
    }

    /// Adds [`threefry::block`]. The operands are two words of keys and two words of counters.
    pub fn threefry(
        &mut self,
        operands: &[Register],
        info: &AbstractArray,
    ) -> Option<[Register; 2]> {
        let (first, second) = (self.register(info)?, self.register(info)?);
        self.push(Work::Threefry(second), operands, first)?;
        Some([first, second])
    }

    fn push(&mut self, work: Work, given: &[Register], output: Register) -> Option<Register> {
        let mut operands = [*given.first()?; 4];
        operands[..given.len()].copy_from_slice(given);
        self.instructions.push(Instruction {
            work,
            operands,
            output,
        });
        Some(output)
    }

    /// Returns the program. Each output has a place of its own, so that it can be copied to an input of the next run.
    pub fn finish(mut self, outputs: &[Register]) -> Option<ShortProgram> {
        let written: Vec<(DType, usize)> = { self.instructions.iter() }
            .flat_map(|instruction| {
                let second = match instruction.work {
                    Work::Threefry(second) => second,
                    _ => instruction.output,
                };
                [instruction.output, second]
            })
            .map(|register| (class_of(register.dtype), register.first))
            .collect();
        let own = |output: &Register| {
            if written.contains(&(class_of(output.dtype), output.first)) {
                return Some(*output);
            }
            let info = AbstractArray::new(output.dtype, [output.count]);
            let copy = self.register(&info)?;
            let table = (output.first..output.first + output.count).collect();
            self.push(Work::Move(table), &[*output], copy)
        };
        let outputs: Option<Vec<Register>> = outputs.iter().map(own).collect();
        Some(ShortProgram {
            outputs: outputs?,
            numbers: self.numbers,
            instructions: self.instructions,
            inputs: self.inputs,
        })
    }
}

impl ShortProgram {
    /// Allocates the values of the program.
    pub fn start(&self) -> Running<'_> {
        Running {
            program: self,
            numbers: self.numbers.clone(),
        }
    }
}

/// A short program with its values.
#[derive(Debug)]
pub struct Running<'p> {
    program: &'p ShortProgram,
    numbers: Numbers,
}

impl Numbers {
    fn load(&mut self, register: Register, array: &Array, position: usize) {
        let Register { first, count, .. } = register;
        with_class!(register.dtype, C => {
            C::load(array, position * count, &mut C::numbers(self)[first..first + count]);
        });
    }
}

impl Running<'_> {
    /// Reads an input from an array, beginning at the element `position` times the number of its elements.
    pub fn load(&mut self, input: usize, array: &Array, position: usize) {
        self.numbers
            .load(self.program.inputs[input], array, position);
    }

    /// Writes an input to an array.
    pub fn store_input(&mut self, input: usize, array: &mut Array) {
        self.store_register(self.program.inputs[input], array, 0);
    }

    /// Writes an output to an array, beginning at the element `position` times the number of its elements.
    pub fn store(&mut self, output: usize, array: &mut Array, position: usize) {
        self.store_register(self.program.outputs[output], array, position);
    }

    fn store_register(&mut self, register: Register, array: &mut Array, position: usize) {
        let Register { first, count, .. } = register;
        with_class!(register.dtype, C => {
            let numbers = &C::numbers(&mut self.numbers)[first..first + count];
            C::store(numbers, &mut Memory::new(array), position * count);
        });
    }

    /// Copies an output to an input of the next run.
    pub fn feed(&mut self, output: usize, input: usize) {
        let (from, to) = (self.program.outputs[output], self.program.inputs[input]);
        with_class!(from.dtype, C => {
            C::numbers(&mut self.numbers).copy_within(from.first..from.first + from.count, to.first);
        });
    }

    /// Copies an output of another program to an input.
    pub fn feed_from(&mut self, other: &mut Running<'_>, output: usize, input: usize) {
        let (from, to) = (other.program.outputs[output], self.program.inputs[input]);
        with_class!(from.dtype, C => {
            let numbers = &C::numbers(&mut other.numbers)[from.first..from.first + from.count];
            C::numbers(&mut self.numbers)[to.first..to.first + to.count].copy_from_slice(numbers);
        });
    }

    /// Returns whether the first output, which is a bool, is true.
    pub fn holds(&self) -> bool {
        self.numbers.bools[self.program.outputs[0].first]
    }

    /// Computes the outputs from the inputs.
    pub fn run(&mut self) {
        let Numbers {
            bools,
            integers,
            longs,
            singles,
            doubles,
        } = &mut self.numbers;
        let targets = Targets {
            bools: Target::new(bools),
            integers: Target::new(integers),
            longs: Target::new(longs),
            singles: Target::new(singles),
            doubles: Target::new(doubles),
        };
        for instruction in &self.program.instructions {
            with_class!(instruction.operands[0].dtype, C => instruction.run::<C>(&targets));
        }
    }
}

fn operand<'t, T: Held>(targets: &'t Targets<'_>, register: Register) -> Operand<'t, T> {
    Operand::of_result(T::target(targets), register.first, register.count)
}

#[allow(
    unsafe_code,
    reason = "the values of a program have different places in one memory"
)]
fn output<'t, T: Held>(targets: &'t Targets<'_>, register: Register) -> Output<'t, T> {
    // SAFETY: no other code has a reference to the numbers while the program runs, and values have no common elements.
    unsafe { Output::of_result(T::target(targets), register.first, register.count) }
}

#[inline]
#[allow(unsafe_code, reason = "the program reads and writes the same memory")]
fn read<T: Held>(targets: &Targets<'_>, place: usize) -> T {
    // SAFETY: the place is in the memory, as `address_of` checks, and no reference to it exists while the program runs.
    unsafe { T::target(targets).address_of(place, 1).read() }
}

#[inline]
#[allow(unsafe_code, reason = "the program reads and writes the same memory")]
fn write<T: Held>(targets: &Targets<'_>, place: usize, number: T) {
    // SAFETY: the place is in the memory, as `address_of` checks, and no reference to it exists while the program runs.
    unsafe { T::target(targets).address_of(place, 1).write(number) }
}

impl Instruction {
    /// Runs the instruction, whose first operand has numbers of the class `C`.
    #[inline]
    fn run<C: Held>(&self, targets: &Targets<'_>) {
        let [first, second, third, _] = self.operands;
        let one = || operand::<C>(targets, first);
        let two = || [one(), operand::<C>(targets, second)];
        let to = || output::<C>(targets, self.output);
        match &self.work {
            Work::Elementwise(Elementwise::Binary(operation)) => {
                let rest = C::arithmetic(*operation, two(), to());
                if let Some(output) = rest {
                    binary_loop(*operation, first.dtype, two(), output);
                }
                self.wrap(targets);
            }
            Work::Elementwise(Elementwise::Unary(operation)) => {
                unary_loop(*operation, first.dtype, one(), to());
                self.wrap(targets);
            }
            Work::Elementwise(Elementwise::Compare(comparison)) => {
                compare_loop(*comparison, two(), output(targets, self.output));
            }
            Work::Elementwise(Elementwise::Convert(_)) => self.convert(targets),
            Work::Elementwise(Elementwise::Select) => {
                with_class!(second.dtype, T => {
                    let [on_true, on_false] = [second, third].map(|value| operand::<T>(targets, value));
                    let condition = operand::<bool>(targets, first);
                    each_three(condition, on_true, on_false, output(targets, self.output), select_unpredictable);
                });
            }
            Work::Move(table) => {
                for (position, &from) in table.iter().enumerate() {
                    write::<C>(targets, self.output.first + position, read(targets, from));
                }
            }
            Work::Threefry(second_output) => self.threefry(*second_output, targets),
        }
    }

    fn convert(&self, targets: &Targets<'_>) {
        let (from, to) = (self.operands[0], self.output);
        with_class!(from.dtype, C => with_class!(to.dtype, R => {
            conversion_loop::<C, R>(to.dtype, operand(targets, from), output(targets, to));
        }));
        self.wrap(targets);
    }

    /// Removes the bits of the result that its dtype does not have.
    #[inline]
    fn wrap(&self, targets: &Targets<'_>) {
        let dtype = self.output.dtype;
        if class_of(dtype) != dtype {
            with_class!(dtype, C => {
                C::wrap(dtype, operand(targets, self.output), output(targets, self.output));
            });
        }
    }

    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the words have 32 bits"
    )]
    fn threefry(&self, second: Register, targets: &Targets<'_>) {
        for position in 0..second.count {
            let words = self
                .operands
                .map(|word| read::<i64>(targets, word.first + position) as u32);
            let [key0, key1, count0, count1] = words;
            let [word0, word1] = threefry::block([key0, key1], [count0, count1]);
            write(targets, self.output.first + position, i64::from(word0));
            write(targets, second.first + position, i64::from(word1));
        }
    }
}
