//! What all reductions of windows share.

use std::fmt;

use pytree_base::lists::Tuple;
use pytree_kernels::base::dtype::{AbstractArray, DType};
use pytree_kernels::base::shape::PerAxis;
use pytree_kernels::loops::reduce_window::Window;

use crate::base::error::TensorError;
use crate::base::text_layout::pairs_tuple;
use crate::primitives::slice::inserted;
use crate::tensor::primitive::Division;

/// Returns the dtype and shape of the result, which has one element for each window. Returns an error if the
/// windows do not fit the operand.
pub(super) fn result(
    window: &Window,
    operation: &'static str,
    operand: &AbstractArray,
    base_dilation: Option<&[usize]>,
) -> Result<AbstractArray, TensorError> {
    if operand.dtype == DType::Bool {
        return Err(TensorError::dtype(operation, &[operand], "numbers"));
    }
    let ones: PerAxis = operand.shape.iter().map(|_| 1).collect();
    let dilation = base_dilation.unwrap_or(&ones);
    match window.result_shape(&operand.shape, dilation) {
        Some(shape) => Ok(AbstractArray {
            dtype: operand.dtype,
            shape,
        }),
        None => Err(TensorError::shape(
            operation,
            &[operand],
            format!(
                "windows of size {:?} with the strides {:?}, the padding {:?} and the dilation {dilation:?} do not fit the tensor",
                window.dimensions,
                window.strides,
                &window.padding[..]
            ),
            "for each axis, pass a size and a stride above 0, and a padding that removes at most the length of the axis",
        )),
    }
}

/// Returns the windows of a tensor with a new batch axis at position `batch`.
pub(super) fn batched(window: &Window, batch: usize) -> Window {
    Window {
        dimensions: inserted(&window.dimensions, batch, 1),
        strides: inserted(&window.strides, batch, 1),
        padding: inserted(&window.padding, batch, (0, 0)),
    }
}

/// Returns the axes along which each window has one element, and each element one window.
pub(super) fn apart(window: &Window) -> impl Iterator<Item = usize> {
    (0..window.dimensions.len()).filter(|&axis| {
        (
            window.dimensions[axis],
            window.strides[axis],
            window.padding[axis],
        ) == (1, 1, (0, 0))
    })
}

/// Returns the division of two operands along such an axis.
pub(super) fn division_of_pair(window: &Window, operand: &AbstractArray) -> Option<Division> {
    let mut division = Division::along(operand, apart(window))?;
    division.operands.push(Some(division.result));
    Some(division)
}

pub(super) fn write(window: &Window, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    write!(
        f,
        "padding={} window_dimensions={} window_strides={}",
        pairs_tuple(&window.padding),
        Tuple(&window.dimensions),
        Tuple(&window.strides)
    )
}
