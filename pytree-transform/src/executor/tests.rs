//! Tests that a compiled function computes the same bits as its operations run one by one.

use std::sync::Arc;

use super::Executable;
use super::products::join_products;
use super::schedule::{Scheduled, schedule};
use super::stages::{Share, Stage, arrange};
use crate::base::bits::{Bits, with_bits};
use crate::base::dtype::{AbstractArray, DType};
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
        Scheduled::Kernel(kernel) => Some(kernel.to_string()),
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
        let arrays = given.into_iter().filter_map(Tensor::into_array).collect();
        let found = executable.run_in(&mut Slots::new(), arrays);
        assert_eq!(found.len(), expected.len());
        for (found, expected) in found.into_iter().zip(&expected) {
            let found = Tensor::from_shared(Arc::clone(&found));
            assert_eq!(found.info(), expected.info(), "{shapes:?}");
            let bits = |tensor: &Tensor| -> Vec<u64> {
                let array = tensor.array().unwrap();
                with_bits!(array.dtype(), T => array.bits::<T>().iter().map(|&bits| bits.to_u64()).collect())
            };
            assert_eq!(bits(&found), bits(expected), "{shapes:?}\n{jaxpr}");
        }
    }
    // Checks that inputs that the caller still holds are unchanged.
    for (kept, fresh) in kept.iter().zip(inputs()) {
        assert_eq!(kept, &fresh);
    }
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
            "512 elements in rows of 64: convert_element_type, tanh, mul, add, convert_element_type, div, \
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

/// The operations of arithmetic.
const OPERATIONS: [fn(&Tensor, &Tensor) -> Tensor; 4] = [
    |left, right| left + right,
    |left, right| left - right,
    |left, right| left * right,
    |left, right| left / right,
];

#[test]
fn chains_round_like_single_operations() {
    // The results of tanh need all digits of a float, so each operation of a chain rounds.
    let chains: Function = |x| {
        let [a, b, c] = [0, 1, 2].map(|input| x[input].tanh());
        let pairs = OPERATIONS.iter().flat_map(|first| {
            let second = OPERATIONS.iter();
            second.flat_map(|second| {
                [
                    second(&first(&a, &b), &c),
                    second(&c, &first(&a, &b)),
                    second(&first(&a, &c), &first(&b, &c)),
                ]
            })
        });
        pairs.collect()
    };
    for length in [1, 100, 513, 5000] {
        check(&[&[length], &[length], &[length]], chains);
    }
    // A value that is read twice is not part of a chain.
    let (kernels, _) = kernels(&recorded(&[&[8], &[8]], |x| {
        let sum = &x[0] + &x[1];
        vec![&sum * &sum / &x[1]]
    }));
    assert_eq!(kernels, ["8 elements: add, mul, div"]);
}

#[test]
fn factors_round_like_single_operations() {
    // One factor is a constant, and the other is an element of an input that is broadcast.
    let factors: Function = |x| {
        let [a, b, c] = [0, 1, 2].map(|input| x[input].tanh());
        let rate = x[3].exp();
        let pairs = OPERATIONS.iter().flat_map(|first| {
            let (a, b, c, rate) = (&a, &b, &c, &rate);
            let second = OPERATIONS.iter();
            second.flat_map(move |second| {
                [
                    first(&(a * 0.1), b),
                    first(a, &(rate * b)),
                    (first(a, b) * 0.3).tanh(),
                    second(&(first(&(a * 0.9), &(b * rate)) * 0.7), &(c * 1.1)),
                    second(&(c * rate), &(first(a, b) * 0.7)),
                ]
            })
        });
        pairs.collect()
    };
    for length in [1, 100, 513, 5000] {
        check(&[&[length], &[length], &[length], &[]], factors);
    }
}

