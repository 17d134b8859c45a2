//! The training steps C1 to C4 of the peers' benchmarks: `cargo bench --bench training [-- C1]`.
//!
//! Prints one JSON object a line, as the peers do: microseconds a step, the time of the first step, and
//! the losses at steps 1 and 20, which all peers agree on, and the peak memory of the process so far.
//!
//! The cases `mlp4096` and `transformer1024` are for accelerators, and run only if they are named.

#![allow(
    clippy::pedantic,
    clippy::unwrap_used,
    clippy::type_complexity,
    missing_docs,
    missing_debug_implementations,
    unreachable_pub,
    reason = "a benchmark is read as a script"
)]

#[path = "../examples/digits/workload.rs"]
mod workload;

#[path = "support/mlp.rs"]
mod mlp;
#[path = "support/transformer.rs"]
mod transformer;

use std::time::Instant;

use pytree::SelectPart;
use pytree::prelude::*;
use pytree::transform::Traceable;
use transformer::Transformer;

struct Case {
    name: &'static str,
    sizes: [usize; 4],
    batch: usize,
}

const CASES: [Case; 4] = [
    Case {
        name: "C1",
        sizes: [64, 128, 128, 10],
        batch: 64,
    },
    Case {
        name: "C2",
        sizes: [784, 512, 512, 10],
        batch: 128,
    },
    Case {
        name: "C3",
        sizes: [784, 2048, 2048, 10],
        batch: 256,
    },
    Case {
        name: "mlp4096",
        sizes: [4096, 4096, 4096, 10],
        batch: 4096,
    },
];

/// The cases that run only if they are named.
const LARGE: [&str; 2] = ["mlp4096", "transformer1024"];

/// Four batches of an input shape and so many labels.
fn batches(shape: &[usize], labels: usize, classes: u64) -> Vec<(Tensor, Tensor)> {
    (0..4)
        .map(|k| {
            let x = workload::uniform(10 + k, shape.iter().product(), 1.0);
            (
                Tensor::new(shape, x),
                Tensor::from(workload::labels(20 + k, labels, classes)),
            )
        })
        .collect()
}

/// Trains and reports; `logits` is the forward pass.
fn run<M: Module + Traceable + SelectPart<Tensor> + Clone + 'static>(
    name: &str,
    model: M,
    batches: &[(Tensor, Tensor)],
    logits: fn(&M, &Tensor) -> Tensor,
) {
    let step = jit(
        move |(mut model, mut optimizer, x, y): (M, Optimizer<M>, Tensor, Tensor)| {
            let loss = |model: &M| softmax_cross_entropy(&logits(model, &x), &y).mean();
            let (loss, gradient) = value_and_grad(loss)(&model);
            optimizer.update(&mut model, &gradient);
            (model, optimizer, loss)
        },
    );
    let optimizer = Optimizer::new(&model, adam(1e-3));
    let mut state = Some((model, optimizer));
    let mut count = 0;
    let mut advance = || {
        let (x, y) = batches[count % 4].clone();
        count += 1;
        let (model, optimizer) = state.take().unwrap();
        let (model, optimizer, loss) = step((model, optimizer, x, y));
        state = Some((model, optimizer));
        loss
    };
    let read = |loss: Tensor| loss.item::<f32>();
    let start = Instant::now();
    let first_loss = read(advance());
    let first_step = start.elapsed().as_secs_f64() * 1e3;
    let twentieth = (1..20).map(|_| advance()).last();
    let twentieth = twentieth.map_or(first_loss, read);
    let report = |operation: &str, unit: &str, median: f64, min: f64| {
        println!(
            "{{\"section\":\"C\",\"workload\":\"{}\",\"op\":\"{operation}\",\"peer\":\"pytree\",\"unit\":\"{unit}\",\"median\":{median},\"min\":{min}}}",
            name
        );
    };
    report(
        "loss_step1",
        "",
        f64::from(first_loss),
        f64::from(first_loss),
    );
    report(
        "loss_step20",
        "",
        f64::from(twentieth),
        f64::from(twentieth),
    );
    report("first_step_ms", "ms", first_step, first_step);
    let start = Instant::now();
    let mut warm = 0;
    while start.elapsed().as_secs_f64() < 0.3 || warm < 3 {
        read(advance());
        warm += 1;
    }
    let inner = ((0.05 / (start.elapsed().as_secs_f64() / f64::from(warm))) as usize).max(1);
    let mut times: Vec<f64> = (0..20)
        .map(|_| {
            let start = Instant::now();
            // The last step depends on all others, so its loss is read when all of them have run.
            let last = (0..inner).map(|_| advance()).last();
            last.map(read);
            start.elapsed().as_secs_f64() * 1e6 / inner as f64
        })
        .collect();
    times.sort_by(f64::total_cmp);
    report("us_per_step", "us", times[times.len() / 2], times[0]);
    let peak = peak_memory();
    report("peak_mb", "MB", peak, peak);
}

/// The most memory the process has held, in MB, where the system tells it.
fn peak_memory() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<f64>().ok());
    kib.unwrap_or(f64::NAN) / 1024.0
}

fn main() {
    let wanted: Vec<String> = std::env::args()
        .skip(1)
        .filter(|argument| !argument.starts_with("--"))
        .collect();
    let is_wanted = |name: &str| match wanted.is_empty() {
        true => !LARGE.contains(&name),
        false => wanted.iter().any(|other| other == name),
    };
    for case in CASES.iter().filter(|case| is_wanted(case.name)) {
        let batches = batches(&[case.batch, case.sizes[0]], case.batch, 10);
        run(case.name, mlp::model(&case.sizes), &batches, |model, x| {
            model.forward(x)
        });
    }
    for (name, sizes) in [
        ("C4", transformer::C4),
        ("transformer1024", transformer::LARGE),
    ] {
        if is_wanted(name) {
            let positions = sizes.batch * sizes.tokens;
            let shape = [sizes.batch, sizes.tokens, sizes.width];
            let batches = batches(&shape, positions, sizes.classes as u64);
            run(name, Transformer::new(sizes), &batches, |model, x| {
                model.forward(x)
            });
        }
    }
}
