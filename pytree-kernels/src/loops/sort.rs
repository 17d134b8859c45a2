//! Sorted arrays, and the positions that sort them.

use half::{bf16, f16};

use crate::base::array::{Array, reserved};
use crate::base::dtype::{ArrayElement, DType, with_type};
use crate::base::threads::share_rows;

/// What [`sort`] returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Sorted {
    /// The elements.
    Elements,
    /// The positions of the elements before they were sorted, as i32.
    Positions,
}

/// The order in which [`sort`] returns elements.
#[derive(Clone, Copy, Debug)]
pub struct Order {
    /// If true, the greatest element is first. Equal elements keep their order in both cases.
    pub descending: bool,
    /// The number of elements to return, at most the length of the axis.
    pub count: usize,
}

/// Returns the first elements of the sorted array along an axis, or their positions. The sort is stable. NaN is the greatest value.
pub fn sort(operand: &Array, axis: usize, order: Order, sorted: Sorted) -> Array {
    let shape = operand.shape();
    let row = Row {
        length: shape[axis],
        inner: shape[axis + 1..].iter().product(),
        count: order.count,
    };
    let turned = if order.descending { u64::MAX } else { 0 };
    let mut info = operand.info.clone();
    info.shape[axis] = order.count;
    if sorted == Sorted::Positions {
        info.dtype = DType::I32;
    }
    let mut result = Array::reused(&info);
    with_type!(operand.dtype(), T => {
        let elements = operand.elements::<T>();
        let add_keys = |first: usize, keys: &mut Keys| {
            let elements = &elements[first..];
            let (mut last, mut bound) = (u64::MAX, None);
            for start in (0..row.length).step_by(STEP) {
                let end = row.length.min(start + STEP);
                // Most elements are less than the least element that is kept so far, and a comparison takes less time than a key.
                if let Some(bound) = bound
                    && are_less(&elements[start..end], bound)
                {
                    continue;
                }
                for position in start..end {
                    // The position is appended to each key, so that all keys differ. For keys that differ, an unstable sort
                    // returns the same result as a stable sort.
                    let key = elements[position * row.inner].sort_key() ^ turned;
                    if key > last {
                        continue;
                    }
                    keys.push((key, u32::try_from(position).unwrap_or(u32::MAX)));
                    if keys.len() == row.most() {
                        let kept;
                        (last, kept) = row.select(keys);
                        let is_dense = order.descending && row.inner == 1;
                        bound = is_dense.then(|| elements[kept as usize]);
                    }
                }
            }
        };
        match sorted {
            Sorted::Elements => row.write(result.elements_mut(), &add_keys, |first, position| {
                elements[first + position * row.inner]
            }),
            Sorted::Positions => row.write(result.elements_mut(), &add_keys, |_, position| {
                // The shape rule limits the length to that of an i32.
                i32::try_from(position).unwrap_or(i32::MAX)
            }),
        }
    });
    result
}

/// Returns whether all elements are less than a bound.
#[allow(
    clippy::needless_bitwise_bool,
    reason = "the loop has wide instructions if it does not end early"
)]
fn are_less<T: PartialOrd + Copy>(elements: &[T], bound: T) -> bool {
    let mut all = true;
    for &element in elements {
        all &= element < bound;
    }
    all
}

/// The number of elements that are compared with the bound together.
const STEP: usize = 16;

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
sort_key_as!(i64: bool, i8, i16, i32, u8, u16, u32);
sort_key_as!(f64: bf16, f16, f32);

/// An integer for each element of a row, and the position of the element.
type Keys = Vec<(u64, u32)>;

/// A row of an array: its number of elements, the distance of neighbours in memory, and the number of elements to return.
#[derive(Clone, Copy)]
struct Row {
    length: usize,
    inner: usize,
    count: usize,
}

/// The number of elements that one part of the work sorts.
const PART: usize = 1 << 15;

/// A rough time in nanoseconds to find the place of an element.
const PER_ELEMENT: usize = 4;

impl Row {
    /// Returns the number of keys after which all except the first ones are removed. The removal of `count` keys takes time
    /// proportional to `count`, so the time of each key is constant.
    fn most(self) -> usize {
        2 * self.count + 32
    }

    /// Removes all keys except the first `count` in order, and returns the last of these with its position.
    fn select(self, keys: &mut Keys) -> (u64, u32) {
        let (_, &mut last, _) = keys.select_nth_unstable(self.count - 1);
        keys.truncate(self.count);
        last
    }

    /// Writes the results of all rows. `add_keys` adds the keys of the row that begins at an element, or at least the first `count` of
    /// them in order. `of` returns the result for a position of this row.
    fn write<R: Send>(
        self,
        result: &mut [R],
        add_keys: &(dyn Fn(usize, &mut Keys) + Sync),
        of: impl Fn(usize, usize) -> R + Sync,
    ) {
        let (from, to) = (self.length * self.inner, self.count * self.inner);
        if result.is_empty() {
            return;
        }
        let blocks = (PART / from).max(1);
        let work = result.len() / to * from * PER_ELEMENT;
        share_rows(work, result, to, blocks, &|row, targets| {
            let mut keys = reserved(self.most().min(self.length));
            for (block, target) in (row..).zip(targets.chunks_exact_mut(to)) {
                for column in 0..self.inner {
                    let first = block * from + column;
                    keys.clear();
                    add_keys(first, &mut keys);
                    keys.sort_unstable();
                    for (target, &(_, position)) in
                        target[column..].iter_mut().step_by(self.inner).zip(&keys)
                    {
                        *target = of(first, position as usize);
                    }
                }
            }
        });
    }
}
