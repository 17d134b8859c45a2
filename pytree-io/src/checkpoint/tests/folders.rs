//! Tests of folders that keep the last and the best checkpoints.

use super::*;

fn steps(folder: &CheckpointFolder) -> Vec<usize> {
    folder
        .list()
        .unwrap()
        .iter()
        .map(|saved| saved.step)
        .collect()
}

/// A new folder, which is removed at the end of the test.
fn folder(scratch: &Scratch, keep_last: usize, goal: Goal) -> CheckpointFolder {
    let options = FolderOptions {
        keep_last,
        ..FolderOptions::new(goal)
    };
    let directory = scratch.0.parent().unwrap().join("run");
    CheckpointFolder::with_options(directory, options).unwrap()
}

#[test]
fn last_and_best_checkpoints_are_kept() {
    let scratch = Scratch::new("folder");
    let folder = folder(&scratch, 2, Goal::Maximize);
    assert_eq!(
        (folder.latest().unwrap(), folder.best().unwrap()),
        (None, None)
    );
    let model = |seed: usize| Linear::new(2, 3, &mut Rngs::new(seed as u64));
    for (step, metric) in [(1, 0.5), (2, 0.9), (3, f64::NAN), (4, 0.9), (5, 0.1)] {
        let saved = folder.save(step, &model(step), metric).unwrap();
        assert_eq!(checkpoint_of(&saved), model(step));
    }
    assert_eq!(steps(&folder), [2, 4, 5]);
    let best = folder.best().unwrap().unwrap();
    assert_eq!((best.step, best.metric), (2, Some(0.9)));
    assert_eq!(checkpoint_of(&best), model(2));
    assert_eq!(folder.latest().unwrap().unwrap().step, 5);
    // A checkpoint without a metric is among the last, and never the best.
    folder.save(6, &model(6), None).unwrap();
    folder.save(7, &model(7), 1.5).unwrap();
    assert_eq!(steps(&folder), [6, 7]);
    assert_eq!(folder.best().unwrap().unwrap().step, 7);
    // A run that begins again at an earlier step keeps what it saves.
    folder.save(3, &model(3), None).unwrap();
    assert_eq!(steps(&folder), [3, 6, 7]);
}

fn checkpoint_of(saved: &Saved) -> Linear {
    load(&saved.path, &Linear::new(2, 3, &mut Rngs::new(99))).unwrap()
}

#[test]
fn files_of_others_are_neither_listed_nor_deleted() {
    let scratch = Scratch::new("others");
    let folder = folder(&scratch, 1, Goal::Minimize);
    let model = Linear::new(2, 3, &mut Rngs::new(0));
    let path = |name: &str| folder.path().join(name);
    // A checkpoint that was not saved through a folder, a name with other digits, a damaged file, and other names.
    save(path("step-0000000001.safetensors"), &model).unwrap();
    folder.save(2, &model, 0.5).unwrap();
    fs::copy(
        path("step-0000000002.safetensors"),
        path("step-2.safetensors"),
    )
    .unwrap();
    fs::copy(
        path("step-0000000002.safetensors"),
        path("step-0000000003.safetensors"),
    )
    .unwrap();
    fs::write(path("step-0000000004.safetensors"), "damaged").unwrap();
    fs::write(path("notes.txt"), "mine").unwrap();
    fs::create_dir(path("step-0000000005.safetensors")).unwrap();
    let others = fs::read_dir(folder.path()).unwrap().count();
    for step in 10..20 {
        folder.save(step, &model, 0.4 - step as f64).unwrap();
    }
    assert_eq!(steps(&folder), [19]);
    // The checkpoint of step 2 is gone, and that of step 19 is there.
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), others);
}

#[test]
fn folder_that_cannot_be_created_is_named() {
    let scratch = Scratch::new("no-folder");
    fs::write(&scratch.0, "a file").unwrap();
    let error = CheckpointFolder::new(scratch.0.join("run"), Goal::Minimize)
        .unwrap_err()
        .to_string();
    assert!(
        error.starts_with("cannot create the folder of checkpoints `"),
        "{error}"
    );
    assert!(error.contains("run"), "{error}");
}

/// Compares the folder and [`EarlyStopping`](crate::training::EarlyStopping) with the definition: the first of the best values
/// that are numbers.
#[test]
fn best_checkpoint_follows_the_goal() {
    let model = Linear::new(2, 3, &mut Rngs::new(0));
    let values = [f64::NAN, 0.685, 0.9, f64::NAN, 0.982, 0.3, 0.982, 0.3];
    for (goal, expected) in [(Goal::Minimize, (5, 0.3)), (Goal::Maximize, (4, 0.982))] {
        let scratch = Scratch::new("goal");
        let folder = folder(&scratch, 1, goal);
        let mut stopping = crate::training::EarlyStopping::new(goal, values.len());
        for (step, value) in values.into_iter().enumerate() {
            folder.save(step, &model, value).unwrap();
            stopping.update(step, value);
        }
        let best = folder.best().unwrap().unwrap();
        assert_eq!((best.step, best.metric), (expected.0, Some(expected.1)));
        assert_eq!(stopping.best(), Some(expected));
        assert_eq!(steps(&folder), [expected.0, 7]);
    }
}