/// Returns the number of steps of the only kernel of a function.
fn steps(shapes: &[&[usize]], function: Function) -> usize {
    check(shapes, function);
    let scheduled = schedule(&recorded(shapes, function));
    let [Scheduled::Kernel(kernel)] = &scheduled[..] else {
        panic!("expected one kernel, found {} steps", scheduled.len());
    };
    format!("{kernel:?}").matches("Step { work").count()
}

#[test]
fn only_products_that_one_step_reads_become_factors() {
    let steps = |function| steps(&[&[8], &[8]], function);
    assert_eq!(steps(|x| vec![&x[0] * 0.5 - &x[1] * 0.25]), 1);
    assert_eq!(steps(|x| vec![(&x[0] * 0.5).exp()]), 1);
    // A product of a product has two roundings. The second one is the factor.
    assert_eq!(steps(|x| vec![(&x[0] * 0.1 * 0.3).exp()]), 2);
    // The product is also a result.
    let stored: Function = |x| {
        let scaled = &x[0] * 0.1;
        vec![scaled.exp(), scaled]
    };
    assert_eq!(steps(stored), 2);
    // Two steps read the product.
    let read_twice: Function = |x| {
        let scaled = &x[0] * 0.1;
        vec![scaled.exp() - scaled.tanh()]
    };
    assert_eq!(steps(read_twice), 4);
}

#[test]
fn update_of_adam_has_five_steps() {
    let update: Function = |x| {
        let [p, m, v, g] = [0, 1, 2, 3].map(|input| &x[input]);
        let m = m * 0.9 + g * 0.1;
        let v = v * 0.999 + g * g * 0.001;
        let p = p + &m * 1.1 / ((&v * 1.2).sqrt() + 1e-8) * -0.001;
        vec![m, v, p]
    };
    assert_eq!(steps(&[&[8][..]; 4], update), 5);
}

/// Returns the product of two matrices, summed over one axis of each.
fn product(left: &Tensor, right: &Tensor, axes: [usize; 2]) -> Tensor {
    dot_general(left, right, (&[axes[0]], &[axes[1]]), (&[], &[])).unwrap()
}

/// A layer: a product, a bias and an activation. `axis` is the axis of the weights over which the product sums.
fn layer(x: &[Tensor], axis: usize) -> Tensor {
    (product(&x[0], &x[1], [1, axis]) + &x[2]).maximum(0.0)
}

/// The numbers of rows, columns and contracted elements of products. In some of them, two threads take half of the rows or of
/// the columns each.
const PRODUCTS: [[usize; 3]; 9] = [
    [1, 1, 1],
    [3, 5, 2],
    [8, 10, 128],
    [64, 128, 128],
    [300, 96, 100],
    [1, 3000, 300],
    [3000, 1, 300],
    [70, 700, 90],
    [20, 2, 700],
];

#[test]
fn kernels_follow_products() {
    let shapes = |[rows, columns, depth]: [usize; 3]| {
        [vec![rows, depth], vec![depth, columns], vec![columns]]
    };
    let text = |function: Function| {
        let shapes = shapes([8, 4, 6]);
        let (kernels, alone) = kernels(&recorded(
            &shapes.each_ref().map(|shape| &shape[..]),
            function,
        ));
        assert_eq!(alone, 0);
        kernels
    };
    let plain: Function = |x| vec![layer(x, 0)];
    assert_eq!(text(plain), ["32 elements: dot_general, add, max"]);
    // A later step reads the product.
    let kept: Function = |x| {
        let product = x[0].matmul(&x[1]);
        vec![(&product + &x[2]).tanh(), product]
    };
    assert_eq!(text(kept), ["32 elements: dot_general, add, tanh"]);
    let totals: Function = |x| {
        let y = layer(x, 0);
        vec![y.sum_axes([0]), y.sum(), y.max_axes([0])]
    };
    assert_eq!(
        text(totals),
        [
            "32 elements in rows of 32: dot_general, add, max, reduce_sum, reduce_sum rows, reduce_max"
        ]
    );
    let rows: Function = |x| vec![softmax(&[x[0].matmul(&x[1])]).remove(0) * &x[2]];
    assert_eq!(
        text(rows),
        [
            "32 elements in rows of 4: dot_general, reduce_max rows, sub, exp, reduce_sum rows, div, mul"
        ]
    );
    let columns: Function = |x| vec![layer(x, 0).sum_axes([0]), layer(x, 0) * 2.0];
    for sizes in PRODUCTS {
        let shapes = shapes(sizes);
        let shapes = shapes.each_ref().map(|shape| &shape[..]);
        for function in [plain, kept, totals, rows, columns] {
            check(&shapes, function);
            check_in(DType::F64, &shapes, function);
        }
        let turned = [shapes[0], &[sizes[1], sizes[2]], shapes[2]];
        check(&turned, |x| vec![layer(x, 1), layer(x, 1).sum_axes([0])]);
    }
}

