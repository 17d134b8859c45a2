//! Tests that a compiled function computes the same bits as its operations run one by one.

mod arena;
mod integers;
mod products;
mod stages;
mod steps;

use std::sync::Arc;

use pytree_kernels::base::array::Array;
use pytree_kernels::base::bits::{Bits, with_bits};
use pytree_kernels::base::dtype::{AbstractArray, DType};

use super::Executable;
use super::planner::Scheduled;
use super::products::join_products;
use super::schedule::schedule;
use crate::primitives::body::program::Slots;
use crate::primitives::dot::dot_general;
use crate::tensor::Tensor;
use crate::tensor::jaxpr::Jaxpr;
use crate::tensor::stage::stage;
use crate::tensor::trace::Recorder;

type Function = fn(&[Tensor]) -> Vec<Tensor>;

fn recorded(shapes: &[&[usize]], function: Function) -> Jaxpr {
    recorded_in(DType::F32, shapes, function)
}

fn recorded_in(dtype: DType, shapes: &[&[usize]], function: Function) -> Jaxpr {
    let infos: Vec<AbstractArray> = shapes
        .iter()
        .map(|shape| AbstractArray::new(dtype, shape))
        .collect();
    stage(Recorder::Jit, &infos, |inputs| (function(&inputs), ())).0
}

/// Returns a tensor whose elements are multiples of 1/8 between -4 and 4 and differ from row to row.
fn input(shape: &[usize], seed: usize) -> Tensor {
    let count = shape.iter().product();
    let number =
        |index: usize| ((index * 7919 + seed * 104_729 + index / 37) % 65) as f32 / 8.0 - 4.0;
    Tensor::new(shape, (0..count).map(number).collect::<Vec<f32>>())
}

/// Returns the kernels of a schedule as text, and the number of equations that run outside of kernels.
fn kernels(jaxpr: &Jaxpr) -> (Vec<String>, usize) {
    let scheduled = join_products(jaxpr, schedule(jaxpr));
    let alone = scheduled
        .iter()
        .filter(|scheduled| matches!(scheduled, Scheduled::One(_)))
        .count();
    let kernels = scheduled.iter().filter_map(|scheduled| match scheduled {
        Scheduled::Kernel(fused) => Some(fused.kernel.to_string()),
        Scheduled::One(_) => None,
    });
    (kernels.collect(), alone)
}

/// Checks that a compiled function returns the same bits as its operations run one by one. Also passes inputs that have
/// no other handles.
fn check(shapes: &[&[usize]], function: Function) {
    for dtype in [DType::F32, DType::BF16, DType::F16] {
        check_in(dtype, shapes, function);
    }
}

/// Returns the bits of the elements of a tensor.
fn bits(tensor: &Tensor) -> Vec<u64> {
    let array = tensor.array().unwrap();
    with_bits!(array.dtype(), T => array.bits::<T>().iter().map(|&bits| bits.to_u64()).collect())
}

fn check_in(dtype: DType, shapes: &[&[usize]], function: Function) {
    let jaxpr = recorded_in(dtype, shapes, function);
    let executable = Executable::new(&jaxpr);
    let inputs = || -> Vec<Tensor> {
        shapes
            .iter()
            .enumerate()
            .map(|(seed, shape)| input(shape, seed).convert(dtype))
            .collect()
    };
    let expected = function(&inputs());
    let kept = inputs();
    for given in [inputs(), kept.clone()] {
        let arrays: Vec<Arc<Array>> = given.into_iter().filter_map(Tensor::into_array).collect();
        if let Ok(found) = executable.run_small(arrays.clone()) {
            check_results(&found, &expected, &jaxpr);
        }
        let found = executable.run_scheduled(&mut Slots::new(), arrays);
        check_results(&found, &expected, &jaxpr);
    }
    // Checks that inputs that the caller still holds are unchanged.
    for (kept, fresh) in kept.iter().zip(inputs()) {
        assert_eq!(kept, &fresh);
    }
}

/// Checks that arrays have the bits of tensors.
fn check_results(found: &[Arc<Array>], expected: &[Tensor], jaxpr: &Jaxpr) {
    assert_eq!(found.len(), expected.len());
    for (found, expected) in found.iter().zip(expected) {
        let found = Tensor::from_shared(Arc::clone(found));
        assert_eq!(found.info(), expected.info(), "{jaxpr}");
        assert_eq!(bits(&found), bits(expected), "{jaxpr}");
    }
}

