//! What a visitor does: trains a network, changes it, and looks inside. Nothing here knows of JavaScript.

use pytree::checkpoint::{self, Bytes};
use pytree::data::{Arrays, Batches, LastBatch, Position};
use pytree::nn::{accuracy, softmax, summary};
use pytree::optim::global_norm;
use pytree::platform;
use pytree::prelude::*;
use pytree::transform::{JitMut, Mut};
use serde_json::{Value, json};

use crate::digits::{self, Examples};
use crate::network::Network;

const BATCH: usize = 32;
const PIXELS: usize = 64;

/// What a step of training changes, and what a checkpoint has.
#[derive(Module, Clone, Debug)]
struct Run {
    network: Network,
    optimizer: Optimizer<Network>,
    /// The paths of the layers that are not trained. The field is static, so a compiled step traces again after a change.
    #[r#static]
    frozen: Vec<String>,
}

impl Run {
    fn new(network: Network, frozen: Vec<String>) -> Result<Self, String> {
        let trained = trained(&frozen)?;
        let optimizer = Optimizer::try_with_filter(&network, adam(1e-3), &trained);
        Ok(Self {
            optimizer: optimizer.map_err(|error| error.to_string())?,
            network,
            frozen,
        })
    }
}

/// Accepts the parameters outside of the frozen layers.
fn trained(frozen: &[String]) -> Result<Filter, String> {
    let frozen: Result<Vec<_>, _> = frozen.iter().map(Filter::try_path).collect();
    Ok(Filter::param() & !Filter::any_of(frozen.map_err(|error| error.to_string())?))
}

fn mean_loss(network: &mut Network, x: &Tensor, y: &Tensor) -> Tensor {
    softmax_cross_entropy(&network.forward(x), y).mean()
}

/// One step of training. Returns the loss before the step.
fn step((run, x, y): (&mut Run, Tensor, Tensor)) -> Tensor {
    let trained = trained(&run.frozen).expect("the paths were checked when the run began");
    let loss = |network: &mut Network| mean_loss(network, &x, &y);
    let (loss, gradient) = value_and_grad_mut(loss).wrt(trained)(&mut run.network);
    run.optimizer.update(&mut run.network, &gradient);
    loss
}

/// A network in training, with the digits.
pub struct Lesson {
    name: String,
    activation: Activation,
    seed: u64,
    run: Run,
    position: Position,
    step: JitMut<(Mut<Run>, Tensor, Tensor), Tensor>,
    batches: Batches<Arrays<Examples>>,
    test: Examples,
}

impl Lesson {
    /// Begins with an MLP whose activation is `relu`.
    pub fn new(seed: u64) -> Result<Self, String> {
        let keys = Key::new(seed).split(2);
        let [training, test] = digits::load(&keys[0]).map_err(|error| error.to_string())?;
        let batches = Batches::new(training, BATCH).last_batch(LastBatch::Drop);
        let batches = batches.shuffle(&keys[1]);
        let (name, activation) = ("mlp".to_owned(), Activation::Relu);
        Ok(Self {
            run: Run::new(
                Network::new(&name, activation, &mut Rngs::new(seed))?,
                Vec::new(),
            )?,
            name,
            activation,
            seed,
            position: batches.start(),
            step: jit_mut(step),
            batches,
            test,
        })
    }

    /// Starts again with new weights of another network: `mlp` or `cnn`.
    pub fn set_network(&mut self, name: &str) -> Result<(), String> {
        let network = Network::new(name, self.activation, &mut Rngs::new(self.seed))?;
        self.run = Run::new(network, Vec::new())?;
        name.clone_into(&mut self.name);
        self.position = self.batches.start();
        Ok(())
    }

    /// Goes on with the same weights and another activation: `relu`, `tanh`, `gelu` or `silu`.
    pub fn set_activation(&mut self, name: &str) -> Result<(), String> {
        self.activation = match name {
            "relu" => Activation::Relu,
            "tanh" => Activation::Tanh,
            "gelu" => Activation::Gelu,
            "silu" => Activation::Silu,
            _ => return Err(format!("there is no activation `{name}` here")),
        };
        self.run.network.set_activation(self.activation);
        Ok(())
    }

    /// Goes on with the same weights, and trains only the layers that are not at or below these paths. The optimizer starts anew.
    pub fn freeze(&mut self, paths: Vec<String>) -> Result<(), String> {
        self.run = Run::new(self.run.network.clone(), paths)?;
        Ok(())
    }

