//! A training run that continues from a checkpoint, and a mistake at the line of the caller.

use pytree_core::{Filter, Module};
use pytree_io::checkpoint;
use pytree_nn::{
    Dropout, Linear, Optimizer, ParameterAverage, Rngs, Schedule, WeightDecay, accumulate, adamw,
    apply_if_finite, chain, clip_by_global_norm, groups, mse, rmsprop,
};
use pytree_transform::{DType, Tensor, jit_mut, value_and_grad_mut};

use crate::panics::catch;

#[derive(Module, Clone, Debug, PartialEq)]
struct Noisy {
    first: Linear,
    dropout: Dropout,
    last: Linear,
}

impl Noisy {
    fn forward(&mut self, x: &Tensor) -> Tensor {
        let hidden = self.first.forward(x).tanh();
        self.last.forward(&self.dropout.forward(&hidden))
    }
}

type State = (Noisy, Optimizer<Noisy>, ParameterAverage);

fn start() -> State {
    let mut rngs = Rngs::new(0);
    let model = Noisy {
        first: Linear::new(2, 8, &mut rngs),
        dropout: Dropout::new(0.2, &mut rngs),
        last: Linear::new(8, 1, &mut rngs),
    };
    let decay = WeightDecay::new(Schedule::linear(0.1, 0.0, 6));
    let rate = Schedule::warmup_cosine(0.1, 2, 12);
    let weights = adamw(rate, decay.only(Filter::path("first")));
    let both = groups([
        (Filter::path_contains("weight"), accumulate(2, weights)),
        (
            Filter::path_contains("bias"),
            apply_if_finite(3, rmsprop(0.01)),
        ),
    ]);
    let optimizer = Optimizer::new(&model, chain([clip_by_global_norm(1.0), both]));
    let average = ParameterAverage::new(&model, 0.9);
    (model, optimizer, average)
}

fn step(
    (model, optimizer, average): (&mut Noisy, &mut Optimizer<Noisy>, &mut ParameterAverage),
) -> Tensor {
    let x = Rngs::new(1).normal(DType::F32, [16, 2]);
    let y = x.sum_keep([-1]).sin();
    let loss = |model: &mut Noisy| mse(&model.forward(&x), &y);
    let (loss, gradient) = value_and_grad_mut(loss)(model);
    optimizer.update(model, &gradient);
    average.update(model);
    loss
}

#[test]
fn resumed_run_is_same_bit_by_bit() {
    let compiled = jit_mut(step);
    let run = |state: &mut State| -> Vec<f32> {
        let steps = (0..5).map(|_| compiled((&mut state.0, &mut state.1, &mut state.2)).item());
        steps.collect()
    };
    let mut straight = start();
    let first = run(&mut straight);
    let name = format!("pytree-io-resumed-{}.safetensors", std::process::id());
    let path = std::env::temp_dir().join(name);
    checkpoint::save(&path, &straight).unwrap();
    let mut resumed: State = checkpoint::load(&path, &start()).unwrap();
    std::fs::remove_file(&path).unwrap();
    assert_eq!(resumed.1, straight.1);
    let losses = run(&mut straight);
    assert_eq!(run(&mut resumed), losses);
    assert!(losses[4] < first[0]);
    assert_eq!(resumed.0, straight.0);
    assert_eq!(resumed.1, straight.1);
    assert_eq!(compiled.traces(), 1);
}

#[test]
fn empty_separator_is_reported_at_callers_line() {
    let call = || checkpoint::nested_tensors("none.safetensors", "").is_ok();
    let (line, panic) = (line!() - 1, catch(call).unwrap_err());
    assert_eq!((panic.file.as_str(), panic.line), (file!(), line));
    assert!(
        panic
            .message
            .starts_with("`nested_tensors` expects a separator")
    );
}
