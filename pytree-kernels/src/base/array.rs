//! Arrays on the host: elements in row-major order, with their shape.

use std::fmt;
use std::sync::Arc;

use pytree_base::bug::bug;
use smallvec::SmallVec;

use crate::base::bits::{Bits, with_bits};
use crate::base::data::Data;
use crate::base::dtype::{AbstractArray, ArrayElement, DType};
use crate::base::memory;
use crate::base::shape::{PerAxis, Shape};
use crate::base::threads;

/// An array on the host: elements in row-major order, with their dtype and shape.
///
/// `info` is the first field of this struct, of `Tracer` and of `DeviceArray`. The offset of `info` is the same in all
/// three, so a tensor reads `info` without a branch.
#[repr(C)]
pub struct Array {
    /// The dtype and shape.
    pub info: AbstractArray,
    storage: Storage,
}

/// Where the elements of an array are, in row-major order.
enum Storage {
    Own(Data),
    /// The elements of another array, which has memory of its own and the same dtype.
    Of(Arc<Array>),
}

impl Storage {
    /// The storage of an array whose elements are moved to another array.
    const EMPTY: Self = Self::Own(Data::Bool(Vec::new()));
}

impl Clone for Array {
    fn clone(&self) -> Self {
        Self::from_data(self.info.clone(), self.copied())
    }
}

impl PartialEq for Array {
    fn eq(&self, other: &Self) -> bool {
        self.info == other.info && self.data() == other.data()
    }
}

#[allow(
    clippy::missing_fields_in_debug,
    reason = "the elements are those of the storage"
)]
impl fmt::Debug for Array {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut array = f.debug_struct("Array");
        array.field("info", &self.info);
        array.field("data", self.data()).finish()
    }
}

/// The operands of an evaluation rule. If the rule holds the only handle of an operand, the rule may reuse the
/// operand's memory.
pub type Operands = SmallVec<[Arc<Array>; 4]>;

/// Returns the size of all elements in bytes, or `None` if the size does not fit into a `usize`. An axis of length 0
/// counts as length 1, so no stride is greater than the result.
#[inline]
pub fn spanned_bytes(info: &AbstractArray) -> Option<usize> {
    let mut lengths = info.shape.iter();
    lengths.try_fold(info.dtype.bytes(), |product, &length| {
        product.checked_mul(length.max(1))
    })
}

/// Returns whether memory for all elements could exist: less than 64 TiB, and less than half of the address space.
#[inline]
pub fn fits_memory(info: &AbstractArray) -> bool {
    const LARGEST: usize = match 1_usize.checked_shl(46) {
        Some(bytes) => bytes,
        None => isize::MAX.unsigned_abs(),
    };
    spanned_bytes(info).is_some_and(|bytes| {
        bytes < LARGEST || (info.shape.contains(&0) && isize::try_from(bytes).is_ok())
    })
}

/// Returns the message about an array that does not fit into memory. A size above 2^128 bytes is a lower bound.
pub fn too_large(operation: &str, info: &AbstractArray) -> String {
    let mut lengths = info.shape.iter();
    let bytes = lengths.try_fold(info.dtype.bytes() as u128, |product, &length| {
        product.checked_mul(length as u128)
    });
    let bytes = bytes.map_or_else(
        || "more than 2^128 bytes".to_owned(),
        |bytes| format!("{bytes} bytes"),
    );
    format!(
        "cannot make {info} by `{operation}`: {bytes} of memory are not available; check the lengths of the axes"
    )
}

/// Returns whether an array is small enough to be allocated without a trial.
#[inline]
pub fn is_surely_granted(info: &AbstractArray) -> bool {
    spanned_bytes(info).is_some_and(|bytes| bytes < memory::TRIED)
}

/// Returns whether the system grants the memory of an array. Without this trial, a failed allocation of a `Vec` would
/// abort the process.
#[inline]
pub fn is_granted(info: &AbstractArray) -> bool {
    memory::is_granted(info.bytes())
}

