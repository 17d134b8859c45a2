//! The loop over the elements of a tile.
//!
//! A step may write its result into the memory of one of its operands. So the loop reads a block of elements of each operand, and
//! then writes the block of results. A block has a fixed number of elements, so the compiler uses wide instructions for it, although
//! the memory of the result and that of an operand may be the same.

use std::marker::PhantomData;
use std::ops::Mul;

use crate::base::target::Target;

/// The number of elements of a block. The compiler unrolls a loop over 32 elements before it looks for wide instructions, and then finds
/// none for some operations.
const BLOCK: usize = 64;

/// Elements that a step reads. The same step may overwrite each of them after it has read it.
#[derive(Clone, Copy)]
pub(crate) struct Operand<'a, T> {
    first: *const T,
    count: usize,
    memory: PhantomData<&'a [T]>,
}

impl<'a, T: Copy> Operand<'a, T> {
    #[inline(always)]
    pub(crate) fn new(elements: &'a [T]) -> Self {
        Self {
            first: elements.as_ptr(),
            count: elements.len(),
            memory: PhantomData,
        }
    }

    /// Returns `count` elements of the memory of a result, beginning at the position `start`.
    #[inline(always)]
    pub(crate) fn of_result(target: &'a Target<'_, T>, start: usize, count: usize) -> Self {
        Self {
            first: target.address_of(start, count),
            count,
            memory: PhantomData,
        }
    }

    /// Returns the elements as a slice.
    ///
    /// # Safety
    /// No step writes to the elements while the slice exists.
    #[inline(always)]
    #[allow(unsafe_code, reason = "the caller promises that nothing is written")]
    pub(crate) unsafe fn elements(self) -> &'a [T] {
        // SAFETY: the elements are borrowed for `'a`, and the caller promises that they do not change.
        unsafe { std::slice::from_raw_parts(self.first, self.count) }
    }
}

/// The memory into which a step writes its result.
pub(crate) struct Output<'a, T> {
    first: *mut T,
    count: usize,
    memory: PhantomData<&'a mut [T]>,
}

impl<'a, T: Copy> Output<'a, T> {
    /// Runs a step. Returns its results as the operand of another step, which overwrites them, and the memory for this one.
    #[inline(always)]
    pub(crate) fn after(self, step: impl FnOnce(Self)) -> (Operand<'a, T>, Self) {
        let (first, count) = (self.first, self.count);
        step(self);
        let results = Operand {
            first,
            count,
            memory: PhantomData,
        };
        let output = Self {
            first,
            count,
            memory: PhantomData,
        };
        (results, output)
    }

    #[inline(always)]
    pub(crate) fn new(elements: &'a mut [T]) -> Self {
        Self {
            first: elements.as_mut_ptr(),
            count: elements.len(),
            memory: PhantomData,
        }
    }

    /// Returns `count` elements of the memory of a result, beginning at the position `start`.
    ///
    /// # Safety
    /// While the output exists, there is no reference to the elements, and each operand that has some of them begins at the first
    /// one.
    #[inline(always)]
    #[allow(unsafe_code, reason = "the caller promises that no reference exists")]
    pub(crate) unsafe fn of_result(target: &'a Target<'_, T>, start: usize, count: usize) -> Self {
        Self {
            first: target.address_of(start, count),
            count,
            memory: PhantomData,
        }
    }
}

