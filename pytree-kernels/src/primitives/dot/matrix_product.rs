//! The kernel of tensor products: loops around matrix products.
//!
//! Operands are read in their memory order. An operand is copied only if its contracted axes do not form one axis in
//! memory.
//!
//! | product | kernel |
//! |---|---|
//! | few rows or columns | [`thin`], which memory limits |
//! | f32 and f64 | those of the crate `gemm` |
//! | bf16 and f16 | [`half`], whose blocks are multiplied by [`tiles`] or widened for the kernel of f32 |
//! | integers, and at most 512 multiplications | a plain loop |
//!
//! Measured on one core of a Sapphire Rapids for `[128, 768] · [768, 3072]`: in f32, `gemm` reaches 149 GFLOP/s, `faer` 133, `rten-gemm` 131 and
//! `gemmkit` 91. In bf16, `gemmkit` reaches 103 with `vdpbf16ps`, which does half as many operations in a second as the fused
//! multiplications of f32. So processors without matrix instructions widen.

mod half;
mod loops;
mod summation;
mod thin;
mod tiles;

use std::borrow::Cow;

use ::half::slice::HalfFloatSliceExt;
use ::half::{bf16, f16};
use pytree_base::bug::expect_some;

use self::half::{Widened, half_product};
pub(crate) use self::loops::Kernel;
pub(crate) use self::loops::{Layout, LoopAxis, Loops, Strided, joined, strides_read};
pub use self::summation::Summation;
use self::thin::thin_product;
use self::tiles::Tiles;
use crate::base::array::{give_back, reused};
use crate::base::dtype::ArrayElement;
use crate::base::instructions::{are_portable, have_fused};
use crate::base::narrow::{narrow_bf16, narrow_f16, widen_bf16, widen_f16};
use crate::base::numbers::{greatest_common_divisor, least_common_multiple};
use crate::base::target::{Following, Region, Target, Then};
use crate::base::threads;

/// The number of multiplications of a product that one thread does in a nanosecond.
pub(crate) const PER_NANOSECOND: usize = 50;

/// The number of multiplications of a product with few rows or columns that one thread does in a nanosecond.
const THIN_PER_NANOSECOND: usize = 8;

/// The number of elements that one thread transposes in a nanosecond.
const TURNED_PER_NANOSECOND: usize = 2;

/// The number of rows and columns of a block that is transposed at once.
const BLOCK: usize = 16;

/// The expected size of a line of a block, as text for the panic message of a library bug.
const WHOLE: &str = "a whole line of a block";

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

/// What is transposed in memory, so that the kernels read contiguous elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Arrangement {
    /// Nothing: the kernels read both operands as they are.
    AsStored,
    /// The right operand, before the product.
    Turned,
    /// The result of the product of the transposed operands. In this product, the left operand is the right factor.
    Transposed,
}

impl Loops {
    /// Returns about how many nanoseconds one thread takes.
    pub(crate) fn nanoseconds(&self) -> usize {
        match self.kernel() {
            Kernel::Thin => self.work() / THIN_PER_NANOSECOND,
            _ => self.work() / PER_NANOSECOND,
        }
    }

    fn arrangement(&self, is_half: bool) -> Arrangement {
        let Self {
            rows,
            columns,
            depth,
            ..
        } = *self;
        if is_half || !self.is_turned() {
            return Arrangement::AsStored;
        }
        let turned = columns.length * depth.length;
        let other_way = rows.length * (depth.length + columns.length);
        let is_whole = self.outer.is_empty() && rows.result == columns.length && depth.left == 1;
        if is_whole && 3 * other_way < 2 * turned {
            Arrangement::Transposed
        } else {
            Arrangement::Turned
        }
    }

    /// Returns the loops after the right operand is transposed in memory.
    fn turned(&self) -> Self {
        let mut loops = self.clone();
        (loops.columns.right, loops.depth.right) = (1, self.columns.length);
        loops
    }
}

/// The columns of a matrix that are transposed, one after the other in memory. Neighbouring ones are `stride` elements apart.
#[derive(Clone, Copy)]
struct Columns<'a, T> {
    elements: &'a [T],
    stride: usize,
}

