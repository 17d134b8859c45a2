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

/// The position of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Place(usize);

/// An operation of a program.
pub type Instruction = Box<dyn FnMut(&mut Values) + Send>;

/// Instructions in the order in which they run, with the identity of the values whose addresses they know.
pub struct Code {
    identity: usize,
    instructions: Vec<Instruction>,
}

impl std::fmt::Debug for Code {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Code({} instructions)", self.instructions.len())
    }
}

impl Code {
    /// Adds an instruction.
    pub fn push(&mut self, instruction: Instruction) {
        self.instructions.push(instruction);
    }

    /// Runs the instructions.
    ///
    /// # Panics
    /// Panics if they were made for other values.
    #[inline]
    pub fn run(&mut self, values: &mut Values) {
        assert!(
            self.identity == values.identity,
            "the values of the instructions"
        );
        for instruction in &mut self.instructions {
            instruction(values);
        }
    }
}

/// The values of a program. A *fixed* value has memory of its own. A *loose* value is an array that a run receives or makes.
pub struct Values {
    identity: usize,
    values: Vec<Value>,
}

struct Value {
    array: Arc<Array>,
    /// The address of the elements.
    first: *mut u8,
    bytes: usize,
    is_fixed: bool,
    is_constant: bool,
}

#[allow(unsafe_code, reason = "the pointer belongs to the array")]
// SAFETY: the pointer is that of the elements of the array, which may be sent, too.
unsafe impl Send for Value {}

impl std::fmt::Debug for Values {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let values = self.values.iter().map(|value| &value.array.info);
        f.debug_list().entries(values).finish()
    }
}

/// Returns the array of a loose value that has none.
fn none(dtype: DType) -> Array {
    Array::zeros(&AbstractArray::new(dtype, [0]))
}

fn address(array: &Array) -> *mut u8 {
    with_bits!(array.dtype(), T => array.bits::<T>().as_ptr().cast_mut().cast())
}

