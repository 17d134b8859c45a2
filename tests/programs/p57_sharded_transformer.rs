//! A transformer block whose parameters and whose batch are divided among the devices of a mesh: XLA divides the work of the
//! training step.
//!
//! The program needs a PJRT plugin, so the test is skipped without one.

#![cfg(feature = "pjrt")]

use pytree::device::{Device, Mesh, ShardingRules, device_put, visualize_sharding};
use pytree::pjrt::{Client, Options};
use pytree::prelude::*;

type Block = TransformerBlock;
type Trained = (Block, Optimizer<Block>);
/// The new model and optimizer, the loss, and the gradient.
type Step = (Trained, Tensor, Partition<Block>);

/// One training step. Nothing in it mentions devices.
fn step(((mut model, mut optimizer), x, y): (Trained, Tensor, Tensor)) -> Step {
    let loss = |model: &Block| mse(&model.clone().forward(&x), &y);
    let (loss, gradient) = value_and_grad(loss)(&model);
    optimizer.update(&mut model, &gradient);
    ((model, optimizer), loss, gradient)
}

/// The heads, and the hidden units of the perceptron, are divided along `model`: `layers[0]` by columns and `layers[1]` by
/// rows, so one sum over `model` follows each of both parts (Shoeybi et al. 2019, section 3).
fn rules() -> ShardingRules {
    ShardingRules::new()
        .axis("heads", "model")
        .axis_where(Filter::path("mlp.layers[0]"), "out", "model")
        .axis_where(Filter::path("mlp.layers[1]"), "in", "model")
}

fn distance<A: pytree::transform::Traceable>(found: &A, expected: &A) -> f32 {
    let found = device_put(found, Device::HOST);
    let (found, expected) = (tree::leaves::<Tensor, A>(&found), tree::leaves(expected));
    assert_eq!(found.len(), expected.len());
    let pairs = found.iter().zip(&expected);
    let distances = pairs.map(|(found, expected)| {
        let distance = (*found - *expected).abs().max();
        distance.convert(DType::F32).item::<f32>()
    });
    distances.fold(0.0, f32::max)
}

#[test]
fn sharded_block_trains_like_whole_block() {
    let Some(plugin) = std::env::var_os("PYTREE_PJRT_PLUGIN") else {
        eprintln!("skipped: PYTREE_PJRT_PLUGIN is not set");
        return;
    };
    let client = Client::load_with(plugin, &Options::new().set("cpu_device_count", 4)).unwrap();
    let mesh = Mesh::new(&client, [("data", 2), ("model", 2)]);

    let block = Block::causal(16, 4, &mut Rngs::new(0));
    let x = Rngs::new(1).normal(DType::F32, [8, 5, 16]);
    let y = Rngs::new(2).normal(DType::F32, [8, 5, 16]);

    let model = device_put(&block, mesh.divided(rules()));
    let query = &model.attention.query.weight;
    assert_eq!(query.sharding().unwrap().spec(), (None, "model").into());
    let picture = visualize_sharding(&model.mlp.layers[0].weight);
    assert!(picture.contains("│   0,2   │   1,3   │"), "{picture}");
    // The moments of the optimizer are divided like the parameters.
    let optimizer = Optimizer::new(&model, adam(1e-2));
    let (divided_x, divided_y) = device_put(&(x.clone(), y.clone()), mesh.divided("data"));

    // What each device holds of a parameter and of its moments comes from the compiled program.
    let on_mesh = jit(step).on(&mesh);
    let mut on_mesh_state = (model, optimizer);
    let argument = (on_mesh_state.clone(), divided_x.clone(), divided_y.clone());
    let shardings = on_mesh.shardings(&argument);
    let divided = [
        "attention.query",
        "attention.key",
        "attention.value",
        "attention.out.weight",
        "mlp.layers[0]",
        "mlp.layers[1].weight",
    ];
    for leaf in &shardings.inputs {
        let elements = |shape: &[usize]| shape.iter().product::<usize>();
        let parts = elements(&leaf.info.shape) / elements(&leaf.part);
        let is_divided = divided.iter().any(|name| leaf.path.contains(name));
        let is_batch = leaf.path == "[1]" || leaf.path == "[2]";
        assert_eq!(
            parts,
            if is_divided || is_batch { 2 } else { 1 },
            "{}",
            leaf.path
        );
    }

    let on_host = jit(step);
    let mut on_host_state = (block.clone(), Optimizer::new(&block, adam(1e-2)));
    for _ in 0..5 {
        let (state, loss, gradient) =
            on_mesh((on_mesh_state, divided_x.clone(), divided_y.clone()));
        let (expected_state, expected_loss, expected_gradient) =
            on_host((on_host_state, x.clone(), y.clone()));
        let distance = distance(&(loss, gradient), &(expected_loss, expected_gradient));
        assert!(distance < 1e-5, "off by {distance}");
        (on_mesh_state, on_host_state) = (state, expected_state);
    }
    assert_eq!(on_mesh.traces(), 1);
    let moved = &on_mesh_state.0.attention.query.weight;
    assert_eq!(moved.sharding().unwrap().spec(), (None, "model").into());
}
