//! The pool of freed memory. The pool stores the memory of a freed array for the next array of the same size.
//!
//! The system's allocator returns large blocks to the operating system. Each page of a new block then costs a page
//! fault. A training step frees and allocates the same sizes repeatedly, so the library stores freed memory in a pool.
//!
//! All threads share one pool of at most [`limit`] bytes. When the pool is full, it frees the least recently used
//! memory. For each size, the pool stores at most as many arrays as the program had in use at one time.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The smallest array that the pool stores, in bytes. The system's allocator is fast for smaller arrays.
const SMALLEST: usize = 4 << 10;

/// The default limit of the pool, in bytes.
const LIMIT: usize = 256 << 20;

/// The greatest number of array lengths that have a [`Bucket`].
const LENGTHS: usize = 1 << 10;

static POOL: Mutex<Pool> = Mutex::new(Pool::new(LIMIT));

fn pool() -> MutexGuard<'static, Pool> {
    POOL.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the size of the freed memory that the process currently keeps for reuse, in bytes.
pub fn held() -> usize {
    pool().bytes
}

/// Returns the limit on the freed memory that the process keeps for reuse, in bytes. The default is 256 MiB; see
/// [`set_limit`].
pub fn limit() -> usize {
    pool().limit
}

/// Sets the limit on the freed memory that the process keeps for reuse, in bytes, and frees the excess. With 0, the
/// memory of a freed array immediately returns to the system.
///
/// # Examples
/// ```
/// use pytree_kernels::base::memory;
/// memory::set_limit(64 << 20);
/// assert_eq!(memory::limit(), 64 << 20);
/// ```
pub fn set_limit(bytes: usize) {
    let evicted = pool().set_limit(bytes);
    drop(evicted);
}

/// Frees all memory that the pool stores. Returns the number of freed bytes.
pub fn release() -> usize {
    let mut pool = pool();
    let empty = Pool::new(pool.limit);
    let released = std::mem::replace(&mut *pool, empty);
    drop(pool);
    released.bytes
}

/// Gives the memory of a freed array to the pool, which stores it or frees it.
pub(crate) fn give<T: Pooled>(elements: Vec<T>) {
    if elements.len() * size_of::<T>() >= SMALLEST {
        let evicted = pool().give(elements);
        drop(evicted);
    }
}

/// Returns an array of `length` elements with arbitrary values, or `None` if the pool has no array of this length.
pub(crate) fn take<T: Pooled>(length: usize) -> Option<Vec<T>> {
    if length.saturating_mul(size_of::<T>()) < SMALLEST {
        return None;
    }
    pool().take(length)
}

pub(crate) type Lengths<T> = BTreeMap<usize, Bucket<T>>;

/// The freed arrays of one length.
pub(crate) struct Bucket<T> {
    kept: Vec<Vec<T>>,
    /// The number of allocations for which the pool had no array of this length. This number is also the greatest
    /// number of arrays of this length that were in use at one time.
    misses: usize,
    last_use: u64,
}

/// An element type whose arrays the pool stores: the bits of elements.
pub(crate) trait Pooled: Sized {
    fn lengths(pool: &mut Pool) -> &mut Lengths<Self>;
    fn evicted(evicted: &mut Evicted) -> &mut Vec<Vec<Self>>;
}

