//! Tests of the programs of small functions and loops.

use super::*;
use crate::ix;
use crate::primitives::random::threefry2x32;

/// The number of runs. Integers of 8 bits overflow in fewer.
const RUNS: usize = 6;

/// Checks that a small program whose results are its next inputs returns the same bits as the operations run one by one.
fn check_loop(start: &[Tensor], body: Function) {
    let infos: Vec<AbstractArray> = start.iter().map(|tensor| tensor.info().clone()).collect();
    let (jaxpr, ..) = stage(Recorder::Jit, &infos, |inputs| (body(&inputs), ()));
    let executable = Executable::optimized(&jaxpr);
    let mut expected = start.to_vec();
    for _ in 0..RUNS {
        let operands = expected.iter().map(|it| Arc::clone(it.array().unwrap()));
        let found = executable.run_small(operands.collect());
        expected = body(&expected);
        check_results(&found.unwrap(), &expected, &jaxpr);
    }
}

#[test]
fn arithmetic_matches_whole_arrays() {
    for dtype in [
        DType::I8,
        DType::I16,
        DType::I32,
        DType::I64,
        DType::U8,
        DType::U16,
        DType::U32,
        DType::F32,
        DType::F64,
        DType::BF16,
        DType::F16,
    ] {
        for shape in [&[][..], &[1], &[3], &[16], &[2, 64]] {
            let start = [0, 1].map(|seed| (input(shape, seed) * 8.0 + 40.0).convert(dtype));
            check_loop(&start, |x| {
                let sum = &x[0] + &x[1] * 3;
                let less = sum.less(&x[0]);
                let product = less.select(&x[0] * &sum, &sum - &x[1]);
                vec![&x[1] - &product, product / (&x[1] + 1).maximum(1)]
            });
        }
    }
}

#[test]
fn conversions_and_functions_match_whole_arrays() {
    let start = [
        input(&[5], 1).convert(DType::U8),
        input(&[5], 2),
        input(&[5], 3).convert(DType::F64),
        input(&[5], 4).greater(0.0),
    ];
    check_loop(&start, |x| {
        let wide = (&x[1] * 300.0).tanh() + x[2].sin().convert(DType::F32);
        let narrow = (&wide * 1e3).convert(DType::U8) + x[3].convert(DType::U8);
        let double = (&x[2] / 3.0).exp() - x[0].convert(DType::F64);
        let is_odd = x[0].rem(2).not_equal(0);
        vec![narrow, wide, double, is_odd.bit_xor(&x[3])]
    });
}

#[test]
fn moved_elements_match_whole_arrays() {
    // The first two values are exchanged, and the last one does not change.
    check_loop(
        &[input(&[2, 3], 1), input(&[2, 3], 2), input(&[], 3)],
        |x| {
            let row = Tensor::stack(&[x[2].clone(), &x[2] * 2.0, &x[2] - 1.0], 0);
            let turned = (&x[0] + row).t().reshape([2, 3]);
            vec![x[1].clone(), turned, x[2].stop_gradient()]
        },
    );
}

#[test]
fn random_bits_match_whole_arrays() {
    let words = |seed| (input(&[4], seed) * 1e8).convert(DType::U32);
    check_loop(&[words(1), words(2)], |x| {
        let counters = [&x[0] + 7, &x[1] * 5];
        let (first, second) = threefry2x32(&x[0], &x[1], &counters[0], &counters[1]).unwrap();
        vec![second, first]
    });
}

#[test]
fn reductions_and_products_match_whole_arrays() {
    for dtype in [DType::F32, DType::F64, DType::BF16, DType::I32] {
        for [rows, columns] in [[1, 1], [3, 5], [16, 16], [8, 40]] {
            let start = [0, 1].map(|seed| input(&[rows, columns], seed).convert(dtype));
            check_loop(&start, |x| {
                let product = x[0].matmul(&x[1].t()).matmul(&x[0]);
                let sums = &x[1] - x[0].sum_keep([-1]) + x[1].sum_axes([0]);
                vec![
                    product.minimum(3).maximum(x[1].max_keep([0])),
                    sums.minimum(x[0].max()).maximum(x[1].min()),
                ]
            });
        }
    }
}

#[test]
fn large_work_has_no_small_program() {
    let is_small = |shape: &[usize], function| {
        let jaxpr = recorded_in(DType::F32, &[shape], function);
        let input = Arc::clone(input(shape, 1).array().unwrap());
        Executable::new(&jaxpr).run_small(vec![input]).is_ok()
    };
    assert!(is_small(&[4096], |x| vec![&x[0] + 1.0]));
    assert!(!is_small(&[4097], |x| vec![&x[0] + 1.0]));
    assert!(is_small(&[64, 64], |x| vec![x[0].matmul(&x[0])]));
    assert!(is_small(&[100_000], |x| vec![x[0].index(ix![7])]));
}
