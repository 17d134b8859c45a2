//! Every state that changes by small steps is as exact with half-precision parameters as its formula in f64.

use pytree_core::kind::{BatchStat, Metric, State};
use pytree_core::{Filter, Module, PytreeOf, Tree, graph};
use pytree_nn::metrics::Mean;
use pytree_nn::{Accumulation, Schedule};
use pytree_nn::{
    BatchNorm, Centering, Chain, GradientTransformation, Linear, LinearOptions, LossScale,
    MixedPrecision, Momentum, NormOptions, Optimizer, ParameterAverage, RmsPropOptions, Rngs,
    SpectralNorm, accumulate, accumulate_with, adabelief, adadelta, adafactor, adagrad, adam,
    adamax, adamw, amsgrad, apply_if_finite, chain, clip_by_global_norm, convert_floats, ema,
    groups, lamb, lars, lion, nadam, novograd, radam, rmsprop_with, sgd, sgd_momentum, signum,
    yogi,
};
use pytree_transform::{DType, Tensor};

const HALVES: [DType; 2] = [DType::BF16, DType::F16];

#[track_caller]
fn assert_near(what: &str, found: &Tensor, expected: &Tensor) {
    let (found, expected) = (found.convert(DType::F64), expected.convert(DType::F64));
    let (found, expected) = (found.to_vec::<f64>(), expected.to_vec::<f64>());
    assert_eq!(found.len(), expected.len(), "{what}");
    for (found, expected) in found.iter().zip(&expected) {
        let difference = (found - expected).abs();
        assert!(
            difference <= 1e-4 * expected.abs(),
            "{what}: found {found}, expected {expected}"
        );
    }
}

fn leaves<M: PytreeOf<Tensor>>(model: &M) -> Vec<Tensor> {
    graph::flatten::<Tensor, M>(model).0
}

fn transformations() -> Vec<(&'static str, Chain)> {
    let centred = RmsPropOptions {
        centering: Centering::Centered,
        momentum: Some((0.9, Momentum::Nesterov)),
        ..RmsPropOptions::default()
    };
    let everything = Filter::everything();
    vec![
        ("adam", adam(1e-3)),
        ("adamw", adamw(1e-3, 1e-2)),
        ("nadam", nadam(1e-3)),
        ("amsgrad", amsgrad(1e-3)),
        ("adabelief", adabelief(1e-3)),
        ("adamax", adamax(1e-3)),
        ("radam", radam(1e-3)),
        ("yogi", yogi(1e-3)),
        ("adagrad", adagrad(1e-2)),
        ("adadelta", adadelta(1.0)),
        ("adafactor", adafactor(1e-3)),
        ("rmsprop", rmsprop_with(1e-3, centred)),
        ("novograd", novograd(1e-3)),
        ("lion", lion(1e-4, 1e-3)),
        ("signum", signum(1e-3, 0.99)),
        (
            "sgd_momentum",
            sgd_momentum(1e-2, 0.99, Momentum::Classical),
        ),
        ("lamb", lamb(1e-3)),
        ("lars", lars(1e-3)),
        ("ema", chain([ema(0.995), sgd(0.1)])),
        ("schedule", sgd(Schedule::linear(1.0, 0.0, 1000))),
        ("accumulate", accumulate(300, adam(1e-3))),
        ("sum", accumulate_with(300, Accumulation::Sum, sgd(0.1))),
        ("apply_if_finite", apply_if_finite(3, adam(1e-3))),
        ("clipped", chain([clip_by_global_norm(1.0), adam(1e-3)])),
        ("groups", groups([(everything, adam(1e-3))])),
    ]
}

