//! An allocator that knows how much memory a thread holds, and held at most.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    static HELD: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
}

struct Counting;

fn count(size: isize) {
    let _ = HELD.try_with(|held| {
        held.set(held.get() + size);
        let _ = PEAK.try_with(|peak| peak.set(peak.get().max(held.get())));
    });
}

unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        unsafe { System.alloc(layout) }
    }
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        unsafe { System.alloc_zeroed(layout) }
    }
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size as isize - layout.size() as isize);
        unsafe { System.realloc(block, layout, size) }
    }
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// What the thread holds now; from here on the most that it holds is measured.
pub fn begin() -> isize {
    PEAK.set(HELD.get());
    HELD.get()
}

/// The most bytes that the thread held besides what it held at the beginning.
pub fn peak_since(before: isize) -> usize {
    usize::try_from(PEAK.get() - before).unwrap_or(0)
}
