//! The evaluation of reductions of windows. Windows are read in place, without an array of windows.

#![allow(
    clippy::inline_always,
    reason = "only what is inlined is compiled for the wide instruction sets"
)]

use std::ops::Range;

use super::Window;
use crate::base::array::{Array, reused, row_major_strides};
use crate::base::dtype::{AbstractArray, DType, TensorElement};
use crate::base::instructions::arch;
use crate::base::shape::{PerAxis, Shape};
use crate::base::threads;
use crate::primitives::reduce::{Extremum, Number, Ordered, with_number};

/// The number of elements that are reduced at once. They are neighbours on the axes after the axes over which windows
/// slide.
const LANES: usize = 32;

/// For windows of at most this many elements, each element is compared with the selected position. This is faster than
/// reading and writing at many positions.
const COMPARED: usize = 16;

/// The number of terms that are added to a new sum before this sum is added to the result. Short sums reduce rounding
/// errors.
const TERMS: usize = 64;

/// Several threads are used if all windows together have at least this many elements.
const PARALLEL: usize = 1 << 20;

/// The number of parts into which lines of windows are divided.
const PARTS: usize = 32;

/// The windows of an array: `outer` arrays, the axes over which windows slide, and `inner` neighbouring elements. Each
/// of the `inner` elements belongs to its own window.
struct Windows {
    outer: usize,
    axes: Vec<Axis>,
    inner: usize,
    shape: Shape,
}

/// An axis over which windows slide: its length, the distance in memory between neighbours, and the positions that each
/// window contains.
struct Axis {
    length: usize,
    stride: usize,
    ranges: Vec<Range<usize>>,
}

impl Windows {
    /// Creates the windows of an array. The result must not be empty.
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

    /// Returns the number of positions of windows in an outer array. Each position has `inner` windows.
    fn count(&self) -> usize {
        self.axes.iter().map(|axis| axis.ranges.len()).product()
    }

    /// Returns the offsets of a line's elements on all axes except the last, in row-major order. A line has the windows
    /// at one position on these axes.
    fn offsets_of_line(&self, mut line: usize, offsets: &mut Vec<usize>) {
        let leading = &self.axes[..self.axes.len().saturating_sub(1)];
        let mut rest: usize = leading.iter().map(|axis| axis.ranges.len()).product();
        offsets.clear();
        offsets.push(line / rest * self.array_length());
        line %= rest;
        for axis in leading {
            rest /= axis.ranges.len();
            let range = axis.ranges[line / rest].clone();
            line %= rest;
            let count = offsets.len();
            for place in 0..count {
                let offset = offsets[place];
                offsets.extend(range.clone().map(|at| offset + at * axis.stride));
            }
            offsets.drain(..count);
        }
    }

