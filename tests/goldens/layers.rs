//! Normalisation and embedding layers: initial parameters, outputs, running statistics and gradients.

use pytree::Partition;
use pytree::nn::{
    Embed, EmbedOptions, GroupNorm, Initializer, LayerNorm, NormOptions, RmsNorm, VarianceFormula,
};
use pytree::prelude::*;
use pytree::transform::Jit;
use serde_json::Value;

use crate::goldens::files::{dtype, integers, read, tensor};
use crate::goldens::models::record_call;
use crate::goldens::tolerance::assert_close;

/// A normalisation layer of any kind, as the file names them.
#[derive(Module, Clone, Debug, PartialEq)]
enum Layer {
    Batch(BatchNorm),
    Each(LayerNorm),
    MeanSquare(RmsNorm),
    Groups(GroupNorm),
}

impl Layer {
    fn of(case: &Value, rngs: &mut Rngs) -> Self {
        let features = case["features"].as_u64().unwrap() as usize;
        let dtype = dtype(case["dtype"].as_str().unwrap());
        let options = &case["options"];
        let made_with = NormOptions {
            param_dtype: dtype,
            scale_init: (options["use_scale"] != false).then_some(Initializer::Ones),
            bias_init: (options["use_bias"] != false).then_some(Initializer::Zeros),
            epsilon: options["epsilon"].as_f64(),
            variance_formula: if options["use_fast_variance"] == false {
                VarianceFormula::Accurate
            } else {
                VarianceFormula::Fast
            },
        };
        let axes = |name: &str| match &options[name] {
            Value::Null => vec![-1],
            Value::Number(axis) => vec![axis.as_i64().unwrap() as isize],
            several => integers(several),
        };
        match case["layer"].as_str().unwrap() {
            "BatchNorm" => {
                let new = BatchNorm::with_options(features, made_with, rngs);
                Self::Batch(BatchNorm {
                    momentum: options["momentum"].as_f64().unwrap_or(new.momentum),
                    axis: axes("axis")[0],
                    axis_name: (options["over_batch"] == true).then(|| "batch".to_owned()),
                    ..new
                })
            }
            "LayerNorm" => Self::Each(LayerNorm {
                reduction_axes: axes("reduction_axes"),
                feature_axes: axes("feature_axes"),
                ..LayerNorm::with_options(features, made_with, rngs)
            }),
            "RMSNorm" => Self::MeanSquare(RmsNorm {
                reduction_axes: axes("reduction_axes"),
                feature_axes: axes("feature_axes"),
                ..RmsNorm::with_options(features, made_with, rngs)
            }),
            "GroupNorm" => {
                let groups = options["num_groups"].as_u64().unwrap() as usize;
                Self::Groups(GroupNorm::with_options(features, groups, made_with, rngs))
            }
            other => panic!("no layer `{other}`"),
        }
    }

