//! Tests of matrix products.

use std::sync::Mutex;

use super::*;
use crate::base::target::Rows;

/// Returns the loops of a batch of matrix products with operands in row-major order.
fn loops(batch: usize, rows: usize, columns: usize, depth: usize) -> Loops {
    let axis = |length, left, right, result| LoopAxis {
        length,
        left,
        right,
        result,
    };
    Loops::new(
        std::iter::once(axis(batch, rows * depth, depth * columns, rows * columns)),
        std::iter::once(axis(rows, depth, 0, columns)),
        std::iter::once(axis(columns, 0, 1, 1)),
        std::iter::once(axis(depth, 1, columns, 0)),
    )
}

/// Multiplies two operands, and returns the result, whose memory is `target`.
fn multiplied<T: Factor>(
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
