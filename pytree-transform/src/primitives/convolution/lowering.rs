//! The lowering rule: one `stablehlo.convolution`.

use std::fmt;

use pytree_kernels::base::dtype::AbstractArray;
use pytree_kernels::loops::convolution::{Axes, Convolution, DimensionNumbers};

use crate::tensor::stablehlo::{Array64, Block, Padding, Value};

/// Writes the convolution, whose result has the dtype and shape `result`.
pub(super) fn lowered(
    convolution: &Convolution,
    block: &mut Block<'_>,
    operands: &[Value],
    result: &AbstractArray,
) -> Value {
    // Without the highest precision, a TPU would round f32 to bf16.
    let attributes = format_args!(
        "batch_group_count = {} : i64, dimension_numbers = {}, feature_group_count = {} : i64, lhs_dilation = {}, padding = {}, precision_config = [#stablehlo<precision HIGHEST>, #stablehlo<precision HIGHEST>], rhs_dilation = {}, window_strides = {}",
        convolution.batch_groups,
        Numbers(&convolution.numbers),
        convolution.feature_groups,
        Array64(&convolution.input_dilation),
        Padding(&convolution.padding),
        Array64(&convolution.kernel_dilation),
        Array64(&convolution.strides),
    );
    let operands = [&operands[0], &operands[1]];
    block.operation(
        "stablehlo.convolution",
        &operands,
        attributes,
        result.clone(),
    )
}

/// Displays dimension numbers as StableHLO writes them, for instance `#stablehlo.conv<[b, 0, f]x[0, i, o]->[b, 0, f]>`.
struct Numbers<'a>(&'a DimensionNumbers);

impl fmt::Display for Numbers<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let DimensionNumbers {
            input,
            kernel,
            result,
        } = self.0;
        f.write_str("#stablehlo.conv<")?;
        write_axes(f, input, 'b', 'f')?;
        f.write_str("x")?;
        write_axes(f, kernel, 'o', 'i')?;
        f.write_str("->")?;
        write_axes(f, result, 'b', 'f')?;
        f.write_str(">")
    }
}

/// Writes the meaning of each axis of an array: a letter, or the index of a spatial axis.
fn write_axes(f: &mut fmt::Formatter<'_>, axes: &Axes, outer: char, features: char) -> fmt::Result {
    f.write_str("[")?;
    for axis in 0..axes.space.len() + 2 {
        if axis > 0 {
            f.write_str(", ")?;
        }
        match axes.space.iter().position(|&spatial| spatial == axis) {
            Some(number) => write!(f, "{number}")?,
            None if axis == axes.outer => write!(f, "{outer}")?,
            None => write!(f, "{features}")?,
        }
    }
    f.write_str("]")
}
