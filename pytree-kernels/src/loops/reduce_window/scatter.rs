//! The evaluation of a scatter that adds the cotangent of each window at the position of the window's extremum.

use super::evaluation::LANES;
use super::extrema::{Best, Preference, with_preference};
use super::windows::{Cursor, Windows, windows_of};
use crate::base::array::Array;
use crate::base::combine::{Number, Ordered, with_ordered};
use crate::base::dtype::DType;
use crate::base::instructions::leaf_of;
use crate::base::threads;
use crate::loops::reduce_window::geometry::Window;
use crate::loops::reduction::Extremum;

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
            scatter_array(&windows, best, cotangents, array, target);
        });
    }));
    result
}

/// Adds the cotangents of all windows of an outer array.
fn scatter_array<T: Ordered + Number, P: Preference<T>>(
    windows: &Windows,
    best: Best<'_, T, P>,
    cotangents: &[T],
    array: usize,
    target: &mut [T],
) {
    let (count, inner) = (windows.count(), windows.inner);
    let before = array * windows.array_length();
    let mut cursor = Cursor::default();
    target.fill(T::default());
    let (mut number, end) = (array * count, (array + 1) * count);
    while number < end {
        let (offsets, positions) = cursor.move_along(number, end - number, windows);
        let next = number + positions.len();
        if !offsets.is_empty() {
            let cotangents = &cotangents[number * inner..next * inner];
            add_windows(best, (offsets, before), positions, cotangents, target);
        }
        number = next;
    }
}

/// Adds the cotangents of some windows. The offsets of the elements of a window are relative to its position. The target begins at the
/// offset `before`.
fn add_windows<T: Ordered + Number, P: Preference<T>>(
    best: Best<'_, T, P>,
    (offsets, before): (&[usize], usize),
    positions: &[usize],
    cotangents: &[T],
    target: &mut [T],
) {
    leaf_of! { T =>
        let inner = cotangents.len() / positions.len();
        for window in 0..positions.len() {
            let cotangents = OfWindow {
                best,
                offsets,
                at: positions[window],
                before,
                cotangents: &cotangents[window * inner..][..inner],
            };
            let mut done = 0;
            done = cotangents.add_blocks::<LANES>(target, done);
            done = cotangents.add_blocks::<8>(target, done);
            cotangents.add_blocks::<1>(target, done);
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
