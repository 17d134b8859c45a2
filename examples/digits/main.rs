//! Trains an MLP on handwritten digits, end to end: `cargo run --release --example digits`.
//!
//! The program prints a summary of the model and a progress bar, writes the learning curves and the confusion matrix as
//! a picture, saves a checkpoint, loads it into a fresh model, and tests the loaded model. The last printed line is
//! `test accuracy: 0.97…`; `--help` lists the options.

mod data;
mod options;
mod picture;
mod workload;

use std::path::Path;
use std::process::ExitCode;

use indicatif::{ProgressBar, ProgressStyle};
use pytree::nn::{accuracy, confusion_matrix, summary};
use pytree::prelude::*;
use pytree::transform::Jit;

use crate::data::{Digits, IMAGES, TRAINING};
use crate::options::{HELP, Options};
use crate::picture::Epoch;

const SIZES: [usize; 4] = [64, 128, 128, 10];
const BATCH: usize = 64;

type Step = Jit<(Mlp, Optimizer<Mlp>, Tensor, Tensor), (Mlp, Optimizer<Mlp>, Tensor)>;

fn main() -> ExitCode {
    let outcome = match Options::parse(std::env::args().skip(1)) {
        Ok(Some(options)) => run(&options),
        Ok(None) => {
            print!("{HELP}");
            Ok(())
        }
        Err(problem) => Err(problem.into()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("error: {problem}");
            ExitCode::FAILURE
        }
    }
}

/// Returns the compiled training step. The step returns the loss before the update, and the updated model and
/// optimizer.
fn step() -> Step {
    jit(
        |(mut model, mut optimizer, x, y): (Mlp, Optimizer<Mlp>, Tensor, Tensor)| {
            let loss = |model: &Mlp| softmax_cross_entropy(&model.forward(&x), &y).mean();
            let (loss, gradient) = value_and_grad(loss)(&model);
            optimizer.update(&mut model, &gradient);
            (model, optimizer, loss)
        },
    )
}

fn run(options: &Options) -> Result<(), Box<dyn std::error::Error>> {
    let digits =
        Digits::read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/data/digits.csv"))?;
    let order = if options.workload_d {
        workload::permutation(900, IMAGES)
    } else {
        shuffled(&Key::new(options.seed), IMAGES)
    };
    let (training, test) = order.split_at(TRAINING);
    let model = initial_model(options);
    if !options.quiet {
        println!("{}", summary(&model));
    }
    let (model, optimizer, history) = train(options, &digits, training, test, model);
    let (x, y) = digits.batch(test);
    let model = if options.quiet {
        model
    } else {
        reload(options, &model, optimizer)?
    };
    let logits = model.forward(&x);
    if !options.quiet {
        let confusion = confusion_matrix(&logits.argmax(-1), &y, 10);
        let file = options.out.join("digits.svg");
        picture::write(&file, &history, &confusion)?;
        println!("learning curves and confusion matrix: {}", file.display());
    }
    println!("test accuracy: {:.4}", accuracy(&logits, &y).item::<f32>());
    Ok(())
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

/// Returns the numbers in `0..count` in random order.
fn shuffled(key: &Key, count: usize) -> Vec<usize> {
    key.permutation(count)
        .to_vec::<i32>()
        .into_iter()
        .map(|at| usize::try_from(at).unwrap_or(0))
        .collect()
}

fn train(
    options: &Options,
    digits: &Digits,
    training: &[usize],
    test: &[usize],
    mut model: Mlp,
) -> (Mlp, Optimizer<Mlp>, Vec<Epoch>) {
    let mut optimizer = Optimizer::new(&model, adam(1e-3));
    let step = step();
    let predict = jit(|(model, x, y): (Mlp, Tensor, Tensor)| accuracy(&model.forward(&x), &y));
    let bar = progress_bar(options);
    let mut history = Vec::with_capacity(options.epochs);
    for epoch in 0..options.epochs {
        let order = if options.workload_d {
            workload::permutation(1000 + epoch as u64, TRAINING)
        } else {
            shuffled(
                &Key::new(options.seed).fold_in(u32::try_from(epoch + 1).unwrap_or(u32::MAX)),
                TRAINING,
            )
        };
        let mut losses = Vec::new();
        for batch in order.chunks_exact(BATCH) {
            let positions: Vec<usize> = batch.iter().map(|&at| training[at]).collect();
            let (x, y) = digits.batch(&positions);
            let loss;
            (model, optimizer, loss) = step((model, optimizer, x, y));
            losses.push(loss);
            bar.inc(1);
        }
        if options.quiet {
            continue;
        }
        let reached = |positions: &[usize]| {
            let (x, y) = digits.batch(positions);
            predict((model.clone(), x, y)).item::<f32>()
        };
        let epoch = Epoch {
            loss: losses.iter().map(Tensor::item::<f32>).sum::<f32>() / losses.len() as f32,
            training_accuracy: reached(training),
            test_accuracy: reached(test),
        };
        let reached = format!(
            "loss {:.4}, accuracy {:.4}",
            epoch.loss, epoch.test_accuracy
        );
        // Without a terminal there is no progress bar.
        if bar.is_hidden() {
            println!("epoch {:2}: {reached}", history.len() + 1);
        }
        bar.set_message(reached);
        history.push(epoch);
    }
    bar.finish();
    (model, optimizer, history)
}

fn progress_bar(options: &Options) -> ProgressBar {
    if options.quiet {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new((options.epochs * (TRAINING / BATCH)) as u64);
    if let Ok(style) = ProgressStyle::with_template("{bar:40} {pos}/{len} steps, {msg} [{elapsed}]")
    {
        bar.set_style(style);
    }
    bar
}

/// Saves the model and the optimizer, and loads the model into a new model.
fn reload(
    options: &Options,
    model: &Mlp,
    optimizer: Optimizer<Mlp>,
) -> Result<Mlp, Box<dyn std::error::Error>> {
    std::fs::create_dir_all(&options.out)?;
    let file = options.out.join("digits.safetensors");
    checkpoint::save(&file, &(model.clone(), optimizer))?;
    println!("checkpoint: {}", file.display());
    let fresh = Mlp::new(&SIZES, Activation::Relu, &mut Rngs::new(options.seed + 1));
    let template = (fresh.clone(), Optimizer::new(&fresh, adam(1e-3)));
    Ok(checkpoint::load(&file, &template)?.0)
}
