//! Integers and bools in kernels: operations, conversions, comparisons, and patterns of repeated operands.

use pytree_kernels::base::dtype::DType;
use pytree_kernels::loops::elementwise::Binary;

use super::{Function, SHAPES, check_in, kernels, recorded_in};
use crate::primitives::elementwise::binary;
use crate::tensor::Tensor;

/// Returns the dtypes of integers, and bool.
fn dtypes() -> impl Iterator<Item = DType> {
    DType::ALL.iter().copied().filter(|dtype| !dtype.is_float())
}

const SHIFTS: [Binary; 3] = [
    Binary::ShiftLeft,
    Binary::ShiftRight,
    Binary::ShiftRightArithmetic,
];

fn pair(operation: Binary, left: &Tensor, right: &Tensor) -> Tensor {
    binary(operation, left, right).unwrap()
}

fn integers() -> impl Iterator<Item = DType> {
    dtypes().filter(|&dtype| dtype != DType::Bool)
}

#[test]
fn operations_on_integers_are_one_kernel() {
    // Results with more bits than the narrow dtypes have are read by steps that depend on all bits.
    let function: Function = |x| {
        let large = &x[0] * 57 + &x[1];
        let quotient = &large / &x[1];
        let remainder = &large % &(&x[1] * &x[1] + 1);
        let shifted = SHIFTS.map(|shift| pair(shift, &large, &x[1]));
        let inverted = !&large;
        vec![
            large.maximum(&inverted).minimum(100),
            pair(Binary::Xor, &quotient.square(), &remainder),
            -&large | pair(Binary::Xor, &shifted[0], &shifted[1]) & &shifted[2],
            large.abs() - large.sign(),
            large.population_count(),
            inverted.greater(&x[1]),
        ]
    };
    for dtype in integers() {
        let (kernels, alone) = kernels(&recorded_in(dtype, &[&[8, 64], &[8, 64]], function));
        assert_eq!((kernels.len(), alone), (1, 0), "{dtype}: {kernels:?}");
        for shape in SHAPES {
            check_in(dtype, &[shape, shape], function);
        }
    }
}

#[test]
fn conversions_are_steps() {
    for dtype in dtypes() {
        let function: Function = |x| {
            let float = x[0].convert(DType::F32) * 37.7 - 11.3;
            let each = dtypes().chain([DType::BF16, DType::F16]);
            let converted = each.map(|to| float.convert(to));
            let back =
                converted.map(|number| number.convert(DType::I32) + x[0].convert(DType::I32));
            let mut results: Vec<Tensor> = back.collect();
            results.push(x[0].convert(DType::BF16));
            results.push(x[0].convert(DType::U8).convert(DType::I8));
            results
        };
        let (kernels, alone) = kernels(&recorded_in(dtype, &[&[8, 64]], function));
        assert_eq!((kernels.len(), alone), (1, 0), "{dtype}: {kernels:?}");
        SHAPES
            .into_iter()
            .for_each(|shape| check_in(dtype, &[shape], function));
        // A kernel of f64.
        SHAPES.into_iter().for_each(|shape| {
            check_in(dtype, &[shape], |x| {
                let float = x[0].convert(DType::F64) * 1e12;
                vec![float.convert(DType::I64), float.convert(DType::U16), float]
            });
        });
    }
}

#[test]
fn repeated_integers_are_views() {
    // A row, a column, a number of an input, and constants at the ends of the ranges.
    let function: Function = |x| {
        let shape = x[0].shape();
        let dtype = x[0].dtype();
        let rows = &x[1];
        let columns = x[2].expand_dims(1);
        let number = &x[3];
        let most = Tensor::full(dtype, shape, 1e30);
        let least = Tensor::full(dtype, shape, -300.5);
        let sum = &x[0] + rows * number + &columns;
        vec![
            sum.equal(&x[0]),
            pair(Binary::Xor, &sum.maximum(&least), &most),
            rows.greater(number).select(&columns, &x[0]),
        ]
    };
    for dtype in integers() {
        let shapes: [&[usize]; 4] = [&[8, 64], &[64], &[8], &[]];
        let (kernels, alone) = kernels(&recorded_in(dtype, &shapes, function));
        assert_eq!(alone, 0, "{dtype}: {kernels:?}");
        for [rows, columns] in [
            [1, 1],
            [5, 64],
            [3, 700],
            [700, 3],
            [2, 4097],
            [33, 31],
            [513, 1],
        ] {
            check_in(
                dtype,
                &[&[rows, columns], &[columns], &[rows], &[]],
                function,
            );
        }
    }
}

#[test]
fn bools_are_compared_selected_and_repeated() {
    let function: Function = |x| {
        let rows = x[1].convert(DType::Bool);
        let truth = pair(Binary::Xor, &x[0], &!&rows);
        vec![
            truth.equal(&rows),
            rows.select(&truth, &x[0]),
            (&truth | &x[2].expand_dims(1)).convert(DType::I8),
        ]
    };
    for [rows, columns] in [[1, 1], [5, 64], [3, 700], [700, 3], [2, 4097]] {
        check_in(
            DType::Bool,
            &[&[rows, columns], &[columns], &[rows]],
            function,
        );
    }
}

#[test]
fn numbers_of_rows_may_be_integers_and_bools() {
    // The largest number of a row becomes an integer, with which the row continues.
    let function: Function = |x| {
        let most = x[0].max_keep([-1]);
        let level = most.convert(DType::I16) * 1000;
        let is_high = most.greater(1.0);
        let numbers = x[0].convert(DType::I16) + &level;
        vec![
            numbers,
            &is_high & &x[0].greater(0.0),
            is_high.select(&x[0], &-&x[0]),
            level,
        ]
    };
    for dtype in [DType::F32, DType::BF16] {
        let (kernels, alone) = kernels(&recorded_in(dtype, &[&[8, 64]], function));
        assert_eq!((kernels.len(), alone), (1, 0), "{dtype}: {kernels:?}");
        for shape in SHAPES.into_iter().filter(|shape| !shape.contains(&0)) {
            check_in(dtype, &[shape], function);
        }
    }
}

#[test]
fn long_integer_work_is_shared_among_threads() {
    for dtype in [DType::U8, DType::I32, DType::I64] {
        check_in(dtype, &[&[700, 1500], &[1500]], |x| {
            let sum = &x[0] * 7 + &x[1];
            let scaled = sum.convert(DType::F32) / 3.0;
            vec![
                sum.greater(4),
                scaled.sum_axes([0]),
                sum,
                scaled.convert(DType::BF16),
            ]
        });
    }
}
