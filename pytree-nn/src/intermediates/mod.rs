//! Intermediate values of a forward pass. [`Sown`] stores such values in the model. [`Perturbed`] makes gradients with
//! respect to such values available.
//!
//! Both types are used for fields of a model, so a misspelt name does not compile. The stored values are leaves of the
//! model like other states: `jit`, `vmap_mut` and `value_and_grad_mut` return them with the model.

mod capture;
mod named;
mod outputs;
mod perturbed;
mod sown;

pub use self::{capture::*, named::*, outputs::*, perturbed::*, sown::*};
