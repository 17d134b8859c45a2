//! The memory of one register.

use std::ops::{Deref, DerefMut};

use crate::base::prefetch::LINE;

/// A buffer for the elements of one tile. The first element begins a cache line, so that no load or store of a vector
/// crosses the border of two lines. Such a load or store takes twice as long, and an allocation of the system begins 16
/// bytes after a line.
#[derive(Default)]
pub(in crate::fused) struct Register<E> {
    memory: Vec<E>,
    /// The position of the first element in the memory.
    first: usize,
}

impl<E: Copy + Default> Register<E> {
    /// Makes room for `length` elements.
    pub(super) fn reserve(&mut self, length: usize) {
        if self.len() < length {
            let most = LINE / size_of::<E>();
            self.memory = vec![E::default(); length + most];
            self.first = self.memory.as_ptr().align_offset(LINE).min(most);
        }
    }
}

impl<E> Deref for Register<E> {
    type Target = [E];

    #[inline(always)]
    fn deref(&self) -> &[E] {
        &self.memory[self.first..]
    }
}

impl<E> DerefMut for Register<E> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [E] {
        &mut self.memory[self.first..]
    }
}