    fn parameters(&mut self) -> [(&'static str, Option<&mut Tensor>); 2] {
        let (scale, bias) = match self {
            Self::Batch(norm) => (norm.scale.as_mut(), norm.bias.as_mut()),
            Self::Each(norm) => (norm.scale.as_mut(), norm.bias.as_mut()),
            Self::MeanSquare(norm) => (norm.scale.as_mut(), None),
            Self::Groups(norm) => (norm.scale.as_mut(), norm.bias.as_mut()),
        };
        [("scale", scale), ("bias", bias)]
    }

    fn statistics(&mut self) -> Vec<(&'static str, &mut Tensor)> {
        match self {
            Self::Batch(norm) => vec![("mean", &mut norm.mean), ("variance", &mut norm.variance)],
            _ => Vec::new(),
        }
    }

    /// The output; of one example of a batch, if the layer names the batch axis.
    fn forward(&mut self, x: &Tensor, mask: Option<&Tensor>) -> Tensor {
        match (self, mask) {
            (Self::Batch(norm), None) => norm.forward(x),
            (Self::Batch(norm), Some(mask)) => norm.forward_masked(x, mask),
            (Self::Each(norm), None) => norm.forward(x),
            (Self::Each(norm), Some(mask)) => norm.forward_masked(x, mask),
            (Self::MeanSquare(norm), None) => norm.forward(x),
            (Self::MeanSquare(norm), Some(mask)) => norm.forward_masked(x, mask),
            (Self::Groups(norm), None) => norm.forward(x),
            (Self::Groups(norm), Some(mask)) => norm.forward_masked(x, mask),
        }
    }

    fn forward_batch(&mut self, x: &Tensor, mask: Option<&Tensor>) -> Tensor {
        match self {
            Self::Batch(BatchNorm {
                axis_name: Some(_), ..
            }) => vmap_mut(|(layer, x): (&mut Self, Tensor)| layer.forward(&x, None))
                .in_axes((None, 0))
                .axis_name("batch")((self, x.clone())),
            _ => self.forward(x, mask),
        }
    }
}

type Given = (Layer, Tensor, Option<Tensor>, Tensor);
type Results = (Layer, Tensor, Partition<Layer, Tensor>, Tensor);

/// The layer after a step, the output, and gradients with respect to the parameters and the input.
fn step((mut layer, x, mask, weights): Given) -> Results {
    let before = layer.clone();
    let ((_, y), of_layer) = value_and_grad_mut(|layer: &mut Layer| {
        let y = layer.forward_batch(&x, mask.as_ref());
        ((&y * &weights).sum(), y)
    })(&mut layer);
    let of_input =
        grad(|x: &Tensor| (before.clone().forward_batch(x, mask.as_ref()) * &weights).sum())(&x);
    (layer, y, of_layer, of_input)
}

fn check_step(what: &str, compiled: &Jit<Given, Results>, layer: &mut Layer, case: &Value) {
    let mask = (!case["mask"].is_null()).then(|| tensor(&case["mask"]));
    let given = (
        layer.clone(),
        tensor(&case["x"]),
        mask,
        tensor(&case["weights"]),
    );
    let gradients = &case["gradients"];
    if what.ends_with("step 0") {
        record_call(what, compiled, &given);
    }
    for (way, results) in [("", step(given.clone())), (" under jit", compiled(given))] {
        let (after, y, of_layer, of_input) = results;
        assert_close(&format!("{what}{way}: output"), &y, &tensor(&case["y"]));
        let of_x = tensor(&gradients["x"]);
        assert_close(
            &format!("{what}{way}: gradient of the input"),
            &of_input,
            &of_x,
        );
        let expected = gradients
            .as_object()
            .unwrap()
            .keys()
            .filter(|name| *name != "x")
            .count();
        let of_parameters = of_layer.iter_with_path().count();
        assert_eq!(of_parameters, expected, "{what}");
        for (path, found) in of_layer.iter_with_path() {
            let name = path.join(".").rsplit('.').next().unwrap().to_owned();
            let what = format!("{what}{way}: gradient of {name}");
            assert_close(&what, found, &tensor(&gradients[&name]));
        }
        *layer = after;
        for (name, found) in layer.statistics() {
            assert_close(&format!("{what}{way}: {name}"), found, &tensor(&case[name]));
        }
    }
}

#[test]
fn normalization_is_as_in_flax() {
    let file = read("layers.json");
    let cases = file["normalizations"].as_array().unwrap();
    assert_eq!(cases.len(), 58);
    let compiled = jit(step);
    for case in cases {
        let what = format!("{} {} {}", case["layer"], case["dtype"], case["options"]);
        let mut rngs = Rngs::new(0);
        let mut layer = Layer::of(case, &mut rngs);
        let drawn = u64::from(rngs.stream_mut("default").unwrap().count().item::<u32>());
        assert_eq!(Some(drawn), case["drawn"].as_u64(), "{what}: keys");
        for (name, parameter) in layer.parameters() {
            let initial =
                (!case["initial"][name].is_null()).then(|| tensor(&case["initial"][name]));
            assert_eq!(
                parameter.as_deref(),
                initial.as_ref(),
                "{what}: {name} at first"
            );
            if let Some(parameter) = parameter {
                *parameter = tensor(&case["parameters"][name]);
            }
        }
        for (name, statistic) in layer.statistics() {
            // Flax has them in f32 always.
            let initial = tensor(&case["initial"][name]).convert(statistic.dtype());
            assert_eq!(*statistic, initial, "{what}: {name} at first");
            *statistic = tensor(&case["statistics"][name]);
        }
        for (number, step) in case["steps"].as_array().unwrap().iter().enumerate() {
            check_step(
                &format!("{what}, step {number}"),
                &compiled,
                &mut layer,
                step,
            );
        }
        if case["eval"].is_object() {
            check_step(
                &format!("{what}, in use"),
                &compiled,
                &mut eval(&layer),
                &case["eval"],
            );
        }
    }
}

#[test]
fn embeddings_are_as_in_flax() {
    let file = read("layers.json");
    for case in file["embeddings"].as_array().unwrap() {
        let (table, indices) = (tensor(&case["table"]), tensor(&case["indices"]));
        let [embeddings, features] = table.shape() else {
            panic!("a table has two axes")
        };
        let mut rngs = Rngs::new(0);
        let (size, dtype) = ((*embeddings, *features), table.dtype());
        let options = EmbedOptions {
            param_dtype: dtype,
            ..EmbedOptions::default()
        };
        let initial = Embed::with_options(size.0, size.1, options, &mut rngs);
        assert_close(
            "the table at first",
            &initial.embedding,
            &tensor(&case["initial"]),
        );
        if dtype == DType::F32 {
            assert_eq!(Embed::new(size.0, size.1, &mut Rngs::new(0)), initial);
        }

        let embed = Embed { embedding: table };
        let query = tensor(&case["query"]);
        assert_eq!(embed.forward(&indices), tensor(&case["rows"]));
        assert_close(
            "products",
            &embed.attend(&query),
            &tensor(&case["products"]),
        );
        let weights = tensor(&case["row_weights"]);
        let of_rows = grad(|embed: &Embed| (embed.forward(&indices) * &weights).sum())(&embed);
        assert_close(
            "rows",
            &of_rows["embedding"],
            &tensor(&case["row_gradient"]),
        );
        let weights = tensor(&case["product_weights"]);
        let products = |(embed, query): &(Embed, Tensor)| (embed.attend(query) * &weights).sum();
        let (of_embed, of_query) = grad(products)(&(embed.clone(), query));
        let expected = &case["product_gradients"];
        assert_close("products", &of_embed["embedding"], &tensor(&expected[0]));
        assert_close("query", &of_query, &tensor(&expected[1]));

        // As in a language model: rows at one end, products at the other.
        let table = Shared::new(embed);
        let tied = |(rows, head): &(Shared<Embed>, Shared<Embed>)| {
            (head.attend(&rows.forward(&indices).tanh()) * &weights).sum()
        };
        let of_both = grad(tied)(&(table.clone(), table));
        let leaves: Vec<&Tensor> = of_both
            .0
            .leaves()
            .iter()
            .chain(of_both.1.leaves())
            .collect();
        assert_eq!(leaves.len(), 1);
        assert_close("tied", leaves[0], &tensor(&case["tied_gradient"]));
    }
}

#[test]
fn row_out_of_range_is_nan_under_jit() {
    let file = read("layers.json");
    let case = &file["missing_rows"];
    let embed = Embed {
        embedding: tensor(&case["table"]),
    };
    let (indices, weights) = (tensor(&case["indices"]), tensor(&case["weights"]));
    let rows = jit(|(embed, indices): (Embed, Tensor)| embed.forward(&indices));
    let found = rows((embed.clone(), indices.clone()));
    assert_close("rows", &found, &tensor(&case["rows"]));
    let gradient = jit(|(embed, indices, weights): (Embed, Tensor, Tensor)| {
        grad(|embed: &Embed| {
            let rows = embed.forward(&indices);
            let is_there = !rows.isnan();
            is_there
                .select(&rows * &weights, Tensor::zeros_like(&rows))
                .sum()
        })(&embed)
    })((embed, indices, weights));
    assert_close(
        "gradient",
        &gradient["embedding"],
        &tensor(&case["gradient"]),
    );
}