/// Returns the states and the last updates after 200 steps. The gradient of every second step is multiplied by `other`.
/// All numbers are exact in any dtype.
fn run(mut transformation: Chain, dtype: DType, other: f64) -> (Vec<Tensor>, Vec<Tensor>) {
    let parameters = [Tensor::from([1.0, -2.0, 0.5]).convert(dtype)];
    let gradient = Tensor::from([0.5, -0.25, 3.0]).convert(dtype);
    let gradients = [vec![&gradient * other], vec![gradient]];
    transformation.init(&Tree::from_value(&parameters.to_vec()));
    let mut updates = Vec::new();
    for step in 1..=200 {
        updates = transformation.update(gradients[step % 2].clone(), &parameters);
    }
    (leaves(&transformation), updates)
}

#[test]
fn every_optimizer_accumulates_in_f32() {
    for (name, transformation) in transformations() {
        let (expected, expected_updates) = run(transformation.clone(), DType::F64, 0.5);
        for dtype in HALVES {
            let (states, updates) = run(transformation.clone(), dtype, 0.5);
            assert_eq!(states.len(), expected.len(), "{name}");
            for (state, expected) in states.iter().zip(&expected) {
                let what = format!("{name} with {dtype}");
                assert!(!HALVES.contains(&state.dtype()), "{what}: {}", state.info());
                assert_near(&what, state, expected);
            }
            for (update, expected) in updates.iter().zip(&expected_updates) {
                assert_near(&format!("update of {name} with {dtype}"), update, expected);
            }
        }
    }
}

/// Adam's moments after n steps with the gradient g: g (1 - β₁ⁿ) and g² (1 - β₂ⁿ).
#[test]
fn moments_have_their_closed_form() {
    for dtype in HALVES {
        let (states, _) = run(adam(1e-3), dtype, 1.0);
        let gradient = Tensor::from([0.5, -0.25, 3.0]);
        let means = [
            &gradient * (1.0 - 0.9_f64.powi(200)),
            gradient.square() * (1.0 - 0.999_f64.powi(200)),
        ];
        for (state, expected) in states[1..3].iter().zip(&means) {
            assert_near("moment", state, expected);
        }
    }
}

#[test]
fn converted_optimizer_keeps_its_states() {
    let model = Linear::new(2, 1, &mut Rngs::new(0));
    let optimizer = Optimizer::new(&model, adam(1e-3));
    for dtype in HALVES {
        let (mut model, mut optimizer) = convert_floats(&(model.clone(), optimizer.clone()), dtype);
        assert_eq!(model.weight.dtype(), dtype);
        let scale = LossScale::dynamic();
        // The scale 65536 is infinite in f16.
        let loss = scale.scaled(&Tensor::from(1.0_f32).convert(dtype));
        assert_eq!(loss, Tensor::from(65536.0_f32));
        let x = Tensor::ones(dtype, [4, 2]);
        let gradient = pytree_transform::grad(|model: &Linear| model.forward(&x).mean())(&model);
        optimizer.update(&mut model, &scale.unscaled(&gradient));
        optimizer.update(&mut model, &gradient);
        assert_eq!(model.weight.dtype(), dtype);
        let floats = leaves(&optimizer).into_iter();
        let floats: Vec<Tensor> = floats.filter(|leaf| leaf.dtype().is_float()).collect();
        assert!(floats.iter().all(|leaf| leaf.dtype() == DType::F32));
    }
}

#[derive(Module, Clone, Debug)]
struct Counting {
    norm: BatchNorm,
    loss: Mean,
    /// The exponential mean of a loss, of a layer of the user.
    #[state(BatchStat)]
    slow: Tensor,
    #[state(Metric)]
    sum: Tensor,
    /// A constant.
    #[state(State)]
    tenth: Tensor,
}

impl Counting {
    fn new(norm: BatchNorm) -> Self {
        Self {
            norm,
            loss: Mean::new(),
            slow: Tensor::from(0.0_f32),
            sum: Tensor::from(0.0_f32),
            tenth: Tensor::from(0.1_f32),
        }
    }

    fn forward(&mut self, x: &Tensor) -> Tensor {
        let y = self.norm.forward(x);
        self.loss.update(x);
        let mean = x.convert(DType::F32).mean();
        self.slow = &self.slow * 0.99 + &mean * 0.01;
        self.sum = &self.sum + mean;
        y
    }
}

