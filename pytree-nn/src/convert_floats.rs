//! Converts the floats of a whole model to one dtype.

use pytree_core::{PytreeOf, graph};
use pytree_transform::{DType, Tensor};

/// Returns the model with all tensors of floats converted to `dtype`.
///
/// Parameters and states, for example running statistics, are converted. Integers, bools, random keys and static fields
/// do not change. Shared nodes stay shared. The result has new references, and the references of `model` do not change.
///
/// To draw initial values in `dtype`, create the layers in `dtype`, for example with
/// [`LinearOptions`](crate::LinearOptions). Conversion does not add precision to values that were drawn in another
/// dtype.
///
/// # Examples
/// ```
/// use pytree_nn::{Activation, Mlp, Optimizer, Rngs, adam, convert_floats};
/// use pytree_transform::{DType, Tensor};
/// let model = Mlp::new(&[2, 8, 1], Activation::Tanh, &mut Rngs::new(0));
/// let model = convert_floats(&model, DType::F64);
/// let y = model.forward(&Tensor::ones(DType::F64, [4, 2]));
/// assert_eq!(y.dtype(), DType::F64);
/// // The optimizer is created after the conversion, or converted together with the model.
/// let optimizer = Optimizer::new(&model, adam(1e-3));
/// let (model, optimizer) = convert_floats(&(model, optimizer), DType::F32);
/// assert_eq!(model.layers[0].weight.dtype(), DType::F32);
/// # let _ = optimizer;
/// ```
///
/// # Panics
/// If `dtype` is not a float, or if a tensor of the model is traced and its transformation has finished.
#[must_use]
#[track_caller]
pub fn convert_floats<M: PytreeOf<Tensor>>(model: &M, dtype: DType) -> M {
    assert!(
        dtype.is_float(),
        "cannot convert the floats of a model to {dtype}: expected a float dtype; to convert a single tensor to another dtype, use `.convert(…)`"
    );
    graph::map(model, |leaf: &Tensor| {
        if leaf.dtype().is_float() {
            leaf.convert(dtype)
        } else {
            leaf.clone()
        }
    })
}
