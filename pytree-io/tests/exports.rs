//! Runs an exported model with the compiler of JAX, through `tools/export-convert`.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Output};

use pytree_core::graph;
use pytree_io::export;
use pytree_nn::{Activation, Mlp, Rngs};
use pytree_transform::{DType, Tensor, jit};
use serde_json::{Map, Value, json};

const TOOL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../tools/export-convert");

/// Runs a command of `tools/export-convert`. Returns `None`, and prints that the test is skipped, if there is no Python with JAX.
fn convert(arguments: &[&Path], command: &str) -> Option<Output> {
    output_of(Command::new(TOOL).arg(command).args(arguments))
}

fn output_of(command: &mut Command) -> Option<Output> {
    let output = command.output();
    let output = output.ok().filter(|output| output.status.code() != Some(3));
    if output.is_none() {
        // The test harness captures `eprintln`, but not this.
        let _ = writeln!(
            std::io::stderr(),
            "skipped: exports in JAX: no Python with JAX; run `tools/check-stablehlo`, or set PYTREE_JAX_PYTHON"
        );
    }
    output
}

fn assert_succeeded(output: &Output) {
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{message}");
}

#[test]
fn exported_model_runs_in_jax() {
    let folder = std::env::temp_dir().join(format!("pytree-exports-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = |name: &str| folder.join(name);
    let table = Tensor::arange(DType::F32, 2000) / 1000.0;
    let forward = jit(move |(model, x): (Mlp, Tensor)| (model.forward(&x), x.sum() * &table));
    let mut rngs = Rngs::new(0);
    let model = Mlp::new(&[2, 8, 3], Activation::Tanh, &mut rngs);
    let argument = (model, rngs.normal(DType::F32, [4, 2]));
    let program = path("model.mlir");
    export::save(&program, &forward.stablehlo(&argument)).unwrap();

    let mut inputs = Map::new();
    for (name, leaf) in graph::leaves_with_path::<Tensor, _>(&argument) {
        let numbers = json!(leaf.reshape([-1]).read::<f32>().unwrap());
        inputs.insert(name.to_string(), nested(&numbers, leaf.shape()));
    }
    let (given, results) = (path("inputs.json"), path("outputs.json"));
    std::fs::write(&given, Value::Object(inputs).to_string()).unwrap();
    let expected = forward(argument);
    if let Some(output) = convert(&[&program, &given, &results], "run") {
        assert_succeeded(&output);
        let found: Value = serde_json::from_slice(&std::fs::read(&results).unwrap()).unwrap();
        for (name, expected) in [("[0]", &expected.0), ("[1]", &expected.1)] {
            let mut numbers = Vec::new();
            flatten(&found[name], &mut numbers);
            let expected = expected.read::<f32>().unwrap();
            assert_eq!(numbers.len(), expected.len());
            for (found, &expected) in numbers.iter().zip(expected) {
                assert!(
                    (found - f64::from(expected)).abs() < 1e-5,
                    "{found} {expected}"
                );
            }
        }
        // To a portable artifact and back: the types are kept, and the names are numbers.
        let (portable, back) = (path("model.mlirbc"), path("back.mlir"));
        assert_succeeded(&convert(&[&program, &portable], "to-portable").unwrap());
        assert_succeeded(&convert(&[&portable, &back], "from-portable").unwrap());
        let (program, back) = (
            export::load(&program).unwrap(),
            export::load(&back).unwrap(),
        );
        assert_eq!(program.inputs().len(), back.inputs().len());
        for (one, other) in program.inputs().iter().zip(back.inputs()) {
            assert_eq!(one.array, other.array);
        }
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn missing_package_is_named() {
    let folder = std::env::temp_dir().join(format!("pytree-flatbuffers-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    // Python imports this module at its start. It hides the package.
    let hidden = "import sys\nsys.modules['flatbuffers'] = None\n";
    std::fs::write(folder.join("sitecustomize.py"), hidden).unwrap();
    let mut command = Command::new(TOOL);
    command.args(["from-jax", "f.bin", "f.mlir"]);
    if let Some(output) = output_of(command.env("PYTHONPATH", &folder)) {
        assert!(!output.status.success());
        let message = String::from_utf8(output.stderr).unwrap();
        assert!(
            message.starts_with("export-convert: f.bin: JAX reads files of `jax.export` with the package flatbuffers"),
            "{message}"
        );
        assert!(message.contains("pip install flatbuffers"), "{message}");
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

/// Makes nested lists of a list of numbers.
fn nested(numbers: &Value, shape: &[usize]) -> Value {
    let list = numbers.as_array().unwrap();
    match shape {
        [] => list[0].clone(),
        [_] => numbers.clone(),
        [_, inner @ ..] => {
            let parts = list.chunks(inner.iter().product());
            parts.map(|part| nested(&json!(part), inner)).collect()
        }
    }
}

fn flatten(value: &Value, numbers: &mut Vec<f64>) {
    match value {
        Value::Array(values) => values.iter().for_each(|value| flatten(value, numbers)),
        value => numbers.push(value.as_f64().unwrap()),
    }
}
