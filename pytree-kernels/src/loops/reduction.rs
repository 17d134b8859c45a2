//! Reductions over axes. [`crate::base::fold`] defines the order in which the kernels combine elements.
//!
//! An operand may be reduced as if it were converted to another dtype. Its elements are converted, and narrow elements widened, part by
//! part, where the order has its parts and blocks.

mod truth;

use std::ops::Range;

use pytree_base::bug::expect_some;

use self::truth::truths;
use crate::base::array::{Array, give_back, reserved, reused, with_type, with_wide};
use crate::base::combine::{And, Combine, Max, Min, Number, Or, Ordered, Prod, Sum, with_number};
use crate::base::dtype::{AbstractArray, ArrayElement, DType};
use crate::base::fold::{self, PART};
use crate::base::narrow::{is_narrow, wide, widened_part, write_part};
use crate::base::shape::{AxisList, without_axes};
use crate::base::threads::{self, share_rows};
use crate::loops::strided;

/// How a reduction combines two elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reduction {
    /// The maximum, or NaN if any element is NaN.
    Max,
    /// The minimum, or NaN if any element is NaN.
    Min,
    /// The product.
    Prod,
    /// The bitwise conjunction.
    And,
    /// The bitwise disjunction.
    Or,
}

/// Selects the maximum or the minimum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Extremum {
    /// The maximum.
    Max,
    /// The minimum.
    Min,
}

/// A reduction over the second of three axes: the length of this axis, and that of the third.
#[derive(Clone, Copy)]
struct Pass {
    length: usize,
    inner: usize,
    /// Whether the elements are a block of a longer reduction, whose rows are combined one after the other.
    is_block: bool,
}

impl Pass {
    fn new(length: usize, inner: usize) -> Self {
        Self {
            length,
            inner,
            is_block: false,
        }
    }
}

/// Writes a pass over an array to another array.
type Reduce<'a> = dyn Fn(Pass, &Array, &mut Array) + 'a;

/// About how many elements are widened at a time.
const WIDENED: usize = 16 * PART;

/// About how many elements one thread combines in a nanosecond.
const PER_NANOSECOND: usize = 8;

/// The number of columns that are widened at a time, if there are more.
const COLUMNS: usize = 256;

/// Reduces an array of a dtype over `axes`. Neighbouring reduced axes form a group, and the axes of a group are reduced together.
/// The groups are reduced one after the other, starting with the last group.
fn folded(operand: &Array, dtype: DType, axes: &[usize], reduce: &Reduce<'_>) -> Array {
    let shape = operand.shape();
    // An axis of length 1 adds no elements and does not separate other axes, so it does not affect the order.
    let long: AxisList = (0..shape.len()).filter(|&axis| shape[axis] != 1).collect();
    let length = |axes: &[usize]| axes.iter().map(|&axis| shape[axis]).product::<usize>();
    let is_reduced = |axis: &usize| axes.contains(axis);
    let mut reduced: Option<Array> = None;
    let mut rest = &long[..];
    let mut inner = 1;
    while let Some(last) = rest.iter().rposition(is_reduced) {
        let first = rest[..last]
            .iter()
            .rposition(|axis| !is_reduced(axis))
            .map_or(0, |axis| axis + 1);
        inner *= length(&rest[last + 1..]);
        let (outer, length) = (length(&rest[..first]), length(&rest[first..=last]));
        rest = &rest[..first];
        // The results of a group that is not the last one are not rounded.
        let to = if rest.iter().any(is_reduced) {
            wide(dtype)
        } else {
            dtype
        };
        let mut shorter = Array::reused(&AbstractArray::new(to, [outer * inner]));
        let (pass, longer) = (
            Pass::new(length, inner),
            reduced.as_ref().unwrap_or(operand),
        );
        if to != DType::Bool && (longer.dtype() != wide(to) || to != wide(to)) {
            reduce_widened(pass, longer, &mut shorter, reduce);
        } else {
            reduce(pass, longer, &mut shorter);
        }
        reduced = Some(shorter);
    }
    let mut result = reduced.unwrap_or_else(|| match dtype {
        DType::Bool => {
            let mut truth = Array::reused(&AbstractArray::new(dtype, [operand.info.len()]));
            reduce(Pass::new(1, 1), operand, &mut truth);
            truth
        }
        _ => elements(operand, 0..operand.info.len(), dtype),
    });
    result.info.shape = without_axes(shape, axes);
    result
}