/// Defines the pool, with a list of lengths for each type of bits.
macro_rules! pool {
    ($($bits:ident),*) => {
        /// The stored memory of freed arrays, by the type of their bits and their length.
        pub(crate) struct Pool {
            $($bits: Lengths<$bits>,)*
            bytes: usize,
            limit: usize,
            /// The number of uses of the pool so far. Each use of a bucket stores the current number in the bucket. So the
            /// least recently used length has the smallest stored number.
            clock: u64,
        }

        /// Memory that was removed from the pool. The removed memory is dropped after the pool is unlocked, because freeing
        /// memory takes time.
        #[derive(Default)]
        pub(crate) struct Evicted {
            $($bits: Vec<Vec<$bits>>,)*
        }

        $(impl Pooled for $bits {
            fn lengths(pool: &mut Pool) -> &mut Lengths<Self> {
                &mut pool.$bits
            }
            fn evicted(evicted: &mut Evicted) -> &mut Vec<Vec<Self>> {
                &mut evicted.$bits
            }
        })*

        impl Pool {
            const fn new(limit: usize) -> Self {
                Self {
                    $($bits: BTreeMap::new(),)*
                    bytes: 0,
                    limit,
                    clock: 0,
                }
            }

            /// Removes an array of the least recently used length from the pool, and returns its size in bytes.
            fn evict_oldest(&mut self, evicted: &mut Evicted) -> usize {
                let uses = [$(oldest(&self.$bits)),*];
                let first = uses.into_iter().flatten().min();
                let mut uses = uses.into_iter();
                $(if let Some((_, length)) = uses.next().flatten().filter(|found| Some(*found) == first) {
                    return evict_one(&mut self.$bits, length, &mut evicted.$bits);
                })*
                self.bytes
            }
        }
    };
}
pool!(bool, u8, u16, u32, u64);

impl Pool {
    fn give<T: Pooled>(&mut self, elements: Vec<T>) -> Evicted {
        let mut evicted = Evicted::default();
        self.clock += 1;
        let (clock, bytes) = (self.clock, elements.len() * size_of::<T>());
        match T::lengths(self).get_mut(&elements.len()) {
            Some(bucket) if bucket.kept.len() < bucket.misses => {
                bucket.last_use = clock;
                bucket.kept.push(elements);
                self.bytes += bytes;
                self.evict_to_limit(&mut evicted);
            }
            _ => T::evicted(&mut evicted).push(elements),
        }
        evicted
    }

    fn take<T: Pooled>(&mut self, length: usize) -> Option<Vec<T>> {
        self.clock += 1;
        let clock = self.clock;
        let lengths = T::lengths(self);
        if let Some(bucket) = lengths.get_mut(&length) {
            bucket.last_use = clock;
            let taken = bucket.kept.pop();
            match taken {
                Some(_) => self.bytes -= length * size_of::<T>(),
                None => bucket.misses += 1,
            }
            return taken;
        }
        if lengths.len() >= LENGTHS {
            self.forget_older_half::<T>();
        }
        let bucket = Bucket {
            kept: Vec::new(),
            misses: 1,
            last_use: clock,
        };
        T::lengths(self).insert(length, bucket);
        None
    }

    /// Removes the buckets of one half of the lengths: the half that was used least recently.
    fn forget_older_half<T: Pooled>(&mut self) {
        let lengths = T::lengths(self);
        let mut uses: Vec<u64> = lengths.values().map(|bucket| bucket.last_use).collect();
        let middle = uses.len() / 2;
        let median = *uses.select_nth_unstable(middle).1;
        let mut freed = 0;
        lengths.retain(|length, bucket| {
            let is_newer = bucket.last_use >= median;
            if !is_newer {
                freed += bucket.kept.len() * length * size_of::<T>();
            }
            is_newer
        });
        self.bytes -= freed;
    }

    fn set_limit(&mut self, limit: usize) -> Evicted {
        let mut evicted = Evicted::default();
        self.limit = limit;
        self.evict_to_limit(&mut evicted);
        evicted
    }

    /// Removes arrays of the least recently used lengths until the pool is within its limit.
    fn evict_to_limit(&mut self, evicted: &mut Evicted) {
        while self.bytes > self.limit {
            self.bytes -= self.evict_oldest(evicted);
        }
    }
}

/// Finds the least recently used length with an array in the pool. Returns the time of the last use, and the length.
fn oldest<T>(lengths: &Lengths<T>) -> Option<(u64, usize)> {
    let kept = lengths.iter().filter(|(_, bucket)| !bucket.kept.is_empty());
    kept.map(|(&length, bucket)| (bucket.last_use, length))
        .min()
}

