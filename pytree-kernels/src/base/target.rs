//! The memory of a result that several threads write.
//!
//! A product is divided along its longer side, so that no thread reads the whole of the longer operand. If this side is
//! that of the columns, the elements of two parts lie between each other in memory, so no slice has the elements of one
//! part alone. The kernel that follows a product is divided in the same way.

use std::marker::PhantomData;

use half::{bf16, f16};

use crate::base::threads;

/// The memory of a result. It may be shared by several parts of a computation, each of which uses other elements.
pub(crate) struct Target<'a, T> {
    first: *mut T,
    elements: usize,
    memory: PhantomData<&'a mut [T]>,
}

#[allow(
    unsafe_code,
    reason = "the pointer stands for elements that one thread alone uses"
)]
// SAFETY: a target is a mutable borrow of the elements that its part uses, and those of other parts are never touched.
unsafe impl<T: Send> Send for Target<'_, T> {}

#[allow(
    unsafe_code,
    reason = "the pointer stands for elements that one thread alone uses"
)]
// SAFETY: a shared target only reads, as a shared slice does.
unsafe impl<T: Sync> Sync for Target<'_, T> {}

impl<'a, T: Copy> Target<'a, T> {
    /// Returns a target with the elements of a slice.
    #[inline]
    pub(crate) fn new(elements: &'a mut [T]) -> Self {
        Self {
            first: elements.as_mut_ptr(),
            elements: elements.len(),
            memory: PhantomData,
        }
    }

    /// Returns a target with elements at an address.
    ///
    /// # Safety
    /// The memory has this many elements while the target exists, and no reference to them is used while they are written.
    #[allow(unsafe_code, reason = "the caller promises that the elements exist")]
    pub(crate) unsafe fn at(first: *mut T, elements: usize) -> Self {
        Self {
            first,
            elements,
            memory: PhantomData,
        }
    }

    /// Returns the number of elements from the first one to the end of the memory.
    #[inline]
    pub(crate) fn elements(&self) -> usize {
        self.elements
    }

    /// Returns the address of the first element.
    #[inline]
    pub(crate) fn first(&self) -> *mut T {
        self.first
    }

    /// Returns the elements from the position `start` on.
    ///
    /// # Panics
    /// Panics if there are fewer elements.
    #[inline]
    pub(crate) fn from(&mut self, start: usize) -> Target<'_, T> {
        Target {
            first: self.address(start),
            elements: self.elements - start,
            memory: PhantomData,
        }
    }

    /// Returns the target from the position `start` on.
    pub(crate) fn offset(self, start: usize) -> Self {
        Self {
            first: self.address(start),
            elements: self.elements - start,
            memory: PhantomData,
        }
    }

    /// Returns the first element.
    #[inline(always)]
    pub(crate) fn read(&self) -> T {
        self.slice(0, 1)[0]
    }

    /// Returns another target with the same memory.
    ///
    /// # Safety
    /// No element may be written through one of the targets while it is read or written through the other.
    #[allow(unsafe_code, reason = "the caller promises that the elements differ")]
    #[inline]
    pub(crate) unsafe fn shared(&self) -> Self {
        Self {
            first: self.first,
            elements: self.elements,
            memory: PhantomData,
        }
    }

    /// Returns the address of `count` elements, beginning at the position `start`.
    ///
    /// # Panics
    /// Panics if there are fewer elements.
    #[inline(always)]
    pub(crate) fn address_of(&self, start: usize, count: usize) -> *mut T {
        self.check(start, count);
        self.first.wrapping_add(start)
    }

    /// Returns `count` elements, beginning at the position `start`.
    ///
    /// # Panics
    /// Panics if there are fewer elements.
    #[inline(always)]
    #[allow(
        unsafe_code,
        reason = "only inlined code is compiled for the wide instruction sets, and the elements have no slice of their own"
    )]
    pub(crate) fn slice(&self, start: usize, count: usize) -> &[T] {
        self.check(start, count);
        // SAFETY: the elements are in the memory, as checked, and no other target uses them.
        unsafe { std::slice::from_raw_parts(self.first.add(start), count) }
    }

    /// Returns `count` elements, beginning at the position `start`, to write them.
    ///
    /// # Panics
    /// Panics if there are fewer elements.
    #[inline(always)]
    #[allow(
        unsafe_code,
        reason = "only inlined code is compiled for the wide instruction sets, and the elements have no slice of their own"
    )]
    pub(crate) fn slice_mut(&mut self, start: usize, count: usize) -> &mut [T] {
        self.check(start, count);
        // SAFETY: the elements are in the memory, as checked, and no other target uses them.
        unsafe { std::slice::from_raw_parts_mut(self.first.add(start), count) }
    }

    #[inline(always)]
    fn check(&self, start: usize, count: usize) {
        let rest = self.elements.checked_sub(start);
        assert!(
            rest.is_some_and(|rest| count <= rest),
            "positions inside of the result"
        );
    }

    fn address(&self, position: usize) -> *mut T {
        assert!(position <= self.elements, "a position inside of the result");
        self.first.wrapping_add(position)
    }
}

