//! A transformation of gradients and a schedule.

use pytree::AbstractArray;
use pytree::kind::OptState;
use pytree::optim::{
    Chain, GradientTransformation, Hyperparameter, NamedHyperparameter, Schedule, ScheduleFunction,
    chain, scale_by_learning_rate,
};
use pytree::prelude::*;

/// The sign of a running mean of the gradients (Bernstein et al. 2018, "signSGD", algorithm 2).
#[derive(Module, Clone, Debug)]
pub struct SignOfMean {
    #[state(OptState)]
    means: Vec<Tensor>,
    decay: Hyperparameter,
}

pub fn sign_of_mean(decay: f64) -> Chain {
    Chain::of(SignOfMean {
        means: Vec::new(),
        decay: decay.into(),
    })
}

impl GradientTransformation for SignOfMean {
    fn init(&mut self, parameters: &Tree<Tensor>) {
        self.means = parameters.leaves().iter().map(Tensor::zeros_like).collect();
    }

    fn update(&mut self, gradients: Vec<Tensor>, _: &[Tensor]) -> Vec<Tensor> {
        for (mean, gradient) in self.means.iter_mut().zip(&gradients) {
            let decay = self.decay.value(mean.dtype());
            *mean = &*mean * &decay + gradient * (1.0 - decay);
        }
        self.means.iter().map(Tensor::sign).collect()
    }

    fn other_parameters(&self, parameters: &[Tensor]) -> Vec<(usize, AbstractArray)> {
        let pairs = self.means.iter().zip(parameters).enumerate();
        let other = pairs.filter(|(_, (mean, parameter))| mean.shape() != parameter.shape());
        other
            .map(|(place, (mean, _))| (place, mean.info().clone()))
            .collect()
    }

    fn hyperparameters(&mut self) -> Vec<NamedHyperparameter<'_>> {
        vec![NamedHyperparameter {
            name: "decay",
            allowed: 0.0..=1.0,
            value: &mut self.decay,
        }]
    }
}

/// Half of `first` after each `period` updates.
#[derive(Module, Clone, Debug)]
struct Halving {
    #[state(OptState)]
    first: Tensor,
    #[r#static]
    period: i32,
}

pub fn halving(first: f64, period: i32) -> Schedule {
    Schedule::of(Halving {
        first: Tensor::from(first),
        period,
    })
}

impl ScheduleFunction for Halving {
    fn value(&self, count: &Tensor) -> Tensor {
        let halvings = (count / self.period).convert(self.first.dtype());
        &self.first * (halvings * -std::f64::consts::LN_2).exp()
    }
}

fn descent() -> Chain {
    chain([sign_of_mean(0.5), scale_by_learning_rate(halving(0.5, 2))])
}

#[test]
fn schedule_halves_the_rate() {
    let rate = halving(1.0, 2).delayed(1);
    let values: Vec<f64> = (0..6).map(|count| rate.value(count).item()).collect();
    for (value, expected) in values.iter().zip([1.0, 1.0, 1.0, 0.5, 0.5, 0.25]) {
        assert!((value - expected).abs() < 1e-12, "{values:?}");
    }
}

#[test]
fn compiled_updates_are_those_of_the_formula() {
    let mut point = Tensor::from([1.0_f32, -2.0]);
    let mut optimizer = Optimizer::new(&point, descent());
    let step = jit_mut(
        |(point, optimizer): (&mut Tensor, &mut Optimizer<Tensor>)| {
            let gradient = grad(|x: &Tensor| x.square().sum())(point);
            optimizer.update(point, &gradient);
        },
    );
    let mut points = Vec::new();
    for _ in 0..4 {
        step((&mut point, &mut optimizer));
        points.extend(point.to_vec::<f32>());
    }
    assert_eq!(points, [0.5, -1.5, 0.0, -1.0, -0.25, -0.75, -0.25, -0.5]);
    assert_eq!(optimizer.learning_rate().unwrap().item::<f32>(), 0.125);
    assert_eq!(step.traces(), 1);
}

#[test]
fn hyperparameter_is_mapped_and_checked() {
    let train = |decay: Tensor| {
        let mut x = Tensor::from(1.0_f32);
        let mut optimizer = Optimizer::new(&x, descent().with_hyperparameter("decay", decay));
        for target in [0.0, 0.8] {
            let gradient = grad(|x: &Tensor| (x - target).square())(&x);
            optimizer.update(&mut x, &gradient);
        }
        x
    };
    let found = vmap(train)(Tensor::from([0.0_f32, 0.95]));
    assert_eq!(found.to_vec::<f32>(), [1.0, 0.0]);
    let wrong = std::panic::catch_unwind(|| descent().with_hyperparameter("decay", 2.0));
    let message = *wrong.unwrap_err().downcast::<String>().unwrap();
    assert!(message.contains("a number from 0.0 to 1.0"), "{message}");
}

#[test]
fn changed_shape_is_refused_before_the_update() {
    let mut point = Tensor::from([1.0_f32, -2.0]);
    let mut optimizer = Optimizer::new(&point, descent());
    point = Tensor::from([1.0_f32]);
    let error = optimizer.try_update(&mut point, &Tensor::from([1.0_f32]));
    assert!(error.is_err());
}
