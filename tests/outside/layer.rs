//! A layer around another layer, with a parameter, a state in a collection of its own, and a setting.

use pytree::nn::{Forward, Identity, capture_outputs};
use pytree::prelude::*;
use pytree::{Collection, Static, checkpoint};

use crate::operation::{Direction, leaky_sum};

/// Counts of calls.
#[derive(Collection)]
pub struct Calls;

/// A setting of a layer: static, and compared by `jit`.
#[derive(Static, Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Time {
    Onward,
    Reversed,
}

/// Applies `inner`, then a leaky sum over the last axis with the decay `sigmoid(rate)`.
#[derive(Module, Clone, Debug, PartialEq)]
pub struct Smoothed<F> {
    pub inner: F,
    #[param("float[]")]
    pub rate: Tensor,
    #[state(Calls, "i32[]")]
    pub calls: Tensor,
    #[r#static]
    pub time: Time,
}

impl<F> Smoothed<F> {
    pub fn new(inner: F, time: Time) -> Self {
        Self {
            inner,
            rate: Tensor::from(0.0_f32),
            calls: Tensor::from(0_i32),
            time,
        }
    }
}

impl<F: Forward + Module + Clone + Send + Sync> Forward for Smoothed<F> {
    #[shapes(x = "... time", return = "... time")]
    fn forward(&mut self, x: &Tensor) -> Tensor {
        self.calls = &self.calls + 1;
        let direction = match self.time {
            Time::Onward => Direction::Forward,
            Time::Reversed => Direction::Backward,
        };
        leaky_sum(&self.inner.forward(x), &self.rate.sigmoid(), direction)
    }
}

fn smoothed() -> Smoothed<Linear> {
    Smoothed::new(Linear::new(3, 3, &mut Rngs::new(0)), Time::Onward)
}

#[test]
fn layer_wraps_each_other_layer() {
    let x = Tensor::from([[1.0_f32, 2.0, 4.0]]);
    let mut plain = Smoothed::new(Identity, Time::Onward);
    assert_eq!(plain.forward(&x).to_vec::<f32>(), [1.0, 2.5, 5.25]);
    let mut twice = Smoothed::new(plain.clone(), Time::Reversed);
    assert_eq!(twice.forward(&x).to_vec::<f32>(), [3.5625, 5.125, 5.25]);
    assert_eq!(
        (twice.calls.item::<i32>(), twice.inner.calls.item::<i32>()),
        (1, 2)
    );
    // In a chain, next to layers of the library.
    let mut chain = sequential![smoothed(), Activation::Tanh, twice];
    assert_eq!(chain.forward(&x).shape(), [1, 3]);
    let (_, outputs) = capture_outputs(&mut chain, |chain| chain.forward(&x));
    assert_eq!(outputs["layers[0]"][0].shape(), [1, 3]);
}

#[test]
fn state_changes_under_transformations() {
    let x = Tensor::ones(DType::F32, [2, 3]);
    let step = jit_mut(|(model, x): (&mut Smoothed<Linear>, Tensor)| {
        let loss = |model: &mut Smoothed<Linear>| model.forward(&x).square().mean();
        let (loss, gradient) = value_and_grad_mut(loss)(model);
        (loss, gradient)
    });
    let mut model = smoothed();
    for _ in 0..3 {
        let (_, gradient) = step((&mut model, x.clone()));
        assert_eq!(gradient.len(), 3);
    }
    assert_eq!((model.calls.item::<i32>(), step.traces()), (3, 1));
    model.time = Time::Reversed;
    step((&mut model, x.clone()));
    assert_eq!(
        step.why_retraced().unwrap(),
        "static value at [0]: time = Onward against time = Reversed"
    );
}

#[test]
fn filters_and_checkpoints_know_the_collection() {
    let counts = partition::filter(&smoothed(), &Filter::state::<Calls>());
    assert_eq!(counts.len(), 1);
    let path = std::env::temp_dir().join(format!(
        "pytree-smoothed-{}.safetensors",
        std::process::id()
    ));
    let mut saved = smoothed();
    saved.forward(&Tensor::ones(DType::F32, [3]));
    checkpoint::save(&path, &saved).unwrap();
    let loaded = checkpoint::load(&path, &smoothed()).unwrap();
    std::fs::remove_file(&path).unwrap();
    assert_eq!((loaded.calls.item::<i32>(), loaded), (1, saved));
}

#[test]
fn ensembles_are_mapped() {
    let x = Tensor::ones(DType::F32, [3]);
    let make = |seed: u64| Smoothed::new(Linear::new(3, 3, &mut Rngs::new(seed)), Time::Onward);
    let mut models = stack(&[make(0), make(1)], 0);
    let outputs = vmap_mut(|model: &mut Smoothed<Linear>| model.forward(&x))(&mut models);
    assert_eq!(outputs.index(ix![1]), make(1).forward(&x));
    assert_eq!(models.calls.to_vec::<i32>(), [1, 1]);
}
