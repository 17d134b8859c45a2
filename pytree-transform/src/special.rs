//! Special functions.
pub(crate) fn erf_inv_f32(_x: f32) -> f32 { unimplemented!() }
pub(crate) fn erf_inv_f64(_x: f64) -> f64 { unimplemented!() }
pub(crate) fn erf_f32(_x: f32) -> f32 { unimplemented!() }
pub(crate) fn erf_f64(_x: f64) -> f64 { unimplemented!() }
