//! Training on a device: the losses of the host, without growing memory.

use pytree_core::graph;
use pytree_io::checkpoint;
use pytree_nn::{Activation, Key, Mlp, Optimizer, Rngs, adam, softmax_cross_entropy};
use pytree_transform::device::{device_put, with_device};
use pytree_transform::{DType, Jit, Tensor, jit, value_and_grad};

use crate::tensors::device;

type State = (Mlp, Optimizer<Mlp>);
type Step = Jit<(Mlp, Optimizer<Mlp>, Tensor, Tensor), (State, Tensor)>;

fn train_step(
    (mut model, mut optimizer, x, y): (Mlp, Optimizer<Mlp>, Tensor, Tensor),
) -> (State, Tensor) {
    let loss = |model: &Mlp| softmax_cross_entropy(&model.forward(&x), &y).mean();
    let (loss, gradient) = value_and_grad(loss)(&model);
    optimizer.update(&mut model, &gradient);
    ((model, optimizer), loss)
}

fn start(sizes: &[usize]) -> State {
    let model = Mlp::new(sizes, Activation::Relu, &mut Rngs::new(0));
    let optimizer = Optimizer::new(&model, adam(1e-3));
    (model, optimizer)
}

fn batch(count: usize, width: usize) -> (Tensor, Tensor) {
    let x = Key::new(1).normal(DType::F32, [count, width]);
    let labels: Vec<i32> = (0..count)
        .map(|at| i32::try_from(at * 7 % 10).unwrap())
        .collect();
    (x, Tensor::from(labels))
}

fn continued(
    mut state: State,
    (x, y): &(Tensor, Tensor),
    step: &Step,
    count: usize,
) -> (State, Vec<Tensor>) {
    let mut losses = Vec::new();
    for _ in 0..count {
        let loss;
        (state, loss) = step((state.0, state.1, x.clone(), y.clone()));
        losses.push(loss);
    }
    (state, losses)
}

fn assert_same_losses(found: &[Tensor], expected: &[Tensor]) {
    assert_eq!(found.len(), expected.len());
    for (step, (found, expected)) in found.iter().zip(expected).enumerate() {
        let (found, expected) = (found.item::<f32>(), expected.item::<f32>());
        assert!(
            (found / expected - 1.0).abs() < 1e-4,
            "step {step}: found {found}, expected {expected}"
        );
    }
}

#[test]
fn losses_are_those_of_the_host() {
    let Some(device) = device() else { return };
    let sizes = [64, 128, 128, 10];
    let data = batch(64, 64);
    let (_, expected) = continued(start(&sizes), &data, &jit(train_step), 20);
    let (_, found) = continued(start(&sizes), &data, &jit(train_step).on(&device), 20);
    assert_same_losses(&found, &expected);
    let (_, found) = with_device(&device, || {
        continued(start(&sizes), &batch(64, 64), &jit(train_step), 20)
    });
    assert_same_losses(&found, &expected);
    assert_eq!(found[19].device(), &device);
    assert!(found[19].item::<f32>() < 0.8 * found[0].item::<f32>());
}

#[test]
fn optimizer_runs_without_jit() {
    let Some(device) = device() else { return };
    let sizes = [8, 16, 10];
    let data = batch(4, 8);
    let plain = |mut state: State, (x, y): (Tensor, Tensor)| -> Vec<Tensor> {
        let step = |_| {
            let loss = |model: &Mlp| softmax_cross_entropy(&model.forward(&x), &y).mean();
            let (loss, gradient) = value_and_grad(loss)(&state.0);
            state.1.update(&mut state.0, &gradient);
            loss
        };
        (0..3).map(step).collect()
    };
    let expected = plain(start(&sizes), data.clone());
    let found = plain(device_put(&start(&sizes), &device), data);
    assert_eq!(found[2].device(), &device);
    assert_same_losses(&found, &expected);
}

#[test]
fn checkpoint_of_a_device_is_loaded() {
    let Some(device) = device() else { return };
    let (model, _) = start(&[8, 16, 10]);
    let there = device_put(&model, &device);
    let path = std::env::temp_dir().join(format!("pytree-pjrt-{}.safetensors", std::process::id()));
    checkpoint::save(&path, &there).unwrap();
    let loaded = checkpoint::load(&path, &there).unwrap();
    std::fs::remove_file(&path).unwrap();
    for (found, expected) in graph::leaves::<Tensor, _>(&loaded)
        .into_iter()
        .zip(graph::leaves::<Tensor, _>(&model))
    {
        assert_eq!(found, expected);
    }
}
