//! Reading the golden files.

use std::path::Path;

use pytree::{DType, Tensor, bf16, f16};
use serde_json::Value;

/// A golden file.
pub fn read(name: &str) -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("golden")
        .join(name);
    let text = std::fs::read_to_string(&path)
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_str(&text).unwrap()
}

/// An array of a golden file.
pub fn tensor(value: &Value) -> Tensor {
    let shape: Vec<usize> = value["shape"]
        .as_array()
        .unwrap()
        .iter()
        .map(|n| n.as_u64().unwrap() as usize)
        .collect();
    let data = value["data"].as_array().unwrap();
    let float = |x: &Value| match x.as_str() {
        Some("nan") => f64::NAN,
        Some("inf") => f64::INFINITY,
        Some("-inf") => f64::NEG_INFINITY,
        _ => x.as_f64().unwrap(),
    };
    let integers = || data.iter().map(|x| x.as_i64().unwrap());
    match value["dtype"].as_str().unwrap() {
        "f32" => Tensor::new(
            shape,
            data.iter().map(|x| float(x) as f32).collect::<Vec<f32>>(),
        ),
        "f64" => Tensor::new(shape, data.iter().map(float).collect::<Vec<f64>>()),
        "i32" => Tensor::new(shape, integers().map(|x| x as i32).collect::<Vec<i32>>()),
        "i64" => Tensor::new(shape, integers().collect::<Vec<i64>>()),
        "u32" => Tensor::new(shape, integers().map(|x| x as u32).collect::<Vec<u32>>()),
        "i8" => Tensor::new(shape, integers().map(|x| x as i8).collect::<Vec<i8>>()),
        "i16" => Tensor::new(shape, integers().map(|x| x as i16).collect::<Vec<i16>>()),
        "u8" => Tensor::new(shape, integers().map(|x| x as u8).collect::<Vec<u8>>()),
        "u16" => Tensor::new(shape, integers().map(|x| x as u16).collect::<Vec<u16>>()),
        "bf16" => {
            let numbers = data.iter().map(|x| bf16::from_f32(float(x) as f32));
            Tensor::new(shape, numbers.collect::<Vec<bf16>>())
        }
        "f16" => {
            let numbers = data.iter().map(|x| f16::from_f32(float(x) as f32));
            Tensor::new(shape, numbers.collect::<Vec<f16>>())
        }
        "bool" => Tensor::new(
            shape,
            data.iter()
                .map(|x| x.as_bool().unwrap_or_else(|| x == 1))
                .collect::<Vec<bool>>(),
        ),
        other => panic!("element type {other}"),
    }
}

/// A list of integers of a golden file.
pub fn integers(value: &Value) -> Vec<isize> {
    value
        .as_array()
        .unwrap()
        .iter()
        .map(|n| n.as_i64().unwrap() as isize)
        .collect()
}

/// A list of lengths of a golden file.
pub fn lengths(value: &Value) -> Vec<usize> {
    integers(value).into_iter().map(|n| n as usize).collect()
}

/// An element type by its name.
pub fn dtype(name: &str) -> DType {
    match name {
        "bool" => DType::Bool,
        "i8" => DType::I8,
        "i16" => DType::I16,
        "u8" => DType::U8,
        "u16" => DType::U16,
        "bf16" => DType::BF16,
        "f16" => DType::F16,
        "i32" => DType::I32,
        "i64" => DType::I64,
        "u32" => DType::U32,
        "f32" => DType::F32,
        "f64" => DType::F64,
        other => panic!("element type {other}"),
    }
}
