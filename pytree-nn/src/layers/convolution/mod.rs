//! Convolutions and transposed convolutions over any number of axes, with the features on the last axis.
//!
//! An input is `[batch…, space…, features]`. Windows slide over the spatial axes. The number of spatial axes is the
//! number of kernel sizes. There may be any number of batch axes, including zero.

mod batch_axes;
mod conv;
mod conv_transpose;
mod options;
mod padding;

pub use self::{conv::*, conv_transpose::*, options::*, padding::*};
