//! The selection between two arrays.

use std::sync::Arc;

use crate::base::array::Array;
use crate::base::bits::{Bits, with_bits};

/// Returns the elements of `on_true` where `condition` holds, and elsewhere those of `on_false`. All three arrays have the
/// same shape.
pub fn select(condition: &Array, on_true: Arc<Array>, on_false: &Array) -> Array {
    let info = on_true.info.clone();
    with_bits!(info.dtype, T => {
        let mut chosen = Array::into_bits::<T>(on_true);
        let others = on_false.bits::<T>();
        for ((element, &other), &condition) in chosen.iter_mut().zip(others).zip(condition.elements::<bool>()) {
            *element = if condition { *element } else { other };
        }
        Array { data: <T as Bits>::data(chosen, info.dtype), info }
    })
}