#[test]
fn statistics_and_losses_accumulate_in_f32() {
    let steps = 500;
    // The features have the mean 3 and the variance 4.
    let rest = 0.99_f64.powi(steps);
    for dtype in HALVES {
        let x = Tensor::from([[1.0_f32], [5.0]]).convert(dtype);
        let narrow = NormOptions {
            param_dtype: dtype,
            ..NormOptions::default()
        };
        let wide = Counting::new(BatchNorm::new(1, &mut Rngs::new(0)));
        let made = Counting::new(BatchNorm::with_options(1, narrow, &mut Rngs::new(0)));
        let precision = MixedPrecision {
            compute: dtype,
            output: DType::F32,
        };
        let converted = convert_floats(&wide, dtype);
        assert_eq!(converted.tenth.dtype(), dtype);
        for (way, mut model) in [("mixed", wide), ("made", made), ("converted", converted)] {
            for _ in 0..steps {
                let y = match way {
                    "mixed" => precision.compute_mut(&mut model, |model| model.forward(&x)),
                    _ => model.forward(&x),
                };
                assert_eq!(y.dtype(), dtype, "{way}");
            }
            let expected = [
                (&model.norm.mean, 3.0 * (1.0 - rest)),
                (&model.norm.variance, rest + 4.0 * (1.0 - rest)),
                (&model.loss.compute(), 3.0),
                (&model.slow, 3.0 * (1.0 - rest)),
                (&model.sum, 3.0 * f64::from(steps)),
            ];
            for (position, (found, expected)) in expected.into_iter().enumerate() {
                let what = format!("state {position} of {dtype}, {way}");
                assert_near(&what, found, &Tensor::from([expected]));
            }
            if way == "mixed" {
                // A state that the forward pass does not change is not rounded.
                assert_eq!(model.tenth, Tensor::from(0.1_f32));
            }
        }
    }
}

#[test]
fn singular_value_is_estimated_in_f32() {
    for dtype in HALVES {
        let options = LinearOptions {
            param_dtype: dtype,
            ..LinearOptions::default()
        };
        let mut linear = Linear::with_options(2, 2, options, &mut Rngs::new(0));
        linear.weight = Tensor::from([[3.0_f32, 0.0], [0.0, 2.75]]).convert(dtype);
        let mut layer = SpectralNorm::new(&linear, &Filter::param(), &mut Rngs::new(1));
        for _ in 0..100 {
            let y = layer.forward(&Tensor::ones(dtype, [1, 2]));
            assert_eq!(y.dtype(), dtype);
        }
        assert_near("sigma", &layer.states[0].sigma, &Tensor::from([3.0]));
    }
}

#[test]
fn parameter_average_moves_in_half_precision() {
    for dtype in HALVES {
        let first = Tensor::from([1.0_f32]).convert(dtype);
        let mut average = ParameterAverage::new(&first, 0.999);
        let now = Tensor::from([2.0_f32]).convert(dtype);
        for _ in 0..1000 {
            average.update(&now);
        }
        let expected = 2.0 - 0.999_f64.powi(1000);
        assert_near("average", &leaves(&average)[0], &Tensor::from([expected]));
        assert_eq!(average.apply(&now).dtype(), dtype);
    }
}