/// Writes a pass over an array to a result of another dtype, or of a narrow one. Converts some elements at a time.
fn reduce_widened(pass: Pass, operand: &Array, result: &mut Array, reduce: &Reduce<'_>) {
    let Pass { length, inner, .. } = pass;
    let dtype = wide(result.dtype());
    let size = length * inner;
    if size == 0 {
        let mut start = Array::reused(&AbstractArray::new(dtype, [result.info.len()]));
        reduce(pass, &elements(operand, 0..0, dtype), &mut start);
        return write_part(&start, 0..start.info.len(), result, 0);
    }
    if size <= WIDENED {
        let (outer, blocks) = (operand.info.len() / size, WIDENED / size);
        for first in (0..outer).step_by(blocks) {
            let last = outer.min(first + blocks);
            let part = elements(operand, first * size..last * size, dtype);
            reduce_to(pass, &part, result, first * inner, reduce);
        }
        return;
    }
    for block in 0..operand.info.len() / size {
        if inner == 1 {
            let row = block * size..(block + 1) * size;
            let parts = reduced_parts(operand, dtype, row, reduce);
            reduce_to(
                Pass::new(parts.info.len(), 1),
                &parts,
                result,
                block,
                reduce,
            );
            continue;
        }
        // The last columns may be reduced again. A single column would be a row, which has another order.
        let width = COLUMNS.min(inner);
        for column in (0..inner).step_by(width) {
            let column = column.min(inner - width);
            let first = block * size + column;
            let rows = reduced_blocks(operand, dtype, first, pass, width, reduce);
            let pass = Pass::new(rows.info.len() / width, width);
            reduce_to(pass, &rows, result, block * inner + column, reduce);
        }
    }
}

/// Returns a row of elements, converted to a dtype.
fn elements(operand: &Array, range: Range<usize>, dtype: DType) -> Array {
    if dtype != operand.dtype() {
        return widened_part(operand, range);
    }
    let mut part = Array::reused(&AbstractArray::new(dtype, [range.len()]));
    write_part(operand, range, &mut part, 0);
    part
}

/// Writes a pass over an array to a result, from the position `at` on.
fn reduce_to(pass: Pass, part: &Array, result: &mut Array, at: usize, reduce: &Reduce<'_>) {
    let length = part.info.len() / pass.length;
    let mut reduced = Array::reused(&AbstractArray::new(part.dtype(), [length]));
    reduce(pass, part, &mut reduced);
    write_part(&reduced, 0..length, result, at);
}

/// Reduces each part of a row; see [`fold::row`].
fn reduced_parts(operand: &Array, dtype: DType, row: Range<usize>, reduce: &Reduce<'_>) -> Array {
    let count = row.len().div_ceil(PART);
    let mut results = Array::reused(&AbstractArray::new(dtype, [count]));
    let whole = row.len() / PART * PART;
    let starts = (0..whole).step_by(WIDENED);
    let several = starts.map(|start| (start..whole.min(start + WIDENED), PART));
    let last = (whole < row.len()).then(|| (whole..row.len(), row.len() - whole));
    for (range, length) in several.chain(last) {
        let at = range.start / PART;
        let range = row.start + range.start..row.start + range.end;
        let part = elements(operand, range, dtype);
        reduce_to(Pass::new(length, 1), &part, &mut results, at, reduce);
    }
    results
}

/// Reduces each block of rows, of which it reads `width` columns from the element `first` on; see [`fold::columns`].
fn reduced_blocks(
    operand: &Array,
    dtype: DType,
    first: usize,
    Pass { length, inner, .. }: Pass,
    width: usize,
    reduce: &Reduce<'_>,
) -> Array {
    let most = fold::block_rows(length);
    let info = AbstractArray::new(dtype, [length.div_ceil(most) * width]);
    let mut results = Array::reused(&info);
    for row in (0..length).step_by(most) {
        let count = most.min(length - row);
        let strides = [inner.cast_signed(), 1];
        let rows = strided::gather(operand, &[count, width], &strides, first + row * inner);
        let pass = Pass {
            is_block: true,
            ..Pass::new(count, width)
        };
        let part = elements(&rows, 0..count * width, dtype);
        reduce_to(pass, &part, &mut results, row / most * width, reduce);
    }
    results
}

