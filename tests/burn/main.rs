//! Models of burn's tensors and parameters. `cargo test --manifest-path examples/burn/Cargo.toml` runs these tests.

#![allow(
    clippy::unwrap_used,
    clippy::float_cmp,
    missing_docs,
    reason = "a test says what it checks in its name, and fails by panicking"
)]

mod four_jobs;

use burn::module::{Flag, Lora, Module as _, ModuleVisitor, Param, ParamId, RunningState};
use burn::nn::conv::{
    Conv1d, Conv1dConfig, Conv2d, Conv2dConfig, Conv3d, Conv3dConfig, ConvTranspose1d,
    ConvTranspose1dConfig, ConvTranspose2d, ConvTranspose2dConfig, ConvTranspose3d,
    ConvTranspose3dConfig,
};
use burn::nn::{
    BatchNorm, BatchNormConfig, Dropout, DropoutConfig, Embedding, EmbeddingConfig, GroupNorm,
    GroupNormConfig, InstanceNorm, InstanceNormConfig, LayerNorm, LayerNormConfig, Linear,
    LinearConfig, PaddingConfig2d, RmsNorm, RmsNormConfig,
};
use burn::optim::{AdamConfig, GradientsParams};
use burn::tensor::{Bool, DType, Device, Int, Tensor, TensorData};
use pytree_core::burn022::{self, AsBurn};
use pytree_core::leaf::ArrayLeaf as _;
use pytree_core::{AnyLeaf, Filter, Leaf, Module, Shared, diff, graph, lint, mixed, partition};
use pytree_store::checkpoint::{Bytes, load, to_bytes};

#[derive(Module, Clone, Debug)]
struct Dense<W: 'static, B: 'static> {
    #[param("in out")]
    weight: W,
    #[param("out")]
    bias: Option<B>,
}

#[derive(Module, Clone, Debug)]
struct Network<W: 'static, B: 'static> {
    layers: Vec<Dense<W, B>>,
}

type Weight = Param<Tensor<2>>;
type Bias = Param<Tensor<1>>;
type Net = Network<Weight, Bias>;

fn numbers(count: usize, scale: f32) -> Vec<f32> {
    (0..count).map(|at| (at as f32 * scale).sin()).collect()
}

fn weight(rows: usize, columns: usize, device: &Device) -> Weight {
    let data = TensorData::new(numbers(rows * columns, 0.7), [rows, columns]);
    Param::from_data(data, device)
}

fn network(widths: &[usize], device: &Device) -> Net {
    let dense = |widths: &[usize]| Dense {
        weight: weight(widths[0], widths[1], device),
        bias: Some(Param::from_data(
            TensorData::new(numbers(widths[1], 0.3), [widths[1]]),
            device,
        )),
    };
    Network {
        layers: widths.windows(2).map(dense).collect(),
    }
}

fn training() -> Device {
    Device::flex().autodiff()
}

fn apply(x: Tensor<2>, weight: &Weight, bias: Option<&Bias>) -> Tensor<2> {
    let x = x.matmul(weight.val());
    bias.map_or(x.clone(), |bias| x + bias.val().unsqueeze())
}

impl Net {
    fn loss(&self, x: &Tensor<2>) -> Tensor<1> {
        let layers = self.layers.iter();
        let y = layers.fold(x.clone(), |x, dense| {
            apply(x, &dense.weight, dense.bias.as_ref()).tanh()
        });
        y.powi_scalar(2).sum()
    }
}

fn input(device: &Device) -> Tensor<2> {
    Tensor::from_data(TensorData::new(numbers(6, 0.9), [2, 3]), device)
}

fn values(leaf: &impl Leaf) -> Vec<f64> {
    leaf.values().unwrap()
}

/// The same model with burn's derive.
mod theirs {
    use burn::module::{Module, Param};
    use burn::tensor::Tensor;

    #[derive(Module, Debug)]
    pub struct Dense {
        pub weight: Param<Tensor<2>>,
        pub bias: Option<Param<Tensor<1>>>,
    }

    #[derive(Module, Debug)]
    pub struct Network {
        pub layers: Vec<Dense>,
    }
}

fn as_theirs(net: &Net) -> theirs::Network {
    let layers = net.layers.iter().map(|dense| theirs::Dense {
        weight: dense.weight.clone(),
        bias: dense.bias.clone(),
    });
    theirs::Network {
        layers: layers.collect(),
    }
}

/// Everything that burn shows to a visitor.
#[derive(Default)]
struct Seen(Vec<String>);

