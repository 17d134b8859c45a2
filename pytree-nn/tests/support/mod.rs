//! Golden files read, and tensors compared with what they say.

use pytree_transform::{DType, Tensor};
use serde_json::Value;

pub(crate) fn golden(name: &str) -> Value {
    let path = format!("{}/../tests/golden/{name}.json", env!("CARGO_MANIFEST_DIR"));
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

pub(crate) fn number(value: &Value) -> f64 {
    match value.as_str() {
        Some(text) => text.parse().unwrap(),
        None => value.as_f64().unwrap(),
    }
}

#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the file says that the numbers fit"
)]
pub(crate) fn tensor(value: &Value) -> Tensor {
    let shape: Vec<usize> = value["shape"]
        .as_array()
        .unwrap()
        .iter()
        .map(|n| n.as_u64().unwrap() as usize)
        .collect();
    let data = value["data"].as_array().unwrap();
    let integers = || data.iter().map(|n| n.as_i64().unwrap());
    match value["dtype"].as_str().unwrap() {
        "f32" => Tensor::new(
            shape,
            data.iter().map(|n| number(n) as f32).collect::<Vec<_>>(),
        ),
        "f64" => Tensor::new(shape, data.iter().map(number).collect::<Vec<_>>()),
        "i32" => Tensor::new(shape, integers().map(|n| n as i32).collect::<Vec<_>>()),
        "i64" => Tensor::new(shape, integers().collect::<Vec<_>>()),
        "u32" => Tensor::new(shape, integers().map(|n| n as u32).collect::<Vec<_>>()),
        "i8" => Tensor::new(shape, integers().collect::<Vec<_>>()).convert(DType::I8),
        "i16" => Tensor::new(shape, integers().collect::<Vec<_>>()).convert(DType::I16),
        "u8" => Tensor::new(shape, integers().collect::<Vec<_>>()).convert(DType::U8),
        "u16" => Tensor::new(shape, integers().collect::<Vec<_>>()).convert(DType::U16),
        "bool" => Tensor::new(
            shape,
            data.iter()
                .map(|n| n.as_bool().unwrap())
                .collect::<Vec<_>>(),
        ),
        other => panic!("{other} in a golden file"),
    }
}

/// Each element within `relative` of the expected one, or within `relative` itself.
#[track_caller]
pub(crate) fn close(found: &Tensor, expected: &Tensor, relative: f64, what: &str) {
    assert_eq!(found.info(), expected.info(), "{what}");
    let (found, expected) = (
        found.convert(DType::F64).to_vec::<f64>(),
        expected.convert(DType::F64).to_vec::<f64>(),
    );
    for (position, (found, expected)) in found.iter().zip(&expected).enumerate() {
        let allowed = relative * expected.abs();
        assert!(
            (found - expected).abs() <= allowed,
            "{what} at {position}: found {found}, expected {expected}"
        );
    }
}
