//! Models of candle's tensors.

#![allow(
    clippy::unwrap_used,
    clippy::float_cmp,
    missing_docs,
    reason = "a test says what it checks in its name, and fails by panicking"
)]

mod four_jobs;
mod generic_layers;
mod pairs;

use candle_core::{DType, Device, Result, Tensor, Var};
use candle_nn::{
    BatchNorm, Conv1d, Conv2d, Embedding, LayerNorm, Linear, Module as _, Optimizer as _, RmsNorm,
    SGD, VarBuilder, VarMap,
};
use pytree::candle011;
use pytree::checkpoint::{self, Bytes};
use pytree::prelude::{Activation, Filter, Mlp, Rngs};
use pytree::{Leaf, Module, Opaque, Shared, graph, lint, mixed, partition, tree};

/// The paths, kinds and axes are those of `pytree::nn::Linear`.
#[derive(Module, Clone, Debug)]
struct Dense<T> {
    #[param("in out")]
    weight: T,
    #[param("out")]
    bias: Option<T>,
}

#[derive(Module, Clone, Debug)]
struct Network<T> {
    layers: Vec<Dense<T>>,
}

fn numbers(count: usize, scale: f32) -> Vec<f32> {
    (0..count).map(|at| (at as f32 * scale).sin()).collect()
}

fn network<T>(widths: &[usize], leaf: impl Fn(Tensor) -> Result<T>) -> Network<T> {
    let dense = |widths: &[usize]| {
        let [inputs, outputs] = [widths[0], widths[1]];
        let weight = Tensor::from_vec(
            numbers(inputs * outputs, 0.7),
            (inputs, outputs),
            &Device::Cpu,
        );
        let bias = Tensor::from_vec(numbers(outputs, 0.3), outputs, &Device::Cpu);
        Dense {
            weight: leaf(weight.unwrap()).unwrap(),
            bias: Some(leaf(bias.unwrap()).unwrap()),
        }
    };
    Network {
        layers: widths.windows(2).map(dense).collect(),
    }
}

fn variables(widths: &[usize]) -> Network<Var> {
    network(widths, |tensor| Var::from_tensor(&tensor))
}

/// A tensor, or the tensor of a variable.
trait Array {
    fn tensor(&self) -> &Tensor;
}

impl Array for Tensor {
    fn tensor(&self) -> &Tensor {
        self
    }
}

impl Array for Var {
    fn tensor(&self) -> &Tensor {
        self
    }
}

impl<T: Array> Network<T> {
    fn forward(&self, x: &Tensor) -> Tensor {
        let mut x = x.clone();
        for (at, layer) in self.layers.iter().enumerate() {
            if at > 0 {
                x = x.tanh().unwrap();
            }
            x = x.matmul(layer.weight.tensor()).unwrap();
            if let Some(bias) = &layer.bias {
                x = x.broadcast_add(bias.tensor()).unwrap();
            }
        }
        x
    }
}

fn values(tensor: &Tensor) -> Vec<f32> {
    tensor.flatten_all().unwrap().to_vec1().unwrap()
}

#[test]
fn structure_is_that_of_our_layers() {
    let model = variables(&[3, 4, 2]);
    let mlp = Mlp::new(&[3, 4, 2], Activation::Tanh, &mut Rngs::new(0));
    assert_eq!(
        graph::structure(&model).leaf_paths(),
        graph::structure(&mlp).leaf_paths()
    );
    let shown = tree::map_to(&model.layers[0], Var::clone).to_string();
    assert_eq!(shown, "Dense { weight: f32[3,4], bias: f32[4] }");
    let part = partition::filter(&model, &Filter::path("layers[1]"));
    assert_eq!(part.len(), 2);
    assert_eq!(part["layers[1].weight"].dims(), [4, 2]);
}

#[test]
fn frozen_layer_stays_and_the_other_is_trained() {
    let model = variables(&[3, 4, 2]);
    let head = Filter::path("layers[1]");
    let mut sgd = SGD::new(candle011::params(&model, &head).unwrap(), 0.1).unwrap();
    let before = graph::map_to(&model, |var: &Var| values(var));
    let x = Tensor::from_vec(numbers(6, 0.9), (2, 3), &Device::Cpu).unwrap();
    let loss = || model.forward(&x).sqr().unwrap().sum_all().unwrap();
    let first = loss().to_scalar::<f32>().unwrap();
    for _ in 0..20 {
        sgd.backward_step(&loss()).unwrap();
    }
    assert!(loss().to_scalar::<f32>().unwrap() < first / 2.0);
    let after = graph::map_to(&model, |var: &Var| values(var));
    for (path, after) in after.iter_with_path() {
        let changed = before.get(&path).unwrap() != after;
        assert_eq!(changed, path.to_string().starts_with("layers[1]"), "{path}");
    }
}

