//! The stacks of a loop: the elements that it reads and writes round by round.

use std::sync::Arc;

use super::values::{Place, Values, copy};
use crate::base::array::Array;

/// Stacks, each with the value of a round.
#[derive(Debug, Default)]
pub struct Stacks {
    pairs: Vec<(Place, Place)>,
    found: Vec<Found>,
    /// The identity of the values that have the addresses.
    identity: usize,
}

/// The addresses of a stack and of the value of a round, and the bytes of the value.
#[derive(Debug)]
struct Found {
    stack: *mut u8,
    value: *mut u8,
    bytes: usize,
    length: usize,
    /// A loose stack, which is not freed during the loop.
    _array: Option<Arc<Array>>,
}

#[allow(unsafe_code, reason = "the pointers belong to the values")]
// SAFETY: the pointers are those of values, which may be sent, too.
unsafe impl Send for Found {}

impl Stacks {
    /// Returns stacks, each with the fixed value of a round.
    pub fn new(pairs: impl IntoIterator<Item = (Place, Place)>) -> Self {
        Self {
            pairs: pairs.into_iter().collect(),
            ..Self::default()
        }
    }

    /// Finds the addresses for the rounds of a loop.
    ///
    /// # Panics
    /// Panics if a stack has fewer than `length` elements, or if the value of a round is loose.
    pub fn find(&mut self, length: usize, values: &Values) {
        self.found.clear();
        self.identity = values.identity;
        self.found.extend(self.pairs.iter().map(|&(stack, value)| {
            let bytes = values.bytes(value);
            let fits = bytes * length <= values.bytes(stack) && values.is_fixed(value);
            assert!(fits, "the elements of a stack");
            Found {
                stack: values.address(stack),
                value: values.address(value),
                bytes,
                length,
                _array: values.array(stack).cloned(),
            }
        }));
    }

    /// Forgets the addresses.
    pub fn leave(&mut self) {
        self.found.clear();
    }

    /// Copies the elements at a position of the stacks to the values.
    ///
    /// # Panics
    /// Panics if the addresses are those of other values, or if the position is out of range.
    #[inline]
    pub fn load(&self, position: usize, values: &mut Values) {
        self.each(position, values, |stack, value| (stack, value));
    }

    /// Copies the values to the elements at a position of the stacks.
    ///
    /// # Panics
    /// As [`load`](Self::load).
    #[inline]
    pub fn store(&self, position: usize, values: &mut Values) {
        self.each(position, values, |stack, value| (value, stack));
    }

    #[inline(always)]
    #[allow(unsafe_code, reason = "instructions share the memory of values")]
    fn each(
        &self,
        position: usize,
        values: &mut Values,
        ends: impl Fn(*mut u8, *mut u8) -> (*mut u8, *mut u8),
    ) {
        assert!(self.identity == values.identity, "the values of the stacks");
        for found in &self.found {
            assert!(position < found.length, "an element of a stack");
            let element = found.stack.wrapping_add(position * found.bytes);
            let (from, to) = ends(element, found.value);
            // SAFETY: the stack has this element, and the memory of both is not freed before the addresses are forgotten.
            unsafe { copy(from, to, found.bytes) }
        }
    }
}
