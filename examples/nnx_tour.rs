//! A tour of functions that Flax NNX has for models: partitions, intermediate values, and gradients with respect to
//! intermediate values.
//!
//! Run it with `cargo run --example nnx_tour`.

use pytree::Axes;
use pytree::Partition;
use pytree::TreeError;
use pytree::kind::{Intermediate, Perturbation, RngState};
use pytree::nn::{NormOptions, Perturbed, Sown, VarianceFormula, capture, gelu, relu};
use pytree::prelude::*;
use pytree::random::{reseed, with_rngs};

/// A layer with dropout and running statistics, which stores the mean of its output.
#[derive(Module, Clone, Debug)]
struct Block {
    linear: Linear,
    norm: BatchNorm,
    dropout: Dropout,
    #[state(Intermediate)]
    y_mean: Sown,
}

impl Block {
    fn new(inputs: usize, outputs: usize, rngs: &mut Rngs) -> Self {
        // Flax's formula, whose rounding errors its document prints.
        let options = NormOptions {
            variance_formula: VarianceFormula::Fast,
            ..NormOptions::default()
        };
        Self {
            linear: Linear::new(inputs, outputs, rngs),
            norm: BatchNorm::with_options(outputs, options, rngs),
            dropout: Dropout::new(0.1, rngs),
            y_mean: Sown::new(),
        }
    }

    fn forward(&mut self, x: &Tensor) -> Tensor {
        let x = self.norm.forward(&self.linear.forward(x));
        let y = relu(&self.dropout.forward(&x));
        self.y_mean.sow(y.mean());
        y
    }
}

/// Three blocks.
#[derive(Module, Clone, Debug)]
pub(crate) struct Blocks {
    blocks: Vec<Block>,
}

impl Blocks {
    pub(crate) fn new(count: usize, dim: usize, rngs: &mut Rngs) -> Self {
        let blocks = (0..count).map(|_| Block::new(dim, dim, rngs));
        Self {
            blocks: blocks.collect(),
        }
    }

    pub(crate) fn forward(&mut self, x: &Tensor) -> Tensor {
        let blocks = self.blocks.iter_mut();
        blocks.fold(x.clone(), |x, block| block.forward(&x))
    }
}

/// Removes the values that a forward pass stored in the model.
fn sow_and_pop() -> Result<(), TreeError> {
    println!("# sow and pop");
    let mut model = Blocks::new(3, 20, &mut Rngs::new(0));
    let x = Tensor::ones(DType::F32, [10, 20]);
    model.forward(&x);
    let intermediates = partition::pop(&mut model, &Filter::state::<Intermediate>())?;
    println!("{}", intermediates.state());

    println!("# capture, of a compiled function");
    let filter = Filter::state::<Intermediate>();
    let run = jit(move |(mut model, x): (Blocks, Tensor)| {
        let (y, captured) = capture(&mut model, &filter, |model| model.forward(&x));
        (model, y, captured)
    });
    for _ in 0..3 {
        let captured;
        (model, _, captured) = run((model, x.clone()));
        println!("last mean: {}", captured["blocks[2].y_mean[0]"]);
    }
    println!("compiled {} time", run.traces());
    Ok(())
}

/// A model in which a hidden value is marked, so that the loss can be differentiated with respect to it.
#[derive(Module, Clone, Debug)]
pub(crate) struct Model {
    linear1: Linear,
    linear2: Linear,
    #[state(Perturbation)]
    xgrad: Perturbed,
}

impl Model {
    pub(crate) fn new(rngs: &mut Rngs) -> Self {
        Self {
            linear1: Linear::new(2, 3, rngs),
            linear2: Linear::new(3, 4, rngs),
            xgrad: Perturbed::new(),
        }
    }

    pub(crate) fn forward(&mut self, x: &Tensor) -> Tensor {
        let x = gelu(&self.linear1.forward(x));
        let x = self.xgrad.perturb(&x);
        self.linear2.forward(&x)
    }
}

/// A part of a [`Model`]: the structure of the model, with only some of its leaves.
pub(crate) type ModelPart = Partition<Model>;

/// Splits the model into parts, differentiates the loss with respect to two of the parts, and updates the model.
pub(crate) fn train_step(
    (mut model, mut optimizer, x, y): (Model, Optimizer<Model>, Tensor, Tensor),
) -> (Model, Optimizer<Model>, Tensor, ModelPart) {
    let filters = [
        Filter::param(),
        Filter::state::<Perturbation>(),
        Filter::everything(),
    ];
    let [params, perturbations, rest] =
        partition::split(&model, filters).expect("the last filter takes everything");
    let loss = |(params, perturbations): &(ModelPart, ModelPart)| {
        let parts = [params.clone(), perturbations.clone(), rest.clone()];
        let mut model = partition::merge(parts).expect("the parts are of one model");
        (model.forward(&x) - &y).square().mean()
    };
    let both = Filter::param() | Filter::state::<Perturbation>();
    let (loss, (gradients, of_intermediates)) =
        value_and_grad(loss).wrt(both)(&(params, perturbations));
    optimizer.update(&mut model, &gradients);
    (model, optimizer, loss, of_intermediates)
}

fn perturb_and_train() {
    println!("# perturb");
    let mut rngs = Rngs::new(0);
    let mut model = Model::new(&mut rngs);
    let mut optimizer = Optimizer::new(&model, sgd(1e-1));
    let x = rngs.uniform(DType::F32, [1, 2]);
    let y = rngs.uniform(DType::F32, [1, 4]);
    let _ = model.forward(&x); // makes the perturbations
    let zeros: ModelPart = partition::filter(&model, &Filter::state::<Perturbation>());
    println!("{}", zeros.state());

    let step = jit(train_step);
    for number in 0..2 {
        let (loss, of_intermediates);
        (model, optimizer, loss, of_intermediates) = step((model, optimizer, x.clone(), y.clone()));
        println!(
            "step = {number}, loss = {loss}, gradients = {}",
            of_intermediates.state()
        );
    }
}

/// Uses random streams in a model, so that dropout drops different elements for each example of a batch.
fn streams() {
    println!("# streams");
    let mut dropout = Dropout::new(0.5, &mut Rngs::with([("dropout", 0)]));
    let mut each = with_rngs(&mut dropout, |stream| stream.split([3]));
    let axes = Axes::filter([
        (Filter::state::<RngState>(), Some(0)),
        (Filter::everything(), None),
    ]);
    let drop =
        vmap_mut(|(dropout, x): (&mut Dropout, Tensor)| dropout.forward(&x)).in_axes((axes, 0));
    println!("{}", drop((&mut each, Tensor::ones(DType::F32, [3, 6]))));
    let again = reseed(&dropout, [("dropout", 0)]);
    println!(
        "as new: {}",
        again == Dropout::new(0.5, &mut Rngs::with([("dropout", 0)]))
    );
}

fn main() -> Result<(), TreeError> {
    sow_and_pop()?;
    perturb_and_train();
    streams();
    Ok(())
}
