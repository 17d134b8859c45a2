//! Checkpoints by shards in a folder of checkpoints.

use pytree::checkpoint::{CheckpointFolder, Goal};
use pytree::prelude::*;

use crate::shards::{Scratch, assert_same_bits, divided, mesh, run};

#[test]
fn last_and_best_are_kept() {
    let scratch = Scratch::new("folder");
    let folder = CheckpointFolder::new(&scratch.0, Goal::Minimize).unwrap();
    let mesh = mesh([("i", 2), ("j", 2)]);
    let models: Vec<Mlp> = (0..6).map(|seed| run(seed).0).collect();
    for (step, model) in (0..).zip(&models) {
        let metric = [5.0, 1.0, 4.0, 3.0, 2.0, 6.0][step];
        // Files and folders may alternate.
        if step == 4 {
            folder.save(step, model, metric).unwrap();
        } else {
            let model = divided(model, &mesh);
            folder.save_sharded(step, &model, metric).unwrap();
        }
    }
    let steps: Vec<usize> = folder
        .list()
        .unwrap()
        .iter()
        .map(|saved| saved.step)
        .collect();
    assert_eq!(steps, [1, 3, 4, 5]);
    assert_eq!(
        scratch.files(),
        [
            "step-0000000001",
            "step-0000000003",
            "step-0000000004.safetensors",
            "step-0000000005"
        ]
    );
    let best = folder.best().unwrap().unwrap();
    assert_eq!((best.step, best.metric), (1, Some(1.0)));
    assert_same_bits(
        &checkpoint::load(&best.path, &models[0]).unwrap(),
        &models[1],
    );
    let latest = folder.latest().unwrap().unwrap();
    assert_same_bits(
        &checkpoint::load(&latest.path, &models[0]).unwrap(),
        &models[5],
    );
}

/// A folder without an index is not a checkpoint, and files of other programs remain.
#[test]
fn unfinished_and_foreign_folders_are_not_listed() {
    let scratch = Scratch::new("unfinished");
    let folder = CheckpointFolder::new(&scratch.0, Goal::Minimize).unwrap();
    let (model, ..) = run(0);
    for step in 1..=4 {
        folder.save_sharded(step, &model, None).unwrap();
    }
    let last = scratch.0.join("step-0000000004");
    std::fs::remove_file(last.join("model.safetensors.index.json")).unwrap();
    std::fs::create_dir(scratch.0.join("step-0000000009")).unwrap();
    std::fs::write(scratch.0.join("step-0000000002/notes.txt"), "mine").unwrap();
    assert_eq!(folder.latest().unwrap().unwrap().step, 3);
    for step in 5..=7 {
        folder.save_sharded(step, &model, None).unwrap();
    }
    let steps: Vec<usize> = folder
        .list()
        .unwrap()
        .iter()
        .map(|saved| saved.step)
        .collect();
    assert_eq!(steps, [5, 6, 7]);
    let left = std::fs::read_dir(scratch.0.join("step-0000000002")).unwrap();
    assert_eq!(left.count(), 1);
}