#[test]
fn gradient_is_a_part_that_goes_back() {
    let model = variables(&[3, 4, 2]);
    let x = Tensor::from_vec(numbers(6, 0.9), (2, 3), &Device::Cpu).unwrap();
    let mut grads = model.forward(&x).sum_all().unwrap().backward().unwrap();
    let gradient = candle011::gradient(&model, &grads).unwrap();
    assert_eq!(gradient.len(), 4);
    // The derivative of a sum by the last bias is the number of examples.
    assert_eq!(values(&gradient["layers[1].bias"]), [2.0, 2.0]);
    let halved = gradient.map(|tensor| (tensor * 0.5).unwrap());
    let head = halved.filter(&Filter::path("layers[1]")).unwrap();
    candle011::with_gradient(&model, &head, &mut grads).unwrap();
    let bias = model.layers[1].bias.as_ref().unwrap();
    assert_eq!(values(grads.get(bias).unwrap()), [1.0, 1.0]);
    assert!(grads.get(&model.layers[0].weight).is_none());
}

#[test]
fn set_keeps_the_variables_of_the_optimizer() {
    let model = variables(&[3, 2]);
    let [vars, doubled] = [&model, &model].map(|it| graph::map(it, |var: &Var| var.clone()));
    let doubled = graph::map(&doubled, |var: &Var| {
        Var::from_tensor(&(var.as_tensor() * 2.0).unwrap()).unwrap()
    });
    let kept = candle011::params(&vars, &Filter::param()).unwrap();
    candle011::set(&model, &doubled).unwrap();
    assert_eq!(values(&kept[0]), values(&doubled.layers[0].weight));
    // Twice: the values are the variables of the other model, and then its own.
    candle011::set(&model, &model).unwrap();
    let text = candle011::set(&model, &variables(&[3, 3]))
        .unwrap_err()
        .to_string();
    assert_eq!(
        text.matches("expected a leaf of type f32[").count(),
        2,
        "{text}"
    );
    assert!(
        text.contains("layers[0].weight: expected a leaf of type f32[3,2], found f32[3,3]"),
        "{text}"
    );
}

#[test]
fn tensor_that_is_a_variable_is_one() {
    let model = network(
        &[2, 2],
        |tensor| Ok(Var::from_tensor(&tensor)?.into_inner()),
    );
    assert_eq!(
        candle011::params(&model, &Filter::param()).unwrap().len(),
        2
    );
}

#[test]
fn files_are_those_of_our_mlp() {
    let widths = [3, 4, 2];
    let model = network(&widths, Ok);
    let bytes = checkpoint::to_bytes(&model).unwrap();
    let mlp = Mlp::new(&widths, Activation::Tanh, &mut Rngs::new(0));
    let mlp = checkpoint::load(Bytes(&bytes), &mlp).unwrap();
    assert_eq!(checkpoint::to_bytes(&mlp).unwrap(), bytes);
    let other = network(&widths, |tensor| tensor.zeros_like());
    let loaded = checkpoint::load(Bytes(&bytes), &other).unwrap();
    assert_eq!(
        values(&loaded.layers[1].weight),
        values(&model.layers[1].weight)
    );
    // The forward pass on our tensors has the same logits.
    let x = numbers(6, 0.9);
    let ours = mlp.forward(&pytree::Tensor::from(x.clone()).reshape([2, 3]));
    let theirs = model.forward(&Tensor::from_vec(x, (2, 3), &Device::Cpu).unwrap());
    for (ours, theirs) in ours.to_vec::<f32>().iter().zip(values(&theirs)) {
        assert!((ours - theirs).abs() < 1e-6, "{ours} {theirs}");
    }
}

