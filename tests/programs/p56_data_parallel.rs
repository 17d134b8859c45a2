//! Training on the devices of a mesh: each device computes the gradient of its part of the batch.
//!
//! The program needs a PJRT plugin, so the test is skipped without one.

#![cfg(feature = "pjrt")]

use pytree::collectives::pmean;
use pytree::device::Mesh;
use pytree::pjrt::{Client, Options};
use pytree::prelude::*;
use pytree::spmd;

type Step = (Mlp, Optimizer<Mlp>, Tensor, Tensor);

/// One step on one device. The devices of `data` have different examples and the same model.
fn step((mut model, mut optimizer, x, y): Step) -> ((Mlp, Optimizer<Mlp>), Tensor) {
    let loss = |model: &Mlp| mse(&model.forward(&x), &y);
    let (loss, gradient) = value_and_grad(loss)(&model);
    let (loss, gradient) = pmean(&(loss, gradient), "data");
    optimizer.update(&mut model, &gradient);
    ((model, optimizer), loss)
}

#[test]
fn devices_train_like_one() {
    let Some(plugin) = std::env::var_os("PYTREE_PJRT_PLUGIN") else {
        eprintln!("skipped: PYTREE_PJRT_PLUGIN is not set");
        return;
    };
    let client = Client::load_with(plugin, &Options::new().set("cpu_device_count", 4)).unwrap();
    let mesh = Mesh::new(&client, [("data", 4)]);

    let model = Mlp::new(&[2, 16, 1], Activation::Tanh, &mut Rngs::new(0));
    let optimizer = Optimizer::new(&model, adam(1e-2));
    let x = Rngs::new(1).normal(DType::F32, [32, 2]);
    let y = x.square().sum_keep([-1]);

    // The model is on all devices, and each device has a quarter of the batch.
    let parallel = spmd(step).over(&mesh).in_axes("data", (None, None, 0, 0));
    // The same program on the host: a `vmap` over four parts of the batch.
    let parts = |x: &Tensor| x.reshape([4, 8, x.shape()[1]]);
    let batched = jit(vmap(step)
        .axis_name("data")
        .in_axes((None, None, 0, 0))
        .out_axes((None, None)));

    let mut on_mesh = (model.clone(), optimizer.clone());
    let mut on_host = (model, optimizer);
    for _ in 0..20 {
        let (next, loss) = parallel((on_mesh.0, on_mesh.1, x.clone(), y.clone()));
        on_mesh = next;
        let (next, expected) = batched((on_host.0, on_host.1, parts(&x), parts(&y)));
        on_host = next;
        let distance = (loss.item::<f32>() - expected.item::<f32>()).abs();
        assert!(distance < 1e-5, "off by {distance}");
    }
    assert_eq!(parallel.traces(), 1);
}
