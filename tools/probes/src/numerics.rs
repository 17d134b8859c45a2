//! Computes functions of inputs that another program wrote: `numerics FOLDER`.
//!
//! For each `FOLDER/<dtype>-<group>.in`, whose bytes are numbers, the results of each function of the group are written to
//! `FOLDER/<dtype>-<function>.out`. `tools/numerics.py` writes the inputs and compares the results.

use std::path::Path;

use pytree::nn::softplus;
use pytree::prelude::*;

type Function = fn(&Tensor) -> Tensor;

/// Functions of one number.
const UNARY: [(&str, Function); 34] = [
    ("exp", Tensor::exp),
    ("exp2", Tensor::exp2),
    ("expm1", Tensor::expm1),
    ("log", Tensor::log),
    ("log2", Tensor::log2),
    ("log10", Tensor::log10),
    ("log1p", Tensor::log1p),
    ("sqrt", Tensor::sqrt),
    ("rsqrt", Tensor::rsqrt),
    ("cbrt", Tensor::cbrt),
    ("reciprocal", Tensor::reciprocal),
    ("square", Tensor::square),
    ("sin", Tensor::sin),
    ("cos", Tensor::cos),
    ("tan", Tensor::tan),
    ("asin", Tensor::asin),
    ("acos", Tensor::acos),
    ("atan", Tensor::atan),
    ("sinh", Tensor::sinh),
    ("cosh", Tensor::cosh),
    ("tanh", Tensor::tanh),
    ("asinh", Tensor::asinh),
    ("acosh", Tensor::acosh),
    ("atanh", Tensor::atanh),
    ("sigmoid", Tensor::sigmoid),
    ("erf", Tensor::erf),
    ("erfc", Tensor::erfc),
    ("erf_inv", Tensor::erf_inv),
    ("floor", Tensor::floor),
    ("ceil", Tensor::ceil),
    ("round", Tensor::round),
    ("trunc", Tensor::trunc),
    ("sign", Tensor::sign),
    ("softplus", softplus),
];

/// Functions of pairs of numbers: the first half of the inputs with the second half.
const BINARY: [(&str, fn(&Tensor, &Tensor) -> Tensor); 10] = [
    ("add", |x, y| x + y),
    ("subtract", |x, y| x - y),
    ("multiply", |x, y| x * y),
    ("divide", |x, y| x / y),
    ("remainder", |x, y| x.remainder(y)),
    ("power", |x, y| x.pow(y)),
    ("arctan2", |x, y| x.atan2(y)),
    ("hypot", |x, y| x.hypot(y)),
    ("maximum", |x, y| x.maximum(y)),
    ("logaddexp", |x, y| x.logaddexp(y)),
];

/// Functions of a matrix of 96 columns.
const MATRICES: [(&str, Function); 14] = [
    ("sum_rows", |x| x.sum_axes([1])),
    ("sum_columns", |x| x.sum_axes([0])),
    ("sum_all", |x| x.sum()),
    ("mean", |x| x.mean_axes([0])),
    ("variance", |x| x.variance_axes([1])),
    ("norm", |x| x.norm_axes([1])),
    ("prod", |x| (x * 0.01 + 1.0).prod_axes([1])),
    ("max", |x| x.max_axes([0])),
    ("cumsum", |x| x.cumsum(0)),
    ("cumprod", |x| (x * 0.01 + 1.0).cumprod(1)),
    ("cumlogsumexp", |x| x.cumlogsumexp(1)),
    ("matmul", |x| x.t().matmul(x)),
    ("softmax", |x| pytree::nn::softmax(x, 1)),
    ("logsumexp", |x| pytree::nn::logsumexp(x, 1)),
];

fn read(path: &Path, dtype: DType) -> Tensor {
    let bytes = std::fs::read(path).expect("the inputs are there");
    if dtype == DType::F32 {
        let numbers = bytes
            .chunks_exact(4)
            .map(|bytes| f32::from_le_bytes(bytes.try_into().unwrap()));
        Tensor::new([bytes.len() / 4], numbers.collect::<Vec<f32>>())
    } else {
        let numbers = bytes
            .chunks_exact(8)
            .map(|bytes| f64::from_le_bytes(bytes.try_into().unwrap()));
        Tensor::new([bytes.len() / 8], numbers.collect::<Vec<f64>>())
    }
}

/// Writes a result, once it was computed by operations and compiled with the same bits.
fn write<F>(folder: &Path, name: &str, function: F, x: &Tensor)
where
    F: Fn(&Tensor) -> Tensor + Clone + Send + Sync + 'static,
{
    let result = function(x).convert(DType::F64).to_vec::<f64>();
    let compiled = jit(move |x: Tensor| function(&x))(x.clone());
    let compiled = compiled.convert(DType::F64).to_vec::<f64>();
    let bytes = |numbers: &[f64]| -> Vec<u8> {
        numbers
            .iter()
            .flat_map(|number| number.to_le_bytes())
            .collect()
    };
    assert_eq!(bytes(&result), bytes(&compiled), "{name} compiled");
    let path = folder.join(format!("{}-{name}.out", x.dtype()));
    std::fs::write(path, bytes(&result)).expect("the folder can be written");
}

fn main() {
    let folder = std::env::args().nth(1).expect("usage: numerics FOLDER");
    let folder = Path::new(&folder);
    for dtype in [DType::F32, DType::F64] {
        let input = |group: &str| read(&folder.join(format!("{dtype}-{group}.in")), dtype);
        for (name, function) in UNARY {
            write(folder, name, function, &input(name));
        }
        let x = input("binary");
        let x = x.reshape([2, x.len() / 2]);
        for (name, function) in BINARY {
            let of_halves = move |x: &Tensor| function(&x.index(ix![0]), &x.index(ix![1]));
            write(folder, name, of_halves, &x);
        }
        let x = input("matrix");
        let x = x.reshape([x.len() / 96, 96]);
        for (name, function) in MATRICES {
            write(folder, name, function, &x);
        }
    }
}
