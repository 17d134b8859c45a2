//! Instructions of elementwise operations.

use pytree_base::bug::bug;

use super::moves::Source;
use super::values::{BLOCK, Code, Instruction, Place, Values};
use crate::base::bits::{Bits, with_bits};
use crate::base::dtype::{AbstractArray, DType};
use crate::base::instructions::leaf_of;
use crate::base::pattern::Pattern;
use crate::base::target::Target;
use crate::loops::elementwise::blocks::{Operand, Output};
use crate::loops::elementwise::classes::{Class, Convert, with_class};
use crate::loops::elementwise::functions::{Map, Zip};
use crate::loops::elementwise::{
    Binary, Comparison, Elementwise, Unary, binary_loop, compare_loop, conversion_loop,
    select_loop, unary_loop,
};

/// A loop computes whole blocks of [`BLOCK`] elements for values of at least this many elements.
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

/// The number of elements that a loop computes at a time. The memory of a value is a multiple of it.
const LANES: usize = 16;

/// Two operands of a function, which are the same one for a function of one operand, and the memory of its results.
struct Applied<C: 'static, R: 'static = C> {
    operands: [Target<'static, C>; 2],
    result: Target<'static, R>,
    count: usize,
}

impl<C: Class, R: Class> Applied<C, R> {
    /// Returns the instruction that computes single numbers by `one`, and otherwise whole blocks, with what is in the memory after the
    /// last element. Only a class with short blocks has others than single numbers here.
    #[inline(always)]
    #[allow(unsafe_code, reason = "instructions share the memory of values")]
    fn instruction(
        self,
        one: impl Fn(C, C) -> R + Send + 'static,
        block: impl Fn([C; LANES], [C; LANES]) -> [R; LANES] + Copy + Send + 'static,
    ) -> Instruction {
        let Self {
            operands: [left, right],
            result,
            count,
        } = self;
        if count == 1 {
            // SAFETY: each value has memory for a block of elements, and no reference to them exists.
            return Box::new(move |_| unsafe {
                result
                    .first()
                    .write(one(left.first().read(), right.first().read()));
            });
        }
        if !const { C::HAS_SHORT_BLOCKS } {
            bug("a single number");
        }
        Box::new(move |_| {
            let (left, right, to) = (left.first(), right.first(), result.first());
            leaf_of! { C =>
                let mut at = 0;
                while at < count {
                    // SAFETY: the memory of each value is a multiple of a block, and no reference to the elements exists.
                    unsafe {
                        let (left, right) = (left.add(at).cast::<[C; LANES]>(), right.add(at).cast::<[C; LANES]>());
                        let results = block(left.read(), right.read());
                        to.add(at).cast::<[R; LANES]>().write(results);
                    }
                    at += LANES;
                }
            }
        })
    }
}

impl<C: Class, R: Class> Applied<C, R> {
    /// Returns the instruction of a function that is cheap.
    fn each(self, function: impl Fn(C, C) -> R + Copy + Send + 'static) -> Instruction {
        self.instruction(
            function,
            #[inline(always)]
            move |left, right| {
                let mut results = [R::default(); LANES];
                for lane in 0..LANES {
                    results[lane] = function(left[lane], right[lane]);
                }
                results
            },
        )
    }
}

impl<C: Class> Map<C> for Applied<C> {
    type Output = Instruction;

    fn map(self, function: impl Fn(C) -> C + Copy + Send + 'static) -> Instruction {
        self.map_by_speed(|_| true, function, function)
    }

    fn map_by_speed(
        self,
        is_fast: impl Fn(C) -> bool + Copy + Send + 'static,
        fast: impl Fn(C) -> C + Copy + Send + 'static,
        slow: impl Fn(C) -> C + Copy + Send + 'static,
    ) -> Instruction {
        let one = move |number, _| {
            leaf_of! { C => if is_fast(number) { fast(number) } else { slow(number) } }
        };
        self.instruction(
            one,
            #[inline(always)]
            move |numbers, _| {
                let (mut results, mut are_fast) = ([C::default(); LANES], true);
                for lane in 0..LANES {
                    results[lane] = fast(numbers[lane]);
                    are_fast &= is_fast(numbers[lane]);
                }
                for lane in 0..if are_fast { 0 } else { LANES } {
                    if !is_fast(numbers[lane]) {
                        results[lane] = slow(numbers[lane]);
                    }
                }
                results
            },
        )
    }
}

impl<C: Class> Zip<C> for Applied<C> {
    type Output = Instruction;

