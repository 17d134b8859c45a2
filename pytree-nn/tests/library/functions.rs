//! Functions of arrays against figures of JAX and scipy.

use pytree_nn::{digamma, lgamma, polygamma, sinc};
use pytree_transform::indexing::TakeMode;
use pytree_transform::padding::PadMode;
use pytree_transform::{DType, Tensor, grad, jit};
use serde_json::Value;

use crate::support::{close, golden, tensor};

fn special(name: &str, order: u32, x: &Tensor) -> Tensor {
    match name {
        "lgamma" => lgamma(x),
        "digamma" => digamma(x),
        "polygamma" => polygamma(order, x),
        "sinc" => sinc(x),
        other => panic!("no function `{other}`"),
    }
}

/// Each number within `relative` of the expected one, and near zeros of a function within `relative` itself.
#[track_caller]
fn near(found: &Tensor, expected: &Tensor, relative: f64, what: &str) {
    let numbers = |tensor: &Tensor| tensor.convert(DType::F64).to_vec::<f64>();
    for (found, expected) in numbers(found).into_iter().zip(numbers(expected)) {
        let is_same =
            found.to_bits() == expected.to_bits() || (found.is_nan() && expected.is_nan());
        let is_near = (found - expected).abs() <= relative * expected.abs().max(1.0);
        assert!(
            is_same || is_near,
            "{what}: found {found}, expected {expected}"
        );
    }
}

#[test]
fn special_functions_and_slopes_match_scipy() {
    for case in golden("functions")["special"].as_array().unwrap() {
        let name = case["name"].as_str().unwrap().to_owned();
        let order = u32::try_from(case["order"].as_u64().unwrap_or(0)).unwrap();
        let x = tensor(&case["x"]);
        let function = move |x: &Tensor| special(&name, order, x);
        let (y, slope) = (tensor(&case["y"]), tensor(&case["slope"]));
        let what = format!("{} {order}", case["name"]);
        near(&function(&x), &y, 1e-12, &what);
        let of_sum = {
            let function = function.clone();
            move |x: &Tensor| function(x).sum()
        };
        near(
            &grad(of_sum.clone())(&x),
            &slope,
            1e-12,
            &format!("slope of {what}"),
        );
        near(
            &jit(grad(of_sum))(x.clone()),
            &slope,
            1e-12,
            &format!("compiled slope of {what}"),
        );
        // The least argument in f32, 1e-8, and arguments near poles lose digits when they are rounded.
        let narrow = Tensor::from([0.25_f32, 1.0, 2.5, 10.0, 100.0]);
        near(
            &function(&narrow),
            &function(&narrow.convert(DType::F64)),
            4e-6,
            &format!("{what} in f32"),
        );
    }
}

#[test]
fn special_functions_at_edges_match_jax() {
    let edges = &golden("functions")["special_edges"];
    let x = tensor(&edges["x"]);
    for name in ["lgamma", "digamma"] {
        near(&special(name, 0, &x), &tensor(&edges[name]), 1e-12, name);
    }
}

#[test]
fn special_functions_lower_without_chlo() {
    let x = Tensor::from([0.5_f32, 2.0]);
    let slopes = |x: Tensor| {
        let of_sum = |function: fn(&Tensor) -> Tensor| move |x: &Tensor| function(x).sum();
        (
            grad(of_sum(lgamma))(&x),
            grad(of_sum(digamma))(&x),
            sinc(&x),
        )
    };
    let module = jit(slopes).stablehlo(&x);
    assert!(module.text().contains("stablehlo.log"));
    let operations = module.text().replace("stablehlo.", "");
    assert!(!operations.contains("chlo."), "{operations}");
}

#[test]
fn padding_modes_match_numpy() {
    let cases = golden("functions")["padding"].clone();
    assert_eq!(cases.as_array().unwrap().len(), 45);
    for case in cases.as_array().unwrap() {
        let mode = match case["mode"].as_str().unwrap() {
            "edge" => PadMode::Edge,
            "reflect" => PadMode::Reflect,
            "symmetric" => PadMode::Symmetric,
            "wrap" => PadMode::Wrap,
            "linear_ramp" => PadMode::LinearRamp(2.5),
            "maximum" => PadMode::Maximum,
            "minimum" => PadMode::Minimum,
            "mean" => PadMode::Mean,
            "median" => PadMode::Median,
            other => panic!("no mode `{other}`"),
        };
        let pair =
            |pair: &Value| [0, 1].map(|end| usize::try_from(pair[end].as_u64().unwrap()).unwrap());
        let widths: Vec<(usize, usize)> = case["widths"]
            .as_array()
            .unwrap()
            .iter()
            .map(pair)
            .map(|[low, high]| (low, high))
            .collect();
        let x = tensor(&case["x"]);
        let what = format!("{} of {} by {}", case["mode"], x, case["widths"]);
        let weights = tensor(&case["weights"]);
        let pad = move |x: &Tensor| x.pad_mode(mode, &widths);
        assert_eq!(pad(&x).shape(), tensor(&case["y"]).shape(), "{what}");
        near(&pad(&x), &tensor(&case["y"]), 1e-14, &what);
        let found = grad(|x: &Tensor| (pad(x) * &weights).sum())(&x);
        near(
            &found,
            &tensor(&case["gradient"]),
            1e-14,
            &format!("gradient of {what}"),
        );
    }
}

