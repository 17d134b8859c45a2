//! Jaxprs print as in JAX, and are valid.

use pytree::indexing::Step;
use pytree::transform::verify;
use pytree::{DType, Jaxpr, Tensor, ix, jit, make_jaxpr};
use serde_json::Value;

use crate::goldens::files::read;

fn sine(x: Tensor) -> Tensor {
    x.sin()
}

fn scaled(x: Tensor) -> Tensor {
    x.sin() * x
}

fn twice(x: Tensor) -> Tensor {
    jit(sine)(x.clone()) * x
}

fn repeated(x: Tensor, times: usize) -> Tensor {
    (0..times).fold(x, |x, _| x.sin())
}

fn long(x: Tensor) -> Tensor {
    repeated(x, 11)
}

fn zeros(info: &Value) -> Tensor {
    let dtype = match info["dtype"].as_str().unwrap() {
        "f32" => DType::F32,
        "i32" => DType::I32,
        "u32" => DType::U32,
        "bool" => DType::Bool,
        other => panic!("element type {other}"),
    };
    let shape = info["shape"].as_array().unwrap().iter();
    let shape: Vec<usize> = shape.map(|n| n.as_u64().unwrap() as usize).collect();
    Tensor::zeros(dtype, shape)
}

/// The results of a program of `jaxpr_goldens.py`.
fn run(name: &str, inputs: Vec<Tensor>) -> Vec<Tensor> {
    let (x, y) = (&inputs[0], inputs.get(1).unwrap_or(&inputs[0]));
    vec![match name {
        "one equation" => x.sin(),
        "two on a line" => x.sqrt().sigmoid(),
        "three on lines" => x.sin() * x + x,
        "quotients" => x.exp() / x.tanh() - x.log(),
        "unary" => (-x.cos()).abs().sign().erf_inv(),
        "extrema" => x.minimum(y).maximum(y),
        "powers" => x.powi(3) * x.powi(-1),
        "sum of all" => x.sum(),
        "reductions" => x.sum_axes([0]).max_axes([0]),
        "position" => x.argmax(1),
        "other axes" => x.t().reshape([6]),
        "broadcast" => x + y,
        "product" => x.matmul(y),
        "conditions" => (x.less(y) & !x.greater_equal(y)) | x.equal(y),
        "conversion" => x.convert(DType::I32),
        "from bool" => x.convert(DType::F32),
        "positions" => x + Tensor::arange(DType::F32, 3),
        "slice" => x.index(ix![.., 1..]),
        "every second" => x.index(ix![.., Step(.., 2)]),
        "one behind the other" => Tensor::concatenate(&[x.clone(), x.clone()], 1),
        "backwards" => x.reverse([0, 1]),
        "shifts" => x.shift_left(y).bit_xor(x.shift_right(y)),
        "integers" => x * y - x,
        "no derivative" => x.stop_gradient(),
        "literals" => 1.0 - x * 2.5,
        "literal of integers" => x * 2 + -3,
        "outputs" => return vec![x.sin(), x.clone()],
        "no equation" => x.clone(),
        "unused" => {
            let _ = x.sin();
            x.cos()
        }
        "unused input" => y.sin(),
        "many names" => repeated(x.clone(), 30),
        "call" => jit(scaled)(x.clone()) + x,
        "two calls" => jit(sine)(x.clone()) + jit(scaled)(x.clone()),
        "call in a call" => jit(twice)(x.clone()),
        "the same call twice" => {
            let inner = jit(sine);
            inner(inner(x.clone()))
        }
        "a long call" => jit(long)(x.clone()),
        "many operands" => Tensor::concatenate(&inputs, 0),
        other => panic!("no program is called {other}"),
    }]
}

#[test]
fn jaxprs_print_as_those_of_jax() {
    let file = read("jaxprs.json");
    let cases = file["cases"].as_array().unwrap();
    assert_eq!(cases.len(), 37);
    let mut differences = Vec::new();
    for case in cases {
        let name = case["name"].as_str().unwrap().to_owned();
        let inputs: Vec<Tensor> = case["inputs"]
            .as_array()
            .unwrap()
            .iter()
            .map(zeros)
            .collect();
        let program = name.clone();
        let jaxpr: Jaxpr = make_jaxpr(move |inputs: Vec<Tensor>| run(&program, inputs))(inputs);
        assert_eq!(verify(&jaxpr), Ok(()), "{name}");
        let expected = case["text"].as_str().unwrap();
        if jaxpr.to_string() != expected {
            differences.push(format!(
                "{name}: JAX prints\n{expected}\nand pytree\n{jaxpr}\n"
            ));
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}