    /// Computes the elements of the result, `inner` for each window, on parallel threads if there is enough work.
    fn share<T: TensorElement + Send>(&self, target: &mut [T], kernel: impl Kernel<T> + Sync) {
        let windows = self.outer * self.count();
        let each = windows.div_ceil(PARTS);
        let parts = target.chunks_mut(each * self.inner).enumerate().collect();
        self.run_parts(parts, |(part, target): (usize, &mut [T])| {
            arch().dispatch(Part {
                windows: self,
                first: part * each,
                target,
                kernel,
            });
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

/// A position among the windows of an array, and the offsets of the window's elements.
#[derive(Default)]
struct Cursor {
    /// The line of the window, and the offsets of the line's elements on all axes except the last.
    line: Option<usize>,
    leading: Vec<usize>,
    offsets: Vec<usize>,
}

impl Cursor {
    /// Moves to a window. Returns the offsets of the window's elements in row-major order.
    fn move_to(&mut self, number: usize, windows: &Windows) -> &[usize] {
        let Some(last) = windows.axes.last() else {
            // Each element is a window.
            self.offsets.clear();
            self.offsets.push(number * windows.array_length());
            return &self.offsets;
        };
        let line = number / last.ranges.len();
        if self.line != Some(line) {
            windows.offsets_of_line(line, &mut self.leading);
            self.line = Some(line);
        }
        let range = &last.ranges[number % last.ranges.len()];
        self.offsets.clear();
        for &offset in &self.leading {
            for at in range.clone() {
                self.offsets.push(offset + at * last.stride);
            }
        }
        &self.offsets
    }
}

/// Computes the result of one window from the offsets of the window's elements.
trait Kernel<T>: Copy {
    /// Computes a block of `N` elements of the result. `done` is added to the offsets.
    fn block<const N: usize>(self, offsets: &[usize], done: usize, target: &mut [T; N]);
}

/// A part of the windows. Its computation is compiled for several instruction sets.
struct Part<'a, T, K> {
    windows: &'a Windows,
    first: usize,
    target: &'a mut [T],
    kernel: K,
}

impl<T: TensorElement, K: Kernel<T>> pulp::WithSimd for Part<'_, T, K> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: pulp::Simd>(self, _: S) {
        let mut cursor = Cursor::default();
        for (number, target) in self.target.chunks_exact_mut(self.windows.inner).enumerate() {
            let offsets = cursor.move_to(self.first + number, self.windows);
            let mut done = 0;
            done = blocks::<T, K, LANES>(self.kernel, offsets, target, done);
            done = blocks::<T, K, 8>(self.kernel, offsets, target, done);
            blocks::<T, K, 1>(self.kernel, offsets, target, done);
        }
    }
}

/// Computes blocks of `N` elements, beginning at element `done`. Returns the number of elements that are done.
#[inline(always)]
fn blocks<T: TensorElement, K: Kernel<T>, const N: usize>(
    kernel: K,
    offsets: &[usize],
    target: &mut [T],
    mut done: usize,
) -> usize {
    while done + N <= target.len() {
        let mut block = [T::default(); N];
        kernel.block(offsets, done, &mut block);
        target[done..done + N].copy_from_slice(&block);
        done += N;
    }
    done
}

/// Returns the geometry of an axis over which windows do not slide: each element is a window.
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

/// Returns the windows of an array. If the result is empty, returns the result instead.
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
        let mut target = reused::<T>(windows.shape.iter().product());
        windows.share(&mut target, Sum(operand.elements::<T>()));
        Array::new(&windows.shape, target)
    })
}

/// Adds the elements of a window.
#[derive(Clone, Copy)]
struct Sum<'a, T>(&'a [T]);

impl<T: Number> Kernel<T> for Sum<'_, T> {
    #[inline(always)]
    fn block<const N: usize>(self, offsets: &[usize], done: usize, sums: &mut [T; N]) {
        for offsets in offsets.chunks(TERMS) {
            let mut terms = [T::default(); N];
            for &offset in offsets {
                let source = &self.0[offset + done..][..N];
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

/// The order in which a maximum or a minimum prefers elements.
trait Preference<T>: Sync + Copy {
    /// The result for a window without elements.
    const NONE: T;
    /// Returns whether `candidate` replaces `best`: whether `candidate` is better or is the first NaN.
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

/// Runs an expression with the preference for an extremum.
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
        let mut target = reused::<T>(windows.shape.iter().product());
        windows.share(&mut target, Best { preference, source: operand.elements::<T>() });
        Array::new(&windows.shape, target)
    }))
}

/// Finds the extremum of a window.
#[derive(Clone, Copy)]
struct Best<'a, T, P> {
    preference: P,
    source: &'a [T],
}

impl<T: Ordered, P: Preference<T>> Kernel<T> for Best<'_, T, P> {
    #[inline(always)]
    fn block<const N: usize>(self, offsets: &[usize], done: usize, best: &mut [T; N]) {
        let Some((&first, rest)) = offsets.split_first() else {
            best.fill(P::NONE);
            return;
        };
        best.copy_from_slice(&self.source[first + done..][..N]);
        for &offset in rest {
            let source = &self.source[offset + done..][..N];
            for lane in 0..N {
                let prefers = self.preference.prefers(source[lane], best[lane]);
                best[lane] = if prefers { source[lane] } else { best[lane] };
            }
        }
    }
}