#[cold]
fn no_memory(info: &AbstractArray) -> ! {
    memory::refuse(info.clone());
    panic!("{}", too_large("allocate", info))
}

impl Array {
    /// Creates an array from elements in row-major order. The number of elements must fit the shape.
    #[inline]
    pub fn new<T: ArrayElement>(shape: impl AsRef<[usize]>, elements: Vec<T>) -> Self {
        let info = AbstractArray::new(T::dtype(), shape);
        debug_assert_eq!(info.len(), elements.len(), "elements for {info}");
        Self::from_data(info, T::data(elements))
    }

    /// Creates an array from elements of the dtype of `info`, in row-major order. The number of elements must fit the shape.
    #[inline]
    pub fn from_data(info: AbstractArray, data: Data) -> Self {
        let storage = Storage::Own(data);
        Self { info, storage }
    }

    /// Returns the elements in row-major order.
    #[inline(always)]
    #[allow(
        clippy::inline_always,
        reason = "only inlined code is compiled for the wide instruction sets"
    )]
    pub fn data(&self) -> &Data {
        match &self.storage {
            Storage::Own(data) => data,
            Storage::Of(array) => array.own_data(),
        }
    }

    fn own_data(&self) -> &Data {
        match &self.storage {
            Storage::Own(data) => data,
            Storage::Of(_) => bug("an array with memory of its own"),
        }
    }

    /// Returns the elements for writing. Copies them if another array has them, too.
    pub fn data_mut(&mut self) -> &mut Data {
        if let Storage::Of(array) = &self.storage {
            let array = Arc::clone(array);
            // This array must not be a handle of the other one any more.
            self.storage = Storage::EMPTY;
            self.storage = Storage::Own(Self::into_data(array));
        }
        match &mut self.storage {
            Storage::Own(data) => data,
            Storage::Of(_) => bug("elements that were copied"),
        }
    }

    /// Returns whether no other array has the same memory.
    pub(crate) fn has_own_memory(&self) -> bool {
        match &self.storage {
            Storage::Own(_) => true,
            Storage::Of(array) => Arc::strong_count(array) == 1,
        }
    }

    /// Moves the elements out of an array, unless another array has them, too.
    pub(crate) fn take_data(&mut self) -> Option<Data> {
        match &mut self.storage {
            Storage::Own(data) => Some(std::mem::replace(data, Data::Bool(Vec::new()))),
            Storage::Of(array) => Arc::get_mut(array)?.take_data(),
        }
    }

    /// Returns a copy of the elements.
    fn copied(&self) -> Data {
        with_bits!(self.dtype(), T => {
            let mut copy = reused_bits::<T>(self.dtype(), self.info.len());
            copy.copy_from_slice(self.bits());
            <T as Bits>::data(copy, self.dtype())
        })
    }

    /// Returns an array with arbitrary elements: zeros, or old values of reused memory. The caller must overwrite all
    /// elements.
    pub fn reused(info: &AbstractArray) -> Self {
        Self::from_pool(info).unwrap_or_else(|| Self::new_zeros(info))
    }

    /// Returns an array of zeros.
    ///
    /// # Panics
    /// Panics if the system does not grant the memory.
    pub fn zeros(info: &AbstractArray) -> Self {
        let Some(mut array) = Self::from_pool(info) else {
            return Self::new_zeros(info);
        };
        with_bits!(info.dtype, T => fill(array.bits_mut::<T>(), T::default()));
        array
    }

    /// Returns an array in memory that the pool has, with old values.
    fn from_pool(info: &AbstractArray) -> Option<Self> {
        with_bits!(info.dtype, T => memory::take::<T>(info.len()).map(|bits| {
            Self::from_data(info.clone(), <T as Bits>::data(bits, info.dtype))
        }))
    }

    /// Returns an array of zeros in memory of the system.
    fn new_zeros(info: &AbstractArray) -> Self {
        with_bits!(info.dtype, T => match memory::zeros::<T>(info.len()) {
            Some(zeros) => Self::from_data(info.clone(), <T as Bits>::data(zeros, info.dtype)),
            None => no_memory(info),
        })
    }

    /// Creates an array from the bits of its elements in row-major order.
    #[inline]
    pub fn from_bits<T: Bits>(dtype: DType, shape: impl AsRef<[usize]>, bits: Vec<T>) -> Self {
        let info = AbstractArray::new(dtype, shape);
        debug_assert_eq!(info.len(), bits.len(), "elements for {info}");
        Self::from_data(info, T::data(bits, dtype))
    }

    /// Returns the bits of the elements. `T` must be the type that `with_bits` selects for the dtype.
    #[inline]
    #[track_caller]
    pub fn bits<T: Bits>(&self) -> &[T] {
        match T::slice(self.data()) {
            Some(bits) => bits,
            None => wrong_bits(self.dtype()),
        }
    }

    /// Returns the bits of the elements for writing; see [`bits`](Self::bits).
    #[inline]
    #[track_caller]
    pub fn bits_mut<T: Bits>(&mut self) -> &mut [T] {
        let dtype = self.dtype();
        match T::slice_mut(self.data_mut()) {
            Some(bits) => bits,
            None => wrong_bits(dtype),
        }
    }

    /// Returns the bits of the elements by value. If `this` is the only handle of the array, moves the bits. Otherwise,
    /// copies the bits.
    #[track_caller]
    pub fn into_bits<T: Bits>(this: Arc<Self>) -> Vec<T> {
        let dtype = this.dtype();
        match T::vector(Self::into_data(this)) {
            Some(bits) => bits,
            None => wrong_bits(dtype),
        }
    }

    /// Returns the elements by value. Moves the elements if `this` is the only handle of the array. Otherwise, copies the
    /// elements.
    pub fn into_data(this: Arc<Self>) -> Data {
        match Arc::try_unwrap(this) {
            Ok(mut array) => match std::mem::replace(&mut array.storage, Storage::EMPTY) {
                Storage::Own(data) => data,
                Storage::Of(array) => Self::into_data(array),
            },
            Err(shared) => shared.copied(),
        }
    }

    /// Returns the length of each axis.
    #[inline]
    pub fn shape(&self) -> &[usize] {
        &self.info.shape
    }

    /// Returns the dtype of the elements.
    #[inline]
    pub fn dtype(&self) -> DType {
        self.info.dtype
    }

    /// Returns the elements, whose type must be `T`.
    #[inline]
    #[track_caller]
    pub fn elements<T: ArrayElement>(&self) -> &[T] {
        match T::slice(self.data()) {
            Some(elements) => elements,
            None => wrong_storage(T::dtype(), self.dtype()),
        }
    }

    /// Returns the elements, whose type must be `T`, for writing.
    #[inline]
    #[track_caller]
    pub fn elements_mut<T: ArrayElement>(&mut self) -> &mut [T] {
        let dtype = self.dtype();
        match T::slice_mut(self.data_mut()) {
            Some(elements) => elements,
            None => wrong_storage(T::dtype(), dtype),
        }
    }

    /// Returns the elements by value. Moves the elements if `this` is the only handle of the array. Otherwise, copies the
    /// elements.
    #[track_caller]
    pub fn into_elements<T: ArrayElement>(this: Arc<Self>) -> Vec<T> {
        let dtype = this.dtype();
        match T::vector(Self::into_data(this)) {
            Some(elements) => elements,
            None => wrong_storage(T::dtype(), dtype),
        }
    }

    /// Changes the shape of an array. The new shape must have the same number of elements. If there is another handle of the array,
    /// both arrays have the same memory.
    pub fn reshaped(this: Arc<Self>, shape: impl AsRef<[usize]>) -> Self {
        let shape = Shape::from(shape.as_ref());
        match Arc::try_unwrap(this) {
            Ok(mut array) => {
                array.info.shape = shape;
                array
            }
            Err(shared) => Self {
                info: AbstractArray::new(shared.dtype(), shape),
                storage: Storage::Of(match &shared.storage {
                    Storage::Own(_) => shared,
                    Storage::Of(array) => Arc::clone(array),
                }),
            },
        }
    }
}