#[test]
fn kernels_follow_products_of_batches() {
    let function: Function = |x| {
        let scores = x[0].matmul(&x[1]) * 0.125;
        let exponentials = (&scores - scores.max_keep([-1])).exp();
        vec![
            &exponentials / exponentials.sum_keep([-1]),
            exponentials.sum_axes([0, 1]),
        ]
    };
    let shapes: [&[usize]; 2] = [&[3, 4, 5], &[3, 5, 6]];
    let (kernels, alone) = kernels(&recorded(&shapes, function));
    assert_eq!((kernels.len(), alone), (1, 0), "{kernels:?}");
    for [batch, rows, columns, depth] in [
        [3, 4, 6, 5],
        [40, 64, 64, 32],
        [1, 200, 200, 8],
        [2, 3, 900, 90],
    ] {
        check(&[&[batch, rows, depth], &[batch, depth, columns]], function);
    }
}

#[test]
fn kernel_follows_the_latest_product() {
    // The first product is in memory when the second one is computed.
    let function: Function = |x| vec![x[0].matmul(&x[1]) * x[1].matmul(&x[0]) + 1.0];
    let (kernels, alone) = kernels(&recorded(&[&[6, 6], &[6, 6]], function));
    assert_eq!(
        (kernels, alone),
        (vec!["36 elements: dot_general, mul, add".to_owned()], 1)
    );
    check(&[&[6, 6], &[6, 6]], function);
    // A product of integers, and a product that another step reads first, run alone.
    check(&[&[6, 6], &[6, 6]], |x| {
        let product = x[0].matmul(&x[1]);
        let whole = x[0].convert(DType::I32);
        let integers = whole.matmul(&whole).convert(DType::F32);
        vec![product.t().matmul(&x[0]), product + 1.0, integers * 0.5]
    });
}

#[test]
fn update_runs_after_other_readers_of_its_parameter() {
    // The update of the weights could follow the first product, but the second product still reads the old weights.
    let function: Function = |x| {
        let slope = product(&x[0], &x[2], [0, 0]);
        let back = product(&x[2], &x[1], [1, 1]);
        vec![&x[1] - slope * 0.1, back]
    };
    let shapes: [&[usize]; 3] = [&[6, 8], &[8, 4], &[6, 4]];
    let jaxpr = recorded(&shapes, function);
    let steps: Vec<Vec<usize>> = join_products(&jaxpr, schedule(&jaxpr))
        .iter()
        .map(|step| {
            step.inputs(&jaxpr)
                .iter()
                .map(|input| input.index())
                .collect()
        })
        .collect();
    let [x, weights, slope] = [0, 1, 2].map(|input| jaxpr.inputs[input].index());
    assert_eq!(steps, [vec![slope, weights], vec![x, weights, slope]]);
    check(&shapes, function);
    // A later reader of a product that moved does not move before it.
    check(&shapes, |x| {
        let slope = product(&x[0], &x[2], [0, 0]);
        let back = product(&x[2], &x[1], [1, 1]);
        let update = &x[1] - &slope * 0.1;
        let other = product(&x[0], &back, [1, 1]).sum() * 0.3;
        vec![
            update,
            product(&slope, &x[1], [1, 1]) * other + &slope.sum(),
            slope * 2.0 + 1.0,
        ]
    });
}

