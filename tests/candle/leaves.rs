//! Tree operations on one struct of 2,000 leaves, of pytree's tensors and of candle's: `cargo bench -p pytree-candle`. Prints nanoseconds
//! a leaf, and how many times longer candle's take: medians of rounds that take turns.

#![allow(
    clippy::unwrap_used,
    missing_docs,
    reason = "a benchmark is read as a script"
)]

use std::hint::black_box;
use std::time::Instant;

use candle_core::Device;
use pytree::{Leaf, Module, Pytree, PytreeOf, tree};

#[derive(Module, Clone, Debug)]
struct Dense<T> {
    #[param]
    weight: T,
    #[state]
    mean: T,
}

#[derive(Module, Clone, Debug)]
struct Network<T> {
    layers: Vec<Dense<T>>,
}

const LAYERS: usize = 1000;
const OPERATIONS: [&str; 5] = [
    "leaves",
    "flatten",
    "flatten and unflatten",
    "map",
    "structure",
];

fn network<T: Clone>(leaf: &T) -> Network<T> {
    let dense = || Dense {
        weight: leaf.clone(),
        mean: leaf.clone(),
    };
    Network {
        layers: (0..LAYERS).map(|_| dense()).collect(),
    }
}

fn run<T: Leaf + Clone>(operation: &str, model: &Network<T>)
where
    Network<T>: PytreeOf<T> + Pytree,
{
    match operation {
        "leaves" => drop(black_box(tree::leaves::<T, _>(model))),
        "flatten" => drop(black_box(tree::flatten::<T, _>(model))),
        "flatten and unflatten" => {
            let (leaves, treedef) = tree::flatten::<T, _>(model);
            drop(black_box(
                tree::unflatten::<Network<T>, _>(&treedef, leaves).unwrap(),
            ));
        }
        "map" => drop(black_box(tree::map(model, T::clone))),
        _ => drop(black_box(tree::structure(model))),
    }
}

/// Returns nanoseconds a leaf.
fn nanoseconds(mut run: impl FnMut()) -> f64 {
    let start = Instant::now();
    for _ in 0..200 {
        run();
    }
    start.elapsed().as_secs_f64() * 1e9 / (200 * 2 * LAYERS) as f64
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

fn main() {
    let ours = network(&pytree::Tensor::from([0.5_f32]));
    let candle = network(&candle_core::Tensor::new(&[0.5_f32], &Device::Cpu).unwrap());
    for operation in OPERATIONS {
        let round = |_| {
            let ours = nanoseconds(|| run(operation, &ours));
            (ours, nanoseconds(|| run(operation, &candle)))
        };
        let rounds: Vec<(f64, f64)> = (0..21).map(round).collect();
        let ratio = median(rounds.iter().map(|(ours, candle)| candle / ours).collect());
        let (ours, candle) = rounds.into_iter().unzip();
        let (ours, candle) = (median(ours), median(candle));
        println!("{operation}: pytree {ours:.1} ns, candle {candle:.1} ns, {ratio:.2} times");
    }
}
