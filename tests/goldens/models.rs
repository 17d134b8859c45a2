//! Models of structs: tied weights under `jit(vmap(grad))`, and an MLP's loss and gradient.

use pytree::PytreeOf;
use pytree::prelude::*;
use pytree::transform::{Jit, Traceable};

use crate::goldens::files::{read, tensor};
use crate::goldens::tolerance::assert_close;
use crate::stablehlo::device::device;
use crate::stablehlo::record::{assert_same, is_recording, record_replicas};

/// Records a call of a compiled function of models, and repeats it on the device.
pub fn record_call<A, R>(what: &str, compiled: &Jit<A, R>, argument: &A)
where
    A: Traceable + Clone,
    R: PytreeOf<Tensor> + 'static,
{
    if !is_recording() && device().is_none() {
        return;
    }
    let call = |compiled: &Jit<A, R>| graph::flatten::<Tensor, R>(&compiled(argument.clone())).0;
    let results = call(compiled);
    if let Some(device) = device() {
        let names = (0..results.len()).map(|place| format!("{what}, result {place}"));
        let found = call(&compiled.clone().on(&device));
        assert_same(&names.collect::<Vec<_>>(), &found, &results);
    }
    if is_recording() {
        let (inputs, _) = graph::flatten::<Tensor, A>(argument);
        record_replicas(what, &compiled.stablehlo(argument), &[inputs], &[results]);
    }
}

#[derive(Module, Clone, Debug)]
struct Tied {
    #[param]
    embed: Shared<Tensor>,
    #[param]
    head: Shared<Tensor>,
}

fn tied_loss(model: &Tied, token: &Tensor, target: &Tensor) -> Tensor {
    let logits = model.embed.take(token, 0).tanh().matmul(&model.head.t());
    softmax_cross_entropy(&logits, target)
}

#[test]
fn nested_transformations_of_tied_model_match_jax() {
    let file = read("transforms.json");
    for case in file["tied"].as_array().unwrap() {
        let table = Shared::new(tensor(&case["embed"]));
        let model = Tied {
            embed: table.clone(),
            head: table,
        };
        let per_example = jit(|(model, tokens, targets): (Tied, Tensor, Tensor)| {
            vmap(|(token, target): (Tensor, Tensor)| {
                value_and_grad(|model: &Tied| tied_loss(model, &token, &target))(&model)
            })((tokens, targets))
        });
        let argument = (model, tensor(&case["indices"]), tensor(&case["targets"]));
        record_call("tied model", &per_example, &argument);
        let (values, gradients) = per_example(argument);
        assert_eq!(gradients.len(), 1, "the shared table has one gradient");
        assert_close("tied values", &values, &tensor(&case["value"]));
        assert_close(
            "tied gradients",
            &gradients["embed"],
            &tensor(&case["gradient"]),
        );
    }
}

#[derive(Module, Clone, Debug)]
struct TwoLayers {
    #[param]
    w1: Tensor,
    #[param]
    b1: Tensor,
    #[param]
    w2: Tensor,
    #[param]
    b2: Tensor,
    #[r#static]
    activation: fn(&Tensor) -> Tensor,
}

#[test]
fn mlp_loss_and_gradient_match_jax() {
    let file = read("transforms.json");
    let cases = file["mlp"].as_array().unwrap();
    assert!(!cases.is_empty());
    for case in cases {
        let parameter = |name: &str| tensor(&case["params"][name]);
        let activation = if case["activation"] == "relu" {
            Tensor::relu
        } else {
            Tensor::tanh
        };
        let model = TwoLayers {
            w1: parameter("w1"),
            b1: parameter("b1"),
            w2: parameter("w2"),
            b2: parameter("b2"),
            activation,
        };
        let step = jit(|(model, x, labels): (TwoLayers, Tensor, Tensor)| {
            value_and_grad(|m: &TwoLayers| {
                let hidden = (m.activation)(&(x.matmul(&m.w1) + &m.b1));
                softmax_cross_entropy(&(hidden.matmul(&m.w2) + &m.b2), &labels).mean()
            })(&model)
        });
        let argument = (model, tensor(&case["x"]), tensor(&case["labels"]));
        record_call("mlp", &step, &argument);
        let (value, gradient) = step(argument);
        assert_close("loss", &value, &tensor(&case["value"]));
        for name in ["w1", "b1", "w2", "b2"] {
            assert_close(name, &gradient[name], &tensor(&case["gradient"][name]));
        }
    }
}