impl ModuleVisitor for Seen {
    fn enter_module(&mut self, name: &str, container: &str) {
        self.0.push(format!("enter {name} of {container}"));
    }
    fn exit_module(&mut self, name: &str, container: &str) {
        self.0.push(format!("exit {name} of {container}"));
    }
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        self.0.push(format!("{} {:?}", param.id, param.dims()));
    }
    fn visit_int<const D: usize>(&mut self, param: &Param<Tensor<D, Int>>) {
        self.0.push(format!("{} {:?}", param.id, param.dims()));
    }
    fn visit_bool<const D: usize>(&mut self, param: &Param<Tensor<D, Bool>>) {
        self.0.push(format!("{} {:?}", param.id, param.dims()));
    }
    fn visit_flag(&mut self, flag: &Param<Flag>) {
        self.0.push(format!("{} flag", flag.id));
    }
}

fn seen(module: &impl burn::module::Module) -> Vec<String> {
    let mut seen = Seen::default();
    module.visit(&mut seen);
    seen.0
}

#[test]
fn burn_sees_what_its_derive_shows() {
    let net = network(&[3, 4, 2], &training());
    let expected = seen(&as_theirs(&net));
    assert_eq!(expected.len(), 4 + 2 * (1 + 2 + 4));
    assert_eq!(seen(&AsBurn::new(net).unwrap()), expected);
}

#[test]
fn training_gives_the_bits_of_burns_derive() {
    let device = training();
    let mut ours = AsBurn::new(network(&[3, 4, 2], &device)).unwrap();
    let mut theirs = as_theirs(&ours);
    let (mut adam, mut their_adam) = (AdamConfig::new().init(), AdamConfig::new().init());
    let first = ours.loss(&input(&device)).into_scalar::<f32>();
    for _ in 0..20 {
        let gradient = ours.loss(&input(&device)).backward();
        let gradient = GradientsParams::from_grads(gradient, &ours);
        ours = adam.step(0.1, ours, gradient);
        let layers = theirs.layers.iter();
        let y = layers.fold(input(&device), |x, dense| {
            apply(x, &dense.weight, dense.bias.as_ref()).tanh()
        });
        let gradient = y.powi_scalar(2).sum().backward();
        let gradient = GradientsParams::from_grads(gradient, &theirs);
        theirs = their_adam.step(0.1, theirs, gradient);
    }
    assert!(ours.loss(&input(&device)).into_scalar::<f32>() < first / 2.0);
    for (ours, theirs) in ours.layers.iter().zip(&theirs.layers) {
        assert_eq!(values(&ours.weight), values(&theirs.weight));
        assert_eq!(
            values(ours.bias.as_ref().unwrap()),
            values(theirs.bias.as_ref().unwrap())
        );
    }
}

#[test]
fn records_load_into_burns_derive_and_back() {
    let device = training();
    let ours = AsBurn::new(network(&[3, 4, 2], &device)).unwrap();
    let zeros = as_theirs(&graph_zeros(&ours));
    let loaded = zeros.load_record(ours.clone().into_record());
    assert_eq!(
        values(&loaded.layers[1].weight),
        values(&ours.layers[1].weight)
    );
    let back = AsBurn::new(graph_zeros(&ours)).unwrap();
    let back = back.load_record(loaded.into_record());
    assert!(diff(&*back, &*ours).is_empty());
    assert_eq!(back.layers[0].weight.id, ours.layers[0].weight.id);
}

fn graph_zeros(net: &Net) -> Net {
    let zeros = burn022::elementwise(|tensor, _| tensor * 0.0);
    graph::map2_any(net.clone(), net, zeros).unwrap()
}

#[test]
fn frozen_layer_stays_and_the_other_is_trained() {
    let device = training();
    let net = AsBurn::new(network(&[3, 4, 2], &device)).unwrap();
    let frozen = burn022::group(&net, &!Filter::path("layers[1]")).unwrap();
    let net = net.freeze_group(frozen);
    let before = net.clone();
    let gradient = GradientsParams::from_grads(net.loss(&input(&device)).backward(), &net);
    assert_eq!(gradient.len(), 2);
    let net = AdamConfig::new().init().step(0.1, net, gradient);
    let changed = diff(&*net, &*before).to_string();
    assert!(!changed.contains("layers[0]"), "{changed}");
    assert!(changed.contains("layers[1].weight") && changed.contains("layers[1].bias"));
}