    /// Trains until the end of the epoch.
    pub fn train(&mut self) -> Value {
        let begin = platform::now();
        let mut losses = Vec::new();
        for (next, (x, y)) in self.batches.resume(&self.position) {
            losses.push((self.step)((&mut self.run, x, y)).item::<f32>());
            self.position = next;
        }
        let time = platform::now().saturating_sub(begin);
        let (x, y) = &self.test;
        let mut network = eval(&self.run.network);
        json!({
            "epoch": self.position.epoch(),
            "losses": losses,
            "accuracy": accuracy(&network.forward(x), y).item::<f32>(),
            "milliseconds": time.as_secs_f64() * 1000.0,
            "traces": self.step.traces(),
            "reason": self.step.why_retraced().map(|reason| reason.to_string()),
        })
    }

    /// Returns the probability of each digit for an image of 8 × 8 pixels from 0 to 1.
    pub fn classify(&self, pixels: Vec<f32>) -> Result<Vec<f32>, String> {
        if pixels.len() != PIXELS {
            return Err(format!(
                "an image has {PIXELS} pixels, and this one has {}",
                pixels.len()
            ));
        }
        let image = Tensor::new([1, PIXELS], pixels);
        let logits = eval(&self.run.network).forward(&image);
        Ok(softmax(&logits, -1).to_vec())
    }

    /// Returns the leaves of the network: path, kind, dtype and shape, and whether a step of training changes the leaf.
    pub fn leaves(&self) -> Value {
        let trained = trained(&self.run.frozen).unwrap_or(Filter::nothing());
        let trained: Partition<Network> = partition::filter(&self.run.network, &trained);
        let rows = summary(&self.run.network).rows;
        let rows = rows.iter().map(|row| {
            json!({
                "path": row.path,
                "kind": row.kind.map(|kind| kind.to_string()),
                "array": row.array.as_ref().map(ToString::to_string),
                "elements": row.elements(),
                "trained": trained.get(&row.path).is_ok(),
            })
        });
        rows.collect()
    }

    /// Returns what `jit` recorded: the jaxpr of a step of training.
    pub fn jaxpr(&mut self) -> String {
        let (x, y) = self.first_batch();
        self.step.jaxpr((&mut self.run, x, y)).to_string()
    }

    /// Returns the gradient of the loss of one batch with respect to the leaf at a path: its shape and its elements.
    pub fn gradient(&self, path: &str) -> Result<Value, String> {
        let (x, y) = self.first_batch();
        let loss = |network: &mut Network| mean_loss(network, &x, &y);
        let (_, gradient) = value_and_grad_mut(loss)(&mut self.run.network.clone());
        let leaf = gradient.get(path).map_err(|error| error.to_string())?;
        Ok(json!({ "shape": leaf.shape(), "values": leaf.to_vec::<f32>() }))
    }

    /// Returns the first images of the test data, and for each of them the norm of the gradient of its loss.
    pub fn norms_of_gradients(&self) -> Value {
        const COUNT: usize = 10;
        let (x, y) = (
            self.test.0.index(ix![..COUNT]),
            self.test.1.index(ix![..COUNT]),
        );
        let network = eval(&self.run.network);
        let norm = |(x, y): (Tensor, Tensor)| {
            let example = |network: &mut Network| {
                mean_loss(network, &x.reshape([1, PIXELS]), &y.reshape([1]))
            };
            global_norm(&value_and_grad_mut(example)(&mut network.clone()).1)
        };
        json!({
            "images": x.to_vec::<f32>(),
            "digits": y.to_vec::<i32>(),
            "norms": vmap(norm)((x, y)).to_vec::<f32>(),
        })
    }

    /// Returns a checkpoint of the network, its optimizer and the position in the data.
    pub fn save(&self) -> Result<Vec<u8>, String> {
        checkpoint::to_bytes(&(self.run.clone(), self.position.clone()))
            .map_err(|error| error.to_string())
    }

    /// Reads a checkpoint, of which nothing is applied if it does not fit.
    pub fn load(&mut self, bytes: &[u8]) -> Result<(), String> {
        let template = (self.run.clone(), self.position.clone());
        let loaded = checkpoint::load(Bytes(bytes), &template);
        (self.run, self.position) = loaded.map_err(|error| error.to_string())?;
        Ok(())
    }

    /// Calls the network with images of another size, which is an error with a message.
    pub fn mistake(&self) -> Tensor {
        let images = Tensor::zeros(DType::F32, [1, 28 * 28]);
        self.run.network.clone().forward(&images)
    }

    fn first_batch(&self) -> Examples {
        let first = self.batches.epoch(0).next();
        first.expect("the training data has more than one batch")
    }
}