/// Writes the rows of `source` as the `width` columns of `target`, and continues with regions of the result.
#[allow(
    unsafe_code,
    reason = "the bands and what follows them use different elements of the same memory"
)]
fn turn<T: ArrayElement + Send + Sync>(
    source: Columns<'_, T>,
    mut target: Target<'_, T>,
    width: usize,
    threads: usize,
    then: Option<Then<'_>>,
) {
    let rows = target.elements() / width;
    let run = |target: &mut Target<'_, T>, start: usize, end: usize| {
        let elements = target.slice_mut(start * width, (end - start) * width);
        turn_band(&source.elements[start..], source.stride, elements, width);
        if let Some(then) = then {
            (then.run)(Region::between(start * width, end * width));
        }
    };
    let following = then.map(|then| then.following);
    let nanoseconds = target.elements() / TURNED_PER_NANOSECOND
        + following_nanoseconds(following.as_ref(), target.elements());
    let grain = following.map_or(1, |following| following.grain);
    let unit = least_common_multiple(BLOCK, grain / greatest_common_divisor(grain, width));
    let band = unit.map_or(rows, |unit| rows.div_ceil(threads).next_multiple_of(unit));
    if threads < 2 || !threads::are_worth(nanoseconds) || rows < 2 * BLOCK {
        return run(&mut target, 0, rows);
    }
    let bands = (0..rows).step_by(band).map(|start| {
        // SAFETY: the bands are different rows, and the function `then` continues with the rows of its band only.
        (start, unsafe { target.shared() })
    });
    threads::run_parts(bands.collect(), |(start, mut target)| {
        run(&mut target, start, rows.min(start + band));
    });
}

/// Returns about how many nanoseconds one thread takes to continue with a number of elements.
fn following_nanoseconds(following: Option<&Following>, elements: usize) -> usize {
    following.map_or(0, |following| following.nanoseconds * elements / 1000)
}

/// Writes the beginning of each row of `source` as a column of `target`, block by block. A row of a block fills a cache
/// line, so each line is read and written once.
fn turn_band<T: ArrayElement>(source: &[T], stride: usize, target: &mut [T], width: usize) {
    for (down, band) in target.chunks_mut(BLOCK * width).enumerate() {
        let height = band.len() / width;
        for across in (0..width).step_by(BLOCK) {
            let count = BLOCK.min(width - across);
            let source = &source[across * stride + down * BLOCK..];
            let target = &mut band[across..];
            if height == BLOCK && count == BLOCK {
                turn_block(source, stride, target, width);
            } else {
                for column in 0..count {
                    let line = &source[column * stride..][..height];
                    for (row, &element) in line.iter().enumerate() {
                        target[row * width + column] = element;
                    }
                }
            }
        }
    }
}

/// Transposes a whole block. All its lengths are constants, so the loops have no bounds checks and no calls.
fn turn_block<T: ArrayElement>(source: &[T], stride: usize, target: &mut [T], width: usize) {
    let mut block = [[T::default(); BLOCK]; BLOCK];
    for column in 0..BLOCK {
        let line: &[T; BLOCK] = expect_some(source[column * stride..].first_chunk(), WHOLE);
        for row in 0..BLOCK {
            block[row][column] = line[row];
        }
    }
    for (row, elements) in block.iter().enumerate() {
        let line = target[row * width..].first_chunk_mut::<BLOCK>();
        *expect_some(line, WHOLE) = *elements;
    }
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
    threads::run_parts(parts, |part| part.run(then.map(|then| then.run)));
}

/// Divides a product into at most `count` parts, which different threads may run.
pub(crate) fn parts<'a, T: Stored>(
    loops: &'a Loops,
    left: &'a [T],
    right: &'a [T],
    target: Target<'a, T>,
    count: usize,
    following: Option<&Following>,
) -> Vec<Part<'a, T>> {
    let mut parts = Vec::new();
    let whole = Part {
        loops: Cow::Borrowed(loops),
        left,
        right,
        target,
        first: 0,
    };
    whole.divide(count, following, &mut parts);
    parts
}

/// A part of a product: its loops, and its elements of the operands and the result.
pub(crate) struct Part<'a, T: Stored> {
    loops: Cow<'a, Loops>,
    left: &'a [T],
    right: &'a [T],
    /// The memory of the whole result.
    target: Target<'a, T>,
    /// The position of the first element of the part in the whole result.
    first: usize,
}

