//! Tests of the updates of an optimizer, and of the mistakes that an optimizer reports.

use super::*;
use crate::{
    Activation, AdamOptions, Linear, Mlp, Momentum, Rngs, adam, adamw, chain, clip_by_global_norm,
    eval, mse, scale_by_adam, sgd, sgd_momentum, train,
};
use pytree_core::{Freeze, Shared};
use pytree_transform::{DType, grad, jit, value_and_grad};

fn mlp() -> Mlp {
    Mlp::new(&[2, 3, 1], Activation::Tanh, &mut Rngs::new(0))
}

fn ones() -> Tensor {
    Tensor::ones(DType::F32, [4, 2])
}

fn gradients(model: &Mlp) -> Partition<Mlp, Tensor> {
    value_and_grad(|model: &Mlp| model.forward(&ones()).mean())(model).1
}

#[test]
fn every_parameter_without_gradient_is_named() {
    let mut model = mlp();
    let mut optimizer = Optimizer::new(&model, sgd(0.1));
    let first = |model: &Mlp| model.layers[0].forward(&ones()).mean();
    let gradients = value_and_grad(first)(&model).1;
    let before = model.clone();
    let error = optimizer.try_update(&mut model, &gradients).unwrap_err();
    assert_eq!(
        error.to_string(),
        "cannot update the model:\n  layers[1].weight received no gradient\n  layers[1].bias received no gradient\n\
         a parameter has no gradient if the loss does not depend on it, or if `.wrt(filter)` excludes it: use the parameter in the loss, freeze it with `Optimizer::with_filter(&model, …, &filter)`, or set its gradient to zero with `.with_missing_gradients(MissingGradients::Zero)`"
    );
    assert_eq!(model, before);
    assert_eq!(optimizer.step().item::<u32>(), 0);
}

/// Returns the gradients of a loss that depends on one head only, with and without zeros for the other head.
fn of_one_head(heads: &[Mlp; 2], head: usize) -> [Gradient<[Mlp; 2]>; 2] {
    let loss = |heads: &[Mlp; 2]| heads[head].forward(&ones()).square().mean();
    let all = |heads: &[Mlp; 2]| loss(heads) + heads[1 - head].forward(&ones()).sum() * 0.0;
    [grad(loss)(heads), grad(all)(heads)]
}

#[test]
fn missing_gradients_may_be_zero() {
    let chains = [
        sgd(0.1),
        sgd_momentum(0.1, 0.9, Momentum::Nesterov),
        adamw(0.1, 0.01),
        chain([clip_by_global_norm(0.1), adam(0.1)]),
    ];
    for transformation in chains {
        let mut heads = [mlp(), mlp()];
        let mut optimizer =
            Optimizer::new(&heads, transformation).with_missing_gradients(MissingGradients::Zero);
        let (mut expected, mut of_zeros) = (heads.clone(), optimizer.clone());
        for step in 0..5 {
            let [gradient, zeros] = of_one_head(&heads, step % 2);
            assert_eq!((gradient.len(), zeros.len()), (4, 8));
            optimizer.update(&mut heads, &gradient);
            of_zeros.update(&mut expected, &zeros);
            assert_eq!(heads, expected, "step {step}");
            let states = graph::leaves::<Tensor, _>(&optimizer);
            assert_eq!(states, graph::leaves::<Tensor, _>(&of_zeros), "step {step}");
        }
    }
}

#[test]
fn loss_may_depend_on_no_parameter() {
    let mut model = mlp();
    let mut optimizer =
        Optimizer::new(&model, sgd(0.1)).with_missing_gradients(MissingGradients::Zero);
    let before = model.clone();
    let gradient = grad(|_: &Mlp| Tensor::from(1.0_f32))(&model);
    optimizer.update(&mut model, &gradient);
    assert_eq!(model, before);
    assert_eq!(optimizer.step().item::<u32>(), 1);
}

#[test]
fn shared_trunk_of_unused_head_is_updated() {
    let trunk = Shared::new(Linear::new(2, 2, &mut Rngs::new(0)));
    let head = |seed| (trunk.clone(), Linear::new(2, 1, &mut Rngs::new(seed)));
    let mut model = vec![head(1), head(2)];
    let mut optimizer =
        Optimizer::new(&model, sgd(0.1)).with_missing_gradients(MissingGradients::Zero);
    let before = model.clone();
    let loss = |model: &Vec<(Shared<Linear>, Linear)>| {
        let (trunk, head) = &model[1];
        head.forward(&trunk.forward(&ones())).square().mean()
    };
    let gradient = grad(loss)(&model);
    optimizer.update(&mut model, &gradient);
    assert!(model[0].0.same(&model[1].0));
    assert_ne!(model[0].0.weight, before[0].0.weight);
    assert_eq!(model[0].1, before[0].1);
    assert_ne!(model[1].1, before[1].1);
}

