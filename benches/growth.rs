//! How times grow with the size of a program: `cargo bench --bench growth [-- leaves batch]`.
//!
//! | case | what grows |
//! |---|---|
//! | `leaves` | the leaves of a tree, 10² to 10⁶: flatten, unflatten, map, and a call of a compiled function to 10⁵ |
//! | `depth` | the levels of a tree, 1 to 100, with one leaf at the end of each of 1,000 chains |
//! | `static` | the static fields of each of 1,000 modules, 0 to 16 |
//! | `batch` | the examples of a training step of an MLP 784-512-512-10 |
//! | `width` | the hidden units of an MLP with 64 examples |
//! | `equations` | the equations of a compiled function, 10 to 10⁵: its first call, and a later one |
//! | `iterations` | the iterations of compiled loops, which compute little: a recurrence, an ODE solver, a sampler |
//!
//! Prints one JSON object a line, as `jax_growth.py` does. Trees report the time of a leaf, and training steps the time of an
//! example or of a multiplication, so a figure that stays the same means that the time grows with the size.

#![allow(
    clippy::pedantic,
    clippy::unwrap_used,
    clippy::type_complexity,
    missing_docs,
    missing_debug_implementations,
    unreachable_pub,
    reason = "a benchmark is read as a script"
)]

#[path = "support/mlp.rs"]
mod mlp;
#[path = "support/models.rs"]
mod models;
mod support;
#[path = "../examples/digits/workload.rs"]
mod workload;

use std::hint::black_box;
use std::time::Instant;

use pytree::control::{fori_loop, scan, while_loop};
use pytree::prelude::*;
use pytree::transform::Traceable;

use models::{A3, leaf};

type Timed<'a> = (&'static str, Box<dyn FnMut() + 'a>);

/// Reports each operation in nanoseconds per unit: the measured time divided by `units`.
fn report_all(workload: &str, unit: &str, units: usize, mut timed: Vec<Timed<'_>>) {
    let medians = support::medians(&mut timed);
    for ((operation, _), nanoseconds) in timed.iter().zip(medians) {
        let value = nanoseconds / units as f64;
        support::report(["I", workload, operation, "pytree"], unit, value, value);
    }
}

/// The tree operations and, for at most 10⁵ leaves, a call that returns its argument.
fn tree_operations<T: Traceable + Clone + 'static>(workload: &str, model: &T) {
    let (leaves, treedef) = tree::flatten::<Tensor, T>(model);
    let other = tree::structure(model);
    let call = jit(|model: T| model);
    let mut timed: Vec<Timed<'_>> = vec![
        (
            "flatten",
            Box::new(|| {
                black_box(tree::flatten::<Tensor, T>(model));
            }),
        ),
        (
            "unflatten",
            Box::new(|| {
                black_box(tree::unflatten::<T, Tensor>(&treedef, leaves.clone()).unwrap());
            }),
        ),
        (
            "map",
            Box::new(|| {
                black_box(tree::map::<Tensor, T>(model, Tensor::clone));
            }),
        ),
        (
            "structure equality",
            Box::new(|| {
                assert!(black_box(&treedef) == black_box(&other));
            }),
        ),
    ];
    if leaves.len() <= 100_000 {
        timed.push((
            "call",
            Box::new(|| {
                black_box(call(model.clone()));
            }),
        ));
    }
    report_all(workload, "ns a leaf", leaves.len(), timed);
}

/// Pairs of leaves in a list.
fn leaves() {
    for count in [100, 1_000, 10_000, 100_000, 1_000_000] {
        let mut model: A3 = models::a3();
        let layer = model.layers[0].clone();
        model.layers = vec![layer; count / 2];
        tree_operations(&format!("leaves {count}"), &model);
    }
}

