//! The evaluation of reductions of windows. No array of windows is made: each window is read where it is.

#![allow(
    clippy::inline_always,
    reason = "only what is inlined is compiled for the wide instruction sets"
)]

use std::ops::Range;

use super::Window;
use crate::base::array::{Array, reused, row_major_strides};
use crate::base::dtype::{AbstractArray, DType};
use crate::base::instructions::arch;
use crate::base::shape::{PerAxis, Shape};
use crate::base::threads;
use crate::primitives::reduce::{Extremum, Number, Ordered, with_number};

/// The number of elements that are reduced at once. They are neighbours behind the axes over which windows slide.
const LANES: usize = 64;

/// The number of elements that are added before their sum is added to a sum of such sums.
const TERMS: usize = 64;

/// The least number of elements of all windows for which several threads are used.
const PARALLEL: usize = 1 << 20;

/// The number of parts into which lines of windows are divided.
const PARTS: usize = 32;

/// The windows of an array, as loops see them: `outer` arrays, axes over which windows slide, and `inner` neighbouring
/// elements that belong to different windows.
struct Windows {
    outer: usize,
    axes: Vec<Axis>,
    inner: usize,
    shape: Shape,
}

/// An axis over which windows slide: the distance in memory between neighbours, and the positions that each window
/// contains.
struct Axis {
    length: usize,
    stride: usize,
    ranges: Vec<Range<usize>>,
}

impl Windows {
    /// Creates the windows of an array. The result must have elements.
    fn new(window: &Window, base_dilation: &[usize], info: &AbstractArray, result: &Shape) -> Self {
        let shape = &info.shape;
        let slides = |axis: usize| {
            window.sliding(axis, shape[axis], base_dilation[axis]) != window_of_one(shape[axis])
        };
        let rank = shape.len();
        let first = (0..rank).find(|&axis| slides(axis)).unwrap_or(0);
        let end = (0..rank)
            .rfind(|&axis| slides(axis))
            .map_or(0, |axis| axis + 1);
        let strides = row_major_strides(shape);
        let axis = |axis: usize| {
            let dilation = if shape[axis] > 1 {
                base_dilation[axis] as i128
            } else {
                i128::from(u64::MAX)
            };
            let range = |number: usize| {
                let start =
                    number as i128 * window.strides[axis] as i128 - window.padding[axis].0 as i128;
                let end = start + window.dimensions[axis] as i128;
                let position = |at: i128| {
                    let above = (at + dilation - 1).div_euclid(dilation);
                    usize::try_from(above).unwrap_or(0).min(shape[axis])
                };
                position(start)..position(end).max(position(start))
            };
            Axis {
                length: shape[axis],
                stride: strides[axis],
                ranges: (0..result[axis]).map(range).collect(),
            }
        };
        Self {
            outer: shape[..first].iter().product(),
            axes: (first..end).map(axis).collect(),
            inner: shape[end..].iter().product(),
            shape: result.clone(),
        }
    }

    /// Returns the number of elements of an outer array.
    fn array_length(&self) -> usize {
        self.axes.iter().map(|axis| axis.length).product::<usize>() * self.inner
    }

    /// Returns the number of windows of an outer array, each for `inner` elements.
    fn count(&self) -> usize {
        self.axes.iter().map(|axis| axis.ranges.len()).product()
    }

    /// Writes the offsets of the elements of a window to `offsets`, in row-major order.
    #[inline(always)]
    fn offsets(&self, mut number: usize, offsets: &mut Vec<usize>) {
        let array = number / self.count();
        number %= self.count();
        offsets.clear();
        offsets.push(array * self.array_length());
        // The last axis varies fastest, so the axes are expanded from the first to the last.
        let mut rest = self.count();
        for axis in &self.axes {
            rest /= axis.ranges.len();
            let range = axis.ranges[number / rest].clone();
            number %= rest;
            let count = offsets.len();
            if range.len() == 1 {
                offsets
                    .iter_mut()
                    .for_each(|offset| *offset += range.start * axis.stride);
                continue;
            }
            for place in 0..count {
                let offset = offsets[place];
                offsets.extend(range.clone().map(|at| offset + at * axis.stride));
            }
            offsets.drain(..count);
        }
    }

    /// Runs `run` for blocks of windows. Each part gets the number of its first window and its part of the result, with
    /// `inner` elements for each window.
    fn share<T: Send>(&self, target: &mut [T], run: impl Fn(usize, &mut [T]) + Sync) {
        let windows = self.outer * self.count();
        let each = windows.div_ceil(PARTS);
        let parts: Vec<(usize, &mut [T])> =
            target.chunks_mut(each * self.inner).enumerate().collect();
        self.run_parts(parts, |(part, target)| {
            arch().dispatch(|| run(part * each, target))
        });
    }

    fn run_parts<P: Send>(&self, parts: Vec<P>, run: impl Fn(P) + Sync) {
        let size: usize = self
            .axes
            .iter()
            .map(|axis| axis.ranges.iter().map(Range::len).max().unwrap_or(0))
            .product();
        let work = self.outer * self.count() * self.inner * size;
        if work < PARALLEL {
            parts.into_iter().for_each(run);
        } else {
            threads::run_parts(parts, run);
        }
    }
}