/// Returns the product of two matrices, summed over one axis of each.
fn product(left: &Tensor, right: &Tensor, axes: [usize; 2]) -> Tensor {
    dot_general(left, right, (&[axes[0]], &[axes[1]]), (&[], &[])).unwrap()
}

fn softmax(x: &[Tensor]) -> Vec<Tensor> {
    let exponentials = (&x[0] - x[0].max_keep([-1])).exp();
    vec![&exponentials / exponentials.sum_keep([-1])]
}

fn normalised(x: &[Tensor]) -> Vec<Tensor> {
    let centred = &x[0] - x[0].mean_keep([-1]);
    let variance = centred.square().mean_keep([-1]);
    vec![centred / (variance + 1e-3).sqrt() * &x[1] + &x[2]]
}

const SHAPES: [&[usize]; 10] = [
    &[1, 1],
    &[3, 2],
    &[5, 64],
    &[2, 3, 10],
    &[7, 512],
    &[3, 700],
    &[2, 4096],
    &[2, 4097],
    &[1300, 33],
    &[0, 4],
];

/// A kernel requests the next tile of inputs as long as these. The last tile is shorter.
#[test]
fn requested_inputs_change_no_bits() {
    let shape: &[usize] = &[1_200_003];
    check_in(DType::F32, &[shape, shape], |x| {
        vec![(x[0].exp() * &x[1]).tanh() + &x[0]]
    });
}

#[test]
fn softmax_is_one_kernel() {
    let (kernels, alone) = kernels(&recorded(&[&[8, 64]], softmax));
    assert_eq!(
        kernels,
        ["512 elements in rows of 64: reduce_max rows, sub, exp, reduce_sum rows, div"]
    );
    assert_eq!(alone, 0);
    SHAPES.iter().for_each(|shape| check(&[shape], softmax));
}

#[test]
fn normalisation_is_one_kernel() {
    let (kernels, alone) = kernels(&recorded(&[&[8, 64], &[64], &[64]], normalised));
    assert_eq!(kernels.len(), 1, "{kernels:?}");
    assert_eq!(alone, 0);
    for shape in SHAPES {
        let row = [*shape.last().unwrap()];
        check(&[shape, &row, &row], normalised);
    }
}

#[test]
fn reductions_over_rows_join_the_kernel() {
    let function: Function = |x| {
        let y = x[0].tanh() * &x[1];
        vec![y.sum_axes([0]), y.max_axes([0]), y.sum(), &y + 1.0]
    };
    let (kernels, alone) = kernels(&recorded(&[&[80, 64], &[80, 64]], function));
    assert_eq!(kernels.len(), 1, "{kernels:?}");
    assert_eq!(alone, 0);
    for shape in [&[3, 2][..], &[80, 64], &[1300, 33], &[2, 5000], &[9, 1]] {
        check(&[shape, shape], function);
    }
}

#[test]
fn kernel_holds_floats_of_several_dtypes() {
    let function: Function = |x| {
        let wide = x[0].convert(DType::F32);
        let scaled = &wide * 1.1 + &wide.tanh();
        let narrow = scaled.convert(DType::BF16) / 3.0;
        let row = narrow.sum_keep([-1]);
        vec![
            (&narrow - row).convert(DType::F16).exp(),
            scaled,
            narrow.max(),
        ]
    };
    let (kernels, alone) = kernels(&recorded_in(DType::BF16, &[&[8, 64]], function));
    assert_eq!(
        kernels,
        [
            // The first conversion is no step: the kernel reads the elements as f32.
            "512 elements in rows of 64: tanh, mul, add, convert_element_type, div, \
          reduce_sum rows, sub, convert_element_type, exp, reduce_max"
        ]
    );
    assert_eq!(alone, 0);
    for shape in SHAPES.into_iter().filter(|shape| !shape.contains(&0)) {
        check_in(DType::BF16, &[shape], function);
    }
    let wide: Function = |x| {
        let narrow = x[0].convert(DType::F16) * 0.3;
        vec![narrow.convert(DType::F32) + &x[0], narrow.sum_axes([0])]
    };
    SHAPES
        .iter()
        .for_each(|shape| check_in(DType::F32, &[shape], wide));
}

