//! The kernel of tensor products: loops around matrix products.
//!
//! Operands are read in their memory order. An operand is copied only if its contracted axes do not form one axis in
//! memory.
//!
//! | product | kernel |
//! |---|---|
//! | few rows or columns, also with 8-bit integers | [`thin`], which memory limits |
//! | f32 and f64 | those of the crate `gemm` |
//! | bf16 and f16 | [`half`], whose blocks are multiplied by [`tiles`] or widened for the kernel of f32 |
//! | integers, and at most 512 multiplications | a plain loop |
//!
//! Measured on one core of a Sapphire Rapids for `[128, 768] · [768, 3072]` in f32: `gemm` reaches 149 GFLOP/s, `faer` 133, `rten-gemm` 131
//! and `gemmkit` 91. On one core of an EPYC with `AVX512_BF16`, the tiles of bf16 reach 221 GFLOP/s.

mod arrangement;
mod elements;
mod gemm;
mod half;
mod loops;
mod plain;
mod portable;
mod small;
mod stored;
mod summation;
mod thin;
#[cfg(all(target_arch = "x86_64", not(miri)))]
mod tiles;
mod turn;

use std::borrow::Cow;

use self::arrangement::Arrangement;
use self::turn::{Columns, turn};
use crate::base::array::{give_back, reused};
use crate::base::target::{Following, Region, Target, Then};
use crate::base::threads;

pub(crate) use self::loops::{Kernel, Layout, LoopAxis, Loops, Strided, joined, strides_read};
pub(crate) use self::small::SmallRows;
pub(crate) use self::stored::{Factor, Part, Stored, Write};
pub use self::summation::Summation;
pub(super) use self::thin::{ScaledProduct, scale};

/// The number of multiplications of a product that one thread does in a nanosecond.
pub(crate) const PER_NANOSECOND: usize = 50;

/// The number of multiplications of a product with few rows or columns that one thread does in a nanosecond.
const THIN_PER_NANOSECOND: usize = 8;

/// Writes a product to `target`, on parallel threads if there is enough work.
pub(crate) fn multiply<T: Stored>(
    loops: &Loops,
    left: &[T],
    right: &[T],
    target: &mut [T],
    threads: usize,
) {
    multiply_then(loops, left, right, Target::new(target), threads, None);
}

/// Returns a function that writes a short product to `target`, without an allocation if nothing must be transposed.
pub(crate) fn prepared<T: Stored>(loops: Loops) -> impl Fn(&[T], &[T], Target<'_, T>) {
    let is_as_stored = loops.arrangement(T::IS_HALF) == Arrangement::AsStored;
    move |left, right, mut target| {
        if !is_as_stored {
            return multiply_then(&loops, left, right, target, 1, None);
        }
        loops.run(|[l, r, t]| {
            let target = target.from(t);
            T::matrix_product(&loops, &left[l..], &right[r..], target, Write::Overwrite);
        });
    }
}

/// Writes a product to `target`, as [`multiply`] does, and continues with each region of the result on the thread that has computed
/// it.
pub(crate) fn multiply_then<T: Stored>(
    loops: &Loops,
    left: &[T],
    right: &[T],
    target: Target<'_, T>,
    threads: usize,
    then: Option<Then<'_>>,
) {
    let Loops {
        rows,
        columns,
        depth,
        ..
    } = *loops;
    match loops.arrangement(T::IS_HALF) {
        Arrangement::AsStored => divide(loops, left, right, target, threads, then),
        Arrangement::Transposed => {
            let mut transposed = reused(rows.length * columns.length);
            multiply(&loops.transposed(), right, left, &mut transposed, threads);
            let source = Columns {
                elements: &transposed,
                stride: rows.length,
            };
            turn(source, target, columns.length, threads, then);
            give_back(transposed);
        }
        Arrangement::Turned => {
            let mut laid_out = reused(columns.length * depth.length);
            let source = Columns {
                elements: right,
                stride: columns.right,
            };
            let all = Target::new(&mut laid_out);
            turn(source, all, columns.length, threads, None);
            divide(&loops.turned(), left, &laid_out, target, threads, then);
            give_back(laid_out);
        }
    }
}

impl Loops {
    /// Returns about how many nanoseconds one thread takes.
    pub(crate) fn nanoseconds(&self) -> usize {
        match self.kernel() {
            Kernel::Thin => self.work() / THIN_PER_NANOSECOND,
            _ => self.work() / PER_NANOSECOND,
        }
    }
}

