//! Training and evaluation mode: a static field of layers, and functions that set this field in a whole model.

use pytree_core::{Filter, Pytree, Static, TreeError, edit, graph};

use crate::error::or_panic;

/// Whether a layer is in training mode or in evaluation mode.
#[derive(Static, Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Mode {
    /// Training: dropout drops elements, and batch normalisation uses the statistics of the batch.
    #[default]
    Train,
    /// Evaluation: dropout does nothing, and batch normalisation uses the running statistics.
    Eval,
}

/// Returns a copy of the model in which every [`Mode`] is [`Mode::Train`].
///
/// The copy has the leaves of the model, which share their memory, but its own shared nodes and
/// [references](pytree_core::Ref). So the model does not change, also where it holds a reference, and a write to a
/// reference of the copy does not reach the model. Places that share a node or a reference in the model share it in the
/// copy. The mode is part of the treedef, so `jit` compiles a function once for each mode.
///
/// # Panics
/// If a handwritten `Pytree` implementation in the model flattens and unflattens different children.
#[doc(alias("nnx.Module.train", "nn.Module.train"))]
#[must_use]
#[track_caller]
pub fn train<M: Pytree>(model: &M) -> M {
    or_panic(with_mode(model, Mode::Train))
}

/// Returns a copy of the model in which every [`Mode`] is [`Mode::Eval`]. The copy has its own references: see [`train`].
///
/// # Examples
/// ```
/// use pytree_nn::{Dropout, Rngs, eval, train};
/// use pytree_transform::Tensor;
/// let layers = vec![Dropout::new(0.5, &mut Rngs::new(0))];
/// let mut quiet = eval(&layers);
/// let x = Tensor::from([1.0_f32, 2.0]);
/// assert_eq!(quiet[0].forward(&x), x);
/// assert_eq!(train(&quiet), layers);
/// ```
///
/// # Panics
/// See [`train`].
#[doc(alias("nnx.Module.eval", "nn.Module.eval"))]
#[must_use]
#[track_caller]
pub fn eval<M: Pytree>(model: &M) -> M {
    or_panic(with_mode(model, Mode::Eval))
}

/// Runs a function with a copy of the model in evaluation mode, and returns its result: inference with a borrowed model. What the
/// function changes in the copy is dropped; the copy shares the memory of the leaves. Under `jit`, the copy is made when the function
/// is traced, and a call does not pay for it.
///
/// # Examples
/// ```
/// use pytree_nn::{BatchNorm, Rngs, infer};
/// use pytree_transform::{DType, Tensor, jit};
/// let norm = BatchNorm::new(3, &mut Rngs::new(0));
/// let predict = jit(|(norm, x): (&BatchNorm, Tensor)| infer(norm, |norm| norm.forward(&x)));
/// let x = Tensor::ones(DType::F32, [2, 3]);
/// assert_eq!(predict((&norm, x.clone())), infer(&norm, |norm| norm.forward(&x)));
/// ```
///
/// # Panics
/// See [`train`].
#[doc(alias("torch.inference_mode", "equinox.nn.inference_mode"))]
#[track_caller]
pub fn infer<M: Pytree, R>(model: &M, function: impl FnOnce(&mut M) -> R) -> R {
    function(&mut eval(model))
}

/// Returns a copy of the model in which each [`Mode`] whose path the filter selects is [`Mode::Train`]. The copy has its
/// own references: see [`train`].
///
/// # Panics
/// See [`eval_where`].
#[must_use]
#[track_caller]
pub fn train_where<M: Pytree>(model: &M, filter: &Filter) -> M {
    or_panic(edit::set_static(model, filter, Mode::Train))
}

/// Returns a copy of the model in which each [`Mode`] whose path the filter selects is [`Mode::Eval`]. The copy has its
/// own references: see [`train`].
///
/// To change all layers of one type, use [`edit::apply`]. To change other static fields, use [`edit::set_static`].
///
/// # Examples
/// Here, the body of a model keeps its running statistics, while dropout in the head stays active:
/// ```
/// use pytree_core::{Filter, edit};
/// use pytree_nn::{BatchNorm, Dropout, Mode, Rngs, eval_where};
/// let mut rngs = Rngs::new(0);
/// let body = vec![(BatchNorm::new(3, &mut rngs), Dropout::new(0.5, &mut rngs))];
/// let model = (body, Dropout::new(0.5, &mut rngs));
///
/// let (body, head) = eval_where(&model, &Filter::path("[0]"));
/// assert_eq!((body[0].0.mode, body[0].1.mode, head.mode), (Mode::Eval, Mode::Eval, Mode::Train));
///
/// let (body, head) = edit::apply(model, |dropout: &mut Dropout| dropout.mode = Mode::Eval);
/// assert_eq!((body[0].0.mode, body[0].1.mode, head.mode), (Mode::Train, Mode::Eval, Mode::Eval));
/// ```
///
/// # Panics
/// If the filter selects no mode, or has an unknown path. See [`edit::set_static`] for a fallible version.
#[doc(alias = "nnx.view")]
#[must_use]
#[track_caller]
pub fn eval_where<M: Pytree>(model: &M, filter: &Filter) -> M {
    or_panic(edit::set_static(model, filter, Mode::Eval))
}

fn with_mode<M: Pytree>(model: &M, mode: Mode) -> Result<M, TreeError> {
    let (leaves, treedef) = graph::try_flatten_any(model)?;
    graph::unflatten(&treedef.map_static(|_: &Mode| mode), leaves)
}
