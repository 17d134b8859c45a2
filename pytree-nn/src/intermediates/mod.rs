//! Intermediate values of a forward pass: values stored in the model, and zeros added to values to
//! obtain their gradients.
//!
//! Both are fields of a model, so a misspelt name does not compile. The stored values are leaves of
//! a collection like any others: `jit`, `vmap_mut` and `value_and_grad_mut` return them with the
//! model.

mod capture;
mod named;
mod perturbed;
mod sown;

pub use capture::{capture, try_capture};
pub use named::Intermediates;
pub use perturbed::{PerturbationError, Perturbed};
pub use sown::Sown;
