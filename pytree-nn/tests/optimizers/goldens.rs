//! Trajectories and states of optimizers against those of optax.

use pytree_core::{Filter, Module, Partition, Tree, graph};
use pytree_nn::{
    Accumulation, AdadeltaOptions, AdafactorOptions, AdagradOptions, AdamOptions, AmsgradOptions,
    BiasCorrection, Centering, Chain, DynamicLossScaleOptions, EpsilonPlace, FactoredRmsOptions,
    LambOptions, LarsOptions, LossScale, Momentum, NovogradOptions, Optimizer, ParameterAverage,
    ParameterScale, RadamOptions, RmsPropOptions, Schedule, WeightDecay, accumulate_with,
    adabelief, adabelief_with, adadelta_with, adafactor_with, adagrad_with, adam, adam_with,
    adamax, adamaxw, adamw, adaptive_gradient_clip, add_decayed_weights, amsgrad_with,
    apply_if_finite, centralize, chain, clip_by_block_rms, clip_by_global_norm, clip_by_leaf_norm,
    clip_by_value, ema_with, groups, lamb_with, lars_with, lion, masked, nadam, nadamw,
    normalize_by_global_norm, novograd_with, radam_with, rmsprop_with, set_to_zero, sgd,
    sgd_momentum, sign_sgd, signum, trace, yogi, zero_nans,
};
use pytree_transform::{DType, Tensor, jit};
use serde_json::Value;

use crate::optimizers::Parameters;
use crate::support::{golden, number, tensor};

/// The arguments of a case, with the names of optax.
struct Arguments<'c>(&'c Value);

impl Arguments<'_> {
    fn get(&self, name: &str) -> Option<f64> {
        self.0["params"].get(name).and_then(Value::as_f64)
    }

    fn or(&self, name: &str, default: f64) -> f64 {
        self.get(name).unwrap_or(default)
    }

    fn is(&self, name: &str) -> bool {
        self.0["params"].get(name) == Some(&Value::Bool(true))
    }

    fn is_not(&self, name: &str) -> bool {
        self.0["params"].get(name) == Some(&Value::Bool(false))
    }

    fn text(&self, name: &str) -> Option<&str> {
        self.0["params"].get(name).and_then(Value::as_str)
    }

    fn rate(&self) -> Schedule {
        let rate = self.or("learning_rate", 1.0);
        match self.text("schedule") {
            Some("cosine") => Schedule::cosine(rate, 8),
            Some("warmup_cosine") => Schedule::warmup_cosine(rate, 3, 9),
            _ => rate.into(),
        }
    }

    fn momentum(&self) -> Momentum {
        if self.is("nesterov") {
            Momentum::Nesterov
        } else {
            Momentum::Classical
        }
    }

    fn weight_decay(&self) -> Option<WeightDecay> {
        let strength: Schedule = match self.text("weight_decay") {
            Some(_) => Schedule::linear(0.1, 0.01, 5),
            None => self.get("weight_decay")?.into(),
        };
        let decay = WeightDecay::new(strength);
        let is_masked = self.text("mask").or(self.text("weight_decay_mask"));
        Some(match is_masked {
            Some(_) => decay.only(Filter::matrices()),
            None => decay,
        })
    }

    fn adam(&self) -> AdamOptions {
        AdamOptions {
            beta1: self.or("b1", 0.9),
            beta2: self.or("b2", 0.999),
            epsilon: self.or("eps", 1e-8),
            epsilon_root: self.or("eps_root", 0.0),
            momentum: self.momentum(),
        }
    }
}

fn rmsprop_of(arguments: &Arguments<'_>) -> Chain {
    let options = RmsPropOptions {
        epsilon: arguments.or("eps", 1e-8),
        epsilon_place: if arguments.is_not("eps_in_sqrt") {
            EpsilonPlace::OutsideRoot
        } else {
            EpsilonPlace::InsideRoot
        },
        initial_scale: arguments.or("initial_scale", 0.0),
        centering: if arguments.is("centered") {
            Centering::Centered
        } else {
            Centering::Uncentered
        },
        bias_correction: if arguments.is("bias_correction") {
            BiasCorrection::Corrected
        } else {
            BiasCorrection::Uncorrected
        },
        momentum: arguments
            .get("momentum")
            .map(|decay| (decay, arguments.momentum())),
        ..RmsPropOptions::default()
    };
    rmsprop_with(arguments.rate(), options)
}