/// Reduces the second of three axes. Threads share the elements of the first axis, or the parts or blocks of its few elements.
fn run<T: ArrayElement, C: Combine<T>>(pass: Pass, elements: &[T], result: &mut [T]) {
    let part = move |elements: &[T], result: &mut [T]| {
        if elements.is_empty() {
            result.fill(C::START);
        } else if pass.inner == 1 {
            fold::rows::<T, C>(result, elements, pass.length);
        } else {
            let Pass {
                length,
                inner,
                is_block,
            } = pass;
            fold::columns::<T, C>(result, elements, (length, inner), is_block);
        }
    };
    let nanoseconds = elements.len() / PER_NANOSECOND;
    if !threads::are_worth(nanoseconds) {
        return part(elements, result);
    }
    let Pass {
        length,
        inner,
        is_block,
    } = pass;
    let size = length * inner;
    let outer = result.len() / inner;
    let most = if inner == 1 {
        PART
    } else {
        fold::block_rows(length)
    };
    if outer < threads::count() && length > most && !is_block {
        let (whole, last) = (length / most, length % most);
        let mut parts = reused(length.div_ceil(most) * inner);
        for (result, elements) in result
            .chunks_exact_mut(inner)
            .zip(elements.chunks_exact(size))
        {
            let (elements, of_last) = elements.split_at(whole * most * inner);
            let (results, result_of_last) = parts.split_at_mut(whole * inner);
            let block = |length| Pass {
                is_block: true,
                ..Pass::new(length, inner)
            };
            run::<T, C>(block(most), elements, results);
            if last > 0 {
                run::<T, C>(block(last), of_last, result_of_last);
            }
            run::<T, C>(Pass::new(parts.len() / inner, inner), &parts, result);
        }
        return give_back(parts);
    }
    let count = outer.div_ceil(threads::count());
    share_rows(nanoseconds, result, inner, count, &|first, result| {
        let end = (first + result.len() / inner) * size;
        part(&elements[first * size..end], result);
    });
}

/// Returns the sums over some axes of an operand that is converted to a dtype. Narrow dtypes are accepted here and in [`reduce`].
pub fn sum(operand: &Array, dtype: DType, axes: &[usize]) -> Array {
    with_number!(wide(dtype), T => combined::<T, Sum>(operand, dtype, axes))
}

/// Reduces the numbers of an array.
fn combined<T: Number, C: Combine<T>>(operand: &Array, dtype: DType, axes: &[usize]) -> Array {
    folded(operand, dtype, axes, &|pass, operand, result| {
        run::<T, C>(pass, T::of(operand), T::of_mut(result));
    })
}

/// Reduces an array to its greatest or least elements. Those of bools are their disjunction and conjunction.
fn extrema(extremum: Extremum, operand: &Array, dtype: DType, axes: &[usize]) -> Array {
    with_wide!(wide(dtype), T => match extremum {
        Extremum::Max => folded(operand, dtype, axes, &|pass, operand, result| {
            run::<T, Max>(pass, operand.elements(), result.elements_mut());
        }),
        Extremum::Min => folded(operand, dtype, axes, &|pass, operand, result| {
            run::<T, Min>(pass, operand.elements(), result.elements_mut());
        }),
    })
}

/// Returns a reduction over some axes of an operand that is converted to a dtype.
pub fn reduce(reduction: Reduction, operand: &Array, dtype: DType, axes: &[usize]) -> Array {
    let extrema = |extremum| extrema(extremum, operand, dtype, axes);
    match (reduction, wide(dtype)) {
        (Reduction::And | Reduction::Or, DType::Bool) => {
            let is_all = reduction == Reduction::And;
            folded(operand, dtype, axes, &|pass, operand, result| {
                truths(is_all, pass, operand, result.elements_mut());
            })
        }
        (Reduction::Max, _) => extrema(Extremum::Max),
        (Reduction::Min, _) => extrema(Extremum::Min),
        (Reduction::Prod, wide) => with_number!(wide, T => {
            combined::<T, Prod>(operand, dtype, axes)
        }),
        (Reduction::And, DType::I64) => combined::<i64, And>(operand, dtype, axes),
        (Reduction::And, _) => combined::<i32, And>(operand, dtype, axes),
        (Reduction::Or, DType::I64) => combined::<i64, Or>(operand, dtype, axes),
        (Reduction::Or, _) => combined::<i32, Or>(operand, dtype, axes),
    }
}

