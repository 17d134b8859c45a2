//! Attention, rotary and sinusoidal positions, and the cache for decoding, as in JAX and Flax NNX.

use pytree::Partition;
use pytree::nn::{
    AttentionDirection, AttentionOptions, DropoutMask, Initializer, LinearOptions,
    MultiHeadAttention, MultiHeadAttentionOptions, NormOptions, dot_product_attention, rotary,
    sinusoidal_positions, with_cache,
};
use pytree::prelude::*;
use serde_json::Value;

use crate::goldens::files::{dtype, read, tensor};
use crate::goldens::tolerance::{assert_close, numbers};

fn optional(value: &Value) -> Option<Tensor> {
    (!value.is_null()).then(|| tensor(value))
}

fn cases(name: &str, count: usize) -> Vec<Value> {
    let cases = read("attention.json")[name].as_array().unwrap().clone();
    assert_eq!(cases.len(), count, "{name}");
    cases
}

/// Asserts that tensors agree: half-precision floats up to the rounding of a few sums.
fn assert_near(what: &str, found: &Tensor, expected: &Tensor) {
    if expected.dtype() != DType::BF16 {
        return assert_close(what, found, expected);
    }
    assert_eq!(found.info(), expected.info(), "{what}");
    // bf16 has 8 bits, so one rounding is off by 2⁻⁹ of a number. Weights, products and cotangents are rounded one
    // after the other, in an order that XLA chooses, and are as large as the largest element.
    let expected = numbers(expected);
    let largest = expected.iter().fold(0.0_f64, |most, x| most.max(x.abs()));
    for (found, expected) in numbers(found).iter().zip(&expected) {
        let off = (found - expected).abs();
        assert!(
            off <= largest * 2.0_f64.powi(-7),
            "{what}: found {found}, expected {expected}"
        );
    }
}

fn direction_of(case: &Value) -> AttentionDirection {
    match case["is_causal"] == true {
        false => AttentionDirection::Bidirectional,
        true => AttentionDirection::Causal,
    }
}

fn options_of(case: &Value, bias: Option<Tensor>) -> AttentionOptions {
    AttentionOptions {
        bias,
        mask: optional(&case["mask"]),
        direction: direction_of(case),
        scale: case["scale"].as_f64(),
        local_window: case["window"].as_array().map(|window| {
            let [left, right] = [0, 1].map(|side| window[side].as_u64().unwrap() as usize);
            (left, right)
        }),
        query_lengths: optional(&case["query_lengths"]),
        key_lengths: optional(&case["key_lengths"]),
    }
}

#[test]
fn attention_function_is_as_in_jax() {
    for (number, case) in cases("functions", 45).iter().enumerate() {
        let what = format!("case {number}, {}", case["dtype"]);
        let [query, key, value, weights] =
            ["query", "key", "value", "weights"].map(|name| tensor(&case[name]));
        let bias = optional(&case["bias"]);
        let options = options_of(case, bias.clone());
        let y = dot_product_attention(&query, &key, &value, &options);
        assert_near(&format!("{what}: output"), &y, &tensor(&case["y"]));

        let loss = {
            let (case, weights) = (case.clone(), weights);
            move |given: &Vec<Tensor>| {
                let options = options_of(&case, given.get(3).cloned());
                let y = dot_product_attention(&given[0], &given[1], &given[2], &options);
                let terms = y * &weights;
                match terms.dtype() {
                    DType::BF16 => terms.convert(DType::F32).sum(),
                    _ => terms.sum(),
                }
            }
        };
        let gradients = case["gradients"].as_array().unwrap();
        let given: Vec<Tensor> = [query, key, value].into_iter().chain(bias).collect();
        let eager = grad(loss.clone())(&given);
        let compiled = jit(move |given: Vec<Tensor>| grad(loss.clone())(&given))(given);
        for (way, found) in [("", eager), (" under jit", compiled)] {
            assert_eq!(found.len(), gradients.len());
            let names = ["query", "key", "value", "bias"];
            for ((found, expected), name) in found.leaves().iter().zip(gradients).zip(names) {
                let what = format!("{what}{way}: gradient of {name}");
                assert_near(&what, found, &tensor(expected));
            }
        }
    }
}

