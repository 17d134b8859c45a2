//! Several processes write one checkpoint, and load it. Threads stand for processes.

use std::rc::Rc;
use std::sync::Barrier;

use pytree::checkpoint::{CheckpointFolder, Goal, SaveOptions};
use pytree::collectives::Communicator;
use pytree::device::{Mesh, device_put};
use pytree::prelude::*;

use crate::processes::threads::in_threads;
use crate::shards::mesh::Held;
use crate::shards::{Run, Scratch, assert_same_bits, divided, run};

fn on_mesh(all: &Rc<dyn Communicator>, axes: [usize; 2], state: &Run) -> Run {
    divided(state, &Mesh::new(all, [("i", axes[0]), ("j", axes[1])]))
}

#[test]
fn processes_write_and_load_their_parts() {
    let scratch = Scratch::new("processes");
    let saved = run(0);
    in_threads(4, |all| {
        checkpoint::save_sharded(&scratch, &on_mesh(all, [2, 2], &saved)).unwrap();
    });
    let files = scratch.files();
    assert_eq!(files.len(), 5, "{files:?}");
    assert!(
        files
            .iter()
            .any(|name| name.ends_with("-00004-of-00004.safetensors"))
    );
    // A tensor that is divided by four has a part in each file.
    for name in &files[..4] {
        let stored = checkpoint::tensors(scratch.0.join(name)).unwrap();
        let names = stored.keys();
        let parts = names.filter(|name| name.starts_with("[0].layers[0].weight["));
        assert_eq!(parts.count(), 1, "{name}");
    }
    assert_same_bits(&checkpoint::load(&scratch, &run(7)).unwrap(), &saved);
    // Each process reads its own parts, on another mesh.
    let template = run(7);
    in_threads(4, |all| {
        let loaded = checkpoint::load(&scratch, &on_mesh(all, [4, 1], &template)).unwrap();
        let expected = on_mesh(all, [4, 1], &saved);
        let leaves = graph::leaves::<Tensor, _>(&loaded);
        for (leaf, expected) in leaves
            .into_iter()
            .zip(graph::leaves::<Tensor, _>(&expected))
        {
            let ([found], [expected]) = (&leaf.shards()[..], &expected.shards()[..]) else {
                panic!("one shard");
            };
            assert_eq!(found.index(), expected.index());
            assert_same_bits(&found.read(), &expected.read());
        }
        assert_same_bits(&loaded, &saved);
    });
}

/// Tensors that all processes have as a whole are written once, and a run continues with other processes.
#[test]
fn fewer_processes_continue() {
    let scratch = Scratch::new("fewer");
    let saved = run(0);
    let folder = || CheckpointFolder::new(&scratch.0, Goal::Minimize).unwrap();
    in_threads(3, |all| {
        let mesh = Mesh::new(all, [("data", 3)]);
        // The optimizer is on the mesh, and the model is on the host.
        let (model, optimizer, position) = saved.clone();
        let state = (model, divided(&optimizer, &mesh), position);
        let saved = folder().save_sharded(5, &state, 0.5).unwrap();
        assert_eq!((saved.step, saved.metric), (5, Some(0.5)));
    });
    in_threads(2, |all| {
        let latest = folder().latest().unwrap().unwrap();
        let mesh = Mesh::new(all, [("data", 2)]);
        let loaded = checkpoint::load(&latest.path, &divided(&run(7), &mesh)).unwrap();
        assert_same_bits(&loaded, &saved);
    });
    let latest = folder().latest().unwrap().unwrap();
    assert_same_bits(&checkpoint::load(&latest.path, &run(7)).unwrap(), &saved);
}

/// If one process cannot write, no process has saved, and the earlier checkpoint is unchanged.
#[test]
fn failed_process_is_named() {
    let scratch = Scratch::new("failed");
    let before = run(0);
    checkpoint::save_sharded(&scratch, &before).unwrap();
    let files = scratch.files();
    let errors = in_threads(3, |all| {
        let options = match all.rank() {
            1 => SaveOptions::new().metadata("pytree.mine", "1"),
            _ => SaveOptions::new(),
        };
        let state = on_mesh(all, [3, 1], &run(1));
        let saved = checkpoint::save_sharded_with(&scratch, &state, &options);
        saved.unwrap_err().to_string()
    });
    assert!(
        errors[1].starts_with("cannot save the metadata `pytree.mine`"),
        "{}",
        errors[1]
    );
    for rank in [0, 2] {
        let expected = "the process of rank 1 could not write its part";
        assert!(errors[rank].contains(expected), "{}", errors[rank]);
    }
    assert_same_bits(&checkpoint::load(&scratch, &run(7)).unwrap(), &before);
    // The next save removes what the failed one has left.
    checkpoint::save_sharded(&scratch, &before).unwrap();
    assert_eq!(scratch.files().len(), files.len());
}

/// An error of the mesh is an error of the save.
#[test]
fn absent_process_is_an_error() {
    let scratch = Scratch::new("absent");
    let x = Rngs::new(0).normal(DType::F32, [8, 4]);
    let own = Mesh::new(&Held(0..1), [("i", 4)]);
    let state = device_put(&x, own.divided("i"));
    let error = checkpoint::save_sharded(&scratch, &state).unwrap_err();
    let error = error.to_string();
    assert!(error.contains("another process holds a part"), "{error}");
    assert!(!scratch.0.exists());
}

/// While programs save to one folder, another program always loads one of the states.
#[test]
fn concurrent_saves_and_loads() {
    let scratch = Scratch::new("concurrent");
    let states = [run(0).0, run(1).0, run(2).0];
    checkpoint::save_sharded(&scratch, &states[0]).unwrap();
    let barrier = Barrier::new(5);
    std::thread::scope(|scope| {
        for state in &states {
            let (scratch, barrier) = (&scratch, &barrier);
            scope.spawn(move || {
                barrier.wait();
                for _ in 0..20 {
                    checkpoint::save_sharded(scratch, state).unwrap();
                }
            });
        }
        for _ in 0..2 {
            scope.spawn(|| {
                barrier.wait();
                for _ in 0..60 {
                    let loaded = checkpoint::load(&scratch, &states[0]).unwrap();
                    assert!(states.contains(&loaded));
                }
            });
        }
    });
    checkpoint::save_sharded(&scratch, &states[1]).unwrap();
    assert_eq!(scratch.files().len(), 2, "{:?}", scratch.files());
}
