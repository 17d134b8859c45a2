//! Random and damaged checkpoints of several files, and saves that are killed.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use ndarray::{Array1, Array2};
use pytree::AnyLeaf;
use pytree::checkpoint::{CheckpointFolder, Goal, LoadOptions};
use pytree::prelude::*;

use crate::random::Random;
use crate::{fuzz, read};

type State = BTreeMap<String, Tensor>;

fn state() -> State {
    BTreeMap::from([
        ("x".to_owned(), Tensor::zeros(DType::U8, [2, 4])),
        ("y".to_owned(), Tensor::from([7_i32])),
    ])
}

/// A folder that is removed at the end of the test.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let unique = format!("pytree-hostile-{}-{name}", std::process::id());
        let path = std::env::temp_dir().join(unique);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn index(&self) -> PathBuf {
        self.0.join("model.safetensors.index.json")
    }

    /// Returns the contents of the files by their names.
    fn files(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let entries = std::fs::read_dir(&self.0).unwrap();
        let paths = entries.map(|entry| entry.unwrap().path());
        paths
            .map(|path| (path.clone(), std::fs::read(path).unwrap()))
            .collect()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Reads a folder in all ways. No way panics or needs much memory.
fn read_all(path: &Path, bytes: usize) {
    read(bytes, || {
        let template = state();
        let _ = checkpoint::inspect(path).map_err(|error| error.to_string());
        let _ = checkpoint::tensors(path).map_err(|error| error.to_string());
        let options = LoadOptions::new().allow_missing().allow_unused();
        if let Err(error) = checkpoint::load_with(path, &template, &options) {
            assert!(error.to_string().len() < 20_000, "{error}");
        }
        let arrays: Tree<AnyLeaf> = pytree_core::tree!({
            "x": Array2::<u8>::zeros((2, 4)),
            "y": Array1::<i32>::zeros(1)
        });
        let loaded = checkpoint::load(path, &template);
        assert_eq!(checkpoint::load(path, &arrays).is_ok(), loaded.is_ok());
        if let Ok(loaded) = loaded {
            let infos = |state: &State| -> Vec<_> {
                state.values().map(|leaf| leaf.info().clone()).collect()
            };
            assert_eq!(infos(&loaded), infos(&template));
        }
    });
}

/// Returns a file with parts of `x`, which may overlap or leave gaps.
fn written(random: &mut Random, names: &mut Vec<String>) -> Vec<u8> {
    let (mut tensors, mut places, mut end) = (Vec::new(), Vec::new(), 0);
    for _ in 0..random.below(4) {
        let bounds = |random: &mut Random, length: usize| {
            let start = random.below(length);
            (start, start + 1 + random.below(length - start))
        };
        let (rows, columns) = (bounds(random, 2), bounds(random, 4));
        let mut name = format!("['x'][{}:{},{}:{}]", rows.0, rows.1, columns.0, columns.1);
        if rows == (0, 2) && columns == (0, 4) {
            name = "['x']".to_owned();
        }
        if names.contains(&name) {
            continue;
        }
        let lengths = [rows.1 - rows.0, columns.1 - columns.0];
        let bytes = lengths[0] * lengths[1];
        tensors.push(format!(
            "\"{name}\":{{\"dtype\":\"U8\",\"shape\":{lengths:?},\"data_offsets\":[{end},{}]}}",
            end + bytes
        ));
        let shape = random.pick(&["[2,4]", "[2,4]", "[2,4]", "[2]", "[4,4]", "[2,-1]", "7"]);
        let begin = match random.below(6) {
            0 => "[18446744073709551615,0]".to_owned(),
            _ => format!("[{},{}]", rows.0, columns.0),
        };
        places.push(format!(
            "\\\"{name}\\\":{{\\\"tensor\\\":\\\"['x']\\\",\\\"shape\\\":{shape},\\\"begin\\\":{begin}}}"
        ));
        names.push(name);
        end += bytes;
    }
    let metadata = format!(
        "\"__metadata__\":{{\"pytree.parts\":\"{{{}}}\"}}",
        places.join(",")
    );
    tensors.push(metadata);
    let header = format!("{{{}}}", tensors.join(","));
    let length = (header.len() as u64).to_le_bytes();
    [&length[..], header.as_bytes(), &vec![1; end]].concat()
}

#[test]
fn folders_are_read_or_refused() {
    let scratch = Scratch::new("folders");
    checkpoint::save_sharded(&scratch.0, &state()).unwrap();
    let whole = scratch.files();
    let sources = ["a.safetensors", "b.safetensors"].map(|name| scratch.0.join(name));
    fuzz("folders_are_read_or_refused", |random| {
        if random.one_in(2) {
            let (mut map, mut bytes) = (Vec::new(), 0);
            for path in &sources {
                let mut names = Vec::new();
                let content = written(random, &mut names);
                bytes += content.len();
                std::fs::write(path, content).unwrap();
                let file = path.file_name().unwrap().to_str().unwrap();
                let entries = names.iter().map(|name| format!("\"{name}\":\"{file}\""));
                map.extend(entries);
            }
            let metadata = random.pick(&["", "\"metadata\":{},", "\"metadata\":7,"]);
            let text = format!("{{{metadata}\"weight_map\":{{{}}}}}", map.join(","));
            bytes += text.len();
            std::fs::write(scratch.index(), text).unwrap();
            read_all(&scratch.0, bytes);
            return;
        }
        let damaged = random.below(whole.len());
        let mut bytes = 0;
        for (at, (path, content)) in whole.iter().enumerate() {
            let mut content = content.clone();
            if at == damaged {
                random.change(&mut content);
            }
            bytes += content.len();
            std::fs::write(path, content).unwrap();
        }
        read_all(&scratch.0, bytes);
    });
}

/// The states that the child saves in turn.
fn saved(number: usize) -> Vec<Tensor> {
    let shape = [200 + number, 300];
    vec![
        Tensor::full(DType::F32, shape, number as f64),
        Tensor::from(number as i32),
    ]
}

/// What the process does that is killed: it is this test binary, and a variable tells it where the folder is.
#[test]
fn saving_child() {
    if let Some(path) = std::env::var_os("PYTREE_HOSTILE_SAVING") {
        for number in (0..2).cycle() {
            checkpoint::save_sharded(&path, &saved(number)).unwrap();
        }
    }
}

/// What each of the processes does that share a folder of checkpoints, until it is killed.
#[test]
fn run_child() {
    if let Some(path) = std::env::var_os("PYTREE_HOSTILE_RUN") {
        let folder = CheckpointFolder::new(&path, Goal::Minimize).unwrap();
        let latest = folder.latest().unwrap();
        for step in latest.map_or(0, |saved| saved.step + 1).. {
            if let Err(error) = folder.save_sharded(step, &saved(step % 2), None) {
                std::fs::write(Path::new(&path).with_extension("failed"), error.to_string())
                    .unwrap();
                return;
            }
        }
    }
}

/// Starts a process that runs one of the tests above, with a variable.
fn child(test: &str, variable: &str, value: &Path) -> std::process::Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test]).env(variable, value);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().unwrap()
}

