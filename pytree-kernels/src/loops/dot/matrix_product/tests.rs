//! Tests of matrix products.

use std::sync::Mutex;

use ::half::{bf16, f16};

use super::plain::plain_product;
use super::portable::portable_product;
use super::*;
use crate::base::dtype::ArrayElement;
use crate::base::target::Rows;

/// Returns the loops of a batch of matrix products with operands in row-major order.
fn loops(batch: usize, rows: usize, columns: usize, depth: usize) -> Loops {
    let axis = |length, left, right, result| LoopAxis::new(length, [left, right, result]);
    Loops::new(
        std::iter::once(axis(batch, rows * depth, depth * columns, rows * columns)),
        std::iter::once(axis(rows, depth, 0, columns)),
        std::iter::once(axis(columns, 0, 1, 1)),
        std::iter::once(axis(depth, 1, columns, 0)),
    )
}

/// The layouts of both operands: whether each is transposed in memory, and the distance between its elements.
const LAYOUTS: [([bool; 2], usize); 5] = [
    ([false, false], 1),
    ([false, true], 1),
    ([true, false], 1),
    ([true, true], 1),
    ([false, true], 2),
];

/// Returns the loops of a matrix product whose operands have a layout.
fn laid_out([rows, columns, depth]: [usize; 3], ([left, right], gap): ([bool; 2], usize)) -> Loops {
    let mut loops = loops(1, rows, columns, depth);
    if left {
        (loops.rows.left, loops.depth.left) = (1, rows);
    }
    if right {
        (loops.columns.right, loops.depth.right) = (depth, 1);
    }
    for axis in [&mut loops.rows, &mut loops.columns, &mut loops.depth] {
        (axis.left, axis.right) = (axis.left * gap, axis.right * gap);
    }
    loops
}

/// Checks the products of a type in all layouts with a slow reference in f64, and that layouts and threads do not change their bits.
/// `exact` and `rounded` convert an element to f64 and back.
fn check_products<T: Stored>(
    sizes: [usize; 3],
    epsilon: f64,
    exact: impl Fn(T) -> f64,
    rounded: impl Fn(f64) -> T,
) {
    let [rows, columns, depth] = sizes;
    let number = |seed: usize, line: usize, step: usize| {
        rounded(((line * 7919 + step * 104_729 + seed) % 1009) as f64 / 504.0 - 1.0)
    };
    let mut first: Option<Vec<T>> = None;
    for layout in LAYOUTS {
        let loops = laid_out(sizes, layout);
        let filled = |seed, lines, (line_stride, step_stride)| {
            let last = (lines - 1) * line_stride + (depth - 1) * step_stride;
            let mut elements = vec![rounded(f64::NAN); last + 1];
            for line in 0..lines {
                for step in 0..depth {
                    elements[line * line_stride + step * step_stride] = number(seed, line, step);
                }
            }
            elements
        };
        let left = filled(1, rows, (loops.rows.left, loops.depth.left));
        let right = filled(2, columns, (loops.columns.right, loops.depth.right));
        for threads in [1, 2, 3, 4] {
            let target = vec![rounded(f64::NAN); rows * columns];
            let found = multiplied(&loops, &left, &right, target, threads);
            let is_ordered = T::IS_HALF || loops.kernel() == Kernel::Thin;
            if threads > 1 || is_ordered && first.is_some() {
                assert_eq!(
                    Some(&found),
                    first.as_ref(),
                    "{sizes:?} {layout:?} {threads}"
                );
            } else {
                for position in (0..found.len()).step_by(1 + found.len() / 300) {
                    let element = found[position];
                    let terms = (0..depth).map(|step| {
                        let left = exact(number(1, position / columns, step));
                        left * exact(number(2, position % columns, step))
                    });
                    let (sum, weight) = terms.fold((0.0, 0.0), |(sum, weight), term: f64| {
                        (sum + term, weight + term.abs())
                    });
                    let error = (exact(element) - sum).abs();
                    let in_sums = depth as f64 * f64::from(f32::EPSILON) * weight;
                    assert!(
                        error <= in_sums + epsilon * sum.abs(),
                        "{sizes:?} {layout:?}: {element:?} instead of {sum}"
                    );
                }
                first = Some(found);
            }
        }
    }
}

