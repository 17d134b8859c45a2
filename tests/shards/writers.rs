//! Several processes write one checkpoint, and load it. Threads stand for processes.

use std::sync::Barrier;

use pytree::checkpoint::{CheckpointFolder, SaveOptions, Writers};
use pytree::device::Mesh;
use pytree::prelude::*;

use crate::mesh::Held;
use crate::threads::in_threads;
use crate::{Scratch, assert_same_bits, divided, mesh, run};

/// Returns the mesh of a process that holds one of four devices.
fn own_mesh(rank: usize, axes: [usize; 2]) -> Mesh {
    Mesh::new(&Held(rank..rank + 1), [("i", axes[0]), ("j", axes[1])])
}

#[test]
fn processes_write_and_load_their_parts() {
    let scratch = Scratch::new("processes");
    let saved = run(0);
    in_threads(4, |rank| {
        let state = divided(&saved, &own_mesh(rank, [2, 2]));
        let options = SaveOptions::new();
        checkpoint::save_sharded_with(&scratch, &state, &options, &Writers::along("data")).unwrap();
    });
    let files = scratch.files();
    assert_eq!(files.len(), 5, "{files:?}");
    assert!(
        files
            .iter()
            .any(|name| name.ends_with("-00004-of-00004.safetensors"))
    );
    // A tensor that is divided by four has a part in each file.
    let sizes: Vec<u64> = files[..4]
        .iter()
        .map(|name| std::fs::metadata(scratch.0.join(name)).unwrap().len())
        .collect();
    assert!(sizes.iter().all(|&size| size > 1000), "{sizes:?}");
    assert_same_bits(&checkpoint::load(&scratch, &run(7)).unwrap(), &saved);
    // Each process reads its own parts, on another mesh.
    let template = run(7);
    in_threads(4, |rank| {
        let own = own_mesh(rank, [4, 1]);
        let loaded = checkpoint::load(&scratch, &divided(&template, &own)).unwrap();
        let expected = divided(&saved, &own);
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
    });
}

/// Processes that hold the whole model each write it once.
#[test]
fn whole_models_are_written_by_rank_0() {
    let scratch = Scratch::new("replicas");
    let saved = run(0);
    in_threads(3, |_| {
        let state = divided(&saved, &mesh([("i", 2)]));
        let folder = CheckpointFolder::new(&scratch.0).unwrap();
        let saved = folder
            .save_sharded(5, &state, 0.5, &Writers::along("data"))
            .unwrap();
        assert_eq!((saved.step, saved.metric), (5, Some(0.5)));
    });
    let folder = CheckpointFolder::new(&scratch.0).unwrap();
    let latest = folder.latest().unwrap().unwrap();
    assert_same_bits(&checkpoint::load(&latest.path, &run(7)).unwrap(), &saved);
}

/// If one process cannot write, no process has saved, and the earlier checkpoint is unchanged.
#[test]
fn failed_process_is_named() {
    let scratch = Scratch::new("failed");
    let before = run(0);
    checkpoint::save_sharded(&scratch, &before).unwrap();
    let files = scratch.files();
    let errors = in_threads(3, |rank| {
        let options = match rank {
            1 => SaveOptions::new().metadata("pytree.mine", "1"),
            _ => SaveOptions::new(),
        };
        let saved =
            checkpoint::save_sharded_with(&scratch, &run(1), &options, &Writers::along("data"));
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

/// A part that no process writes is found before the index is written.
#[test]
fn absent_process_is_found() {
    let scratch = Scratch::new("absent");
    let x = Rngs::new(0).normal(DType::F32, [8, 4]);
    let own = own_mesh(0, [4, 1]);
    let state = own.put(&x, &own.sharding([("i", 0)]));
    let error = checkpoint::save_sharded(&scratch, &state)
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("no file has the positions 2..8 of axis 0 after this part"),
        "{error}"
    );
    assert!(!scratch.index().exists());
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