#[test]
fn rotary_embedding_is_as_in_flax() {
    for case in cases("rotaries", 6) {
        let [x, positions, weights] = ["x", "positions", "weights"].map(|name| tensor(&case[name]));
        let base = case["base"].as_f64().unwrap();
        let turned = |x: &Tensor| rotary(x, &positions, base);
        assert_close("rotary", &turned(&x), &tensor(&case["y"]));
        let gradient = grad(|x: &Tensor| (turned(x) * &weights).sum())(&x);
        assert_close("gradient of rotary", &gradient, &tensor(&case["gradient"]));
    }
}

#[test]
fn sinusoidal_positions_follow_the_paper() {
    for case in cases("sinusoidals", 4) {
        let expected = tensor(&case["y"]);
        let features = case["features"].as_u64().unwrap() as usize;
        let found = sinusoidal_positions(
            &tensor(&case["positions"]).convert(expected.dtype()),
            features,
        );
        assert_close("sinusoidal", &found, &expected);
    }
}

/// The layer of a case, created with the same seed as in Flax.
fn layer_of(case: &Value, rngs: &mut Rngs) -> MultiHeadAttention {
    let options = &case["options"];
    let count = |name: &str| options[name].as_u64().map(|count| count as usize);
    let made_with = MultiHeadAttentionOptions {
        qkv_features: count("qkv_features"),
        out_features: count("out_features"),
        kv_in_features: count("in_kv_features"),
        kv_heads: count("num_kv_heads"),
        direction: direction_of(case),
        rotary_base: (case["rotary"] == true).then_some(10_000.0),
        qk_norm: (options["normalize_qk"] == true).then_some(NormOptions {
            bias_init: None,
            ..NormOptions::default()
        }),
        dropout_rate: options["dropout_rate"].as_f64().unwrap_or(0.0),
        dropout_mask: match options["broadcast_dropout"] == false {
            false => DropoutMask::Shared,
            true => DropoutMask::PerHead,
        },
        linear: LinearOptions {
            param_dtype: dtype(case["dtype"].as_str().unwrap()),
            bias_init: (options["use_bias"] != false).then_some(Initializer::Zeros),
            ..LinearOptions::default()
        },
        ..MultiHeadAttentionOptions::default()
    };
    let size = |name: &str| case[name].as_u64().unwrap() as usize;
    MultiHeadAttention::with_options(size("features"), size("heads"), made_with, rngs)
}

/// The name of a parameter in Flax.
fn name_in_flax(path: &str) -> String {
    path.replace("weight", "kernel").replace("_norm.0", "_ln")
}

/// The parameters with the names of Flax, compared with or replaced by those of a case.
fn with_parameters(layer: &MultiHeadAttention, values: &Value) -> MultiHeadAttention {
    let params = partition::filter(layer, &Filter::param());
    assert_eq!(params.len(), values.as_object().unwrap().len());
    let params = params.map_with_path(|path, _| tensor(&values[&name_in_flax(&path.to_string())]));
    partition::replace(layer, &params).unwrap()
}

/// The layer, the input, the context of cross-attention, the mask, and the weights of the loss.
type Given = (
    MultiHeadAttention,
    Tensor,
    Option<Tensor>,
    Option<Tensor>,
    Tensor,
);
/// The layer after a step, the output, and the gradients of the layer, the input and the context.
type Results = (
    MultiHeadAttention,
    Tensor,
    (Partition<MultiHeadAttention>, Tensor, Tensor),
);

fn forward(
    layer: &mut MultiHeadAttention,
    x: &Tensor,
    context: Option<&Tensor>,
    mask: Option<&Tensor>,
) -> Tensor {
    match (context, mask) {
        (None, None) => layer.forward(x),
        (None, Some(mask)) => layer.forward_masked(x, mask),
        (Some(context), mask) => {
            let mask = mask.cloned();
            let options = AttentionOptions {
                mask,
                ..AttentionOptions::default()
            };
            layer.attend(x, context, context, &options)
        }
    }
}

fn step((layer, x, context, mask, weights): Given) -> Results {
    let mut after = layer.clone();
    let y = forward(&mut after, &x, context.as_ref(), mask.as_ref());
    let loss = |(layer, x, other): &(MultiHeadAttention, Tensor, Tensor)| {
        let context = context.as_ref().map(|_| other);
        (forward(&mut layer.clone(), x, context, mask.as_ref()) * &weights).sum()
    };
    let other = context.clone().unwrap_or_else(|| x.clone());
    (after, y, grad(loss)(&(layer, x, other)))
}

