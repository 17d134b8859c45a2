//! A checkpoint of a model and its optimizer. A new process resumes the training and computes the same bits. Loading a
//! wrong file gives a report.

use std::path::{Path, PathBuf};
use std::process::Command;

use pytree::prelude::*;

type Training = (Mlp, Optimizer<Mlp>);

fn start(sizes: &[usize]) -> Training {
    let model = Mlp::new(sizes, Activation::Tanh, &mut Rngs::new(4));
    let optimizer = Optimizer::new(&model, adam(1e-2));
    (model, optimizer)
}

fn train((mut model, mut optimizer): Training, steps: usize) -> Training {
    let x = Key::new(5).normal(DType::F32, [16, 4]);
    let y = x.sum_keep([-1]);
    let step = jit(
        |(mut model, mut optimizer, x, y): (Mlp, Optimizer<Mlp>, Tensor, Tensor)| {
            let gradient = grad(|m: &Mlp| mse(&m.forward(&x), &y))(&model);
            optimizer.update(&mut model, &gradient);
            (model, optimizer)
        },
    );
    for _ in 0..steps {
        (model, optimizer) = step((model, optimizer, x.clone(), y.clone()));
    }
    (model, optimizer)
}

fn bits(training: &Training) -> Vec<Vec<u32>> {
    let floats = graph::leaves(&training.0);
    floats
        .iter()
        .map(|leaf| leaf.to_vec::<f32>().iter().map(|x| x.to_bits()).collect())
        .collect()
}

fn file(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("pytree-{name}-{}.safetensors", std::process::id()))
}

/// Does the work of the new process, which executes this test binary. Environment variables hold the paths of the
/// checkpoints.
#[test]
fn resume_child() {
    let (Ok(from), Ok(to)) = (
        std::env::var("PYTREE_RESUME_FROM"),
        std::env::var("PYTREE_RESUME_TO"),
    ) else {
        return;
    };
    let resumed = checkpoint::load(Path::new(&from), &start(&[4, 8, 1])).unwrap();
    checkpoint::save(Path::new(&to), &train(resumed, 5)).unwrap();
}

#[test]
fn training_resumes_bit_for_bit() {
    let (half, whole) = (file("half"), file("whole"));
    let at_half = train(start(&[4, 8, 1]), 5);
    checkpoint::save(&half, &at_half).unwrap();
    let expected = train(at_half, 5);
    let status = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "programs::p14_checkpoint::resume_child"])
        .env("PYTREE_RESUME_FROM", &half)
        .env("PYTREE_RESUME_TO", &whole)
        .output()
        .unwrap();
    assert!(status.status.success(), "{status:?}");
    let resumed = checkpoint::load(&whole, &start(&[4, 8, 1])).unwrap();
    assert_eq!(bits(&resumed), bits(&expected));
    std::fs::remove_file(half).unwrap();
    std::fs::remove_file(whole).unwrap();
}

#[test]
fn wrong_file_reports_every_mismatch() {
    let path = file("wrong");
    checkpoint::save(&path, &start(&[4, 8, 8, 1]).0).unwrap();
    let template = start(&[4, 6, 1]).0;
    let report = checkpoint::load(&path, &template).unwrap_err().to_string();
    for expected in [
        "layers[0].weight",
        "f32[4,8]",
        "f32[4,6]",
        "layers[1].weight",
        "layers[2].weight",
        "layers[2].bias",
    ] {
        assert!(report.contains(expected), "{expected} in {report}");
    }
    std::fs::write(&path, b"no tensors here").unwrap();
    let report = checkpoint::load(&path, &template).unwrap_err().to_string();
    assert!(report.contains(&path.display().to_string()), "{report}");
    std::fs::remove_file(path).unwrap();
}
