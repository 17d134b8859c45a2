//! The evaluation of the extrema of windows. Another kernel reads the elements of a second array at the positions of
//! the extrema.

use super::evaluation::Kernel;
use super::windows::windows_of;
use crate::base::array::Array;
use crate::base::combine::{Ordered, with_ordered};
use crate::base::dtype::DType;
use crate::base::instructions::load;
use crate::loops::reduce_window::geometry::Window;
use crate::loops::reduction::Extremum;

/// The order in which a maximum or a minimum prefers elements.
pub(super) trait Preference<T>: Sync + Copy {
    /// The result for a window without elements.
    const NONE: T;
    /// Returns whether `candidate` replaces `best`: whether `candidate` is better or is the first NaN.
    fn prefers(self, candidate: T, best: T) -> bool;
}

#[derive(Clone, Copy)]
pub(super) struct Greatest;

#[derive(Clone, Copy)]
pub(super) struct Least;

#[allow(
    clippy::neg_cmp_op_on_partial_ord,
    reason = "the comparison is false for NaN, so its negation needs no other test of the candidate"
)]
impl<T: Ordered> Preference<T> for Greatest {
    const NONE: T = T::LEAST;
    #[inline(always)]
    fn prefers(self, candidate: T, best: T) -> bool {
        !(candidate <= best) & !best.is_nan()
    }
}

#[allow(
    clippy::neg_cmp_op_on_partial_ord,
    reason = "the comparison is false for NaN, so its negation needs no other test of the candidate"
)]
impl<T: Ordered> Preference<T> for Least {
    const NONE: T = T::GREATEST;
    #[inline(always)]
    fn prefers(self, candidate: T, best: T) -> bool {
        !(candidate >= best) & !best.is_nan()
    }
}

/// Runs an expression with the preference for an extremum.
macro_rules! with_preference {
    ($extremum:expr, $preference:ident => $body:expr) => {
        match $extremum {
            Extremum::Max => {
                let $preference = $crate::loops::reduce_window::extrema::Greatest;
                $body
            }
            Extremum::Min => {
                let $preference = $crate::loops::reduce_window::extrema::Least;
                $body
            }
        }
    };
}
pub(super) use with_preference;

/// Returns the extremum of each window.
pub fn extrema(extremum: Extremum, window: &Window, operand: &Array) -> Array {
    let windows = match windows_of(window, None, &operand.info) {
        Ok(windows) => windows,
        Err(empty) => return empty,
    };
    let mut result = windows.reused(operand.dtype());
    with_ordered!(operand.dtype(), T => with_preference!(extremum, preference => {
        let source = operand.elements::<T>();
        windows.share(result.elements_mut(), Best { preference, source });
    }));
    result
}

/// Finds the extremum of a window.
#[derive(Clone, Copy)]
pub(super) struct Best<'a, T, P> {
    pub(super) preference: P,
    pub(super) source: &'a [T],
}

impl<T: Ordered, P: Preference<T>> Kernel<T> for Best<'_, T, P> {
    #[inline(always)]
    fn block<const N: usize>(self, offsets: &[usize], at: usize, best: &mut [T; N]) {
        let Some((&first, rest)) = offsets.split_first() else {
            best.fill(P::NONE);
            return;
        };
        *best = load(self.source, first + at);
        for &offset in rest {
            let source = &self.source[offset + at..][..N];
            for lane in 0..N {
                let prefers = self.preference.prefers(source[lane], best[lane]);
                best[lane] = if prefers { source[lane] } else { best[lane] };
            }
        }
    }
}

impl<T: Ordered, P: Preference<T>> Best<'_, T, P> {
    /// Returns, for each of `N` neighbouring windows, the index in `offsets` of the window's extremum. `offsets` must
    /// not be empty.
    #[inline(always)]
    pub(super) fn places<const N: usize>(self, offsets: &[usize], at: usize) -> [u32; N] {
        let mut places = [0_u32; N];
        let mut best: [T; N] = load(self.source, offsets[0] + at);
        for (place, &offset) in (1_u32..).zip(&offsets[1..]) {
            let source = &self.source[offset + at..][..N];
            for lane in 0..N {
                let prefers = self.preference.prefers(source[lane], best[lane]);
                best[lane] = if prefers { source[lane] } else { best[lane] };
                places[lane] = if prefers { place } else { places[lane] };
            }
        }
        places
    }
}

/// Returns the element of `tangents` at the position of each window's extremum.
pub fn gather(extremum: Extremum, window: &Window, tangents: &Array, operand: &Array) -> Array {
    let windows = match windows_of(window, None, &operand.info) {
        Ok(windows) => windows,
        Err(empty) => return empty,
    };
    let mut result = windows.reused(operand.dtype());
    with_ordered!(operand.dtype(), T => with_preference!(extremum, preference => {
        let best = Best { preference, source: operand.elements::<T>() };
        windows.share(result.elements_mut(), Gather { best, tangents: tangents.elements::<T>() });
    }));
    result
}

/// Reads the tangents at the extrema of a window.
#[derive(Clone, Copy)]
struct Gather<'a, T, P> {
    best: Best<'a, T, P>,
    tangents: &'a [T],
}

impl<T: Ordered, P: Preference<T>> Kernel<T> for Gather<'_, T, P> {
    #[inline(always)]
    fn block<const N: usize>(self, offsets: &[usize], at: usize, target: &mut [T; N]) {
        if offsets.is_empty() {
            return;
        }
        let places = self.best.places::<N>(offsets, at);
        for lane in 0..N {
            target[lane] = self.tangents[offsets[places[lane] as usize] + at + lane];
        }
    }
}
