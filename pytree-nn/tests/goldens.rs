//! Random numbers, layers and optimisers against figures of JAX, Flax NNX and optax.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use pytree_core::{Partition, Tree, graph};
use pytree_nn::{
    Activation, AdamOptions, Chain, Distribution, Dropout, Fan, Initializer, Key, Linear,
    LinearOptions, Mlp, Momentum, Optimizer, Rngs, adam_with, adamw_with, chain,
    clip_by_global_norm, sgd, sgd_momentum, softmax_cross_entropy,
};
use pytree_transform::{DType, Tensor, grad, jit, vmap};
use serde_json::Value;

use crate::support::{close, golden, number, tensor};

fn seeds() -> Vec<(Key, Value)> {
    let file = golden("random");
    let seeds = file["seeds"].as_array().unwrap();
    seeds
        .iter()
        .map(|case| (Key::new(case["seed"].as_u64().unwrap()), case.clone()))
        .collect()
}

#[test]
fn keys_and_bits_are_those_of_jax() {
    for (key, case) in seeds() {
        assert_eq!(*key.data(), tensor(&case["key"]));
        assert_eq!(*key.split_stacked(2).data(), tensor(&case["split_2"]));
        assert_eq!(*key.split_stacked(5).data(), tensor(&case["split_5"]));
        assert_eq!(*key.split_shaped([2, 3]).data(), tensor(&case["split_2x3"]));
        for fold in case["fold_in"].as_array().unwrap() {
            let data = u32::try_from(fold["data"].as_u64().unwrap()).unwrap();
            assert_eq!(*key.fold_in(data).data(), tensor(&fold["key"]));
        }
        assert_eq!(key.bits([7]), tensor(&case["bits_7"]));
        assert_eq!(key.bits([2, 3]), tensor(&case["bits_2x3"]));
    }
}

#[test]
fn uniform_numbers_match_jax_bit_for_bit() {
    for (key, case) in seeds() {
        assert_eq!(
            key.uniform(DType::F32, [2, 3]),
            tensor(&case["uniform_f32"])
        );
        assert_eq!(
            key.uniform_between(DType::F32, [2, 3], -2.0, 3.0),
            tensor(&case["uniform_f32_minus2_3"])
        );
        assert_eq!(key.uniform(DType::F64, [4]), tensor(&case["uniform_f64"]));
        assert_eq!(key.bernoulli(0.3, [10]), tensor(&case["bernoulli_0.3"]));
    }
}

#[test]
fn uniform_bounds_are_those_of_jax_or_refused() {
    for (key, case) in seeds() {
        for case in case["uniform_between"].as_array().unwrap() {
            let expected = tensor(&case["numbers"]);
            let (dtype, bounds) = (expected.dtype(), &case["bounds"]);
            let (low, high) = (number(&bounds[0]), number(&bounds[1]));
            let draw = move |key: Key| key.uniform_between(dtype, [5], low, high);
            if !(low <= high && low.is_finite() && high.is_finite()) {
                let refused = std::panic::catch_unwind(|| draw(key.clone())).unwrap_err();
                let message = refused.downcast::<String>().unwrap();
                assert!(message.contains("expected finite bounds"), "{message}");
                continue;
            }
            for found in [draw(key.clone()), jit(draw)(key.clone())] {
                assert_eq!(bits(&found), bits(&expected), "{dtype} from {bounds}");
            }
        }
    }
}

/// Returns the bits of each number, but the same for every NaN.
fn bits(tensor: &Tensor) -> Vec<u64> {
    let numbers = tensor.convert(DType::F64).to_vec::<f64>();
    let bits = numbers
        .iter()
        .map(|number| if number.is_nan() { f64::NAN } else { *number }.to_bits());
    bits.collect()
}

#[test]
fn normal_numbers_are_those_of_jax() {
    for (key, case) in seeds() {
        close(
            &key.normal(DType::F32, [2, 3]),
            &tensor(&case["normal_f32"]),
            1e-6,
            "normal",
        );
        close(
            &key.normal(DType::F64, [4]),
            &tensor(&case["normal_f64"]),
            1e-13,
            "normal in f64",
        );
        let truncated = key.truncated_normal(DType::F32, [2, 3], -2.0, 2.0);
        close(
            &truncated,
            &tensor(&case["truncated_normal_f32_minus2_2"]),
            1e-6,
            "truncated normal",
        );
    }
}