impl<T: Stored> Part<'_, T> {
    /// Divides this part into at most `threads` smaller parts. Does not divide a part that is too small for several
    /// threads.
    #[allow(
        unsafe_code,
        reason = "two parts write to the same memory, but not to the same elements"
    )]
    fn divide(self, threads: usize, following: Option<&Following>, parts: &mut Vec<Self>) {
        let nanoseconds =
            self.loops.nanoseconds() + following_nanoseconds(following, self.loops.results());
        let is_long = threads::are_worth(nanoseconds);
        let halves = (threads > 1 && is_long).then(|| self.loops.halves(following));
        let Some((first, second, [l, r, t])) = halves.flatten() else {
            return parts.push(self);
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
            parts,
        );
        half(
            second,
            &self.left[l..],
            &self.right[r..],
            other,
            self.first + t,
        )
        .divide(threads.div_ceil(2), following, parts);
    }

    /// Computes the part, and continues with its regions.
    pub(crate) fn run(mut self, then: Option<&(dyn Fn(Region) + Sync)>) {
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

/// Whether a matrix product keeps the old elements of its target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Write {
    /// Overwrites the old elements.
    Overwrite,
    /// Adds the product to the old elements.
    Add,
}

/// An element type of the operands of products.
pub(crate) trait Stored: ArrayElement + Send + Sync {
    /// The type in which products are summed.
    type Sum: Factor;

    /// Whether this is a half-precision float type.
    const IS_HALF: bool = false;

    /// Returns the element as a number of the type of sums.
    fn wide(self) -> Self::Sum;

    /// Returns a sum as an element.
    fn rounded(sum: Self::Sum) -> Self;

    /// Writes the product of two matrices, whose strides are in the axes of `loops`, to `target`.
    fn matrix_product(
        loops: &Loops,
        left: &[Self],
        right: &[Self],
        target: Target<'_, Self>,
        write: Write,
    );
}

/// An element type in which products are summed.
pub(crate) trait Factor: Stored<Sum = Self> {
    /// Returns `self` plus the product of `left` and `right`.
    fn plus_product(self, left: Self, right: Self) -> Self;

    /// Returns the sum of two elements.
    fn plus(self, other: Self) -> Self;
}

/// Returns whether the offsets of all positions on two axes are below `elements`. Each axis is given by its length and
/// stride. If the result is true, a kernel may omit the bounds checks.
fn within(elements: usize, axes: [(usize, usize); 2]) -> bool {
    let last = axes
        .into_iter()
        .try_fold(0_usize, |last, (length, stride)| {
            last.checked_add(length.checked_sub(1)?.checked_mul(stride)?)
        });
    last.is_some_and(|last| last < elements)
}

macro_rules! float_factor {
    ($float:ty, $product:ident, $gemm:path) => {
        /// Writes a matrix product to `target` with a kernel of the crate `gemm`.
        #[allow(unsafe_code, reason = "the kernels of gemm take pointers")]
        fn $product(
            loops: &Loops,
            left: &[$float],
            right: &[$float],
            target: Target<'_, $float>,
            write: Write,
        ) {
            let Loops {
                rows,
                columns,
                depth,
                ..
            } = *loops;
            assert!(
                within(
                    left.len(),
                    [(rows.length, rows.left), (depth.length, depth.left)]
                ) && within(
                    right.len(),
                    [(depth.length, depth.right), (columns.length, columns.right)]
                ) && within(
                    target.elements(),
                    [(rows.length, rows.result), (columns.length, columns.result)]
                ),
                "this is a bug in pytree: expected a matrix product whose positions are inside its operands; please report it"
            );
            let stride = usize::cast_signed;
            let left = (left.as_ptr(), stride(depth.left), stride(rows.left), rows);
            let right = (
                right.as_ptr(),
                stride(depth.right),
                stride(columns.right),
                columns,
            );
            // The kernels expect a result in which neighbouring rows are neighbours in memory. If neighbouring
            // columns are neighbours in memory instead, multiply the transposed operands to get the transposed
            // product.
            let (first, second) = if columns.result == 1 {
                (right, left)
            } else {
                (left, right)
            };
            let (down, across) = (first.3, second.3);
            // SAFETY: the assertion above keeps all reads and writes within the operands and the target. The target
            // does not overlap an operand, since it is borrowed mutably, and no other part of the product writes to
            // the positions of these loops.
            unsafe {
                $gemm()(
                    down.length,
                    across.length,
                    depth.length,
                    target.first(),
                    stride(across.result),
                    stride(down.result),
                    write == Write::Add,
                    first.0,
                    first.1,
                    first.2,
                    second.0,
                    second.2,
                    second.1,
                    1.0,
                    1.0,
                    false,
                    false,
                    false,
                    gemm_common::Parallelism::None,
                );
            }
        }

        impl Stored for $float {
            type Sum = Self;

            #[inline(always)]
            fn wide(self) -> Self {
                self
            }
            #[inline(always)]
            fn rounded(sum: Self) -> Self {
                sum
            }
            fn matrix_product(
                loops: &Loops,
                left: &[Self],
                right: &[Self],
                target: Target<'_, Self>,
                write: Write,
            ) {
                match loops.kernel() {
                    Kernel::Thin if have_fused() => {
                        thin_product(loops, left, right, target, write);
                    }
                    Kernel::Plain | Kernel::Thin => {
                        plain_product(loops, left, right, target, write);
                    }
                    _ if are_portable() => plain_product(loops, left, right, target, write),
                    _ => $product(loops, left, right, target, write),
                }
            }
        }

        impl Factor for $float {
            #[inline(always)]
            fn plus_product(self, left: Self, right: Self) -> Self {
                self + left * right
            }
            #[inline(always)]
            fn plus(self, other: Self) -> Self {
                self + other
            }
        }
    };
}
float_factor!(f32, gemm_f32_product, gemm_f32::gemm::f32::get_gemm_fn);
float_factor!(f64, gemm_f64_product, gemm_f64::gemm::f64::get_gemm_fn);