fn check_step(what: &str, layer: &mut MultiHeadAttention, case: &Value) {
    let given = (
        layer.clone(),
        tensor(&case["x"]),
        optional(&case["context"]),
        optional(&case["mask"]),
        tensor(&case["weights"]),
    );
    for (way, results) in [("", step(given.clone())), (" under jit", jit(step)(given))] {
        let (after, y, (of_layer, of_x, of_context)) = results;
        let check = |name: &str, found: &Tensor, expected: &Value| {
            assert_close(&format!("{what}{way}: {name}"), found, &tensor(expected));
        };
        check("output", &y, &case["y"]);
        check("gradient of the input", &of_x, &case["gradient_of_x"]);
        if !case["context"].is_null() {
            check(
                "gradient of the context",
                &of_context,
                &case["gradient_of_context"],
            );
        }
        let gradients = case["gradients"].as_object().unwrap();
        assert_eq!(of_layer.len(), gradients.len(), "{what}");
        for (path, found) in of_layer.iter_with_path() {
            let name = name_in_flax(&path.to_string());
            check(&format!("gradient of {name}"), found, &gradients[&name]);
        }
        *layer = after;
    }
}

#[test]
fn attention_layer_is_as_in_flax() {
    for case in cases("layers", 16) {
        let what = format!("{} {}", case["dtype"], case["options"]);
        let mut rngs = Rngs::new(0);
        let initial = layer_of(&case, &mut rngs);
        let drawn = u64::from(rngs.stream_mut("default").unwrap().count().item::<u32>());
        assert_eq!(Some(drawn), case["drawn"].as_u64(), "{what}: keys");
        for (path, found) in partition::filter(&initial, &Filter::param()).iter_with_path() {
            let name = name_in_flax(&path.to_string());
            assert_close(
                &format!("{what}: {name} at first"),
                found,
                &tensor(&case["initial"][&name]),
            );
        }
        let mut layer = with_parameters(&initial, &case["parameters"]);
        for (number, step) in case["steps"].as_array().unwrap().iter().enumerate() {
            check_step(&format!("{what}, step {number}"), &mut layer, step);
        }
    }
}

#[test]
fn cache_is_as_in_flax() {
    for case in cases("caches", 6) {
        let what = format!("{} {}", case["dtype"], case["options"]);
        let made = layer_of(&case, &mut Rngs::new(0));
        let mut layer = with_parameters(&made, &case["parameters"]);
        layer.direction = AttentionDirection::Causal;
        let x = tensor(&case["x"]);
        let length = case["length"].as_u64().unwrap() as usize;
        let mut decoder = with_cache(&layer, [x.shape()[0]], length);
        let mut compiled_decoder = decoder.clone();
        let forward =
            |(layer, x, mask): (&mut MultiHeadAttention, Tensor, Option<Tensor>)| match mask {
                Some(mask) => layer.forward_masked(&x, &mask),
                None => layer.forward(&x),
            };
        let compiled = jit_mut(forward);
        let steps = case["steps"].as_array().unwrap();
        for (token, step) in steps.iter().enumerate() {
            let x = x.index(ix![.., token..=token]);
            let mask = optional(&step["mask"]);
            let eager = forward((&mut decoder, x.clone(), mask.clone()));
            let y = compiled((&mut compiled_decoder, x, mask));
            for (y, decoder) in [(eager, &decoder), (y, &compiled_decoder)] {
                let what = format!("{what}, token {token}");
                assert_close(&format!("{what}: output"), &y, &tensor(&step["y"]));
                let cache = decoder.cache.as_ref().unwrap();
                assert_close(&format!("{what}: keys"), &cache.key, &tensor(&step["key"]));
                assert_close(
                    &format!("{what}: values"),
                    &cache.value,
                    &tensor(&step["value"]),
                );
                assert_eq!(cache.index, tensor(&step["index"]), "{what}");
            }
        }
        assert_eq!(compiled.traces(), 1, "{what}: one trace serves all tokens");
    }
}
