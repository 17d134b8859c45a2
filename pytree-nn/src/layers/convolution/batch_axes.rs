//! Any number of batch axes for operations that have one.

use pytree_transform::Tensor;

use crate::error::InputError;

/// Merges the batch axes of `x: [batch…, space…, features]` into one axis. Returns the result and the lengths of the
/// original batch axes.
///
/// # Errors
/// Returns [`InputError`] if `x` has fewer than `axes + 1` axes.
#[track_caller]
pub(super) fn with_one_batch_axis(
    layer: &'static str,
    x: &Tensor,
    axes: usize,
) -> Result<(Tensor, Vec<usize>), InputError> {
    let Some(batch_axes) = x.rank().checked_sub(axes + 1) else {
        return Err(InputError::input(
            layer,
            format!(
                "x: [batch.., {axes} spatial axes, features], because its window has {axes} axes"
            ),
            x,
            "pass x with all spatial axes and the features on the last axis, or create the layer with one size for each spatial axis of x",
        ));
    };
    let (batch, example) = x.shape().split_at(batch_axes);
    let flat = if batch_axes == 1 {
        x.clone()
    } else {
        let count: usize = batch.iter().product();
        x.reshape([&[count], example].concat())
    };
    Ok((flat, batch.to_vec()))
}

/// Splits the single batch axis of a result into the batch axes of the input.
#[track_caller]
pub(super) fn with_batch_axes(y: &Tensor, batch: &[usize]) -> Tensor {
    if batch.len() == 1 {
        return y.clone();
    }
    y.reshape([batch, &y.shape()[1..]].concat())
}
