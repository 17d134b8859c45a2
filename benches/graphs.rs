//! Graphs beside trees: a model of 2,000 leaves as a tree, with each layer shared by two places, and with a reference
//! for each leaf. `cargo bench --bench graphs [-- split]`, in turn with `python benches/nnx_graphs.py`
//!
//! Prints one JSON object a line: microseconds for the whole model, and how many times the tree's they are.

#![allow(
    clippy::pedantic,
    clippy::unwrap_used,
    clippy::type_complexity,
    missing_docs,
    missing_debug_implementations,
    unreachable_pub,
    reason = "a benchmark is read as a script"
)]

#[path = "support/models.rs"]
mod models;
mod support;

use std::hint::black_box;

use models::{A3, Lin, a3, leaf};
use pytree::Partition;
use pytree::PytreeOf;
use pytree::prelude::*;
use pytree::transform::Traceable;

/// 1,000 layers, each at two places: 2,000 leaves.
#[derive(Module, Clone)]
struct Tied {
    layers: Vec<Shared<Lin>>,
    again: Vec<Shared<Lin>>,
}

#[derive(Module, Clone)]
struct Cells {
    #[param]
    w: Ref<Tensor>,
    #[state]
    b: Ref<Tensor>,
}

/// 2,000 references.
#[derive(Module, Clone)]
struct Referring {
    layers: Vec<Cells>,
}

fn tied() -> Tied {
    let layers: Vec<Shared<Lin>> = a3().layers.into_iter().map(Shared::new).collect();
    Tied {
        again: layers.clone(),
        layers,
    }
}

fn referring() -> Referring {
    let cells = || Cells {
        w: Ref::new(leaf()),
        b: Ref::new(leaf()),
    };
    Referring {
        layers: (0..1000).map(|_| cells()).collect(),
    }
}

type Timed<'a> = (&'static str, Box<dyn FnMut() + 'a>);

/// Medians of each operation for the three models, in turn.
fn beside(operation: &str, mut timed: Vec<Timed<'_>>) {
    let wanted = std::env::args()
        .skip(1)
        .find(|argument| !argument.starts_with('-'));
    if wanted.is_some_and(|wanted| !operation.contains(&wanted)) {
        return;
    }
    let medians = support::medians(&mut timed);
    for ((model, _), nanoseconds) in timed.iter().zip(&medians) {
        let microseconds = nanoseconds / 1e3;
        let names = ["R", model, operation, "pytree"];
        support::report(names, "us", microseconds, microseconds);
    }
}

fn of_each<'a>(
    operation: &str,
    tree: impl FnMut() + 'a,
    tied: impl FnMut() + 'a,
    referring: impl FnMut() + 'a,
) {
    beside(
        operation,
        vec![
            ("tree", Box::new(tree)),
            ("shared", Box::new(tied)),
            ("references", Box::new(referring)),
        ],
    );
}

fn split<M: PytreeOf<Tensor>>(model: &M) -> [Partition<M>; 2] {
    partition::split(model, [Filter::param(), Filter::everything()]).unwrap()
}

fn identity<M: Traceable + Clone + 'static>(model: &M) -> impl FnMut() {
    let (model, s) = (model.clone(), Tensor::from(0.0_f32));
    let call = jit(|(_, s): (M, Tensor)| s + 1.0);
    move || {
        black_box(call((model.clone(), s.clone())).item::<f32>());
    }
}

fn through<M: Traceable + Clone + 'static>(model: &M) -> impl FnMut() {
    let (model, s) = (model.clone(), Tensor::from(0.0_f32));
    let call = jit(|(model, s): (M, Tensor)| (model, s + 1.0));
    move || {
        black_box(call((model.clone(), s.clone())).1.item::<f32>());
    }
}

fn main() {
    let (tree, tied, referring): (A3, Tied, Referring) = (a3(), tied(), referring());
    of_each(
        "flatten",
        || drop(black_box(tree::flatten::<Tensor, _>(&tree))),
        || drop(black_box(graph::flatten::<Tensor, _>(&tied))),
        || drop(black_box(graph::flatten::<Tensor, _>(&referring))),
    );
    let (a, b, c) = (
        tree::flatten::<Tensor, _>(&tree),
        graph::flatten::<Tensor, _>(&tied),
        graph::flatten::<Tensor, _>(&referring),
    );
    of_each(
        "unflatten",
        || drop(black_box(tree::unflatten::<A3, _>(&a.1, a.0.clone()))),
        || drop(black_box(graph::unflatten::<Tied, _>(&b.1, b.0.clone()))),
        || {
            drop(black_box(graph::unflatten::<Referring, _>(
                &c.1,
                c.0.clone(),
            )))
        },
    );
    of_each(
        "split",
        || drop(black_box(split(&tree))),
        || drop(black_box(split(&tied))),
        || drop(black_box(split(&referring))),
    );
    let (a, b, c) = (split(&tree), split(&tied), split(&referring));
    of_each(
        "merge",
        || drop(black_box(partition::merge(a.clone()).unwrap())),
        || drop(black_box(partition::merge(b.clone()).unwrap())),
        || drop(black_box(partition::merge(c.clone()).unwrap())),
    );
    let (mut tree_now, mut tied_now, mut referring_now) =
        (tree.clone(), tied.clone(), referring.clone());
    of_each(
        "update",
        || partition::update(&mut tree_now, &a[0]).unwrap(),
        || partition::update(&mut tied_now, &b[0]).unwrap(),
        || partition::update(&mut referring_now, &c[0]).unwrap(),
    );
    of_each(
        "jitted call, model in",
        identity(&tree),
        identity(&tied),
        identity(&referring),
    );
    of_each(
        "jitted call, model in and out",
        through(&tree),
        through(&tied),
        through(&referring),
    );
}
