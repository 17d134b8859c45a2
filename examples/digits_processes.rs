//! Trains an MLP on handwritten digits in several processes. Each process computes the gradient of its rows of each batch.
//!
//! ```text
//! cargo build --release --example digits_processes --features mpi
//! mpiexec -n 2 target/release/examples/digits_processes
//! ```
//!
//! The losses are those of one process, up to the rounding of sums. The number of processes must divide 60, the size of a
//! batch.

#[path = "digits/data.rs"]
mod data;

use std::time::Instant;

use pytree::collectives::pmean;
use pytree::mpi::Processes;
use pytree::nn::accuracy;
use pytree::prelude::*;

const BATCH: usize = 60;
const EPOCHS: usize = 10;

type Step = (Mlp, Optimizer<Mlp>, Tensor, Tensor);

/// One step of training with the rows of one process.
fn step((mut model, mut optimizer, x, y): Step) -> (Mlp, Optimizer<Mlp>, Tensor) {
    let loss = |model: &Mlp| softmax_cross_entropy(&model.forward(&x), &y).mean();
    let (loss, gradient) = pmean(&value_and_grad(loss)(&model), "data");
    optimizer.update(&mut model, &gradient);
    (model, optimizer, loss)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let processes = Processes::start()?;
    let [training, test] = data::load(&Key::new(1))?;
    let model = Mlp::new(&[64, 128, 128, 10], Activation::Relu, &mut Rngs::new(0));
    let mut state = (model.clone(), Optimizer::new(&model, adam(1e-3)));
    let step = jit(step);
    let per_epoch = data::TRAINING / BATCH;
    let mut losses = Vec::new();
    let start = Instant::now();
    let model = processes.along("data", || {
        for number in 0..EPOCHS * per_epoch {
            let first = number % per_epoch * BATCH;
            let own = |all: &Tensor| processes.part(&all.index(ix![first..first + BATCH]));
            let (model, optimizer, loss) =
                step((state.0, state.1, own(&training.0), own(&training.1)));
            state = (model, optimizer);
            losses.push(loss);
        }
        state.0
    });
    let seconds = start.elapsed().as_secs_f64();
    if processes.rank() == 0 {
        for (number, loss) in losses.iter().enumerate() {
            println!("step {number}: {}", loss.item::<f32>());
        }
        let step = seconds / losses.len() as f64 * 1e6;
        eprintln!("{} processes, {step:.0} µs a step", processes.size());
        println!(
            "test accuracy: {:.4}",
            accuracy(&model.forward(&test.0), &test.1).item::<f32>()
        );
    }
    Ok(())
}
