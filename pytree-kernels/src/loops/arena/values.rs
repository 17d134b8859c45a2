//! The values of a program, and copies between them and arrays.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use pytree_base::bug::bug;

use crate::base::array::Array;
use crate::base::bits::with_bits;
use crate::base::dtype::{AbstractArray, DType};
use crate::base::target::Target;
use crate::loops::elementwise::classes::Memory;

/// The greatest number of elements of a fixed value. Longer values are left to fused kernels, which read and write memory less often.
const MOST_ELEMENTS: usize = 1 << 12;

/// The memory of a fixed value is a multiple of this number of elements, so that loops may compute whole blocks.
pub(super) const BLOCK: usize = 64;

/// The number of elements that a loop computes at a time.
pub(super) const LANES: usize = 16;

/// The position of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Place(usize);

/// As much memory as a block of the widest instructions has, which then never touches two cache lines.
#[derive(Clone, Copy, Default)]
#[repr(C, align(64))]
struct Line([u64; 8]);

/// The values of a program. A *fixed* value has memory of its own. A *loose* value is an array that a run receives or makes.
pub struct Values {
    pub(super) identity: usize,
    values: Vec<Value>,
}

struct Value {
    info: AbstractArray,
    /// The array of a loose value.
    array: Option<Arc<Array>>,
    /// The address of the elements.
    first: *mut u8,
    bytes: usize,
    /// The memory of a fixed value, which is read and written through `first`.
    _memory: Vec<Line>,
    /// The fixed value whose memory this value has a part of.
    of: Option<Place>,
    is_fixed: bool,
    is_constant: bool,
}

#[allow(unsafe_code, reason = "the pointer belongs to the memory or the array")]
// SAFETY: the pointer is that of the elements of the memory or of the array, which may be sent, too.
unsafe impl Send for Value {}

impl std::fmt::Debug for Values {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let values = self.values.iter().map(|value| &value.info);
        f.debug_list().entries(values).finish()
    }
}

fn address(array: &Array) -> *mut u8 {
    with_bits!(array.dtype(), T => array.bits::<T>().as_ptr().cast_mut().cast())
}

fn reshaped(array: Arc<Array>, info: &AbstractArray) -> Arc<Array> {
    if array.info == *info {
        return array;
    }
    Arc::new(Array::reshaped(array, &info.shape))
}

/// Copies bytes. Most elements are single numbers or short rows, for which a call takes longer than the copy.
///
/// # Safety
/// Both have this many bytes, and no byte in common.
#[inline]
#[allow(unsafe_code, reason = "the caller has compared the lengths")]
pub(super) unsafe fn copy(from: *const u8, to: *mut u8, bytes: usize) {
    const WIDE: usize = size_of::<u128>();
    // SAFETY: the caller promises that both have this many bytes.
    let word = |at: usize| unsafe {
        to.add(at)
            .cast::<u128>()
            .write_unaligned(from.add(at).cast::<u128>().read_unaligned());
    };
    match bytes {
        // SAFETY: as above.
        4 => unsafe {
            to.cast::<u32>()
                .write_unaligned(from.cast::<u32>().read_unaligned());
        },
        // SAFETY: as above.
        8 => unsafe {
            to.cast::<u64>()
                .write_unaligned(from.cast::<u64>().read_unaligned());
        },
        WIDE..=256 => {
            (0..bytes - WIDE).step_by(WIDE).for_each(word);
            word(bytes - WIDE);
        }
        // SAFETY: as above.
        _ => unsafe { to.copy_from_nonoverlapping(from, bytes) },
    }
}

impl Default for Values {
    fn default() -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        Self {
            identity: NEXT.fetch_add(1, Ordering::Relaxed),
            values: Vec::new(),
        }
    }
}

impl Values {
    /// Returns whether values with this dtype and shape are fixed.
    pub fn are_fixed(info: &AbstractArray) -> bool {
        info.len() <= MOST_ELEMENTS
    }

    /// Makes a place for a value.
    pub fn place(&mut self, info: &AbstractArray) -> Place {
        let is_fixed = Self::are_fixed(info);
        // A row that a loop writes or reads as a whole block may be the last one.
        let elements = (info.len() + LANES).next_multiple_of(BLOCK);
        let lines = if is_fixed {
            (elements * info.dtype.bytes()).div_ceil(size_of::<Line>())
        } else {
            0
        };
        let mut memory = vec![Line::default(); lines];
        self.values.push(Value {
            info: info.clone(),
            array: None,
            first: memory.as_mut_ptr().cast(),
            bytes: if is_fixed { info.bytes() } else { 0 },
            _memory: memory,
            of: None,
            is_fixed,
            is_constant: false,
        });
        Place(self.values.len() - 1)
    }

