//! What a training step costs in one process and in two, with half of the batch in each.
//!
//! ```text
//! cargo bench --features mpi --bench processes
//! ```
//!
//! The program starts itself again with `mpiexec`. Both processes have one thread. In each round, the first process runs the steps
//! alone, and then both run them together. A ratio is the median over the rounds. Two idle cores are needed; on a busy machine,
//! look at the fastest rounds.

use std::process::Command;
use std::time::Instant;

use pytree::collectives::pmean;
use pytree::device::{Device, Mesh};
use pytree::mpi::Processes;
use pytree::prelude::*;
use pytree::spmd;

/// The variable that tells a started program that it is one of the processes.
const STARTED: &str = "PYTREE_BENCH_PROCESSES";
/// The number of measured rounds of a case.
const ROUNDS: usize = 101;

type Step = (Mlp, Optimizer<Mlp>, Tensor, Tensor);
type Stepped = (Mlp, Optimizer<Mlp>, Tensor);

fn step((mut model, mut optimizer, x, y): Step, shared: bool) -> Stepped {
    let loss = |model: &Mlp| softmax_cross_entropy(&model.forward(&x), &y).mean();
    let (mut loss, mut gradient) = value_and_grad(loss)(&model);
    if shared {
        (loss, gradient) = pmean(&(loss, gradient), "data");
    }
    optimizer.update(&mut model, &gradient);
    (model, optimizer, loss)
}

/// A model and a batch.
struct Case {
    name: &'static str,
    sizes: &'static [usize],
    batch: usize,
    /// The number of steps in a round.
    steps: usize,
}

/// Short rounds, so that some of them run without a pause.
const CASES: [Case; 3] = [
    Case {
        name: "digits",
        sizes: &[64, 128, 128, 10],
        batch: 64,
        steps: 20,
    },
    Case {
        name: "digits, batch 1024",
        sizes: &[64, 128, 128, 10],
        batch: 1024,
        steps: 3,
    },
    Case {
        name: "wide, batch 1024",
        sizes: &[256, 512, 512, 10],
        batch: 1024,
        steps: 1,
    },
];

/// Runs some steps, and returns the microseconds of one step.
fn timed(steps: usize, state: &mut Option<Stepped>, run: impl Fn(Stepped) -> Stepped) -> f64 {
    let start = Instant::now();
    for _ in 0..steps {
        *state = state.take().map(&run);
    }
    // Reading the loss waits for the step.
    let read = state.as_ref().map(|(_, _, loss)| loss.item::<f32>());
    assert!(read.is_some_and(f32::is_finite));
    start.elapsed().as_secs_f64() * 1e6 / steps as f64
}

fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers[numbers.len() / 2]
}

/// Measures a case, and prints a line in the first process.
fn measure(processes: &Processes, case: &Case) {
    let mesh = Mesh::new(processes, [("data", processes.size())]);
    let x = Key::new(1).normal(DType::F32, [case.batch, case.sizes[0]]);
    let y = Tensor::zeros(DType::I32, [case.batch]);
    let model = Mlp::new(case.sizes, Activation::Relu, &mut Rngs::new(0));
    let optimizer = Optimizer::new(&model, adam(1e-3));
    let start = || Some((model.clone(), optimizer.clone(), Tensor::scalar(0.0_f32)));
    let with_batch = |(model, optimizer, _): Stepped| (model, optimizer, x.clone(), y.clone());

    let by_jit = jit(|state: Step| step(state, false));
    let over = |mesh: &Mesh| {
        let shared = spmd(|state: Step| step(state, true)).over(mesh);
        shared.in_axes("data", (None, None, 0, 0))
    };
    let (by_one, by_all) = (over(&Mesh::new(&Device::HOST, [("data", 1)])), over(&mesh));
    let mut states = [start(), start(), start()];
    let mut times = [const { Vec::new() }; 3];
    for round in 0..=ROUNDS {
        let mut found = [0.0; 3];
        if processes.rank() == 0 {
            found[0] = timed(case.steps, &mut states[0], |state| {
                by_jit(with_batch(state))
            });
            found[1] = timed(case.steps, &mut states[1], |state| {
                by_one(with_batch(state))
            });
        }
        found[2] = timed(case.steps, &mut states[2], |state| {
            by_all(with_batch(state))
        });
        // The first round compiles.
        if round > 0 {
            for (times, found) in times.iter_mut().zip(found) {
                times.push(found);
            }
        }
    }
    if processes.rank() == 0 {
        let [jit, one, all] = &times;
        println!("{}, {} steps a round:", case.name, case.steps);
        line("jit in one process", jit, jit);
        line("spmd in one process", one, jit);
        line(&format!("spmd in {} processes", processes.size()), all, jit);
    }
}

/// Prints the times of a way to run a step, and their ratios to those of `jit` in the same rounds.
fn line(name: &str, times: &[f64], jit: &[f64]) {
    let ratios = times.iter().zip(jit).map(|(own, jit)| own / jit);
    let fastest = |times: &[f64]| times.iter().copied().fold(f64::INFINITY, f64::min);
    println!(
        "  {name:22} median {:8.0} µs, ratio {:.3}   fastest {:8.0} µs, ratio {:.3}",
        median(times.to_vec()),
        median(ratios.collect()),
        fastest(times),
        fastest(times) / fastest(jit),
    );
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    if std::env::var_os(STARTED).is_some() {
        let processes = Processes::start()?;
        let only = std::env::args().nth(1).unwrap_or_default();
        for case in CASES.iter().filter(|case| case.name.contains(&only)) {
            measure(&processes, case);
        }
        return Ok(());
    }
    let status = Command::new("mpiexec")
        .args(["--allow-run-as-root", "--oversubscribe", "-n", "2"])
        .arg(std::env::current_exe()?)
        .args(std::env::args().skip(1).filter(|it| it != "--bench"))
        .env(STARTED, "1")
        .env("PYTREE_NUM_THREADS", "1")
        .status()?;
    if !status.success() {
        return Err(format!("mpiexec ended with {status}").into());
    }
    Ok(())
}
