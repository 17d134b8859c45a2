//! Checkpoints by shards of a model that the devices of a plugin train.

use pytree_core::graph;
use pytree_io::checkpoint;
use pytree_io::data::{Batches, Position};
use pytree_nn::{Activation, Key, Mlp, Optimizer, Rngs, adam, mse};
use pytree_transform::device::{Device, Mesh, device_put};
use pytree_transform::{DType, Tensor, Traceable, pmean, spmd, value_and_grad};

use crate::mesh::mesh;

/// A training run: the model, its optimizer, and the position in the data.
type Run = (Mlp, Optimizer<Mlp>, Position);

/// Divides the axes of each tensor by the axes of a mesh, where the lengths fit.
fn divided<T: Traceable>(value: &T, mesh: &Mesh) -> T {
    graph::map(value, |x: &Tensor| {
        let axes = mesh.axes().zip(x.shape());
        let fits = axes.map(|((name, devices), length)| {
            let fits = length.is_multiple_of(devices);
            fits.then_some(name)
        });
        device_put(x, mesh.divided(fits.collect::<Vec<_>>()))
    })
}

/// Returns the bits of all leaves.
fn bits<T: Traceable>(value: &T) -> Vec<Vec<u64>> {
    let leaves = graph::leaves::<Tensor, T>(value);
    let bits = |leaf: &Tensor| match leaf.dtype() {
        DType::F32 => leaf
            .to_vec::<f32>()
            .iter()
            .map(|x| x.to_bits().into())
            .collect(),
        _ => leaf
            .to_host()
            .convert(DType::I64)
            .to_vec::<i64>()
            .iter()
            .map(|x| x.cast_unsigned())
            .collect(),
    };
    leaves.into_iter().map(bits).collect()
}

/// Trains for two steps. The devices of `data` have different examples.
fn trained(mesh: &Mesh, (mut model, mut optimizer, _): Run) -> Run {
    let x = Rngs::new(1).normal(DType::F32, [8, 8]);
    let y = Rngs::new(2).normal(DType::F32, [8, 4]);
    let step = |(mut model, mut optimizer, x, y): (Mlp, Optimizer<Mlp>, Tensor, Tensor)| {
        let loss = |model: &Mlp| mse(&model.forward(&x), &y);
        let (_, gradient) = pmean(&value_and_grad(loss)(&model), "data");
        optimizer.update(&mut model, &gradient);
        (model, optimizer)
    };
    let step = spmd(step).over(mesh).in_axes("data", (None, None, 0, 0));
    let batches = Batches::new((x.clone(), y.clone()), 2).shuffle(&Key::new(3));
    let mut position = batches.start();
    for (next, _) in batches.resume(&batches.start()).take(2) {
        (model, optimizer) = step((model, optimizer, x.clone(), y.clone()));
        position = next;
    }
    (model, optimizer, position)
}

fn fresh(seed: u64) -> Run {
    let model = Mlp::new(&[8, 12, 4], Activation::Tanh, &mut Rngs::new(seed));
    let optimizer = Optimizer::new(&model, adam(1e-2));
    let data = (
        Tensor::zeros(DType::F32, [8]),
        Tensor::zeros(DType::F32, [8]),
    );
    let batches = Batches::new(data, 2).shuffle(&Key::new(seed));
    (model, optimizer, batches.start())
}

#[test]
fn square_mesh_loads_on_other_meshes_and_one_device() {
    let Some(square) = mesh([("data", 2), ("model", 2)]) else {
        return;
    };
    let folder = std::env::temp_dir().join(format!("pytree-pjrt-shards-{}", std::process::id()));
    let run = trained(&square, fresh(0));
    let saved = divided(&run, &square);
    checkpoint::save_sharded(&folder, &saved).unwrap();
    let expected = bits(&run);
    let template = fresh(7);
    for axes in [[1, 4], [4, 1], [2, 2]] {
        let mesh = mesh([("data", axes[0]), ("model", axes[1])]).unwrap();
        let template = divided(&template, &mesh);
        let loaded = checkpoint::load(&folder, &template).unwrap();
        let (weight, expected_weight) = (&loaded.0.layers[0].weight, &template.0.layers[0].weight);
        assert_eq!(weight.device(), mesh.device());
        assert_eq!(weight.sharding(), expected_weight.sharding());
        assert_eq!(bits(&loaded), expected, "{axes:?}");
    }
    let client = crate::mesh::client().unwrap();
    for device in [Device::from(client), Device::HOST] {
        let loaded = checkpoint::load(&folder, &device_put(&template, &device)).unwrap();
        assert_eq!(loaded.0.layers[0].weight.device(), &device);
        assert_eq!(bits(&loaded), expected, "{device}");
    }
    // The loaded run continues as the saved one.
    let loaded = checkpoint::load(&folder, &device_put(&template, &square)).unwrap();
    let (left, right) = (trained(&square, loaded), trained(&square, run));
    assert_eq!(bits(&left), bits(&right));
    std::fs::remove_dir_all(folder).unwrap();
}
