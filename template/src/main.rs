//! Trains a classifier of points on three spirals: `cargo run --release`. With `-- --resume`, it continues a run that was
//! interrupted, and ends with the same bits.

use std::error::Error;
use std::f32::consts::PI;
use std::path::Path;
use std::process::ExitCode;

use pytree::data::{Arrays, Batches, LastBatch, Position};
use pytree::nn::{accuracy, summary};
use pytree::prelude::*;
use pytree::training::{MetricsLog, Progress};

const EPOCHS: usize = 500;
const BATCH: usize = 50;
/// A checkpoint is saved after this number of epochs.
const SAVE_EVERY: usize = 25;

/// Points, `f32[examples 2]`, and their classes, `i32[examples]`.
type Examples = (Tensor, Tensor);

/// Returns points on three spirals, with noise.
fn spirals(key: &Key, examples: usize) -> Examples {
    let keys = key.split(3);
    let radius = keys[0].uniform(DType::F32, [examples]);
    let class = keys[1].randint([examples], 0, 3);
    let noise = keys[2].normal(DType::F32, [examples]) * 0.4;
    let angle = class.convert(DType::F32) * (2.0 * PI / 3.0) + &radius * 4.0 + noise;
    let points = stack(&[&radius * angle.cos(), &radius * angle.sin()], -1);
    (points, class)
}

#[derive(Module, Clone, Debug, PartialEq)]
struct Classifier {
    layers: Vec<Linear>,
    #[r#static]
    activation: Activation,
}

impl Classifier {
    fn new(rngs: &mut Rngs) -> Self {
        Self {
            layers: vec![
                Linear::new(2, 64, rngs),
                Linear::new(64, 64, rngs),
                Linear::new(64, 3, rngs),
            ],
            activation: Activation::Relu,
        }
    }

    /// Returns the logits of the classes.
    #[shapes(points = "f32[batch 2]", return = "f32[batch 3]")]
    fn forward(&self, points: &Tensor) -> Tensor {
        let x = self.activation.apply(&self.layers[0].forward(points));
        let x = self.activation.apply(&self.layers[1].forward(&x));
        self.layers[2].forward(&x)
    }
}

/// What training changes, and a checkpoint stores.
#[derive(Module, Clone, Debug, PartialEq)]
struct Training {
    model: Classifier,
    optimizer: Optimizer<Classifier>,
    position: Position,
}

impl Training {
    fn new(batches: &Batches<Arrays<Examples>>) -> Self {
        let model = Classifier::new(&mut Rngs::new(0));
        let optimizer = Optimizer::new(&model, adam(1e-3));
        let position = batches.start();
        Self {
            model,
            optimizer,
            position,
        }
    }

    /// Trains to the end of an epoch. Calls `record` after each epoch with its mean loss.
    fn run(
        &mut self,
        batches: &Batches<Arrays<Examples>>,
        epochs: usize,
        mut record: impl FnMut(&Self, f32) -> Result<(), Box<dyn Error>>,
    ) -> Result<(), Box<dyn Error>> {
        type Step<'a> = (&'a mut Classifier, &'a mut Optimizer<Classifier>, Examples);
        let step = jit_mut(|(model, optimizer, (x, y)): Step| {
            let loss = |model: &Classifier| softmax_cross_entropy(&model.forward(&x), &y).mean();
            let (loss, gradient) = value_and_grad(loss)(&*model);
            optimizer.update(model, &gradient);
            loss
        });
        while self.position.epoch() < epochs {
            let mut losses = Vec::new();
            for item in batches.try_resume(&self.position)? {
                let (next, examples) = item?;
                losses.push(step((&mut self.model, &mut self.optimizer, examples)));
                self.position = next;
            }
            record(self, stack(&losses, 0).mean().item())?;
        }
        Ok(())
    }
}

fn batches(examples: usize) -> Batches<Arrays<Examples>> {
    let batches = Batches::new(spirals(&Key::new(1), examples), BATCH);
    batches.shuffle(&Key::new(2)).last_batch(LastBatch::Drop)
}

fn train(resume: bool) -> Result<(), Box<dyn Error>> {
    let folder = Path::new("run");
    let [file, metrics] = ["checkpoint.safetensors", "metrics.jsonl"].map(|name| folder.join(name));
    let batches = batches(5000);
    let (x, y) = spirals(&Key::new(3), 1000);
    let tested = |model: &Classifier| accuracy(&model.forward(&x), &y).item::<f32>();

    let mut training = Training::new(&batches);
    let mut log = if resume {
        training = checkpoint::load(&file, &training)?;
        MetricsLog::resume(&metrics, training.position.epoch())?
    } else {
        std::fs::create_dir_all(folder)?;
        println!("{}", summary(&training.model));
        MetricsLog::create(&metrics)?
    };
    let mut progress = Progress::new(EPOCHS).resumed_at(training.position.epoch());
    training.run(&batches, EPOCHS, |training, loss| {
        let epoch = training.position.epoch();
        let values = [("loss", loss), ("accuracy", tested(&training.model))];
        log.write(epoch, values)?;
        progress.step();
        if epoch % SAVE_EVERY == 0 || epoch == EPOCHS {
            checkpoint::save(&file, training)?;
            progress.report(format_args!("epoch {epoch:3}"), values);
        }
        Ok(())
    })?;
    println!("checkpoint: {}", file.display());
    println!("test accuracy: {:.4}", tested(&training.model));
    Ok(())
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let outcome = match arguments.as_slice() {
        [] => train(false),
        [option] if option == "--resume" => train(true),
        _ => Err("the only option is --resume".into()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resumed_training_has_the_same_bits() -> Result<(), Box<dyn Error>> {
        let batches = batches(200);
        let mut whole = Training::new(&batches);
        whole.run(&batches, 4, |_, _| Ok(()))?;

        let file = std::env::temp_dir().join(format!("resumed-{}.safetensors", std::process::id()));
        let mut half = Training::new(&batches);
        half.run(&batches, 2, |_, _| Ok(()))?;
        checkpoint::save(&file, &half)?;
        let mut resumed = checkpoint::load(&file, &Training::new(&batches))?;
        std::fs::remove_file(&file)?;
        resumed.run(&batches, 4, |_, _| Ok(()))?;
        assert_eq!(resumed, whole);
        Ok(())
    }
}