#[test]
fn zero_gradients_work_under_jit() {
    let step = |(mut heads, mut optimizer): ([Mlp; 2], Optimizer<[Mlp; 2]>)| {
        let [gradient, _] = of_one_head(&heads, 1);
        optimizer.update(&mut heads, &gradient);
        (heads, optimizer)
    };
    let heads = [mlp(), mlp()];
    let optimizer =
        Optimizer::new(&heads, adam(0.1)).with_missing_gradients(MissingGradients::Zero);
    let (eager, _) = step((heads.clone(), optimizer.clone()));
    let (compiled, _) = jit(step)((heads.clone(), optimizer.clone()));
    assert_eq!(compiled, eager);
    assert_eq!(compiled[0], heads[0]);
    assert_ne!(compiled[1], heads[1]);
}

#[test]
fn only_missing_gradients_become_zero() {
    let mut model = (Freeze::new(mlp()), mlp());
    let last = Filter::path("[1].layers[1]");
    let mut optimizer = Optimizer::with_filter(&model, sgd(0.1), &last)
        .with_missing_gradients(MissingGradients::Zero);
    let loss =
        |model: &(Freeze<Mlp>, Mlp)| (model.0.forward(&ones()) + model.1.forward(&ones())).mean();
    let all = grad(loss)(&model);
    let error = optimizer.try_update(&mut model, &all).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("is frozen, but received a gradient"),
        "{error}"
    );

    let mut optimizer =
        Optimizer::new(&model, sgd(0.1)).with_missing_gradients(MissingGradients::Zero);
    model.0.freeze();
    let rest = grad(loss)(&model);
    let error = optimizer.try_update(&mut model, &rest).unwrap_err();
    assert!(
        error.to_string().contains("is frozen or a state now"),
        "{error}"
    );
}

#[test]
fn gradient_for_frozen_leaf_is_named() {
    let mut model = mlp();
    let mut optimizer = Optimizer::with_filter(&model, sgd(0.1), &Filter::path("layers[1]"));
    let gradients = gradients(&model);
    let error = optimizer
        .try_update(&mut model, &gradients)
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("layers[0].weight is frozen, but received a gradient"),
        "{error}"
    );
    assert!(error.contains(".wrt(filter)"), "{error}");
}

#[test]
fn an_optimizer_of_nothing_is_refused() {
    let model = mlp();
    let misspelt = Filter::param() & Filter::path_contains("waight");
    let error = Optimizer::try_with_filter(&model, sgd(0.1), &misspelt).unwrap_err();
    assert_eq!(
        error.to_string(),
        "cannot choose the leaves to train: the filter (param & path_contains(waight)) selects no leaf: no path contains the name `waight`; did you mean `weight`?"
    );
    assert_eq!(format!("{error:?}"), error.to_string());
    let states = Optimizer::try_with_filter(&model, sgd(0.1), &Filter::any_state()).unwrap_err();
    assert_eq!(
        states.to_string(),
        "cannot choose the leaves to train: the filter any_state selects no leaf; the tree has 4 parameters and 0 states: use a kind and a path that exist in the tree"
    );
    let streams = (model.clone(), Rngs::new(0));
    let states = Optimizer::try_with_filter(&streams, sgd(0.1), &Filter::any_state()).unwrap_err();
    assert_eq!(
        states.to_string(),
        "cannot train [1].streams['default'].key: it is a state, u32[2], and only floats have gradients; leave the states out: `filter & !Filter::any_state()`"
    );
    let frozen = Freeze::frozen(model);
    let all = Optimizer::try_with_filter(&frozen, sgd(0.1), &!Filter::any_state());
    assert!(
        all.unwrap_err()
            .to_string()
            .contains("selects no leaf; the tree has")
    );
}

#[test]
#[should_panic(
    expected = "cannot choose the leaves to differentiate with the filter path_contains(waight)"
)]
fn a_gradient_with_respect_to_nothing_panics() {
    let loss = |model: &Mlp| model.forward(&ones()).mean();
    let _ = value_and_grad(loss).wrt(Filter::path_contains("waight"))(&mlp());
}

