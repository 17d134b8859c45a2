//! Convolutions, pooling, general linear layers and others: initial parameters, outputs and gradients.

use pytree::core::edit;
use pytree::nn::{
    Conv, ConvOptions, ConvPadding, ConvTranspose, ConvTransposeOptions, Einsum, EinsumOptions,
    Forward, Initializer, InstanceNorm, LinearGeneral, LinearGeneralOptions, LinearOptions, Lora,
    LoraParam, NormOptions, PRelu, PerAxis, Pool, SpectralNorm, VarianceFormula, WeightNorm,
};
use pytree::pooling::PaddingCount;
use pytree::prelude::*;
use pytree::{Partition, convolution};
use serde_json::Value;

use crate::goldens::files::{dtype, integers, read, tensor};
use crate::goldens::models::record_call;
use crate::goldens::tolerance::assert_close;

type Layer = Box<dyn Forward>;
type Given = (Layer, Tensor, Tensor);
type Results = (Tensor, Partition<Layer, Tensor>, Tensor);

fn number(value: &Value) -> usize {
    value.as_u64().unwrap() as usize
}

/// A number, or a list of numbers.
fn numbers(value: &Value) -> Vec<usize> {
    match value.as_array() {
        Some(several) => several.iter().map(number).collect(),
        None => vec![number(value)],
    }
}

fn per_axis(option: &Value) -> PerAxis {
    match option {
        Value::Null => PerAxis::default(),
        Value::Number(_) => PerAxis::All(number(option)),
        several => PerAxis::Each(numbers(several)),
    }
}

fn pairs(option: &Value) -> Vec<(isize, isize)> {
    let pairs = option.as_array().unwrap().iter().map(numbers);
    pairs
        .map(|pair| (pair[0].cast_signed(), pair[1].cast_signed()))
        .collect()
}

fn padding(option: &Value) -> ConvPadding {
    match option.as_str() {
        Some("SAME") => ConvPadding::Same,
        Some("VALID") => ConvPadding::Valid,
        Some("CIRCULAR") => ConvPadding::Circular,
        Some("REFLECT") => ConvPadding::Reflect,
        Some("CAUSAL") => ConvPadding::Causal,
        Some(other) => panic!("no padding `{other}`"),
        None if option.is_null() => ConvPadding::Same,
        None => ConvPadding::Explicit(pairs(option)),
    }
}

fn bias(options: &Value) -> Option<Initializer> {
    (options["use_bias"] != false).then_some(Initializer::Zeros)
}

fn convolution_of(case: &Value, rngs: &mut Rngs) -> Layer {
    let (arguments, options) = (&case["arguments"], &case["options"]);
    let (inputs, outputs) = (number(&arguments[0]), number(&arguments[1]));
    let kernel = numbers(&arguments[2]);
    let param_dtype = dtype(case["dtype"].as_str().unwrap());
    if case["layer"] == "Conv" {
        let options = ConvOptions {
            strides: per_axis(&options["strides"]),
            padding: padding(&options["padding"]),
            input_dilation: per_axis(&options["input_dilation"]),
            kernel_dilation: per_axis(&options["kernel_dilation"]),
            groups: options["feature_group_count"].as_u64().unwrap_or(1) as usize,
            param_dtype,
            bias_init: bias(options),
            ..ConvOptions::default()
        };
        return Box::new(Conv::with_options(inputs, outputs, kernel, options, rngs));
    }
    let options = ConvTransposeOptions {
        strides: per_axis(&options["strides"]),
        padding: padding(&options["padding"]),
        kernel_dilation: per_axis(&options["kernel_dilation"]),
        param_dtype,
        bias_init: bias(options),
        ..ConvTransposeOptions::default()
    };
    let layer = ConvTranspose::with_options(inputs, outputs, kernel, options, rngs);
    Box::new(layer)
}

