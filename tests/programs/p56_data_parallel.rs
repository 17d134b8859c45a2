//! Training on the devices of a mesh: each device computes the gradient of its part of the batch.
//!
//! The same program runs on the host alone, on the devices of a PJRT plugin, and in processes of MPI.

use pytree::collectives::pmean;
use pytree::device::{Device, Mesh};
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

/// Trains on the devices of a mesh, and compares the losses with those of the host.
fn train_over(mesh: &Mesh) {
    let model = Mlp::new(&[2, 16, 1], Activation::Tanh, &mut Rngs::new(0));
    let optimizer = Optimizer::new(&model, adam(1e-2));
    let x = Rngs::new(1).normal(DType::F32, [32, 2]);
    let y = x.square().sum_keep([-1]);

    // The model is on all devices, and each device has a part of the batch.
    let parallel = spmd(step).over(mesh).in_axes("data", (None, None, 0, 0));
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

#[test]
fn host_alone_trains_like_four_devices() {
    train_over(&Mesh::new(&Device::HOST, [("data", 1)]));
}

#[cfg(feature = "pjrt")]
#[test]
fn devices_train_like_one() {
    use pytree::pjrt::{Client, Options};

    let Some(plugin) = std::env::var_os("PYTREE_PJRT_PLUGIN") else {
        eprintln!("skipped: PYTREE_PJRT_PLUGIN is not set");
        return;
    };
    let client = Client::load_with(plugin, &Options::new().set("cpu_device_count", 4)).unwrap();
    train_over(&Mesh::new(&client, [("data", 4)]));
}

/// Starts itself again with `mpiexec`.
#[cfg(feature = "mpi")]
#[test]
fn processes_train_like_one() {
    use pytree::mpi::Processes;
    use std::process::Command;

    if std::env::var_os("PYTREE_P56").is_some() {
        let processes = Processes::start().unwrap();
        train_over(&Mesh::new(&processes, [("data", processes.size())]));
        return;
    }
    for count in ["2", "4"] {
        let program = std::env::current_exe().unwrap();
        let test = "programs::p56_data_parallel::processes_train_like_one";
        let run = Command::new("mpiexec")
            .args(["--oversubscribe", "--allow-run-as-root", "-n", count])
            .arg(program)
            .args(["--exact", test, "--test-threads=1"])
            .env("PYTREE_P56", "1")
            .env("PYTREE_NUM_THREADS", "1")
            .output()
            .unwrap();
        let printed = String::from_utf8_lossy(&run.stdout).into_owned();
        assert!(run.status.success(), "{printed}");
        let passed = printed.matches("1 passed").count().to_string();
        assert_eq!(passed, count, "{printed}");
    }
}
