//! The evaluation of sums of windows, and the loops that all kernels of windows share.

use super::windows::{Cursor, Windows, windows_of};
use crate::base::array::Array;
use crate::base::combine::{Number, with_number};
use crate::base::dtype::{AbstractArray, ArrayElement, DType};
use crate::base::instructions::{leaf_of, store};
use crate::base::threads;
use crate::loops::reduce_window::geometry::Window;

/// The number of neighbouring elements that are reduced together. Each of these elements belongs to another window.
pub(super) const LANES: usize = 32;

/// The number of terms that are added to a new sum before this sum is added to the result. Short sums reduce rounding
/// errors.
const TERMS: usize = 64;

/// The number of parts into which lines of windows are divided.
const PARTS: usize = 32;

/// Computes the result of one window from the offsets of the window's elements.
pub(super) trait Kernel<T>: Copy {
    /// Computes a block of `N` elements of the result. `at` is added to the offsets.
    fn block<const N: usize>(self, offsets: &[usize], at: usize, target: &mut [T; N]);
}

impl Windows {
    /// Returns an array with an arbitrary element for each window.
    pub(super) fn reused(&self, dtype: DType) -> Array {
        Array::reused(&AbstractArray::new(dtype, &self.shape))
    }

    /// Computes the elements of the result, `inner` for each window, on parallel threads if there is enough work.
    pub(super) fn share<T: ArrayElement>(&self, target: &mut [T], kernel: impl Kernel<T> + Sync) {
        let windows = self.outer * self.count();
        let each = windows.div_ceil(PARTS);
        threads::share_rows(
            self.nanoseconds(),
            target,
            self.inner,
            each,
            &|first, target| {
                let mut cursor = Cursor::default();
                let (mut number, mut rest) = (first, target);
                while !rest.is_empty() {
                    let most = rest.len() / self.inner;
                    let (offsets, positions) = cursor.move_along(number, most, self);
                    let (now, later) = rest.split_at_mut(positions.len() * self.inner);
                    reduce_windows(kernel, offsets, positions, now);
                    (number, rest) = (number + positions.len(), later);
                }
            },
        );
    }
}

/// Computes the elements of some windows. The offsets of the elements of a window are relative to its position.
fn reduce_windows<T: ArrayElement>(
    kernel: impl Kernel<T>,
    offsets: &[usize],
    positions: &[usize],
    target: &mut [T],
) {
    leaf_of! { T =>
        let inner = target.len() / positions.len();
        for window in 0..positions.len() {
            let target = &mut target[window * inner..][..inner];
            let (at, mut done) = (positions[window], 0);
            done = blocks::<T, _, LANES>(kernel, offsets, at, target, done);
            done = blocks::<T, _, 8>(kernel, offsets, at, target, done);
            blocks::<T, _, 1>(kernel, offsets, at, target, done);
        }
    }
}

/// Computes whole blocks of `N` elements, beginning at element `done`. `at` is added to the offsets. Returns the first
/// element that is not computed.
#[inline(always)]
fn blocks<T: ArrayElement, K: Kernel<T>, const N: usize>(
    kernel: K,
    offsets: &[usize],
    at: usize,
    target: &mut [T],
    mut done: usize,
) -> usize {
    while done + N <= target.len() {
        let mut block = [T::default(); N];
        kernel.block(offsets, at + done, &mut block);
        store(target, done, block);
        done += N;
    }
    done
}

/// Returns the sum of each window.
pub fn sums(window: &Window, base_dilation: &[usize], operand: &Array) -> Array {
    let windows = match windows_of(window, Some(base_dilation), &operand.info) {
        Ok(windows) => windows,
        Err(empty) => return empty,
    };
    let mut result = windows.reused(operand.dtype());
    with_number!(operand.dtype(), T => windows.share(T::of_mut(&mut result), Sum(T::of(operand))));
    result
}

/// Adds the elements of a window.
#[derive(Clone, Copy)]
struct Sum<'a, T>(&'a [T]);

impl<T: Number> Kernel<T> for Sum<'_, T> {
    #[inline(always)]
    fn block<const N: usize>(self, offsets: &[usize], at: usize, sums: &mut [T; N]) {
        for offsets in offsets.chunks(TERMS) {
            let mut terms = [T::default(); N];
            for &offset in offsets {
                let source = &self.0[offset + at..][..N];
                for lane in 0..N {
                    terms[lane] = terms[lane].plus(source[lane]);
                }
            }
            for lane in 0..N {
                sums[lane] = sums[lane].plus(terms[lane]);
            }
        }
    }
}
