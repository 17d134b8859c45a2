//! Schedules against those of optax, under `jit`, and in optimizers.

use pytree_nn::{
    CosineOneCycleOptions, CosineOptions, DecaySteps, ExponentialOptions, LinearOneCycleOptions,
    Optimizer, Schedule, WarmupCosine, adam, convert_floats, sgd,
};
use pytree_transform::{DType, Tensor, jit, vmap};
use serde_json::Value;

use crate::optimizers::updated;
use crate::support::{golden, number, tensor};

/// Factors at boundaries, as in the golden script.
const FACTORS: [(usize, f64); 3] = [(10, 0.5), (20, 0.1), (25, 3.0)];

fn sgdr() -> Schedule {
    let cycle = |init, peak, warmup_steps, decay_steps, end| WarmupCosine {
        init,
        peak,
        warmup_steps,
        decay_steps,
        end,
        exponent: 1.0,
    };
    Schedule::sgdr([
        cycle(0.01, 0.3, 2, 10, 0.02),
        cycle(0.02, 0.2, 3, 15, 0.0),
        cycle(0.0, 0.1, 0, 8, 0.0),
    ])
}

/// Returns the schedule of a case.
fn schedule(case: &Value) -> Schedule {
    let parameter = |name: &str| case["params"].get(name).filter(|value| !value.is_null());
    let float = |name: &str, default: f64| parameter(name).map_or(default, number);
    let delayed = |schedule: Schedule| match parameter("begin").and_then(Value::as_u64) {
        Some(begin) if begin > 0 => schedule.delayed(usize::try_from(begin).unwrap()),
        _ => schedule,
    };
    match case["name"].as_str().unwrap() {
        "constant" => Schedule::constant(0.3),
        "linear" if parameter("begin").is_some() => delayed(Schedule::linear(0.0, 0.3, 20)),
        "linear" => Schedule::linear(0.3, 0.01, 20),
        "polynomial" => delayed(Schedule::polynomial(0.3, 0.01, 20, float("power", 1.0))),
        "exponential" => {
            let staircase = parameter("staircase") == Some(&Value::Bool(true));
            let options = ExponentialOptions {
                decay_steps: if staircase {
                    DecaySteps::Staircase
                } else {
                    DecaySteps::Continuous
                },
                end: parameter("end").map(number),
            };
            delayed(Schedule::exponential_with(0.3, 0.6, 8, options))
        }
        "growth" => {
            let options = ExponentialOptions {
                end: Some(0.05),
                ..ExponentialOptions::default()
            };
            Schedule::exponential_with(0.01, 1.5, 8, options)
        }
        "cosine" => {
            let options = CosineOptions {
                alpha: float("alpha", 0.0),
                exponent: float("exponent", 1.0),
            };
            Schedule::cosine_with(0.3, 30, options)
        }
        "warmup_cosine" => Schedule::warmup_cosine_with(WarmupCosine {
            init: float("init", 0.0),
            peak: 0.3,
            warmup_steps: 10,
            decay_steps: 30,
            end: float("end", 0.0),
            exponent: float("exponent", 1.0),
        }),
        "piecewise_constant" => Schedule::piecewise_constant(0.3, FACTORS),
        "piecewise_linear" => Schedule::piecewise_linear(0.3, FACTORS),
        "piecewise_cosine" => Schedule::piecewise_cosine(0.3, FACTORS),
        "linear_one_cycle" => Schedule::linear_one_cycle(0.3, 30),
        "linear_one_cycle_with" => {
            let options = LinearOneCycleOptions {
                rising_part: 0.2,
                falling_part: 0.6,
                initial_divisor: 10.0,
                final_divisor: 100.0,
            };
            Schedule::linear_one_cycle_with(0.3, 30, options)
        }
        "cosine_one_cycle" => Schedule::cosine_one_cycle(0.3, 30),
        "cosine_one_cycle_with" => {
            let options = CosineOneCycleOptions {
                rising_part: 0.5,
                initial_divisor: 10.0,
                final_divisor: 100.0,
            };
            Schedule::cosine_one_cycle_with(0.3, 30, options)
        }
        "sgdr" => sgdr(),
        "joined" => Schedule::joined(
            Schedule::linear(0.0, 0.3, 10),
            [
                (10, Schedule::constant(0.3)),
                (20, Schedule::exponential(0.3, 0.5, 5)),
            ],
        ),
        other => panic!("no schedule `{other}`"),
    }
}