/// Returns the geometry of windows that have one element each, which are all elements of an axis.
fn window_of_one(length: usize) -> crate::primitives::sliding::Sliding {
    crate::primitives::sliding::Sliding {
        length,
        dilation: 1,
        padding: (0, 0),
        size: 1,
        window_dilation: 1,
        stride: 1,
    }
}

/// Returns the windows of an array, or an array of zeros if the result has no elements.
fn windows_of(
    window: &Window,
    base_dilation: Option<&[usize]>,
    info: &AbstractArray,
) -> Result<Windows, Array> {
    let ones: PerAxis = info.shape.iter().map(|_| 1).collect();
    let result = match window.result("reduce windows of", info, base_dilation) {
        Ok(result) => result,
        Err(error) => panic!("{error}"),
    };
    if result.is_empty() {
        return Err(Array::zeros(&result));
    }
    Ok(Windows::new(
        window,
        base_dilation.unwrap_or(&ones),
        info,
        &result.shape,
    ))
}

/// Returns the sum of each window.
pub(super) fn sums(window: &Window, base_dilation: &[usize], operand: &Array) -> Array {
    let windows = match windows_of(window, Some(base_dilation), &operand.info) {
        Ok(windows) => windows,
        Err(empty) => return empty,
    };
    with_number!(operand.dtype(), T => {
        let source = operand.elements::<T>();
        let mut target = reused::<T>(windows.shape.iter().product());
        windows.share(&mut target, |first, target| {
            let mut offsets = Vec::new();
            for (number, target) in target.chunks_exact_mut(windows.inner).enumerate() {
                windows.offsets(first + number, &mut offsets);
                let mut done = 0;
                done = add_lanes::<T, LANES>(source, &offsets, target, done);
                done = add_lanes::<T, 8>(source, &offsets, target, done);
                add_lanes::<T, 1>(source, &offsets, target, done);
            }
        });
        Array::new(&windows.shape, target)
    })
}

/// Writes the sums of whole blocks of `N` elements from element `done` on. Returns the number of elements that are done.
#[inline(always)]
fn add_lanes<T: Number, const N: usize>(
    source: &[T],
    offsets: &[usize],
    target: &mut [T],
    mut done: usize,
) -> usize {
    while done + N <= target.len() {
        let mut sums = [T::default(); N];
        for offsets in offsets.chunks(TERMS) {
            let mut terms = [T::default(); N];
            for &offset in offsets {
                let source = &source[offset + done..][..N];
                for lane in 0..N {
                    terms[lane] = terms[lane].plus(source[lane]);
                }
            }
            for lane in 0..N {
                sums[lane] = sums[lane].plus(terms[lane]);
            }
        }
        target[done..done + N].copy_from_slice(&sums);
        done += N;
    }
    done
}

/// The order in which a maximum or a minimum prefers elements.
trait Preference<T>: Sync + Copy {
    /// The result for a window without elements.
    const NONE: T;
    /// Returns whether `candidate` replaces `best`: it is better, or the first NaN.
    fn prefers(self, candidate: T, best: T) -> bool;
}

#[derive(Clone, Copy)]
struct Greatest;

#[derive(Clone, Copy)]
struct Least;

impl<T: Ordered> Preference<T> for Greatest {
    const NONE: T = T::LEAST;
    #[inline(always)]
    fn prefers(self, candidate: T, best: T) -> bool {
        (candidate > best) | (candidate.is_nan() & !best.is_nan())
    }
}

impl<T: Ordered> Preference<T> for Least {
    const NONE: T = T::GREATEST;
    #[inline(always)]
    fn prefers(self, candidate: T, best: T) -> bool {
        (candidate < best) | (candidate.is_nan() & !best.is_nan())
    }
}

/// Runs an expression with the preference of an extremum.
macro_rules! with_preference {
    ($extremum:expr, $preference:ident => $body:expr) => {
        match $extremum {
            Extremum::Max => {
                let $preference = Greatest;
                $body
            }
            Extremum::Min => {
                let $preference = Least;
                $body
            }
        }
    };
}

/// Returns the extremum of each window.
pub(super) fn extrema(extremum: Extremum, window: &Window, operand: &Array) -> Array {
    let windows = match windows_of(window, None, &operand.info) {
        Ok(windows) => windows,
        Err(empty) => return empty,
    };
    with_number!(operand.dtype(), T => with_preference!(extremum, preference => {
        let source = operand.elements::<T>();
        let mut target = reused::<T>(windows.shape.iter().product());
        windows.share(&mut target, |first, target| {
            let mut offsets = Vec::new();
            for (number, target) in target.chunks_exact_mut(windows.inner).enumerate() {
                windows.offsets(first + number, &mut offsets);
                let mut done = 0;
                done = best_lanes::<T, _, LANES>(preference, source, &offsets, target, done);
                done = best_lanes::<T, _, 8>(preference, source, &offsets, target, done);
                best_lanes::<T, _, 1>(preference, source, &offsets, target, done);
            }
        });
        Array::new(&windows.shape, target)
    }))
}

