//! Convolutions and pooling, each with its gradient: `cargo bench --bench convolutions [-- depthwise]`.
//!
//! Prints one JSON object a line, as `jax_convolutions.py` does: microseconds a call of a jitted function, and the sum
//! of the gradients, on which both agree.

#![allow(
    clippy::pedantic,
    clippy::unwrap_used,
    missing_docs,
    missing_debug_implementations,
    unreachable_pub,
    reason = "a benchmark is read as a script"
)]

mod support;
#[allow(dead_code, reason = "the labels are for other benchmarks")]
#[path = "../examples/digits/workload.rs"]
mod workload;

use std::time::Instant;

use pytree::convolution::{Convolution, Padding};
use pytree::pooling::Pooling;
use pytree::prelude::*;

struct Case {
    name: &'static str,
    /// The shapes of the input and, for a convolution, of the kernel.
    shapes: Vec<Vec<usize>>,
    apply: fn(&[Tensor]) -> Tensor,
}

fn cases() -> Vec<Case> {
    let case = |name, shapes: &[&[usize]], apply| Case {
        name,
        shapes: shapes.iter().map(|shape| shape.to_vec()).collect(),
        apply,
    };
    vec![
        case("depthwise", &[&[8, 32, 32, 64], &[3, 3, 1, 64]], |x| {
            Convolution::new([1, 1], Padding::Same)
                .feature_groups(64)
                .apply(&x[0], &x[1])
        }),
        case("conv3x3", &[&[32, 28, 28, 32], &[3, 3, 32, 64]], |x| {
            Convolution::new([1, 1], Padding::Same).apply(&x[0], &x[1])
        }),
        case("strided", &[&[32, 28, 28, 32], &[3, 3, 32, 64]], |x| {
            Convolution::new([2, 2], Padding::Same).apply(&x[0], &x[1])
        }),
        case("first_layer", &[&[64, 28, 28, 1], &[3, 3, 1, 32]], |x| {
            Convolution::new([1, 1], Padding::Same).apply(&x[0], &x[1])
        }),
        case("conv1x1", &[&[32, 28, 28, 64], &[1, 1, 64, 128]], |x| {
            Convolution::new([1, 1], Padding::Same).apply(&x[0], &x[1])
        }),
        case("conv1d", &[&[16, 1024, 64], &[5, 64, 64]], |x| {
            Convolution::new([1], Padding::Same).apply(&x[0], &x[1])
        }),
        case("max_pool", &[&[32, 28, 28, 64]], |x| {
            Pooling::new([2, 2]).strides([2, 2]).max(&x[0])
        }),
        case("average_pool", &[&[32, 28, 28, 64]], |x| {
            Pooling::new([3, 3]).padding(Padding::Same).average(&x[0])
        }),
    ]
}

fn report(name: &str, operation: &str, unit: &str, median: f64, min: f64) {
    support::report(["V", name, operation, "pytree"], unit, median, min);
}

/// Reports the median and the least time of a call.
fn measure(name: &str, operation: &str, mut call: impl FnMut()) {
    let start = Instant::now();
    let mut warm = 0;
    while start.elapsed().as_secs_f64() < 0.2 || warm < 3 {
        call();
        warm += 1;
    }
    let inner = ((0.03 / (start.elapsed().as_secs_f64() / f64::from(warm))) as usize).max(1);
    let mut times: Vec<f64> = (0..support::samples(20))
        .map(|_| {
            let start = Instant::now();
            (0..inner).for_each(|_| call());
            start.elapsed().as_secs_f64() * 1e6 / inner as f64
        })
        .collect();
    times.sort_by(f64::total_cmp);
    report(name, operation, "us", times[times.len() / 2], times[0]);
}

fn run(case: &Case) {
    let tensor = |(stream, shape): (u64, &Vec<usize>)| {
        Tensor::new(
            shape,
            workload::uniform(stream, shape.iter().product(), 1.0),
        )
    };
    let x: Vec<Tensor> = (10..).zip(&case.shapes).map(tensor).collect();
    let apply = case.apply;
    let forward = jit(move |x: Vec<Tensor>| apply(&x));
    let gradient = jit(move |x: Vec<Tensor>| grad(|x: &Vec<Tensor>| apply(x).square().mean())(&x));
    let gradients = gradient(x.clone());
    let total = |gradient: &Tensor| gradient.abs().sum().item::<f32>();
    let sum: f32 = gradients.leaves().iter().map(total).sum();
    report(
        case.name,
        "sum_of_gradients",
        "",
        f64::from(sum),
        f64::from(sum),
    );
    measure(case.name, "forward", || drop(forward(x.clone())));
    measure(case.name, "gradient", || drop(gradient(x.clone())));
}

fn main() {
    let wanted: Vec<String> = std::env::args()
        .skip(1)
        .filter(|argument| !argument.starts_with("--"))
        .collect();
    for case in cases() {
        if wanted.is_empty() || wanted.iter().any(|other| other == case.name) {
            run(&case);
        }
    }
}
