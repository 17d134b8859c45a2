//! Instructions of elementwise operations.

use super::values::{BLOCK, Code, Instruction, Place, Values};
use crate::base::bits::with_bits;
use crate::base::dtype::{AbstractArray, DType};
use crate::base::instructions::leaf_of;
use crate::base::pattern::Pattern;
use crate::base::target::Target;
use crate::loops::elementwise::blocks::{Operand, Output};
use crate::loops::elementwise::classes::{Class, with_class};
use crate::loops::elementwise::functions::{Map, Zip};
use crate::loops::elementwise::{
    Binary, Elementwise, Unary, binary_loop, compare_loop, conversion_loop, select_loop, unary_loop,
};

/// A loop computes whole blocks for values of at least this many elements.
const FEW: usize = 4;

/// Returns whether the loop of an operation has wide instructions, so that a block takes little more time than some of its elements.
fn is_wide(operation: Elementwise, dtype: DType) -> bool {
    match operation {
        Elementwise::Unary(Unary::Cbrt | Unary::Asin | Unary::Acos)
        | Elementwise::Binary(Binary::Pow | Binary::Atan2) => false,
        Elementwise::Binary(Binary::Div) => dtype != DType::I64,
        Elementwise::Binary(Binary::Rem) => dtype != DType::I64 && !dtype.is_float(),
        _ => true,
    }
}

/// A single number, to which a function is applied.
struct Number<C: 'static>(Target<'static, C>, Target<'static, C>);

impl<C: Class> Map<C> for Number<C> {
    type Output = Instruction;

    fn map(self, function: impl Fn(C) -> C + Copy + Send + 'static) -> Instruction {
        let Self(from, to) = self;
        Box::new(move |_| {
            let number = read(&from);
            let result = leaf_of! { C => function(number) };
            write(&to, result);
        })
    }

    fn map_by_speed(
        self,
        is_fast: impl Fn(C) -> bool + Copy + Send + 'static,
        fast: impl Fn(C) -> C + Copy + Send + 'static,
        slow: impl Fn(C) -> C + Copy + Send + 'static,
    ) -> Instruction {
        self.map(move |number| {
            if is_fast(number) {
                fast(number)
            } else {
                slow(number)
            }
        })
    }
}

/// Two single numbers, to which a function is applied.
struct Numbers<C: 'static>([Target<'static, C>; 2], Target<'static, C>);

impl<C: Class> Zip<C> for Numbers<C> {
    type Output = Instruction;

    fn zip(self, function: impl Fn(C, C) -> C + Copy + Send + 'static) -> Instruction {
        let Self([left, right], to) = self;
        Box::new(move |_| write(&to, function(read(&left), read(&right))))
    }
}

#[inline(always)]
#[allow(unsafe_code, reason = "instructions share the memory of values")]
fn read<T: Copy>(target: &Target<'_, T>) -> T {
    // SAFETY: the memory of a value has at least a block of elements, and no reference to them exists.
    unsafe { target.first().read() }
}

#[inline(always)]
#[allow(unsafe_code, reason = "instructions share the memory of values")]
fn write<T: Copy>(target: &Target<'_, T>, element: T) {
    // SAFETY: the memory of a value has at least a block of elements, and no reference to them exists.
    unsafe { target.first().write(element) }
}

#[inline(always)]
#[allow(unsafe_code, reason = "instructions share the memory of values")]
fn output<'a, T: Copy>(target: &'a Target<'_, T>, count: usize) -> Output<'a, T> {
    // SAFETY: no reference to the elements exists, and the operands are other values or the same one.
    unsafe { Output::of_result(target, 0, count) }
}

impl Values {
    /// Adds an elementwise operation. Operands with fewer elements are repeated.
    pub fn elementwise(
        &mut self,
        operation: Elementwise,
        operands: &[Place],
        result: Place,
        code: &mut Code,
    ) {
        let operands: Vec<Place> = operands
            .iter()
            .map(|&operand| self.repeated(operand, result, code))
            .collect();
        let (first, last) = (operands[0], operands[operands.len() - 1]);
        let (from, to) = (self.info(last).dtype, self.info(result).dtype);
        let is_wide = is_wide(operation, from);
        code.push(match operation {
            Elementwise::Unary(unary) => with_class!(from, C => self.unary::<C>(unary, from, first, result, is_wide)),
            Elementwise::Binary(binary) => {
                with_class!(from, C => self.binary::<C>(binary, from, [first, last], result, is_wide))
            }
            Elementwise::Compare(comparison) => with_class!(from, C => {
                self.computed::<C, bool>([first, last], result, is_wide, move |operands, output| {
                    compare_loop(comparison, operands, output);
                })
            }),
            Elementwise::Convert(_) => with_class!(from, C => with_class!(to, R => {
                self.computed::<C, R>([first, first], result, is_wide, move |[operand, _], output| {
                    conversion_loop(to, operand, output);
                })
            })),
            Elementwise::Select => with_bits!(to, T => {
                let condition = self.target::<bool>(first);
                let [on_true, on_false] = [operands[1], last].map(|operand| self.target::<T>(operand));
                let (result, count) = (self.target::<T>(result), self.count(result, is_wide));
                Box::new(move |_| {
                    let operands = [&on_true, &on_false].map(|operand| Operand::of_result(operand, 0, count));
                    select_loop(Operand::of_result(&condition, 0, count), operands, output(&result, count));
                })
            }),
        });
    }

