//! An allocator that knows how many bytes are allocated, and refuses more than a limit, for tests that are processes of their own.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// The bytes that are allocated now, and the most that were allocated since the last call of [`peak`].
static NOW: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

/// The most bytes that may be allocated, and whether a block was refused since the last call of [`within`].
static LIMIT: AtomicUsize = AtomicUsize::new(usize::MAX);
static REFUSED: AtomicBool = AtomicBool::new(false);

/// Smaller blocks are never refused: a system that cannot grant them cannot run the program at all. Nor are those in which gemm packs
/// operands: their size has a bound, each thread keeps its own, and they begin where a cache line does.
const LARGE: usize = 1 << 20;
const ALIGNED: usize = 64;

struct Counting;

fn is_refused(size: usize, align: usize) -> bool {
    let all = NOW.load(Ordering::SeqCst).saturating_add(size);
    let is_refused = size >= LARGE && align < ALIGNED && all > LIMIT.load(Ordering::SeqCst);
    REFUSED.fetch_or(is_refused, Ordering::SeqCst);
    is_refused
}

fn add(size: usize) {
    let now = NOW.fetch_add(size, Ordering::SeqCst) + size;
    MOST.fetch_max(now, Ordering::SeqCst);
}

unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if is_refused(layout.size(), layout.align()) {
            return std::ptr::null_mut();
        }
        add(layout.size());
        unsafe { System.alloc(layout) }
    }
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if is_refused(layout.size(), layout.align()) {
            return std::ptr::null_mut();
        }
        add(layout.size());
        unsafe { System.alloc_zeroed(layout) }
    }
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if is_refused(size, layout.align()) {
            return std::ptr::null_mut();
        }
        // Both blocks may exist while the elements are copied.
        add(size);
        NOW.fetch_sub(layout.size(), Ordering::SeqCst);
        unsafe { System.realloc(block, layout, size) }
    }
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size(), Ordering::SeqCst);
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Returns the result of a function, and the most memory that it needed at a time, its result included.
pub(crate) fn peak<R>(function: impl FnOnce() -> R) -> (R, usize) {
    let before = NOW.load(Ordering::SeqCst);
    MOST.store(before, Ordering::SeqCst);
    let result = function();
    (result, MOST.load(Ordering::SeqCst) - before)
}

/// Returns the result of a function that may allocate `bytes` beside what is allocated, and whether it was refused more.
#[allow(dead_code, reason = "not all programs refuse memory")]
pub(crate) fn within<R>(bytes: usize, function: impl FnOnce() -> R) -> (R, bool) {
    REFUSED.store(false, Ordering::SeqCst);
    let limit = NOW.load(Ordering::SeqCst).saturating_add(bytes);
    LIMIT.store(limit, Ordering::SeqCst);
    let result = function();
    LIMIT.store(usize::MAX, Ordering::SeqCst);
    (result, REFUSED.load(Ordering::SeqCst))
}
