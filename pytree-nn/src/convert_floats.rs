//! Converts the floats of a whole model to one dtype.
//!
//! Running statistics, moments, averages and metrics change by small steps. In half precision such a step rounds to
//! nothing, so the states of the collections [`BatchStat`] and [`OptState`] are never narrower than f32, and the states of
//! the collection [`Metric`] keep their dtype.

use pytree_core::kind::{BatchStat, Metric, OptState};
use pytree_core::{CollectionId, LeafKind, PytreeOf, graph};
use pytree_transform::{DType, Tensor};

/// Returns the model with all tensors of floats converted to `dtype`.
///
/// Parameters and states are converted. Integers, bools, random keys and static fields do not change. Shared nodes stay
/// shared. The result has new references, and the references of `model` do not change.
///
/// If `dtype` is bf16 or f16, the states that accumulate are converted to f32: running statistics
/// ([`BatchStat`](pytree_core::kind::BatchStat)) and the states of optimizers
/// ([`OptState`](pytree_core::kind::OptState)). A half-precision float has 8 or 11 bits, so a running mean with a
/// momentum of 0.99 would not move. The states of metrics ([`Metric`](pytree_core::kind::Metric)) are not converted.
///
/// To draw initial values in `dtype`, create the layers in `dtype`, for example with
/// [`LinearOptions`](crate::LinearOptions). Conversion does not add precision to values that were drawn in another
/// dtype.
///
/// # Examples
/// ```
/// use pytree_nn::{Activation, BatchNorm, Mlp, Optimizer, Rngs, adam, convert_floats};
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
/// let norm = convert_floats(&BatchNorm::new(2, &mut Rngs::new(0)), DType::BF16);
/// assert_eq!(norm.scale.map(|scale| scale.dtype()), Some(DType::BF16));
/// assert_eq!(norm.mean.dtype(), DType::F32);
/// ```
///
/// # Panics
/// If `dtype` is not a float, or if a tensor of the model is traced and its transformation has finished.
#[doc(alias("torch.nn.Module.double", "torch.nn.Module.half"))]
#[must_use]
#[track_caller]
pub fn convert_floats<M: PytreeOf<Tensor>>(model: &M, dtype: DType) -> M {
    check_float(dtype);
    let mut kinds = graph::structure(model).leaf_kinds().into_iter();
    graph::map(model, |leaf: &Tensor| {
        converted(leaf, kinds.next().flatten().as_ref(), dtype)
    })
}

/// Panics if the floats of a model cannot be converted to `dtype`.
#[track_caller]
pub(crate) fn check_float(dtype: DType) {
    assert!(
        dtype.is_float(),
        "cannot convert the floats of a model to {dtype}: expected a float dtype; to convert a single tensor to another dtype, use `.convert(…)`"
    );
}

/// Returns a leaf of a model whose floats are converted to `dtype`.
pub(crate) fn converted(leaf: &Tensor, kind: Option<&LeafKind>, dtype: DType) -> Tensor {
    if !leaf.dtype().is_float() || is_in::<Metric>(kind) {
        leaf.clone()
    } else if is_in::<BatchStat>(kind) || is_in::<OptState>(kind) {
        leaf.convert(dtype.max(DType::F32))
    } else {
        leaf.convert(dtype)
    }
}

/// Returns whether a leaf is a state of the collection `C`.
fn is_in<C: pytree_core::kind::Collection>(kind: Option<&LeafKind>) -> bool {
    matches!(kind, Some(LeafKind::State(found)) if found.is_in(&CollectionId::of::<C>()))
}

/// Converts the tensor to f32 if its dtype is a half-precision float. Returns other tensors unchanged.
#[track_caller]
pub(crate) fn at_least_f32(tensor: &Tensor) -> Tensor {
    tensor.convert(at_least_f32_dtype(tensor.dtype()))
}

/// Returns f32 for half-precision floats, and other dtypes unchanged.
pub(crate) fn at_least_f32_dtype(dtype: DType) -> DType {
    if dtype.is_float() && dtype.bytes() < DType::F32.bytes() {
        DType::F32
    } else {
        dtype
    }
}
