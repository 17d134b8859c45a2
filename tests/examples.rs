//! Runs the examples, and checks what they print. `cargo test -p pytree-rs` builds them first.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::env::consts::EXE_SUFFIX;
use std::path::Path;
use std::process::Command;

/// Returns a command that runs an example of this build.
fn example(name: &str) -> Command {
    let program = std::env::current_exe().unwrap();
    let folder = program.parent().and_then(Path::parent).unwrap();
    let path = folder.join(format!("examples/{name}{EXE_SUFFIX}"));
    assert!(path.exists(), "`cargo test -p pytree-rs` builds {name}");
    let mut command = Command::new(path);
    command.current_dir(env!("CARGO_MANIFEST_DIR"));
    command
}

/// Runs a program, and returns what it prints.
fn printed(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let problem = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {problem}");
    String::from_utf8(output.stdout).unwrap()
}

/// Runs an example in short form, where a NaN in a compiled function is an error, and returns what it prints.
fn short(name: &str) -> String {
    printed(example(name).arg("--short").env("PYTREE_DEBUG_NANS", "1"))
}

fn has_line(output: &str, expected: &str) {
    assert!(output.lines().any(|line| line == expected), "{output}");
}

/// Checks the number at the end of the line with a beginning.
fn is_between(output: &str, beginning: &str, least: f64, most: f64) {
    let line = output.lines().find(|line| line.starts_with(beginning));
    let number = line.and_then(|line| line.rsplit(' ').next()?.parse().ok());
    let number: f64 = number.unwrap_or_else(|| panic!("no number at {beginning}: {output}"));
    assert!((least..=most).contains(&number), "{output}");
}

/// Compares the output with the lines in the header of the example. Comments have no spaces at their ends, and a jaxpr has some.
fn has_output_of_header(name: &str, output: &str) {
    let path = format!("{}/examples/{name}.rs", env!("CARGO_MANIFEST_DIR"));
    let source = std::fs::read_to_string(path).unwrap();
    let header = source
        .lines()
        .filter_map(|line| line.strip_prefix("//!     "));
    let lines = output.lines().map(str::trim_end);
    assert!(lines.eq(header), "{name} prints something else: {output}");
}

#[test]
fn output_is_that_of_the_header() {
    for name in ["counter", "own_op", "shared", "tree_tour", "transforms"] {
        has_output_of_header(name, &printed(&mut example(name)));
    }
}

/// The table is that of transformers.
#[test]
fn sentences_have_the_similarities_of_the_header() {
    if let Some(folder) = std::env::var_os("PYTREE_MINILM") {
        has_output_of_header("sentences", &printed(example("sentences").arg(folder)));
    }
}

#[test]
fn nnx_tour_has_the_losses_of_flax() {
    let output = printed(&mut example("nnx_tour"));
    has_line(&output, "compiled 1 time");
    has_line(&output, "as new: true");
    assert!(output.contains("\nstep = 0, loss = 0.73265"), "{output}");
    assert!(output.contains("\nstep = 1, loss = 0.65039"), "{output}");
    let gradients = output.matches("'xgrad': Perturbation( # 3 (12 B)");
    assert_eq!(gradients.count(), 3, "{output}");
}

/// Without a search for NaN, which takes long in a debug build, and which `p50_digits_cnn` has.
#[test]
fn digits_cnn_is_accurate() {
    let output = printed(example("digits_cnn").arg("--short"));
    is_between(&output, "test accuracy: ", 0.97, 1.0);
}

#[test]
fn finetune_trains_the_adapters_alone() {
    let output = short("finetune");
    has_line(
        &output,
        "loaded: 6 applied, 0 missing, 0 unused, 3 transposed",
    );
    has_line(&output, "pretrained weights unchanged: true");
    is_between(&output, "test accuracy: ", 0.85, 1.0);
}

/// Without a search for NaN, which takes minutes in a debug build, and which `p52_gru_sampling` has.
#[test]
fn gru_learns_letters() {
    let output = printed(example("gru").arg("--short"));
    is_between(&output, "test loss: ", 1.9, 2.2);
}

#[test]
fn vae_reconstructs_images() {
    is_between(&short("vae"), "reconstruction error: ", 0.02, 0.035);
}

#[test]
fn ensemble_is_accurate() {
    is_between(&short("ensemble"), "accuracy of the ensemble: ", 0.94, 1.0);
}

#[test]
fn per_example_gradients_are_clipped() {
    let output = short("per_example_gradients");
    has_line(&output, "largest norm after clipping: 1.0000");
    is_between(&output, "the mean of the gradients", 0.0, 1e-5);
    is_between(&output, "test accuracy: ", 0.83, 1.0);
}

/// The losses are those of `benches/jax_maml.py`.
#[test]
fn maml_has_the_losses_of_jax() {
    let output = short("maml");
    let line = output.lines().find(|line| line.starts_with("step   100: "));
    let words: Vec<&str> = line.unwrap().split_whitespace().collect();
    let [before, after] = [words[3], words[6]].map(|word| word.parse::<f64>().unwrap());
    assert!((before - 4.01).abs() < 0.01, "{output}");
    assert!((after - 3.88).abs() < 0.02, "{output}");
}

#[test]
fn autoencoder_loads_with_tied_weights() {
    let output = printed(example("autoencoder").env("PYTREE_DEBUG_NANS", "1"));
    has_line(&output, "arrays in the checkpoint: 6");
    has_line(&output, "loaded with tied weights: true");
    is_between(&output, "test error: ", 0.0, 0.015);
}