/// Copies bytes. Most elements are single numbers or short rows, for which a call takes longer than the copy.
///
/// # Safety
/// Both have this many bytes, and no byte in common.
#[inline]
#[allow(unsafe_code, reason = "the caller has compared the lengths")]
unsafe fn copy(from: *const u8, to: *mut u8, bytes: usize) {
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
    /// Returns no instructions, to which those of these values are added.
    pub fn code(&self) -> Code {
        Code {
            identity: self.identity,
            instructions: Vec::new(),
        }
    }

    /// Returns whether values with this dtype and shape are fixed.
    pub fn are_fixed(info: &AbstractArray) -> bool {
        info.len() <= MOST_ELEMENTS
    }

    /// Makes a place for a value.
    pub fn place(&mut self, info: &AbstractArray) -> Place {
        if !Self::are_fixed(info) {
            return self.loose(Arc::new(none(info.dtype)));
        }
        let length = info.len();
        with_bits!(info.dtype, T => {
            let mut bits = vec![T::default(); length.next_multiple_of(BLOCK)];
            let first = bits.as_mut_ptr().cast();
            bits.truncate(length);
            let array = Arc::new(Array::from_bits(info.dtype, &info.shape, bits));
            let bytes = info.bytes();
            self.push(Value { array, first, bytes, is_fixed: true, is_constant: false })
        })
    }

    fn loose(&mut self, array: Arc<Array>) -> Place {
        self.push(Value {
            array,
            first: std::ptr::null_mut(),
            bytes: 0,
            is_fixed: false,
            is_constant: false,
        })
    }

    fn push(&mut self, value: Value) -> Place {
        self.values.push(value);
        Place(self.values.len() - 1)
    }

    /// Makes a place for a constant.
    pub fn constant(&mut self, array: &Arc<Array>) -> Place {
        let place = self.place(&array.info);
        self.set(place, Arc::clone(array));
        self.values[place.0].is_constant = true;
        place
    }

    /// Returns whether a value is fixed.
    pub fn is_fixed(&self, place: Place) -> bool {
        self.values[place.0].is_fixed
    }

    /// Returns the array of a value.
    pub fn array(&self, place: Place) -> &Arc<Array> {
        &self.values[place.0].array
    }

    /// Returns the place that the next value gets.
    pub fn next(&self) -> Place {
        Place(self.values.len())
    }

    /// Returns whether a value is no constant, and was made when `next` was the next place, or later.
    pub fn is_made_since(&self, place: Place, next: Place) -> bool {
        place.0 >= next.0 && !self.values[place.0].is_constant
    }

    /// Returns the array of a value. A loose value then has none.
    pub fn take(&mut self, place: Place) -> Arc<Array> {
        let value = &mut self.values[place.0];
        let dtype = value.array.dtype();
        if value.is_fixed {
            return Arc::clone(&value.array);
        }
        value.bytes = 0;
        std::mem::replace(&mut value.array, Arc::new(none(dtype)))
    }

    /// Returns a value as an array with this dtype and shape.
    ///
    /// # Panics
    /// Panics if the value has another number of bytes.
    pub fn result(&self, place: Place, info: &AbstractArray) -> Arc<Array> {
        let value = &self.values[place.0];
        if value.is_fixed {
            let mut array = Array::reused(info);
            let to = with_bits!(info.dtype, T => array.bits_mut::<T>().as_mut_ptr().cast());
            assert_eq!(info.bytes(), value.bytes, "as many bytes as the value has");
            // SAFETY: both have this many bytes.
            #[allow(unsafe_code, reason = "instructions share the memory of the value")]
            unsafe {
                copy(value.first, to, info.bytes());
            }
            return Arc::new(array);
        }
        let array = Arc::clone(&value.array);
        if array.info == *info {
            return array;
        }
        Arc::new(Array::reshaped(array, &info.shape))
    }

    /// Drops the arrays of the loose values that are no constants.
    pub fn release(&mut self) {
        for value in &mut self.values {
            if !value.is_fixed && !value.is_constant && value.bytes > 0 {
                value.array = Arc::new(none(value.array.dtype()));
                value.bytes = 0;
            }
        }
    }

    /// Makes a place for a value like another one.
    pub fn like(&mut self, place: Place) -> Place {
        let value = &self.values[place.0];
        if value.is_fixed {
            return self.place(&value.array.info.clone());
        }
        let none = Arc::new(none(value.array.dtype()));
        self.loose(none)
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
            (value.array, value.first, value.bytes) = (array, from, bytes);
        }
    }

    /// Adds the filling of a fixed value with zeros.
    pub(super) fn cleared(&self, place: Place, code: &mut Code) {
        with_bits!(self.info(place).dtype, T => {
            let (mut memory, count) = (self.target::<T>(place), self.len(place));
            code.push(Box::new(move |_| memory.slice_mut(0, count).fill(T::default())));
        });
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
        if self.values[to.0].is_fixed {
            self.load(from, 0, to);
        } else {
            self.set(to, Arc::clone(self.array(from)));
        }
    }

    /// Copies the element at a position of a stack to a value.
    #[inline]
    pub fn load(&mut self, stack: Place, position: usize, to: Place) {
        let bytes = self.values[to.0].bytes;
        self.copy_bytes((stack, position * bytes), (to, 0), bytes);
    }

    /// Copies a value to the element at a position of a stack, which is fixed or was [renewed](Self::renew).
    #[inline]
    pub fn store(&mut self, from: Place, stack: Place, position: usize) {
        let bytes = self.values[from.0].bytes;
        self.copy_bytes((from, 0), (stack, position * bytes), bytes);
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
        assert!(
            value.array.dtype() == DType::Bool && !value.array.info.is_empty(),
            "a bool"
        );
        // SAFETY: the value is a bool.
        unsafe { *value.first != 0 }
    }

    pub(super) fn info(&self, place: Place) -> &AbstractArray {
        &self.values[place.0].array.info
    }

    pub(super) fn len(&self, place: Place) -> usize {
        self.info(place).len()
    }

    /// Returns the memory of a fixed value, which is a multiple of [`BLOCK`] elements.
    #[allow(unsafe_code, reason = "instructions share the memory of the value")]
    pub(super) fn target<T: Copy>(&self, place: Place) -> Target<'static, T> {
        let value = &self.values[place.0];
        if !value.is_fixed || size_of::<T>() != value.array.dtype().bytes() {
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
        unsafe { Memory::at(value.array.dtype(), value.first, length) }
    }
}