#[test]
fn poisson_numbers_of_many_seeds_are_those_of_jax() {
    for case in golden("random")["poisson"].as_array().unwrap() {
        let rates = tensor(&case["rates"]);
        let expected = tensor(&case["numbers"]);
        let count = expected.shape()[0];
        assert!(count >= 100);
        let shape = rates.shape().to_vec();
        let compiled = {
            let (rates, shape) = (rates.clone(), shape.clone());
            jit(move |key: Key| key.poisson(&rates, &shape))
        };
        for seed in 0..count {
            let row = expected.take(&Tensor::from(i32::try_from(seed).unwrap()), 0);
            let key = Key::new(seed as u64);
            if seed < 30 {
                assert_eq!(key.poisson(&rates, &shape), row, "seed {seed} of {rates}");
            }
            assert_eq!(compiled(key), row, "seed {seed} of {rates}, compiled");
        }
    }
}

#[test]
fn integers_and_permutations_are_those_of_jax() {
    for (key, case) in seeds() {
        assert_eq!(key.randint([5], 0, 100), tensor(&case["randint_0_100"]));
        for length in [10, 1000, 2000] {
            assert_eq!(
                key.permutation(length),
                tensor(&case[format!("permutation_{length}")])
            );
        }
    }
}

#[test]
fn keys_can_be_mapped_over_and_compiled() {
    for (key, case) in seeds() {
        let expected = tensor(&case["vmap_uniform_of_split_4"]);
        let draw = |key: Key| key.uniform(DType::F32, [3]);
        assert_eq!(vmap(draw)(key.split_stacked(4)), expected);
        assert_eq!(jit(vmap(draw))(key.split_stacked(4)), expected);
        assert_eq!(
            jit(|key: Key| key.permutation(10))(key.clone()),
            tensor(&case["permutation_10"])
        );
        let normal = jit(|key: Key| key.normal(DType::F32, [2, 3]))(key);
        close(
            &normal,
            &tensor(&case["normal_f32"]),
            1e-6,
            "normal under jit",
        );
    }
}

fn rngs(seeds: &Value) -> Rngs {
    Rngs::with(
        seeds
            .as_object()
            .unwrap()
            .iter()
            .map(|(name, seed)| (name.clone(), seed.as_u64().unwrap())),
    )
}

fn draw(rngs: &mut Rngs, stream: &str) -> Tensor {
    rngs.next(if stream.is_empty() { "default" } else { stream })
        .data()
        .clone()
}

#[track_caller]
fn check_streams(rngs: &Rngs, expected: &Value) {
    let expected = expected.as_object().unwrap();
    assert_eq!(rngs.streams().count(), expected.len());
    for (name, stream) in rngs.streams() {
        assert_eq!(
            *stream.key().data(),
            tensor(&expected[name]["key"]),
            "the key of {name}"
        );
        assert_eq!(
            *stream.count(),
            tensor(&expected[name]["count"]),
            "the count of {name}"
        );
    }
}

#[test]
fn streams_give_the_keys_of_nnx() {
    for case in golden("nnx")["rngs"].as_array().unwrap() {
        for (stream, keys) in case["fresh"].as_object().unwrap() {
            let mut rngs = rngs(&case["seeds"]);
            let found: Vec<Tensor> = (0..4).map(|_| draw(&mut rngs, stream)).collect();
            assert_eq!(
                Tensor::stack(&found, 0),
                tensor(keys),
                "the stream `{stream}`"
            );
        }
        let mut rngs = rngs(&case["seeds"]);
        for call in case["interleaved"].as_array().unwrap() {
            assert_eq!(
                draw(&mut rngs, call["stream"].as_str().unwrap()),
                tensor(&call["key"])
            );
        }
        check_streams(&rngs, &case["after"]);
    }
}

#[test]
fn streams_split_and_fork_like_nnx() {
    let mut checked = 0;
    for case in golden("nnx")["split_fork"].as_array().unwrap() {
        let mut rngs = rngs(&case["seeds"]);
        for stream in case["calls_before"].as_array().unwrap() {
            draw(&mut rngs, stream.as_str().unwrap());
        }
        let made = match case["operation"].as_str().unwrap() {
            "split(3)" => rngs.split(3),
            "split((2, 3))" => rngs.split_shaped([2, 3]),
            "fork()" => rngs.fork(),
            // Streams are split one by one here: `rngs.stream_mut("params")?.split([3])`.
            _ => continue,
        };
        check_streams(&made, &case["result"]);
        check_streams(&rngs, &case["parent_after"]);
        checked += 1;
    }
    assert_eq!(checked, 3);
}