#[test]
fn long_work_is_shared_among_threads() {
    let shape: &[usize] = &[700, 1500];
    check(&[shape], softmax);
    check(&[shape, shape], |x| {
        let y = (&x[0] * &x[1] + 1.0).tanh().exp();
        let positive = y.greater(1.0);
        vec![positive.select(&y, &-&y), positive, y.sum_axes([0]) / 700.0]
    });
}

#[test]
fn results_reuse_memory_of_inputs() {
    // The first result could overwrite either input, but the second result still reads both inputs.
    check(&[&[40, 30], &[40, 30]], |x| {
        let sum = &x[0] + &x[1];
        let product = &sum * &x[0];
        vec![sum.clone(), product - &x[1], &sum + x[0].sum_keep([-1])]
    });
    // The kernel reads a repeated input until the end, so no result may overwrite it.
    check(&[&[30, 30], &[30]], |x| {
        vec![&x[0] * &x[1] + &x[0], &x[1] * 2.0]
    });
    check(&[&[900]], |x| {
        vec![x[0].reshape([30, 30]) + x[0].sum(), &x[0] * 3.0]
    });
}

/// An optimizer's update of many parameters, followed by their gradients. Each stage is computed for all of them before the next one.
fn updates(inputs: &[Tensor]) -> Vec<Tensor> {
    let (parameters, gradients) = inputs.split_at(inputs.len() / 2);
    let moments: Vec<Tensor> = gradients.iter().map(|x| x.square() + x * 0.5).collect();
    let steps: Vec<Tensor> = moments.iter().map(|moment| moment * -0.125).collect();
    let pairs = parameters.iter().zip(steps);
    pairs.map(|(parameter, step)| parameter + step).collect()
}

#[test]
fn the_update_of_each_of_many_parameters_is_one_kernel() {
    let shapes: [&[usize]; 300] = [&[40, 60]; 300];
    let (kernels, alone) = kernels(&recorded(&shapes, updates));
    assert_eq!(alone, 0, "{kernels:?}");
    assert_eq!(kernels.len(), 150);
    check(&shapes[..220], updates);
}

#[test]
fn views_are_materialized_only_if_needed() {
    check(&[&[6, 4], &[4], &[6]], |x| {
        let columns = x[2].expand_dims(1).broadcast_to([6, 4]);
        let rows = x[1].broadcast_to([6, 4]);
        let sum = &x[0] + &rows * &columns;
        let turned = rows.t().matmul(&sum);
        vec![
            sum.reshape([4, 6]) * 2.0,
            turned,
            columns,
            sum.reshape([24]),
        ]
    });
    check(&[&[6]], |x| {
        let mean = x[0].mean().broadcast_to([2, 3]).reshape([6]);
        vec![&x[0] - &mean, mean]
    });
}

#[test]
fn small_equations_run_before_kernels() {
    // The conversion is recorded between the equations of the kernel, but a kernel cannot contain a conversion.
    let (kernels, _) = kernels(&recorded(&[&[100], &[]], |x| {
        let y = &x[0] * 2.0 + 1.0;
        let rate = x[1].convert(DType::F64).sqrt().convert(DType::F32);
        vec![y.tanh() * rate]
    }));
    assert!(
        kernels
            .iter()
            .any(|kernel| kernel == "100 elements: mul, add, tanh, mul"),
        "{kernels:?}"
    );
}

#[test]
#[should_panic(
    expected = "this is a bug in pytree: expected as many values as a jaxpr has inputs, found 2 and 1; please report it"
)]
fn missing_input_is_a_bug() {
    let executable = Executable::new(&recorded(&[&[2], &[2]], |x| vec![&x[0] - &x[1]]));
    let array = input(&[2], 0).into_array().unwrap();
    executable.run_in(&mut Slots::new(), vec![array]);
}

#[test]
fn long_kernels_hold_related_equations_only() {
    let function: Function = |x| {
        let y = x[0].exp() + 1.0;
        vec![y, x[1].tanh() * 2.0]
    };
    let count = |length: usize| {
        kernels(&recorded(&[&[length], &[length]], function))
            .0
            .len()
    };
    assert_eq!((count(1000), count(10_000)), (1, 2));
    check(&[&[10_000], &[10_000]], function);
    // Both read the same array.
    let shared: Function = |x| vec![x[0].exp() + 1.0, x[0].tanh() * &x[1]];
    let (kernels, _) = kernels(&recorded(&[&[10_000], &[10_000]], shared));
    assert_eq!(kernels.len(), 1, "{kernels:?}");
}
