//! Arrays without operands.

use std::sync::Arc;

use crate::base::array::{Array, fill, reserved, reused_bits};
use crate::base::bits::with_bits;
use crate::base::dtype::{ArrayElement, DType, with_type};

/// Returns an array with all elements equal to a number.
pub fn full(dtype: DType, shape: &[usize], value: f64) -> Array {
    let element = element(dtype, value);
    with_bits!(dtype, T => {
        let mut elements = reused_bits::<T>(dtype, shape.iter().product());
        fill(&mut elements, element.bits::<T>()[0]);
        Array::from_bits(dtype, shape, elements)
    })
}

/// Returns an array whose elements are their positions on an axis.
pub fn iota(dtype: DType, shape: &[usize], axis: usize) -> Array {
    let inner: usize = shape[axis + 1..].iter().product();
    let positions = positions(dtype, shape[axis]);
    if positions.info.len() == shape.iter().product() {
        return Array::reshaped(Arc::new(positions), shape);
    }
    with_bits!(dtype, T => {
        let mut elements = reused_bits::<T>(dtype, shape.iter().product());
        let runs = elements.chunks_exact_mut(inner.max(1));
        for (run, &position) in runs.zip(positions.bits::<T>().iter().cycle()) {
            run.fill(position);
        }
        Array::from_bits(dtype, shape, elements)
    })
}

/// Returns an array of a dtype with one element.
fn element(dtype: DType, value: f64) -> Array {
    with_type!(dtype, T => Array::new([], vec![<T as ArrayElement>::from_number(value)]))
}

/// Returns the `count` numbers 0, 1, 2, … as an array of a dtype.
fn positions(dtype: DType, count: usize) -> Array {
    with_type!(dtype, T => {
        let mut positions = reserved(count);
        positions.extend((0..count).map(<T as ArrayElement>::from_position));
        Array::new([count], positions)
    })
}