/// Writes the extrema of whole blocks of `N` elements from element `done` on. Returns the number of elements that are
/// done.
#[inline(always)]
fn best_lanes<T: Ordered, P: Preference<T>, const N: usize>(
    preference: P,
    source: &[T],
    offsets: &[usize],
    target: &mut [T],
    mut done: usize,
) -> usize {
    let (first, rest) = match offsets.split_first() {
        Some((&first, rest)) => (first, rest),
        None => {
            target.fill(P::NONE);
            return target.len();
        }
    };
    while done + N <= target.len() {
        let mut best = [P::NONE; N];
        best.copy_from_slice(&source[first + done..][..N]);
        for &offset in rest {
            let source = &source[offset + done..][..N];
            for lane in 0..N {
                let candidate = source[lane];
                best[lane] = if preference.prefers(candidate, best[lane]) {
                    candidate
                } else {
                    best[lane]
                };
            }
        }
        target[done..done + N].copy_from_slice(&best);
        done += N;
    }
    done
}

/// Calls `visit` with each element behind the axes and the offset of the extremum of its window. There must be at least
/// one offset.
#[inline(always)]
fn each_selected<T: Ordered, P: Preference<T>>(
    preference: P,
    source: &[T],
    offsets: &[usize],
    inner: usize,
    mut visit: impl FnMut(usize, usize),
) {
    let mut done = 0;
    while done < inner {
        let count = LANES.min(inner - done);
        let mut best = [P::NONE; LANES];
        let mut places = [0_u32; LANES];
        best[..count].copy_from_slice(&source[offsets[0] + done..][..count]);
        for (place, &offset) in (0_u32..).zip(offsets).skip(1) {
            let source = &source[offset + done..][..count];
            if let Ok(source) = <&[T; LANES]>::try_from(source) {
                select(preference, source, place, &mut best, &mut places);
            } else {
                select(
                    preference,
                    source,
                    place,
                    &mut best[..count],
                    &mut places[..count],
                );
            }
        }
        for (lane, &place) in places[..count].iter().enumerate() {
            visit(done + lane, offsets[place as usize]);
        }
        done += count;
    }
}

/// Replaces the best elements, and their places, by preferred candidates.
#[inline(always)]
fn select<T: Ordered, P: Preference<T>>(
    preference: P,
    candidates: &[T],
    place: u32,
    best: &mut [T],
    places: &mut [u32],
) {
    for ((&candidate, best), at) in candidates.iter().zip(best).zip(places) {
        let prefers = preference.prefers(candidate, *best);
        *best = if prefers { candidate } else { *best };
        *at = if prefers { place } else { *at };
    }
}

/// Returns the element of `tangents` at the position of each window's extremum.
pub(super) fn gather(
    extremum: Extremum,
    window: &Window,
    tangents: &Array,
    operand: &Array,
) -> Array {
    let windows = match windows_of(window, None, &operand.info) {
        Ok(windows) => windows,
        Err(empty) => return empty,
    };
    with_number!(operand.dtype(), T => with_preference!(extremum, preference => {
        let (source, tangents) = (operand.elements::<T>(), tangents.elements::<T>());
        let mut target = reused::<T>(windows.shape.iter().product());
        windows.share(&mut target, |first, target| {
            let mut offsets = Vec::new();
            for (number, target) in target.chunks_exact_mut(windows.inner).enumerate() {
                windows.offsets(first + number, &mut offsets);
                if offsets.is_empty() {
                    target.fill(T::default());
                    continue;
                }
                each_selected(preference, source, &offsets, windows.inner, |element, offset| {
                    target[element] = tangents[offset + element];
                });
            }
        });
        Array::new(&windows.shape, target)
    }))
}

/// Adds each element of `cotangents` at the position of its window's extremum. Threads share the outer arrays, so no two
/// threads add to the same element.
pub(super) fn scatter(
    extremum: Extremum,
    window: &Window,
    cotangents: &Array,
    operand: &Array,
) -> Array {
    let Ok(windows) = windows_of(window, None, &operand.info) else {
        return Array::zeros(&operand.info);
    };
    with_number!(operand.dtype(), T => with_preference!(extremum, preference => {
        let (source, cotangents) = (operand.elements::<T>(), cotangents.elements::<T>());
        let mut target = reused::<T>(operand.info.len());
        let (count, inner, length) = (windows.count(), windows.inner, windows.array_length());
        let parts = target.chunks_mut(length.max(1)).enumerate().collect();
        windows.run_parts(parts, |(array, target): (usize, &mut [T])| arch().dispatch(|| {
            let mut offsets = Vec::new();
            target.fill(T::default());
            for number in array * count..(array + 1) * count {
                windows.offsets(number, &mut offsets);
                if offsets.is_empty() {
                    continue;
                }
                let cotangents = &cotangents[number * inner..][..inner];
                each_selected(preference, source, &offsets, inner, |element, offset| {
                    let sum = &mut target[offset + element - array * length];
                    *sum = Number::plus(*sum, cotangents[element]);
                });
            }
        }));
        Array::new(operand.shape(), target)
    }))
}