fn pool_of(case: &Value, _: &mut Rngs) -> Layer {
    let options = &case["options"];
    let window = numbers(&case["arguments"][0]);
    let pool = match case["layer"].as_str().unwrap() {
        "max_pool" => Pool::max(window),
        "min_pool" => Pool::min(window),
        "avg_pool" => Pool::average(window),
        other => panic!("no layer `{other}`"),
    };
    let padding = match &options["padding"] {
        Value::Null => convolution::Padding::Valid,
        Value::String(_) => convolution::Padding::Same,
        explicit => convolution::Padding::Explicit(pairs(explicit)),
    };
    let count = match options["count_include_pad"] == false {
        true => PaddingCount::Exclude,
        false => PaddingCount::Include,
    };
    let pool = pool.strides(per_axis(&options["strides"]));
    Box::new(pool.padding(padding).count_padding(count))
}

fn other_of(case: &Value, rngs: &mut Rngs) -> Layer {
    let (arguments, options) = (&case["arguments"], &case["options"]);
    let param_dtype = dtype(case["dtype"].as_str().unwrap());
    match case["layer"].as_str().unwrap() {
        "LinearGeneral" => {
            let axes = match &options["axis"] {
                Value::Null => None,
                Value::Number(axis) => Some(vec![axis.as_i64().unwrap() as isize]),
                several => Some(integers(several)),
            };
            let batch = options["batch_axis"].as_object();
            let options = LinearGeneralOptions {
                axes,
                batch: batch.map_or(vec![], |batch| batch.values().map(number).collect()),
                param_dtype,
                bias_init: bias(options),
                ..LinearGeneralOptions::default()
            };
            let (inputs, outputs) = (numbers(&arguments[0]), numbers(&arguments[1]));
            Box::new(LinearGeneral::with_options(inputs, outputs, options, rngs))
        }
        "Einsum" => {
            let options = EinsumOptions {
                bias_shape: (!arguments[2].is_null()).then(|| numbers(&arguments[2])),
                param_dtype,
                ..EinsumOptions::default()
            };
            let subscripts = arguments[0].as_str().unwrap();
            let shape = numbers(&arguments[1]);
            Box::new(Einsum::with_options(subscripts, shape, options, rngs))
        }
        "InstanceNorm" => {
            let made_with = NormOptions {
                param_dtype,
                scale_init: (options["use_scale"] != false).then_some(Initializer::Ones),
                bias_init: bias(options),
                epsilon: options["epsilon"].as_f64(),
                variance_formula: match options["use_fast_variance"] == false {
                    true => VarianceFormula::Accurate,
                    false => VarianceFormula::Fast,
                },
            };
            Box::new(InstanceNorm {
                axis: options["feature_axes"].as_i64().unwrap_or(-1) as isize,
                ..InstanceNorm::with_options(number(&arguments[0]), made_with, rngs)
            })
        }
        "PReLU" => {
            let slope = arguments[0].as_f64();
            let layer = slope.map_or_else(PRelu::default, PRelu::new);
            Box::new(PRelu {
                negative_slope: match param_dtype {
                    DType::F32 => layer.negative_slope,
                    wider => Tensor::full(wider, [], slope.unwrap_or(0.01)),
                },
            })
        }
        other => panic!("no layer `{other}`"),
    }
}

/// The output, and gradients with respect to the parameters and the input.
fn step((mut layer, x, weights): Given) -> Results {
    let at_x = layer.clone();
    let ((_, y), of_layer) = value_and_grad_mut(|layer: &mut Layer| {
        let y = layer.forward(&x);
        ((&y * &weights).sum(), y)
    })(&mut layer);
    let of_x = grad(|x: &Tensor| (at_x.clone().forward(x) * &weights).sum())(&x);
    (y, of_layer, of_x)
}

/// Flax converts the kernel of a transposed convolution with `transpose_kernel` when it runs.
fn converted(case: &Value, name: &str, value: &Value) -> Tensor {
    let value = tensor(value);
    if name == "weight" && case["options"]["transpose_kernel"] == true {
        let axes = value.rank() - 2;
        return convolution::turned(&value, axes).swap_axes(-1, -2);
    }
    value
}