#[derive(Module, Clone, Debug)]
struct Normalized {
    #[param]
    scale: Param<Tensor<1>>,
    #[state]
    mean: Param<Tensor<1>>,
    #[state]
    running: RunningState<Tensor<1>>,
    #[state]
    active: Param<Flag>,
    #[state]
    mask: Tensor<1, Bool>,
    #[state]
    steps: i64,
}

fn normalized(device: &Device) -> Normalized {
    Normalized {
        scale: Param::from_data([2.0, 3.0], device),
        mean: Param::from_data([0.5, 0.5], device),
        running: RunningState::new(Tensor::from_data([1.0, 4.0], device)),
        active: Param::from_bool(true),
        mask: Tensor::from_data([true, false], device),
        steps: 7,
    }
}

#[test]
fn states_are_not_trained() {
    let model = AsBurn::new(normalized(&training())).unwrap();
    assert!(model.scale.is_require_grad() && !model.mean.is_require_grad());
    let model = model.freeze();
    assert!(!model.scale.is_require_grad() && !model.active.is_enabled());
    let model = model.unfreeze();
    assert!(model.scale.is_require_grad() && !model.mean.is_require_grad());
    assert!(!model.running.value().is_require_grad());
    assert_eq!(model.steps, 7);
}

#[test]
fn validation_keeps_what_training_restores() {
    let device = training();
    let model = AsBurn::new(normalized(&device)).unwrap();
    let valid = model.valid();
    assert!(!valid.scale.is_autodiff() && !valid.mask.is_autodiff() && !valid.active.is_enabled());
    assert_eq!(valid.scale.id, model.scale.id);
    let trained = valid.clone().train();
    assert!(trained.scale.is_require_grad() && !trained.mean.is_require_grad());
    assert!(trained.active.is_enabled());
    assert_eq!(model.devices(), std::slice::from_ref(&device));
    assert_eq!(valid.fork(&device).num_params(), model.num_params());
}

#[test]
fn states_of_every_kind_are_stored() {
    let device = training();
    let model = normalized(&device);
    let bytes = to_bytes(&model).unwrap();
    let mut other = normalized(&Device::flex());
    other.scale = Param::from_data([0.0, 0.0], &device);
    other.mask = Tensor::from_data([false, false], &device);
    other.active = other.active.with_value(false);
    let ids = (other.scale.id, other.active.id);
    let loaded = load(Bytes(&bytes), &other).unwrap();
    assert!(diff(&loaded, &model).is_empty());
    // Identities and what gradients need are those of the template.
    assert_eq!((loaded.scale.id, loaded.active.id), ids);
    assert!(loaded.scale.is_require_grad() && !loaded.mean.is_autodiff());
}

#[test]
fn copy_has_its_own_running_state() {
    let device = training();
    let model = normalized(&device);
    let copy = pytree_core::nodes::copy(&model);
    copy.running.update(Tensor::from_data([0.0, 0.0], &device));
    assert_eq!(values(&copy.running), [0.0, 0.0]);
    assert_eq!(values(&model.running), [1.0, 4.0]);
}

#[derive(Module, Clone, Debug)]
struct Layers {
    words: Embedding,
    dropout: Dropout,
    linear: Linear,
    batch_norm: BatchNorm,
    group_norm: GroupNorm,
    instance_norm: InstanceNorm,
    layer_norm: LayerNorm,
    rms_norm: RmsNorm,
    conv1d: Conv1d,
    conv2d: Conv2d,
    conv3d: Conv3d,
    up1d: ConvTranspose1d,
    up2d: ConvTranspose2d,
    up3d: ConvTranspose3d,
}

mod their_layers {
    use super::*;

    #[derive(burn::module::Module, Debug)]
    pub struct Layers {
        pub words: Embedding,
        pub dropout: Dropout,
        pub linear: Linear,
        pub batch_norm: BatchNorm,
        pub group_norm: GroupNorm,
        pub instance_norm: InstanceNorm,
        pub layer_norm: LayerNorm,
        pub rms_norm: RmsNorm,
        pub conv1d: Conv1d,
        pub conv2d: Conv2d,
        pub conv3d: Conv3d,
        pub up1d: ConvTranspose1d,
        pub up2d: ConvTranspose2d,
        pub up3d: ConvTranspose3d,
    }
}

