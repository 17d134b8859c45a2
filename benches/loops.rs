//! Loops with small bodies: the nanoseconds of a round, forward and with the gradient of the parameters.
//! `cargo bench --bench loops [-- gru16 kalman2]`

#![allow(
    clippy::pedantic,
    clippy::unwrap_used,
    clippy::many_single_char_names,
    missing_docs,
    missing_debug_implementations,
    unreachable_pub,
    reason = "a benchmark is read as a script"
)]

#[path = "support/loops.rs"]
mod loops;
mod support;
#[allow(dead_code, reason = "the labels are for other benchmarks")]
#[path = "../examples/digits/workload.rs"]
mod workload;

use std::hint::black_box;

use pytree::prelude::*;

/// The number of rounds of each loop.
const ROUNDS: usize = 1000;

/// An operation and its name.
type Timed<'t> = (&'static str, Box<dyn FnMut() + 't>);

fn main() {
    let wanted: Vec<String> = std::env::args()
        .skip(1)
        .filter(|it| !it.starts_with('-'))
        .collect();
    for case in loops::CASES {
        let &(name, _, has_gradient, _) = case;
        if !wanted.is_empty() && !wanted.iter().any(|it| it == name) {
            continue;
        }
        let (w, function) = (loops::parameters(case), loops::function(case, ROUNDS));
        let forward = jit(move |w: Tensor| function(&w));
        let gradient = jit(move |w: Tensor| grad(function)(&w));
        let report = |operation, unit, value| {
            support::report(["W", name, operation, "pytree"], unit, value, value);
        };
        report("result", "", forward(w.clone()).item::<f32>().into());
        let mut timed: Vec<Timed<'_>> =
            vec![("forward", Box::new(|| drop(black_box(forward(w.clone())))))];
        if has_gradient {
            let sum = gradient(w.clone()).abs().sum().item::<f32>();
            report("gradient", "", sum.into());
            timed.push(("reverse", Box::new(|| drop(black_box(gradient(w.clone()))))));
        }
        let medians = support::medians(&mut timed);
        for ((operation, _), nanoseconds) in timed.iter().zip(medians) {
            report(operation, "ns", nanoseconds / ROUNDS as f64);
        }
    }
}