impl Drop for Array {
    fn drop(&mut self) {
        if let Storage::Own(data) = std::mem::replace(&mut self.storage, Storage::EMPTY) {
            with_bits!(self.info.dtype, T => if let Some(bits) = <T as Bits>::vector(data) {
                memory::give(bits);
            });
        }
    }
}

#[cold]
#[track_caller]
fn wrong_storage(expected: DType, found: DType) -> ! {
    bug(format_args!("elements of {expected}, found {found}"))
}

#[cold]
#[track_caller]
fn wrong_bits(dtype: DType) -> ! {
    bug(format_args!(
        "bits whose width differs from the element width of {dtype}"
    ))
}

/// Returns the strides of a contiguous, row-major array of a shape.
#[inline]
pub fn row_major_strides(shape: &[usize]) -> PerAxis {
    let mut strides: PerAxis = smallvec::smallvec![1; shape.len()];
    for axis in (0..shape.len().saturating_sub(1)).rev() {
        strides[axis] = strides[axis + 1] * shape[axis + 1];
    }
    strides
}

/// Returns an empty vector with memory for `length` elements of scratch. If the system does not grant the memory, fails like an array.
pub(crate) fn reserved<T>(length: usize) -> Vec<T> {
    let mut scratch = Vec::new();
    if scratch.try_reserve_exact(length).is_err() {
        memory::release();
        if scratch.try_reserve_exact(length).is_err() {
            let bytes = length.saturating_mul(size_of::<T>());
            no_memory(&AbstractArray::new(DType::U8, [bytes]));
        }
    }
    scratch
}