    /// Returns an operand with the shape of a result: the operand, or a repetition of it.
    fn repeated(&mut self, operand: Place, result: Place, code: &mut Code) -> Place {
        let count = self.len(result);
        if self.len(operand) == count {
            return operand;
        }
        let (from, to) = (self.info(operand), self.info(result));
        let pattern = Pattern::of_operand(&from.shape, &to.shape).unwrap_or(Pattern::Scalar);
        let info = AbstractArray::new(from.dtype, &to.shape);
        let mut positions = vec![0; count];
        pattern.fill(&mut positions, 0, |first, positions| {
            (first..)
                .zip(positions)
                .for_each(|(at, position)| *position = at);
        });
        let repeated = self.place(&info);
        self.moved(&[operand], &positions, repeated, code);
        repeated
    }

    /// Returns the memory of a value if kernels compute with its elements as they are.
    fn numbers<C: Class>(&self, place: Place) -> Option<Target<'static, C>> {
        (C::dtype() == self.info(place).dtype).then(|| self.target(place))
    }

    /// Returns the number of elements that a loop computes for a result.
    fn count(&self, result: Place, is_wide: bool) -> usize {
        let count = self.len(result);
        if is_wide && count >= FEW {
            count.next_multiple_of(BLOCK)
        } else {
            count
        }
    }

    fn unary<C: Class>(
        &self,
        operation: Unary,
        dtype: DType,
        operand: Place,
        result: Place,
        is_wide: bool,
    ) -> Instruction {
        if self.len(result) == 1
            && let (Some(from), Some(to)) = (self.numbers(operand), self.numbers(result))
        {
            return C::unary(operation, dtype, Number(from, to));
        }
        self.computed::<C, C>(
            [operand; 2],
            result,
            is_wide,
            move |[operand, _], output| {
                unary_loop(operation, dtype, operand, output);
            },
        )
    }

    fn binary<C: Class>(
        &self,
        operation: Binary,
        dtype: DType,
        operands: [Place; 2],
        result: Place,
        is_wide: bool,
    ) -> Instruction {
        let [left, right, to] = [operands[0], operands[1], result].map(|place| self.numbers(place));
        if self.len(result) == 1
            && let (Some(left), Some(right), Some(to)) = (left, right, to)
        {
            return C::binary(operation, dtype, Numbers([left, right], to));
        }
        self.computed::<C, C>(operands, result, is_wide, move |operands, output| {
            binary_loop(operation, dtype, operands, output);
        })
    }

    /// Returns the instruction of a function of one or two operands, whose elements it computes as numbers of type `C`.
    fn computed<C: Class, R: Class>(
        &self,
        operands: [Place; 2],
        result: Place,
        is_wide: bool,
        function: impl Fn([Operand<'_, C>; 2], Output<'_, R>) + Send + 'static,
    ) -> Instruction {
        let count = self.count(result, is_wide);
        let [left, right] = operands.map(|operand| self.numbers(operand));
        if let (Some(left), Some(right), Some(to)) = (left, right, self.numbers(result)) {
            return Box::new(move |_| {
                let operands = [&left, &right].map(|operand| Operand::of_result(operand, 0, count));
                function(operands, output(&to, count));
            });
        }
        let (operands, mut memory) = (
            operands.map(|operand| self.memory(operand)),
            self.memory(result),
        );
        let mut tiles = [(); 2].map(|()| vec![C::default(); count]);
        let mut results = vec![R::default(); count];
        Box::new(move |_| {
            for (tile, operand) in tiles.iter_mut().zip(&operands) {
                C::reload(operand, 0, tile);
            }
            let operands = [&tiles[0], &tiles[1]].map(|tile| Operand::new(tile));
            function(operands, Output::new(&mut results));
            R::store(&results, &mut memory, 0);
        })
    }
}
