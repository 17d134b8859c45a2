//! Four jobs with burn's derive, and with this one on burn's parameters: the code of `docs/explanation/compared-derives.md`.

use std::collections::VecDeque;

use burn::module::{Module as _, ModuleMapper, ModuleVisitor, Param, ParamGroup, ParamId};
use burn::nn::{Linear, LinearConfig};
use burn::optim::{GradientsParams, SgdConfig};
use burn::tensor::{Device, Int, Tensor, TensorData};
use burn_store::{ModuleSnapshot as _, SafetensorsStore};
use pytree_core::burn022::{self, AsBurn};
use pytree_core::{Filter, Module, Shared, graph};
use pytree_store::checkpoint::{Bytes, LoadOptions, WeightNames, load_with, to_bytes};

use crate::{training, values};

#[derive(burn::module::Module, Debug)]
struct Theirs {
    base: Linear,
    head: Linear,
}

#[derive(Module, Clone, Debug)]
struct Dense {
    #[param]
    weight: Param<Tensor<2>>,
    #[param]
    bias: Param<Tensor<1>>,
}

#[derive(Module, Clone, Debug)]
struct Ours {
    base: Dense,
    head: Dense,
}

fn theirs(device: &Device) -> Theirs {
    let linear = || LinearConfig::new(2, 2).init(device);
    Theirs {
        base: linear(),
        head: linear(),
    }
}

fn ours(device: &Device) -> AsBurn<Ours> {
    let dense = |linear: Linear| Dense {
        weight: linear.weight,
        bias: linear.bias.unwrap(),
    };
    let Theirs { base, head } = theirs(device);
    AsBurn::new(Ours {
        base: dense(base),
        head: dense(head),
    })
    .unwrap()
}

#[test]
fn freeze_by_name() {
    let model = theirs(&training());
    // burn
    let model = model.freeze_group(ParamGroup::from_predicate("base"));
    assert!(!model.base.weight.is_require_grad() && model.head.weight.is_require_grad());
    // A wrong name freezes nothing.
    let model = theirs(&training()).freeze_group(ParamGroup::from_predicate("bsae"));
    assert!(model.base.weight.is_require_grad());

    let model = ours(&training());
    // pytree
    let base = burn022::group(&model, &Filter::path("base")).unwrap();
    let model = model.freeze_group(base);
    assert!(!model.base.weight.is_require_grad() && model.head.weight.is_require_grad());
    let error = burn022::group(&model, &Filter::path("bsae")).unwrap_err();
    assert_eq!(error.to_string(), "no leaf at bsae; did you mean `base`?");
}

// burn
struct Collect(VecDeque<TensorData>);

impl ModuleVisitor for Collect {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        self.0.push_back(param.val().into_data());
    }
}

struct Average(VecDeque<TensorData>);

impl ModuleMapper for Average {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let other = self.0.pop_front().unwrap();
        param.map(|tensor| {
            let other = Tensor::from_data(other, &tensor.device());
            let mean = (tensor.clone() + other) / 2.0;
            mean.detach().set_require_grad(tensor.is_require_grad())
        })
    }
}

fn average(left: Theirs, right: &Theirs) -> Theirs {
    let mut collect = Collect(VecDeque::new());
    right.visit(&mut collect);
    left.map(&mut Average(collect.0))
}
// end

#[test]
fn average_of_weights() {
    let (left, right) = (theirs(&training()), theirs(&training()));
    let mean = average(left.clone(), &right);
    let expected = (left.base.weight.val() + right.base.weight.val()) / 2.0;
    assert_eq!(values(&mean.base.weight), values(&expected));

    let (left, right) = (ours(&training()), ours(&training()));
    // pytree
    let mean = burn022::elementwise(|left, right| (left + right) / 2.0);
    let mean = graph::map2_any(left.clone(), &right, mean).unwrap();
    let expected = (left.base.weight.val() + right.base.weight.val()) / 2.0;
    assert_eq!(values(&mean.base.weight), values(&expected));
}

/// An earlier version of the model.
#[derive(Module, Clone, Debug)]
struct Earlier {
    first: Dense,
    head: Dense,
}

#[test]
fn rename_on_load() {
    let device = training();
    let Ours { base, head } = ours(&device).into_model();
    let saved = Earlier { first: base, head };
    let file = to_bytes(&saved).unwrap();

    let mut model = theirs(&device);
    // burn
    let mut store =
        SafetensorsStore::from_bytes(Some(file.clone())).with_key_remapping(r"^first\.", "base.");
    model.load_from(&mut store).unwrap();
    // end
    assert_eq!(values(&model.base.weight), values(&saved.first.weight));
    let mut store =
        SafetensorsStore::from_bytes(Some(file.clone())).with_key_remapping(r"^first\.", "bsae.");
    let error = model.load_from(&mut store).unwrap_err().to_string();
    for line in [
        "✗ Missing in source:    2 tensors",
        "• base.weight\n│        Did you mean: 'bsae.weight'?",
    ] {
        assert!(error.contains(line), "{error}");
    }

    let template = ours(&device);
    let load = |base| {
        // pytree
        let names = WeightNames::dotted().rename("first", base);
        load_with(Bytes(&file), &template, &LoadOptions::new().names(names))
        // end
    };
    let (loaded, _) = load("base").unwrap();
    assert_eq!(values(&loaded.base.weight), values(&saved.first.weight));
    let error = load("bsae").unwrap_err().to_string();
    for line in [
        "base.weight: expected f32[2,2], but the file has no leaf with this name; did you mean first.weight?",
        "the template has no leaf at `bsae`, to which `WeightNames` give the path `first` in the file",
    ] {
        assert!(error.contains(line), "{error}");
    }
}

#[derive(burn::module::Module, Debug)]
struct Forgotten {
    weight: Tensor<2>,
    scale: Param<Tensor<2>>,
    table: Param<Tensor<1, Int>>,
}

#[test]
fn plain_tensor_compiles_and_is_not_trained() {
    let device = training();
    let model = Forgotten {
        weight: Tensor::ones([2, 2], &device),
        scale: Param::from_tensor(Tensor::ones([2, 1], &device)),
        table: Param::initialized(ParamId::new(), Tensor::from_data([1, 2], &device)),
    };
    let loss = (model.weight.clone() * model.scale.val()).sum();
    let gradient = GradientsParams::from_grads(loss.backward(), &model);
    assert_eq!(gradient.len(), 1);
    assert_eq!(model.num_params(), 2);
}

#[test]
fn tie_two_weights() {
    let device = training();
    let mut model = theirs(&device);
    // burn: a clone has the same identity, and only the first of the two is trained.
    model.head.weight = model.base.weight.clone();
    let loss = model
        .base
        .weight
        .val()
        .matmul(model.head.weight.val())
        .sum();
    let gradient = GradientsParams::from_grads(loss.backward(), &model);
    let model = SgdConfig::new().init().step(0.1, model, gradient);
    assert_ne!(values(&model.base.weight), values(&model.head.weight));

    let weight = ours(&device).base.weight.clone();
    // pytree
    let weight = Shared::new(weight);
    let model = AsBurn::new([weight.clone(), weight]).unwrap();
    let loss = model[0].val().matmul(model[1].val()).sum();
    let gradient = GradientsParams::from_grads(loss.backward(), &model);
    let model = SgdConfig::new().init().step(0.1, model, gradient);
    assert!(model[0].same(&model[1]));
}