/// Returns memory for `length` elements of a result. The elements are arbitrary, and the caller must overwrite all of
/// them.
pub fn reused<T: ArrayElement>(length: usize) -> Vec<T> {
    Array::into_elements(Arc::new(Array::reused(&AbstractArray::new(
        T::dtype(),
        [length],
    ))))
}

/// Returns memory for the bits of `length` elements of a result; see [`reused`].
pub fn reused_bits<T: Bits>(dtype: DType, length: usize) -> Vec<T> {
    Array::into_bits(Arc::new(Array::reused(&AbstractArray::new(
        dtype,
        [length],
    ))))
}

/// The bytes that a thread fills in a nanosecond.
const FILLED: usize = 8;

/// Fills memory with copies of an element. Threads share long memory.
pub fn fill<T: Copy + Send + Sync>(elements: &mut [T], element: T) {
    if !threads::are_worth(size_of_val(elements) / FILLED) {
        return elements.fill(element);
    }
    let part = elements.len().div_ceil(threads::count());
    threads::run_parts(elements.chunks_mut(part).collect(), |part| {
        part.fill(element);
    });
}

/// Returns the memory of an array to the pool, which reuses it for the next array of the same size.
pub fn give_back<T: ArrayElement>(elements: Vec<T>) {
    drop(Array::new([elements.len()], elements));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeros_in_reused_memory_are_zeros() {
        // Short memory, and memory that threads share.
        for length in [3, 200_001] {
            let info = AbstractArray::new(DType::I32, [length]);
            let mut array = Array::new([length], vec![7; length]);
            fill(array.elements_mut::<i32>(), 9);
            assert!(array.elements::<i32>().iter().all(|&element| element == 9));
            drop(array);
            assert_eq!(Array::zeros(&info).elements::<i32>(), vec![0; length]);
        }
    }
}
