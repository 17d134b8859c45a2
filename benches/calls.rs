//! Calls of compiled functions: with trees of 6, 148 and 2,000 leaves, per-example gradients and a Hessian;
//! and operations that are not compiled. `cargo bench --bench calls [-- B F eager]`
//!
//! Prints one JSON object a line, as the peers do, with the values that show that the same was computed.

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

use pytree::prelude::*;
use pytree::transform::Traceable;

type Timed<'a> = (&'static str, Box<dyn FnMut() + 'a>);

fn report(section: &str, workload: &str, operation: &str, unit: &str, value: f64) {
    support::report([section, workload, operation, "pytree"], unit, value, value);
}

fn report_all(section: &str, workload: &str, mut timed: Vec<Timed<'_>>) {
    let medians = support::medians(&mut timed);
    for ((operation, _), nanoseconds) in timed.iter().zip(medians) {
        report(section, workload, operation, "us", nanoseconds / 1e3);
    }
}

/// A tree as an argument: not used, handed back, and every leaf recomputed. The caller keeps its tree.
fn trees<T: Traceable + Clone + 'static>(name: &str, tree: &T) {
    let s = Tensor::from(0.0_f32);
    let scalar = jit(|(_, s): (T, Tensor)| s + 1.0);
    let identity = jit(|(tree, s): (T, Tensor)| (tree, s + 1.0));
    let update =
        jit(|(tree, s): (T, Tensor)| (tree::map::<Tensor, T>(&tree, |leaf| leaf + 1.0), s + 1.0));
    let moved = identity.clone();
    let mut kept = Some(tree.clone());
    report_all(
        "B",
        name,
        vec![
            (
                "scalar",
                Box::new(|| {
                    black_box(scalar((tree.clone(), s.clone())).item::<f32>());
                }),
            ),
            (
                "identity",
                Box::new(|| {
                    black_box(identity((tree.clone(), s.clone())).1.item::<f32>());
                }),
            ),
            (
                "identity, tree moved in and out",
                Box::new(|| {
                    let (tree, s) = moved((kept.take().unwrap(), s.clone()));
                    kept = Some(tree);
                    black_box(s.item::<f32>());
                }),
            ),
            (
                "update",
                Box::new(|| {
                    black_box(update((tree.clone(), s.clone())).1.item::<f32>());
                }),
            ),
        ],
    );
}

/// Section F.
fn derivatives() {
    let model = mlp::model(&[64, 128, 128, 10]);
    let x = Tensor::new([64, 64], workload::uniform(10, 64 * 64, 1.0));
    let y = Tensor::from(workload::labels(20, 64, 10));
    let per_example = jit(vmap(
        grad(|(model, x, y): &(Mlp, Tensor, Tensor)| softmax_cross_entropy(&model.forward(x), y))
            .wrt(Filter::param()),
    )
    .in_axes((None, 0, 0)));
    let gradients = per_example((model.clone(), x.clone(), y.clone()));
    let squares: f64 = gradients
        .0
        .leaves()
        .iter()
        .map(|leaf| f64::from(leaf.square().sum().item::<f32>()))
        .sum();
    let name = "per-example grads C1 b64";
    report("F", name, "sum of squares", "", squares);
    let second = jit(hessian(|v: &Tensor| {
        let part = |position: i32| v.index(pytree::ix![position]);
        let (a, b, c) = (part(0), part(1), part(2));
        (1.0 - &a).square()
            + 100.0 * (&b - a.square()).square()
            + 100.0 * (&c - b.square()).square()
            + (a * b * c).sin()
    }));
    let point = Tensor::from([0.5_f32, 0.7, -0.3]);
    let corner = f64::from(second(point.clone()).to_vec::<f32>()[0]);
    report("F", "hessian, 3 parameters", "entry [0][0]", "", corner);
    report_all(
        "F",
        name,
        vec![(
            "us_per_call",
            Box::new(|| {
                black_box(per_example((model.clone(), x.clone(), y.clone())));
            }),
        )],
    );
    report_all(
        "F",
        "hessian, 3 parameters",
        vec![(
            "us_per_call",
            Box::new(|| {
                black_box(second(point.clone()));
            }),
        )],
    );
    let small = mlp::model(&[4, 16, 2]);
    let x = Tensor::new([4], workload::uniform(10, 4, 1.0));
    let forward = jit(|(model, x): (Mlp, Tensor)| model.forward(&x));
    let name = "MLP 4-16-2, one example";
    let first = f64::from(forward((small.clone(), x.clone())).to_vec::<f32>()[0]);
    report("F", name, "entry [0]", "", first);
    report_all(
        "F",
        name,
        vec![(
            "us_per_call",
            Box::new(|| {
                black_box(forward((small.clone(), x.clone())));
            }),
        )],
    );
}

/// Operations that run as they are called.
fn eager() {
    let (x, y) = (Tensor::from([1.0_f32, 2.0]), Tensor::from([3.0_f32, 4.0]));
    report_all(
        "eager",
        "two elements",
        vec![
            (
                "add",
                Box::new(|| {
                    black_box(&x + &y);
                }),
            ),
            (
                "multiply by a number",
                Box::new(|| {
                    black_box(&x * 2.0);
                }),
            ),
            (
                "tanh",
                Box::new(|| {
                    black_box(x.tanh());
                }),
            ),
            (
                "sum",
                Box::new(|| {
                    black_box(x.sum());
                }),
            ),
        ],
    );
}

fn main() {
    let named: Vec<String> = std::env::args()
        .skip(1)
        .filter(|argument| !argument.starts_with("--"))
        .collect();
    let is_wanted = |section: &str| named.is_empty() || named.iter().any(|it| it == section);
    if is_wanted("B") {
        trees("A1", &models::a1());
        trees("A2", &models::a2());
        trees("A3", &models::a3());
    }
    if is_wanted("F") {
        derivatives();
    }
    if is_wanted("eager") {
        eager();
    }
}
