//! Convolutions and pooling.

use pytree::Tensor;
use pytree::convolution::{ConvDimensionNumbers, Convolution, Padding};
use pytree::pooling::{PaddingCount, Pooling};
use serde_json::Value;

use crate::goldens::cases::check_file;
use crate::goldens::files::{integers, lengths};

fn padding(value: &Value) -> Padding {
    match value.as_str() {
        Some("SAME") => Padding::Same,
        Some("SAME_LOWER") => Padding::SameLower,
        Some("VALID") => Padding::Valid,
        _ => {
            let pairs = value.as_array().unwrap().iter().map(integers);
            Padding::Explicit(pairs.map(|pair| (pair[0], pair[1])).collect())
        }
    }
}

fn convolution(parameters: &Value) -> Convolution {
    let mut convolution = Convolution::new(
        lengths(&parameters["strides"]),
        padding(&parameters["padding"]),
    );
    let given = |name: &str| parameters.get(name).filter(|value| !value.is_null());
    let count = |value: &Value| value.as_u64().unwrap() as usize;
    if let Some(dilation) = given("lhs_dilation") {
        convolution = convolution.input_dilation(lengths(dilation));
    }
    if let Some(dilation) = given("rhs_dilation") {
        convolution = convolution.kernel_dilation(lengths(dilation));
    }
    if let Some(groups) = given("feature_group_count") {
        convolution = convolution.feature_groups(count(groups));
    }
    if let Some(groups) = given("batch_group_count") {
        convolution = convolution.batch_groups(count(groups));
    }
    match given("dimension_numbers") {
        None => convolution,
        Some(letters) => {
            let letters: Vec<&str> = (0..3).map(|at| letters[at].as_str().unwrap()).collect();
            convolution.dimension_numbers(match letters[..] {
                ["NCHW", "OIHW", "NCHW"] => ConvDimensionNumbers::ChannelsFirst,
                _ => ConvDimensionNumbers::letters(letters[0], letters[1], letters[2]),
            })
        }
    }
}

/// The operation of a case in our words.
pub fn apply(name: &str, parameters: &Value, x: &[Tensor]) -> Tensor {
    let pooling = || {
        Pooling::new(lengths(&parameters["window"]))
            .strides(lengths(&parameters["strides"]))
            .padding(padding(&parameters["padding"]))
            .count_padding(match parameters["count_include_pad"].as_bool() {
                Some(false) => PaddingCount::Exclude,
                _ => PaddingCount::Include,
            })
    };
    match name {
        "conv" => convolution(parameters).apply(&x[0], &x[1]),
        "conv_transpose" => convolution(parameters).apply_transposed(&x[0], &x[1]),
        "max_pool" => pooling().max(&x[0]),
        "min_pool" => pooling().min(&x[0]),
        "average_pool" => pooling().average(&x[0]),
        "sum_pool" => pooling().sum(&x[0]),
        other => panic!("no operation for the case {other}"),
    }
}

#[test]
fn convolutions_and_pooling_are_as_in_jax() {
    check_file("convolution.json", 120, apply);
}