/// Whatever killed runs leave in a folder, and two runs at once, the next save leaves nothing but whole checkpoints.
#[test]
fn killed_runs_leave_no_unfinished_folders() {
    let scratch = Scratch::new("killed-runs");
    let run = |name| {
        child(
            "folders::run_child",
            "PYTREE_HOSTILE_RUN",
            &scratch.0.join(name),
        )
    };
    let folders = |name: &str| std::fs::read_dir(scratch.0.join(name)).map_or(0, Iterator::count);
    let mut random = Random::new(std::process::id().into());
    let mut most = 0;
    for round in 0..30 {
        let mut runs = vec![run("one"), run("two")];
        if round % 2 == 0 {
            runs.push(run("two"));
        }
        std::thread::sleep(Duration::from_micros(10_000 + random.bits() % 40_000));
        for run in &mut runs {
            run.kill().unwrap();
            run.wait().unwrap();
        }
        most = most.max(folders("one")).max(folders("two"));
    }
    assert!(most > 3, "no save was killed");
    assert!(most < 10, "{most} folders were left");
    for name in ["one", "two"] {
        let failed = std::fs::read_to_string(scratch.0.join(name).with_extension("failed"));
        assert!(
            failed.is_err(),
            "a save beside another run failed: {failed:?}"
        );
        let folder = CheckpointFolder::new(scratch.0.join(name), Goal::Minimize).unwrap();
        let step = folder.latest().unwrap().unwrap().step + 1;
        folder.save_sharded(step, &saved(step % 2), None).unwrap();
        let listed = folder.list().unwrap();
        assert_eq!((listed.len(), folders(name)), (3, 3));
        for kept in &listed {
            let files = std::fs::read_dir(&kept.path).unwrap();
            assert_eq!(files.count(), 2, "{kept:?}");
            let expected = saved(kept.step % 2);
            assert_eq!(checkpoint::load(&kept.path, &expected).unwrap(), expected);
        }
    }
}

/// A folder has a whole checkpoint whenever a save is killed, and the next save removes what was left.
#[test]
fn killed_saves_leave_a_whole_checkpoint() {
    let scratch = Scratch::new("killed-saves");
    checkpoint::save_sharded(&scratch.0, &saved(0)).unwrap();
    let mut random = Random::new(std::process::id().into());
    let (mut most, mut seen) = (0, [0, 0]);
    for _ in 0..40 {
        let mut saving = child("folders::saving_child", "PYTREE_HOSTILE_SAVING", &scratch.0);
        std::thread::sleep(Duration::from_micros(10_000 + random.bits() % 40_000));
        saving.kill().unwrap();
        saving.wait().unwrap();
        let number = checkpoint::tensors(&scratch.0).unwrap()["[1]"].item::<i32>() as usize;
        let loaded = checkpoint::load(&scratch.0, &saved(number)).unwrap();
        assert_eq!(loaded, saved(number));
        seen[number] += 1;
        most = most.max(scratch.files().len());
    }
    assert!(seen[1] > 0, "no save has ended before it was killed");
    // The index and its file, the file and the temporary file of the killed save, and those of the one before.
    assert!(most <= 6, "{most} files were left");
    checkpoint::save_sharded(&scratch.0, &saved(1)).unwrap();
    assert_eq!(scratch.files().len(), 2, "{:?}", scratch.files().keys());
}