#[test]
fn layers_of_burn_nn_are_modules() {
    let device = training();
    let model = Layers {
        words: EmbeddingConfig::new(5, 4).init(&device),
        dropout: DropoutConfig::new(0.25).init(),
        linear: LinearConfig::new(4, 3).init(&device),
        batch_norm: BatchNormConfig::new(3).with_momentum(0.3).init(&device),
        group_norm: GroupNormConfig::new(1, 3).init(&device),
        instance_norm: InstanceNormConfig::new(3).init(&device),
        layer_norm: LayerNormConfig::new(3).with_epsilon(0.25).init(&device),
        rms_norm: RmsNormConfig::new(3).with_epsilon(0.125).init(&device),
        conv1d: Conv1dConfig::new(3, 2, 3).with_stride(2).init(&device),
        conv2d: Conv2dConfig::new([3, 2], [3, 1])
            .with_padding(PaddingConfig2d::Same)
            .init(&device),
        conv3d: Conv3dConfig::new([3, 2], [1, 1, 1])
            .with_bias(false)
            .init(&device),
        up1d: ConvTranspose1dConfig::new([3, 2], 3).init(&device),
        up2d: ConvTranspose2dConfig::new([3, 2], [3, 1]).init(&device),
        up3d: ConvTranspose3dConfig::new([3, 2], [1, 1, 1]).init(&device),
    };
    let theirs = model.clone();
    let theirs = their_layers::Layers {
        words: theirs.words,
        dropout: theirs.dropout,
        linear: theirs.linear,
        batch_norm: theirs.batch_norm,
        group_norm: theirs.group_norm,
        instance_norm: theirs.instance_norm,
        layer_norm: theirs.layer_norm,
        rms_norm: theirs.rms_norm,
        conv1d: theirs.conv1d,
        conv2d: theirs.conv2d,
        conv3d: theirs.conv3d,
        up1d: theirs.up1d,
        up2d: theirs.up2d,
        up3d: theirs.up3d,
    };
    let ours = AsBurn::new(model.clone()).unwrap();
    assert_eq!(seen(&ours), seen(&theirs));
    pytree_core::nodes::check_impl(&model).unwrap();
    let states = partition::filter(&mixed(&model), &Filter::any_state());
    let paths: Vec<String> = states
        .iter_with_path()
        .map(|(path, _)| path.to_string())
        .collect();
    let expected = [
        "dropout.training",
        "batch_norm.training",
        "batch_norm.running_mean",
        "batch_norm.running_var",
    ];
    assert_eq!(paths, expected);
    // Settings are part of the structure, and layers are built with them.
    let back = pytree_core::nodes::copy(&model);
    assert_eq!(graph::structure(&back), graph::structure(&model));
    assert_eq!(
        (back.batch_norm.momentum, back.rms_norm.epsilon),
        (0.3, 0.125)
    );
    assert_eq!((back.conv1d.stride, back.dropout.prob), (2, 0.25));
    assert!(
        graph::structure(&back)
            .to_string()
            .contains("LayerNorm { gamma: *, beta: *, epsilon = 0.25 }"),
        "{}",
        graph::structure(&back)
    );
    let x = Tensor::<2>::from_data([[1.0, 2.0, 3.0]], &device);
    assert_eq!(
        values(&back.layer_norm.forward(x.clone())),
        values(&model.layer_norm.forward(x))
    );
    let mut other = back.clone();
    other.conv2d.padding = PaddingConfig2d::Valid;
    assert_ne!(graph::structure(&other), graph::structure(&model));
    let x = Tensor::<2, Int>::from_data([[0, 3]], &device);
    let forward = |model: &Layers| model.linear.forward(model.words.forward(x.clone()));
    assert_eq!(values(&forward(&back)), values(&forward(&model)));
    let loaded = load(Bytes(&to_bytes(&model).unwrap()), &other).unwrap();
    assert!(diff(&loaded.up3d, &model.up3d).is_empty());
}

#[test]
fn files_are_those_of_ndarray() {
    use ndarray::{Array1, Array2};
    let net = network(&[3, 4, 2], &training());
    let zeros = |widths: &[usize]| Dense {
        weight: Array2::<f32>::zeros((widths[0], widths[1])),
        bias: Some(Array1::<f32>::zeros(widths[1])),
    };
    let template = Network {
        layers: [3, 4, 2].windows(2).map(zeros).collect(),
    };
    let bytes = to_bytes(&net).unwrap();
    let loaded = load(Bytes(&bytes), &template).unwrap();
    assert_eq!(
        loaded.layers[0].weight.as_slice().unwrap(),
        numbers(12, 0.7)
    );
    assert_eq!(to_bytes(&loaded).unwrap(), bytes);
    let converted = graph::convert(&net, &template).unwrap();
    let back = graph::convert(&converted, &graph_zeros(&net)).unwrap();
    assert!(diff(&back, &net).is_empty());
    let other = network(&[3, 5, 2], &Device::flex());
    let text = graph::convert(&net, &other).unwrap_err().to_string();
    assert_eq!(
        text.matches("expected a leaf of type f32[").count(),
        3,
        "{text}"
    );
}