fn adafactor_of(arguments: &Arguments<'_>) -> Chain {
    let clips = !arguments.0["params"]
        .get("clipping_threshold")
        .is_some_and(Value::is_null);
    let options = AdafactorOptions {
        factored: FactoredRmsOptions {
            min_factored_length: (!arguments.is_not("factored")).then_some(2),
            ..FactoredRmsOptions::default()
        },
        clipping_threshold: clips.then_some(1.0),
        parameter_scale: if arguments.is_not("multiply_by_parameter_scale") {
            ParameterScale::One
        } else {
            ParameterScale::RootMeanSquare
        },
        momentum: arguments.get("momentum"),
        weight_decay: arguments.get("weight_decay_rate").map(WeightDecay::new),
    };
    adafactor_with(arguments.rate(), options)
}

fn adadelta_of(arguments: &Arguments<'_>) -> Chain {
    let options = AdadeltaOptions {
        decay: arguments.or("rho", 0.9),
        ..AdadeltaOptions::default()
    };
    let decay = arguments.weight_decay().map(add_decayed_weights);
    chain(
        decay
            .into_iter()
            .chain([adadelta_with(arguments.rate(), options)]),
    )
}

fn lars_of(arguments: &Arguments<'_>) -> Chain {
    let options = LarsOptions {
        weight_decay: arguments.weight_decay(),
        decay: arguments.or("momentum", 0.9),
        momentum: arguments.momentum(),
        ..LarsOptions::default()
    };
    lars_with(arguments.rate(), options)
}

fn amsgrad_of(arguments: &Arguments<'_>) -> Chain {
    let correction = |name| {
        if arguments.is_not(name) {
            BiasCorrection::Uncorrected
        } else {
            BiasCorrection::Corrected
        }
    };
    let options = AmsgradOptions {
        beta2: arguments.or("b2", 0.999),
        epsilon_root: arguments.or("eps_root", 0.0),
        mean_correction: correction("bias_correction_mu"),
        square_correction: correction("bias_correction_nu"),
        ..AmsgradOptions::default()
    };
    amsgrad_with(arguments.rate(), options)
}

/// Returns the optimizer of a case.
fn optimizer(case: &Value) -> Chain {
    let arguments = &Arguments(case);
    let rate = arguments.rate();
    let decay = || arguments.weight_decay().unwrap();
    match case["name"].as_str().unwrap() {
        "sgd" => match arguments.get("momentum") {
            Some(momentum) => sgd_momentum(rate, momentum, arguments.momentum()),
            None => sgd(rate),
        },
        "adam" => adam_with(rate, arguments.adam()),
        "nadam" => nadam(rate),
        "adamw" => adamw(rate, decay()),
        "nadamw" => nadamw(rate, decay()),
        "adamax" => adamax(rate),
        "adamaxw" => adamaxw(rate, decay()),
        "amsgrad" => amsgrad_of(arguments),
        "adabelief" if arguments.is("nesterov") => {
            let options = AdamOptions {
                epsilon: 1e-16,
                epsilon_root: 1e-16,
                ..arguments.adam()
            };
            adabelief_with(rate, options)
        }
        "adabelief" => adabelief(rate),
        "radam" => {
            let adam = arguments.adam();
            radam_with(
                rate,
                RadamOptions {
                    adam,
                    ..RadamOptions::default()
                },
            )
        }
        "yogi" => yogi(rate),
        "novograd" => {
            let weight_decay = arguments.or("weight_decay", 0.0);
            novograd_with(
                rate,
                NovogradOptions {
                    weight_decay,
                    ..NovogradOptions::default()
                },
            )
        }
        "rmsprop" => rmsprop_of(arguments),
        "adagrad" => {
            let initial_sum = arguments.or("initial_accumulator_value", 0.1);
            adagrad_with(
                rate,
                AdagradOptions {
                    initial_sum,
                    ..AdagradOptions::default()
                },
            )
        }
        "adadelta" => adadelta_of(arguments),
        "adafactor" => adafactor_of(arguments),
        "lion" => lion(rate, decay()),
        "lamb" => {
            let weight_decay = arguments.weight_decay();
            lamb_with(
                rate,
                LambOptions {
                    weight_decay,
                    ..LambOptions::default()
                },
            )
        }
        "lars" => lars_of(arguments),
        "sign_sgd" => sign_sgd(rate),
        "signum" => signum(rate, 0.9),
        other => before_sgd(other, arguments),
    }
}