/// Returns the positions of the first extrema along an axis, as i32. Narrow dtypes are accepted.
pub fn argument(extremum: Extremum, operand: &Array, axis: usize) -> Array {
    let shape = operand.shape();
    let (length, inner) = (shape[axis], shape[axis + 1..].iter().product());
    let result = AbstractArray::new(DType::I32, without_axes(shape, &[axis]));
    let mut result = Array::reused(&result);
    if is_narrow(operand.dtype()) {
        let extrema = extrema(extremum, operand, operand.dtype(), &[axis]);
        with_type!(operand.dtype(), T => {
            let (elements, extrema) = (operand.elements::<T>(), extrema.elements());
            first_positions(Pass::new(length, inner), elements, extrema, result.elements_mut());
        });
        return result;
    }
    let pass = Pass::new(length, inner);
    with_wide!(operand.dtype(), T => {
        let (elements, positions) = (operand.elements::<T>(), result.elements_mut());
        match extremum {
            Extremum::Max => arguments::<T, Max>(pass, elements, positions, T::gt),
            Extremum::Min => arguments::<T, Min>(pass, elements, positions, T::lt),
        }
    });
    result
}

/// Writes the first position of each extremum, or of NaN, in its row or column. Elements of a narrow dtype need not be widened for
/// that.
fn first_positions<T: Copy + PartialEq>(
    Pass { length, inner, .. }: Pass,
    elements: &[T],
    extrema: &[T],
    positions: &mut [i32],
) {
    #[allow(clippy::eq_op, reason = "only NaN differs from itself")]
    let is_first = |element: T, extremum: T| element == extremum || element != element;
    let (size, inner) = ((length * inner).max(1), inner.max(1));
    let extrema = extrema.chunks_exact(inner);
    let blocks = elements.chunks_exact(size).zip(extrema);
    for (positions, (block, extrema)) in positions.chunks_exact_mut(inner).zip(blocks) {
        if let ([position], [extremum]) = (&mut *positions, extrema) {
            let mut row = block.iter().zip(0..);
            let found = row.find(|(element, _)| is_first(**element, *extremum));
            *position = expect_some(found, "the extremum to be an element of its row").1;
            continue;
        }
        positions.fill(-1);
        for (row, at) in block.chunks_exact(inner).zip(0..) {
            for ((position, &extremum), &element) in positions.iter_mut().zip(extrema).zip(row) {
                if *position < 0 && is_first(element, extremum) {
                    *position = at;
                }
            }
        }
    }
}

/// Writes the positions of the first extrema, which `C` returns.
fn arguments<T: Ordered, C: Combine<T>>(
    Pass { length, inner, .. }: Pass,
    elements: &[T],
    positions: &mut [i32],
    better: impl Fn(&T, &T) -> bool + Sync,
) {
    let (size, inner) = ((length * inner).max(1), inner.max(1));
    let count = (positions.len() / inner).div_ceil(threads::count()).max(1);
    let nanoseconds = elements.len() / PER_NANOSECOND;
    share_rows(nanoseconds, positions, inner, count, &|first, positions| {
        let mut blocks = elements[first * size..].chunks_exact(size);
        // These are loops because each closure of an iterator would be compiled again.
        for positions in positions.chunks_exact_mut(inner) {
            let Some(block) = blocks.next() else { return };
            match positions {
                [position] => *position = argument_of_row::<T, C>(block),
                _ => arguments_of_columns(block, positions, &better),
            }
        }
    });
}

/// Returns the position of the first extremum of a row. Computes the extremum first and then searches for it, which is
/// faster than one loop that does both.
fn argument_of_row<T: Ordered, C: Combine<T>>(row: &[T]) -> i32 {
    let mut extremum = C::START;
    let result = std::slice::from_mut(&mut extremum);
    run::<T, C>(Pass::new(row.len(), 1), row, result);
    let found = row
        .iter()
        .position(|&element| element == extremum || element.is_nan());
    let position = expect_some(found, "the extremum to be an element of its row");
    expect_some(i32::try_from(position).ok(), "a position that i32 holds")
}

