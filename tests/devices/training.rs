//! A training loop on a device: no transfers between steps, and the bits of the host.

use pytree::device::{device_put, with_device};
use pytree::nn::summary;
use pytree::prelude::*;
use pytree::transform::Jit;

use crate::devices::mock::{Mock, Work};

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

fn start() -> State {
    let model = Mlp::new(&[64, 32, 10], Activation::Relu, &mut Rngs::new(0));
    let optimizer = Optimizer::new(&model, adam(1e-2));
    (model, optimizer)
}

fn batch() -> (Tensor, Tensor) {
    let x = Key::new(1).normal(DType::F32, [16, 64]);
    let labels: Vec<i32> = (0..16).map(|at| at * 7 % 10).collect();
    (x, Tensor::from(labels))
}

fn bits(model: &Mlp) -> Vec<u32> {
    let leaves = graph::leaves::<Tensor, _>(model).into_iter();
    leaves
        .flat_map(|leaf| leaf.to_vec::<f32>())
        .map(f32::to_bits)
        .collect()
}

/// Trains for 20 steps, and returns the model and the losses.
fn trained(state: State, batch: (Tensor, Tensor)) -> (Mlp, Vec<Tensor>) {
    let (step, mut losses) = (jit(train_step), Vec::new());
    let (model, _) = continued(state, batch, &step, &mut losses, 20);
    (model, losses)
}

fn continued(
    (mut model, mut optimizer): State,
    (x, y): (Tensor, Tensor),
    step: &Step,
    losses: &mut Vec<Tensor>,
    count: usize,
) -> State {
    for _ in 0..count {
        let loss;
        ((model, optimizer), loss) = step((model, optimizer, x.clone(), y.clone()));
        losses.push(loss);
    }
    (model, optimizer)
}

#[test]
fn training_on_a_device_has_the_host_bits() {
    let mock = Mock::new("mock:0");
    let (expected, expected_losses) = trained(start(), batch());
    let (state, batch) = (device_put(&start(), &mock), device_put(&batch(), &mock));
    mock.work();
    let (step, mut losses) = (jit(train_step), Vec::new());
    let state = continued(state, batch.clone(), &step, &mut losses, 1);
    assert_eq!(mock.work().compiles, 1);
    let (model, _) = continued(state, batch, &step, &mut losses, 19);
    // Every leaf but the learning rate, which is returned unchanged.
    let leaves = graph::leaves::<Tensor, _>(&start()).len() - 1;
    let work = Work {
        runs: 19,
        donated: 19 * leaves,
        ..Work::default()
    };
    assert_eq!(
        mock.work(),
        work,
        "no transfer, and the state is updated in place"
    );
    assert_eq!(bits(&model), bits(&expected));
    assert_eq!(losses, expected_losses);
    assert!(losses[19].item::<f32>() < losses[0].item::<f32>());
}

#[test]
fn whole_program_runs_on_a_device() {
    let mock = Mock::new("mock:0");
    let (expected, _) = trained(start(), batch());
    let (model, losses) = with_device(&mock, || trained(start(), batch()));
    for tensor in graph::leaves::<Tensor, _>(&model)
        .into_iter()
        .chain(&losses)
    {
        assert_eq!(tensor.device(), &mock.device);
    }
    assert_eq!(bits(&model), bits(&expected));
}

#[test]
fn summary_and_structure_transfer_nothing() {
    let mock = Mock::new("mock:0");
    let (model, _) = device_put(&start(), &mock);
    mock.work();
    assert!(summary(&model).to_string().contains("f32[in=64,out=32]"));
    let params = partition::filter(&model, &Filter::param());
    assert_eq!(params.leaves().len(), 4);
    assert_eq!(graph::flatten::<Tensor, _>(&model).0.len(), 4);
    assert_eq!(mock.work(), Work::default());
}

#[test]
fn optimizer_runs_without_jit() {
    let mock = Mock::new("mock:0");
    let (mut expected, mut model) = (start(), device_put(&start(), &mock));
    for (model, optimizer) in [&mut expected, &mut model] {
        let gradient = partition::filter(model, &Filter::param());
        optimizer.update(model, &gradient);
    }
    assert_eq!(bits(&model.0), bits(&expected.0));
    let first = graph::leaves::<Tensor, _>(&model.0)[0];
    assert_eq!(first.device(), &mock.device);
}

#[test]
fn checkpoint_of_a_device_is_that_of_the_host() {
    let mock = Mock::new("mock:0");
    let (model, _) = start();
    let moved = device_put(&model, &mock);
    let folder = std::env::temp_dir().join(format!("pytree-devices-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("model.safetensors");
    checkpoint::save(&path, &moved).unwrap();
    let loaded = checkpoint::load(&path, &moved).unwrap();
    assert_eq!(bits(&loaded), bits(&model));
    std::fs::remove_dir_all(&folder).unwrap();
    assert!(diff(&moved, &model).is_empty());
}
