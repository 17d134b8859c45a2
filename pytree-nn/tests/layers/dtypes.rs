//! Models in f64: created so, and converted.

use pytree_core::kind::State;
use pytree_core::{Module, Ref, Shared, graph};
use pytree_nn::{
    Activation, BatchNorm, Dropout, Embed, EmbedOptions, Linear, LinearOptions, Mlp, NormOptions,
    Optimizer, Rngs, adam, convert_floats, softmax_cross_entropy,
};
use pytree_transform::{DType, Tensor, jit, value_and_grad_mut};

#[derive(Module, Clone, Debug)]
struct Network {
    first: Shared<Linear>,
    tied: Shared<Linear>,
    norm: BatchNorm,
    dropout: Dropout,
    rngs: Rngs,
    #[state]
    steps: Tensor,
    #[state(State)]
    total: Ref<Tensor>,
    head: Linear,
}

impl Network {
    fn new(rngs: &mut Rngs) -> Self {
        let first = Shared::new(Linear::new(4, 4, rngs));
        Self {
            tied: first.clone(),
            first,
            norm: BatchNorm::new(4, rngs),
            dropout: Dropout::new(0.5, rngs),
            rngs: rngs.fork(),
            steps: Tensor::from(0_i32),
            total: Ref::new(Tensor::from(0.5_f32)),
            head: Linear::new(4, 3, rngs),
        }
    }

    fn forward(&mut self, x: &Tensor) -> Tensor {
        self.steps = &self.steps + 1;
        let noise = self.rngs.normal(x.dtype(), x.shape()) * 0.01;
        let hidden = self.tied.forward(&self.first.forward(&(x + noise)));
        self.head
            .forward(&self.dropout.forward(&self.norm.forward(&hidden)))
    }
}

type Training = (Network, Optimizer<Network>);

fn step((mut model, mut optimizer): Training) -> (Training, Tensor) {
    let x = pytree_nn::Key::new(3).normal(DType::F64, [6, 4]);
    let y = Tensor::from([0, 1, 2, 0, 1, 2]);
    let loss = |model: &mut Network| softmax_cross_entropy(&model.forward(&x), &y).mean();
    let (loss, gradient) = value_and_grad_mut(loss)(&mut model);
    optimizer.update(&mut model, &gradient);
    ((model, optimizer), loss)
}

fn dtypes<M: pytree_core::PytreeOf<Tensor>>(model: &M) -> Vec<(String, DType)> {
    let (leaves, treedef) = graph::flatten::<Tensor, M>(model);
    let paths = treedef
        .leaf_paths()
        .into_iter()
        .map(|path| path.to_string());
    paths.zip(leaves.iter().map(Tensor::dtype)).collect()
}

fn leaves<M: pytree_core::PytreeOf<Tensor>>(model: &M) -> Vec<Tensor> {
    graph::flatten::<Tensor, M>(model).0
}

#[test]
fn model_with_all_kinds_of_leaves_is_converted() {
    let single = Network::new(&mut Rngs::new(0));
    let optimizer = Optimizer::new(&single, adam(0.1));
    let both = (single.clone(), optimizer);
    let double = convert_floats(&both, DType::F64);
    for ((path, before), (same_path, after)) in dtypes(&both).into_iter().zip(dtypes(&double)) {
        assert_eq!(path, same_path);
        let expected = if before.is_float() {
            DType::F64
        } else {
            before
        };
        assert_eq!(after, expected, "{path}");
    }
    let model = &double.0;
    assert!(model.first.same(&model.tied), "sharing is kept");
    assert_eq!(model.norm.variance, Tensor::ones(DType::F64, [4]));
    assert_eq!(model.rngs, single.rngs, "keys and counts are kept");
    assert_eq!(model.total.get(), Tensor::from(0.5_f64));
    assert_eq!(
        single.total.get(),
        Tensor::from(0.5_f32),
        "the argument is not written"
    );
    // Values of f32 are kept exactly, there and back.
    let back = convert_floats(model, DType::F32);
    assert_eq!(leaves(&back), leaves(&single));

    let (((model, _), eager), (_, compiled)) = (step(double.clone()), jit(step)(double));
    assert_eq!(eager.dtype(), DType::F64);
    assert!((eager - compiled).abs().item::<f64>() < 1e-12);
    assert_eq!(model.steps.item::<i32>(), 1);
    assert_ne!(model.norm.mean, Tensor::zeros(DType::F64, [4]));
}

#[test]
fn models_are_converted_under_jit() {
    let model = Network::new(&mut Rngs::new(0));
    let compiled = jit(|model: Network| convert_floats(&model, DType::F64))(model.clone());
    let eager = convert_floats(&model, DType::F64);
    assert_eq!(leaves(&compiled), leaves(&eager));
}

#[test]
#[should_panic(expected = "cannot convert the floats of a model to i32: expected a float dtype")]
fn models_are_not_converted_to_integers() {
    let _ = convert_floats(&Linear::new(1, 1, &mut Rngs::new(0)), DType::I32);
}

#[test]
fn every_layer_has_a_param_dtype() {
    let mut rngs = Rngs::new(0);
    let param_dtype = DType::F64;
    let linear = LinearOptions {
        param_dtype,
        ..LinearOptions::default()
    };
    let norm = NormOptions {
        param_dtype,
        ..NormOptions::default()
    };
    let embed = EmbedOptions {
        param_dtype,
        ..EmbedOptions::default()
    };
    let mut model = (
        Embed::with_options(5, 4, embed, &mut rngs),
        BatchNorm::with_options(4, norm, &mut rngs),
        Mlp::with_options(&[4, 8, 2], Activation::Relu, linear, &mut rngs),
    );
    let mut shapes = (
        Embed::new(5, 4, &mut Rngs::new(0)),
        BatchNorm::new(4, &mut Rngs::new(0)),
        Mlp::new(&[4, 8, 2], Activation::Relu, &mut Rngs::new(0)),
    );
    assert!(dtypes(&model).iter().all(|(_, dtype)| *dtype == DType::F64));
    assert_eq!(dtypes(&model).len(), dtypes(&shapes).len());
    let words = Tensor::from([0, 3]);
    let y = model.2.forward(&model.1.forward(&model.0.forward(&words)));
    assert_eq!(y.dtype(), DType::F64);
    // Drawn in f64, not converted from f32.
    let drawn = model.2.layers[0]
        .weight
        .convert(DType::F32)
        .convert(DType::F64);
    assert_ne!(drawn, model.2.layers[0].weight);
    let y = shapes
        .2
        .forward(&shapes.1.forward(&shapes.0.forward(&words)));
    assert_eq!(y.dtype(), DType::F32);
}