impl<T: Ordered, P: Preference<T>> Best<'_, T, P> {
    /// Returns, for each of `N` neighbouring windows, the number of the offset of the window's extremum. `offsets` must
    /// not be empty.
    #[inline(always)]
    fn places<const N: usize>(self, offsets: &[usize], done: usize) -> [u32; N] {
        let mut best = [P::NONE; N];
        let mut places = [0_u32; N];
        best.copy_from_slice(&self.source[offsets[0] + done..][..N]);
        for (place, &offset) in (0_u32..).zip(offsets).skip(1) {
            let source = &self.source[offset + done..][..N];
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
        let best = Best { preference, source: operand.elements::<T>() };
        let mut target = reused::<T>(windows.shape.iter().product());
        windows.share(&mut target, Gather { best, tangents: tangents.elements::<T>() });
        Array::new(&windows.shape, target)
    }))
}

/// Reads the tangents at the extrema of a window.
#[derive(Clone, Copy)]
struct Gather<'a, T, P> {
    best: Best<'a, T, P>,
    tangents: &'a [T],
}

impl<T: Ordered, P: Preference<T>> Kernel<T> for Gather<'_, T, P> {
    #[inline(always)]
    fn block<const N: usize>(self, offsets: &[usize], done: usize, target: &mut [T; N]) {
        if offsets.is_empty() {
            return;
        }
        let places = self.best.places::<N>(offsets, done);
        for lane in 0..N {
            target[lane] = self.tangents[offsets[places[lane] as usize] + done + lane];
        }
    }
}

/// Adds each element of `cotangents` at the position of its window's extremum. Each outer array belongs to one thread,
/// so no two threads add to the same element.
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
        let best = Best { preference, source: operand.elements::<T>() };
        let cotangents = cotangents.elements::<T>();
        let mut target = reused::<T>(operand.info.len());
        let parts = target.chunks_mut(windows.array_length().max(1)).enumerate().collect();
        windows.run_parts(parts, |(array, target): (usize, &mut [T])| {
            arch().dispatch(Scatter { windows: &windows, best, cotangents, array, target });
        });
        Array::new(operand.shape(), target)
    }))
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
            let offsets = cursor.move_to(number, self.windows);
            if offsets.is_empty() {
                continue;
            }
            let cotangents = &self.cotangents[number * inner..][..inner];
            let mut done = 0;
            done = add_blocks::<T, P, LANES>(
                self.best,
                offsets,
                cotangents,
                before,
                self.target,
                done,
            );
            done = add_blocks::<T, P, 8>(self.best, offsets, cotangents, before, self.target, done);
            add_blocks::<T, P, 1>(self.best, offsets, cotangents, before, self.target, done);
        }
    }
}

/// Adds the cotangents of blocks of `N` elements, beginning at element `done`. `before` is the offset of the target.
/// Returns the number of elements that are done.
#[inline(always)]
fn add_blocks<T: Ordered + Number, P: Preference<T>, const N: usize>(
    best: Best<'_, T, P>,
    offsets: &[usize],
    cotangents: &[T],
    before: usize,
    target: &mut [T],
    mut done: usize,
) -> usize {
    while done + N <= cotangents.len() {
        let places = best.places::<N>(offsets, done);
        let terms = &cotangents[done..done + N];
        if N > 1 && offsets.len() <= COMPARED {
            for (place, &offset) in (0_u32..).zip(offsets) {
                let sums = &mut target[offset + done - before..][..N];
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
                let sum = &mut target[offsets[places[lane] as usize] + done + lane - before];
                *sum = Number::plus(*sum, terms[lane]);
            }
        }
        done += N;
    }
    done
}
