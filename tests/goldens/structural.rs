//! Reductions, running reductions, sorting, parts and their updates, products.

use pytree::indexing::{Index, Step};
use pytree::update::At;
use pytree::{DType, Reversed, Tensor, einsum, ix};
use serde_json::Value;

use crate::goldens::cases::check_file;
use crate::goldens::files::{integers, lengths, read};

/// The part of a matrix that a case names.
fn place(name: &str) -> Vec<Index> {
    match name {
        "rows" => ix![1..].to_vec(),
        "column" => ix![.., -1].to_vec(),
        "steps" => ix![Step(.., 2), 1..].to_vec(),
        "backwards" => ix![Step(.., -1)].to_vec(),
        "position" => ix![0, 1].to_vec(),
        other => panic!("no place {other}"),
    }
}

/// A part changed as the last word of the name says.
fn updated(name: &str, part: &At<'_>, value: &Tensor) -> Tensor {
    match name.rsplit('_').next().unwrap() {
        "set" => part.set(value),
        "add" => part.add(value),
        "multiply" => part.multiply(value),
        "min" => part.min(value),
        _ => part.max(value),
    }
}

/// The operation of a case in our words.
pub fn apply(name: &str, parameters: &Value, x: &[Tensor]) -> Tensor {
    let integer = |name: &str| parameters[name].as_i64().unwrap() as isize;
    let count = |name: &str| parameters[name].as_u64().unwrap() as usize;
    let axes = || integers(&parameters["axes"]);
    let axis = || integer("axis");
    let reverse = || parameters["reverse"].as_bool().unwrap();
    match name {
        "min" => x[0].min_axes(axes()),
        "min_keep" => x[0].min_keep(axes()),
        "argmin" => x[0].argmin(axis()),
        "prod" => x[0].prod_axes(axes()),
        "prod_keep" => x[0].prod_keep(axes()),
        "all" => x[0].all_axes(axes()),
        "any" => x[0].any_axes(axes()),
        "count_nonzero" => x[0].count_nonzero_axes(axes()),
        "cumsum" if reverse() => x[0].cumsum(Reversed(axis())),
        "cumprod" if reverse() => x[0].cumprod(Reversed(axis())),
        "cummax" if reverse() => x[0].cummax(Reversed(axis())),
        "cummin" if reverse() => x[0].cummin(Reversed(axis())),
        "cumlogsumexp" if reverse() => x[0].cumlogsumexp(Reversed(axis())),
        "cumsum" => x[0].cumsum(axis()),
        "cumprod" => x[0].cumprod(axis()),
        "cummax" => x[0].cummax(axis()),
        "cummin" => x[0].cummin(axis()),
        "cumlogsumexp" => x[0].cumlogsumexp(axis()),
        "sort" => x[0].sort(axis()),
        "argsort" => x[0].argsort(axis()),
        "top_k" => x[0].top_k(count("k")).0,
        "top_k_indices" => x[0].top_k(count("k")).1,
        "searchsorted" => x[0].searchsorted(&x[1]),
        "take_along_axis" => x[0].take_along_axis(&x[1], axis()),
        "dynamic_slice" => {
            x[0].dynamic_slice(&[x[1].clone(), x[2].clone()], lengths(&parameters["sizes"]))
        }
        "dynamic_update_slice" => {
            x[0].dynamic_update_slice(&x[1], &vec![x[2].clone(); count("rank")])
        }
        "at_indices_get" => x[0].at_indices(&x[1], axis()).get(),
        "at_indices_min" | "at_indices_max" => {
            let value = Tensor::from([3, -4, 5, 0]);
            updated(name, &x[0].at_indices(&x[1], axis()), &value)
        }
        "at_indices_set" | "at_indices_add" | "at_indices_multiply" => {
            updated(name, &x[0].at_indices(&x[1], axis()), &x[2])
        }
        "at_set" | "at_add" | "at_multiply" | "at_min" | "at_max" => {
            let indices = place(parameters["place"].as_str().unwrap());
            updated(name, &x[0].at(indices), &x[1])
        }
        "tril" => x[0].tril(integer("k")),
        "triu" => x[0].triu(integer("k")),
        "diag" => x[0].diag(integer("k")),
        "diagonal" => x[0].diagonal(integer("k"), axes()[0], axes()[1]),
        "trace" => x[0].trace(),
        "roll" => x[0].roll(integer("shift"), axis()),
        "tile" => x[0].tile(lengths(&parameters["repeats"])),
        "repeat" => x[0].repeat(count("repeats"), axis()),
        "split" => x[0]
            .split(count("parts"), axis())
            .swap_remove(count("part")),
        "array_split" => x[0]
            .array_split(count("parts"), axis())
            .swap_remove(count("part")),
        "split_at" => {
            let positions = lengths(&parameters["positions"]);
            x[0].split_at(positions, axis()).swap_remove(count("part"))
        }
        "expand_dims" => x[0].expand_dims(axes()),
        "squeeze" => x[0].squeeze(axes()),
        "swap_axes" => x[0].swap_axes(axes()[0], axes()[1]),
        "linspace" => {
            let (start, end) = (integer("start") as f64, integer("end") as f64);
            &x[0] * Tensor::linspace(x[0].dtype(), start, end, 5)
        }
        "meshgrid" => Tensor::meshgrid(x).swap_remove(count("part")),
        "einsum" => {
            let operands: Vec<&Tensor> = x.iter().collect();
            einsum(parameters["subscripts"].as_str().unwrap(), &operands)
        }
        "dot_general" => x[0].dot_general(&x[1], (&[2], &[0]), (&[0], &[2])),
        "tensordot" => {
            let (left, right) = (
                integers(&parameters["left"]),
                integers(&parameters["right"]),
            );
            x[0].tensordot(&x[1], (&left, &right))
        }
        "outer" => x[0].outer(&x[1]),
        "inner" => x[0].inner(&x[1]),
        "vdot" => x[0].vdot(&x[1]),
        "kron" => x[0].kron(&x[1]),
        "norm" if parameters["zero"].is_boolean() => (&x[0] * 0.0).norm_axes(axes()),
        "norm" => x[0].norm_axes(axes()),
        other => panic!("no operation for the case {other}"),
    }
}

