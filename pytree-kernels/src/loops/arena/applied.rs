//! Functions of single numbers and of blocks of numbers, with the memory of their operands and results.

use pytree_base::bug::bug;

use super::code::Instruction;
use super::values::{LANES, Values};
use crate::base::target::Target;
use crate::loops::elementwise::classes::Class;
use crate::loops::elementwise::functions::{Map, Zip};

/// The operands of a function, and the memory of its results.
pub(super) struct Applied<C: 'static, R: 'static, const N: usize> {
    pub(super) operands: [Target<'static, C>; N],
    pub(super) result: Target<'static, R>,
    pub(super) count: usize,
}

impl<C: Class, R: Class, const N: usize> Applied<C, R, N> {
    /// Returns a function that computes a single number. If it is a leaf loop, it is inlined there.
    #[allow(unsafe_code, reason = "instructions share the memory of values")]
    fn single(
        self,
        function: impl Fn([C; N]) -> R + Send + 'static,
    ) -> impl FnMut(&mut Values) + Send + 'static {
        let Self {
            operands, result, ..
        } = self;
        std::convert::identity(
            #[inline(always)]
            move |_: &mut Values| {
                let mut numbers = [C::default(); N];
                for operand in 0..N {
                    // SAFETY: each value has memory for an element, and no reference to the element exists.
                    numbers[operand] = unsafe { operands[operand].first().read() };
                }
                // SAFETY: as above.
                unsafe {
                    result.first().write(function(numbers));
                }
            },
        )
    }

    /// Returns the instruction that computes whole blocks, with what is in the memory after the last element.
    #[allow(unsafe_code, reason = "instructions share the memory of values")]
    fn blocks(self, block: impl Fn([[C; LANES]; N]) -> [R; LANES] + Send + 'static) -> Instruction {
        let Self {
            operands,
            result,
            count,
        } = self;
        if !const { C::HAS_SHORT_BLOCKS } {
            bug("a single number");
        }
        Instruction::leaf(
            #[inline(always)]
            move |_| {
                let mut at = 0;
                while at < count {
                    let mut blocks = [[C::default(); LANES]; N];
                    for operand in 0..N {
                        let from = operands[operand].first().wrapping_add(at);
                        // SAFETY: each value, and each view, has memory for whole blocks, and no reference to the elements exists.
                        blocks[operand] = unsafe { from.cast::<[C; LANES]>().read() };
                    }
                    let to = result.first().wrapping_add(at).cast::<[R; LANES]>();
                    // SAFETY: as above.
                    unsafe {
                        to.write(block(blocks));
                    }
                    at += LANES;
                }
            },
        )
    }

    /// Returns the instruction of a function that is cheap.
    pub(super) fn each(
        self,
        function: impl Fn([C; N]) -> R + Copy + Send + 'static,
    ) -> Instruction {
        if self.count == 1 {
            return Instruction::new(self.single(function));
        }
        self.blocks(
            #[inline(always)]
            move |blocks| {
                let mut results = [R::default(); LANES];
                for lane in 0..LANES {
                    let mut numbers = [C::default(); N];
                    for operand in 0..N {
                        numbers[operand] = blocks[operand][lane];
                    }
                    results[lane] = function(numbers);
                }
                results
            },
        )
    }
}

#[allow(
    clippy::mismatching_type_param_order,
    reason = "the results have the type of the operands"
)]
impl<C: Class> Map<C> for Applied<C, C, 1> {
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
        if self.count == 1 {
            let single = self.single(
                #[inline(always)]
                move |[number]| {
                    if is_fast(number) {
                        fast(number)
                    } else {
                        slow(number)
                    }
                },
            );
            return if const { C::HAS_WIDE_LOOPS } {
                Instruction::leaf(single)
            } else {
                Instruction::new(single)
            };
        }
        self.blocks(
            #[inline(always)]
            move |[numbers]| {
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

#[allow(
    clippy::mismatching_type_param_order,
    reason = "the results have the type of the operands"
)]
impl<C: Class> Zip<C> for Applied<C, C, 2> {
    type Output = Instruction;

    fn zip(self, function: impl Fn(C, C) -> C + Copy + Send + 'static) -> Instruction {
        self.each(
            #[inline(always)]
            move |[left, right]| function(left, right),
        )
    }
}

/// Returns the instruction that rounds numbers, and writes the bits of the rounded ones.
#[allow(unsafe_code, reason = "instructions share the memory of values")]
pub(super) fn rounded(
    numbers: Target<'static, f32>,
    bits: Target<'static, u16>,
    count: usize,
    narrow: impl Fn(f32) -> u16 + Send + 'static,
    widen: impl Fn(u16) -> f32 + Send + 'static,
) -> Instruction {
    Instruction::leaf(
        #[inline(always)]
        move |_| {
            let mut at = 0;
            while at < count {
                // SAFETY: the memory of each value is a multiple of a block, and no reference to the elements exists.
                let (numbers, bits) = unsafe {
                    let numbers = numbers.first().add(at).cast::<[f32; LANES]>();
                    (numbers, bits.first().add(at).cast::<[u16; LANES]>())
                };
                // SAFETY: as above.
                let mut block = unsafe { numbers.read() };
                let mut narrowed = [0; LANES];
                for lane in 0..LANES {
                    narrowed[lane] = narrow(block[lane]);
                    block[lane] = widen(narrowed[lane]);
                }
                // SAFETY: as above.
                unsafe {
                    numbers.write(block);
                    bits.write(narrowed);
                }
                at += LANES;
            }
        },
    )
}