#[test]
fn products_have_equal_bits_with_all_threads_and_layouts() {
    for sizes in [
        [1, 1, 1],
        [1, 1, 100_003],
        [1, 5003, 17],
        [1, 1030, 300],
        [2003, 1, 129],
        [2, 1501, 100],
        [8, 300, 260],
        [300, 7, 131],
        [9, 70, 513],
        [70, 131, 1100],
        [300, 601, 65],
        [40, 600, 530],
        [33, 70, 2],
        [520, 1030, 16],
        [1030, 520, 16],
    ] {
        check_products::<f32>(sizes, 0.0, f64::from, f32::from_number);
        check_products::<bf16>(sizes, 0.5_f64.powi(8), f64::from, bf16::from_f64);
        check_products::<f16>(sizes, 0.5_f64.powi(11), f64::from, f16::from_f64);
        check_products::<f64>(sizes, 0.0, |x| x, |x| x);
    }
}

#[test]
fn portable_products_have_the_bits_of_plain_loops() {
    for sizes in [
        [4, 8, 1],
        [1, 40, 700],
        [5, 9, 3],
        [64, 10, 129],
        [67, 33, 18],
        [130, 1, 1100],
    ] {
        let [rows, columns, depth] = sizes;
        for layout in LAYOUTS {
            let loops = laid_out(sizes, layout);
            let numbers = |length: usize, gap: usize| -> Vec<f32> {
                let number = |position| ((position * 7919 + gap) % 1009) as f32 / 504.0 - 1.0;
                (0..length * gap).map(number).collect()
            };
            let gap = layout.1;
            let (left, right) = (numbers(rows * depth, gap), numbers(columns * depth, gap));
            for write in [Write::Overwrite, Write::Add] {
                let [mut plain, mut portable] = [(); 2].map(|()| numbers(rows * columns, 1));
                plain_product(&loops, &left, &right, Target::new(&mut plain), write);
                portable_product(&loops, &left, &right, Target::new(&mut portable), write);
                assert_eq!(portable, plain, "{sizes:?} {layout:?} {write:?}");
            }
        }
    }
}

#[test]
fn row_of_thin_product_has_bits_of_row_alone() {
    let (rows, columns, depth) = (5, 203, 150);
    let numbers = |count: usize| (0..count).map(|n| (n % 1013) as f32 / 3.0).collect();
    let (left, right): (Vec<f32>, Vec<f32>) = (numbers(rows * depth), numbers(depth * columns));
    let product = |rows: usize, left: &[f32]| {
        let loops = loops(1, rows, columns, depth);
        assert_eq!(loops.kernel(), Kernel::Thin);
        multiplied(&loops, left, &right, vec![f32::NAN; rows * columns], 1)
    };
    let alone: Vec<f32> = left.chunks(depth).flat_map(|row| product(1, row)).collect();
    assert_eq!(product(rows, &left), alone);
}

/// Multiplies two operands, and returns the result, whose memory is `target`.
fn multiplied<T: Stored>(
    loops: &Loops,
    left: &[T],
    right: &[T],
    mut target: Vec<T>,
    threads: usize,
) -> Vec<T> {
    multiply(loops, left, right, &mut target, threads);
    target
}

#[test]
fn right_operand_can_be_transposed() {
    for (rows, columns, depth) in [(20, 300, 200), (200, 100, 90), (17, 64, 64), (3, 100, 100)] {
        let numbers = |count: usize| (0..count).map(|n| (n % 13) as f32 - 6.0).collect();
        let (left, right): (Vec<f32>, Vec<f32>) = (numbers(rows * depth), numbers(columns * depth));
        let mut loops = loops(1, rows, columns, depth);
        (loops.columns.right, loops.depth.right) = (depth, 1);
        let target = multiplied(&loops, &left, &right, vec![f32::NAN; rows * columns], 2);
        for (position, &element) in target.iter().enumerate() {
            let (row, column) = (position / columns, position % columns);
            let pairs = left[row * depth..][..depth]
                .iter()
                .zip(&right[column * depth..]);
            let sum: f32 = pairs.map(|(l, r)| l * r).sum();
            assert!((element - sum).abs() < 0.5, "whole numbers");
        }
    }
}