#[test]
fn convert_moves_weights_there_and_back() {
    let model = variables(&[3, 4, 2]);
    let mlp = Mlp::new(&[3, 4, 2], Activation::Tanh, &mut Rngs::new(0));
    let mlp = graph::convert(&model, &mlp).unwrap();
    assert_eq!(
        mlp.layers[0].weight.to_vec::<f32>(),
        values(&model.layers[0].weight)
    );
    let back = graph::convert(&mlp, &network(&[3, 4, 2], |tensor| tensor.zeros_like())).unwrap();
    assert_eq!(
        values(&back.layers[1].weight),
        values(&model.layers[1].weight)
    );
    let text = graph::convert(
        &model,
        &Mlp::new(&[3, 5, 2], Activation::Tanh, &mut Rngs::new(0)),
    );
    let text = text.unwrap_err().to_string();
    assert_eq!(
        text.matches("expected a leaf of type f32[").count(),
        3,
        "{text}"
    );
}

#[test]
fn elements_of_every_dtype_come_back() {
    for dtype in [
        DType::U8,
        DType::U32,
        DType::I16,
        DType::I32,
        DType::I64,
        DType::BF16,
        DType::F16,
        DType::F32,
        DType::F64,
    ] {
        let tensor = Tensor::arange(0_f32, 6.0, &Device::Cpu)
            .unwrap()
            .to_dtype(dtype)
            .unwrap();
        // Not contiguous.
        let tensor = tensor.reshape((2, 3)).unwrap().t().unwrap();
        let bytes = checkpoint::to_bytes(&vec![tensor.clone()]).unwrap();
        let template = vec![tensor.zeros_like().unwrap()];
        let loaded = checkpoint::load(Bytes(&bytes), &template).unwrap();
        assert_eq!(loaded[0].dtype(), dtype);
        assert_eq!(Leaf::values(&loaded[0]), Leaf::values(&tensor), "{dtype:?}");
    }
}

#[test]
fn shared_and_repeated_variables() {
    let var = variables(&[2, 2]).layers.remove(0).weight;
    let shared = Shared::new(var.clone());
    let tied = (shared.clone(), shared);
    assert_eq!(graph::flatten::<Var, _>(&tied).0.len(), 1);
    assert_eq!(
        candle011::params(&tied, &Filter::everything())
            .unwrap()
            .len(),
        1
    );
    // Two fields that hold the same variable, without `Shared`.
    let dense = || Dense {
        weight: var.clone(),
        bias: None,
    };
    let found = lint(&Network {
        layers: vec![dense(), dense()],
    });
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(
        found[0].to_string().contains("layers[1].weight"),
        "{found:?}"
    );
}

#[derive(Module, Clone, Debug)]
struct Counted {
    #[param]
    weight: Tensor,
    #[state]
    steps: i64,
    #[state]
    spent: Opaque<std::time::Duration>,
}

#[test]
fn leaves_of_several_types_are_mixed() {
    let weight = Tensor::ones(2, DType::F32, &Device::Cpu).unwrap();
    let spent = Opaque(std::time::Duration::ZERO);
    let model = Counted {
        weight,
        steps: 3,
        spent,
    };
    let params = partition::filter(&mixed(&model), &Filter::param());
    assert_eq!(params.len(), 1);
    let [params, rest] =
        partition::split(&mixed(&model), [Filter::param(), Filter::everything()]).unwrap();
    let back = partition::merge([params, rest])
        .unwrap()
        .into_model()
        .unwrap();
    assert_eq!(back.steps, 3);
    let halved = mixed(&model).map_of(|tensor: &Tensor| tensor.to_dtype(DType::BF16).unwrap());
    let halved: Counted = halved.to_value().unwrap();
    assert_eq!(halved.weight.dtype(), DType::BF16);
}

#[test]
fn average_of_two_models() {
    let [left, right] = [1.0, 3.0].map(|factor| network(&[2, 2], |tensor| tensor * factor));
    let average = tree::map2(&left, &right, |left: &Tensor, right: &Tensor| {
        ((left + right).unwrap() / 2.0).unwrap()
    })
    .unwrap();
    assert_eq!(
        values(&average.layers[0].bias.clone().unwrap()),
        values(&(left.layers[0].bias.as_ref().unwrap() * 2.0).unwrap())
    );
}

#[derive(Module, Clone, Debug)]
struct Layers {
    words: Embedding,
    linear: Linear,
    layer_norm: LayerNorm,
    rms_norm: RmsNorm,
    batch_norm: BatchNorm,
    conv1d: Conv1d,
    conv2d: Conv2d,
}