/// Finds the position of the first extremum of each column of `rows`.
fn arguments_of_columns<T: Ordered>(
    rows: &[T],
    positions: &mut [i32],
    better: &impl Fn(&T, &T) -> bool,
) {
    positions.fill(0);
    let (first, rest) = rows.split_at(positions.len());
    let mut champions = reserved(first.len());
    champions.extend_from_slice(first);
    for (row, position) in rest.chunks_exact(positions.len()).zip(1..) {
        for ((champion, best), &element) in champions.iter_mut().zip(&mut *positions).zip(row) {
            if better(&element, champion) || (element.is_nan() && !champion.is_nan()) {
                (*champion, *best) = (element, position);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::base::bits::with_bits;
    use crate::base::narrow::{narrowed, widened};
    use crate::loops::elementwise::converted;

    #[test]
    fn arguments_of_narrow_elements_are_those_of_wide_ones() {
        let dtypes = [
            DType::BF16,
            DType::F16,
            DType::I8,
            DType::I16,
            DType::U8,
            DType::U16,
        ];
        for dtype in dtypes {
            for shape in [
                &[7][..],
                &[70_001],
                &[3, 5, 4],
                &[20_000, 2],
                &[2, 20_000],
                &[4, 1],
            ] {
                let mut array = noise(dtype, shape);
                if dtype.is_float() && array.info.len() > 20 {
                    array.bits_mut::<u16>()[17] = 0x7fff;
                    array.bits_mut::<u16>()[19] = 0xffff;
                }
                for (axis, extremum) in (0..shape.len()).flat_map(|axis| {
                    [Extremum::Max, Extremum::Min].map(|extremum| (axis, extremum))
                }) {
                    assert_eq!(
                        argument(extremum, &array, axis),
                        argument(extremum, &widened(&array), axis),
                        "{dtype} {shape:?} {axis}"
                    );
                }
            }
        }
    }

    /// Numbers whose rounded sum depends on the order of the additions.
    fn noise(dtype: DType, shape: &[usize]) -> Array {
        let count = shape.iter().product();
        let number = |n: usize| ((n * 7919 + n / 13) % 1009) as f32 * 0.037 - 18.0;
        let numbers = Array::new([count], (0..count).map(number).collect());
        let wide = match dtype {
            DType::F16 | DType::BF16 => numbers,
            _ => {
                let bits = |&number: &f32| number.to_bits() >> 3;
                let bits = numbers.elements().iter().map(bits).collect();
                Array::from_bits(wide(dtype), [count], bits)
            }
        };
        let mut array = narrowed(&wide, dtype);
        array.info.shape = shape.into();
        array
    }

    /// Threads share the elements before the reduced axis.
    #[test]
    fn long_operands_have_the_bits_of_their_parts() {
        for shape in [[101, 1009, 1], [5, 301, 70]] {
            let [_, length, inner] = shape;
            let size = length * inner;
            let numbers = noise(DType::F32, &shape).elements::<f32>().to_vec();
            let reduced = |shape: [usize; 3], numbers: &[f32]| {
                let operand = Array::new(shape, numbers.to_vec());
                let sums = sum(&operand, DType::F32, &[1]);
                let maxima = reduce(Reduction::Max, &operand, DType::F32, &[1]);
                let places = argument(Extremum::Max, &operand, 1);
                (
                    [sums, maxima].map(|array| array.elements::<f32>().to_vec()),
                    places.elements::<i32>().to_vec(),
                )
            };
            let found = reduced(shape, &numbers);
            let parts = numbers
                .chunks(size)
                .map(|part| reduced([1, length, inner], part));
            let expected = parts.reduce(
                |([mut sums, mut maxima], mut places), ([sum, maximum], place)| {
                    sums.extend(sum);
                    maxima.extend(maximum);
                    places.extend(place);
                    ([sums, maxima], places)
                },
            );
            assert_eq!(Some(found), expected);
        }
    }

    /// Threads share the parts of a row and the blocks of columns.
    #[test]
    fn few_long_results_have_one_order() {
        for (length, inner) in [(200_001, 1), (204_800, 1), (3001, 70), (3072, 70)] {
            let operand = noise(DType::F32, &[length, inner]);
            let numbers = operand.elements::<f32>();
            let mut expected = vec![fold::row::<f32, Sum>(numbers); inner];
            if inner > 1 {
                fold::columns::<f32, Sum>(&mut expected, numbers, (length, inner), false);
            }
            let found = sum(&operand, DType::F32, &[0]);
            assert_eq!(found.elements::<f32>(), expected, "{length} {inner}");
        }
    }

    /// The only element that decides is at different places of the rows and columns.
    #[test]
    fn truth_is_that_of_each_element() {
        const DTYPES: [DType; 6] = [
            DType::Bool,
            DType::I8,
            DType::BF16,
            DType::U16,
            DType::F32,
            DType::I64,
        ];
        let shapes: [(&[usize], &[usize]); 9] = [
            (&[300_000], &[0]),
            (&[3, 5], &[1]),
            (&[700, 900], &[1]),
            (&[900, 700], &[0]),
            (&[2, 900, 513], &[1]),
            (&[40, 3, 700], &[0, 2]),
            (&[0, 3], &[0]),
            (&[3, 0], &[0]),
            (&[2, 3], &[]),
        ];
        for (shape, axes) in shapes {
            for dtype in DTYPES {
                let count: usize = shape.iter().product();
                let bits = |n: usize| f32::from(u8::from(n.wrapping_mul(7919) % 1009 < 3));
                let mut rare: Vec<f32> = (0..count).map(bits).collect();
                rare.iter_mut().skip(count / 2).for_each(|x| *x = 0.0);
                let signed = |x: f32| if x == 0.0 { -0.0 } else { f32::NAN };
                let others: Vec<f32> = rare.iter().map(|&x| 1.0 - x).collect();
                for (reduction, numbers) in [(Reduction::Or, rare), (Reduction::And, others)] {
                    let numbers = if dtype.is_float() {
                        numbers.into_iter().map(signed).collect()
                    } else {
                        numbers
                    };
                    let is_true: Vec<bool> = numbers.iter().map(|&x| x != 0.0).collect();
                    let operand = converted(Arc::new(Array::new(shape, numbers)), dtype);
                    let found = reduce(reduction, &operand, DType::Bool, axes);
                    let truth = Array::new(
                        shape,
                        is_true.iter().map(|&x| f32::from(u8::from(x))).collect(),
                    );
                    let extremum = if reduction == Reduction::Or {
                        Reduction::Max
                    } else {
                        Reduction::Min
                    };
                    let expected = reduce(extremum, &truth, DType::F32, axes);
                    let expected = expected.elements::<f32>().iter().map(|&x| x > 0.0);
                    let found = found.elements::<bool>().iter().copied();
                    assert!(
                        found.eq(expected),
                        "{reduction:?} {dtype} {shape:?} {axes:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn narrow_operands_have_the_bits_of_wide_ones() {
        let shapes: [(&[usize], &[usize]); 12] = [
            (&[70_000], &[0]),
            (&[3, 5], &[1]),
            (&[2, 20_000], &[1]),
            (&[20_000, 3], &[0]),
            (&[600, 700], &[0]),
            (&[2, 40, 513], &[1]),
            (&[40, 3, 700], &[0, 2]),
            (&[3, 40_000], &[0]),
            (&[2, 1, 30_000], &[0, 1]),
            (&[0, 3], &[0]),
            (&[3, 0], &[0]),
            (&[2, 3], &[]),
        ];
        for (shape, axes) in shapes {
            for dtype in [DType::F16, DType::BF16, DType::U8, DType::I8, DType::I16] {
                let narrow = noise(dtype, shape);
                let wide = widened(&narrow);
                let to = wide.dtype();
                let sums = |dtype| [sum(&narrow, dtype, axes), sum(&wide, to, axes)];
                let mut pairs = vec![sums(dtype), sums(to)];
                let reductions = [Reduction::Max, Reduction::Min, Reduction::Prod];
                pairs.extend(reductions.map(|reduction| {
                    [
                        reduce(reduction, &narrow, dtype, axes),
                        reduce(reduction, &wide, to, axes),
                    ]
                }));
                for [found, expected] in pairs {
                    let expected = if found.dtype() == expected.dtype() {
                        expected
                    } else {
                        narrowed(&expected, dtype)
                    };
                    assert_eq!(found.info, expected.info);
                    let equal =
                        with_bits!(found.dtype(), T => found.bits::<T>() == expected.bits::<T>());
                    assert!(equal, "{dtype} {shape:?} {axes:?}");
                }
            }
        }
    }
}
