//! What a forward pass computes on its way: values kept in the model, and zeros added to values whose gradient is
//! wanted.
//!
//! Both are fields of a model, so that a misspelt name does not compile. What is kept are leaves of a collection
//! like any others: it comes out of `jit`, `vmap_mut` and `value_and_grad_mut` with the model.

mod capture;
mod named;
mod perturbed;
mod sown;

pub use capture::{capture, try_capture};
pub use named::Intermediates;
pub use perturbed::{PerturbationError, Perturbed};
pub use sown::Sown;