impl<'a> Target<'a, u16> {
    /// Returns the same memory as that of bf16, whose bits the elements are.
    pub(crate) fn of_bf16(self) -> Target<'a, bf16> {
        self.cast()
    }

    /// Returns the same memory as that of f16, whose bits the elements are.
    pub(crate) fn of_f16(self) -> Target<'a, f16> {
        self.cast()
    }

    fn cast<H>(self) -> Target<'a, H> {
        const { assert!(size_of::<H>() == size_of::<u16>()) };
        Target {
            first: self.first.cast(),
            elements: self.elements,
            memory: PhantomData,
        }
    }
}

/// Elements of a result: `rows` runs of `columns` neighbours. The first elements of two runs are `stride` elements apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Region {
    /// The position of the first element.
    pub(crate) first: usize,
    /// The number of runs.
    pub(crate) rows: usize,
    /// The number of elements of a run.
    pub(crate) columns: usize,
    /// The distance of the first elements of two runs.
    pub(crate) stride: usize,
}

impl Region {
    /// Returns the elements from `start` to `end`.
    #[inline]
    pub(crate) fn between(start: usize, end: usize) -> Self {
        Self {
            first: start,
            rows: 1,
            columns: end - start,
            stride: end - start,
        }
    }

    /// Returns the position after the last element.
    #[inline]
    pub(crate) fn end(&self) -> usize {
        self.first + self.rows.saturating_sub(1) * self.stride + self.columns
    }
}

/// A computation that continues with the regions of a result. It runs on the thread that has computed a region, while the
/// region is in the caches of its core.
#[derive(Clone, Copy)]
pub(crate) struct Then<'a> {
    /// Runs the computation on a region.
    pub(crate) run: &'a (dyn Fn(Region) + Sync),
    /// The regions that it may get.
    pub(crate) following: Following,
}

/// How the result of a computation may be divided into regions, with which another computation continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Following {
    /// A region of whole rows begins at a multiple of this number of elements.
    pub(crate) grain: usize,
    /// Whether a region may hold a part of each row.
    pub(crate) rows: Rows,
    /// About how many nanoseconds one thread takes to continue with 1,000 elements.
    pub(crate) nanoseconds: usize,
}

/// Whether a region may hold a part of each row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rows {
    /// A region holds whole rows.
    Whole,
    /// A region may hold a part of each row.
    Divisible,
}

/// Runs a function on parts of a result, as [`threads::share_rows`] does, and continues with each part.
#[allow(
    unsafe_code,
    reason = "the parts and what follows them use different elements of the same memory"
)]
pub(crate) fn share_rows_then<T: Copy + Send + Sync>(
    nanoseconds: usize,
    mut target: Target<'_, T>,
    size: usize,
    count: usize,
    then: Option<Then<'_>>,
    run: &(dyn Fn(usize, &mut [T]) + Sync),
) {
    let elements = target.elements();
    let following = then.map_or(0, |then| then.following.nanoseconds * elements / 1000);
    let part = |target: &mut Target<'_, T>, start: usize| {
        let end = elements.min(start + size * count);
        run(start / size, target.slice_mut(start, end - start));
        if let Some(then) = then {
            (then.run)(Region::between(start, end));
        }
    };
    if elements <= size * count {
        return part(&mut target, 0);
    }
    // SAFETY: the parts have different rows, and the function `then` continues with the rows of its part only.
    let targets = (0..elements)
        .step_by(size * count)
        .map(|start| (start, unsafe { target.shared() }));
    threads::share(
        nanoseconds + following,
        targets.collect(),
        |(start, mut target)| part(&mut target, start),
    );
}