#[test]
fn linear_layers_begin_as_those_of_nnx() {
    let case = &golden("nnx")["linear"];
    let mut rngs = Rngs::new(0);
    let linear = Linear::new(2, 3, &mut rngs);
    close(&linear.weight, &tensor(&case["kernel"]), 1e-6, "the kernel");
    assert_eq!(linear.bias, Some(tensor(&case["bias"])));
    check_streams(&rngs, &case["after"]);
    let next = Linear::without_bias(2, 3, &mut rngs);
    close(
        &next.weight,
        &tensor(&case["next_kernel_without_bias"]),
        1e-6,
        "the next kernel",
    );
    let options = LinearOptions {
        param_dtype: DType::F64,
        ..LinearOptions::default()
    };
    let double = Linear::with_options(2, 3, options, &mut Rngs::new(0));
    let expected = tensor(&case["kernel_f64"]);
    close(&double.weight, &expected, 1e-13, "the kernel in f64");
    assert_eq!(double.bias, Some(Tensor::zeros(DType::F64, [3])));
}

#[test]
fn perceptron_computes_what_that_of_nnx_does() {
    let case = &golden("nnx")["mlp"];
    let mut rngs = Rngs::new(0);
    let mlp = Mlp::new(&[4, 8, 8, 2], Activation::Tanh, &mut rngs);
    for (layer, expected) in mlp.layers.iter().zip(case["layers"].as_array().unwrap()) {
        close(
            &layer.weight,
            &tensor(&expected["kernel"]),
            1e-6,
            "a kernel",
        );
        assert_eq!(layer.bias, Some(tensor(&expected["bias"])));
    }
    check_streams(&rngs, &case["after"]);
    let x = tensor(&case["input"]);
    // Sums of eight products near 1 lose a few units in the last place.
    close(
        &mlp.forward(&x),
        &tensor(&case["output"]),
        5e-6,
        "the output",
    );
    close(
        &vmap(|(mlp, x): (Mlp, Tensor)| mlp.forward(&x)).in_axes((None, 0))((mlp, x)),
        &tensor(&case["output"]),
        5e-6,
        "the output under vmap",
    );
}

#[test]
#[allow(
    clippy::cast_possible_truncation,
    reason = "the quotient is rounded as in JAX"
)]
fn dropout_drops_what_that_of_nnx_does() {
    for case in golden("nnx")["dropout"].as_array().unwrap() {
        let mut rngs = rngs(&case["seeds"]);
        let mut dropout = Dropout::new(case["rate"].as_f64().unwrap(), &mut rngs);
        assert_eq!(*dropout.stream().key().data(), tensor(&case["own_key"]));
        check_streams(&rngs, &case["parent_after"]);
        for expected in case["outputs"].as_array().unwrap() {
            assert_eq!(dropout.forward(&tensor(&case["input"])), tensor(expected));
        }
    }
}

#[test]
fn initializers_are_those_of_jax() {
    for case in golden("nnx")["initializers"].as_array().unwrap() {
        let parameter = |name: &str| case["params"][name].as_f64().unwrap();
        let initializer = match case["name"].as_str().unwrap() {
            "lecun_normal" => Initializer::lecun_normal(),
            "lecun_uniform" => Initializer::lecun_uniform(),
            "he_normal" => Initializer::he_normal(),
            "he_uniform" => Initializer::he_uniform(),
            "glorot_normal" => Initializer::glorot_normal(),
            "glorot_uniform" => Initializer::glorot_uniform(),
            "normal" => Initializer::Normal(parameter("stddev")),
            "uniform" => Initializer::Uniform(parameter("scale")),
            "truncated_normal" => Initializer::TruncatedNormal(parameter("stddev")),
            "zeros" => Initializer::Zeros,
            "ones" => Initializer::Ones,
            other => panic!("no initialiser `{other}`"),
        };
        let expected = tensor(&case["output"]);
        let key = Key::new(case["seed"].as_u64().unwrap());
        let found = initializer.initialize(&key, expected.dtype(), expected.shape());
        close(&found, &expected, 1e-6, case["name"].as_str().unwrap());
    }
}

#[test]
fn scaling_by_outputs_swaps_the_fans() {
    let of = |fan| Initializer::VarianceScaling {
        scale: 1.0,
        fan,
        distribution: Distribution::Normal,
    };
    let key = Key::new(0);
    let by_inputs = of(Fan::In).initialize(&key, DType::F64, [4, 16]);
    let by_outputs = of(Fan::Out).initialize(&key, DType::F64, [4, 16]);
    close(&(by_outputs * 2.0), &by_inputs, 1e-12, "the scale");
}

