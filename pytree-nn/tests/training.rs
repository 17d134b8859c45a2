//! Models, layers and optimisers together, under the transformations.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use pytree_core::{Filter, Module, Ref, Tree, graph};
use pytree_nn::{
    Activation, Chain, Dropout, GradientTransformation, Linear, Mlp, Optimizer, Rngs, accuracy,
    adam, adamw, chain, clip_by_global_norm, eval, sgd, softmax_cross_entropy,
};
use pytree_transform::{DType, Tensor, grad, jit, value_and_grad, value_and_grad_mut, vmap};

#[derive(Module, Clone, Debug, PartialEq)]
struct Noisy {
    first: Linear,
    dropout: Dropout,
    last: Linear,
    #[r#static]
    activation: Activation,
}

impl Noisy {
    fn new(rngs: &mut Rngs) -> Self {
        Self {
            first: Linear::new(4, 32, rngs),
            dropout: Dropout::new(0.2, rngs),
            last: Linear::new(32, 3, rngs),
            activation: Activation::Gelu,
        }
    }

    fn forward(&mut self, x: &Tensor) -> Tensor {
        let hidden = self.activation.apply(&self.first.forward(x));
        let hidden = self.dropout.forward(&hidden);
        self.last.forward(&hidden)
    }
}

type State = (Noisy, Optimizer<Noisy>);
type Argument = (Noisy, Optimizer<Noisy>, Tensor, Tensor);

fn data() -> (Tensor, Tensor) {
    let mut rngs = Rngs::new(7);
    let x = rngs.normal(DType::F32, [48, 4]);
    let y = x.take(&Tensor::from([0, 1, 2]), 1).argmax(1);
    (x, y)
}

fn step((mut model, mut optimizer, x, y): Argument) -> (State, Tensor) {
    let loss = |model: &mut Noisy| softmax_cross_entropy(&model.forward(&x), &y).mean();
    let (loss, gradients) = value_and_grad_mut(loss)(&mut model);
    optimizer.update(&mut model, &gradients);
    ((model, optimizer), loss)
}

fn start() -> State {
    let model = Noisy::new(&mut Rngs::new(0));
    let optimizer = Optimizer::new(&model, chain([clip_by_global_norm(1.0), adamw(3e-2, 1e-4)]));
    (model, optimizer)
}

fn run(
    step: &dyn Fn(Argument) -> (State, Tensor),
    mut state: State,
    steps: usize,
) -> (State, Vec<f32>) {
    let (x, y) = data();
    let mut losses = Vec::new();
    for _ in 0..steps {
        let loss;
        (state, loss) = step((state.0, state.1, x.clone(), y.clone()));
        losses.push(loss.item::<f32>());
    }
    (state, losses)
}

#[test]
fn compiled_run_learns_and_is_compiled_once() {
    let compiled = jit(step);
    let ((model, _), losses) = run(&*compiled, start(), 150);
    assert_eq!(compiled.traces(), 1);
    assert!(
        losses[149] < 0.5 * losses[0],
        "{} to {}",
        losses[0],
        losses[149]
    );
    let (x, y) = data();
    let mut quiet = eval(&model);
    let logits = quiet.forward(&x);
    assert_eq!(logits, quiet.forward(&x));
    assert!(accuracy(&logits, &y).item::<f32>() > 0.9);
}

#[test]
fn a_compiled_run_follows_the_eager_one() {
    let (_, eager) = run(&step, start(), 5);
    let (_, compiled) = run(&*jit(step), start(), 5);
    for (eager, compiled) in eager.iter().zip(&compiled) {
        assert!(
            (eager - compiled).abs() < 1e-4,
            "eager {eager}, compiled {compiled}"
        );
    }
}

#[test]
fn per_example_gradients_sum_to_batch_gradient() {
    let model = Mlp::new(&[4, 8, 3], Activation::Tanh, &mut Rngs::new(0));
    let (x, y) = data();
    let of_one = |(model, x, y): (Mlp, Tensor, Tensor)| {
        let loss = |model: &Mlp| softmax_cross_entropy(&model.forward(&x), &y);
        grad(loss)(&model).into_tree()
    };
    let each = vmap(of_one).in_axes((None, 0, 0))((model.clone(), x.clone(), y.clone()));
    let all = grad(|model: &Mlp| softmax_cross_entropy(&model.forward(&x), &y).sum())(&model);
    assert_eq!(each.leaves().len(), all.len());
    for (each, all) in each.leaves().iter().zip(all.leaves()) {
        assert_eq!(each.shape()[0], 48);
        let difference = (each.sum_axes([0]) - all).abs().max().item::<f32>();
        assert!(difference < 1e-4, "off by {difference}");
    }
}

