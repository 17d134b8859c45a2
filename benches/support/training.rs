//! The training cases: a jitted step of Adam on MLPs and transformers, with the data and the initial parameters all peers have.
//!
//! The benchmark measures them. A test compares the losses on a device with those of the host.

#[path = "mlp.rs"]
mod mlp;
#[path = "transformer.rs"]
mod transformer;
#[path = "../../examples/digits/workload.rs"]
mod workload;

use pytree::SelectPart;
use pytree::collectives::pmean;
use pytree::device::{Device, Mesh, device_put};
use pytree::nn::convert_floats;
use pytree::prelude::*;
use pytree::spmd;
use pytree::transform::Traceable;

use transformer::Transformer;

/// The cases for CPUs.
#[allow(dead_code, reason = "the tests name their cases")]
pub const SMALL: [&str; 4] = ["C1", "C2", "C3", "C4"];

/// The cases for accelerators.
#[allow(dead_code, reason = "the tests name their cases")]
pub const LARGE: [&str; 2] = ["mlp4096", "transformer1024"];

/// A training run. Each call makes a step, and returns its loss.
pub type Steps = Box<dyn FnMut() -> Tensor>;

/// Where the steps run.
#[derive(Clone, Debug)]
pub enum Devices {
    One(Device),
    /// The devices of a mesh with the axis `data`, which divides each batch.
    #[allow(dead_code, reason = "the tests use one device")]
    Divided(Mesh),
}

impl Devices {
    pub fn device(&self) -> &Device {
        match self {
            Self::One(device) => device,
            Self::Divided(mesh) => mesh.device(),
        }
    }

    /// Puts a batch where the steps expect it.
    fn put(&self, batch: (Tensor, Tensor)) -> (Tensor, Tensor) {
        match self {
            Self::One(device) => device_put(&batch, device),
            Self::Divided(mesh) => {
                let unchanged = spmd(|batch: (Tensor, Tensor)| batch).over(mesh);
                unchanged.in_axes("data", 0).out_axes("data", 0)(batch)
            }
        }
    }
}

/// Returns a training run with parameters and inputs of a dtype, or `None` if no case has this name.
pub fn steps(name: &str, dtype: DType, place: &Devices) -> Option<Steps> {
    let mlp = |sizes: [usize; 4], batch| {
        let data = batches(&[batch, sizes[0]], batch, 10);
        let model = mlp::model(&sizes);
        run(model, &data, dtype, place, |model, x| model.forward(x))
    };
    let transformer = |sizes: transformer::Sizes| {
        let shape = [sizes.batch, sizes.tokens, sizes.width];
        let data = batches(&shape, sizes.batch * sizes.tokens, sizes.classes as u64);
        let model = Transformer::new(sizes);
        run(model, &data, dtype, place, |model, x| model.forward(x))
    };
    Some(match name {
        "C1" => mlp([64, 128, 128, 10], 64),
        "C2" => mlp([784, 512, 512, 10], 128),
        "C3" => mlp([784, 2048, 2048, 10], 256),
        "C4" => transformer(transformer::C4),
        "mlp4096" => mlp([4096, 4096, 4096, 10], 4096),
        "transformer1024" => transformer(transformer::LARGE),
        _ => return None,
    })
}

/// Returns a loss as a number, after the device has computed it.
pub fn number(loss: &Tensor) -> f64 {
    loss.to_host().convert(DType::F64).item()
}

/// Returns four batches of inputs with this shape, each with so many labels.
fn batches(shape: &[usize], labels: usize, classes: u64) -> Vec<(Tensor, Tensor)> {
    (0..4)
        .map(|k| {
            let x = workload::uniform(10 + k, shape.iter().product(), 1.0);
            let y = workload::labels(20 + k, labels, classes);
            (Tensor::new(shape, x), Tensor::from(y))
        })
        .collect()
}

type Step<M> = (M, Optimizer<M>, Tensor, Tensor);
type Next<M> = (M, Optimizer<M>, Tensor);

/// Makes a step with a batch, or with the part of it that a device has along `axis`.
fn step<M: Module + Traceable + SelectPart<Tensor> + Clone>(
    (mut model, mut optimizer, x, y): Step<M>,
    logits: fn(&M, &Tensor) -> Tensor,
    axis: Option<&str>,
) -> Next<M> {
    let loss = |model: &M| softmax_cross_entropy(&logits(model, &x), &y).mean();
    let (mut loss, mut gradient) = value_and_grad(loss)(&model);
    if let Some(axis) = axis {
        (loss, gradient) = pmean(&(loss, gradient), axis);
    }
    optimizer.update(&mut model, &gradient);
    (model, optimizer, loss)
}

#[allow(
    clippy::redundant_closure,
    reason = "a compiled function can be called, but is not a closure"
)]
fn run<M: Module + Traceable + SelectPart<Tensor> + Clone + 'static>(
    model: M,
    batches: &[(Tensor, Tensor)],
    dtype: DType,
    place: &Devices,
    logits: fn(&M, &Tensor) -> Tensor,
) -> Steps {
    let step: Box<dyn Fn(Step<M>) -> Next<M>> = match place {
        Devices::One(device) => {
            let step = jit(move |state| step(state, logits, None)).on(device);
            Box::new(move |state| step(state))
        }
        Devices::Divided(mesh) => {
            let step = spmd(move |state| step(state, logits, Some("data"))).over(mesh);
            let step = step.in_axes("data", (None, None, 0, 0));
            Box::new(move |state| step(state))
        }
    };
    let model = convert_floats(&model, dtype);
    let optimizer = Optimizer::new(&model, adam(1e-3));
    let batches = batches.iter();
    let batches = batches.map(|(x, y)| place.put((x.convert(dtype), y.clone())));
    let batches: Vec<(Tensor, Tensor)> = batches.collect();
    let mut state = Some(device_put(&(model, optimizer), place.device()));
    let mut count = 0;
    Box::new(move || {
        let (x, y) = batches[count % 4].clone();
        count += 1;
        let (model, optimizer) = state.take().expect("the state of the step before");
        let (model, optimizer, loss) = step((model, optimizer, x, y));
        state = Some((model, optimizer));
        loss
    })
}
