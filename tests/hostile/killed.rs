//! A training run that is killed at random moments, and resumed to the same bits.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use pytree::prelude::*;

use crate::random::Random;

const STEPS: u32 = 40;
const KILLS: usize = 50;

/// Everything that a step reads and writes.
#[derive(Clone, Debug, Module)]
struct Run {
    model: Mlp,
    optimizer: Optimizer<Mlp>,
    rngs: Rngs,
    #[state]
    step: Tensor,
}

fn start() -> Run {
    let mut rngs = Rngs::new(4);
    let model = Mlp::new(&[4, 8, 1], Activation::Tanh, &mut rngs);
    Run {
        optimizer: Optimizer::new(&model, adam(1e-2)),
        model,
        rngs,
        step: Tensor::from(0_u32),
    }
}

/// Trains to the end, from the checkpoint if there is one, and saves each step.
fn train(path: &Path) {
    let mut run = start();
    if path.exists() {
        run = checkpoint::load(path, &run).unwrap();
    }
    let step = jit(|mut run: Run| {
        let x = run.rngs.normal(DType::F32, [16, 4]);
        let y = x.sum_keep([-1]);
        let gradient = grad(|model: &Mlp| mse(&model.forward(&x), &y))(&run.model);
        run.optimizer.update(&mut run.model, &gradient);
        run.step = &run.step + 1_u32;
        run
    });
    while run.step.item::<u32>() < STEPS {
        run = step(run);
        checkpoint::save(path, &run).unwrap();
    }
}

/// What the process does that is killed: it is this test binary, and a variable tells it where the checkpoint is.
#[test]
fn training_child() {
    if let Some(path) = std::env::var_os("PYTREE_HOSTILE_TRAINING") {
        train(Path::new(&path));
    }
}

fn child(path: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "killed::training_child"]);
    command.env("PYTREE_HOSTILE_TRAINING", path);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command
}

/// A directory that is removed at the end of the test.
struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn bits(path: &Path) -> Vec<Vec<u32>> {
    let run = checkpoint::load(path, &start()).unwrap();
    assert_eq!(run.step.item::<u32>(), STEPS);
    let leaves = graph::leaves::<Tensor, _>(&run.model);
    let bits = |leaf: &&Tensor| leaf.to_vec::<f32>().iter().map(|x| x.to_bits()).collect();
    leaves.iter().map(bits).collect()
}

#[test]
fn killed_training_resumes_to_the_same_bits() {
    let name = format!("pytree-hostile-{}-killed", std::process::id());
    let scratch = Scratch(std::env::temp_dir().join(name));
    std::fs::create_dir_all(&scratch.0).unwrap();
    let (whole, path) = (scratch.0.join("whole"), scratch.0.join("killed"));
    train(&whole);
    let expected = bits(&whole);
    let mut random = Random::new(std::process::id().into());
    let (mut kills, mut in_a_run, mut finished) = (0, 0, 0);
    while kills < KILLS {
        let mut training = child(&path).spawn().unwrap();
        std::thread::sleep(Duration::from_micros(5_000 + random.bits() % 100_000));
        training.kill().unwrap();
        let status = training.wait().unwrap();
        if status.success() {
            // It was at the end before it was killed: the next one begins again.
            assert_eq!(bits(&path), expected);
            std::fs::remove_file(&path).unwrap();
            finished += 1;
            continue;
        }
        kills += 1;
        in_a_run += usize::from(path.exists());
    }
    assert!(child(&path).status().unwrap().success());
    assert_eq!(bits(&path), expected);
    assert!(
        in_a_run > KILLS / 4,
        "{in_a_run} kills came after a step, {finished} runs ended"
    );
    let mut names: Vec<_> = std::fs::read_dir(&scratch.0)
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    names.sort();
    assert_eq!(names, ["killed", "whole"], "no temporary file stays");
}
