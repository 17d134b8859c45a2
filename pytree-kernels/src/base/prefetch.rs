//! Requests memory before it is read.
//!
//! A fused kernel computes for a while between two reads of the same array. Then the processor does not request the next
//! elements by itself, and memory would be idle meanwhile.

/// The bytes of a cache line, which are also those of the widest vector.
pub(crate) const LINE: usize = 64;

/// Requests the cache lines of `elements`. Does nothing on processors whose instruction for this purpose Rust does not know.
#[inline(always)]
pub(crate) fn prefetch<T>(elements: &[T]) {
    let per_line = LINE / size_of::<T>().max(1);
    elements.chunks(per_line).for_each(|line| request(&line[0]));
}

#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code, reason = "the instruction takes a pointer")]
#[inline(always)]
pub(crate) fn request<T>(element: &T) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    // SAFETY: the instruction reads and writes nothing, and has no effect but on time. All processors have it.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(element).cast()) };
}

#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
pub(crate) fn request<T>(_: &T) {}
