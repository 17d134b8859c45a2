//! A process that writes or reads its parts of a model on a mesh needs the memory of these parts and of one part more.

#![allow(
    clippy::pedantic,
    clippy::unwrap_used,
    unsafe_code,
    missing_docs,
    reason = "an allocator that counts hands everything on to the system's"
)]

mod counting;
#[path = "shards/mesh.rs"]
mod mesh;
#[path = "processes/threads.rs"]
mod threads;

use std::sync::Barrier;

use pytree::device::{Mesh, device_put};
use pytree::nn::{Initializer, LinearOptions};
use pytree::prelude::*;

use crate::counting::peak;
use crate::mesh::Held;
use crate::threads::in_threads;

/// One large layer and its moments, so that a gathered tensor would be a large share of the whole.
fn model() -> (Mlp, Optimizer<Mlp>) {
    let options = LinearOptions {
        weight_init: Initializer::Zeros,
        ..LinearOptions::default()
    };
    let rngs = &mut Rngs::new(0);
    let layers = [1024, 2048, 1024, 2048];
    let model = Mlp::with_options(&layers, Activation::Relu, options, rngs);
    let optimizer = Optimizer::new(&model, adam(1e-3));
    (model, optimizer)
}

/// Divides both axes of each tensor by the axes of a mesh, where the lengths fit.
fn divided(mesh: &Mesh) -> (Mlp, Optimizer<Mlp>) {
    graph::map(&model(), |x: &Tensor| {
        let axes = mesh.axes().zip(x.shape());
        let fits = axes.map(|((name, devices), length)| {
            let fits = length.is_multiple_of(devices);
            fits.then_some(name)
        });
        device_put(x, mesh.divided(fits.collect::<Vec<_>>()))
    })
}

/// All checks are in one test, because tests run at the same time and allocate from the same system.
#[test]
fn no_process_holds_the_model() {
    // The pool of freed memory has a limit of its own, and is no part of the measurement.
    pytree::memory::set_limit(0);
    let folder = std::env::temp_dir().join(format!("pytree-sharded-memory-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    let state = model();
    let leaves = graph::leaves::<Tensor, _>(&state);
    let size: usize = leaves.iter().map(|x| x.len() * 4).sum();
    drop(state);
    let share = |bytes: usize| bytes as f64 / size as f64;
    // The largest part.
    let part = share(1024 * 2048 * 4 / 4);

    // Four devices of one process: each part is copied to the host, and written.
    let state = divided(&Mesh::new(&Held(0..4), [("i", 2), ("j", 2)]));
    let (saved, most) = peak(|| checkpoint::save_sharded(&folder, &state));
    saved.unwrap();
    println!(
        "one process with four devices writes: {most} bytes beside the devices, {:.3} of the model of {size} bytes",
        share(most)
    );
    assert!(share(most) < 1.3 * part, "{}", share(most));
    drop(state);

    // Four processes, which write at the same time.
    let (before, after) = (Barrier::new(5), Barrier::new(5));
    let most = std::thread::scope(|scope| {
        let (folder, before, after) = (&folder, &before, &after);
        let processes = scope.spawn(move || {
            in_threads(4, |all| {
                let state = divided(&Mesh::new(all, [("i", 2), ("j", 2)]));
                before.wait();
                checkpoint::save_sharded(folder, &state).unwrap();
                after.wait();
            })
        });
        before.wait();
        let ((), most) = peak(|| {
            after.wait();
        });
        processes.join().unwrap();
        most
    });
    println!(
        "four processes write: {most} bytes beside their parts, {:.3} of the model in each process",
        share(most) / 4.0
    );
    assert!(share(most) / 4.0 < 1.3 * part, "{}", share(most));

    // One process after the other loads its part.
    for (rank, axes) in [(0, [2, 2]), (3, [4, 1]), (1, [1, 4]), (2, [1, 4])] {
        let own = Mesh::new(&Held(rank..rank + 1), [("i", axes[0]), ("j", axes[1])]);
        let template = divided(&own);
        let (loaded, most) = peak(|| checkpoint::load(&folder, &template).unwrap());
        println!(
            "process {rank} of {axes:?} reads: {most} bytes, {:.3} of the model, of which its parts are 0.250",
            share(most)
        );
        assert!(share(most) < 0.25 + 1.3 * part, "{}", share(most));
        assert!(share(most) > 0.25, "{}", share(most));
        drop(loaded);
    }
    std::fs::remove_dir_all(&folder).unwrap();
}
