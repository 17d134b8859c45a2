//! The pool of freed memory. The pool stores the memory of a freed array for the next array of the same size.
//!
//! The system's allocator returns large blocks to the operating system. Each page of a new block then costs a page
//! fault. A training step frees and allocates the same sizes repeatedly, so the library stores freed memory in a pool.
//!
//! All threads share one pool of at most [`limit`] bytes. When the pool is full, it frees the least recently used
//! memory. For each size, the pool stores at most as many arrays as the program had in use at one time. If the program asks again for
//! memory that was freed because the pool was full, the limit grows, so that the steps of a large model find the memory of the last step.

use std::any::Any;
use std::cell::Cell;
use std::mem::{Discriminant, discriminant};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use bytemuck::Zeroable;
use bytemuck::allocation::try_zeroed_vec;
use hashbrown::HashMap;

/// An array of at least this many bytes is allocated only after a trial. Smaller arrays are allocated without a trial,
/// because a system that cannot grant so little memory cannot run the program at all.
pub(crate) const TRIED: usize = 64 << 20;

/// A compiled function may need this many bytes without a trial.
const UNTRIED: usize = 1 << 20;

thread_local! {
    static CATCHES: Cell<bool> = const { Cell::new(false) };
}

/// A guard that sets whether a caller on this thread catches refusals.
pub(crate) struct Catches(bool);

impl Catches {
    pub(crate) fn now() -> bool {
        CATCHES.get()
    }

    pub(crate) fn set(catches: bool) -> Self {
        Self(CATCHES.replace(catches))
    }
}

impl Drop for Catches {
    fn drop(&mut self) {
        CATCHES.set(self.0);
    }
}

/// Runs a function of which a caller handles refused memory.
///
/// # Errors
/// Returns what the system refuses to the function; see [`refuse`].
pub fn catch_refused<T: Any, R>(function: impl FnOnce() -> R) -> Result<R, Box<T>> {
    let catches = Catches::set(true);
    let outcome = catch_unwind(AssertUnwindSafe(function));
    drop(catches);
    outcome.map_err(|payload| {
        payload
            .downcast()
            .unwrap_or_else(|panic| resume_unwind(panic))
    })
}

/// Unwinds to the innermost [`catch_refused`] with what the system refuses to allocate. Returns if there is none.
pub fn refuse<T: Any + Send>(refused: T) {
    if cfg!(panic = "unwind") && Catches::now() {
        resume_unwind(Box::new(refused));
    }
}

/// The smallest array that the pool stores, in bytes. The system's allocator is fast for smaller arrays.
const SMALLEST: usize = 4 << 10;

/// The limit of the pool at the start, in bytes.
const LIMIT: usize = 256 << 20;

/// The greatest limit that a pool reaches by itself.
const GREATEST: usize = 2 << 30;

/// The greatest number of array lengths that have a [`Bucket`].
const LENGTHS: usize = 1 << 10;

static POOL: LazyLock<Mutex<Pool>> = LazyLock::new(|| Mutex::new(Pool::new(LIMIT, GREATEST)));

fn pool() -> MutexGuard<'static, Pool> {
    POOL.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the size of the freed memory that the process currently keeps for reuse, in bytes.
pub fn held() -> usize {
    pool().bytes
}

/// Returns the limit on the freed memory that the process keeps for reuse, in bytes. It is 256 MiB at the start, and grows up to 2 GiB
/// while the program asks again for memory that was freed because of the limit; see [`set_limit`].
pub fn limit() -> usize {
    pool().limit
}

/// Sets the limit on the freed memory that the process keeps for reuse, in bytes, and frees the excess. From then on, the limit does not
/// grow. With 0, the memory of a freed array immediately returns to the system.
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
    let empty = Pool::new(pool.limit, pool.greatest);
    let released = std::mem::replace(&mut *pool, empty);
    drop(pool);
    released.bytes
}

fn is_granted_beside_pool(bytes: usize) -> bool {
    Vec::<u8>::new().try_reserve_exact(bytes).is_ok()
}

/// Returns whether the system grants this many bytes, if necessary after the pool has freed its memory.
pub fn is_granted(bytes: usize) -> bool {
    is_granted_beside_pool(bytes) || (release() > 0 && is_granted_beside_pool(bytes))
}

/// Returns new zeros, or `None` if the system does not grant their memory, even after the pool has freed its own.
pub(crate) fn zeros<T: Zeroable>(length: usize) -> Option<Vec<T>> {
    let allocate = || try_zeroed_vec(length).ok();
    allocate().or_else(|| (release() > 0).then(allocate)?)
}