    /// Returns a value with neighbouring elements of a fixed value from a position on, which instructions read before the value is written
    /// again, at most a block of elements at a time. Returns `None` if a block could be beyond the memory.
    pub fn view(&mut self, (place, at): (Place, usize), info: &AbstractArray) -> Option<Place> {
        let value = &self.values[place.0];
        let end = at + info.len().next_multiple_of(LANES);
        let fits = value.is_fixed && value.info.dtype == info.dtype && value.of.is_none();
        (fits && end <= value.info.len() + LANES).then_some(())?;
        self.values.push(Value {
            info: info.clone(),
            array: None,
            first: value.first.wrapping_add(at * info.dtype.bytes()),
            bytes: info.bytes(),
            _memory: Vec::new(),
            of: Some(place),
            is_fixed: true,
            is_constant: false,
        });
        Some(Place(self.values.len() - 1))
    }

    /// Returns the value whose memory a value has.
    pub fn owner(&self, place: Place) -> Place {
        self.values[place.0].of.unwrap_or(place)
    }

    /// Makes a place for a constant.
    pub fn constant(&mut self, array: &Arc<Array>) -> Place {
        let place = self.place(&array.info);
        self.set(place, Arc::clone(array));
        self.keep(place);
        place
    }

    /// Makes a value a constant.
    pub(super) fn keep(&mut self, place: Place) {
        self.values[place.0].is_constant = true;
    }

    pub(super) fn is_constant(&self, place: Place) -> bool {
        self.values[place.0].is_constant
    }

    /// Returns whether a value is fixed.
    pub fn is_fixed(&self, place: Place) -> bool {
        self.values[place.0].is_fixed
    }

    /// Returns the dtype and shape of a value.
    pub fn info(&self, place: Place) -> &AbstractArray {
        &self.values[place.0].info
    }

    /// Returns the array of a loose value.
    pub(super) fn array(&self, place: Place) -> Option<&Arc<Array>> {
        self.values[place.0].array.as_ref()
    }

    /// Returns the place that the next value gets.
    pub fn next(&self) -> Place {
        Place(self.values.len())
    }

    /// Returns whether a value is no constant, and was made when `next` was the next place, or later.
    pub fn is_made_since(&self, place: Place, next: Place) -> bool {
        place.0 >= next.0 && !self.values[place.0].is_constant
    }

    /// Returns a value as an array with this dtype and shape, which have as many elements.
    ///
    /// # Panics
    /// Panics if a fixed value has another number of bytes.
    pub fn result(&self, place: Place, info: &AbstractArray) -> Arc<Array> {
        let value = &self.values[place.0];
        if let Some(array) = &value.array {
            return reshaped(Arc::clone(array), info);
        }
        let mut array = Array::reused(info);
        let to = with_bits!(info.dtype, T => array.bits_mut::<T>().as_mut_ptr().cast());
        assert_eq!(info.bytes(), value.bytes, "as many bytes as the value has");
        // SAFETY: both have this many bytes.
        #[allow(unsafe_code, reason = "instructions share the memory of the value")]
        unsafe {
            copy(value.first, to, info.bytes());
        }
        Arc::new(array)
    }

    /// Returns a value as [`result`](Self::result) does. A loose value then has no array.
    pub fn take(&mut self, place: Place, info: &AbstractArray) -> Arc<Array> {
        let value = &mut self.values[place.0];
        let Some(array) = value.array.take() else {
            return self.result(place, info);
        };
        value.bytes = 0;
        reshaped(array, info)
    }

    /// Drops the arrays of the loose values that are no constants.
    pub fn release(&mut self) {
        for value in &mut self.values {
            if !value.is_constant && value.array.take().is_some() {
                value.bytes = 0;
            }
        }
    }

    /// Makes a place for a value like another one.
    pub fn like(&mut self, place: Place) -> Place {
        self.place(&self.info(place).clone())
    }

    /// Exchanges two values, which are loose.
    ///
    /// # Panics
    /// Panics if a value is fixed.
    pub fn swap(&mut self, left: Place, right: Place) {
        assert!(
            !self.is_fixed(left) && !self.is_fixed(right),
            "loose values"
        );
        self.values.swap(left.0, right.0);
    }

