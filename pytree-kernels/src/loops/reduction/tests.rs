//! Tests the bits of reductions of long, narrow and converted operands.

use std::sync::Arc;

use super::{Extremum, Reduction, argument, reduce, sum};
use crate::base::array::Array;
use crate::base::bits::with_bits;
use crate::base::combine::Sum;
use crate::base::dtype::DType;
use crate::base::fold;
use crate::base::narrow::{narrowed, wide, widened};
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
            for (axis, extremum) in (0..shape.len())
                .flat_map(|axis| [Extremum::Max, Extremum::Min].map(|extremum| (axis, extremum)))
            {
                assert_eq!(
                    argument(extremum, &array, axis),
                    argument(extremum, &widened(&array), axis),
                    "{dtype} {shape:?} {axis}"
                );
            }
        }
    }
}

/// Columns and rows are searched by different loops. Extrema stand at several places, and some are NaN.
#[test]
fn arguments_of_columns_are_those_of_rows() {
    let number = |row: usize, column: usize| match (row * 31 + column * 7) % 11 {
        10 => f64::NAN,
        9 => -0.0,
        rest => (rest % 4) as f64,
    };
    for width in [1, 2, 63, 64, 65, 130] {
        for length in [1, 2, 30] {
            let by = |outer: usize, inner: usize, number: &dyn Fn(usize, usize) -> f64| {
                let numbers = (0..outer * inner).map(|at| number(at / inner, at % inner));
                Array::new([outer, inner], numbers.collect())
            };
            let columns = by(length, width, &number);
            let rows = by(width, length, &|row, column| number(column, row));
            for extremum in [Extremum::Max, Extremum::Min] {
                let [of_columns, of_rows] = [(&columns, 0), (&rows, 1)]
                    .map(|(array, axis)| argument(extremum, array, axis));
                assert_eq!(of_columns, of_rows, "{width} {length}");
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