fn check(group: &str, count: usize, layer_of: fn(&Value, &mut Rngs) -> Layer) {
    let file = read("model_layers.json");
    let cases = file[group].as_array().unwrap();
    assert_eq!(cases.len(), count);
    let compiled = jit(step);
    for case in cases {
        let what = format!(
            "{} {} {} {}",
            case["layer"], case["arguments"], case["options"], case["dtype"]
        );
        let mut rngs = Rngs::new(0);
        let mut layer = layer_of(case, &mut rngs);
        let drawn = u64::from(rngs.stream_mut("default").unwrap().count().item::<u32>());
        assert_eq!(Some(drawn), case["drawn"].as_u64(), "{what}: keys");
        let parameters = partition::filter(&layer, &Filter::param());
        let names = case["parameters"].as_object().unwrap();
        assert_eq!(parameters.iter_with_path().count(), names.len(), "{what}");
        for (name, value) in names {
            let what = format!("{what}: {name} at first");
            let initial = tensor(&case["initial"][name]);
            // With another layout, the same numbers are drawn for other elements.
            if case["options"]["transpose_kernel"] != true {
                assert_close(&what, &parameters[name.as_str()], &initial);
            }
            layer = edit::replace_at(&layer, name, converted(case, name, value)).unwrap();
        }
        let given = (layer, tensor(&case["x"]), tensor(&case["weights"]));
        record_call(&what, &compiled, &given);
        for (way, results) in [("", step(given.clone())), (" under jit", compiled(given))] {
            let (y, of_layer, of_x) = results;
            assert_close(&format!("{what}{way}: output"), &y, &tensor(&case["y"]));
            let gradients = &case["gradients"];
            let of_input = format!("{what}{way}: gradient of the input");
            assert_close(&of_input, &of_x, &tensor(&gradients["x"]));
            assert_eq!(of_layer.iter_with_path().count(), names.len(), "{what}");
            for name in names.keys() {
                let what = format!("{what}{way}: gradient of {name}");
                let expected = converted(case, name, &gradients[name]);
                assert_close(&what, &of_layer[name.as_str()], &expected);
            }
        }
    }
}

#[test]
fn convolutions_are_as_in_flax() {
    check("convolutions", 62, convolution_of);
}

#[test]
fn pooling_is_as_in_flax() {
    check("pooling", 18, pool_of);
}

#[test]
fn other_layers_are_as_in_flax() {
    check("others", 34, other_of);
}

#[test]
fn adapters_are_as_in_flax() {
    let file = read("model_layers.json");
    let cases = file["adapters"].as_array().unwrap();
    assert_eq!(cases.len(), 4);
    for case in cases {
        let what = format!("{} rank {}", case["dtype"], case["rank"]);
        let value = |name: &str| tensor(&case["parameters"][name]);
        let linear = Linear {
            weight: value("weight"),
            bias: Some(value("bias")),
        };
        let rank = number(&case["rank"]);
        let mut lora = Lora::new(&linear, &Filter::param(), rank, &mut Rngs::new(0));
        let [adapter] = &mut lora.adapters[..] else {
            panic!("{what}: one adapter")
        };
        assert_close(&what, &adapter.a, &tensor(&case["initial"]["a"]));
        assert_close(&what, &adapter.b, &tensor(&case["initial"]["b"]));
        (adapter.a, adapter.b) = (value("a"), value("b"));
        let (x, weights) = (tensor(&case["x"]), tensor(&case["weights"]));
        assert_close(&what, &lora.adapted().forward(&x), &tensor(&case["y"]));
        let loss = |lora: &Lora<Linear>| (lora.adapted().forward(&x) * &weights).sum();
        let gradient = grad(loss).wrt(Filter::collection::<LoraParam>())(&lora);
        assert_eq!(gradient.iter_with_path().count(), 2, "{what}");
        for name in ["a", "b"] {
            let found = &gradient[format!("adapters[0].{name}").as_str()];
            assert_close(&what, found, &tensor(&case["gradients"][name]));
        }
    }
}

/// The output, the layer after the step, and the gradients with respect to the parameters and the input.
fn wrapped_step((mut layer, x, weights): Given) -> (Layer, Results) {
    let before = layer.clone();
    let ((_, y), of_layer) = value_and_grad_mut(|layer: &mut Layer| {
        let y = layer.forward(&x);
        ((&y * &weights).sum(), y)
    })(&mut layer);
    let of_x = grad(|x: &Tensor| (before.clone().forward(x) * &weights).sum())(&x);
    (layer, (y, of_layer, of_x))
}

