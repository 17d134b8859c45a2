//! Elementwise functions of a million numbers, each with its gradient: `cargo bench --bench operations [-- sin]`.
//!
//! Prints one JSON object a line: the least time of a call of a jitted function in microseconds, and the mean of its result. With
//! `--turns`, the program waits for a line of input after each case. `jax_operations.py` starts it so, and measures the case in JAX
//! meanwhile.

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

use pytree::nn;
use pytree::prelude::*;

const COUNT: usize = 1_000_000;

struct Case {
    name: &'static str,
    /// The least and the greatest element of each operand.
    intervals: &'static [(f32, f32)],
    apply: fn(&[Tensor]) -> Tensor,
}

/// The cases: methods of a tensor, methods of two tensors, and other functions, each with intervals of the operands.
macro_rules! cases {
    (
        methods { $($method:ident $interval:expr;)* }
        pairs { $($pair:ident $left:expr, $right:expr;)* }
        functions { $($function:ident $($of:expr),+ => $apply:expr;)* }
    ) => {
        vec![
            $(Case { name: stringify!($method), intervals: &[$interval], apply: |x| x[0].$method() },)*
            $(Case { name: stringify!($pair), intervals: &[$left, $right], apply: |x| x[0].$pair(&x[1]) },)*
            $(Case { name: stringify!($function), intervals: &[$($of),+], apply: $apply },)*
        ]
    };
}

fn cases() -> Vec<Case> {
    cases! {
        methods {
        abs (-4., 4.);
        sign (-4., 4.);
        floor (-4., 4.);
        ceil (-4., 4.);
        round (-4., 4.);
        trunc (-4., 4.);
        square (-4., 4.);
        reciprocal (0.5, 4.);
        exp (-4., 4.);
        exp2 (-4., 4.);
        expm1 (-4., 4.);
        log (0.1, 4.);
        log2 (0.1, 4.);
        log10 (0.1, 4.);
        log1p (-0.5, 4.);
        sqrt (0.1, 4.);
        rsqrt (0.1, 4.);
        cbrt (0.1, 4.);
        sin (-4., 4.);
        cos (-4., 4.);
        tan (-1.5, 1.5);
        asin (-0.99, 0.99);
        acos (-0.99, 0.99);
        atan (-4., 4.);
        sinh (-4., 4.);
        cosh (-4., 4.);
        tanh (-4., 4.);
        asinh (-4., 4.);
        acosh (1.1, 4.);
        atanh (-0.99, 0.99);
        sigmoid (-4., 4.);
        erf (-4., 4.);
        erfc (-4., 4.);
        erf_inv (-0.99, 0.99);
        isnan (-4., 4.);
        isfinite (-4., 4.);
        }
        pairs {
        add (-4., 4.), (-4., 4.);
        subtract (-4., 4.), (-4., 4.);
        multiply (-4., 4.), (-4., 4.);
        divide (-4., 4.), (0.5, 4.);
        remainder (-4., 4.), (0.5, 4.);
        floor_divide (-4., 4.), (0.5, 4.);
        pow (0.1, 4.), (-4., 4.);
        atan2 (-4., 4.), (-4., 4.);
        hypot (-4., 4.), (-4., 4.);
        maximum (-4., 4.), (-4., 4.);
        minimum (-4., 4.), (-4., 4.);
        logaddexp (-4., 4.), (-4., 4.);
        less (-4., 4.), (-4., 4.);
        equal (-4., 4.), (-4., 4.);
        }
        functions {
        power3 (-4., 4.) => |x| x[0].powi(3);
        power7 (-4., 4.) => |x| x[0].powi(7);
        clamp (-4., 4.) => |x| x[0].clamp(-1.0, 1.0);
        select (-4., 4.), (-4., 4.) => |x| x[0].greater(0.0).select(&x[0], &x[1]);
        relu (-4., 4.) => |x| nn::relu(&x[0]);
        relu6 (-4., 8.) => |x| nn::relu6(&x[0]);
        leaky_relu (-4., 4.) => |x| nn::leaky_relu(&x[0], 0.01);
        elu (-4., 4.) => |x| nn::elu(&x[0], 1.0);
        selu (-4., 4.) => |x| nn::selu(&x[0]);
        celu (-4., 4.) => |x| nn::celu(&x[0], 1.0);
        gelu (-4., 4.) => |x| nn::gelu(&x[0]);
        gelu_exact (-4., 4.) => |x| nn::gelu_exact(&x[0]);
        silu (-4., 4.) => |x| nn::silu(&x[0]);
        softplus (-4., 4.) => |x| nn::softplus(&x[0]);
        log_sigmoid (-4., 4.) => |x| nn::log_sigmoid(&x[0]);
        hard_sigmoid (-4., 4.) => |x| nn::hard_sigmoid(&x[0]);
        hard_silu (-4., 4.) => |x| nn::hard_silu(&x[0]);
        hard_tanh (-4., 4.) => |x| nn::hard_tanh(&x[0]);
        soft_sign (-4., 4.) => |x| nn::soft_sign(&x[0]);
        mish (-4., 4.) => |x| nn::mish(&x[0]);
        squareplus (-4., 4.) => |x| nn::squareplus(&x[0], 4.0);
        lgamma (0.1, 8.) => |x| nn::lgamma(&x[0]);
        digamma (0.1, 8.) => |x| nn::digamma(&x[0]);
        sinc (-4., 4.) => |x| nn::sinc(&x[0]);
        }
    }
}

