//! The evaluation of a scatter that adds the cotangent of each window at the position of the window's extremum.

use super::Window;
use super::evaluation::LANES;
use super::extrema::{Best, Preference, with_preference};
use super::windows::{Cursor, Windows, windows_of};
use crate::base::array::Array;
use crate::base::dtype::DType;
use crate::base::instructions::dispatch;
use crate::base::threads;
use crate::primitives::reduction::{Extremum, Number, Ordered, with_ordered};

/// In windows of at most this many elements, the position of each element is compared with the selected position. This
/// comparison is faster than reading and writing at many positions.
const COMPARED: usize = 16;

/// Adds each element of `cotangents` at the position of its window's extremum. Each outer array belongs to one thread,
/// so no two threads add to the same element.
pub fn scatter(extremum: Extremum, window: &Window, cotangents: &Array, operand: &Array) -> Array {
    let Ok(windows) = windows_of(window, None, &operand.info) else {
        return Array::zeros(&operand.info);
    };
    let mut result = Array::reused(&operand.info);
    let (nanoseconds, length) = (windows.nanoseconds(), windows.array_length().max(1));
    with_ordered!(operand.dtype(), T => with_preference!(extremum, preference => {
        let best = Best { preference, source: operand.elements::<T>() };
        let cotangents = cotangents.elements::<T>();
        threads::share_rows(nanoseconds, result.elements_mut(), length, 1, &|array, target| {
            dispatch::<T, _>(Scatter { windows: &windows, best, cotangents, array, target });
        });
    }));
    result
}

/// Adds the cotangents of all windows of an outer array. The computation is compiled for several instruction sets.
struct Scatter<'a, T, P> {
    windows: &'a Windows,
    best: Best<'a, T, P>,
    cotangents: &'a [T],
    array: usize,
    target: &'a mut [T],
}

impl<T: Ordered + Number, P: Preference<T>> pulp::WithSimd for Scatter<'_, T, P> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: pulp::Simd>(self, _: S) {
        let (count, inner) = (self.windows.count(), self.windows.inner);
        let before = self.array * self.windows.array_length();
        let mut cursor = Cursor::default();
        self.target.fill(T::default());
        for number in self.array * count..(self.array + 1) * count {
            let (offsets, at) = cursor.move_to(number, self.windows);
            if offsets.is_empty() {
                continue;
            }
            let cotangents = OfWindow {
                best: self.best,
                offsets,
                at,
                before,
                cotangents: &self.cotangents[number * inner..][..inner],
            };
            let mut done = 0;
            done = cotangents.add_blocks::<LANES>(self.target, done);
            done = cotangents.add_blocks::<8>(self.target, done);
            cotangents.add_blocks::<1>(self.target, done);
        }
    }
}

/// The cotangents of a window.
struct OfWindow<'a, T, P> {
    best: Best<'a, T, P>,
    offsets: &'a [usize],
    /// The number to add to each of `offsets`.
    at: usize,
    /// The offset in the result at which the target begins.
    before: usize,
    cotangents: &'a [T],
}

impl<T: Ordered + Number, P: Preference<T>> OfWindow<'_, T, P> {
    /// Adds whole blocks of `N` elements, beginning at element `done`. Returns the first element that is not added.
    #[inline(always)]
    fn add_blocks<const N: usize>(&self, target: &mut [T], mut done: usize) -> usize {
        let offsets = self.offsets;
        while done + N <= self.cotangents.len() {
            let at = self.at + done;
            let places = self.best.places::<N>(offsets, at);
            let terms = &self.cotangents[done..done + N];
            if N > 1 && offsets.len() <= COMPARED {
                for (place, &offset) in (0_u32..).zip(offsets) {
                    let sums = &mut target[offset + at - self.before..][..N];
                    for lane in 0..N {
                        let term = if places[lane] == place {
                            terms[lane]
                        } else {
                            T::default()
                        };
                        sums[lane] = Number::plus(sums[lane], term);
                    }
                }
            } else {
                for lane in 0..N {
                    let sum = &mut target[offsets[places[lane] as usize] + at + lane - self.before];
                    *sum = Number::plus(*sum, terms[lane]);
                }
            }
            done += N;
        }
        done
    }
}
