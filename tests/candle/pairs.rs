//! Pairs of features on models of candle's tensors.

use candle_core::{DType, Device, Tensor, Var};
use candle_nn::{Linear, ModuleT as _, VarBuilder, VarMap, linear};
use pytree::checkpoint::{self, Bytes};
use pytree::nn::{Mode, eval, summary, train};
use pytree::prelude::{Activation, Filter, Mlp, Rngs, grad, jit, vmap};
use pytree::{Module, Opaque, Pytree as _, Shared, at, diff, edit, graph, lint, mixed};
use pytree::{partition, stack, tree};

use crate::{Counted, Dense, Network, network, values, variables};

fn counted(numbers: &[f32]) -> Counted {
    Counted {
        weight: Tensor::new(numbers, &Device::Cpu).unwrap(),
        steps: 3,
        spent: Opaque(std::time::Duration::ZERO),
    }
}

#[test]
fn mixed_models_are_edited_by_path() {
    let model = counted(&[1.0, 2.0]);
    let edited = edit::replace_at(&mixed(&model), "steps", 4_i64).unwrap();
    let edited = edited.into_model().unwrap();
    assert_eq!((edited.steps, values(&edited.weight)), (4, vec![1.0, 2.0]));
    let doubled = edit::apply(mixed(&model), |weight: &mut Tensor| {
        *weight = (&*weight * 2.0).unwrap();
    });
    assert_eq!(values(&doubled.into_model().unwrap().weight), [2.0, 4.0]);
    let text = edit::replace_at(&mixed(&model), "step", 4_i64).unwrap_err();
    assert!(text.to_string().contains("`steps`"), "{text}");
    // A leaf of another type is found when the model is built.
    let wrong = edit::replace_at(&mixed(&model), "steps", 4.0_f32).unwrap();
    let text = wrong.into_model().unwrap_err().to_string();
    assert!(
        text.contains("steps") && text.contains("i64") && text.contains("f32"),
        "{text}"
    );
}

#[test]
fn selectors_select_parts_of_mixed_models() {
    let model = counted(&[1.0]);
    let weight = at(|model: &Counted| &model.weight);
    let part = partition::filter(&mixed(&model), &weight.filter(&model).unwrap());
    assert_eq!((part.len(), part.get("weight").is_ok()), (1, true));
    let changed = weight
        .update(&model, |weight| (weight + 1.0).unwrap())
        .unwrap();
    assert_eq!(values(&changed.weight), [2.0]);
}

#[test]
fn differences_of_mixed_models_are_those_of_the_models() {
    let (left, mut right) = (counted(&[1.0, 2.0]), counted(&[1.0, 2.5]));
    right.steps = 4;
    let difference = diff(&left, &right);
    assert_eq!(
        diff(&mixed(&left), &mixed(&right)).leaves(),
        difference.leaves()
    );
    assert_eq!(difference.leaves().len(), 2);
    assert!(difference.within(1.0) && !difference.within(0.9));
    // Integers are compared exactly, also those that no `f64` has.
    let [left, right] = [0_i64, 1].map(|it| Tensor::new(&[(1 << 53) + it], &Device::Cpu).unwrap());
    assert_eq!(diff(&left, &right).leaves().len(), 1);
}

#[test]
fn mixed_models_are_mapped_inside_of_transformations() {
    let models = [0, 1].map(|seed| Mlp::new(&[3, 2], Activation::Relu, &mut Rngs::new(seed)));
    let x = pytree::Tensor::ones(pytree::DType::F32, [3]);
    let loss = move |model: &Mlp| {
        let doubled = mixed(model).map_of(|leaf: &pytree::Tensor| leaf * 2.0);
        doubled.to_value::<Mlp>().unwrap().forward(&x).sum()
    };
    let expected = loss(&models[0]);
    let each = vmap(|model: Mlp| grad(&loss)(&model))(stack(&models, 0));
    assert_eq!(each["layers[0].bias"].to_vec::<f32>(), [2.0; 4]);
    let compiled = jit(move |model: Mlp| loss(&model))(models[0].clone());
    assert_eq!(compiled, expected);
}

#[derive(Module, Clone, Debug)]
struct Tied<T: Send + Sync + 'static> {
    #[param]
    encoder: Shared<T>,
    #[param]
    decoder: Shared<T>,
}

fn tied<T: Clone + Send + Sync>(table: T) -> Tied<T> {
    let encoder = Shared::new(table);
    Tied {
        decoder: encoder.clone(),
        encoder,
    }
}