#[test]
fn rows_of_batch_drop_differently_under_vmap() {
    let mut rngs = Rngs::new(0);
    let ones = Tensor::ones(DType::F32, [3, 64]);
    let drop = |(mut rngs, x): (Rngs, Tensor)| Dropout::new(0.5, &mut rngs).forward(&x);
    let rows = vmap(drop)((rngs.split(3), ones));
    let rows: Vec<Vec<f32>> = rows
        .to_vec::<f32>()
        .chunks(64)
        .map(<[f32]>::to_vec)
        .collect();
    assert_ne!(rows[0], rows[1]);
    assert_ne!(rows[1], rows[2]);
}

/// A transformation of a user: only the signs of the gradients, and the number of its updates.
#[derive(Module, Clone, Debug)]
struct Signs {
    #[state]
    updates: Tensor,
}

impl GradientTransformation for Signs {
    fn init(&mut self, _: &Tree<Tensor>) {}

    fn update(&mut self, gradients: Vec<Tensor>, _: &[Tensor]) -> Vec<Tensor> {
        self.updates = &self.updates + 1;
        gradients.iter().map(Tensor::sign).collect()
    }
}

#[test]
fn custom_transformation_works_under_jit() {
    let signs = Chain::of(Signs {
        updates: Tensor::from(0),
    });
    let mut weight = Tensor::from([1.0_f32, -2.0, 0.0]);
    let mut optimizer = Optimizer::new(&weight, chain([signs, sgd(0.5)]));
    let step = jit(|(mut weight, mut optimizer): (Tensor, Optimizer<Tensor>)| {
        let gradient = grad(|weight: &Tensor| weight.square().sum())(&weight);
        optimizer.update(&mut weight, &gradient);
        (weight, optimizer)
    });
    for _ in 0..2 {
        (weight, optimizer) = step((weight, optimizer));
    }
    assert_eq!(weight.to_vec::<f32>(), [0.0, -1.0, 0.0]);
    let counts: Vec<Tensor> = graph::leaves_with_path::<Tensor, _>(&optimizer)
        .into_iter()
        .filter(|(path, _)| path.to_string().ends_with("updates"))
        .map(|(_, count)| count.clone())
        .collect();
    assert_eq!(counts, [Tensor::from(2)]);
}

#[test]
fn frozen_and_trained_models_compile_separately() {
    let mut model = Mlp::new(&[4, 8, 3], Activation::Relu, &mut Rngs::new(0));
    let (x, y) = data();
    let last = Filter::path("layers[1]");
    let mut optimizer = Optimizer::with_filter(&model, adam(1e-2), &last);
    let frozen = model.layers[0].clone();
    let step = jit(move |(mut model, mut optimizer): (Mlp, Optimizer<Mlp>)| {
        let loss = |model: &Mlp| softmax_cross_entropy(&model.forward(&x), &y).mean();
        let (loss, gradients) = value_and_grad(loss).wrt(last.clone())(&model);
        optimizer.update(&mut model, &gradients);
        (model, optimizer, loss)
    });
    let mut losses = Vec::new();
    for _ in 0..10 {
        let loss;
        (model, optimizer, loss) = step((model, optimizer));
        losses.push(loss.item::<f32>());
    }
    assert_eq!(model.layers[0], frozen);
    assert!(losses[9] < losses[0]);
}

thread_local! {
    /// The weight that the transformation below writes while an optimizer runs.
    static WRITTEN_MEANWHILE: std::cell::RefCell<Option<Ref<Tensor>>> = const { std::cell::RefCell::new(None) };
}

#[derive(Module, Clone, Debug)]
struct Meddling;

impl GradientTransformation for Meddling {
    fn init(&mut self, _: &Tree<Tensor>) {}

    fn update(&mut self, gradients: Vec<Tensor>, _: &[Tensor]) -> Vec<Tensor> {
        if let Some(weight) = WRITTEN_MEANWHILE.take() {
            weight.set(Tensor::from(7.0_f32));
        }
        gradients
    }
}

#[test]
fn conflict_changes_neither_model_nor_optimizer() {
    let weight = Ref::param(Tensor::from(1.0_f32));
    let mut model = (weight.clone(), Ref::param(Tensor::from(2.0_f32)));
    let mut optimizer = Optimizer::new(&model, chain([Chain::of(Meddling), adam(0.1)]));
    let gradients =
        grad(|(left, right): &(Ref<Tensor>, Ref<Tensor>)| left.get() * right.get())(&model);
    let before = graph::flatten::<Tensor, _>(&optimizer).0;
    WRITTEN_MEANWHILE.set(Some(weight.clone()));
    let error = optimizer.try_update(&mut model, &gradients).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("this thread wrote the reference at [0] "),
        "{error}"
    );
    assert_eq!(graph::flatten::<Tensor, _>(&optimizer).0, before);
    assert_eq!(weight.get(), Tensor::from(7.0_f32));
    assert_eq!(model.1.get(), Tensor::from(2.0_f32));
    optimizer.try_update(&mut model, &gradients).unwrap();
    assert_ne!(weight.get(), Tensor::from(7.0_f32));
}
