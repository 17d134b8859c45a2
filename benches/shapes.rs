//! What the checks of `#[shapes]` cost outside of `jit`: a method with two annotated fields and one argument.
//! `cargo bench --bench shapes`, and with `--features unchecked-results` without the checks of results.
//!
//! The bodies do nothing, so the times are those of the checks. Prints one JSON object a line.

#![allow(
    clippy::pedantic,
    clippy::unwrap_used,
    clippy::type_complexity,
    missing_docs,
    missing_debug_implementations,
    unreachable_pub,
    reason = "a benchmark is read as a script"
)]

mod support;

use std::hint::black_box;

use pytree::prelude::*;

#[derive(Module, Clone, Debug)]
struct Linear {
    #[param("in out")]
    weight: Tensor,
    #[param("out")]
    bias: Option<Tensor>,
}

impl Linear {
    #[inline(never)]
    fn unchecked<'x>(&self, x: &'x Tensor) -> &'x Tensor {
        black_box(self);
        black_box(x)
    }

    #[inline(never)]
    #[shapes(x = "... in")]
    fn arguments<'x>(&self, x: &'x Tensor) -> &'x Tensor {
        black_box(x)
    }

    #[inline(never)]
    #[shapes(x = "... in", return = "... in")]
    fn arguments_and_result<'x>(&self, x: &'x Tensor) -> &'x Tensor {
        black_box(x)
    }
}

fn main() {
    let linear = Linear {
        weight: Tensor::zeros(DType::F32, [64, 128]),
        bias: Some(Tensor::zeros(DType::F32, [128])),
    };
    let x = Tensor::zeros(DType::F32, [32, 64]);
    const CALLS: usize = 1000;
    let repeated = |call: fn(&Linear, &Tensor)| {
        let (linear, x) = (&linear, &x);
        move || (0..CALLS).for_each(|_| call(black_box(linear), black_box(x)))
    };
    let mut timed: Vec<(&str, Box<dyn FnMut()>)> = vec![
        (
            "no check",
            Box::new(repeated(|linear, x| {
                black_box(linear.unchecked(x));
            })),
        ),
        (
            "arguments",
            Box::new(repeated(|linear, x| {
                black_box(linear.arguments(x));
            })),
        ),
        (
            "arguments and result",
            Box::new(repeated(|linear, x| {
                black_box(linear.arguments_and_result(x));
            })),
        ),
    ];
    let medians = support::medians(&mut timed);
    for ((name, _), nanoseconds) in timed.iter().zip(medians) {
        let value = nanoseconds / CALLS as f64;
        println!(
            "{{\"section\":\"shapes\",\"op\":\"{name}\",\"peer\":\"pytree\",\"unit\":\"ns\",\"median\":{value:.1}}}"
        );
    }
}