fn transformation(case: &Value) -> Chain {
    let hyper = |name: &str| case["params"][name].as_f64();
    let rate = hyper("learning_rate").unwrap();
    let adam = || AdamOptions {
        beta1: hyper("b1").unwrap(),
        beta2: hyper("b2").unwrap(),
        epsilon: hyper("eps").unwrap(),
        ..AdamOptions::default()
    };
    match (case["name"].as_str().unwrap(), hyper("momentum")) {
        ("sgd", None) => sgd(rate),
        ("sgd", Some(momentum)) => sgd_momentum(
            rate,
            momentum,
            if case["params"]["nesterov"] == Value::Bool(true) {
                Momentum::Nesterov
            } else {
                Momentum::Classical
            },
        ),
        ("adam", _) => adam_with(rate, adam()),
        ("adamw", _) => adamw_with(rate, hyper("weight_decay").unwrap(), adam()),
        ("clip_by_global_norm+sgd", _) => {
            chain([clip_by_global_norm(hyper("max_norm").unwrap()), sgd(rate)])
        }
        (other, _) => panic!("no optimiser `{other}`"),
    }
}

type Parameters = Vec<Tensor>;

fn tensors(values: &Value) -> Parameters {
    values.as_array().unwrap().iter().map(tensor).collect()
}

#[test]
fn optimizers_update_as_those_of_optax() {
    let file = golden("optax");
    let compiled = jit(
        |(mut optimizer, mut parameters, gradients): (
            Optimizer<Parameters>,
            Parameters,
            Parameters,
        )| {
            let gradients = Partition::from_tree(Tree::from_value(&gradients));
            optimizer.update(&mut parameters, &gradients);
            (optimizer, parameters)
        },
    );
    let gradients: Vec<Parameters> = file["gradients"]
        .as_array()
        .unwrap()
        .iter()
        .map(tensors)
        .collect();
    for case in file["optimizers"].as_array().unwrap() {
        let mut parameters = tensors(&file["parameters"]);
        let mut optimizer = Optimizer::new(&parameters, transformation(case));
        let (mut jitted_optimizer, mut jitted) = (optimizer.clone(), parameters.clone());
        for (gradients, expected) in gradients.iter().zip(case["after"].as_array().unwrap()) {
            let part = Partition::from_tree(Tree::from_value(gradients));
            optimizer.update(&mut parameters, &part);
            (jitted_optimizer, jitted) = compiled((jitted_optimizer, jitted, gradients.clone()));
            for (position, expected) in tensors(expected).iter().enumerate() {
                for found in [&parameters[position], &jitted[position]] {
                    let difference = (found - expected).abs().max().item::<f32>();
                    assert!(difference <= 1e-6, "{}: off by {difference}", case["name"]);
                }
            }
        }
    }
    assert_eq!(
        graph::leaves::<Tensor, _>(&tensors(&file["parameters"])).len(),
        2
    );
}

#[test]
fn labels_without_class_give_nan_as_in_optax() {
    for case in golden("optax")["labels"].as_array().unwrap() {
        let (logits, labels) = (tensor(&case["logits"]), tensor(&case["labels"]));
        let dtype = labels.dtype();
        let losses = |(logits, labels): (Tensor, Tensor)| softmax_cross_entropy(&logits, &labels);
        let gradient = |(logits, labels): (Tensor, Tensor)| {
            grad(|logits: &Tensor| softmax_cross_entropy(logits, &labels).sum())(&logits)
        };
        let given = (logits, labels);
        for found in [
            jit(losses)(given.clone()),
            vmap(losses)(given.clone()),
            jit(vmap(losses))(given.clone()),
        ] {
            near(
                &found,
                &tensor(&case["losses"]),
                &format!("losses for labels of {dtype}"),
            );
        }
        for found in [jit(gradient)(given.clone()), vmap(gradient)(given.clone())] {
            near(
                &found,
                &tensor(&case["gradient"]),
                &format!("gradient for labels of {dtype}"),
            );
        }
    }
}

/// Each element within 1e-6 of the expected one; both or neither NaN.
#[track_caller]
fn near(found: &Tensor, expected: &Tensor, what: &str) {
    assert_eq!(
        found.isnan(),
        expected.isnan(),
        "{what}: found {found}, expected {expected}"
    );
    let numbers = |tensor: &Tensor| expected.isnan().select(Tensor::zeros_like(tensor), tensor);
    close(&numbers(found), &numbers(expected), 1e-6, what);
}