#[test]
fn elements_of_every_dtype_come_back() {
    let device = Device::flex();
    let floats = [DType::F32, DType::F64, DType::F16, DType::BF16];
    let floats = floats.map(|dtype| {
        let data = TensorData::new(numbers(6, 1.0), [2, 3]);
        Tensor::<2>::from_data(data, (&device, dtype)).transpose()
    });
    let integers = [
        DType::I64,
        DType::I32,
        DType::I16,
        DType::I8,
        DType::U64,
        DType::U32,
        DType::U16,
        DType::U8,
    ];
    let integers = integers.map(|dtype| {
        let data = TensorData::new((0..6).collect::<Vec<i32>>(), [2, 3]);
        Tensor::<2, Int>::from_data(data, (&device, dtype)).transpose()
    });
    let zeros = (
        floats.clone().map(|it| it.zeros_like()),
        integers.clone().map(|it| it.zeros_like()),
    );
    let model = (floats, integers);
    let loaded = load(Bytes(&to_bytes(&model).unwrap()), &zeros).unwrap();
    assert!(
        diff(&loaded, &model).is_empty(),
        "{}",
        diff(&loaded, &model)
    );
    assert!(!diff(&zeros, &model).is_empty());
    let dtypes = model.1.map(|it| it.info().to_string());
    assert_eq!(dtypes[0], "i64[3,2]");
    assert_eq!(dtypes[7], "u8[3,2]");
    // From the type of rust to bytes: in row-major order.
    let first = model.0[0].bytes().unwrap();
    let expected: Vec<u8> = [0, 3, 1, 4, 2, 5]
        .iter()
        .flat_map(|&at| numbers(6, 1.0)[at].to_ne_bytes())
        .collect();
    assert_eq!(*first, expected);
}

#[derive(Module, Clone, Debug)]
struct Tied {
    #[param]
    embedding: Shared<Weight>,
    #[param]
    head: Shared<Weight>,
}

#[test]
fn shared_parameter_is_trained_once() {
    let device = training();
    let table = Shared::new(weight(2, 2, &device));
    let tied = Tied {
        embedding: table.clone(),
        head: table,
    };
    let tied = AsBurn::new(tied).unwrap();
    assert_eq!(tied.num_params(), 4);
    let loss = tied.embedding.val().matmul(tied.head.val()).sum();
    let gradient = GradientsParams::from_grads(loss.backward(), &tied);
    // The gradient of the sum of the elements of W W, at row i and column j, is row j's sum plus column i's sum.
    let w = numbers(4, 0.7);
    let (rows, columns) = ([w[0] + w[1], w[2] + w[3]], [w[0] + w[2], w[1] + w[3]]);
    let expected = [
        rows[0] + columns[0],
        rows[1] + columns[0],
        rows[0] + columns[1],
        rows[1] + columns[1],
    ];
    let found = gradient.get::<2>(tied.head.id).unwrap();
    for (found, expected) in values(&found).iter().zip(expected) {
        assert!((found - f64::from(expected)).abs() < 1e-6);
    }
    let step = AdamConfig::new().init().step(0.1, tied.clone(), gradient);
    assert!(step.embedding.same(&step.head));
    assert_ne!(values(&**step.head), values(&**tied.head));
    let file = to_bytes(&step).unwrap();
    let loaded = load(Bytes(&file), &tied).unwrap();
    assert!(loaded.embedding.same(&loaded.head));
}

#[test]
fn lint_reports_a_parameter_in_two_places() {
    let weight = weight(2, 2, &training());
    let [first, second] = [(); 2].map(|()| Dense::<Weight, Bias> {
        weight: weight.clone(),
        bias: None,
    });
    let found = lint(&Network {
        layers: vec![first, second],
    });
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(
        found[0].to_string().contains("layers[1].weight"),
        "{found:?}"
    );
}

#[derive(Module, Clone, Debug)]
struct Constants {
    #[param]
    scale: Tensor<1>,
    #[param]
    shift: Tensor<2>,
    #[param]
    number: f32,
}