#[test]
fn later_freezing_or_thawing_is_reported() {
    let loss =
        |model: &(Freeze<Mlp>, Mlp)| (model.0.forward(&ones()) + model.1.forward(&ones())).mean();
    let mut model = (Freeze::frozen(mlp()), mlp());
    let mut optimizer = Optimizer::new(&model, sgd(0.1));
    let mut for_all = Optimizer::new(&(Freeze::new(mlp()), mlp()), sgd(0.1));
    let partly = value_and_grad(loss)(&model).1;
    let error = for_all
        .try_update(&mut model, &partly)
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("layers[0].weight is frozen or a state now, but was a parameter when the optimizer was made"),
        "{error}"
    );
    assert!(error.contains("unfreeze the parts"), "{error}");
    model.0.unfreeze();
    let whole = value_and_grad(loss)(&model).1;
    let error = optimizer
        .try_update(&mut model, &whole)
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("layers[0].weight is a parameter now, but was frozen or a state when the optimizer was made"),
        "{error}"
    );
    assert!(
        error.ends_with("make a new optimizer for the current model: `Optimizer::new(&model, …)`; or freeze the parts that were frozen when the optimizer was made"),
        "{error}"
    );
    for_all.update(&mut model, &whole);
}

#[test]
fn frozen_leaves_need_no_gradient() {
    let mut model = mlp();
    let filter = Filter::path("layers[1]");
    let mut optimizer = Optimizer::with_filter(&model, adam(0.1), &filter);
    let before = model.clone();
    let gradients =
        value_and_grad(|model: &Mlp| model.forward(&ones()).mean()).wrt(filter)(&model).1;
    optimizer.update(&mut model, &gradients);
    assert_eq!(model.layers[0], before.layers[0]);
    assert_ne!(model.layers[1], before.layers[1]);
}

#[test]
fn another_model_is_refused() {
    let mut optimizer = Optimizer::new(&mlp(), sgd(0.1));
    let mut other = Mlp::new(&[2, 1], Activation::Tanh, &mut Rngs::new(0));
    let gradients = gradients(&other);
    let error = optimizer.try_update(&mut other, &gradients).unwrap_err();
    assert_eq!(
        error,
        OptimizerError::OtherModel {
            expected: 4,
            found: 2
        }
    );
}

#[test]
fn integer_parameter_is_refused() {
    let model = vec![Tensor::from([1.0_f32]), Tensor::from([1_i32])];
    let error = Optimizer::try_with_filter(&model, sgd(0.1), &Filter::everything()).unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("cannot train [1]: expected a float dtype, found i32[1]"),
        "{error}"
    );
}

#[test]
fn model_with_wrong_shapes_is_refused() {
    let mut model = mlp();
    model.layers[0].bias = Some(Tensor::zeros(DType::F32, [7]));
    let error = Optimizer::try_with_filter(&model, sgd(0.1), &Filter::everything()).unwrap_err();
    assert!(
        error.to_string().starts_with(
            "cannot make an optimizer: Mlp: layers[0].bias is f32[7], expected T[out] with out = 3 (from layers[0].weight: f32[2,3] as T[in out])"
        ),
        "{error}"
    );
    assert!(matches!(error, OptimizerError::Shapes(_)));
}

#[test]
fn a_chain_without_learning_rate_says_so() {
    let mut optimizer = Optimizer::new(&mlp(), scale_by_adam(AdamOptions::default()));
    assert!(optimizer.learning_rate().is_none());
    assert_eq!(
        optimizer.try_set_learning_rate(0.1).unwrap_err(),
        OptimizerError::NoLearningRate
    );
}

#[test]
fn new_learning_rate_is_finite() {
    let model = mlp();
    let mut optimizer = Optimizer::new(&model, sgd(0.1));
    for rate in [f64::NAN, f64::INFINITY] {
        let error = optimizer.try_set_learning_rate(rate).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!("cannot set the learning rate: expected a finite number, found {rate}")
        );
    }
    let rate = optimizer.learning_rate().map(|rate| rate.item::<f32>());
    assert_eq!(rate, Some(0.1));
}

#[test]
fn a_learning_rate_is_one_number() {
    let mut optimizer = Optimizer::new(&mlp(), sgd(0.1));
    let error = optimizer.try_set_learning_rate(Tensor::from([0.1_f32, 0.2]));
    let error = error.unwrap_err().to_string();
    assert!(
        error.contains("expected one number, found f32[2]"),
        "{error}"
    );
    assert_eq!(optimizer.learning_rate(), Some(Tensor::from(0.1_f32)));
    optimizer.set_learning_rate(Tensor::from([0.5_f32]));
    assert_eq!(optimizer.learning_rate(), Some(Tensor::from(0.5_f32)));
}