#[test]
fn layers_of_candle_nn_are_modules() {
    let vars = VarMap::new();
    let from = VarBuilder::from_varmap(&vars, DType::F32, &Device::Cpu);
    let conv1d = candle_nn::Conv1dConfig {
        stride: 2,
        ..Default::default()
    };
    let model = Layers {
        words: candle_nn::embedding(5, 4, from.pp("words")).unwrap(),
        linear: candle_nn::linear(4, 3, from.pp("linear")).unwrap(),
        layer_norm: candle_nn::layer_norm_no_bias(3, 1e-5, from.pp("layer_norm")).unwrap(),
        rms_norm: candle_nn::rms_norm(3, 1e-6, from.pp("rms_norm")).unwrap(),
        batch_norm: candle_nn::batch_norm(3, 1e-5, from.pp("batch_norm")).unwrap(),
        conv1d: candle_nn::conv1d(3, 2, 3, conv1d, from.pp("conv1d")).unwrap(),
        conv2d: candle_nn::conv2d_no_bias(
            3,
            2,
            3,
            candle_nn::Conv2dConfig::default(),
            from.pp("conv2d"),
        )
        .unwrap(),
    };
    // The paths are the names of `VarMap`.
    let (leaves, treedef) = graph::flatten::<Tensor, _>(&model);
    let mut paths: Vec<String> = treedef
        .leaf_paths()
        .iter()
        .map(ToString::to_string)
        .collect();
    let mut names: Vec<String> = vars.data().lock().unwrap().keys().cloned().collect();
    paths.sort();
    names.sort();
    assert_eq!(paths, names);
    assert_eq!(partition::filter(&model, &Filter::any_state()).len(), 2);
    // Settings are part of the structure, and layers are built with them.
    let doubled: Layers = graph::map(&model, |tensor: &Tensor| (tensor * 2.0).unwrap());
    assert_eq!(
        values(doubled.linear.weight()),
        values(&(model.linear.weight() * 2.0).unwrap())
    );
    assert_eq!(
        (doubled.conv1d.config().stride, doubled.layer_norm.eps()),
        (2, 1e-5)
    );
    assert_eq!(graph::structure(&doubled), treedef);
    let back: Layers = graph::unflatten(&treedef, leaves).unwrap();
    assert_eq!(back.batch_norm.momentum(), model.batch_norm.momentum());
    let x = Tensor::new(&[[0_u32, 3]], &Device::Cpu).unwrap();
    let forward = |model: &Layers| {
        model
            .linear
            .forward(&model.words.forward(&x).unwrap())
            .unwrap()
    };
    assert_eq!(values(&forward(&back)), values(&forward(&model)));
    assert_eq!(
        candle011::params(&model, &Filter::param()).unwrap().len(),
        10
    );
    // The file has the names of fields, and is not taken for one of PyTorch.
    let file = checkpoint::to_bytes(&model).unwrap();
    let other = candle_nn::batch_norm(4, 1e-5, from.pp("other")).unwrap();
    let wider = Layers {
        batch_norm: other,
        ..model
    };
    let error = checkpoint::load(Bytes(&file), &wider).unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains("batch_norm.running_mean is f32[3]") && !text.contains("PyTorch"),
        "{text}"
    );
}

#[test]
fn variables_are_swapped() {
    let model = [1.0, 2.0].map(|number| Var::new(&[number], &Device::Cpu).unwrap());
    let swapped = [model[1].clone(), model[0].clone()];
    candle011::set(&model, &swapped).unwrap();
    let numbers = model.each_ref().map(|var| var.to_vec1::<f64>().unwrap());
    assert_eq!(numbers, [[2.0], [1.0]]);
}

#[test]
fn array_is_not_converted_from_a_leaf_without_elements() {
    let template = Tensor::zeros(2, DType::F32, &Device::Cpu).unwrap();
    let text = graph::convert(&Opaque(1), &template)
        .unwrap_err()
        .to_string();
    assert!(
        text.contains("expected a leaf of type f32[2], found"),
        "{text}"
    );
}

#[test]
fn parameter_of_an_unknown_dtype_is_not_converted() {
    let weight = Tensor::zeros((2, 2), DType::F32, &Device::Cpu).unwrap();
    let weight = weight.to_dtype(DType::F8E4M3).unwrap();
    let model = Dense { weight, bias: None };
    let text = graph::convert(&model, &model).unwrap_err().to_string();
    assert!(
        text.ends_with("at weight: expected a leaf of type Tensor with readable elements, found Tensor of an unknown dtype; convert it to a dtype such as f32 first"),
        "{text}"
    );
}

