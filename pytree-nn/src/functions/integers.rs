//! Integers that are compared with positions.

use pytree_transform::{DType, Tensor};

/// Converts integers of 8 and 16 bits to i32. A narrow dtype may hold each index of an axis, but not its length.
#[track_caller]
pub(crate) fn wide_integers(integers: &Tensor) -> Tensor {
    let dtype = integers.dtype();
    if dtype.is_integer() && dtype.bytes() < DType::I32.bytes() {
        integers.convert(DType::I32)
    } else {
        integers.clone()
    }
}
