//! Neural networks on pytrees: random numbers, layers, losses, optimizers and summaries.
//!
//! This crate consists of modules and functions of tensors. To
//! write your own layer, derive `Module` for a struct. To write your own optimizer, implement
//! [`GradientTransformation`].
//!
//! # Examples
//! A compiled training step:
//! ```
//! use pytree_nn::{Activation, Mlp, Optimizer, Rngs, adam, softmax_cross_entropy};
//! use pytree_transform::{DType, Tensor, jit, value_and_grad};
//!
//! let mut rngs = Rngs::new(0);
//! let mut model = Mlp::new(&[4, 16, 3], Activation::Relu, &mut rngs);
//! let mut optimizer = Optimizer::new(&model, adam(1e-2));
//! let x = rngs.normal(DType::F32, [8, 4]);
//! let y = Tensor::from([0, 1, 2, 0, 1, 2, 0, 1]);
//!
//! let step = jit(|(mut model, mut optimizer, x, y): (Mlp, Optimizer<Mlp>, Tensor, Tensor)| {
//!     let loss = |model: &Mlp| softmax_cross_entropy(&model.forward(&x), &y).mean();
//!     let (loss, gradients) = value_and_grad(loss)(&model);
//!     optimizer.update(&mut model, &gradients);
//!     (model, optimizer, loss)
//! });
//! let mut losses = Vec::new();
//! for _ in 0..20 {
//!     let loss;
//!     (model, optimizer, loss) = step((model, optimizer, x.clone(), y.clone()));
//!     losses.push(loss.item::<f32>());
//! }
//! assert!(losses[19] < losses[0]);
//! ```

mod convert_floats;
mod error;
pub mod functions;
mod hyperparameter;
mod initializers;
pub mod intermediates;
pub mod layers;
pub mod losses;
pub mod metrics;
mod mixed_precision;
mod model;
pub mod optimizers;
pub mod random;
pub mod schedules;
mod summary;

pub use self::{
    functions::*, intermediates::*, layers::*, losses::*, optimizers::*, random::*, schedules::*,
};
pub use convert_floats::convert_floats;
pub use error::InputError;
pub use hyperparameter::{Hyperparameter, NamedHyperparameter};
pub use initializers::{Distribution, Fan, FanAxes, Initializer};
pub use metrics::functions::{accuracy, confusion_matrix, try_accuracy, try_confusion_matrix};
pub use mixed_precision::MixedPrecision;
pub use model::Model;
pub use summary::{Summary, SummaryRow, summary};

/// Items that the macros of this crate refer to.
#[doc(hidden)]
pub mod private {
    pub use pytree_transform::Tensor;
}
