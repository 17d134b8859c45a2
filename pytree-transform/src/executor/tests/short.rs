//! Tests of the programs that loops with short bodies run.

use std::sync::Arc;

use pytree_kernels::base::array::Array;

use super::*;
use crate::primitives::random::threefry2x32;

/// The number of iterations. Integers of 8 bits overflow in fewer.
const ITERATIONS: usize = 6;

/// Checks that a loop with this body returns the same bits as the operations run one by one.
fn check_loop(start: &[Tensor], body: Function) {
    let infos: Vec<AbstractArray> = start.iter().map(|tensor| tensor.info().clone()).collect();
    let (jaxpr, ..) = stage(Recorder::Jit, &infos, |inputs| (body(&inputs), ()));
    let executable = Executable::optimized(&jaxpr);
    let mut running = executable.short.as_ref().unwrap().start();
    for (input, tensor) in start.iter().enumerate() {
        running.load(input, tensor.array().unwrap(), 0);
    }
    let mut expected = start.to_vec();
    for _ in 0..ITERATIONS {
        running.run();
        (0..start.len()).for_each(|position| running.feed(position, position));
        expected = body(&expected);
    }
    for (position, expected) in expected.iter().enumerate() {
        let mut array = Array::zeros(expected.info());
        running.store_input(position, &mut array);
        let found = Tensor::from_shared(Arc::new(array));
        assert_eq!(bits(&found), bits(expected), "value {position} of {jaxpr}");
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
fn other_programs_are_not_short() {
    let is_short = |dtype, shape: &[usize], function| {
        let jaxpr = recorded_in(dtype, &[shape], function);
        Executable::new(&jaxpr).short.is_some()
    };
    assert!(is_short(DType::F32, &[128], |x| vec![&x[0] + 1.0]));
    assert!(!is_short(DType::F32, &[129], |x| vec![&x[0] + 1.0]));
    assert!(!is_short(DType::BF16, &[16], |x| vec![&x[0] + 1.0]));
    assert!(!is_short(DType::F32, &[4, 4], |x| vec![x[0].matmul(&x[0])]));
}
