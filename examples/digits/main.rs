//! Trains an MLP on handwritten digits, end to end: `cargo run --release --example digits`.
//!
//! The program prints a summary of the model and the progress, writes the metrics of each step, draws learning curves and a
//! confusion matrix, and saves checkpoints. It loads the last checkpoint into a fresh model, and tests the loaded model. The
//! last printed line is `test accuracy: 0.97…`. `--resume` continues an interrupted run, also in the middle of an epoch, and
//! ends with the same metrics and weights, bit for bit. `--help` lists the options.
//!
//! Several devices or processes share the work of each step, with the same losses up to the rounding of sums:
//!
//! ```text
//! cargo run --release --features pjrt --example digits -- --devices 4
//! cargo build --release --features mpi --example digits
//! mpiexec -n 2 target/release/examples/digits --processes
//! ```

mod data;
mod devices;
mod options;
mod picture;
mod workload;

use std::path::Path;
use std::process::ExitCode;

use pytree::collectives::pmean;
use pytree::data::{Arrays, Batches, LastBatch, Position};
use pytree::nn::{accuracy, confusion_matrix, summary};
use pytree::prelude::*;
use pytree::spmd;
use pytree::training::{Curves, MetricsLog, Progress, save_curves};

use crate::data::{Digits, IMAGES, TRAINING};
use crate::devices::Devices;
use crate::options::{HELP, Options};

const SIZES: [usize; 4] = [64, 128, 128, 10];

/// Images and the digits that they show.
type Examples = (Tensor, Tensor);
/// What a checkpoint stores.
type State = (Mlp, Optimizer<Mlp>, Position);

fn main() -> ExitCode {
    let outcome = match Options::parse(std::env::args().skip(1)) {
        Ok(Some(options)) => run(&options),
        Ok(None) => {
            print!("{HELP}");
            Ok(None)
        }
        Err(problem) => Err(problem.into()),
    };
    match outcome {
        Ok(accuracy) => {
            if let Some(accuracy) = accuracy {
                println!("test accuracy: {accuracy:.4}");
            }
            ExitCode::SUCCESS
        }
        Err(problem) => {
            eprintln!("error: {problem}");
            ExitCode::FAILURE
        }
    }
}

/// Returns the accuracy on the images of the test, or `None` in a process that prints nothing.
fn run(options: &Options) -> Result<Option<f32>, Box<dyn std::error::Error>> {
    let devices = Devices::of(options)?;
    let digits =
        Digits::read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/data/digits.csv"))?;
    let keys = Key::new(options.seed).split(2);
    let order = if options.workload_d {
        workload::permutation(900, IMAGES)
    } else {
        let order = keys[0].permutation(IMAGES).to_vec::<i32>().into_iter();
        order.map(usize::try_from).collect::<Result<_, _>>()?
    };
    let (training, test) = order.split_at(TRAINING);
    let (training, test) = (digits.batch(training), digits.batch(test));
    let batches = Batches::new(training.clone(), options.batch).last_batch(LastBatch::Drop);
    let batches = if options.workload_d {
        batches.order_by(|epoch| workload::permutation(1000 + epoch as u64, TRAINING))
    } else {
        batches.shuffle(&keys[1])
    };
    let model = initial_model(options);
    if options.quiet || devices.is_silent {
        let (model, _, _) = train(options, &devices, &batches, model, |_, _, _, _| Ok(()))?;
        return Ok((!devices.is_silent).then(|| tested(&model, &test)));
    }
    println!("{}", summary(&model));
    let model = recorded(options, &devices, &batches, model, &training, &test)?;
    let confusion = confusion_matrix(&model.forward(&test.0).argmax(-1), &test.1, 10);
    let file = options.out.join("confusion.svg");
    pytree::files::write(&file, picture::confusion(&confusion).as_bytes())?;
    println!("confusion matrix: {}", file.display());
    Ok(Some(tested(&model, &test)))
}

fn initial_model(options: &Options) -> Mlp {
    let mut model = Mlp::new(&SIZES, Activation::Relu, &mut Rngs::new(options.seed));
    if options.workload_d {
        for (number, layer) in model.layers.iter_mut().enumerate() {
            let (inputs, outputs) = (SIZES[number], SIZES[number + 1]);
            let (weight, bias) = workload::linear(number as u64, inputs, outputs);
            layer.weight = Tensor::new([inputs, outputs], weight);
            layer.bias = Some(Tensor::from(bias));
        }
    }
    model
}

/// Returns the part of the examples that the model recognises.
fn tested(model: &Mlp, (x, y): &Examples) -> f32 {
    accuracy(&model.forward(x), y).item()
}

/// The model, the state of the optimizer, and the images and digits of a batch.
type Step = (Mlp, Optimizer<Mlp>, Tensor, Tensor);

/// One step of training: returns the new model and optimizer, and the loss before the step. If `shared` is true, each device
/// has a part of the batch, and all devices take the mean of their gradients.
fn step((mut model, mut optimizer, x, y): Step, shared: bool) -> (Mlp, Optimizer<Mlp>, Tensor) {
    let loss = |model: &Mlp| softmax_cross_entropy(&model.forward(&x), &y).mean();
    let (mut loss, mut gradient) = value_and_grad(loss)(&model);
    if shared {
        (loss, gradient) = pmean(&(loss, gradient), "data");
    }
    optimizer.update(&mut model, &gradient);
    (model, optimizer, loss)
}

