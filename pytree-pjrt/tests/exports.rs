//! Runs exported programs with a plugin: a function of JAX, and a compiled function of this library.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use pytree_io::export::{self, NamedArray};
use pytree_nn::{Activation, Mlp, Rngs};
use pytree_pjrt::Buffer;
use pytree_transform::{DType, Tensor, jit};
use serde_json::Value;

/// The file with a function of JAX, and numbers of JAX; `exported.py` beside it writes both.
const PROGRAM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/exported.mlir");
const NUMBERS: &str = include_str!("golden/exported.json");

fn golden(numbers: &Value) -> Vec<Vec<f64>> {
    let lists = numbers.as_array().unwrap().iter();
    let list = |list: &Value| {
        let numbers = list.as_array().unwrap().iter();
        numbers.map(|number| number.as_f64().unwrap()).collect()
    };
    lists.map(list).collect()
}

#[allow(
    clippy::cast_possible_truncation,
    reason = "the numbers are those of f32"
)]
fn narrow(numbers: &[f64]) -> Vec<f32> {
    numbers.iter().map(|&number| number as f32).collect()
}

fn assert_close(found: &Buffer, declared: &NamedArray, expected: &[f32]) {
    assert_eq!(found.dims(), &declared.array.shape[..], "{declared}");
    let found = found.to_vec::<f32>().unwrap();
    assert_eq!(found.len(), expected.len(), "{declared}");
    for (found, expected) in found.iter().zip(expected) {
        assert!(
            (found - expected).abs() < 1e-5,
            "{declared}: {found} {expected}"
        );
    }
}

#[test]
fn function_of_jax_runs_with_equal_numbers() {
    let exported = export::load(PROGRAM).unwrap();
    let names =
        |arrays: &[NamedArray]| -> Vec<String> { arrays.iter().map(ToString::to_string).collect() };
    assert_eq!(
        names(exported.inputs()),
        [
            "[0]['layers'][0]['bias']: f32[3]",
            "[0]['layers'][0]['weight']: f32[2,3]",
            "[0]['layers'][1]['bias']: f32[2]",
            "[0]['layers'][1]['weight']: f32[3,2]",
            "[1]: f32[4,2]",
        ]
    );
    assert_eq!(names(exported.outputs()), ["[0]: f32[4,2]", "[1]: f32[]"]);
    let Some(client) = crate::common::client() else {
        return;
    };
    let numbers: Value = serde_json::from_str(NUMBERS).unwrap();
    let program = crate::common::compile(client, exported.text());
    let inputs = golden(&numbers["inputs"]);
    assert_eq!(inputs.len(), exported.inputs().len());
    let inputs: Vec<Buffer> = inputs
        .iter()
        .zip(exported.inputs())
        .map(|(input, declared)| client.put(&narrow(input), &declared.array.shape).unwrap())
        .collect();
    let results = program
        .run(&inputs.iter().collect::<Vec<_>>(), &[])
        .unwrap();
    let expected = golden(&numbers["outputs"]);
    assert_eq!((results.len(), expected.len()), (2, 2));
    for ((found, declared), expected) in results.iter().zip(exported.outputs()).zip(&expected) {
        assert_close(found, declared, &narrow(expected));
    }
}

#[test]
fn saved_function_runs_as_on_the_host() {
    let table = Tensor::arange(DType::F32, 2000) / 1000.0;
    let forward = jit(move |(model, x): (Mlp, Tensor)| model.forward(&x).sum() * &table);
    let mut rngs = Rngs::new(0);
    let model = Mlp::new(&[2, 3, 1], Activation::Tanh, &mut rngs);
    let x = rngs.normal(DType::F32, [4, 2]);
    let argument = (model, x);
    let path = std::env::temp_dir().join(format!("pytree-exports-{}.mlir", std::process::id()));
    export::save(&path, &forward.stablehlo(&argument)).unwrap();
    let exported = export::load(&path);
    std::fs::remove_file(&path).unwrap();
    let exported = exported.unwrap();
    assert_eq!(exported.inputs().len(), 5, "the table is part of the text");
    let Some(client) = crate::common::client() else {
        return;
    };
    let program = crate::common::compile(client, exported.text());
    let leaves = pytree_core::graph::leaves::<Tensor, _>(&argument);
    let inputs: Vec<Buffer> = leaves
        .iter()
        .map(|leaf| {
            client
                .put(leaf.read::<f32>().unwrap(), leaf.shape())
                .unwrap()
        })
        .collect();
    let results = program
        .run(&inputs.iter().collect::<Vec<_>>(), &[])
        .unwrap();
    let expected = forward(argument);
    assert_eq!(results.len(), 1);
    assert_close(
        &results[0],
        &exported.outputs()[0],
        expected.read::<f32>().unwrap(),
    );
}
