//! Freed memory kept for the next array of the same size.
//!
//! The system's allocator returns large blocks to the kernel, which then hands out new pages one fault at a
//! time; a training step frees and asks for the same sizes over and over. Each thread keeps what it
//! frees, up to a bound.

use std::cell::RefCell;
use std::collections::HashMap;

/// Smaller arrays are left to the system's allocator, which is quick with them.
const SMALLEST: usize = 4 << 10;

/// The most bytes that one thread keeps.
const KEPT: usize = 128 << 20;

/// The most arrays of one length that a thread keeps.
const KEPT_OF_A_LENGTH: usize = 32;

/// Arrays by their length, and the bytes of all.
#[derive(Default)]
pub(crate) struct Pool<T> {
    by_length: HashMap<usize, Bucket<T>>,
    bytes: usize,
}

/// Arrays of one length.
struct Bucket<T> {
    kept: Vec<Vec<T>>,
    /// How often one was asked for in vain: as many are worth keeping.
    wanted: usize,
}

impl<T> Default for Bucket<T> {
    fn default() -> Self {
        Self {
            kept: Vec::new(),
            wanted: 0,
        }
    }
}

/// An element type whose arrays are kept.
pub(crate) trait Pooled: Sized + 'static {
    fn pool() -> &'static std::thread::LocalKey<RefCell<Pool<Self>>>;
}

macro_rules! pooled {
    ($($element:ty => $pool:ident),*) => {$(
        thread_local! {
            static $pool: RefCell<Pool<$element>> = RefCell::new(Pool::default());
        }
        impl Pooled for $element {
            fn pool() -> &'static std::thread::LocalKey<RefCell<Pool<Self>>> {
                &$pool
            }
        }
    )*};
}
pooled!(f32 => POOL_F32, f64 => POOL_F64);

/// Keeps an array's memory.
pub(crate) fn give<T: Pooled>(elements: Vec<T>) {
    let bytes = elements.len() * size_of::<T>();
    if bytes < SMALLEST {
        return;
    }
    // At the end of a thread the pool may be gone; then the memory is freed as usual.
    let _ = T::pool().try_with(|pool| {
        let mut pool = pool.borrow_mut();
        if pool.bytes + bytes <= KEPT {
            let Some(bucket) = pool.by_length.get_mut(&elements.len()) else {
                return;
            };
            if bucket.kept.len() < bucket.wanted.min(KEPT_OF_A_LENGTH) {
                bucket.kept.push(elements);
                pool.bytes += bytes;
            }
        }
    });
}

/// An array of `length` elements whose values are whatever it last held, if one is kept.
pub(crate) fn take<T: Pooled>(length: usize) -> Option<Vec<T>> {
    if length * size_of::<T>() < SMALLEST {
        return None;
    }
    let taken = T::pool().try_with(|pool| {
        let mut pool = pool.borrow_mut();
        let bucket = pool.by_length.entry(length).or_default();
        let taken = bucket.kept.pop();
        match taken {
            Some(_) => pool.bytes -= length * size_of::<T>(),
            None => bucket.wanted += 1,
        }
        taken
    });
    taken.ok().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_given_is_taken_again() {
        assert!(take::<f32>(5000).is_none());
        let elements = vec![1.0_f32; 5000];
        let address = elements.as_ptr();
        give(elements);
        let again = take::<f32>(5000).unwrap();
        assert_eq!(again.as_ptr(), address);
        assert!(take::<f32>(5000).is_none());
    }

    #[test]
    fn what_nobody_asked_for_is_not_kept() {
        give(vec![1.0_f32; 6000]);
        assert!(take::<f32>(6000).is_none());
        give(vec![1.0_f32; 6000]);
        give(vec![1.0_f32; 6000]);
        assert!(take::<f32>(6000).is_some());
        assert!(take::<f32>(6000).is_none());
    }

    #[test]
    fn small_arrays_are_not_kept() {
        give(vec![1.0_f32; 4]);
        assert!(take::<f32>(4).is_none());
    }
}