/// Returns a transformation followed by gradient descent, or around an optimizer.
fn before_sgd(name: &str, arguments: &Arguments<'_>) -> Chain {
    let ema_correction = if arguments.is_not("debias") {
        BiasCorrection::Uncorrected
    } else {
        BiasCorrection::Corrected
    };
    let transformation = match name {
        "clip+sgd" => clip_by_value(0.5),
        "clip_by_block_rms+sgd" => clip_by_block_rms(0.5),
        "clip_by_leaf_norm+sgd" => clip_by_leaf_norm(0.5),
        "clip_by_global_norm+sgd" => clip_by_global_norm(1.0),
        "adaptive_grad_clip+sgd" => adaptive_gradient_clip(0.1),
        "centralize+sgd" => centralize(),
        "ema+sgd" => ema_with(0.9, ema_correction),
        "normalize_by_update_norm+sgd" => normalize_by_global_norm(),
        "masked_trace+sgd" => masked(Filter::matrices(), trace(0.9, Momentum::Classical)),
        "freeze+sgd" => masked(Filter::matrices(), set_to_zero()),
        "groups" => {
            return groups([
                (Filter::matrices(), adam(Schedule::cosine(0.02, 8))),
                (
                    Filter::everything(),
                    sgd_momentum(0.1, 0.9, Momentum::Classical),
                ),
            ]);
        }
        "accumulate" => {
            let accumulation = if arguments.is("mean") {
                Accumulation::Mean
            } else {
                Accumulation::Sum
            };
            return accumulate_with(3, accumulation, adam(0.01));
        }
        "zero_nans" => return chain([zero_nans(), adam(0.01)]),
        "apply_if_finite" => return apply_if_finite(2, adam(0.01)),
        other => panic!("no optimizer `{other}`"),
    };
    chain([transformation, sgd(0.01)])
}

/// The parameters with the roles of their axes. optax factors the mean squares of both arrays with several axes.
#[derive(Module, Clone, Debug)]
struct Weights {
    #[param("in out", roles(input, output))]
    matrix: Tensor,
    #[param("features", roles(feature))]
    vector: Tensor,
    #[param]
    scalar: Tensor,
    #[param("kernel channels_in channels_out", roles(kernel, input, output))]
    kernel: Tensor,
}

impl Weights {
    fn new(parameters: Parameters) -> Self {
        let [matrix, vector, scalar, kernel] = parameters.try_into().unwrap();
        Self {
            matrix,
            vector,
            scalar,
            kernel,
        }
    }

    fn tensors(&self) -> Parameters {
        graph::flatten::<Tensor, _>(self).0
    }
}

/// Applies gradients in the form of a compiled function.
fn updated(
    (mut optimizer, mut weights, gradients): (Optimizer<Weights>, Weights, Weights),
) -> (Optimizer<Weights>, Weights) {
    let gradients = Partition::from_tree(Tree::from_value(&gradients));
    optimizer.update(&mut weights, &gradients);
    (optimizer, weights)
}

fn tensors(values: &Value) -> Parameters {
    values.as_array().unwrap().iter().map(tensor).collect()
}

/// Returns the states of an optimizer that optax has, too: no numbers of schedules, and not the optimizer's own count.
fn states(optimizer: &Optimizer<Weights>) -> Vec<Tensor> {
    graph::leaves_with_path::<Tensor, _>(optimizer)
        .into_iter()
        .filter(|(path, _)| {
            let path = path.to_string();
            path != "step" && !path.contains(".schedule.")
        })
        .map(|(_, leaf)| leaf.clone())
        .collect()
}

/// Returns the differences of numbers by more than `tolerance`, relative to numbers above 1. NaN must be at the same places.
fn differences(found: &[Tensor], expected: &[Tensor], tolerance: f64) -> Vec<String> {
    if found.len() != expected.len() {
        return vec![format!(
            "found {} tensors, expected {}",
            found.len(),
            expected.len()
        )];
    }
    let mut texts = Vec::new();
    for (position, (found, expected)) in found.iter().zip(expected).enumerate() {
        if found.shape() != expected.shape() {
            texts.push(format!(
                "at {position}: {} and {}",
                found.info(),
                expected.info()
            ));
            continue;
        }
        let numbers = |tensor: &Tensor| tensor.convert(DType::F64).to_vec::<f64>();
        for (found, expected) in numbers(found).into_iter().zip(numbers(expected)) {
            let is_near = (found - expected).abs() <= tolerance * expected.abs().max(1.0);
            let is_same = found.to_bits() == expected.to_bits();
            if !(is_near || is_same || found.is_nan() && expected.is_nan()) {
                texts.push(format!("at {position}: found {found}, expected {expected}"));
            }
        }
    }
    texts
}