#[test]
fn parameters_without_identity_are_refused() {
    let device = Device::flex();
    let model = Constants {
        scale: Tensor::ones([2], &device),
        shift: Tensor::ones([2, 2], &device),
        number: 1.0,
    };
    let text = AsBurn::new(model.clone()).unwrap_err().to_string();
    assert!(
        text.contains("cannot make a model a module of burn: 3 places:"),
        "{text}"
    );
    assert!(
        text.contains("at scale: expected a leaf of type `Param<Tensor<D>>` with D from 1 to 6, found Tensor<1>"),
        "{text}"
    );
    // Without burn's optimizers, they are parameters as others.
    assert_eq!(partition::filter(&mixed(&model), &Filter::param()).len(), 3);
    let double = burn022::elementwise(|left, right| left + right);
    let doubled = graph::map2_any(model.clone(), &model, double).unwrap();
    assert_eq!(values(&doubled.shift), [2.0; 4]);
}

#[test]
fn average_is_trained_on() {
    let device = training();
    let net = network(&[3, 2], &device);
    let zeros = graph_zeros(&net);
    let mean = burn022::elementwise(|left, right| (left + right) / 2.0);
    let average = graph::map2_any(net.clone(), &zeros, mean).unwrap();
    let expected: Vec<f64> = values(&net.layers[0].weight)
        .iter()
        .map(|it| it / 2.0)
        .collect();
    assert_eq!(values(&average.layers[0].weight), expected);
    assert_eq!(average.layers[0].weight.id, net.layers[0].weight.id);
    let average = AsBurn::new(average).unwrap();
    let gradient = average.loss(&input(&device)).backward();
    assert_eq!(GradientsParams::from_grads(gradient, &average).len(), 2);
}

#[test]
#[should_panic(
    expected = "cannot combine a leaf of type `Tensor<2>` with a leaf of type `Tensor<1>`"
)]
fn elements_of_different_types_are_not_combined() {
    let device = Device::flex();
    let (left, right) = (
        Tensor::<2>::ones([1, 2], &device),
        Tensor::<1>::ones([2], &device),
    );
    let _ = graph::map2_any(left, &right, burn022::elementwise(|left, _| left));
}

#[test]
fn adapters_are_not_lost_in_a_file() {
    let device = training();
    let net = AsBurn::new(network(&[3, 4, 2], &device)).unwrap();
    let adapted = net.clone().apply_lora(Lora::new(2, 4.0));
    assert!(adapted.layers[0].weight.adapter().is_some());
    let error = to_bytes(&adapted).unwrap_err();
    let text = format!("{error}: {}", std::error::Error::source(&error).unwrap());
    assert!(
        text.contains("layers[0].weight") && text.contains("materialize"),
        "{text}"
    );
    // The adapters are trained by burn, and can be merged.
    let gradient = adapted.loss(&input(&device)).backward();
    assert_eq!(GradientsParams::from_grads(gradient, &adapted).len(), 4);
    assert_eq!(
        to_bytes(&adapted.materialize()).unwrap(),
        to_bytes(&net).unwrap()
    );
}

#[test]
fn lazy_parameter_is_initialized_once() {
    let lazy: Weight = Param::uninitialized(
        ParamId::new(),
        |device, _| Tensor::random([2, 2], burn::tensor::Distribution::Default, device),
        Device::flex(),
        false,
        [2, 2].into(),
    );
    let model = vec![lazy.clone()];
    let copy = graph::map2_any(model.clone(), &model, |leaf, _| leaf).unwrap();
    assert!(!lazy.is_initialized());
    assert_eq!(values(&copy[0]), values(&lazy));
}

#[test]
fn structure_shows_shapes_of_mixed_ranks() {
    let net = network(&[3, 4], &Device::flex());
    let shown = mixed(&net).to_string();
    assert_eq!(
        shown,
        "Network { layers: [Dense { weight: f32[3,4], bias: f32[4] }] }"
    );
    assert!(pytree_core::Pytree::check_shapes(&net).is_ok());
    let mut wrong = net;
    wrong.layers[0].bias = Some(Param::from_data([0.0; 3], &Device::flex()));
    let text = pytree_core::Pytree::check_shapes(&wrong)
        .unwrap_err()
        .to_string();
    assert!(text.contains("bias"), "{text}");
    assert!(
        AnyLeaf::new(wrong.layers[0].weight.clone())
            .as_array()
            .is_some()
    );
}
