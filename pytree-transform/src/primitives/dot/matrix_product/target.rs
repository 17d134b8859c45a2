//! The memory to which the parts of a product write their results.
//!
//! A product is divided along its longer side, so that no thread reads the whole of the longer operand. If this side is
//! that of the columns, the elements of two parts lie between each other in memory, so no slice has the elements of one
//! part alone.

use std::marker::PhantomData;

/// The memory of a result. It may be shared by several parts of a product, each of which writes other elements.
pub(in crate::primitives) struct Target<'a, T> {
    first: *mut T,
    elements: usize,
    memory: PhantomData<&'a mut [T]>,
}

#[allow(
    unsafe_code,
    reason = "the pointer stands for elements that one thread alone uses"
)]
// SAFETY: a target is a mutable borrow of the elements that its part writes, and those of other parts are never touched.
unsafe impl<T: Send> Send for Target<'_, T> {}

impl<'a, T: Copy> Target<'a, T> {
    /// Returns a target with the elements of a slice.
    pub(in crate::primitives) fn new(elements: &'a mut [T]) -> Self {
        Self {
            first: elements.as_mut_ptr(),
            elements: elements.len(),
            memory: PhantomData,
        }
    }

    /// Returns the number of elements from the first one to the end of the memory.
    pub(super) fn len(&self) -> usize {
        self.elements
    }

    /// Returns the address of the first element.
    pub(super) fn first(&self) -> *mut T {
        self.first
    }

    /// Returns the elements from the position `start` on.
    ///
    /// # Panics
    /// Panics if there are fewer elements.
    pub(super) fn from(&mut self, start: usize) -> Target<'_, T> {
        Target {
            first: self.address(start),
            elements: self.elements - start,
            memory: PhantomData,
        }
    }

    /// Returns two targets with the same memory. The second one begins at the position `start`.
    ///
    /// # Safety
    /// No element may be written through both targets, or read through one and written through the other.
    #[allow(unsafe_code, reason = "the caller promises that the elements differ")]
    pub(super) unsafe fn shared(self, start: usize) -> (Self, Self) {
        let second = Self {
            first: self.address(start),
            elements: self.elements - start,
            memory: PhantomData,
        };
        (self, second)
    }

    /// Replaces the element at a position by the result of `function`, which receives the old element.
    ///
    /// # Panics
    /// Panics if there is no such element.
    #[allow(unsafe_code, reason = "the elements have no slice of their own")]
    pub(super) fn update(&mut self, position: usize, function: impl FnOnce(T) -> T) {
        assert!(position < self.elements, "a position inside of the result");
        let element = self.address(position);
        // SAFETY: the element is in the memory, as asserted, and no other target uses it.
        unsafe { element.write(function(element.read())) };
    }

    fn address(&self, position: usize) -> *mut T {
        assert!(position <= self.elements, "a position inside of the result");
        self.first.wrapping_add(position)
    }
}
