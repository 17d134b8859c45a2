//! Every operation: values, gradients of first and second order, jvp, and vmap over several axes.

use pytree::Tensor;
use pytree::indexing::{Index, Step};
use pytree::nn::{gelu, log_softmax, logsumexp, mse, softmax, softmax_cross_entropy};
use serde_json::Value;

use crate::goldens::cases::check_file;
use crate::goldens::files::{dtype, integers, lengths};

/// The operation of a case in our words.
pub fn apply(name: &str, parameters: &Value, x: &[Tensor]) -> Tensor {
    let axes = || integers(&parameters["axes"]);
    let axis = || parameters["axis"].as_i64().unwrap() as isize;
    match name {
        "neg" => -&x[0],
        "exp" => x[0].exp(),
        "log" => x[0].log(),
        "tanh" => x[0].tanh(),
        "sin" => x[0].sin(),
        "cos" => x[0].cos(),
        "sqrt" => x[0].sqrt(),
        "logistic" => x[0].sigmoid(),
        "erf_inv" => x[0].erf_inv(),
        "abs" => x[0].abs(),
        "relu" => x[0].relu(),
        "gelu_tanh" => gelu(&x[0]),
        "integer_pow" => x[0].powi(parameters["y"].as_i64().unwrap() as i32),
        "add" => &x[0] + &x[1],
        "sub" => &x[0] - &x[1],
        "mul" => &x[0] * &x[1],
        "div" => &x[0] / &x[1],
        "maximum" => x[0].maximum(&x[1]),
        "minimum" => x[0].minimum(&x[1]),
        "eq" => x[0].equal(&x[1]),
        "ne" => x[0].not_equal(&x[1]),
        "lt" => x[0].less(&x[1]),
        "le" => x[0].less_equal(&x[1]),
        "gt" => x[0].greater(&x[1]),
        "ge" => x[0].greater_equal(&x[1]),
        "select" => x[0].select(&x[1], &x[2]),
        "xor" => x[0].bit_xor(&x[1]),
        "and" => &x[0] & &x[1],
        "or" => &x[0] | &x[1],
        "shift_right_logical" => x[0].shift_right(&x[1]),
        "convert" => x[0].convert(dtype(parameters["dtype"].as_str().unwrap())),
        "sum" => x[0].sum_axes(axes()),
        "reduce_max" => x[0].max_axes(axes()),
        "argmax" => x[0].argmax(axis()),
        "mean" => x[0].mean_axes(axes()),
        "var" => x[0].variance_axes(axes()),
        "matmul" => x[0].matmul(&x[1]),
        "transpose" => x[0].transpose(integers(&parameters["perm"])),
        "reshape" => x[0].reshape(lengths(&parameters["shape"])),
        "broadcast" => x[0].broadcast_to(lengths(&parameters["shape"])),
        "take" => x[0].take(&x[1], axis()),
        "slice" => {
            let bounds = integers(&parameters["start"])
                .into_iter()
                .zip(integers(&parameters["limit"]));
            let indices: Vec<Index> = bounds
                .zip(integers(&parameters["strides"]))
                .map(|((start, limit), stride)| Index::from(Step(start..limit, stride)))
                .collect();
            x[0].index(indices)
        }
        "pad" => {
            let padding: Vec<(isize, isize, usize)> = integers(&parameters["low"])
                .into_iter()
                .zip(integers(&parameters["high"]))
                .zip(lengths(&parameters["interior"]))
                .map(|((low, high), interior)| (low, high, interior))
                .collect();
            x[0].pad(parameters["value"].as_f64().unwrap(), padding)
        }
        "concatenate" => Tensor::concatenate(x, axis()),
        "softmax" => softmax(&x[0], axis()),
        "log_softmax" => log_softmax(&x[0], axis()),
        "logsumexp" => logsumexp(&x[0], axis()),
        "softmax_cross_entropy_with_integer_labels" => softmax_cross_entropy(&x[0], &x[1]).mean(),
        "mse" => mse(&x[0], &x[1]),
        other => panic!("no operation for the case {other}"),
    }
}

#[test]
fn every_operation_is_as_in_jax() {
    check_file("ops.json", 150, apply);
}