#[test]
fn the_activation_may_change_between_updates() {
    let mut model = mlp();
    let mut optimizer = Optimizer::new(&model, adam(0.1));
    let from_train = gradients(&train(&model));
    model.activation = Activation::Relu;
    optimizer.update(&mut model, &from_train);
    assert_eq!(optimizer.step().item::<u32>(), 1);
    assert_eq!(eval(&model), model);
}

#[test]
fn a_new_learning_rate_compiles_nothing_anew() {
    let step = jit(|(mut model, mut optimizer): (Mlp, Optimizer<Mlp>)| {
        let gradients = gradients(&model);
        optimizer.update(&mut model, &gradients);
        (model, optimizer)
    });
    let mut model = mlp();
    let mut optimizer = Optimizer::new(&model, chain([clip_by_global_norm(1.0), adam(0.1)]));
    let (mut eager, mut eager_optimizer) = (model.clone(), optimizer.clone());
    for rate in [0.1, 0.05, 0.0] {
        optimizer.set_learning_rate(rate);
        (model, optimizer) = step((model, optimizer));
        eager_optimizer.set_learning_rate(rate);
        let gradients = gradients(&eager);
        eager_optimizer.update(&mut eager, &gradients);
    }
    assert_eq!(step.traces(), 1);
    let pairs = graph::leaves::<Tensor, _>(&model)
        .into_iter()
        .zip(graph::leaves::<Tensor, _>(&eager));
    for (compiled, eager) in pairs {
        for (compiled, eager) in compiled.to_vec::<f32>().iter().zip(eager.to_vec::<f32>()) {
            assert!(
                (compiled - eager).abs() < 1e-6,
                "compiled {compiled}, eager {eager}"
            );
        }
    }
}

#[test]
fn tied_parameter_is_updated_once() {
    let shared = Shared::new(Linear::without_bias(2, 2, &mut Rngs::new(0)));
    let mut tied = vec![shared.clone(), shared.clone()];
    let mut optimizer = Optimizer::new(&tied, sgd(0.1));
    let loss = |tied: &Vec<Shared<Linear>>| tied[1].forward(&tied[0].forward(&ones())).mean();
    let gradients = value_and_grad(loss)(&tied).1;
    assert_eq!(gradients.len(), 1);
    optimizer.update(&mut tied, &gradients);
    assert!(tied[0].same(&tied[1]));
    assert_ne!(tied[0].weight, shared.weight);
}

#[test]
fn tuples_and_tensors_are_models_too() {
    let mut pair = (Tensor::from([1.0_f32]), Tensor::from([2.0_f64]));
    let mut optimizer = Optimizer::new(&pair, sgd(0.5));
    let gradients = pair.clone();
    optimizer.update(&mut pair, &gradients);
    assert_eq!(pair, (Tensor::from([0.5_f32]), Tensor::from([1.0_f64])));
    let mut alone = Tensor::from([1.0_f32]);
    let mut optimizer = Optimizer::new(&alone, adam(0.5));
    let loss = |alone: &Tensor| mse(alone, &Tensor::from([0.0_f32]));
    let gradient = value_and_grad(loss)(&alone).1;
    optimizer.update(&mut alone, &gradient);
    assert!((alone.item::<f32>() - 0.5).abs() < 1e-5);
}

#[test]
fn optimizers_are_equal_if_their_states_are() {
    let mut model = mlp();
    let mut optimizer = Optimizer::new(&model, adam(0.1));
    let before = optimizer.clone();
    assert_eq!(optimizer, before);
    optimizer.update(&mut model, &gradients(&mlp()));
    assert_ne!(optimizer, before);
    assert_ne!(before, Optimizer::new(&model, adam(0.2)), "another rate");
    assert_ne!(before, Optimizer::new(&model, sgd(0.1)));
    let zeros = before
        .clone()
        .with_missing_gradients(MissingGradients::Zero);
    assert_ne!(before, zeros, "another setting");
}

#[test]
fn gradient_of_another_structure_is_named() {
    let mut model = Mlp::new(&[2, 1], Activation::Tanh, &mut Rngs::new(0));
    let mut optimizer = Optimizer::new(&model, sgd(0.1));
    let error = optimizer
        .try_update(&mut model, &gradients(&mlp()))
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "cannot update the model:\n  layers[1].weight received a gradient, but is not in the model\n  layers[1].bias received a gradient, but is not in the model\n\
         take the gradient of the model that is updated, and change its structure only after the update"
    );
}