    /// Copies an array to a fixed value, or makes it the array of a loose value.
    ///
    /// # Panics
    /// Panics if the value is fixed and has another number of bytes.
    pub fn set(&mut self, place: Place, array: Arc<Array>) {
        let value = &mut self.values[place.0];
        let (from, bytes) = (address(&array), array.info.bytes());
        if value.is_fixed {
            assert_eq!(bytes, value.bytes, "as many bytes as the value has");
            // SAFETY: both have this many bytes, and no reference to the elements of the value exists.
            #[allow(unsafe_code, reason = "instructions share the memory of the value")]
            unsafe {
                copy(from, value.first, bytes);
            }
        } else {
            (value.first, value.bytes) = (from, bytes);
            value.array = Some(array);
        }
    }

    /// Gives a loose value new memory, which the caller overwrites.
    pub fn renew(&mut self, place: Place, info: &AbstractArray) {
        if !self.is_fixed(place) {
            self.set(place, Arc::new(Array::reused(info)));
        }
    }

    /// Copies a value to another one. A loose value gets the same array.
    #[inline]
    pub fn copy(&mut self, from: Place, to: Place) {
        match &self.values[from.0].array {
            Some(array) if !self.is_fixed(to) => self.set(to, Arc::clone(array)),
            _ => self.copy_bytes((from, 0), (to, 0), self.bytes(to)),
        }
    }

    pub(super) fn address(&self, place: Place) -> *mut u8 {
        self.values[place.0].first
    }

    pub(super) fn bytes(&self, place: Place) -> usize {
        self.values[place.0].bytes
    }

    /// Copies one of the parts of a value, which have this number of bytes, to a part of another value.
    #[inline]
    pub(super) fn copy_part(
        &mut self,
        from: Place,
        part: usize,
        to: Place,
        number: usize,
        bytes: usize,
    ) {
        self.copy_bytes((from, part * bytes), (to, number * bytes), bytes);
    }

    /// Copies bytes of a value, from a position on, to another value.
    #[inline]
    pub(super) fn copy_bytes(&mut self, from: (Place, usize), to: (Place, usize), bytes: usize) {
        let ((from, start), (to, at)) = (from, to);
        let (from, to) = (&self.values[from.0], &self.values[to.0]);
        let fits = start + bytes <= from.bytes && at + bytes <= to.bytes;
        assert!(fits, "bytes of a value");
        // SAFETY: the bytes are within both values, as checked, and instructions share the memory.
        #[allow(unsafe_code, reason = "instructions share the memory of values")]
        unsafe {
            copy(from.first.add(start), to.first.add(at), bytes);
        }
    }

    /// Returns a bool.
    ///
    /// # Panics
    /// Panics if the value is no bool.
    #[inline]
    #[allow(unsafe_code, reason = "instructions share the memory of the value")]
    pub fn holds(&self, place: Place) -> bool {
        let value = &self.values[place.0];
        assert!(value.info.dtype == DType::Bool && value.bytes > 0, "a bool");
        // SAFETY: the value is a bool.
        unsafe { *value.first != 0 }
    }

    pub(super) fn len(&self, place: Place) -> usize {
        self.info(place).len()
    }

    /// Returns the memory of a fixed value, which is a multiple of [`BLOCK`] elements.
    #[allow(unsafe_code, reason = "instructions share the memory of the value")]
    pub(super) fn target<T: Copy>(&self, place: Place) -> Target<'static, T> {
        let value = &self.values[place.0];
        if !value.is_fixed || size_of::<T>() != value.info.dtype.bytes() {
            bug("the memory of a fixed value");
        }
        // SAFETY: the memory lives as long as the values, without which no instruction runs.
        unsafe { Target::at(value.first.cast(), self.len(place).next_multiple_of(BLOCK)) }
    }

    /// Returns the memory of a fixed value, as that of a result of an operation.
    #[allow(unsafe_code, reason = "instructions share the memory of the value")]
    pub(super) fn memory(&self, place: Place) -> Memory<'static> {
        let value = &self.values[place.0];
        if !value.is_fixed {
            bug("the memory of a fixed value");
        }
        let length = self.len(place).next_multiple_of(BLOCK);
        // SAFETY: the memory has this many elements, and lives as long as the values, without which no instruction runs.
        unsafe { Memory::at(value.info.dtype, value.first, length) }
    }
}