#[test]
fn structural_operations_are_as_in_jax() {
    check_file("structural.json", 280, apply);
}

#[test]
fn lists_of_axes_are_accepted_as_in_jax() {
    let file = read("structural.json");
    let cases = file["axes"].as_array().unwrap();
    assert_eq!(cases.len(), 455);
    for case in cases {
        let x = Tensor::zeros(DType::F32, lengths(&case["shape"]));
        let axes = integers(&case["axes"]);
        let found = match case["name"].as_str().unwrap() {
            "expand_dims" => x.try_expand_dims(&axes),
            "squeeze" => x.try_squeeze(&axes),
            "sum" => x.try_sum_axes(&axes),
            other => panic!("no operation for the case {other}"),
        };
        let expected = (!case["result"].is_null()).then(|| lengths(&case["result"]));
        assert_eq!(
            found.ok().map(|found| found.shape().to_vec()),
            expected,
            "{case}"
        );
    }
}

#[test]
fn indexed_extrema_share_gradients() {
    // JAX has no such derivative; a reduction over what meets at a position is the same function.
    let (x, at) = (Tensor::from([1.0, 2.0]), Tensor::from([0, 0, 1]));
    let y = Tensor::from([1.0, 0.5, 1.5]);
    let scattered = pytree::grad(|(x, y): &(Tensor, Tensor)| {
        let weights = Tensor::from([3.0, 5.0]);
        (x.at_indices(&at, 0).max(y) * weights).sum()
    })(&(x, y));
    assert_eq!(scattered.0, Tensor::from([1.5, 5.0]));
    assert_eq!(scattered.1, Tensor::from([1.5, 0.0, 0.0]));
    assert_eq!(scattered.0.dtype(), DType::F64);
}
