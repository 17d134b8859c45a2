//! Instructions of elementwise operations.

use pytree_base::bug::bug;

use super::applied::{Applied, rounded};
use super::code::{Code, Instruction};
use super::moves::Source;
use super::values::{BLOCK, Place, Values};
use crate::base::bits::{Bits, with_bits};
use crate::base::dtype::{AbstractArray, DType};
use crate::base::narrow::{Half, narrow_bf16, narrow_f16, widen_bf16, widen_f16};
use crate::base::pattern::Pattern;
use crate::base::target::Target;
use crate::loops::elementwise::blocks::{Operand, Output};
use crate::loops::elementwise::classes::{Class, Convert, class_of, with_class};
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

#[inline(always)]
fn sum(left: f32, right: f32) -> f32 {
    left + right
}

#[inline(always)]
fn difference(left: f32, right: f32) -> f32 {
    left - right
}

#[inline(always)]
fn product(left: f32, right: f32) -> f32 {
    left * right
}

/// Runs an expression with the function of an arithmetic operation as `$function`.
macro_rules! with_arithmetic {
    ($operation:expr, $function:ident => $body:expr) => {
        match $operation {
            Binary::Add => {
                let $function = sum;
                $body
            }
            Binary::Sub => {
                let $function = difference;
                $body
            }
            Binary::Mul => {
                let $function = product;
                $body
            }
            _ => bug("an arithmetic operation"),
        }
    };
}

#[inline(always)]
#[allow(unsafe_code, reason = "instructions share the memory of values")]
fn output<'a, T: Copy>(target: &'a Target<'_, T>, count: usize) -> Output<'a, T> {
    // SAFETY: no reference to the elements exists, and the operands are other values or the same one.
    unsafe { Output::of_result(target, 0, count) }
}

impl Values {
    /// Returns whether an operation on a value of some elements reads no more than a block after the last one, so that operands may be
    /// [views](Self::view).
    pub fn reads_views(operation: Elementwise, dtype: DType, length: usize) -> bool {
        let has_blocks = matches!(dtype, DType::F32 | DType::I32) && is_wide(operation, dtype);
        let others = matches!(operation, Elementwise::Select | Elementwise::Convert(_));
        length == 1 || has_blocks && !others
    }

    /// Adds an elementwise operation. Operands with fewer elements are repeated.
    pub fn elementwise(
        &mut self,
        operation: Elementwise,
        operands: &[Place],
        result: Place,
        code: &mut Code,
    ) {
        code.forget(result);
        let operands: Vec<Place> = operands
            .iter()
            .map(|&operand| self.repeated(operand, result, code))
            .collect();
        if let (Elementwise::Select, &[condition, on_true, on_false]) = (operation, &operands[..]) {
            let places = [condition, on_true, on_false];
            return code.add(with_bits!(self.info(result).dtype, T => {
                self.selection::<T>(places, result)
            }));
        }
        let (first, last) = (operands[0], operands[operands.len() - 1]);
        let dtypes = [last, result].map(|place| self.info(place).dtype);
        let wide = [first, last].map(|operand| self.widened(operand, code));
        let target = self.wide_of(result);
        code.add(self.instruction(operation, wide, target, dtypes));
        if target != result {
            self.narrowed(target, result, code);
        }
    }

    /// Returns the instruction of an operation on elements of the dtype `from`, which the operands have as numbers. The elements of the
    /// result, which are of the dtype `to`, are numbers, too.
    fn instruction(
        &self,
        operation: Elementwise,
        operands: [Place; 2],
        result: Place,
        [from, to]: [DType; 2],
    ) -> Instruction {
        let is_wide = is_wide(operation, from);
        match operation {
            Elementwise::Unary(unary) => with_class!(from, C => {
                self.unary::<C>(unary, from, operands, result, is_wide)
            }),
            Elementwise::Binary(binary) => with_class!(from, C => {
                self.binary::<C>(binary, from, operands, result, is_wide)
            }),
            Elementwise::Compare(comparison) => with_class!(from, C => {
                self.comparison::<C>(comparison, operands, result)
            }),
            Elementwise::Convert(_) => with_class!(from, C => with_class!(to, R => {
                self.conversion::<C, R>(to, operands, result)
            })),
            Elementwise::Select => bug("a selection has three operands"),
        }
    }

    /// Returns the place of the numbers that kernels compute for the elements of a value.
    fn wide_of(&mut self, place: Place) -> Place {
        let info = self.info(place);
        let class = class_of(info.dtype);
        if class == info.dtype {
            return place;
        }
        self.place(&AbstractArray::new(class, &info.shape))
    }

    /// Returns the numbers of a value. Adds the instruction that widens its elements, unless the numbers are known.
    fn widened(&mut self, place: Place, code: &mut Code) -> Place {
        if let Some(known) = code.wide(place) {
            return known;
        }
        let wide = self.wide_of(place);
        if wide != place {
            let code = code.before_or_here(&[place], self);
            let (count, elements) = (self.count(place, true), self.memory(place));
            with_class!(self.info(place).dtype, C => {
                let mut numbers = self.target::<C>(wide);
                code.push(move |_| C::reload(&elements, 0, numbers.slice_mut(0, count)));
            });
            code.know(place, wide);
        }
        wide
    }