/// Removes one array of a length from the pool, and returns its size in bytes. If no array of the length is left,
/// removes the bucket of the length.
fn evict_one<T>(lengths: &mut Lengths<T>, length: usize, evicted: &mut Vec<Vec<T>>) -> usize {
    if let Some(bucket) = lengths.get_mut(&length) {
        evicted.extend(bucket.kept.pop());
        if bucket.kept.is_empty() {
            lengths.remove(&length);
        }
    }
    length * size_of::<T>()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Allocates memory as arrays do: from the pool, or new memory if the pool has none. Also returns whether the
    /// memory is from the pool.
    fn allocate(pool: &mut Pool, length: usize) -> (Vec<u32>, bool) {
        match pool.take(length) {
            Some(elements) => (elements, true),
            None => (vec![0; length], false),
        }
    }

    #[test]
    fn freed_memory_is_reused() {
        let mut pool = Pool::new(LIMIT);
        let (elements, reused) = allocate(&mut pool, 5000);
        assert!(!reused);
        let address = elements.as_ptr();
        pool.give(elements);
        assert_eq!(pool.bytes, 20_000);
        let (again, reused) = allocate(&mut pool, 5000);
        assert!(reused);
        assert_eq!((again.as_ptr(), pool.bytes), (address, 0));
        assert!(pool.take::<u64>(5000).is_none());
    }

    #[test]
    fn unused_sizes_are_not_kept() {
        let mut pool = Pool::new(LIMIT);
        pool.give(vec![1_u32; 6000]);
        assert_eq!(pool.bytes, 0);
        let (elements, _) = allocate(&mut pool, 6000);
        pool.give(vec![1_u32; 6000]);
        pool.give(elements);
        assert_eq!(pool.bytes, 24_000);
    }

    #[test]
    fn new_sizes_replace_old_sizes() {
        // After allocations of 400 other sizes, an addition of 10^6 elements still reuses the memory of its last
        // result.
        let mut pool = Pool::new(64 << 20);
        for size in 0..400 {
            let (elements, _) = allocate(&mut pool, 1_000_000 + size);
            pool.give(elements);
            assert!(pool.bytes <= pool.limit);
        }
        for round in 0..10 {
            let (elements, reused) = allocate(&mut pool, 999_999);
            assert_eq!(reused, round > 0);
            pool.give(elements);
        }
    }

    #[test]
    fn least_recently_used_is_evicted_first() {
        let mut pool = Pool::new(3 * 40_000);
        for length in [10_000, 10_001, 10_002, 10_000, 10_003] {
            let (elements, _) = allocate(&mut pool, length);
            pool.give(elements);
        }
        let kept = [10_000, 10_001, 10_002, 10_003]
            .map(|length| pool.u32.get(&length).map_or(0, |bucket| bucket.kept.len()));
        assert_eq!(kept, [1, 0, 0, 1]);
        assert!(pool.bytes <= pool.limit);
    }

    #[test]
    fn element_types_share_the_limit() {
        let mut pool = Pool::new(100_000);
        assert!(pool.take::<u16>(20_000).is_none());
        pool.give(vec![1_u16; 20_000]);
        assert_eq!(pool.bytes, 40_000);
        let (elements, _) = allocate(&mut pool, 20_000);
        pool.give(elements);
        assert_eq!(pool.bytes, 80_000, "the older array of u16 is freed");
        assert!(pool.u16.is_empty());
    }

    #[test]
    fn many_lengths_are_forgotten() {
        let mut pool = Pool::new(LIMIT);
        for length in 0..3 * LENGTHS {
            let (elements, _) = allocate(&mut pool, 1024 + length);
            pool.give(elements);
        }
        assert!(pool.u32.len() <= LENGTHS);
        let newest = 1024 + 2 * LENGTHS..1024 + 3 * LENGTHS;
        let missing = newest.filter(|length| !pool.u32.contains_key(length));
        assert_eq!(missing.count(), 0, "the older ones are forgotten");
        let kept = pool
            .u32
            .iter()
            .map(|(length, bucket)| 4 * length * bucket.kept.len());
        assert_eq!(kept.sum::<usize>(), pool.bytes);
    }

    #[test]
    fn lower_limits_free_memory() {
        let mut pool = Pool::new(LIMIT);
        let taken: Vec<_> = (0..8).map(|_| allocate(&mut pool, 10_000).0).collect();
        taken.into_iter().for_each(|elements| {
            pool.give(elements);
        });
        assert_eq!(pool.bytes, 8 * 40_000);
        let evicted = pool.set_limit(100_000);
        assert_eq!((pool.bytes, evicted.u32.len()), (80_000, 6));
    }

    /// Returns the lengths of the arrays in the pool.
    fn kept<T>(lengths: &Lengths<T>) -> Vec<usize> {
        let kept = lengths.iter().filter(|(_, bucket)| !bucket.kept.is_empty());
        kept.map(|(&length, _)| length).collect()
    }

    #[test]
    fn freeing_and_reuse_both_count_as_use() {
        let mut pool = Pool::new(LIMIT);
        let shorter = [(); 2].map(|()| allocate(&mut pool, 10_000).0);
        let longer = [(); 2].map(|()| allocate(&mut pool, 10_001).0);
        longer.into_iter().for_each(|elements| {
            pool.give(elements);
        });
        shorter.into_iter().for_each(|elements| {
            pool.give(elements);
        });
        pool.set_limit(2 * 40_000);
        assert_eq!(kept(&pool.u32), [10_000], "freed last");

        let mut pool = Pool::new(LIMIT);
        for length in [10_000, 10_001] {
            let both = [(); 2].map(|()| allocate(&mut pool, length).0);
            both.into_iter().for_each(|elements| {
                pool.give(elements);
            });
        }
        assert!(allocate(&mut pool, 10_000).1);
        pool.set_limit(40_000);
        assert_eq!(kept(&pool.u32), [10_000], "used again last");
    }

    #[test]
    fn both_widths_are_evicted() {
        for u32_is_older in [true, false] {
            let mut pool = Pool::new(LIMIT);
            let single = pool.take::<u32>(10_000).unwrap_or(vec![0; 10_000]);
            let double = pool.take::<u64>(5_000).unwrap_or(vec![0; 5_000]);
            if u32_is_older {
                pool.give(single);
                pool.give(double);
            } else {
                pool.give(double);
                pool.give(single);
            }
            assert_eq!(pool.bytes, 80_000);
            pool.set_limit(40_000);
            let (singles, doubles) = (kept(&pool.u32), kept(&pool.u64));
            assert_eq!(
                (singles.len(), doubles.len()),
                if u32_is_older { (0, 1) } else { (1, 0) }
            );
            pool.set_limit(0);
            assert_eq!(pool.bytes, 0);
        }
    }

    /// No other test uses arrays of these lengths, so the shared pool cannot change the result.
    #[test]
    fn process_keeps_sizes_used_before() {
        let long = 70_001;
        assert_eq!(limit(), 256 << 20);
        for length in [3_001, long] {
            assert!(take::<u32>(length).is_none());
            give(vec![1_u32; length]);
            let taken = take::<u32>(length).map(|elements| elements.len());
            assert_eq!(taken, Some(length));
            give(vec![1_u32; length]);
        }
        assert!(held() >= 4 * long);
        for _ in 0..2 {
            assert!(take::<u32>(SMALLEST / 4 - 1).is_none());
            give(vec![1_u32; SMALLEST / 4 - 1]);
        }
        assert!(release() >= 4 * long);
        assert!(take::<u32>(long).is_none());
        set_limit(100);
        assert_eq!(limit(), 100);
        give(vec![1_u32; long]);
        assert!(take::<u32>(long).is_none());
        set_limit(LIMIT);
    }
}