type Draw = fn(&Key, DType) -> Tensor;

/// Random numbers, which have no gradient.
fn draws() -> Vec<(&'static str, Draw)> {
    vec![
        ("key.uniform", |key, dtype| key.uniform(dtype, [COUNT])),
        ("key.normal", |key, dtype| key.normal(dtype, [COUNT])),
        ("key.gumbel", |key, dtype| key.gumbel(dtype, [COUNT])),
        ("key.bernoulli", |key, _| key.bernoulli(0.5, [COUNT])),
        ("key.gamma", |key, dtype| {
            key.gamma(&Tensor::full(dtype, [], 2.0), [COUNT])
        }),
    ]
}

/// Prints the least time of a call in microseconds, and the mean of its results, and waits if `jax_operations.py` measures in turn.
fn measure(
    [name, dtype, operation]: [&str; 3],
    intervals: &[(f32, f32)],
    mut call: impl FnMut() -> Vec<Tensor>,
) {
    let mean = |result: &Tensor| result.convert(DType::F64).mean().item::<f64>();
    let mean: f64 = call().iter().map(mean).sum();
    let mut least = f64::INFINITY;
    // Other work on the machine only adds to a time.
    for _ in 0..support::samples(30) {
        let start = Instant::now();
        call();
        least = least.min(start.elapsed().as_secs_f64() * 1e6);
    }
    let intervals: Vec<[f32; 2]> = intervals.iter().map(|&(low, high)| [low, high]).collect();
    println!(
        "{{\"name\":\"{name}\",\"dtype\":\"{dtype}\",\"op\":\"{operation}\",\"intervals\":{intervals:?},\"us\":{least},\"mean\":{mean}}}"
    );
    if std::env::args().any(|argument| argument == "--turns") {
        std::io::stdin().read_line(&mut String::new()).unwrap();
    }
}

fn run(case: &Case, (name, dtype): (&str, DType)) {
    let operand = |(stream, &(low, high)): (u64, &(f32, f32))| {
        let unit = Tensor::new([COUNT], workload::uniform(stream, COUNT, 1.0));
        ((unit + 1.0) * f64::from((high - low) / 2.0) + f64::from(low)).convert(dtype)
    };
    let x: Vec<Tensor> = (10..).zip(case.intervals).map(operand).collect();
    let apply = case.apply;
    let forward = jit(move |x: Vec<Tensor>| apply(&x));
    measure([case.name, name, "forward"], case.intervals, || {
        vec![forward(x.clone())]
    });
    if forward(x.clone()).dtype() != dtype {
        return;
    }
    let gradient = jit(move |x: Vec<Tensor>| grad(|x: &Vec<Tensor>| apply(x).sum())(&x));
    measure([case.name, name, "gradient"], case.intervals, || {
        gradient(x.clone()).leaves().to_vec()
    });
}

fn main() {
    let wanted: Vec<String> = std::env::args()
        .skip(1)
        .filter(|argument| !argument.starts_with("--"))
        .collect();
    let is_wanted = |name: &str| wanted.is_empty() || wanted.iter().any(|other| other == name);
    let dtypes = [("f32", DType::F32), ("f64", DType::F64)];
    for case in cases().iter().filter(|case| is_wanted(case.name)) {
        dtypes.into_iter().for_each(|dtype| run(case, dtype));
    }
    for (name, draw) in draws().into_iter().filter(|(name, _)| is_wanted(name)) {
        for (dtype_name, dtype) in dtypes {
            let (key, jitted) = (Key::new(1), jit(move |key: Key| draw(&key, dtype)));
            measure([name, dtype_name, "eager"], &[], || vec![draw(&key, dtype)]);
            measure([name, dtype_name, "jitted"], &[], || {
                vec![jitted(key.clone())]
            });
        }
    }
}
