//! Special functions of single numbers. Rust's standard library lacks these functions, or computes them inaccurately
//! for some arguments.

pub(crate) mod erf;
pub mod erf_inv;
mod polynomial;
pub(crate) use erf::{erf_f32, erf_f64, erfc_f32, erfc_f64};
pub(crate) use erf_inv::{central_erf_inv_f64, erf_inv_f32, erf_inv_f64, is_central};
