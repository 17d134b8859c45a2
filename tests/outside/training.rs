//! A model of everything together: trained on the host, on a device and in several processes, stopped and resumed.

use pytree::collectives::pmean;
use pytree::data::Batches;
use pytree::device::{Mesh, device_put};
use pytree::optim::{Chain, chain, scale_by_learning_rate};
use pytree::prelude::*;
use pytree::{nodes, spmd};

use crate::container::ByName;
use crate::engine::card;
use crate::layer::{Calls, Smoothed, Time};
use crate::optimizer::{halving, sign_of_mean};
use crate::processes::in_processes;
use crate::source::Waves;

/// Sums over time in both directions, and a linear layer of what both return.
#[derive(Module, Clone, Debug, PartialEq)]
struct Net {
    branches: ByName<Smoothed<Linear>>,
    head: Linear,
}

impl Net {
    fn new(seed: u64) -> Self {
        let mut rngs = Rngs::new(seed);
        let mut branch = |time| Smoothed::new(Linear::new(8, 8, &mut rngs), time);
        let branches = ByName::new([
            ("onward", branch(Time::Onward)),
            ("reversed", branch(Time::Reversed)),
        ]);
        Self {
            branches,
            head: Linear::new(8, 1, &mut rngs),
        }
    }

    /// Applies the model: `x: [batch, 8]` to `[batch, 1]`.
    #[track_caller]
    fn forward(&mut self, x: &Tensor) -> Tensor {
        let outputs = self
            .branches
            .values_mut()
            .map(|branch| pytree::nn::Forward::forward(branch, x));
        let sum = outputs
            .reduce(|sum, output| sum + output)
            .expect("two branches");
        self.head.forward(&sum.tanh())
    }
}

type Step = (Net, Optimizer<Net>, Tensor, Tensor);
type Trained = (Net, Optimizer<Net>);

fn start() -> Trained {
    let net = Net::new(0);
    let optimizer = Optimizer::new(&net, descent());
    (net, optimizer)
}

fn descent() -> Chain {
    chain([sign_of_mean(0.9), scale_by_learning_rate(halving(0.02, 20))])
}

fn batches() -> Batches<Waves> {
    Batches::from_source(
        Waves {
            count: 48,
            damaged: None,
        },
        12,
    )
    .shuffle(&Key::new(1))
}

/// One step, in which `combine` combines the loss and the gradient with those of other processes.
fn step(
    (mut net, mut optimizer, x, y): Step,
    combine: impl Fn(&(Tensor, Gradient)) -> (Tensor, Gradient),
) -> (Trained, Tensor) {
    let loss = |net: &mut Net| mse(&net.forward(&x), &y);
    let found = value_and_grad_mut(loss)(&mut net);
    let (loss, gradient) = combine(&found);
    optimizer.update(&mut net, &gradient);
    ((net, optimizer), loss)
}

type Gradient = Partition<Net>;

/// Trains for some epochs, and returns the losses.
fn train((mut net, mut optimizer): Trained, epochs: std::ops::Range<usize>) -> (Trained, Vec<f32>) {
    let compiled = jit(|state: Step| step(state, Clone::clone));
    let mut losses = Vec::new();
    for epoch in epochs {
        for (x, y) in batches().epoch(epoch) {
            let (state, loss) = compiled((net, optimizer, x, y));
            (net, optimizer) = state;
            losses.push(loss.item());
        }
    }
    assert_eq!(compiled.traces(), 1);
    ((net, optimizer), losses)
}

#[test]
fn model_learns_and_continues_from_a_checkpoint() {
    nodes::check_impl(&Net::new(0)).unwrap();
    let ((net, optimizer), losses) = train(start(), 0..20);
    assert!(losses[79] < losses[0] / 10.0, "{losses:?}");
    let calls = partition::filter(&net, &Filter::state::<Calls>());
    assert_eq!(calls["branches['onward'].calls"].item::<i32>(), 80);
    let (half, first) = train(start(), 0..10);
    let path =
        std::env::temp_dir().join(format!("pytree-outside-{}.safetensors", std::process::id()));
    checkpoint::save(&path, &half).unwrap();
    let loaded = checkpoint::load(&path, &start()).unwrap();
    std::fs::remove_file(&path).unwrap();
    let (resumed, second) = train(loaded, 10..20);
    assert_eq!([first, second].concat(), losses);
    assert_eq!(resumed.0, net);
    assert!(diff(&resumed.1, &optimizer).is_empty());
}

#[test]
fn device_trains_like_the_host() {
    let (device, memory) = card(10_000);
    let ((expected, _), on_host) = train(start(), 0..3);
    let ((found, _), on_device) = train(device_put(&start(), &device), 0..3);
    assert_eq!(found.head.weight.device(), &device);
    assert!(memory.programs() > 0);
    assert_eq!((on_device, found), (on_host, expected));
}

#[test]
fn processes_train_like_one() {
    let expected = train(start(), 0..3).1;
    let of_all = in_processes(3, |all| {
        let mesh = Mesh::new(all, [("data", 3)]);
        let step = |state: Step| step(state, |found| pmean(found, "data"));
        let step = spmd(step).over(&mesh).in_axes("data", (None, None, 0, 0));
        let (mut net, mut optimizer) = start();
        let mut losses: Vec<f32> = Vec::new();
        for (x, y) in (0..3).flat_map(|epoch| batches().epoch(epoch)) {
            let (state, loss) = step((net, optimizer, x, y));
            (net, optimizer) = state;
            losses.push(loss.item());
        }
        losses
    });
    assert!(of_all.iter().all(|losses| *losses == of_all[0]));
    for (found, expected) in of_all[0].iter().zip(&expected) {
        assert!(
            (found - expected).abs() < 1e-4 * expected.abs().max(1.0),
            "{found} and not {expected}"
        );
    }
}

#[test]
fn ensemble_trains_under_vmap() {
    let nets = stack(&[Net::new(0), Net::new(1)], 0);
    let mut nets_and_optimizers = vmap(|net: Net| {
        let optimizer = Optimizer::new(&net, descent());
        (net, optimizer)
    })(nets);
    let compiled = jit(vmap(|(state, x, y): (Trained, Tensor, Tensor)| {
        step((state.0, state.1, x, y), Clone::clone)
    })
    .in_axes((0, None, None)));
    let mut losses = Vec::new();
    for (x, y) in (0..3).flat_map(|epoch| batches().epoch(epoch)) {
        let (state, loss) = compiled((nets_and_optimizers, x, y));
        nets_and_optimizers = state;
        losses.push(loss.index(ix![0]).item::<f32>());
    }
    let expected = train(start(), 0..3).1;
    for (found, expected) in losses.iter().zip(&expected) {
        assert!(
            (found - expected).abs() < 1e-4 * expected.abs().max(1.0),
            "{found} and not {expected}"
        );
    }
}
