//! Products with few rows or few columns, which read their long operand once and as it is stored.
//!
//! The speed of memory limits such a product: a layer that gets one token reads all its weights. So half-precision floats are widened in
//! registers, memory is requested ahead, and each thread reads long runs of it: some lines of the long operand if their elements are
//! neighbours, or else the terms of some [partial sums](lanes).
//!
//! An element is the sum of 16 partial sums. Partial sum `l` adds the terms `l`, `l + 16`, `l + 32`, … with fused multiplications, and
//! neighbours at the distances 8, 4, 2 and 1 are added at the end. Nothing else decides the order: neither the layout of an operand,
//! nor the number of threads, nor the other lines. So a transposition may move into a product, and a row of a batch has the bits that
//! it has alone.

mod factors;
pub(super) mod fused;
mod lanes;
mod leaves;
mod lines;
mod numbers;
mod short;

use self::factors::{Call, Factors, Few, Lines, Operand};
use self::fused::Fused;
pub(super) use self::fused::LANES;
use self::lanes::by_steps;
use self::leaves::Neighbours;
pub(super) use self::leaves::joined_rows;
use self::lines::by_lines;
pub(in crate::loops::dot) use self::numbers::scale;
use self::numbers::{Numbers, Scaled, Wide};
use super::loops::Loops;
use super::stored::{Part, Stored, Write};
use crate::base::array::{give_back, reused};
use crate::base::target::Target;

/// Calls a function with the few lines as neighbouring numbers of the type of sums.
fn with_few<E: Stored<Sum: Fused>>(
    few: Operand<'_, E>,
    depth: usize,
    call: impl FnOnce(Few<'_, E::Sum>),
) {
    let Lines {
        count,
        stride,
        result,
        ..
    } = few.lines;
    if let (1, Some(elements)) = (few.lines.depth, E::sums(few.elements)) {
        let lines = Neighbours {
            elements,
            count,
            stride,
        };
        return call(Few { lines, result });
    }
    let mut numbers = reused(count * depth);
    for (line, numbers) in numbers.chunks_exact_mut(depth).enumerate() {
        let elements = &few.elements[line * stride..];
        if few.lines.depth == 1 {
            E::widen(&elements[..depth], numbers);
            continue;
        }
        let elements = elements.iter().step_by(few.lines.depth);
        for (number, &element) in numbers.iter_mut().zip(elements) {
            *number = element.wide();
        }
    }
    let lines = Neighbours {
        elements: &numbers[..],
        count,
        stride: depth,
    };
    call(Few { lines, result });
    give_back(numbers);
}

/// A product, before the few lines are copied.
#[derive(Clone, Copy)]
struct Product<'a, E: Stored, N: Numbers<E::Sum>> {
    few: Operand<'a, E>,
    many: Operand<'a, N::Element>,
    numbers: N,
    depth: usize,
}

impl<'a, E: Stored<Sum: Fused>, N: Numbers<E::Sum> + 'a> Product<'a, E, N> {
    fn with_factors(self, call: impl FnOnce(Factors<'_, E::Sum, N>)) {
        let Self {
            few,
            many,
            numbers,
            depth,
        } = self;
        with_few(few, depth, |few| {
            call(Factors {
                few,
                many,
                numbers,
                depth,
            });
        });
    }

    /// Writes the product to `target`.
    fn multiply(self, target: Target<'_, E>, write: Write) {
        let mut results = (target, write);
        self.with_factors(|factors| {
            if factors.many.lines.are_across() {
                by_steps(factors, &mut results);
            } else {
                by_lines(factors, &mut results);
            }
        });
    }

    /// Divides the product into at most `count` parts. Returns the target if the threads should divide its lines.
    fn parts(
        self,
        loops: &Loops,
        target: Target<'a, E>,
        count: usize,
    ) -> Result<Vec<Part<'a>>, Target<'a, E>> {
        if !lanes::are_divided(loops, self.few.lines.count, self.many.lines) {
            return Err(target);
        }
        let with_factors = move |call: Call<'_, E::Sum, N>| self.with_factors(call);
        let results = Box::new((target, Write::Overwrite));
        Ok(lanes::parts(with_factors, results, count))
    }
}

/// Returns a product with few rows or few columns.
fn product<'a, E: Stored<Sum: Fused>>(
    loops: &Loops,
    left: &'a [E],
    right: &'a [E],
) -> Product<'a, E, Wide<E>> {
    let left = Operand {
        elements: left,
        lines: Lines::of_left(&loops.rows, &loops.depth),
    };
    let right = Operand {
        elements: right,
        lines: Lines::of_right(&loops.columns, &loops.depth),
    };
    let (few, many) = if left.lines.count <= right.lines.count {
        (left, right)
    } else {
        (right, left)
    };
    Product {
        few,
        many,
        numbers: Wide::NEW,
        depth: loops.depth.length,
    }
}

/// Writes a product with few rows or few columns to `target`.
pub(super) fn thin_product<E: Stored<Sum: Fused>>(
    loops: &Loops,
    left: &[E],
    right: &[E],
    target: Target<'_, E>,
    write: Write,
) {
    let product = product(loops, left, right);
    let Product {
        few, many, depth, ..
    } = product;
    match (E::sums(few.elements), E::sums(many.elements)) {
        (Some(one), Some(elements)) if short::is_short(few.lines, many.lines, depth) => {
            short::multiply(&one[..depth], (elements, many.lines), &mut (target, write));
        }
        _ => product.multiply(target, write),
    }
}

/// Divides a product with few rows or few columns into at most `count` parts. Returns the target if the threads should divide its lines.
pub(super) fn thin_parts<'a, E: Stored<Sum: Fused>>(
    loops: &Loops,
    left: &'a [E],
    right: &'a [E],
    target: Target<'a, E>,
    count: usize,
) -> Result<Vec<Part<'a>>, Target<'a, E>> {
    product(loops, left, right).parts(loops, target, count)
}

/// A few rows and 8-bit integers times scales. There is one scale for each step of the depth if `are_of_steps`, or else one for each
/// column.
#[derive(Clone, Copy)]
pub(in super::super) struct ScaledProduct<'a> {
    pub(in super::super) left: &'a [f32],
    pub(in super::super) integers: &'a [i8],
    pub(in super::super) scales: &'a [f32],
    pub(in super::super) are_of_steps: bool,
}

impl<'a> ScaledProduct<'a> {
    /// Writes the product to `target`.
    pub(in super::super) fn multiply(self, loops: &Loops, target: Target<'_, f32>) {
        if self.are_of_steps {
            self.product::<true>(loops)
                .multiply(target, Write::Overwrite);
        } else {
            self.product::<false>(loops)
                .multiply(target, Write::Overwrite);
        }
    }

    /// Divides the product as [`thin_parts`] does.
    pub(in super::super) fn parts(
        self,
        loops: &Loops,
        target: Target<'a, f32>,
        count: usize,
    ) -> Result<Vec<Part<'a>>, Target<'a, f32>> {
        if self.are_of_steps {
            self.product::<true>(loops).parts(loops, target, count)
        } else {
            self.product::<false>(loops).parts(loops, target, count)
        }
    }

    fn product<const OF_STEPS: bool>(
        self,
        loops: &Loops,
    ) -> Product<'a, f32, Scaled<'a, OF_STEPS>> {
        Product {
            few: Operand {
                elements: self.left,
                lines: Lines::of_left(&loops.rows, &loops.depth),
            },
            many: Operand {
                elements: self.integers,
                lines: Lines::of_right(&loops.columns, &loops.depth),
            },
            numbers: Scaled(self.scales),
            depth: loops.depth.length,
        }
    }
}