/// Returns whether a program can allocate this many bytes, in the memory of the pool or of the system.
pub fn has_room(bytes: usize) -> bool {
    let is_granted_beside_held = || is_granted_beside_pool(bytes.saturating_sub(held()));
    bytes < UNTRIED || is_granted_beside_held() || is_granted(bytes)
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

/// The freed arrays of one length and one type.
struct Bucket {
    kept: Vec<Block>,
    /// The number of allocations for which the pool had no array of this length. This number is also the greatest
    /// number of arrays of this length that were in use at one time.
    misses: usize,
    /// The number of arrays of this length that were freed because the pool was full, and that the program did not ask for since.
    evicted: usize,
    last_use: u64,
}

/// An element type whose arrays the pool stores: the bits of elements.
pub(crate) trait Pooled: Sized {
    fn into_block(elements: Vec<Self>) -> Block;
    fn from_block(block: Block) -> Option<Vec<Self>>;
}

/// Defines the memory of an array, with a variant for each type of bits.
macro_rules! blocks {
    ($($variant:ident($bits:ident)),*) => {
        /// The memory of an array.
        #[derive(Debug)]
        pub(crate) enum Block {
            $($variant(Vec<$bits>),)*
        }

        impl Block {
            fn len(&self) -> usize {
                match self {
                    $(Self::$variant(elements) => elements.len(),)*
                }
            }

            fn bytes(&self) -> usize {
                match self {
                    $(Self::$variant(elements) => size_of_val(&elements[..]),)*
                }
            }
        }

        $(impl Pooled for $bits {
            fn into_block(elements: Vec<Self>) -> Block {
                Block::$variant(elements)
            }
            fn from_block(block: Block) -> Option<Vec<Self>> {
                match block {
                    Block::$variant(elements) => Some(elements),
                    _ => None,
                }
            }
        })*
    };
}
blocks!(Bool(bool), U8(u8), U16(u16), U32(u32), U64(u64));

/// The type and the length of an array.
type Key = (Discriminant<Block>, usize);

/// The stored memory of freed arrays.
struct Pool {
    buckets: HashMap<Key, Bucket>,
    bytes: usize,
    limit: usize,
    /// The greatest limit that the pool reaches by itself.
    greatest: usize,
    /// The number of uses of the pool so far. Each use of a bucket stores the current number in the bucket. So the
    /// least recently used length has the smallest stored number.
    clock: u64,
}

impl Pool {
    fn new(limit: usize, greatest: usize) -> Self {
        Self {
            buckets: HashMap::new(),
            bytes: 0,
            limit,
            greatest,
            clock: 0,
        }
    }

    /// Stores the memory of an array. Returns the memory that was removed from the pool, which is dropped after the pool is
    /// unlocked, because freeing memory takes time.
    fn give<T: Pooled>(&mut self, elements: Vec<T>) -> Vec<Block> {
        self.give_block(T::into_block(elements))
    }

    fn give_block(&mut self, block: Block) -> Vec<Block> {
        self.clock += 1;
        match self.buckets.get_mut(&(discriminant(&block), block.len())) {
            Some(bucket) if bucket.kept.len() < bucket.misses => {
                bucket.last_use = self.clock;
                self.bytes += block.bytes();
                bucket.kept.push(block);
                self.evict_to_limit()
            }
            _ => vec![block],
        }
    }

    fn take<T: Pooled>(&mut self, length: usize) -> Option<Vec<T>> {
        let kind = discriminant(&T::into_block(Vec::new()));
        let taken = self.take_block(kind, length, length.saturating_mul(size_of::<T>()));
        taken.and_then(T::from_block)
    }

    /// Returns an array of `length` elements, which have `bytes` bytes.
    fn take_block(
        &mut self,
        kind: Discriminant<Block>,
        length: usize,
        bytes: usize,
    ) -> Option<Block> {
        self.clock += 1;
        if let Some(bucket) = self.buckets.get_mut(&(kind, length)) {
            bucket.last_use = self.clock;
            let taken = bucket.kept.pop();
            match &taken {
                Some(block) => self.bytes -= block.bytes(),
                None if bucket.evicted > 0 => {
                    bucket.evicted -= 1;
                    let grown = self.limit.saturating_add(bytes).min(self.greatest);
                    self.limit = self.limit.max(grown);
                }
                None => bucket.misses += 1,
            }
            return taken;
        }
        if self.buckets.len() >= LENGTHS {
            self.forget_older_half();
        }
        let bucket = Bucket {
            kept: Vec::new(),
            misses: 1,
            evicted: 0,
            last_use: self.clock,
        };
        self.buckets.insert((kind, length), bucket);
        None
    }

    /// Removes the buckets of one half of the lengths: the half that was used least recently.
    fn forget_older_half(&mut self) {
        let mut uses: Vec<u64> = self.buckets.values().map(|it| it.last_use).collect();
        let middle = uses.len() / 2;
        let median = *uses.select_nth_unstable(middle).1;
        let bytes = &mut self.bytes;
        self.buckets.retain(|_, bucket| {
            let is_newer = bucket.last_use >= median;
            if !is_newer {
                *bytes -= bucket.kept.iter().map(Block::bytes).sum::<usize>();
            }
            is_newer
        });
    }

    fn set_limit(&mut self, limit: usize) -> Vec<Block> {
        (self.limit, self.greatest) = (limit, limit);
        self.evict_to_limit()
    }

    /// Removes arrays of the least recently used lengths until the pool is within its limit.
    fn evict_to_limit(&mut self) -> Vec<Block> {
        let mut evicted = Vec::new();
        while self.bytes > self.limit {
            let kept = self.buckets.values_mut().filter(|it| !it.kept.is_empty());
            let Some(bucket) = kept.min_by_key(|bucket| bucket.last_use) else {
                break;
            };
            if let Some(block) = bucket.kept.pop() {
                bucket.evicted += 1;
                self.bytes -= block.bytes();
                evicted.push(block);
            }
        }
        evicted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept<T: Pooled>(pool: &Pool, length: usize) -> Option<usize> {
        let kind = discriminant(&T::into_block(Vec::new()));
        let bucket = pool.buckets.get(&(kind, length));
        bucket
            .map(|bucket| bucket.kept.len())
            .filter(|&kept| kept > 0)
    }

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
        let mut pool = Pool::new(LIMIT, 0);
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
        let mut pool = Pool::new(LIMIT, 0);
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
        let mut pool = Pool::new(64 << 20, 0);
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
        let mut pool = Pool::new(3 * 40_000, 0);
        for length in [10_000, 10_001, 10_002, 10_000, 10_003] {
            let (elements, _) = allocate(&mut pool, length);
            pool.give(elements);
        }
        let kept =
            [10_000, 10_001, 10_002, 10_003].map(|length| kept::<u32>(&pool, length).unwrap_or(0));
        assert_eq!(kept, [1, 0, 0, 1]);
        assert!(pool.bytes <= pool.limit);
    }

    /// The steps of a program that uses more memory than the first limit find the memory of the last step. A limit that was set stays.
    #[test]
    fn limit_grows_for_memory_that_is_asked_for_again() {
        for (greatest, finds_all) in [(400_000, true), (130_000, false), (0, false)] {
            let mut pool = Pool::new(100_000, greatest);
            let mut step = || {
                let allocated =
                    [10_000, 10_500, 11_000, 11_500].map(|length| allocate(&mut pool, length));
                let found = allocated.iter().filter(|(_, reused)| *reused).count();
                for (elements, _) in allocated {
                    pool.give(elements);
                }
                found
            };
            let last = (0..10).map(|_| step()).last();
            assert_eq!(last == Some(4), finds_all, "{greatest}");
            assert!(pool.limit <= greatest.max(100_000), "{}", pool.limit);
        }
        // Memory that was freed once counts once, and then another array of its length is in use.
        let mut pool = Pool::new(50_000, 400_000);
        for length in [10_000, 10_001] {
            let (elements, _) = allocate(&mut pool, length);
            pool.give(elements);
        }
        for _ in 0..2 {
            let clock = pool.clock;
            assert!(pool.take::<u32>(10_000).is_none());
            assert_eq!((pool.limit, pool.clock), (90_000, clock + 1));
        }
        // Lengths that do not return leave the limit as it is.
        let mut pool = Pool::new(100_000, 400_000);
        for length in 10_000..10_100 {
            let (elements, _) = allocate(&mut pool, length);
            pool.give(elements);
        }
        assert_eq!(pool.limit, 100_000);
    }

    #[test]
    fn element_types_share_the_limit() {
        let mut pool = Pool::new(100_000, 0);
        assert!(pool.take::<u16>(20_000).is_none());
        pool.give(vec![1_u16; 20_000]);
        assert_eq!(pool.bytes, 40_000);
        let (elements, _) = allocate(&mut pool, 20_000);
        pool.give(elements);
        assert_eq!(pool.bytes, 80_000, "the older array of u16 is freed");
        assert_eq!(kept::<u16>(&pool, 20_000), None);
    }

    #[test]
    fn many_lengths_are_forgotten() {
        let mut pool = Pool::new(LIMIT, 0);
        for length in 0..3 * LENGTHS {
            let (elements, _) = allocate(&mut pool, 1024 + length);
            pool.give(elements);
        }
        assert!(pool.buckets.len() <= LENGTHS);
        let newest = 1024 + 2 * LENGTHS..1024 + 3 * LENGTHS;
        let missing = newest.filter(|length| kept::<u32>(&pool, *length).is_none());
        assert_eq!(missing.count(), 0, "the older ones are forgotten");
        let kept = pool.buckets.values().flat_map(|bucket| &bucket.kept);
        assert_eq!(kept.map(Block::bytes).sum::<usize>(), pool.bytes);
    }

    #[test]
    fn lower_limits_free_memory() {
        let mut pool = Pool::new(LIMIT, 0);
        let taken: Vec<_> = (0..8).map(|_| allocate(&mut pool, 10_000).0).collect();
        taken.into_iter().for_each(|elements| {
            pool.give(elements);
        });
        assert_eq!(pool.bytes, 8 * 40_000);
        let evicted = pool.set_limit(100_000);
        assert_eq!((pool.bytes, evicted.len()), (80_000, 6));
    }

    #[test]
    fn freeing_and_reuse_both_count_as_use() {
        let mut pool = Pool::new(LIMIT, 0);
        let shorter = [(); 2].map(|()| allocate(&mut pool, 10_000).0);
        let longer = [(); 2].map(|()| allocate(&mut pool, 10_001).0);
        longer.into_iter().for_each(|elements| {
            pool.give(elements);
        });
        shorter.into_iter().for_each(|elements| {
            pool.give(elements);
        });
        pool.set_limit(2 * 40_000);
        assert_eq!(kept::<u32>(&pool, 10_001), None, "freed first");

        let mut pool = Pool::new(LIMIT, 0);
        for length in [10_000, 10_001] {
            let both = [(); 2].map(|()| allocate(&mut pool, length).0);
            both.into_iter().for_each(|elements| {
                pool.give(elements);
            });
        }
        assert!(allocate(&mut pool, 10_000).1);
        pool.set_limit(40_000);
        assert_eq!(kept::<u32>(&pool, 10_001), None, "not used again");
    }

    #[test]
    fn both_widths_are_evicted() {
        for u32_is_older in [true, false] {
            let mut pool = Pool::new(LIMIT, 0);
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
            assert_eq!(kept::<u32>(&pool, 10_000).is_none(), u32_is_older);
            assert_eq!(kept::<u64>(&pool, 5_000).is_none(), !u32_is_older);
            pool.set_limit(0);
            assert_eq!(pool.bytes, 0);
        }
    }

    #[test]
    fn refusal_reaches_the_innermost_catch() {
        refuse(1_u8);
        let caught = catch_refused::<u8, ()>(|| {
            let inner = catch_refused::<u8, ()>(|| refuse(2_u8));
            assert_eq!(inner, Err(Box::new(2)));
            assert!(Catches::now());
            let uncaught = Catches::set(false);
            refuse(3_u8);
            drop(uncaught);
            refuse(4_u8);
        });
        assert_eq!(caught, Err(Box::new(4)));
        assert!(!Catches::now());
        assert_eq!(catch_refused::<u8, _>(|| 5), Ok(5));
    }

    /// Each system grants 64 MiB.
    #[test]
    fn sizes_of_trials_are_those_of_the_documentation() {
        assert_eq!(
            (TRIED, UNTRIED, GREATEST),
            (0x0400_0000, 0x0010_0000, 0x8000_0000)
        );
        assert!(has_room(0) && has_room(UNTRIED - 1) && has_room(TRIED));
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
        // Refused memory frees the pool, and granted memory does not. No system grants 2^60 bytes.
        for is_refused in [
            || !is_granted(1 << 60),
            || !has_room(1 << 60),
            || zeros::<u64>(1 << 57).is_none(),
        ] {
            assert!(take::<u32>(long).is_none());
            give(vec![1_u32; long]);
            assert!(is_granted(TRIED) && has_room(TRIED));
            assert_eq!(zeros(3), Some(vec![0_u64; 3]));
            assert!(held() >= 4 * long);
            assert!(is_refused());
            assert!(take::<u32>(long).is_none());
        }
        assert!(!is_granted_beside_pool(1 << 60));
        set_limit(100);
        assert_eq!(limit(), 100);
        give(vec![1_u32; long]);
        assert!(take::<u32>(long).is_none());
        set_limit(LIMIT);
    }
}
