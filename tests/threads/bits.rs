//! The same bits for every number of threads, compiled or not.

use pytree::convolution::{Convolution, Padding};
use pytree::linalg;
use pytree::pooling::Pooling;
use pytree::prelude::*;

use crate::threads::{THREADS, is_program, report, run_again};

type Function = fn(Vec<Tensor>) -> Vec<Tensor>;

/// Numbers whose sums depend on the order.
fn noise(dtype: DType, shape: &[usize]) -> Tensor {
    let count: usize = shape.iter().product();
    let seed = shape
        .iter()
        .fold(17_u64, |seed, &length| seed * 31 + length as u64);
    let number = |index: u64| {
        let bits = (index + seed).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        (bits >> 40) as f64 / (1_u64 << 23) as f64 - 1.0
    };
    let numbers: Vec<f64> = (0..count as u64).map(number).collect();
    Tensor::new(shape, numbers).convert(dtype)
}

/// A hash of all bits (FNV-1a, by words).
fn digest(tensors: &[Tensor]) -> u64 {
    let mut hash = 0xCBF2_9CE4_8422_2325_u64;
    for tensor in tensors {
        for number in tensor.convert(DType::F64).to_vec::<f64>() {
            hash = (hash ^ number.to_bits()).wrapping_mul(0x0100_0000_01B3);
            hash ^= hash >> 32;
        }
    }
    hash
}

fn reductions(x: Vec<Tensor>) -> Vec<Tensor> {
    let y = &x[0] * 2.0;
    vec![
        y.sum_axes([0]),
        y.sum_axes([1]),
        y.sum(),
        (&y * &y).mean_axes([0]),
        y.max_axes([0]),
    ]
}

fn factorizations(x: Vec<Tensor>) -> Vec<Tensor> {
    let (q, r) = linalg::qr(&x[0]);
    let (w, v) = linalg::eigh(&x[0]);
    let (u, s, v_t) = linalg::svd(&x[0]);
    let definite = x[0].matmul(&x[0].t()) + Tensor::eye(x[0].dtype(), 150);
    let solved = linalg::solve(&x[0], &x[0].t());
    vec![q, r, w, v, u, s, v_t, linalg::cholesky(&definite), solved]
}

fn softmax(x: Vec<Tensor>) -> Vec<Tensor> {
    let exponentials = (&x[0] - x[0].max_keep([-1])).exp();
    let softmax = &exponentials / exponentials.sum_keep([-1]);
    vec![softmax.log().sum_axes([0]), softmax.sum()]
}

fn normalised(x: Vec<Tensor>) -> Vec<Tensor> {
    let centred = &x[0] - x[0].mean_keep([-1]);
    let normalised = &centred / (centred.square().mean_keep([-1]) + 1e-3).sqrt();
    let gradient = &normalised * &x[0];
    vec![
        gradient.sum_axes([0]),
        normalised.sum_axes([0]),
        gradient.sum(),
    ]
}

fn product(x: Vec<Tensor>) -> Vec<Tensor> {
    vec![x[0].matmul(&x[1])]
}

fn product_with_transpose(x: Vec<Tensor>) -> Vec<Tensor> {
    vec![x[0].matmul(&x[1].t()), x[1].matmul(&x[0].t())]
}

fn training_step(x: Vec<Tensor>) -> Vec<Tensor> {
    let loss = |weights: &Vec<Tensor>| {
        let hidden = x[0].matmul(&weights[0]).tanh();
        softmax_cross_entropy(
            &hidden.matmul(&weights[1]),
            &Tensor::zeros(DType::I32, [512]),
        )
        .mean()
    };
    let (loss, gradient) = value_and_grad(loss)(&x[1..].to_vec());
    [vec![loss], gradient.leaves().to_vec()].concat()
}

fn convolution(x: Vec<Tensor>) -> Vec<Tensor> {
    let convolution = Convolution::new([1, 1], Padding::Same);
    let loss = |x: &Vec<Tensor>| convolution.apply(&x[0], &x[1]).square().sum();
    grad(loss)(&x).leaves().to_vec()
}

