//! Training and evaluation: a static value that layers hold, switched for a whole model at once.

use pytree_core::{Pytree, Static, TreeError, graph};

use crate::error::or_panic;

/// Whether a layer behaves as in training or as in use.
#[derive(Static, Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Mode {
    /// As in training: dropout drops.
    #[default]
    Train,
    /// As in use: dropout does nothing.
    Eval,
}

/// The model with every [`Mode`] in it set to [`Mode::Train`].
///
/// Leaves and sharing stay. The mode is part of the treedef, so a compiled function is compiled once
/// for each.
///
/// # Panics
/// If an implementation of `Pytree` in the model visits and unflattens differently.
#[must_use]
#[track_caller]
pub fn train<M: Pytree>(model: &M) -> M {
    or_panic(with_mode(model, Mode::Train))
}

/// The model with every [`Mode`] in it set to [`Mode::Eval`].
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
/// As [`train`].
#[must_use]
#[track_caller]
pub fn eval<M: Pytree>(model: &M) -> M {
    or_panic(with_mode(model, Mode::Eval))
}

fn with_mode<M: Pytree>(model: &M, mode: Mode) -> Result<M, TreeError> {
    let (leaves, treedef) = graph::flatten_any(model);
    graph::unflatten(&treedef.map_static(|_: &Mode| mode), leaves)
}