/// Returns the compiled step.
fn compiled(devices: &Devices) -> impl Fn(Step) -> (Mlp, Optimizer<Mlp>, Tensor) {
    let alone = jit(|state| step(state, false));
    // The model is on all devices, and the batch is divided.
    let shared = devices.mesh.as_ref().map(|mesh| {
        let shared = spmd(|state| step(state, true)).over(mesh);
        shared.in_axes("data", (None, None, 0, 0))
    });
    move |state| match &shared {
        None => alone(state),
        Some(shared) => shared(state),
    }
}

/// Trains the model. Calls `record` after each step, with the number of the step, the loss before the step and the new state.
fn train(
    options: &Options,
    devices: &Devices,
    batches: &Batches<Arrays<Examples>>,
    model: Mlp,
    mut record: impl FnMut(usize, &Tensor, &State, &mut Progress) -> Outcome,
) -> Result<State, Box<dyn std::error::Error>> {
    let step = compiled(devices);
    let optimizer = Optimizer::new(&model, adam(1e-3));
    let mut state = (model, optimizer, batches.start());
    if options.resume {
        state = checkpoint::load(options.out.join("digits.safetensors"), &state)?;
        // A run with another seed is refused here, even if no step is left.
        drop(batches.try_resume(&state.2)?);
    }
    let (_, _, position) = &state;
    let mut number = position.epoch() * batches.per_epoch() + position.batch();
    let mut progress = if options.quiet || devices.is_silent {
        Progress::hidden()
    } else {
        Progress::new(options.epochs * batches.per_epoch()).resumed_at(number)
    };
    while state.2.epoch() < options.epochs {
        for (next, (x, y)) in batches.resume(&state.2) {
            let (model, optimizer, loss) = step((state.0, state.1, x, y));
            state = (model, optimizer, next);
            number += 1;
            progress.step();
            record(number, &loss, &state, &mut progress)?;
        }
    }
    Ok(state)
}

type Outcome = Result<(), Box<dyn std::error::Error>>;

/// Trains the model with files: metrics of each step, checkpoints, and a picture of the metrics. Returns the model that was
/// loaded from the last checkpoint.
fn recorded(
    options: &Options,
    devices: &Devices,
    batches: &Batches<Arrays<Examples>>,
    model: Mlp,
    training: &Examples,
    test: &Examples,
) -> Result<Mlp, Box<dyn std::error::Error>> {
    std::fs::create_dir_all(&options.out)?;
    let [file, metrics] =
        ["digits.safetensors", "metrics.jsonl"].map(|name| options.out.join(name));
    let template = (
        model.clone(),
        Optimizer::new(&model, adam(1e-3)),
        batches.start(),
    );
    let mut log = if options.resume {
        let (_, _, position) = checkpoint::load(&file, &template)?;
        let done = position.epoch() * batches.per_epoch() + position.batch();
        MetricsLog::resume(&metrics, done)?
    } else {
        MetricsLog::create(&metrics)?
    };
    let state = train(
        options,
        devices,
        batches,
        model,
        |number, loss, state, progress| {
            let mut values = vec![("loss", loss.item::<f32>())];
            let (model, _, position) = state;
            if position.batch() == 0 {
                values.push(("training accuracy", tested(model, training)));
                values.push(("test accuracy", tested(model, test)));
                progress.report(
                    format_args!("epoch {:2}", position.epoch()),
                    values.iter().copied(),
                );
            }
            log.write(number, values)?;
            if number % options.save_every == 0 {
                checkpoint::save(&file, state)?;
            }
            if options.stop_after == Some(number) {
                std::process::exit(3);
            }
            Ok(())
        },
    )?;
    checkpoint::save(&file, &state)?;
    println!("checkpoint: {}", file.display());
    let records = MetricsLog::read(&metrics)?;
    let loss = Curves::new("loss").axis("step").metric("loss", &records);
    let accuracies = Curves::new("accuracy").axis("step");
    let accuracies = accuracies.metric("training accuracy", &records);
    let picture = options.out.join("digits.svg");
    save_curves(
        &picture,
        &[loss, accuracies.metric("test accuracy", &records)],
    )?;
    println!("learning curves: {}", picture.display());
    let fresh = Mlp::new(&SIZES, Activation::Relu, &mut Rngs::new(options.seed + 1));
    let template = (
        fresh.clone(),
        Optimizer::new(&fresh, adam(1e-3)),
        batches.start(),
    );
    Ok(checkpoint::load(&file, &template)?.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accuracy_of(arguments: &[&str]) -> f32 {
        let arguments = arguments.iter().map(|argument| (*argument).to_owned());
        let options = Options::parse(arguments).ok().flatten();
        run(&options.expect("options"))
            .ok()
            .flatten()
            .expect("an accuracy")
    }

    #[test]
    fn digits_are_recognised() {
        assert!(accuracy_of(&["--quiet"]) >= 0.96);
    }

    /// The accuracy is that of the programs of other libraries in `benches`.
    #[test]
    fn workload_of_the_benchmark_has_its_accuracy() {
        let accuracy = accuracy_of(&["--quiet", "--workload-d"]);
        assert!((accuracy - 0.975).abs() < 1e-6, "{accuracy}");
    }
}