    fn zip(self, function: impl Fn(C, C) -> C + Copy + Send + 'static) -> Instruction {
        self.each(function)
    }
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
            Elementwise::Unary(unary) => {
                with_class!(from, C => self.unary::<C>(unary, first, result, is_wide))
            }
            Elementwise::Binary(binary) => {
                with_class!(from, C => self.binary::<C>(binary, [first, last], result, is_wide))
            }
            Elementwise::Compare(comparison) => {
                with_class!(from, C => self.comparison::<C>(comparison, [first, last], result))
            }
            Elementwise::Convert(_) => with_class!(from, C => with_class!(to, R => {
                self.conversion::<C, R>(first, result)
            })),
            Elementwise::Select => with_bits!(to, T => {
                self.selection::<T>([first, operands[1], last], result)
            }),
        });
    }

    fn comparison<C: Class>(
        &self,
        comparison: Comparison,
        operands: [Place; 2],
        result: Place,
    ) -> Instruction {
        macro_rules! compared {
            ($applied:ident: $($comparison:ident $operator:tt),*) => {
                match comparison {
                    $(Comparison::$comparison => $applied.each(|left, right| left $operator right),)*
                }
            };
        }
        if let Some(applied) = self.applied::<C, bool>(operands, result, true) {
            return compared!(applied: Eq ==, Ne !=, Lt <, Le <=, Gt >, Ge >=);
        }
        self.computed::<C, bool>(operands, result, true, move |operands, output| {
            compare_loop(comparison, operands, output);
        })
    }

    fn conversion<C: Convert<R>, R: Class>(&self, operand: Place, result: Place) -> Instruction {
        let dtype = self.info(result).dtype;
        let range = dtype.integer_range().unwrap_or((i64::MIN, i64::MAX));
        let numbers = (self.numbers::<C>(operand), self.numbers::<R>(result));
        if let (1, (Some(from), Some(mut to))) = (self.len(result), numbers) {
            return Box::new(move |_| to.slice_mut(0, 1)[0] = from.read().convert(range));
        }
        self.computed::<C, R>([operand; 2], result, true, move |[operand, _], output| {
            conversion_loop(dtype, operand, output);
        })
    }

    fn selection<T: Bits>(
        &self,
        [condition, on_true, on_false]: [Place; 3],
        result: Place,
    ) -> Instruction {
        let condition = self.target::<bool>(condition);
        let (on_true, on_false) = (self.target::<T>(on_true), self.target::<T>(on_false));
        let (mut to, count) = (self.target::<T>(result), self.count(result, true));
        if count == 1 {
            return Box::new(move |_| {
                let chosen = if condition.read() {
                    &on_true
                } else {
                    &on_false
                };
                to.slice_mut(0, 1)[0] = chosen.read();
            });
        }
        Box::new(move |_| {
            let (on_true, on_false) = (
                Operand::of_result(&on_true, 0, count),
                Operand::of_result(&on_false, 0, count),
            );
            select_loop(
                Operand::of_result(&condition, 0, count),
                [on_true, on_false],
                output(&to, count),
            );
        })
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
        let sources: Vec<Source> = positions.iter().map(|&at| (operand, at)).collect();
        let repeated = self.place(&info);
        self.moved(&sources, repeated, code);
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

    /// Returns the operands of an operation that computes whole blocks of elements as they are.
    fn applied<C: Class, R: Class>(
        &self,
        operands: [Place; 2],
        result: Place,
        is_wide: bool,
    ) -> Option<Applied<C, R>> {
        let count = self.len(result);
        let [left, right] = operands.map(|operand| self.numbers(operand));
        (count == 1 || is_wide && C::HAS_SHORT_BLOCKS).then_some(())?;
        let (operands, result) = ([left?, right?], self.numbers(result)?);
        Some(Applied {
            operands,
            result,
            count,
        })
    }

    fn unary<C: Class>(
        &self,
        operation: Unary,
        operand: Place,
        result: Place,
        is_wide: bool,
    ) -> Instruction {
        let (operands, dtype) = ([operand; 2], self.info(operand).dtype);
        if const { C::HAS_SHORT_BLOCKS }
            && let Some(applied) = self.applied(operands, result, is_wide)
        {
            return C::unary(operation, dtype, applied);
        }
        self.computed::<C, C>(operands, result, is_wide, move |[operand, _], output| {
            unary_loop(operation, dtype, operand, output);
        })
    }

    fn binary<C: Class>(
        &self,
        operation: Binary,
        operands: [Place; 2],
        result: Place,
        is_wide: bool,
    ) -> Instruction {
        let dtype = self.info(operands[0]).dtype;
        if let Some(applied) = self.applied(operands, result, is_wide) {
            return C::binary(operation, dtype, applied);
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
                let left = Operand::of_result(&left, 0, count);
                function(
                    [left, Operand::of_result(&right, 0, count)],
                    output(&to, count),
                );
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