#[test]
fn shared_tensors_are_converted_once() {
    let from = tied(Var::new(&[1.0_f32, 2.0], &Device::Cpu).unwrap());
    let to = tied(pytree::Tensor::zeros(pytree::DType::F32, [2]));
    let converted = graph::convert(&from, &to).unwrap();
    assert_eq!(converted.decoder.to_vec::<f32>(), [1.0, 2.0]);
    assert_eq!(graph::leaves::<pytree::Tensor, _>(&converted).len(), 1);
    // A template that is not tied needs both tensors, which the tree form has.
    let zeros = || Shared::new(pytree::Tensor::zeros(pytree::DType::F32, [2]));
    let separate = Tied {
        encoder: zeros(),
        decoder: zeros(),
    };
    let text = graph::convert(&from, &separate).unwrap_err().to_string();
    assert!(text.contains("decoder"), "{text}");
    let converted = graph::convert(&tree::map_to(&from, Var::clone), &separate).unwrap();
    assert_eq!(converted.decoder.to_vec::<f32>(), [1.0, 2.0]);
}

#[test]
fn opaque_leaf_is_not_stored() {
    let model = counted(&[1.0, 2.0]);
    let text = checkpoint::to_bytes(&model).unwrap_err().to_string();
    assert!(text.contains("spent") && text.contains("Opaque<"), "{text}");
    // The rest is stored as a part.
    let stored = !Filter::path("spent");
    let part = |model: &Counted| partition::filter(&mixed(model), &stored);
    let file = checkpoint::to_bytes(&part(&model)).unwrap();
    let other = counted(&[0.0, 0.0]);
    let loaded = checkpoint::load(Bytes(&file), &part(&other)).unwrap();
    let loaded = partition::replace(&mixed(&other), &loaded).unwrap();
    let loaded = loaded.into_model().unwrap();
    assert_eq!(values(&loaded.weight), [1.0, 2.0]);
}

#[derive(Module, Clone, Debug)]
struct Normalized {
    norm: candle_nn::BatchNorm,
    #[r#static]
    mode: Mode,
}

#[test]
fn mode_of_a_model_chooses_the_statistics() {
    let built = candle_nn::batch_norm(2, 1e-5, VarBuilder::zeros(DType::F32, &Device::Cpu));
    let (norm, mode) = (built.unwrap(), Mode::Train);
    let model = Normalized { norm, mode };
    let x = Tensor::new(&[[1.0_f32, 2.0], [3.0, 6.0]], &Device::Cpu).unwrap();
    let mean = |model: &Normalized| {
        let is_training = model.mode == Mode::Train;
        model.norm.forward_t(&x, is_training).unwrap();
        values(model.norm.running_mean())
    };
    // The running mean is 0.9 times 0 plus 0.1 times the mean of the batch, as `torch.nn.BatchNorm1d` computes it.
    let quiet = eval(&model);
    assert_eq!(mean(&quiet), [0.0, 0.0]);
    assert_eq!(mean(&train(&quiet)), [0.2, 0.4]);
}

#[test]
fn named_axes_are_compared_with_shapes() {
    let mut model = variables(&[3, 4, 2]);
    model.check_shapes().unwrap();
    let table = summary(&model).to_string();
    assert!(
        table.contains("│ layers[0].weight │ Param │ f32[in=3,out=4] │"),
        "{table}"
    );
    model.layers[1].bias = Some(Var::zeros(3, DType::F32, &Device::Cpu).unwrap());
    model.layers[0].weight = Var::zeros(3, DType::F32, &Device::Cpu).unwrap();
    let text = model.check_shapes().unwrap_err().to_string();
    for part in ["layers[1].bias is f32[3]", "layers[0].weight is f32[3]"] {
        assert!(text.contains(part), "{text}");
    }
}

#[test]
fn lint_reads_tensors_of_candle() {
    assert!(lint(&network(&[3, 2], Ok)).is_empty());
    let weight = Tensor::new(&[[f32::NAN, 1.0]], &Device::Cpu).unwrap();
    let found = lint(&Network {
        layers: vec![Dense { weight, bias: None }],
    });
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(
        found[0].to_string().contains("layers[0].weight"),
        "{found:?}"
    );
    // Two layers that a builder of candle made of the same variables.
    let vars = VarMap::new();
    let from = VarBuilder::from_varmap(&vars, DType::F32, &Device::Cpu);
    let layers: Vec<Linear> = vec![
        linear(2, 2, from.pp("linear")).unwrap(),
        linear(2, 2, from.pp("linear")).unwrap(),
    ];
    let found = lint(&layers);
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found.iter().all(pytree::Finding::is_mistake), "{found:?}");
}
