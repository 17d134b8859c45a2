//! Instructions that read and update values at indices, and random bits.

use std::sync::Arc;

use super::code::{Code, Instruction};
use super::values::{Place, Values};
use crate::base::array::{Array, row_major_strides};
use crate::base::bits::with_bits;
use crate::base::combine::{Combine, Max, Min, Prod, Sum, with_number, with_ordered};
use crate::base::dtype::{AbstractArray, ArrayElement, DType};
use crate::base::narrow::is_narrow;
use crate::base::target::Target;
use crate::loops::gather::{Blocks, Outside, ScatterBy};
use crate::loops::threefry;

/// The memory of indices.
enum Integers {
    I32(Target<'static, i32>),
    I64(Target<'static, i64>),
    U32(Target<'static, u32>),
}

impl Integers {
    fn of(values: &Values, place: Place) -> Option<Self> {
        match values.info(place).dtype {
            DType::I32 => Some(Self::I32(values.target(place))),
            DType::I64 => Some(Self::I64(values.target(place))),
            DType::U32 => Some(Self::U32(values.target(place))),
            _ => None,
        }
    }

    #[inline(always)]
    fn get(&self, at: usize) -> i64 {
        match self {
            Self::I32(memory) => memory.slice(at, 1)[0].into(),
            Self::I64(memory) => memory.slice(at, 1)[0],
            Self::U32(memory) => memory.slice(at, 1)[0].into(),
        }
    }
}

/// The indices of blocks of a value.
struct Indices {
    integers: Integers,
    /// The number of indices of an example.
    per_row: usize,
    blocks: Blocks,
    length: i64,
    outside: Outside,
}

impl Indices {
    /// Calls a function for each index within the bounds, with its number and the position of its block.
    #[inline(always)]
    fn each(&self, values: &mut Values, mut call: impl FnMut(&mut Values, usize, usize)) {
        let Blocks {
            batch,
            before,
            length,
            ..
        } = self.blocks;
        for row in 0..batch * before {
            for number in 0..self.per_row {
                let index = self.integers.get(row / before * self.per_row + number);
                let index = if index < 0 {
                    index + self.length
                } else {
                    index
                };
                let position = match self.outside {
                    _ if (0..self.length).contains(&index) => index,
                    Outside::Clamp => index.clamp(0, (self.length - 1).max(0)),
                    Outside::Drop => continue,
                };
                let position = usize::try_from(position).unwrap_or(0);
                call(values, row * self.per_row + number, row * length + position);
            }
        }
    }
}

/// A window of a value, as rows of bytes without gaps.
struct Window {
    starts: Vec<Start>,
    /// The position of each row after the first element of the window.
    rows: Vec<usize>,
    /// The bytes of a row.
    bytes: usize,
}

/// Where a window begins on an axis.
struct Start {
    position: Target<'static, i64>,
    last: i64,
    stride: usize,
}

impl Window {
    /// Calls a function for each row with its positions in the value and in the window, in bytes.
    #[inline(always)]
    fn each(&self, mut call: impl FnMut(usize, usize)) {
        let start = |start: &Start| {
            let position = start.position.read().clamp(0, start.last);
            usize::try_from(position).unwrap_or(0) * start.stride
        };
        let first: usize = self.starts.iter().map(start).sum();
        for (number, row) in self.rows.iter().enumerate() {
            call(first + row, number * self.bytes);
        }
    }
}

impl Values {
    /// Returns the index, a single i32, of a branch of `cond`.
    pub fn index(&self, place: Place) -> i32 {
        self.target::<i32>(place).read()
    }

    /// Adds the reading of the blocks of an operand at indices, as [`gather`](crate::loops::gather::gather) does. The operand may be loose.
    /// Returns false if the indices must be widened.
    pub fn taken(
        &self,
        (blocks, outside): (&Blocks, Outside),
        [operand, indices, result]: [Place; 3],
        code: &mut Code,
    ) -> bool {
        let bytes = blocks.after * self.info(result).dtype.bytes();
        let Some(index) = self.indices(blocks, indices, outside) else {
            return false;
        };
        if outside == Outside::Drop {
            self.cleared(result, code);
        }
        code.push(move |values| {
            index.each(values, |values, block, position| {
                values.copy_part(operand, position, result, block, bytes);
            });
        });
        true
    }

    /// Adds the combination of blocks of a value with updates, as [`scatter`](crate::loops::gather::scatter) does, or their sums if `by` is
    /// `None`. The value may be loose if updates overwrite it. Returns false if an operand must be widened.
    pub fn scattered(
        &self,
        by: Option<ScatterBy>,
        (blocks, outside): (&Blocks, Outside),
        [indices, updates, result]: [Place; 3],
        code: &mut Code,
    ) -> bool {
        let dtype = self.info(updates).dtype;
        code.forget(result);
        let is_set = by == Some(ScatterBy::Set);
        let can_combine = !is_narrow(dtype) && dtype != DType::Bool && self.is_fixed(result);
        let index = self.indices(blocks, indices, outside);
        let Some(index) = index.filter(|_| is_set || can_combine) else {
            return false;
        };
        let (after, places) = (blocks.after, [updates, result]);
        macro_rules! combined {
            ($with:ident, $combination:ident) => {
                $with!(dtype, T => self.combined::<T, $combination>(index, after, places))
            };
        }
        let instruction = match by {
            Some(ScatterBy::Set) => Instruction::new(move |values: &mut Self| {
                values.own(result);
                index.each(values, |values, block, position| {
                    values.copy_part(updates, block, result, position, after * dtype.bytes());
                });
            }),
            Some(ScatterBy::Multiply) => combined!(with_number, Prod),
            Some(ScatterBy::Max) => combined!(with_ordered, Max),
            Some(ScatterBy::Min) => combined!(with_ordered, Min),
            None => {
                self.cleared(result, code);
                combined!(with_number, Sum)
            }
        };
        code.add(instruction);
        true
    }

    /// Adds the filling of a fixed value with zeros.
    fn cleared(&self, place: Place, code: &mut Code) {
        with_bits!(self.info(place).dtype, T => {
            let (mut memory, count) = (self.target::<T>(place), self.len(place));
            code.push(move |_| memory.slice_mut(0, count).fill(T::default()));
        });
    }

    fn combined<T: ArrayElement, C: Combine<T>>(
        &self,
        index: Indices,
        after: usize,
        [updates, result]: [Place; 2],
    ) -> Instruction {
        let (updates, mut to) = (self.target::<T>(updates), self.target::<T>(result));
        Instruction::new(move |values| {
            index.each(values, |_, block, position| {
                let updates = updates.slice(block * after, after);
                let elements = to.slice_mut(position * after, after).iter_mut();
                for (element, update) in elements.zip(updates) {
                    *element = C::combine(*element, *update);
                }
            });
        })
    }

    /// Returns the indices of blocks. Returns `None` if they must be widened, or if blocks have no elements.
    fn indices(&self, blocks: &Blocks, place: Place, outside: Outside) -> Option<Indices> {
        let integers = Integers::of(self, place)?;
        (blocks.after > 0).then(|| Indices {
            integers,
            per_row: self.len(place) / blocks.batch.max(1),
            blocks: *blocks,
            length: i64::try_from(blocks.length).unwrap_or(i64::MAX),
            outside,
        })
    }

    /// Adds the update of a window of a value in place, as [`update_slice`](crate::loops::update_slice::update_slice) does. The window begins
    /// at the positions of `starts` on these axes. Returns false if a start is not an i64.
    pub fn updated(
        &self,
        (place, info): (Place, &AbstractArray),
        (update, lengths): (Place, &[usize]),
        starts: &[(usize, Place)],
        code: &mut Code,
    ) -> bool {
        let Some(window) = self.window(info, lengths, starts) else {
            return false;
        };
        code.forget(place);
        code.push(move |values| {
            values.own(place);
            window.each(|from, at| values.copy_bytes((update, at), (place, from), window.bytes));
        });
        true
    }

    /// Adds the reading of a window of a value, which may be loose; see [`updated`](Self::updated).
    pub fn windowed(
        &self,
        (place, info): (Place, &AbstractArray),
        (result, lengths): (Place, &[usize]),
        starts: &[(usize, Place)],
        code: &mut Code,
    ) -> bool {
        let Some(window) = self.window(info, lengths, starts) else {
            return false;
        };
        code.push(move |values| {
            window.each(|from, at| values.copy_bytes((place, from), (result, at), window.bytes));
        });
        true
    }

    /// Returns a window of a value that begins at the positions of `starts` on these axes. Returns `None` if it has no elements, or if a
    /// start is not an i64.
    fn window(
        &self,
        info: &AbstractArray,
        lengths: &[usize],
        starts: &[(usize, Place)],
    ) -> Option<Window> {
        let shape = &info.shape;
        let is_start = |&(_, start): &(usize, Place)| self.info(start).dtype == DType::I64;
        if !starts.iter().all(is_start) || lengths.contains(&0) {
            return None;
        }
        let bytes = info.dtype.bytes();
        let strides = row_major_strides(shape);
        // Behind the last axis of which the window has only a part, the elements of both are in the same order without gaps.
        let partial = (0..shape.len())
            .rev()
            .find(|&axis| lengths[axis] != shape[axis]);
        let outer = &lengths[..partial.unwrap_or_default()];
        let offset = |number: usize| {
            let (mut rest, mut place) = (number, 0);
            for (&length, &stride) in outer.iter().zip(&strides).rev() {
                place += rest % length * stride;
                rest /= length;
            }
            place * bytes
        };
        let start = |&(axis, start): &(usize, Place)| Start {
            position: self.target(start),
            last: i64::try_from(shape[axis] - lengths[axis]).unwrap_or(i64::MAX),
            stride: strides[axis] * bytes,
        };
        Some(Window {
            starts: starts.iter().map(start).collect(),
            rows: (0..outer.iter().product()).map(offset).collect(),
            bytes: lengths[outer.len()..].iter().product::<usize>() * bytes,
        })
    }

    /// Makes sure that nothing else has the memory of a value, so that it may be written.
    fn own(&mut self, place: Place) {
        if let Some(array) = self.array(place)
            && (Arc::strong_count(array) > 1 || !array.has_own_memory())
        {
            let copy = Arc::new(Array::clone(array));
            self.set(place, copy);
        }
    }

    /// Adds random bits: [`threefry::block`] of two words of keys and two words of counters.
    pub fn random_bits(&self, operands: [Place; 4], results: [Place; 2], code: &mut Code) {
        let operands = operands.map(|operand| self.target::<u32>(operand));
        let (mut results, count) = (
            results.map(|result| self.target::<u32>(result)),
            self.len(results[0]),
        );
        code.push(move |_| {
            let [key0, key1, count0, count1] =
                operands.each_ref().map(|operand| operand.slice(0, count));
            let [first, second] = results.each_mut().map(|result| result.slice_mut(0, count));
            first.copy_from_slice(count0);
            second.copy_from_slice(count1);
            threefry::blocks([key0, key1], (first, second));
        });
    }
}
