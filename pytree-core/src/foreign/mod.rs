//! Values of other crates as leaves. Each library of tensors has an optional feature, which is named by its version.

#[cfg(feature = "burn022")]
pub mod burn022;
#[cfg(feature = "burn_nn022")]
pub mod burn_nn022;
#[cfg(feature = "candle011")]
pub mod candle011;
#[cfg(feature = "candle_nn011")]
pub mod candle_nn011;
#[cfg(any(feature = "burn_nn022", feature = "candle_nn011"))]
mod kept;
#[cfg(feature = "ndarray")]
mod ndarray;
pub(crate) mod opaque;
