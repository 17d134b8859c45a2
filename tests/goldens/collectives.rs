//! Operations over named batch axes: values, gradients of first and second order, jvp, and vmap around them.

use pytree::collectives::Tiling;
use pytree::collectives::{
    AxisNames, all_gather, all_to_all, axis_index, pmax, pmean, pmin, ppermute, pshuffle, psum,
    psum_scatter,
};
use pytree::{DType, Tensor, grad, jit, vmap};
use serde_json::Value;

use crate::goldens::cases::check_file;
use crate::goldens::files::{lengths, read, tensor};
use crate::goldens::tolerance::assert_close;

fn axis(parameters: &Value) -> AxisNames {
    match &parameters["axis"] {
        Value::Array(names) => names.iter().map(|name| name.as_str().unwrap()).collect(),
        name => AxisNames::from(name.as_str().unwrap_or("i")),
    }
}

/// The function of an example.
fn example(name: &str, parameters: &Value, x: &[Tensor]) -> Tensor {
    let axis = axis(parameters);
    let number = |name: &str| parameters[name].as_i64().unwrap() as isize;
    let tiling = || match parameters["tiled"].as_bool().unwrap() {
        true => Tiling::Tiled,
        false => Tiling::Stacked,
    };
    let sin = || x[0].sin();
    match name {
        "psum" => psum(&sin(), axis) * &x[0],
        "psum of what is the same" => psum(&Tensor::from(1.0), axis) * sin(),
        "pmean" => pmean(&sin(), axis) * &x[0],
        "pmax" => pmax(&x[0].stop_gradient(), axis) * sin(),
        "pmin" => pmin(&x[0].stop_gradient(), axis) * sin(),
        "all_gather" => all_gather(&sin(), axis, number("at"), tiling()),
        "psum_scatter" => psum_scatter(&sin(), axis, number("at"), tiling()),
        "axis_index" => (axis_index(axis) + 1).convert(DType::F64) * sin(),
        "ppermute" => {
            let pairs = parameters["perm"].as_array().unwrap().iter().map(lengths);
            let pairs: Vec<(usize, usize)> = pairs.map(|pair| (pair[0], pair[1])).collect();
            ppermute(&sin(), axis, pairs) * &x[0]
        }
        "pshuffle" => pshuffle(&sin(), axis, lengths(&parameters["perm"])) * &x[0],
        "all_to_all" => all_to_all(&sin(), axis, number("split"), number("concat"), tiling()),
        "normalize" => {
            let mean = pmean(&x[0], axis.clone());
            let variance = pmean(&x[0].square(), axis) - mean.square();
            (&x[0] - mean) / (variance + 1e-2).sqrt()
        }
        "batch_norm" => {
            let centered = &x[0] - pmean(&x[0], axis.clone());
            let variance = pmean(&centered.square(), axis);
            centered / (variance + 1e-3).sqrt() * &x[1] + &x[2]
        }
        "plain psum" => psum(&x[0], axis),
        "plain pmean" => pmean(&x[0], axis),
        "plain pmax" => pmax(&x[0], axis),
        "plain pmin" => pmin(&x[0], axis),
        other => panic!("no operation for the case {other}"),
    }
}

type Function = Box<dyn Fn(Vec<Tensor>) -> Tensor + Send + Sync>;

/// The gradient of the sum with respect to the first operand.
fn slope(f: Function) -> Function {
    Box::new(move |x| {
        let rest = x[1..].to_vec();
        let whole = |first: &Tensor| f([std::slice::from_ref(first), &rest].concat()).sum();
        grad(whole)(&x[0])
    })
}

fn compiled(f: Function) -> Function {
    let compiled = jit(move |x: Vec<Tensor>| f(x));
    Box::new(move |x| (*compiled)(x))
}

fn apply(name: &str, parameters: &Value, x: &[Tensor]) -> Tensor {
    let of_example: Function = {
        let (name, parameters) = (name.to_owned(), parameters.clone());
        Box::new(move |x| example(&name, &parameters, &x))
    };
    let f = match parameters["inside"].as_str().unwrap_or("nothing") {
        "nothing" => of_example,
        "jit" => compiled(of_example),
        "grad" => slope(of_example),
        "grad of grad" => slope(slope(of_example)),
        "jit of grad" => compiled(slope(of_example)),
        "grad of jit" => slope(compiled(of_example)),
        other => panic!("{other} inside"),
    };
    if !parameters["axis"].is_null() {
        let inner = vmap(f).axis_name("j");
        return vmap(inner).axis_name("i")(x.to_vec());
    }
    let axes: Vec<Option<i32>> = (0..x.len()).map(|at| (at == 0).then_some(0)).collect();
    vmap(f).axis_name("i").in_axes(axes)(x.to_vec())
}

#[test]
fn collectives_match_jax() {
    check_file("collectives.json", 45, apply);
}

#[test]
fn collectives_of_special_numbers_match_jax() {
    let file = read("collectives.json");
    let special = &file["special"];
    let x = tensor(&special["x"]);
    let operations: [(&str, fn(Tensor) -> Tensor); 4] = [
        ("psum", |x| psum(&x, "i")),
        ("pmean", |x| pmean(&x, "i")),
        ("pmax", |x| pmax(&x, "i")),
        ("pmin", |x| pmin(&x, "i")),
    ];
    for (name, operation) in operations {
        let found = vmap(operation).axis_name("i")(x.clone());
        assert_close(name, &found, &tensor(&special[name]));
    }
}

#[test]
fn inner_of_equal_axis_names_wins() {
    let file = read("collectives.json");
    let shadowed = &file["shadowed"];
    let inner = vmap(|x: Tensor| psum(&x, "i")).axis_name("i");
    let found = vmap(inner).axis_name("i")(tensor(&shadowed["x"]));
    assert_close("shadowed", &found, &tensor(&shadowed["output"]));
}
