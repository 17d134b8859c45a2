//! Meta-learning: the gradient through an inner loop of gradient steps (Finn et al. 2017, "MAML").

use pytree::control::{ScanOptions, scan_with};
use pytree::nn::convert_floats;
use pytree::prelude::*;

/// Examples for the adaptation of a model, and examples for the loss after the adaptation.
#[derive(Pytree, Clone, Debug)]
struct Task {
    support: (Tensor, Tensor),
    query: (Tensor, Tensor),
}

/// The initial model for all tasks, and the learning rate of the inner loop. The model and the learning rate are both
/// learnt.
#[derive(Module, Clone, Debug)]
struct Start {
    model: Mlp,
    #[param]
    rate: Tensor,
}

const INNER_STEPS: usize = 3;

fn loss(model: &Mlp, (x, y): &(Tensor, Tensor)) -> Tensor {
    mse(&model.forward(x), y)
}

impl Start {
    fn new() -> Self {
        let mut rngs = Rngs::new(0);
        let model = Mlp::new(&[1, 8, 1], Activation::Tanh, &mut rngs);
        Self {
            model: convert_floats(&model, DType::F64),
            rate: Tensor::from(0.1),
        }
    }

    /// Returns the model after the inner loop, which uses an optimizer.
    fn adapted(&self, support: &(Tensor, Tensor)) -> Mlp {
        let mut model = self.model.clone();
        let mut optimizer = Optimizer::new(&model, sgd(0.0));
        optimizer.set_learning_rate(self.rate.clone());
        for _ in 0..INNER_STEPS {
            let gradient = grad(|model: &Mlp| loss(model, support))(&model);
            optimizer.update(&mut model, &gradient);
        }
        model
    }

    /// Returns the same model, computed by a `scan` with a handwritten update.
    fn adapted_by_scan(&self, support: &(Tensor, Tensor)) -> Mlp {
        let step = |model: Mlp, ()| {
            let gradient = grad(|model: &Mlp| loss(model, support))(&model);
            let params = partition::filter(&model, &Filter::param());
            let moved = params.map2(&gradient, |weight, slope| weight - slope * &self.rate);
            let model = partition::replace(&model, &moved.expect("the parts have the same leaves"));
            (model.expect("the parts are of this model"), ())
        };
        let options = ScanOptions::new().length(INNER_STEPS);
        scan_with(options, step, self.model.clone(), ()).0
    }

    /// Returns the model for a gradient of first order: the gradient of each inner step counts as a constant.
    fn adapted_at_first_order(&self, support: &(Tensor, Tensor)) -> Mlp {
        let mut model = self.model.clone();
        for _ in 0..INNER_STEPS {
            let gradient = grad(|model: &Mlp| loss(model, support))(&model);
            let params = partition::filter(&model, &Filter::param());
            let moved = params.map2(&gradient, |weight, slope| {
                weight - slope.stop_gradient() * &self.rate
            });
            partition::update(&mut model, &moved.unwrap()).unwrap();
        }
        model
    }
}

/// Returns the mean of the losses of all tasks after adaptation.
fn meta_loss(start: &Start, tasks: &Task, adapt: fn(&Start, &(Tensor, Tensor)) -> Mlp) -> Tensor {
    let of_task = |task: Task| loss(&adapt(start, &task.support), &task.query);
    vmap(of_task)(tasks.clone()).mean()
}

/// Returns tasks. Each task is a sine wave with its own phase.
fn tasks(seed: u64, count: usize) -> Task {
    let mut rngs = Rngs::new(seed);
    let phase = rngs.uniform(DType::F64, [count, 1, 1]) * 3.0;
    let mut examples = |number: usize| {
        let x = rngs.normal(DType::F64, [count, number, 1]);
        let y = (&x + &phase).sin();
        (x, y)
    };
    Task {
        support: examples(5),
        query: examples(10),
    }
}

#[test]
fn meta_gradient_agrees_with_finite_differences() {
    let (start, tasks) = (Start::new(), tasks(1, 4));
    let objective = |start: &Start| meta_loss(start, &tasks, Start::adapted);
    let gradient = grad(objective)(&start);
    assert_eq!(gradient.len(), 5, "four arrays of the model, and the rate");

    let mut rngs = Rngs::new(2);
    let direction = gradient.map(|slope| rngs.normal(DType::F64, slope.shape()));
    let moved = |distance: f64| {
        let params = partition::filter(&start, &Filter::param());
        let params = params.map2(&direction, |leaf, direction| leaf + direction * distance);
        let start = partition::replace(&start, &params.unwrap()).unwrap();
        objective(&start).item::<f64>()
    };
    let slopes = gradient.map2(&direction, |slope, direction| (slope * direction).sum());
    let expected: f64 = slopes
        .unwrap()
        .leaves()
        .iter()
        .map(Tensor::item::<f64>)
        .sum();
    let found = (moved(1e-5) - moved(-1e-5)) / 2e-5;
    assert!(
        (found - expected).abs() < 1e-8 * expected.abs().max(1.0),
        "finite differences {found}, gradient {expected}"
    );
}

#[test]
fn inner_loop_by_scan_has_same_gradient() {
    let (start, tasks) = (Start::new(), tasks(1, 4));
    let of = |adapt: fn(&Start, &(Tensor, Tensor)) -> Mlp| {
        value_and_grad(|start: &Start| meta_loss(start, &tasks, adapt))(&start)
    };
    let (loss, gradient) = of(Start::adapted);
    let (scan_loss, scan_gradient) = of(Start::adapted_by_scan);
    assert!((&loss - scan_loss).abs().item::<f64>() < 1e-12);
    let difference = diff(&scan_gradient, &gradient);
    assert!(difference.within(1e-12), "{difference}");

    let (first_order_loss, first_order) = of(Start::adapted_at_first_order);
    assert!((&loss - first_order_loss).abs().item::<f64>() < 1e-12);
    assert!(
        !diff(&first_order, &gradient).within(1e-3),
        "the second order counts"
    );
}

#[test]
fn learnt_start_adapts_better() {
    let mut start = Start::new();
    let mut optimizer = Optimizer::new(&start, adam(1e-2));
    let unseen = tasks(100, 16);
    let before = meta_loss(&start, &unseen, Start::adapted).item::<f64>();
    let step = jit_mut(
        |(start, optimizer, tasks): (&mut Start, &mut Optimizer<Start>, Task)| {
            let objective = |start: &Start| meta_loss(start, &tasks, Start::adapted);
            let (loss, gradient) = value_and_grad(objective)(start);
            optimizer.update(start, &gradient);
            loss
        },
    );
    for seed in 0..100 {
        step((&mut start, &mut optimizer, tasks(seed, 8)));
    }
    assert_eq!(step.traces(), 1);
    let after = meta_loss(&start, &unseen, Start::adapted).item::<f64>();
    assert!(after < 0.5 * before, "{before} before, {after} after");
    assert_ne!(start.rate.item::<f64>(), 0.1, "the rate is learnt");
}