/// Defines a loop over the elements of a tile.
macro_rules! each {
    (
        $(#[$docs:meta])*
        $name:ident($($operand:ident: $element:ident $(* $factor:ident)?),+) $(where $type:ident: $bound:path)?
    ) => {
        $(#[$docs])*
        ///
        /// # Panics
        /// Panics if the numbers of elements differ.
        #[inline(always)]
        #[allow(unsafe_code, reason = "the output may have the memory of an operand, so there are no slices")]
        pub(crate) fn $name<$($element: Copy,)+ R: Copy + Default>(
            $($operand: Operand<'_, $element>, $($factor: $element,)?)+
            output: Output<'_, R>,
            function: impl Fn($($element),+) -> R,
        ) $(where $type: $bound)? {
            let count = output.count;
            let fits = $($operand.count == count)&&+;
            assert!(fits, "as many elements in the operands of a step as in its result");
            let mut at = 0;
            while at + BLOCK <= count {
                // SAFETY: the block ends within all operands and the output. The operands are read before the output, which may have
                // the same memory, is written.
                unsafe {
                    $(let $operand = $operand.first.add(at).cast::<[$element; BLOCK]>().read();)+
                    let mut results = [R::default(); BLOCK];
                    // Not an iterator, whose functions would be compiled again for each operation.
                    let mut position = 0;
                    while position < BLOCK {
                        results[position] = function($($operand[position] $(* $factor)?),+);
                        position += 1;
                    }
                    output.first.add(at).cast::<[R; BLOCK]>().write(results);
                }
                at += BLOCK;
            }
            while at < count {
                // SAFETY: the position is within all operands and the output. Operands with the memory of the output begin at the
                // same element, so no later element of them is written here.
                unsafe {
                    let result = function($($operand.first.add(at).read() $(* $factor)?),+);
                    output.first.add(at).write(result);
                }
                at += 1;
            }
        }
    };
}
each! {
    /// Computes each element of the output from the element of the operand at the same position.
    each_one(operand: A)
}
each! {
    /// Computes each element of the output from the element of the operand at the same position, which is multiplied by a factor
    /// first. The compiler would not inline a closure that multiplies.
    each_scaled(operand: A * factor) where A: Mul<Output = A>
}
each! {
    /// Computes each element of the output from the elements of two operands at the same position.
    each_two(left: A, right: B)
}
each! {
    /// Computes each element of the output from the elements of three operands at the same position.
    each_three(first: A, second: B, third: C)
}
each! {
    /// Computes each element of the output from the elements of four operands at the same position.
    each_four(first: A, second: B, third: C, fourth: D)
}

/// Computes each element of the output by the function `fast` if `is_fast` holds for the element of the operand, and by `slow`
/// elsewhere. A loop that calls `slow` only in branches would have no wide instructions, so the elements that need it are
/// computed again after each block.
///
/// # Panics
/// Panics if the numbers of elements differ.
#[inline(always)]
#[allow(
    unsafe_code,
    reason = "the output may have the memory of the operand, so there are no slices"
)]
pub(crate) fn each_by_speed<T: Copy + Default>(
    operand: Operand<'_, T>,
    output: Output<'_, T>,
    is_fast: impl Fn(T) -> bool,
    fast: impl Fn(T) -> T,
    slow: impl Fn(T) -> T,
) {
    let count = output.count;
    assert!(
        operand.count == count,
        "as many elements in the operand of a step as in its result"
    );
    let mut at = 0;
    while at + BLOCK <= count {
        // SAFETY: the block ends within the operand and the output. The operand is read before the output, which may have the same
        // memory, is written.
        unsafe {
            let numbers = operand.first.add(at).cast::<[T; BLOCK]>().read();
            let mut results = [T::default(); BLOCK];
            let mut are_fast = true;
            let mut position = 0;
            while position < BLOCK {
                results[position] = fast(numbers[position]);
                are_fast &= is_fast(numbers[position]);
                position += 1;
            }
            position = if are_fast { BLOCK } else { 0 };
            while position < BLOCK {
                if !is_fast(numbers[position]) {
                    results[position] = slow(numbers[position]);
                }
                position += 1;
            }
            output.first.add(at).cast::<[T; BLOCK]>().write(results);
        }
        at += BLOCK;
    }
    while at < count {
        // SAFETY: the position is within the operand and the output, and an operand with the same memory begins at the same element.
        unsafe {
            let number = operand.first.add(at).read();
            let result = if is_fast(number) {
                fast(number)
            } else {
                slow(number)
            };
            output.first.add(at).write(result);
        }
        at += 1;
    }
}