#[test]
fn taking_modes_match_jax() {
    for case in golden("functions")["taking"].as_array().unwrap() {
        let mode = match case["mode"].as_str().unwrap() {
            "clip" => TakeMode::Clip,
            "wrap" => TakeMode::Wrap,
            _ => TakeMode::Fill(7.5),
        };
        let axis = isize::try_from(case["axis"].as_i64().unwrap()).unwrap();
        let (x, indices) = (tensor(&case["x"]), tensor(&case["indices"]));
        assert_eq!(
            x.take_mode(&indices, axis, mode),
            tensor(&case["y"]),
            "{mode:?}"
        );
        let weights = tensor(&case["weights"]);
        let taken = |x: &Tensor| (x.take_mode(&indices, axis, mode) * &weights).sum();
        assert_eq!(grad(taken)(&x), tensor(&case["gradient"]), "{mode:?}");
    }
}

fn segments(name: &str, x: &Tensor, indices: &Tensor) -> Tensor {
    match name {
        "segment_sum" => x.segment_sum(indices, 5),
        "segment_prod" => x.segment_prod(indices, 5),
        "segment_max" => x.segment_max(indices, 5),
        "segment_min" => x.segment_min(indices, 5),
        other => panic!("no function `{other}`"),
    }
}

#[test]
fn segments_match_jax() {
    for case in golden("functions")["segments"].as_array().unwrap() {
        let name = case["name"].as_str().unwrap();
        let (x, indices) = (tensor(&case["x"]), tensor(&case["indices"]));
        near(
            &segments(name, &x, &indices),
            &tensor(&case["y"]),
            1e-15,
            name,
        );
        if case["weights"].is_null() {
            continue;
        }
        let weights = tensor(&case["weights"]);
        let loss = |x: &Tensor| {
            let y = segments(name, x, &indices);
            (&y * &weights).sum_where(&y.isfinite())
        };
        near(
            &grad(loss)(&x),
            &tensor(&case["gradient"]),
            1e-15,
            &format!("gradient of {name}"),
        );
    }
}

#[test]
fn product_of_segments_has_gradient() {
    let indices = Tensor::from([0, 1, 0, 0]);
    let x = Tensor::from([2.0, 3.0, 5.0, 0.5]);
    let found = grad(|x: &Tensor| x.segment_prod(&indices, 2).sum())(&x);
    close(
        &found,
        &Tensor::from([2.5, 1.0, 1.0, 10.0]),
        1e-15,
        "gradient",
    );
}

#[test]
fn dot_matches_jax() {
    for case in golden("functions")["dots"].as_array().unwrap() {
        let (x, y) = (tensor(&case["x"]), tensor(&case["y"]));
        let expected = tensor(&case["dot"]);
        assert_eq!(x.dot(&y).info(), expected.info());
        near(&x.dot(&y), &expected, 1e-14, &format!("dot of {x} and {y}"));
    }
}

#[test]
fn mistakes_are_named() {
    let x = Tensor::from([1.0, 2.0]);
    let error = x.try_pad_mode(PadMode::Edge, [(1, 1), (0, 0)]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "cannot pad_mode f64[2]: there are 2 pairs of widths for 1 axes; pass one pair of widths for each axis"
    );
    let empty = Tensor::zeros(DType::F32, [0]);
    let error = empty
        .try_pad_mode(PadMode::Wrap, [(1, 0)])
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("axis 0 has no elements to pad with"),
        "{error}"
    );
    let error = x
        .try_segment_sum(&Tensor::from([0]), 2)
        .unwrap_err()
        .to_string();
    assert!(error.contains("pass one index for each row"), "{error}");
    let error = x
        .try_take_mode(&x, 0, TakeMode::Wrap)
        .unwrap_err()
        .to_string();
    assert!(error.contains("expected integers as indices"), "{error}");
}