#[test]
fn parameters_that_are_not_variables_are_refused() {
    let model = variables(&[2, 2]);
    // The result of an operation is a tensor, so an optimizer would change nothing.
    let sum = |var: &Var| (var.as_tensor() + var.as_tensor()).unwrap();
    let tensors = mixed(&tree::map_to(&model, sum));
    let text = candle011::params(&tensors, &Filter::param())
        .unwrap_err()
        .to_string();
    assert!(text.contains("`candle011::set`"), "{text}");
    for place in [
        "layers[0].weight: expected a leaf of type `Var`, found f32[2,2]",
        "layers[0].bias",
    ] {
        assert!(text.contains(place), "{text}");
    }
    let counted = (model, Shared::new(1_i64));
    let all = candle011::params(&counted, &Filter::everything()).unwrap();
    assert_eq!(all.len(), 2, "other leaves are not parameters");
}

fn pair<T: Clone + Send + Sync>(first: T, second: T) -> (T, T) {
    (first, second)
}

fn var(elements: &[f32]) -> Var {
    Var::new(elements, &Device::Cpu).unwrap()
}

#[test]
fn variable_in_two_fields_is_set_to_one_value() {
    let shared = var(&[1.0]);
    let tied = pair(shared.clone(), shared.clone());
    let text = candle011::set(&tied, &pair(var(&[2.0]), var(&[3.0])))
        .unwrap_err()
        .to_string();
    assert!(
        text.ends_with("at [1]: expected a leaf of type f32[1] with the elements of [0], the same variable, found other elements"),
        "{text}"
    );
    assert_eq!(values(&shared), [1.0]);
    candle011::set(&tied, &pair(var(&[2.0]), var(&[2.0]))).unwrap();
    assert_eq!(values(&shared), [2.0]);
}

#[test]
fn shared_value_is_written_at_each_of_its_places() {
    let model = pair(var(&[1.0]), var(&[1.0]));
    let value = Shared::new(var(&[2.0]));
    candle011::set(&model, &pair(value.clone(), value)).unwrap();
    assert_eq!([&model.0, &model.1].map(|var| values(var)), [[2.0], [2.0]]);
}

#[test]
fn values_that_are_not_set_are_all_reported() {
    let model = (variables(&[2, 2]), 1_i64);
    let text = |error: graph::ConvertError| error.to_string();
    let found = text(candle011::set(&model, &model).unwrap_err());
    assert_eq!(
        found,
        "cannot set the variables: at [1]: expected a leaf of type `Var`, found i64"
    );
    let part = partition::filter(&mixed(&model), &Filter::param());
    candle011::set(&model, &part).unwrap();
    let longer = (variables(&[2, 2, 2]), 1_i64);
    let found = text(candle011::set(&model, &longer).unwrap_err());
    for place in [
        "[0].layers[1].weight does not exist",
        "[0].layers[1].bias does not exist",
    ] {
        assert!(found.contains(place), "{found}");
    }
}

#[test]
fn gradient_of_another_shape_is_not_written() {
    let model = variables(&[2, 1]);
    let x = Tensor::ones((1, 2), DType::F32, &Device::Cpu).unwrap();
    let mut grads = model.forward(&x).sum_all().unwrap().backward().unwrap();
    let gradient = candle011::gradient(&model, &grads).unwrap();
    let sums = gradient.map(|tensor| tensor.sum_all().unwrap());
    let text = candle011::with_gradient(&model, &sums, &mut grads)
        .unwrap_err()
        .to_string();
    assert!(
        text.contains("layers[0].weight: expected a leaf of type f32[2,1], found f32[]"),
        "{text}"
    );
    assert!(text.contains("layers[0].bias"), "{text}");
    assert_eq!(grads.get(&model.layers[0].weight).unwrap().dims(), [2, 1]);
    // A gradient at one of two fields with the same variable.
    let shared = var(&[1.0]);
    let tied = pair(shared.clone(), shared.clone());
    let mut grads = shared.sum_all().unwrap().backward().unwrap();
    let gradient = candle011::gradient(&tied, &grads).unwrap();
    let first = gradient.filter(&Filter::path("[0]")).unwrap();
    candle011::with_gradient(&tied, &first, &mut grads).unwrap();
    assert!(grads.get(&shared).is_some());
}