/// Returns about how many nanoseconds one thread takes to continue with a number of elements.
fn following_nanoseconds(following: Option<&Following>, elements: usize) -> usize {
    following.map_or(0, |following| following.nanoseconds * elements / 1000)
}

/// Writes a product to `target`. A product with enough work is divided into parts that run on parallel threads.
fn divide<T: Stored>(
    loops: &Loops,
    left: &[T],
    right: &[T],
    target: Target<'_, T>,
    threads: usize,
    then: Option<Then<'_>>,
) {
    let following = then.as_ref().map(|then| &then.following);
    let parts = parts(loops, left, right, target, threads, following);
    threads::run_parts(parts, |part| part(then.map(|then| then.run)));
}

/// Divides a product into at most `count` parts, which different threads may run.
pub(crate) fn parts<'a, T: Stored>(
    loops: &'a Loops,
    left: &'a [T],
    right: &'a [T],
    target: Target<'a, T>,
    count: usize,
    following: Option<&Following>,
) -> Vec<Part<'a>> {
    let is_long = || threads::are_worth(loops.nanoseconds());
    let target = if count > 1 && is_long() {
        match T::parts_of_terms(loops, left, right, target, count) {
            Ok(parts) => return parts,
            Err(target) => target,
        }
    } else {
        target
    };
    let mut blocks = Vec::new();
    let whole = Block {
        loops: Cow::Borrowed(loops),
        left,
        right,
        target,
        first: 0,
    };
    whole.divide(count, following, &mut blocks);
    let part = |block: Block<'a, T>| -> Part<'a> { Box::new(move |then| block.run(then)) };
    blocks.into_iter().map(part).collect()
}

/// Some rows and columns of a product: its loops, and its elements of the operands and the result.
struct Block<'a, T: Stored> {
    loops: Cow<'a, Loops>,
    left: &'a [T],
    right: &'a [T],
    /// The memory of the whole result.
    target: Target<'a, T>,
    /// The position of the first element of the block in the whole result.
    first: usize,
}

impl<T: Stored> Block<'_, T> {
    /// Divides this block into at most `threads` smaller ones. Does not divide a block that is too small for several threads.
    #[allow(
        unsafe_code,
        reason = "two blocks write to the same memory, but not to the same elements"
    )]
    fn divide(self, threads: usize, following: Option<&Following>, blocks: &mut Vec<Self>) {
        let nanoseconds =
            self.loops.nanoseconds() + following_nanoseconds(following, self.loops.results());
        let is_long = threads::are_worth(nanoseconds);
        let halves = (threads > 1 && is_long).then(|| self.loops.halves(following));
        let Some((first, second, [l, r, t])) = halves.flatten() else {
            return blocks.push(self);
        };
        // SAFETY: the halves of the loops have different positions in the result, and a product writes only the positions
        // of its loops.
        let other = unsafe { self.target.shared() };
        let half = |loops, left, right, target, first| Self {
            loops: Cow::Owned(loops),
            left,
            right,
            target,
            first,
        };
        half(first, self.left, self.right, self.target, self.first).divide(
            threads / 2,
            following,
            blocks,
        );
        half(
            second,
            &self.left[l..],
            &self.right[r..],
            other,
            self.first + t,
        )
        .divide(threads.div_ceil(2), following, blocks);
    }

    /// Computes the block, and continues with its regions.
    fn run(mut self, then: Option<&(dyn Fn(Region) + Sync)>) {
        let (left, right, first) = (self.left, self.right, self.first);
        let loops = &*self.loops;
        let target = &mut self.target;
        let mut product = |[l, r, t]: [usize; 3]| {
            let target = target.from(first + t);
            T::matrix_product(loops, &left[l..], &right[r..], target, Write::Overwrite);
        };
        let Some(then) = then else {
            return loops.run(product);
        };
        let (rows, columns) = (loops.rows, loops.columns);
        if rows.length > 1 && columns.length < rows.result {
            loops.run(product);
            return then(Region {
                first,
                rows: rows.length,
                columns: columns.length,
                stride: rows.result,
            });
        }
        let mut region = Region::between(first, first);
        loops.run(|offsets| {
            product(offsets);
            region.columns += rows.length * columns.length;
        });
        then(region);
    }
}

#[cfg(test)]
#[allow(
    unsafe_code,
    reason = "a test reads the memory of a product while other parts are computed"
)]
mod tests;