    /// Adds the rounding or wrapping of numbers to the elements of a value.
    fn narrowed(&self, wide: Place, place: Place, code: &mut Code) {
        let (count, mut elements) = (self.count(place, true), self.memory(place));
        code.know(place, wide);
        if let Some(half) = Half::of(self.info(place).dtype) {
            let (numbers, bits) = (self.target::<f32>(wide), self.target::<u16>(place));
            return code.add(match half {
                Half::BF16 => rounded(numbers, bits, count, narrow_bf16, widen_bf16),
                Half::F16 => rounded(numbers, bits, count, narrow_f16, widen_f16),
            });
        }
        with_class!(self.info(place).dtype, C => {
            let mut numbers = self.target::<C>(wide);
            code.push(move |_| {
                let numbers = numbers.slice_mut(0, count);
                C::store(numbers, &mut elements, 0);
                C::reload(&elements, 0, numbers);
            });
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
                    $(Comparison::$comparison => $applied.each(
                        #[inline(always)]
                        |[left, right]| left $operator right,
                    ),)*
                }
            };
        }
        if let Some(applied) = self.applied::<C, bool, 2>(operands, result, true) {
            return compared!(applied: Eq ==, Ne !=, Lt <, Le <=, Gt >, Ge >=);
        }
        self.computed::<C, bool>(operands, result, true, move |operands, output| {
            compare_loop(comparison, operands, output);
        })
    }

    fn conversion<C: Convert<R>, R: Class>(
        &self,
        dtype: DType,
        operands: [Place; 2],
        result: Place,
    ) -> Instruction {
        if self.len(result) == 1 {
            let range = dtype.integer_range().unwrap_or((i64::MIN, i64::MAX));
            let (from, mut to) = (self.target::<C>(operands[0]), self.target::<R>(result));
            return Instruction::new(move |_| to.slice_mut(0, 1)[0] = from.read().convert(range));
        }
        self.computed::<C, R>(operands, result, true, move |[operand, _], output| {
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
            return Instruction::new(move |_| {
                let (on_true, on_false) = (on_true.read(), on_false.read());
                to.slice_mut(0, 1)[0] = if condition.read() { on_true } else { on_false };
            });
        }
        Instruction::new(move |_| {
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
        if self.is_constant(operand) {
            let mut once = self.code();
            self.moved(&sources, repeated, &mut once);
            once.run(self);
            self.keep(repeated);
        } else {
            self.moved(&sources, repeated, code.before_or_here(&[operand], self));
        }
        repeated
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

    /// Returns the operands of an operation that computes single numbers or whole blocks of elements.
    fn applied<C: Class, R: Class, const N: usize>(
        &self,
        operands: [Place; N],
        result: Place,
        is_wide: bool,
    ) -> Option<Applied<C, R, N>> {
        let count = self.len(result);
        (count == 1 || is_wide && C::HAS_SHORT_BLOCKS).then(|| Applied {
            operands: operands.map(|operand| self.target(operand)),
            result: self.target(result),
            count,
        })
    }

    fn unary<C: Class>(
        &self,
        operation: Unary,
        dtype: DType,
        operands: [Place; 2],
        result: Place,
        is_wide: bool,
    ) -> Instruction {
        if const { C::HAS_SHORT_BLOCKS }
            && let Some(applied) = self.applied([operands[0]], result, is_wide)
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
        dtype: DType,
        operands: [Place; 2],
        result: Place,
        is_wide: bool,
    ) -> Instruction {
        if let Some(applied) = self.applied(operands, result, is_wide) {
            return C::binary(operation, dtype, applied);
        }
        self.computed::<C, C>(operands, result, is_wide, move |operands, output| {
            binary_loop(operation, dtype, operands, output);
        })
    }

    /// Returns whether [`arithmetic`](Self::arithmetic) has an instruction for a pair of such operations.
    pub fn is_arithmetic(operation: Binary, dtype: DType) -> bool {
        dtype == DType::F32 && matches!(operation, Binary::Add | Binary::Sub | Binary::Mul)
    }

    /// Adds two arithmetic operations on f32: that of the first two operands, and that of its result and the third operand, which
    /// is on the left if `is_left`. Operands with fewer elements are repeated.
    ///
    /// # Panics
    /// Panics if an operation is not [arithmetic](Self::is_arithmetic).
    pub fn arithmetic(
        &mut self,
        [inner, outer]: [Binary; 2],
        operands: [Place; 3],
        is_left: bool,
        result: Place,
        code: &mut Code,
    ) {
        let operands = operands.map(|operand| self.repeated(operand, result, code));
        let applied = Applied::<f32, f32, 3> {
            operands: operands.map(|operand| self.target(operand)),
            result: self.target(result),
            count: self.len(result),
        };
        code.add(
            with_arithmetic!(inner, inner => with_arithmetic!(outer, outer => {
                if is_left {
                    applied.each(#[inline(always)] move |[a, b, c]| outer(c, inner(a, b)))
                } else {
                    applied.each(#[inline(always)] move |[a, b, c]| outer(inner(a, b), c))
                }
            })),
        );
    }

    /// Returns the instruction of a function that computes many elements in a call.
    fn computed<C: Class, R: Class>(
        &self,
        operands: [Place; 2],
        result: Place,
        is_wide: bool,
        function: impl Fn([Operand<'_, C>; 2], Output<'_, R>) + Send + 'static,
    ) -> Instruction {
        let (count, to) = (self.count(result, is_wide), self.target(result));
        let [left, right] = operands.map(|operand| self.target(operand));
        Instruction::new(move |_| {
            let left = Operand::of_result(&left, 0, count);
            function(
                [left, Operand::of_result(&right, 0, count)],
                output(&to, count),
            );
        })
    }
}
