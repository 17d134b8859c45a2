//! The positions that sort arrays.

use crate::base::array::{Array, with_wide};
use crate::base::dtype::ArrayElement;

/// Returns the positions, as i32, that sort an array along an axis. The sort is stable. NaN is the greatest value.
pub fn argsort(operand: &Array, axis: usize, descending: bool) -> Array {
    let shape = operand.shape();
    let (length, inner) = (shape[axis], shape[axis + 1..].iter().product::<usize>());
    let turned = if descending { u64::MAX } else { 0 };
    with_wide!(operand.dtype(), T => {
        let elements = operand.elements::<T>();
        let add_keys = |first: usize, keys: &mut Keys| {
            // The position is appended to each key, so that all keys differ. For keys that differ, an unstable sort
            // returns the same result as a stable sort.
            for (position, element) in (0_i32..).zip(elements[first..].iter().step_by(inner).take(length)) {
                keys.push((element.sort_key() ^ turned, position));
            }
        };
        sorted(shape, length, inner, &add_keys)
    })
}

/// Elements that can be mapped to integers with the same order.
trait SortKey: ArrayElement {
    fn sort_key(self) -> u64;
}

const SIGN: u64 = 1 << 63;

impl SortKey for i64 {
    fn sort_key(self) -> u64 {
        self.cast_unsigned() ^ SIGN
    }
}

impl SortKey for f64 {
    /// Returns an integer for the float, so that the integers have the same order as the floats. Both zeros have the
    /// same integer.
    fn sort_key(self) -> u64 {
        match (self + 0.0).to_bits() {
            _ if self.is_nan() => u64::MAX,
            negative if negative >= SIGN => !negative,
            bits => bits | SIGN,
        }
    }
}

macro_rules! sort_key_as {
    ($wide:ty: $($narrow:ty),*) => {$(
        impl SortKey for $narrow {
            fn sort_key(self) -> u64 {
                <$wide>::from(self).sort_key()
            }
        }
    )*};
}
sort_key_as!(i64: bool, i32, u32);
sort_key_as!(f64: f32);

/// An integer for each element of a row, and the position of the element.
type Keys = Vec<(u64, i32)>;

/// Returns the positions that sort the rows of an array. `inner` elements are between neighbours of a row. `add_keys` adds those of the
/// row that begins at an element.
fn sorted(
    shape: &[usize],
    length: usize,
    inner: usize,
    add_keys: &dyn Fn(usize, &mut Keys),
) -> Array {
    let mut result = vec![0_i32; shape.iter().product()];
    let mut keys = Vec::with_capacity(length);
    let size = (length * inner).max(1);
    for (block, target) in result.chunks_exact_mut(size).enumerate() {
        for column in 0..inner {
            keys.clear();
            add_keys(block * size + column, &mut keys);
            keys.sort_unstable();
            for (target, &(_, position)) in target[column..].iter_mut().step_by(inner).zip(&keys) {
                *target = position;
            }
        }
    }
    Array::new(shape, result)
}