fn strided_convolution_in_groups(x: Vec<Tensor>) -> Vec<Tensor> {
    let convolution = Convolution::new([2, 2], Padding::Same).feature_groups(2);
    let loss = |x: &Vec<Tensor>| convolution.apply(&x[0], &x[1]).square().sum();
    grad(loss)(&x).leaves().to_vec()
}

fn depthwise_convolution(x: Vec<Tensor>) -> Vec<Tensor> {
    let convolution = Convolution::new([1, 1], Padding::Same).feature_groups(70);
    let loss = |x: &Vec<Tensor>| convolution.apply(&x[0], &x[1]).square().sum();
    grad(loss)(&x).leaves().to_vec()
}

fn pooling(x: Vec<Tensor>) -> Vec<Tensor> {
    let pooling = Pooling::new([3, 3]).strides([2, 2]).padding(Padding::Same);
    let loss = |x: &Tensor| (pooling.max(x) + pooling.average(x)).square().sum();
    vec![grad(loss)(&x[0])]
}

/// Functions by name, with the shapes of their arguments: all do enough to be divided among threads.
const PROGRAMS: [(&str, &[&[usize]], Function); 22] = [
    ("reductions of long columns", &[&[400, 1200]], reductions),
    ("reductions of odd rows", &[&[1403, 333]], reductions),
    ("reductions of narrow rows", &[&[90_003, 5]], reductions),
    ("reductions of pairs", &[&[225_001, 2]], reductions),
    ("reductions of few long rows", &[&[9, 50_000]], reductions),
    ("softmax", &[&[300, 1500]], softmax),
    ("softmax of odd rows", &[&[1501, 300]], softmax),
    ("normalisation", &[&[1024, 257]], normalised),
    ("square product", &[&[300, 300], &[300, 300]], product),
    ("product of odd sizes", &[&[515, 301], &[301, 333]], product),
    ("product of few rows", &[&[20, 900], &[900, 800]], product),
    (
        "product of few columns",
        &[&[3000, 900], &[900, 7]],
        product,
    ),
    (
        "product with a column",
        &[&[4099, 2100], &[2100, 1]],
        product,
    ),
    ("product with a row", &[&[1, 3000], &[3000, 3001]], product),
    (
        "products of a batch",
        &[&[10, 64, 300], &[10, 300, 64]],
        product,
    ),
    (
        "product with a transpose",
        &[&[256, 184], &[300, 184]],
        product_with_transpose,
    ),
    (
        "training step",
        &[&[512, 184], &[184, 128], &[128, 10]],
        training_step,
    ),
    (
        "convolution",
        &[&[8, 24, 24, 16], &[3, 3, 16, 24]],
        convolution,
    ),
    (
        "strided convolution in groups",
        &[&[8, 48, 48, 16], &[3, 3, 8, 64]],
        strided_convolution_in_groups,
    ),
    (
        "depthwise convolution",
        &[&[8, 40, 40, 70], &[3, 3, 1, 70]],
        depthwise_convolution,
    ),
    ("pooling", &[&[8, 60, 60, 20]], pooling),
    ("factorizations", &[&[150, 150]], factorizations),
];

#[test]
fn bits_do_not_depend_on_threads() {
    let test = "threads::bits::bits_do_not_depend_on_threads";
    if is_program(test) {
        return report_all();
    }
    let alone = run_again(test, THREADS[0]);
    assert_eq!(alone.len(), 2 * PROGRAMS.len());
    for threads in &THREADS[1..] {
        assert_eq!(run_again(test, *threads), alone, "{threads} threads");
    }
}

/// Runs each program by its operations and compiled, compares both, and reports the bits.
fn report_all() {
    for (name, shapes, function) in PROGRAMS {
        for dtype in [DType::F32, DType::F64] {
            let inputs: Vec<Tensor> = shapes.iter().map(|shape| noise(dtype, shape)).collect();
            let expected = digest(&function(inputs.clone()));
            let compiled = jit(function);
            assert_eq!(digest(&compiled(inputs)), expected, "{name}, {dtype}");
            report(&format!("{name}, {dtype}: {expected:016x}"));
        }
    }
}
