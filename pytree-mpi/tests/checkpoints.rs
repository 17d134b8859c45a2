//! Processes write one checkpoint together, and other numbers of processes load it.
//!
//! The test starts itself again with `mpiexec`.

#![allow(
    clippy::unwrap_used,
    missing_docs,
    reason = "a test says what it checks in its name, and fails by panicking"
)]

mod launch;

use std::path::PathBuf;

use launch::{command, is_started, printed};
use pytree_core::graph;
use pytree_io::checkpoint::{self, CheckpointFolder, Goal};
use pytree_mpi::Processes;
use pytree_nn::{Activation, Mlp, Optimizer, Rngs, adam};
use pytree_transform::Tensor;
use pytree_transform::device::{Mesh, device_put};

/// The variables that tell a started process where the checkpoints are, and whether it saves.
const FOLDER: &str = "PYTREE_MPI_FOLDER";
const SAVES: &str = "PYTREE_MPI_SAVES";

type State = (Mlp, Optimizer<Mlp>, Tensor);

fn state(seed: u64) -> State {
    let model = Mlp::new(&[12, 24, 12], Activation::Relu, &mut Rngs::new(seed));
    let moments = Optimizer::new(&model, adam(1e-2));
    (model, moments, Tensor::from(seed.cast_signed()))
}

/// Divides the axes of each tensor by the axes of a mesh, where the lengths fit.
fn divided(value: &State, mesh: &Mesh) -> State {
    graph::map(value, |x: &Tensor| {
        let axes = mesh.axes().zip(x.shape());
        let fits = axes.map(|((name, devices), length)| {
            let fits = length.is_multiple_of(devices);
            fits.then_some(name)
        });
        device_put(x, mesh.divided(fits.collect::<Vec<_>>()))
    })
}

/// Checks that each process has its parts of the saved state.
fn check(found: &State, mesh: &Mesh) {
    let expected = divided(&state(5), mesh);
    let leaves = graph::leaves::<Tensor, _>(found).into_iter();
    for (found, expected) in leaves.zip(graph::leaves::<Tensor, _>(&expected)) {
        let (found, expected) = (&found.shards()[0], &expected.shards()[0]);
        assert_eq!(found.index(), expected.index());
        assert_eq!(found.read(), expected.read());
    }
}

const TEST: &str = "processes_save_together_and_others_load";

#[test]
fn processes_save_together_and_others_load() {
    if is_started(TEST) {
        let folder = CheckpointFolder::new(std::env::var(FOLDER).unwrap(), Goal::Minimize).unwrap();
        let processes = Processes::start().unwrap();
        let axes = match processes.size() {
            4 => [("data", 2), ("model", 2)],
            size => [("data", 1), ("model", size)],
        };
        let mesh = Mesh::new(&processes, axes);
        if std::env::var(SAVES).is_ok() {
            for step in 1..=5 {
                let own = divided(&state(step), &mesh);
                let step = usize::try_from(step).unwrap();
                folder.save_sharded(step, &own, None).unwrap();
            }
        }
        let latest = folder.latest().unwrap().unwrap();
        assert_eq!(latest.step, 5);
        let loaded = checkpoint::load(&latest.path, &divided(&state(0), &mesh)).unwrap();
        check(&loaded, &mesh);
        println!("rank {} is done", processes.rank());
        return;
    }
    let name = format!("pytree-mpi-checkpoints-{}", std::process::id());
    let folder: PathBuf = std::env::temp_dir().join(name);
    for (count, saves) in [(4, true), (3, false), (2, false), (1, false)] {
        let mut command = command(count, TEST);
        command.env(FOLDER, &folder);
        if saves {
            command.env(SAVES, "1");
        }
        let output = command.output().unwrap();
        let text = printed(&output);
        assert!(output.status.success(), "{count} processes:\n{text}");
        for rank in 0..count {
            assert!(text.contains(&format!("rank {rank} is done")), "{text}");
        }
    }
    let folder = CheckpointFolder::new(folder, Goal::Minimize).unwrap();
    let steps: Vec<usize> = folder
        .list()
        .unwrap()
        .iter()
        .map(|saved| saved.step)
        .collect();
    assert_eq!(steps, [3, 4, 5]);
    let latest = folder.latest().unwrap().unwrap();
    // Four files, each with a part of the model, and the index.
    assert_eq!(std::fs::read_dir(&latest.path).unwrap().count(), 5);
    assert_eq!(
        checkpoint::load(&latest.path, &state(0)).unwrap().0,
        state(5).0
    );
    std::fs::remove_dir_all(folder.path()).unwrap();
}