/// Returns the first differences of a case from its trajectory and states, eager and compiled.
fn differences_of_case(file: &Value, case: &Value) -> Vec<String> {
    let dtype = case["dtype"].as_str().unwrap();
    let tolerance = if dtype == "f32" { 1e-6 } else { 1e-12 };
    let sequence = case["params"]["gradients"].as_str().unwrap_or("plain");
    let gradients = file[dtype][sequence].as_array().unwrap();
    assert!(gradients.len() >= 10);
    let mut parameters = Weights::new(tensors(&file[dtype]["parameters"]));
    let mut eager = Optimizer::new(&parameters, optimizer(case));
    let (mut compiled, mut compiled_parameters) = (eager.clone(), parameters.clone());
    let step = jit(updated);
    let what = format!("{} {} {dtype}", case["name"], case["params"]);
    for (count, gradients) in gradients.iter().enumerate() {
        let gradients = Weights::new(tensors(gradients));
        (eager, parameters) = updated((eager, parameters, gradients.clone()));
        (compiled, compiled_parameters) = step((compiled, compiled_parameters, gradients));
        let after = tensors(&case["after"][count]);
        let expected = tensors(&case["states"][count]);
        for (part, found, expected) in [
            ("parameters", &parameters.tensors(), &after),
            (
                "compiled parameters",
                &compiled_parameters.tensors(),
                &after,
            ),
            ("states", &states(&eager), &expected),
            ("compiled states", &states(&compiled), &expected),
        ] {
            let texts = differences(found, expected, tolerance);
            if let Some(text) = texts.first() {
                return vec![format!("{what}, {part} after {count}: {text}")];
            }
        }
    }
    assert_eq!(step.traces(), 1, "{what}");
    Vec::new()
}

#[test]
fn trajectories_and_states_are_those_of_optax() {
    let file = golden("optimizers");
    let cases = file["cases"].as_array().unwrap();
    assert!(cases.len() > 100);
    let differences = cases
        .iter()
        .flat_map(|case| differences_of_case(&file, case));
    let differences: Vec<String> = differences.collect();
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

#[test]
fn parameter_average_is_that_of_optax() {
    let file = golden("optimizers");
    for (dtype, tolerance) in [("f32", 1e-6), ("f64", 1e-12)] {
        let parameters = tensors(&file[dtype]["parameters"]);
        let mut average = ParameterAverage::new(&parameters, 0.9);
        let add = jit(|(mut average, model): (ParameterAverage, Parameters)| {
            average.update(&model);
            average
        });
        let steps = file[dtype]["plain"].as_array().unwrap();
        for (model, expected) in steps
            .iter()
            .zip(file[dtype]["averages"].as_array().unwrap())
        {
            average = add((average, tensors(model)));
            let found = average.apply(&parameters);
            assert!(differences(&found, &tensors(expected), tolerance).is_empty());
        }
        assert_eq!(add.traces(), 1);
    }
}

#[test]
fn loss_scale_is_that_of_flax() {
    let case = golden("optimizers")["loss_scale"].clone();
    let options = DynamicLossScaleOptions {
        initial: 8.0,
        growth_interval: 3_usize,
        minimum: 1.0,
        ..DynamicLossScaleOptions::default()
    };
    let adjust = jit(|(mut scale, gradient): (LossScale, Tensor)| {
        let gradient: Partition<Tensor, Tensor> = Partition::from_tree(Tree::from_value(&gradient));
        let is_finite = scale.adjust(&gradient);
        (scale, is_finite)
    });
    let mut scale = LossScale::dynamic_with(options);
    let finite = case["finite"].as_array().unwrap();
    for (step, expected) in finite.iter().enumerate() {
        let expected = expected.as_bool().unwrap();
        let gradient = if expected { 1.0 } else { f32::INFINITY };
        let is_finite;
        (scale, is_finite) = adjust((scale, Tensor::from(gradient)));
        assert_eq!(is_finite, Tensor::from(expected));
        let found = f64::from(scale.scale().item::<f32>());
        assert_eq!(Some(found), case["scales"][step].as_f64(), "step {step}");
        let steps = scale.finite_steps().unwrap().item::<u32>();
        assert_eq!(
            Some(u64::from(steps)),
            case["finite_steps"][step].as_u64(),
            "step {step}"
        );
    }
    assert_eq!(adjust.traces(), 1);
}

#[test]
fn numbers_of_the_file_are_read() {
    let file = golden("optimizers");
    let nan = file["f32"]["nan"][2][0]["data"][2].clone();
    assert!(number(&nan).is_nan());
}