#[test]
fn warm_up_forgets_the_first_parameters() {
    // min(0.9, (1 + n) / (10 + n)) for n = 0, 1, …, as in `tf.train.ExponentialMovingAverage`.
    let parameters: Vec<f64> = (0..100).map(|step| f64::from(step).sin()).collect();
    let mut expected = parameters[0];
    let mut average = ParameterAverage::new(&Tensor::from(parameters[0]), 0.9).with_warm_up(10.0);
    for (step, &parameter) in parameters[1..].iter().enumerate() {
        let decay = ((1.0 + step as f64) / (10.0 + step as f64)).min(0.9);
        expected = decay * expected + (1.0 - decay) * parameter;
        average.update(&Tensor::from(parameter));
        let found = average.apply(&Tensor::from(parameter)).item::<f64>();
        assert!((found - expected).abs() < 1e-14, "{step}: {found}");
    }
    // The decay 1 with the warm-up 2 is the mean, `torch.optim.swa_utils.get_swa_avg_fn`.
    let mut mean = ParameterAverage::new(&Tensor::from(parameters[0]), 1.0).with_warm_up(2.0);
    for &parameter in &parameters[1..] {
        mean.update(&Tensor::from(parameter));
    }
    let expected = parameters.iter().sum::<f64>() / 100.0;
    let found = mean.apply(&Tensor::from(0.0)).item::<f64>();
    assert!((found - expected).abs() < 1e-14, "{found}");
}

#[test]
fn wrong_warm_up_and_steps_name_what_is_right() {
    let message = |run: fn()| {
        *std::panic::catch_unwind(run)
            .unwrap_err()
            .downcast::<String>()
            .unwrap()
    };
    assert_eq!(
        message(|| drop(ParameterAverage::new(&Tensor::from(1.0_f32), 0.9).with_warm_up(1.0))),
        "cannot make `ParameterAverage`: expected a finite number above 1 as `warm_up`, found 1; after n updates, the decay is at most (1 + n) / (`warm_up` + n), so 10 is usual, and 2 gives the mean of all parameters"
    );
    // A number of steps is often a quotient of lengths.
    let steps = [0; 8].len() / [0; 2].len();
    let _ = (
        accumulate(steps, adam(1e-3)),
        apply_if_finite(steps, adam(1e-3)),
    );
    assert_eq!(
        message(|| drop(accumulate(0, adam(1e-3)))),
        "cannot accumulate gradients: expected from 1 to 4294967295 steps, found 0"
    );
}

#[test]
fn average_of_chosen_states() {
    let mut model = Counting::new(BatchNorm::new(1, &mut Rngs::new(0)));
    let chosen = Filter::state::<BatchStat>() & Filter::path("norm");
    let mut average = ParameterAverage::with_filter(&model, 0.5, &chosen);
    model.norm.mean = Tensor::from([8.0_f32]);
    model.norm.scale = Some(Tensor::from([5.0_f32]));
    average.update(&model);
    let averaged = average.apply(&model);
    assert_eq!(averaged.norm.mean, Tensor::from([4.0_f32]));
    assert_eq!(averaged.norm.variance, Tensor::from([1.0_f32]));
    assert_eq!(averaged.norm.scale, model.norm.scale);
}

#[test]
fn average_of_another_model_is_refused() {
    let message = |outcome: std::thread::Result<()>| {
        let payload = outcome.unwrap_err();
        payload.downcast_ref::<String>().unwrap().clone()
    };
    let catch = |function: &dyn Fn()| {
        message(std::panic::catch_unwind(std::panic::AssertUnwindSafe(
            function,
        )))
    };
    let model = Linear::new(2, 1, &mut Rngs::new(0));
    let average = ParameterAverage::new(&model, 0.5);
    let wide = Linear::new(3, 1, &mut Rngs::new(0));
    assert_eq!(
        catch(&|| drop(average.apply(&wide))),
        "cannot average weight: expected f32[2,1], found f32[3,1]; make a new average for this model"
    );
    assert_eq!(
        catch(&|| drop(average.apply(&vec![model.clone(), wide.clone()]))),
        "cannot average: expected a model with 2 parameters, found 4; make a new average for this model"
    );
    assert_eq!(
        catch(&|| drop(average.apply(&vec![model.clone()]))),
        "cannot average weight: the model has no such leaf; make a new average for this model"
    );
    assert_eq!(
        catch(&|| drop(ParameterAverage::new(&vec![Tensor::from(1)], 0.5))),
        "cannot average [0]: expected a float dtype, found i32[]; make the leaf a state, or choose the leaves with `ParameterAverage::with_filter`"
    );
}