#[test]
fn schedules_are_those_of_optax() {
    let file = golden("schedules");
    let counts = file["counts"].as_array().unwrap();
    let counts: Vec<i32> = counts
        .iter()
        .map(|count| i32::try_from(count.as_i64().unwrap()).unwrap())
        .collect();
    let cases = file["cases"].as_array().unwrap();
    assert!(cases.len() > 20);
    for case in cases {
        // Values are compared with the largest value, because a cosine near its end is a difference that cancels.
        for (dtype, name, tolerance) in [(DType::F32, "f32", 1e-6), (DType::F64, "f64", 1e-14)] {
            let schedule = convert_floats(&schedule(case), dtype);
            let expected = tensor(&case[name]).convert(DType::F64);
            let largest = expected.abs().max().item::<f64>();
            let compiled = jit(|(schedule, count): (Schedule, Tensor)| schedule.value(count));
            let values = counts.iter().map(|&count| {
                let value = compiled((schedule.clone(), Tensor::from(count)));
                assert_eq!(value, schedule.value(count), "{case} at {count}");
                assert_eq!(value.dtype(), dtype);
                value
            });
            let values: Vec<Tensor> = values.collect();
            assert_eq!(compiled.traces(), 1);
            let found = Tensor::stack(&values, 0).convert(DType::F64);
            let difference = (&found - &expected).abs().max().item::<f64>();
            assert!(
                difference <= tolerance * largest,
                "{} {}: off by {difference}: found {found}, expected {expected}",
                case["name"],
                case["params"]
            );
        }
    }
}

#[test]
fn other_numbers_do_not_retrace() {
    let compiled = jit(|(schedule, count): (Schedule, Tensor)| schedule.value(count));
    let make = |scale: f64, steps: usize| {
        let warmup = WarmupCosine {
            peak: scale,
            warmup_steps: steps,
            decay_steps: 5 * steps,
            ..WarmupCosine::default()
        };
        let last = Schedule::exponential(scale, 0.5, steps).delayed(steps);
        let cycle = Schedule::piecewise_cosine(scale, [(steps, 0.5)]);
        Schedule::joined(
            Schedule::warmup_cosine_with(warmup),
            [(5 * steps, cycle), (9 * steps, last)],
        )
    };
    for (scale, steps) in [(0.1, 4), (0.2, 7), (3.0, 11)] {
        let schedule = make(scale, steps);
        for count in 0..100 {
            let found = compiled((schedule.clone(), Tensor::from(count)));
            assert_eq!(found, schedule.value(count));
        }
    }
    assert_eq!(compiled.traces(), 1);
}

#[test]
fn schedule_of_many_counts_by_vmap() {
    let counts = Tensor::from((0..50).collect::<Vec<i32>>());
    let schedule = sgdr();
    let of = |(schedule, count): (Schedule, Tensor)| schedule.value(count);
    let values = vmap(of).in_axes((None, 0))((schedule.clone(), counts));
    let each: Vec<Tensor> = (0..50).map(|count| schedule.value(count)).collect();
    assert_eq!(values, Tensor::stack(&each, 0));
}

#[test]
fn scheduled_rate_traces_once() {
    let parameters = vec![Tensor::from([1.0_f32, 2.0])];
    let compiled = jit(updated);
    let peaks = [0.1, 0.3];
    for peak in peaks {
        let rate = Schedule::warmup_cosine(peak, 2, 8);
        let mut optimizer = Optimizer::new(&parameters, sgd(rate.clone()));
        let mut moving = parameters.clone();
        let mut by_hand = Tensor::from([1.0_f32, 2.0]);
        for count in 0..10 {
            let expected = convert_floats(&rate, DType::F32).value(count);
            assert_eq!(optimizer.learning_rate(), Some(expected.clone()));
            (optimizer, moving) = compiled((optimizer, moving, parameters.clone()));
            by_hand += &parameters[0] * -expected;
            assert_eq!(moving[0], by_hand);
        }
    }
    assert_eq!(compiled.traces(), 1);
}

#[test]
fn replaced_schedule_keeps_its_count() {
    let parameters = vec![Tensor::from([1.0_f32])];
    let mut optimizer = Optimizer::new(&parameters, adam(Schedule::linear(1.0, 0.0, 10)));
    for _ in 0..4 {
        (optimizer, _) = updated((optimizer, parameters.clone(), parameters.clone()));
    }
    optimizer.set_learning_rate(Schedule::linear(2.0, 0.0, 8));
    assert_eq!(optimizer.learning_rate(), Some(Tensor::from(1.0_f32)));
    optimizer.set_learning_rate(0.25);
    assert_eq!(optimizer.learning_rate(), Some(Tensor::from(0.25_f32)));
}

#[test]
fn half_precision_models_count_in_f32() {
    let parameters = vec![Tensor::zeros(DType::BF16, [1])];
    let mut optimizer = Optimizer::new(&parameters, sgd(Schedule::linear(0.0, 300.0, 300)));
    let compiled = jit(updated);
    for _ in 0..259 {
        (optimizer, _) = compiled((optimizer, parameters.clone(), parameters.clone()));
    }
    assert_eq!(optimizer.learning_rate(), Some(Tensor::from(259.0_f32)));
}

#[test]
#[should_panic(expected = "expected more than 10 updates, the length of the warm-up, found 10")]
fn decay_shorter_than_warmup_is_refused() {
    let _ = Schedule::warmup_cosine(1.0, 10, 10);
}