macro_rules! half_stored {
    ($half:ty, $widen:path, $narrow:path, $product:expr) => {
        impl Stored for $half {
            type Sum = f32;

            const IS_HALF: bool = true;

            #[inline(always)]
            fn wide(self) -> f32 {
                $widen(self.to_bits())
            }
            #[inline(always)]
            fn rounded(sum: f32) -> Self {
                Self::from_bits($narrow(sum))
            }
            fn matrix_product(
                loops: &Loops,
                left: &[Self],
                right: &[Self],
                target: Target<'_, Self>,
                write: Write,
            ) {
                match loops.kernel() {
                    Kernel::Thin if have_fused() => {
                        thin_product(loops, left, right, target, write);
                    }
                    Kernel::Plain | Kernel::Thin => {
                        plain_product(loops, left, right, target, write);
                    }
                    _ if are_portable() => plain_product(loops, left, right, target, write),
                    _ => $product(loops, left, right, target, write),
                }
            }
        }
    };
}
half_stored!(bf16, widen_bf16, narrow_bf16, bf16_product);
half_stored!(
    f16,
    widen_f16,
    narrow_f16,
    half_product::<Widened<f16>, f16>
);

/// Writes a matrix product to `target`.
fn bf16_product(
    loops: &Loops,
    left: &[bf16],
    right: &[bf16],
    target: Target<'_, bf16>,
    write: Write,
) {
    if tiles::are_available() {
        let [left, right] = [left, right].map(HalfFloatSliceExt::reinterpret_cast);
        half_product::<Tiles, _>(loops, left, right, target, write);
    } else {
        half_product::<Widened<bf16>, _>(loops, left, right, target, write);
    }
}

/// Computes a product of integers, or a product that is too small for a kernel of the crate `gemm`.
fn plain_product<T: Stored>(
    loops: &Loops,
    left: &[T],
    right: &[T],
    mut target: Target<'_, T>,
    write: Write,
) {
    let Loops {
        rows,
        columns,
        depth,
        ..
    } = *loops;
    for row in 0..rows.length {
        for column in 0..columns.length {
            let mut sum = T::Sum::default();
            for step in 0..depth.length {
                let factor = left[row * rows.left + step * depth.left];
                let other = right[step * depth.right + column * columns.right];
                sum = sum.plus_product(factor.wide(), other.wide());
            }
            let position = row * rows.result + column * columns.result;
            let element = &mut target.slice_mut(position, 1)[0];
            *element = match write {
                Write::Overwrite => T::rounded(sum),
                Write::Add => T::rounded(element.wide().plus(sum)),
            };
        }
    }
}

macro_rules! integer_factor {
    ($($integer:ty),*) => {$(
        impl Factor for $integer {
            #[inline]
            fn plus_product(self, left: Self, right: Self) -> Self {
                self.wrapping_add(left.wrapping_mul(right))
            }
            #[inline]
            fn plus(self, other: Self) -> Self {
                self.wrapping_add(other)
            }
        }

        impl Stored for $integer {
            type Sum = Self;

            #[inline]
            fn wide(self) -> Self {
                self
            }
            #[inline]
            fn rounded(sum: Self) -> Self {
                sum
            }
            fn matrix_product(
                loops: &Loops,
                left: &[Self],
                right: &[Self],
                target: Target<'_, Self>,
                write: Write,
            ) {
                plain_product(loops, left, right, target, write);
            }
        }
    )*};
}
integer_factor!(i32, i64, u32);

#[cfg(test)]
#[allow(
    unsafe_code,
    reason = "a test reads the memory of a product while other parts are computed"
)]
mod tests;
