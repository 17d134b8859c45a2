//! Four jobs with candle's `VarMap`, and with the derive on candle's variables: the code of `docs/explanation/compared-derives.md`.

use candle_core::{DType, Device, Result, Tensor, Var};
use candle_nn::{Linear, Module as _, Optimizer as _, SGD, VarBuilder, VarMap, linear};
use pytree::checkpoint::{self, Bytes, LoadOptions, WeightNames};
use pytree::{Filter, Module, Shared, candle011, graph};

use crate::values;

#[derive(Module, Clone, Debug)]
struct Model {
    base: Linear,
    head: Linear,
}

fn model(vars: &VarMap) -> Model {
    let from = VarBuilder::from_varmap(vars, DType::F32, &Device::Cpu);
    Model {
        base: linear(2, 2, from.pp("base")).unwrap(),
        head: linear(2, 2, from.pp("head")).unwrap(),
    }
}

fn ones() -> Tensor {
    Tensor::ones((1, 2), DType::F32, &Device::Cpu).unwrap()
}

impl Model {
    fn loss(&self) -> Tensor {
        let y = self.head.forward(&self.base.forward(&ones()).unwrap());
        y.unwrap().sqr().unwrap().sum_all().unwrap()
    }
}

/// Returns whether the first and the second layer change in a step.
fn trained(model: &Model, vars: Vec<Var>) -> [bool; 2] {
    let weights = || [&model.base, &model.head].map(|layer| values(layer.weight()));
    let before = weights();
    let mut sgd = SGD::new(vars, 0.1).unwrap();
    sgd.backward_step(&model.loss()).unwrap();
    let after = weights();
    [before[0] != after[0], before[1] != after[1]]
}

/// candle
fn except(vars: &VarMap, frozen: &str) -> Vec<Var> {
    let vars = vars.data().lock().unwrap();
    let trained = vars.iter().filter(|(name, _)| !name.starts_with(frozen));
    trained.map(|(_, var)| var.clone()).collect()
}

#[test]
fn freeze_by_name() {
    let vars = VarMap::new();
    let net = model(&vars);
    assert_eq!(trained(&net, except(&vars, "base.")), [false, true]);
    // A wrong name freezes nothing.
    assert_eq!(trained(&net, except(&vars, "bsae.")), [true, true]);

    // pytree
    let trainable = candle011::params(&net, &!Filter::path("base")).unwrap();
    assert_eq!(trained(&net, trainable), [false, true]);
    let error = candle011::params(&net, &!Filter::path("bsae")).unwrap_err();
    assert_eq!(error.to_string(), "no leaf at bsae; did you mean `base`?");
}

/// candle
fn average(into: &VarMap, other: &VarMap) -> Result<()> {
    let (into, other) = (into.data().lock().unwrap(), other.data().lock().unwrap());
    for (name, var) in into.iter() {
        var.set(&((var.as_tensor() + other[name].as_tensor())? / 2.0)?)?;
    }
    Ok(())
}

#[test]
fn average_of_weights() {
    let (vars, other_vars) = (VarMap::new(), VarMap::new());
    let (left, right) = (model(&vars), model(&other_vars));
    let sum = (left.base.weight() + right.base.weight()).unwrap();
    let expected = values(&(sum / 2.0).unwrap());

    // pytree
    let mean = |left: &Tensor, right: &Tensor| ((left + right).unwrap() / 2.0).unwrap();
    let mean = graph::map2(&left, &right, mean).unwrap();
    assert_eq!(values(mean.base.weight()), expected);

    average(&vars, &other_vars).unwrap();
    assert_eq!(values(left.base.weight()), expected);
}

#[test]
fn rename_on_load() {
    let folder = std::env::temp_dir().join(format!("pytree-four-jobs-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("model.safetensors");
    let saved = VarMap::new();
    let from = VarBuilder::from_varmap(&saved, DType::F32, &Device::Cpu);
    let first = linear(2, 2, from.pp("first")).unwrap();
    linear(2, 2, from.pp("head")).unwrap();
    saved.save(&path).unwrap();

    // candle
    let load = |vars: &mut VarMap, base: &str| -> Result<()> {
        let file = candle_core::safetensors::load(&path, &Device::Cpu)?;
        let renamed = file
            .iter()
            .map(|(name, it)| (name.replace("first.", base), it));
        vars.set(renamed)
    };
    let mut vars = VarMap::new();
    let net = model(&vars);
    load(&mut vars, "base.").unwrap();
    assert_eq!(values(net.base.weight()), values(first.weight()));
    let error = load(&mut vars, "bsae.").unwrap_err().to_string();
    assert!(error.starts_with("cannot find bsae."), "{error}");
    assert!(error.contains("in VarMap"), "{error}");
    // A file may lack tensors.
    let part = [("base.weight", ones().broadcast_as((2, 2)).unwrap())];
    vars.set(part.into_iter()).unwrap();

    let fresh = model(&VarMap::new());
    // pytree
    let load = |base| {
        let names = WeightNames::dotted().rename("first", base);
        checkpoint::load_with(&path, &fresh, &LoadOptions::new().names(names))
    };
    let (loaded, _) = load("base").unwrap();
    assert_eq!(values(loaded.base.weight()), values(first.weight()));
    let error = load("bsae").unwrap_err().to_string();
    assert!(
        error.contains("the template has no leaf at `bsae`, to which `WeightNames` give the path `first` in the file"),
        "{error}"
    );
    std::fs::remove_dir_all(folder).unwrap();
}

#[derive(Module, Clone, Debug)]
struct Tied {
    #[param]
    embedding: Shared<Var>,
    #[param]
    head: Shared<Var>,
}

#[test]
fn tie_two_weights() {
    // candle: two layers that ask for the same name have the same variable.
    let vars = VarMap::new();
    let from = VarBuilder::from_varmap(&vars, DType::F32, &Device::Cpu);
    let [embedding, head] = [(); 2].map(|()| from.get((2, 2), "embedding.weight").unwrap());
    assert_eq!(vars.all_vars().len(), 1);
    let loss = embedding.matmul(&head).unwrap().sum_all().unwrap();
    SGD::new(vars.all_vars(), 0.1)
        .unwrap()
        .backward_step(&loss)
        .unwrap();
    assert_eq!(values(&embedding), values(&head));

    // pytree
    let weight = Shared::new(Var::from_tensor(&ones()).unwrap());
    let tied = Tied {
        embedding: weight.clone(),
        head: weight,
    };
    let vars = candle011::params(&tied, &Filter::param()).unwrap();
    assert_eq!(vars.len(), 1);
    let file = checkpoint::to_bytes(&tied).unwrap();
    let loaded = checkpoint::load(Bytes(&file), &tied).unwrap();
    assert!(loaded.embedding.same(&loaded.head));
}
