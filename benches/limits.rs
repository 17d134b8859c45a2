//! What the machine can do: products of f32, copies of memory and updates of Adam, `cargo bench --bench limits [-- product copy adam]`.
//!
//! `benches/compare` states beside a training step which share of these rates the step reaches. The number of threads is that of the
//! cores on which the program may run: `taskset -c 0` leaves it one.

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

use std::hint::black_box;
use std::time::Instant;

use pytree::prelude::*;

/// Products of `[rows, inner]` and `[inner, columns]`: two large ones, and layers of the cases C1, C2 and C3.
const PRODUCTS: [[usize; 3]; 5] = [
    [512, 512, 512],
    [2048, 2048, 2048],
    [64, 128, 128],
    [128, 784, 512],
    [256, 2048, 2048],
];

/// Returns the median and the largest amount per second of calls that each process `amount`.
fn rates(amount: f64, mut call: impl FnMut()) -> (f64, f64) {
    let start = Instant::now();
    let mut warm = 0;
    while start.elapsed().as_secs_f64() < 0.2 || warm < 3 {
        call();
        warm += 1;
    }
    let inner = ((0.02 / (start.elapsed().as_secs_f64() / f64::from(warm))) as usize).max(1);
    let mut rates: Vec<f64> = (0..support::samples(20))
        .map(|_| {
            let start = Instant::now();
            (0..inner).for_each(|_| call());
            amount * inner as f64 / start.elapsed().as_secs_f64()
        })
        .collect();
    rates.sort_by(f64::total_cmp);
    (rates[rates.len() / 2], rates[rates.len() - 1])
}

fn products() {
    for [rows, inner, columns] in PRODUCTS {
        let left = Tensor::new([rows, inner], workload::uniform(1, rows * inner, 1.0));
        let right = Tensor::new([inner, columns], workload::uniform(2, inner * columns, 1.0));
        let product = jit(|(left, right): (Tensor, Tensor)| left.matmul(&right));
        let flops = 2.0 * (rows * inner * columns) as f64;
        let (median, best) = rates(flops / 1e9, || {
            black_box(product((left.clone(), right.clone())));
        });
        let workload = format!("{rows}x{inner}x{columns}");
        support::report(
            ["G", &workload, "product", "pytree"],
            "GFLOP/s",
            median,
            best,
        );
    }
}

/// Copies 256 MB, divided among all threads. A copy reads and writes each byte, so the bytes count twice.
fn copy() {
    const LENGTH: usize = 64 << 20;
    let threads = std::thread::available_parallelism().map_or(1, |count| count.get());
    let source = vec![1.0_f32; LENGTH];
    let mut target = vec![0.0_f32; LENGTH];
    let (median, best) = rates(2.0 * 4.0 * LENGTH as f64 / 1e9, || {
        std::thread::scope(|scope| {
            let length = LENGTH.div_ceil(threads);
            for (target, source) in target.chunks_mut(length).zip(source.chunks(length)) {
                scope.spawn(|| target.copy_from_slice(source));
            }
        });
        black_box(&target);
    });
    let names = ["G", "copy of 256 MB", "copy", "by hand"];
    support::report(names, "GB/s", median, best);
}

/// Updates parameters by Adam, in place: a fused loop of the library, and a loop written by hand, on one thread, which is compiled for the
/// instructions that every processor has. Both read a parameter, a gradient and two moments, and write all but the gradient.
fn adam() {
    for count in [1 << 14, 1 << 18, 1 << 22] {
        let workload = format!("adam {count}");
        let gigabytes = 28.0 * count as f64 / 1e9;
        let update = jit_mut(
            |(p, m, v, g): (&mut Tensor, &mut Tensor, &mut Tensor, Tensor)| {
                *m = &*m * 0.9 + &g * 0.1;
                *v = &*v * 0.999 + &g * &g * 0.001;
                *p = &*p + &*m * 1.1 / ((&*v * 1.2).sqrt() + 1e-8) * -0.001;
            },
        );
        let tensor = || Tensor::full(DType::F32, [count], 0.5);
        let (mut p, mut m, mut v, g) = (tensor(), tensor(), tensor(), tensor());
        let (median, best) = rates(gigabytes, || {
            update((&mut p, &mut m, &mut v, g.clone()));
        });
        let names = ["G", &workload, "adam", "pytree"];
        support::report(names, "GB/s", median, best);

        let numbers = || vec![0.5_f32; count];
        let (mut p, mut m, mut v, g) = (numbers(), numbers(), numbers(), numbers());
        let (median, best) = rates(gigabytes, || {
            for (((p, m), v), g) in p.iter_mut().zip(&mut m).zip(&mut v).zip(&g) {
                *m = *m * 0.9 + *g * 0.1;
                *v = *v * 0.999 + *g * *g * 0.001;
                *p += *m * 1.1 / ((*v * 1.2).sqrt() + 1e-8) * -0.001;
            }
            black_box((&p, &m, &v));
        });
        let names = ["G", &workload, "adam", "by hand"];
        support::report(names, "GB/s", median, best);
    }
}

fn main() {
    let named: Vec<String> = std::env::args()
        .skip(1)
        .filter(|argument| !argument.starts_with("--"))
        .collect();
    let is_wanted = |part: &str| named.is_empty() || named.iter().any(|it| it == part);
    if is_wanted("product") {
        products();
    }
    if is_wanted("copy") {
        copy();
    }
    if is_wanted("adam") {
        adam();
    }
}