/// The steps of a function as text, one line for each stage.
fn staged(shapes: &[&[usize]], threads: usize, function: Function) -> (Vec<String>, Vec<Stage>) {
    let jaxpr = recorded(shapes, function);
    let (steps, stages) = arrange(&jaxpr, join_products(&jaxpr, schedule(&jaxpr)), threads);
    let mut known: Vec<_> = jaxpr
        .inputs
        .iter()
        .copied()
        .chain(jaxpr.constants.iter().map(|(variable, _)| *variable))
        .collect();
    for step in &steps {
        assert!(
            step.inputs(&jaxpr)
                .iter()
                .all(|input| known.contains(input)),
            "a step before its inputs"
        );
        known.extend(step.outputs(&jaxpr));
    }
    let text = |step: &Scheduled| match step {
        Scheduled::One(position) => jaxpr.equations[*position].primitive.name().to_owned(),
        Scheduled::Kernel(kernel) => kernel.to_string(),
    };
    let mut start = 0;
    let lines = stages.iter().map(|stage| {
        let line: Vec<String> = steps[start..stage.end].iter().map(text).collect();
        start = stage.end;
        line.join("; ")
    });
    (lines.collect(), stages)
}

#[test]
fn steps_that_need_no_results_of_each_other_form_a_stage() {
    // The gradients of a layer: neither product needs the other one.
    let gradients: Function =
        |x| vec![product(&x[0], &x[2], [0, 0]), product(&x[2], &x[1], [1, 1])];
    let shapes: [&[usize]; 3] = [&[64, 128], &[128, 128], &[64, 128]];
    let (lines, stages) = staged(&shapes, 2, gradients);
    assert_eq!(lines, ["dot_general; dot_general"]);
    let whole = |step| Share { step, pieces: 1 };
    assert_eq!(stages[0].shares, [whole(0), whole(1)]);
    check(&shapes, gradients);
    assert!(
        staged(&shapes, 1, gradients).1[0].shares.is_empty(),
        "one thread"
    );
    // The second product needs the first one.
    let (_, stages) = staged(&shapes, 2, |x| vec![x[0].matmul(&x[1]).matmul(&x[1])]);
    assert!(
        stages.iter().all(|stage| stage.shares.is_empty()),
        "{stages:?}"
    );
    // Short steps run before the stage.
    let with_short: Function = |x| {
        vec![
            product(&x[0], &x[2], [0, 0]),
            x[3].sin(),
            product(&x[2], &x[1], [1, 1]),
        ]
    };
    let (lines, _) = staged(&[shapes[0], shapes[1], shapes[2], &[100]], 2, with_short);
    assert_eq!(lines, ["sin", "dot_general; dot_general"]);
}

#[test]
fn stages_compute_the_same_bits() {
    // Products, updates and reductions of several lengths, in stages with steps that move elements.
    let function: Function = |x| {
        let mut results = Vec::new();
        for scale in 1..6 {
            let scaled = &x[0] * f64::from(scale);
            let slope = product(&scaled, &x[2], [0, 0]);
            results.extend([
                product(&x[2], &x[1], [1, 1]).tanh(),
                (&slope * 0.1).exp().sqrt() + &x[1],
                scaled.t(),
                slope.sum_axes([0]),
            ]);
        }
        results
    };
    let shapes: [&[usize]; 3] = [&[64, 128], &[128, 128], &[64, 128]];
    let (_, stages) = staged(&shapes, 2, function);
    assert!(
        stages.iter().any(|stage| !stage.shares.is_empty()),
        "{stages:?}"
    );
    (0..20).for_each(|_| check(&shapes, function));
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
