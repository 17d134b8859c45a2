//! Meta-learning: a start from which one step of gradient descent learns a sine wave (Finn et al. 2017, "Model-agnostic
//! meta-learning for fast adaptation of deep networks", section 5.1).
//!
//! Run it with `cargo run --release --example maml`. The gradient of the loss after a step is a gradient through a
//! gradient, and `vmap` computes both for all tasks at once. The program prints the loss on 500 other waves before the
//! step and after it. The waves have amplitudes of 0.1 to 5, so a network that always returns 0 has a loss of about 4.
//! `benches/jax_maml.py` is the same program in JAX. Its losses are the same, until the roundings of many steps add up:
//!
//! ```text
//! step     0: loss 4.833 before adaptation, 12.446 after
//! …
//! step 10000: loss 3.0… before adaptation, 0.5… after
//! ```
//!
//! `--short` trains for 100 steps instead of 10,000.

use pytree::prelude::*;

/// Waves: points to adapt to, and points to be good at afterwards.
#[derive(Pytree, Clone, Debug)]
struct Task {
    support: (Tensor, Tensor),
    query: (Tensor, Tensor),
}

const TASKS: usize = 25;
/// The number of points of each half of a task.
const POINTS: usize = 10;
/// The learning rate of the inner step.
const RATE: f64 = 0.01;

/// Draws waves with random amplitudes and phases.
fn tasks(key: &Key, count: usize) -> Task {
    let [amplitude, phase, first, second] = [0, 1, 2, 3].map(|part: u32| key.fold_in(part));
    let amplitude = amplitude.uniform_between(DType::F32, [count, 1, 1], 0.1, 5.0);
    let phase = phase.uniform_between(DType::F32, [count, 1, 1], 0.0, std::f64::consts::PI);
    let wave = |key: Key| {
        let x = key.uniform_between(DType::F32, [count, POINTS, 1], -5.0, 5.0);
        let y = &amplitude * (&x - &phase).sin();
        (x, y)
    };
    Task {
        support: wave(first),
        query: wave(second),
    }
}

fn loss(model: &Mlp, (x, y): &(Tensor, Tensor)) -> Tensor {
    mse(&model.forward(x), y)
}

/// Returns the model after one step of gradient descent.
fn adapt(model: &Mlp, points: &(Tensor, Tensor)) -> Mlp {
    let gradient = grad(|model: &Mlp| loss(model, points))(model);
    let mut adapted = model.clone();
    Optimizer::new(model, sgd(RATE)).update(&mut adapted, &gradient);
    adapted
}

/// Returns the mean loss over all tasks, before and after adaptation.
fn losses((model, tasks): (Mlp, Task)) -> (Tensor, Tensor) {
    let each = vmap(|task: Task| {
        let adapted = adapt(&model, &task.support);
        (loss(&model, &task.query), loss(&adapted, &task.query))
    });
    let (before, after) = each(tasks);
    (before.mean(), after.mean())
}

fn main() {
    let is_short = std::env::args().any(|argument| argument == "--short");
    let mut model = Mlp::new(&[1, 40, 40, 1], Activation::Relu, &mut Rngs::new(0));
    let mut optimizer = Optimizer::new(&model, adam(1e-3));
    let step = jit_mut(
        |(model, optimizer, key): (&mut Mlp, &mut Optimizer<Mlp>, Key)| {
            let tasks = tasks(&key, TASKS);
            let gradient = grad(|model: &Mlp| losses((model.clone(), tasks.clone())).1)(&*model);
            optimizer.update(model, &gradient);
        },
    );
    let unseen = tasks(&Key::new(2), 500);
    let test = jit(losses);
    let (steps, interval) = if is_short { (100, 50) } else { (10_000, 1000) };
    for number in 0..=steps {
        if number % interval == 0 {
            let (before, after) = test((model.clone(), unseen.clone()));
            let [before, after] = [before, after].map(|loss| loss.item::<f32>());
            println!("step {number:5}: loss {before:.3} before adaptation, {after:.3} after");
        }
        step((&mut model, &mut optimizer, Key::new(1).fold_in(number)));
    }
}