/// A chain of modules with a leaf at its end.
#[derive(Module, Clone)]
enum Chain {
    Longer(Box<Chain>),
    End(#[param] Tensor),
}

fn depth() {
    for levels in [1, 10, 100] {
        let end = Chain::End(leaf());
        let chain = (1..levels).fold(end, |chain, _| Chain::Longer(Box::new(chain)));
        tree_operations(&format!("depth {levels}"), &vec![chain; 1000]);
    }
}

/// A module with a leaf and static fields.
#[derive(Module, Clone)]
struct Configured<const FIELDS: usize> {
    #[param]
    weight: Tensor,
    #[r#static]
    fields: [u32; FIELDS],
}

fn configured<const FIELDS: usize>() {
    let module = Configured::<FIELDS> {
        weight: leaf(),
        fields: [7; FIELDS],
    };
    tree_operations(&format!("static {FIELDS}"), &vec![module; 1000]);
}

/// A training step of Adam, in microseconds per `units`.
fn step(workload: &str, unit: &str, units: usize, sizes: &[usize; 4], batch: usize) {
    let mut model = mlp::model(sizes);
    let mut optimizer = Optimizer::new(&model, adam(1e-3));
    let x = workload::uniform(10, batch * sizes[0], 1.0);
    let x = Tensor::new([batch, sizes[0]], x);
    let y = Tensor::from(workload::labels(20, batch, 10));
    let step = jit_mut(
        |(model, optimizer, x, y): (&mut Mlp, &mut Optimizer<Mlp>, Tensor, Tensor)| {
            let loss = |model: &Mlp| softmax_cross_entropy(&model.forward(&x), &y).mean();
            let (loss, gradient) = value_and_grad(loss)(&*model);
            optimizer.update(model, &gradient);
            loss
        },
    );
    let mut advance = || {
        let loss = step((&mut model, &mut optimizer, x.clone(), y.clone()));
        black_box(loss.item::<f32>());
    };
    advance();
    report_all(workload, unit, units, vec![("step", Box::new(advance))]);
}

fn batch() {
    for batch in [1, 8, 64, 512, 4096] {
        let sizes = [784, 512, 512, 10];
        let workload = format!("batch {batch}");
        step(&workload, "ns an example", batch, &sizes, batch);
    }
}

fn width() {
    for width in [16, 64, 256, 1024, 4096] {
        let sizes = [64, width, width, 10];
        let parameters = 64 * width + width * width + 10 * width;
        let workload = format!("width {width}");
        step(&workload, "ns a parameter", parameters, &sizes, 64);
    }
}

/// A chain of products and sines of 16 numbers.
fn equations() {
    for count in [10, 100, 1_000, 10_000, 100_000] {
        let function = jit(move |x: Tensor| (0..count / 2).fold(x, |x, _| (x * 1.01).sin()));
        let x = Tensor::new([16], workload::uniform(10, 16, 1.0));
        let start = Instant::now();
        black_box(function(x.clone()).to_vec::<f32>());
        let first = start.elapsed().as_secs_f64() * 1e9 / count as f64;
        let workload = format!("equations {count}");
        let names = ["I", &workload, "first call", "pytree"];
        support::report(names, "ns an equation", first, first);
        let call = || {
            black_box(function(x.clone()).to_vec::<f32>());
        };
        let later: Vec<Timed<'_>> = vec![("later call", Box::new(call))];
        report_all(&workload, "ns an equation", count, later);
    }
}

/// The number of iterations of each loop.
const ITERATIONS: i32 = 1000;

/// An iteration of each loop, in a compiled function.
fn iterations() {
    fn timed<T: Traceable + Clone + 'static, R: Traceable + 'static>(
        name: &str,
        function: impl Fn(T) -> R + Send + Sync + 'static,
        argument: T,
    ) {
        let call = jit(function);
        let call = || drop(black_box(call(argument.clone())));
        let operation: Vec<Timed<'_>> = vec![("iteration", Box::new(call))];
        let unit = "ns an iteration";
        report_all(
            &format!("loop {name}"),
            unit,
            ITERATIONS as usize,
            operation,
        );
    }
    let recurrence = |x: Tensor| x * 0.99 + 0.01;
    let x = Tensor::new([16], workload::uniform(10, 16, 1.0));
    timed(
        "fori",
        move |x| fori_loop(0, ITERATIONS, |_, x| recurrence(x), x),
        x.clone(),
    );
    timed(
        "while",
        move |x| {
            let body = |(i, x): (Tensor, Tensor)| (i + 1, recurrence(x));
            while_loop(|(i, _)| i.less(ITERATIONS), body, (Tensor::from(0), x))
        },
        x.clone(),
    );
    let length = ITERATIONS as usize;
    let inputs = Tensor::new([length, 16], workload::uniform(11, length * 16, 1.0));
    timed(
        "scan",
        |(x, inputs)| {
            let step = |carry: Tensor, x: Tensor| {
                let carry = carry * 0.9 + x;
                (carry.clone(), carry)
            };
            scan(step, x, inputs)
        },
        (x, inputs),
    );
    let scalar = Tensor::from(0.3_f32);
    timed(
        "logistic",
        |x| fori_loop(0, ITERATIONS, |_, x| &x * 3.9 * (1.0 - &x), x),
        scalar.clone(),
    );
    let point = [0.3_f32, 1.0, 20.0].map(Tensor::from);
    timed(
        "lorenz",
        |point| fori_loop(0, ITERATIONS, |_, point| runge_kutta(point), point),
        point,
    );
    timed(
        "metropolis",
        |(key, x)| fori_loop(0, ITERATIONS, |_, (key, x)| metropolis(&key, x), (key, x)),
        (Key::new(0), scalar),
    );
}

/// A step of the classical method of Runge and Kutta for the Lorenz system.
fn runge_kutta(point: [Tensor; 3]) -> [Tensor; 3] {
    const STEP: f64 = 0.01;
    let slope =
        |[x, y, z]: &[Tensor; 3]| [(y - x) * 10.0, x * (28.0 - z) - y, x * y - z * (8.0 / 3.0)];
    let after = |slope: &[Tensor; 3], time: f64| -> [Tensor; 3] {
        std::array::from_fn(|axis| &point[axis] + &slope[axis] * time)
    };
    let first = slope(&point);
    let second = slope(&after(&first, STEP / 2.0));
    let third = slope(&after(&second, STEP / 2.0));
    let fourth = slope(&after(&third, STEP));
    std::array::from_fn(|axis| {
        let inner = (&second[axis] + &third[axis]) * 2.0;
        &point[axis] + (&first[axis] + inner + &fourth[axis]) * (STEP / 6.0)
    })
}

/// A step of a Metropolis sampler of the standard normal distribution.
fn metropolis(key: &Key, x: Tensor) -> (Key, Tensor) {
    let keys = key.split(3);
    let proposed = &x + keys[1].uniform_between(DType::F32, [], -1.0, 1.0);
    let ratio = (x.square() - proposed.square()) * 0.5;
    let accepted = keys[2].uniform(DType::F32, []).log().less(ratio);
    (keys[0].clone(), accepted.select(&proposed, &x))
}

fn main() {
    let named = std::env::args().skip(1);
    let mut named: Vec<String> = named.filter(|it| !it.starts_with("--")).collect();
    if named.is_empty() {
        let all = [
            "leaves",
            "depth",
            "static",
            "batch",
            "width",
            "equations",
            "iterations",
        ];
        named = all.map(String::from).to_vec();
    }
    for case in &named {
        match case.as_str() {
            "leaves" => leaves(),
            "depth" => depth(),
            "static" => {
                configured::<0>();
                configured::<4>();
                configured::<16>();
            }
            "batch" => batch(),
            "width" => width(),
            "equations" => equations(),
            "iterations" => iterations(),
            _ => panic!(
                "expected leaves, depth, static, batch, width, equations or iterations, found `{case}`"
            ),
        }
    }
}