/// Multiplies with two threads, and returns the regions with which another computation continued. Checks that each region was
/// computed before.
fn regions(
    [batch, rows, columns, depth]: [usize; 4],
    is_transposed: bool,
    following: Following,
) -> Vec<Region> {
    let mut loops = loops(batch, rows, columns, depth);
    if is_transposed {
        (loops.columns.right, loops.depth.right) = (depth, 1);
    }
    let (left, right) = (
        vec![1_f32; batch * rows * depth],
        vec![1_f32; batch * depth * columns],
    );
    let mut result = vec![f32::NAN; batch * rows * columns];
    let target = Target::new(&mut result);
    // SAFETY: a region is read on the thread that has computed it.
    let seen = unsafe { target.shared() };
    let regions = Mutex::new(Vec::new());
    let run = |region: Region| {
        for row in 0..region.rows {
            let elements = seen.slice(region.first + row * region.stride, region.columns);
            let is_computed = |element: &f32| (element - depth as f32).abs() < 0.5;
            assert!(elements.iter().all(is_computed));
        }
        regions.lock().unwrap().push(region);
    };
    let then = Then {
        run: &run,
        following,
    };
    multiply_then(&loops, &left, &right, target, 2, Some(then));
    let mut counts = vec![0; result.len()];
    let regions = regions.into_inner().unwrap();
    for region in &regions {
        for row in 0..region.rows {
            let start = region.first + row * region.stride;
            counts[start..start + region.columns]
                .iter_mut()
                .for_each(|count| *count += 1);
        }
    }
    assert!(counts.iter().all(|&count| count == 1), "each element once");
    regions
}

#[test]
fn another_computation_continues_with_each_region_once() {
    for sizes in [
        [1, 20, 900, 800],
        [1, 300, 200, 160],
        [3, 200, 150, 130],
        [1, 1, 3000, 3000],
        [40, 64, 64, 64],
        [1, 3000, 1, 3000],
        [1, 8, 8, 8],
    ] {
        let elements = sizes[0] * sizes[1] * sizes[2];
        for (grain, rows) in [
            (1, Rows::Divisible),
            (1, Rows::Whole),
            (sizes[2], Rows::Whole),
            (32 * sizes[2], Rows::Divisible),
            (1024, Rows::Whole),
            (elements, Rows::Whole),
        ] {
            let following = Following {
                grain,
                rows,
                nanoseconds: 100,
            };
            let mut found = regions(sizes, false, following);
            if sizes[0] == 1 {
                found.extend(regions(sizes, true, following));
            }
            for region in found {
                let is_whole = region.rows == 1;
                assert!(is_whole || rows == Rows::Divisible, "{region:?}");
                assert!(
                    !is_whole || region.first.is_multiple_of(grain),
                    "{region:?}"
                );
            }
        }
    }
    // Two threads take half of the columns each.
    let following = Following {
        grain: 1,
        rows: Rows::Divisible,
        nanoseconds: 100,
    };
    let halves = regions([1, 20, 900, 800], false, following);
    assert_eq!(halves.len(), 2.min(threads::count()));
}

#[test]
fn turn_transposes_matrices_of_any_shape() {
    for (rows, columns, stride) in [
        (1, 1, 1),
        (5, 3, 9),
        (16, 16, 16),
        (40, 33, 50),
        (2100, 600, 2100),
    ] {
        let source: Vec<i32> = (0..).take((columns - 1) * stride + rows).collect();
        for threads in [1, 2, 3] {
            let mut target = vec![-1; rows * columns];
            let rows = Columns {
                elements: &source,
                stride,
            };
            turn(rows, Target::new(&mut target), columns, threads, None);
            for (position, &element) in target.iter().enumerate() {
                let (row, column) = (position / columns, position % columns);
                assert_eq!(element, source[column * stride + row]);
            }
        }
    }
}

#[test]
fn parallel_and_serial_products_agree() {
    for (batch, rows, columns, depth) in [
        (1, 20, 900, 800),
        (1, 300, 200, 160),
        (3, 200, 150, 130),
        (1, 1, 3000, 3000),
        (40, 64, 64, 64),
        (1, 3000, 1, 3000),
    ] {
        let loops = loops(batch, rows, columns, depth);
        assert!(loops.work() / PER_NANOSECOND >= 100_000, "{loops:?}");
        let length = batch * rows * columns;
        let floats = |count: usize| (0..count).map(|n| (n % 17) as f32 - 8.0).collect();
        let (left, right): (Vec<f32>, Vec<f32>) = (
            floats(batch * rows * depth),
            floats(batch * depth * columns),
        );
        let product = |threads| multiplied(&loops, &left, &right, vec![f32::NAN; length], threads);
        assert_eq!(product(1), product(2));
        assert_eq!(product(1), product(5));
        let integers = |count: usize| (0..).take(count).map(|n| n % 17 - 8).collect();
        let (left, right): (Vec<i32>, Vec<i32>) = (
            integers(batch * rows * depth),
            integers(batch * depth * columns),
        );
        let product = |threads| multiplied(&loops, &left, &right, vec![i32::MIN; length], threads);
        assert_eq!(product(1), product(3));
    }
}
