//! The first program of a newcomer: a model made on the host, trained on a device, saved, and loaded on the host.

use pytree::checkpoint;
use pytree::device::{device_put, wait};
use pytree::prelude::*;

use crate::devices::mock::Mock;

fn model() -> Mlp {
    Mlp::new(&[4, 8, 3], Activation::Relu, &mut Rngs::new(0))
}

fn batch() -> (Tensor, Tensor) {
    let x = Key::new(1).normal(DType::F32, [6, 4]);
    (x, Tensor::from([0, 1, 2, 0, 1, 2]))
}

fn trained(mut model: Mlp, (x, y): &(Tensor, Tensor)) -> (Mlp, Tensor) {
    let mut optimizer = Optimizer::new(&model, adam(1e-2));
    let step = jit_mut(
        |(model, optimizer, x, y): &mut (Mlp, Optimizer<Mlp>, Tensor, Tensor)| {
            let loss = |model: &Mlp| softmax_cross_entropy(&model.forward(x), y).mean();
            let (loss, gradient) = value_and_grad(loss)(model);
            optimizer.update(model, &gradient);
            loss
        },
    );
    let mut loss = Tensor::from(0.0_f32);
    for _ in 0..20 {
        let mut state = (model, optimizer, x.clone(), y.clone());
        loss = step(&mut state);
        (model, optimizer) = (state.0, state.1);
    }
    (model, loss)
}

#[test]
fn model_is_trained_saved_and_loaded_on_the_host() {
    let mock = Mock::new("mock:0");
    let (expected, expected_loss) = trained(model(), &batch());
    let there = device_put(&model(), &mock);
    let (found, loss) = trained(there, &batch());
    wait(&found);
    assert_eq!((loss.device(), &loss), (&mock.device, &expected_loss));
    let path = std::env::temp_dir().join(format!(
        "pytree-newcomer-{}.safetensors",
        std::process::id()
    ));
    checkpoint::save(&path, &found).unwrap();
    // The model that gives the structure may be on the host, and then the loaded model is there, too.
    let loaded = checkpoint::load(&path, &model()).unwrap();
    std::fs::remove_file(&path).unwrap();
    let leaves = graph::leaves::<Tensor, _>;
    for (found, expected) in leaves(&loaded).into_iter().zip(leaves(&expected)) {
        assert!(found.device().is_host());
        assert_eq!(found, expected);
    }
    let (x, _) = batch();
    assert_eq!(loaded.forward(&x), expected.forward(&x));
}

#[test]
fn everything_that_reads_works_on_a_device() {
    let mock = Mock::new("mock:0");
    let host = Tensor::from([[1.0_f32, 2.0], [3.0, 4.0]]);
    let there = || device_put(&host, &mock);
    assert_eq!(there().to_string(), host.to_string());
    assert_eq!(format!("{:?}", there()), format!("{host:?}"));
    assert_eq!(there().to_vec::<f32>(), host.to_vec::<f32>());
    assert_eq!(there().index(ix![1, 0]).item::<f32>(), 3.0);
    assert!(there() == host && host == there() && there() == there());
    assert!(there() != &host + 1.0);
    assert_eq!(graph::leaves::<Tensor, _>(&there()), [&host]);
    let (model, moved) = (model(), device_put(&model(), &mock));
    assert_eq!(format!("{model:?}"), format!("{moved:?}"));
}

#[test]
fn transformations_without_jit_stay_on_the_device() {
    let mock = Mock::new("mock:0");
    let (x, y) = batch();
    let (there, labels) = (device_put(&x, &mock), device_put(&y, &mock));
    let loss =
        |model: &Mlp, x: &Tensor, y: &Tensor| softmax_cross_entropy(&model.forward(x), y).mean();
    let expected = grad(|model: &Mlp| loss(model, &x, &y))(&model());
    let moved = device_put(&model(), &mock);
    let found = grad(|model: &Mlp| loss(model, &there, &labels))(&moved);
    let leaves = graph::leaves::<Tensor, _>(&found).into_iter();
    for (found, expected) in leaves.zip(graph::leaves::<Tensor, _>(&expected)) {
        assert_eq!((found.device(), found), (&mock.device, expected));
    }
    let rows = vmap(|row: Tensor| grad(|row: &Tensor| (row.sin() * row).sum())(&row));
    let found = rows(there);
    assert_eq!((found.device(), &found), (&mock.device, &rows(x)));
}