fn wrapped_of(case: &Value, rngs: &mut Rngs) -> Layer {
    let mut inner_case = case.clone();
    inner_case["options"] = Value::Object(Default::default());
    let inner: Layer = match case["layer"].as_str().unwrap() {
        "Linear" => {
            let options = LinearOptions {
                param_dtype: dtype(case["dtype"].as_str().unwrap()),
                ..LinearOptions::default()
            };
            let [inputs, outputs] = [0, 1].map(|at| number(&case["arguments"][at]));
            Box::new(Linear::with_options(inputs, outputs, options, rngs))
        }
        _ => convolution_of(&inner_case, rngs),
    };
    if case["wrapper"] == "WeightNorm" {
        return Box::new(WeightNorm::new(&inner, &Filter::param()));
    }
    let steps = case["options"]["n_steps"].as_u64().unwrap_or(1) as usize;
    let made = SpectralNorm::new(&inner, &Filter::param(), rngs);
    Box::new(SpectralNorm { steps, ..made })
}

#[test]
fn wrapped_layers_are_as_in_flax() {
    let file = read("model_layers.json");
    let cases = file["wrapped"].as_array().unwrap();
    assert_eq!(cases.len(), 10);
    let compiled = jit(wrapped_step);
    for case in cases {
        let what = format!(
            "{} of {} {} {}",
            case["wrapper"], case["layer"], case["options"], case["dtype"]
        );
        let mut rngs = Rngs::new(0);
        let mut layer = wrapped_of(case, &mut rngs);
        let drawn = u64::from(rngs.stream_mut("default").unwrap().count().item::<u32>());
        assert_eq!(Some(drawn), case["drawn"].as_u64(), "{what}: keys");
        let path = |name: &str| match name {
            "u" | "sigma" => format!("states[0].{name}"),
            "scale" => "scales[0].scale".to_owned(),
            of_model => format!("model.{of_model}"),
        };
        let value = |layer: &Layer, name: &str| -> Tensor {
            let all: Partition<Layer> = partition::filter(layer, &Filter::everything());
            all[path(name).as_str()].clone()
        };
        if !case["initial"].is_null() {
            let initial = tensor(&case["initial"]);
            assert_close(&format!("{what}: first u"), &value(&layer, "u"), &initial);
        }
        for (name, given) in case["given"].as_object().unwrap() {
            layer = edit::replace_at(&layer, &path(name), tensor(given)).unwrap();
        }
        for (number, step) in case["steps"].as_array().unwrap().iter().enumerate() {
            let given = (layer.clone(), tensor(&step["x"]), tensor(&step["weights"]));
            for (way, results) in [
                ("", wrapped_step(given.clone())),
                (" under jit", compiled(given)),
            ] {
                let what = format!("{what}, step {number}{way}");
                let (after, (y, of_layer, of_x)) = results;
                assert_close(&format!("{what}: output"), &y, &tensor(&step["y"]));
                assert_close(&what, &of_x, &tensor(&step["gradients"]["x"]));
                for (name, expected) in step["gradients"].as_object().unwrap() {
                    if name != "x" {
                        let found = &of_layer[path(name).as_str()];
                        let what = format!("{what}: gradient of {name}");
                        assert_close(&what, found, &tensor(expected));
                    }
                }
                for name in ["u", "sigma"] {
                    if !step[name].is_null() {
                        let what = format!("{what}: {name}");
                        assert_close(&what, &value(&after, name), &tensor(&step[name]));
                    }
                }
                assert_eq!(value(&after, "weight"), tensor(&case["given"]["weight"]));
                layer = after;
            }
        }
        let before: Partition<Layer> = partition::filter(&layer, &Filter::everything());
        let mut quiet = eval(&layer);
        quiet.forward(&tensor(&case["steps"][0]["x"]));
        let after: Partition<Layer> = partition::filter(&quiet, &Filter::everything());
        assert_eq!(
            before.leaves(),
            after.leaves(),
            "{what}: evaluation writes nothing"
        );
    }
}
