//! The geometry of windows that slide along one axis. Convolutions and reductions of windows share this geometry.

use std::ops::Range;

/// Windows that slide along one axis. The elements of the axis are first spread out by `dilation` and then padded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sliding {
    /// The number of elements on the axis.
    pub length: usize,
    /// The distance between neighbouring elements after they are spread out.
    pub dilation: usize,
    /// The number of padding elements before and after the elements. A negative number removes elements.
    pub padding: (isize, isize),
    /// The number of elements in a window.
    pub size: usize,
    /// The distance between neighbouring elements of a window.
    pub window_dilation: usize,
    /// The distance between neighbouring windows.
    pub stride: usize,
}

/// The greatest supported length of an axis with its padding. Sums of several such lengths fit `isize`.
const LONGEST: i128 = (isize::MAX / 4) as i128;

/// Returns the length that `length` elements take if neighbours are `dilation` apart.
fn dilated(length: usize, dilation: usize) -> i128 {
    match length as i128 {
        0 => 0,
        length => (length - 1)
            .saturating_mul(dilation as i128)
            .saturating_add(1),
    }
}

/// Converts a number of padding elements to `isize`. The number fits because the lengths are at most [`LONGEST`].
fn narrow(padding: i128) -> isize {
    let limit = |limit: isize| limit as i128;
    isize::try_from(i128::clamp(padding, limit(-isize::MAX), limit(isize::MAX))).unwrap_or(0)
}

impl Sliding {
    /// Returns the number of windows. Returns `None` if the padding removes more than all elements or if the padded
    /// axis is too long.
    pub fn count(&self) -> Option<usize> {
        let (low, high) = (self.padding.0 as i128, self.padding.1 as i128);
        let spread = dilated(self.length, self.dilation);
        let padded = spread.saturating_add(low).saturating_add(high);
        let fits = [spread, padded, i128::abs(low), i128::abs(high)]
            .iter()
            .all(|length| (0..=LONGEST).contains(length));
        if !fits {
            return None;
        }
        let room = padded - self.span();
        match usize::try_from(room) {
            Ok(room) => Some(room / self.stride + 1),
            Err(_) => Some(0),
        }
    }

    /// Returns the length of a window, from its first to its last element.
    fn span(&self) -> i128 {
        dilated(self.size, self.window_dilation)
    }

    /// Returns the geometry that maps `count` cotangents of windows back to the elements. The stride and the dilation
    /// are swapped, and the window is reversed.
    #[must_use]
    pub fn transposed(&self, count: usize) -> Self {
        let low = self.span() - 1 - self.padding.0 as i128;
        let whole = dilated(self.length, self.dilation) + self.span() - 1;
        let high = whole - dilated(count, self.stride) - low;
        Self {
            length: count,
            dilation: self.stride,
            padding: (narrow(low), narrow(high)),
            stride: self.dilation,
            ..*self
        }
    }

    /// Returns the geometry that maps the elements to the cotangents of a window's elements. `count` cotangents of
    /// windows slide over the axis. The stride and the dilation of the window are swapped.
    #[must_use]
    pub fn of_window(&self, count: usize) -> Self {
        let whole = dilated(count, self.stride) + self.span() - 1;
        let high = whole - dilated(self.length, self.dilation) - self.padding.0 as i128;
        Self {
            padding: (self.padding.0, narrow(high)),
            size: count,
            window_dilation: self.stride,
            stride: self.window_dilation,
            ..*self
        }
    }
}

/// Equally spaced numbers: `first`, `first + step`, …
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Progression {
    pub(crate) first: usize,
    pub(crate) step: usize,
    pub(crate) count: usize,
}

impl Progression {
    fn below(limit: usize, first: usize, step: usize) -> Self {
        let count = limit.saturating_sub(first).div_ceil(step);
        Self { first, step, count }
    }

    fn part(self, range: Range<usize>) -> Self {
        Self {
            first: self.first + range.start * self.step,
            count: range.len(),
            ..self
        }
    }
}

/// A part of the windows, with those window elements that are at an element of the array. A window element in a gap
/// between array elements is omitted. So are the first and last window elements that are in the padding of all windows, and the
/// first and last windows that are in the padding.
///
/// Window `windows.first + i · windows.step` has its element `elements.first + j · elements.step` at the position
/// `base + i · window_step + j · element_step` of the array. A position outside of the array is padding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Phase {
    pub(crate) length: usize,
    pub(crate) windows: Progression,
    pub(crate) elements: Progression,
    pub(crate) base: isize,
    pub(crate) window_step: usize,
    pub(crate) element_step: usize,
}

impl Phase {
    /// Returns the phase without window elements and windows that are in the padding, or `None` if nothing is left.
    fn without_padding(self) -> Option<Self> {
        let last = |numbers: Progression, step: usize| (numbers.count as i128 - 1) * step as i128;
        let last_window = last(self.windows, self.window_step);
        let last_element = last(self.elements, self.element_step);
        // The first and the last positions of the others decide whether a number of `numbers` is ever inside of the array.
        let inside = |numbers: Progression, step: usize, last: i128| {
            let steps = |distance: i128| distance.max(0).cast_unsigned().div_ceil(step as u128);
            let first = steps(-(self.base as i128 + last));
            let end = steps(self.length as i128 - self.base as i128).min(numbers.count as u128);
            let count = usize::try_from(end.checked_sub(first)?).ok()?;
            let skipped = usize::try_from(first).ok()?;
            let first = numbers.first + skipped * numbers.step;
            let kept = Progression {
                first,
                count,
                ..numbers
            };
            (count > 0).then_some((kept, (skipped * step).cast_signed()))
        };
        let (elements, of_elements) = inside(self.elements, self.element_step, last_window)?;
        let (windows, of_windows) = inside(self.windows, self.window_step, last_element)?;
        Some(Self {
            windows,
            elements,
            base: self.base + of_elements + of_windows,
            ..self
        })
    }
}

impl Phase {
    /// Returns the range of the elements of a window that are not padding.
    fn inside(&self, window: usize) -> Range<usize> {
        let start = self.base + (window * self.window_step).cast_signed();
        inside(start, self.element_step, self.elements.count, self.length)
    }

    /// Returns whether no window has padding.
    pub(crate) fn is_inside(&self) -> bool {
        let all = 0..self.elements.count;
        self.inside(0) == all && self.inside(self.windows.count - 1) == all
    }

    /// Divides the phase into phases without padding. Windows without elements are omitted.
    pub(crate) fn apart(&self) -> Vec<Self> {
        let mut phases: Vec<Self> = Vec::new();
        let mut last = 0..0;
        for window in 0..self.windows.count {
            let elements = self.inside(window);
            match phases.last_mut() {
                _ if elements.is_empty() => {}
                Some(phase) if elements == last => phase.windows.count += 1,
                _ => phases.push(Self {
                    windows: self.windows.part(window..window + 1),
                    elements: self.elements.part(elements.clone()),
                    base: self.base
                        + (window * self.window_step + elements.start * self.element_step)
                            .cast_signed(),
                    ..*self
                }),
            }
            last = elements;
        }
        phases
    }
}

/// Returns the indices `i` below `count` for which `start + i · step` is at least 0 and less than `length`.
pub(crate) fn inside(start: isize, step: usize, count: usize, length: usize) -> Range<usize> {
    let first = start.min(0).unsigned_abs().div_ceil(step);
    let room = (length.cast_signed() - start).max(0).cast_unsigned();
    let end = room.div_ceil(step).min(count);
    first.min(end)..end
}

fn greatest_common_divisor(left: usize, right: usize) -> usize {
    if right == 0 {
        left
    } else {
        greatest_common_divisor(right, left % right)
    }
}

impl Sliding {
    /// Returns the phases of `count` windows. Without a dilation, there is one phase.
    pub(crate) fn phases(&self, count: usize) -> Vec<Phase> {
        // A dilation has no effect on a single element. A stride has no effect on a single window.
        let unless_single = |number: usize, count: usize| if count > 1 { number } else { 1 };
        let dilation = unless_single(self.dilation, self.length);
        let stride = unless_single(self.stride, count);
        let apart = unless_single(self.window_dilation, self.size);
        let windows_period = dilation / greatest_common_divisor(dilation, stride);
        let elements_period = dilation / greatest_common_divisor(dilation, apart);
        let at = |window: usize, element: usize| {
            window as i128 * stride as i128 + element as i128 * apart as i128
                - self.padding.0 as i128
        };
        let mut phases = Vec::new();
        let firsts = |limit: usize, period: usize| 0..period.min(limit);
        for first in firsts(count, windows_period) {
            let meets = |&element: &usize| at(first, element) % dilation as i128 == 0;
            let Some(element) = firsts(self.size, elements_period).find(meets) else {
                continue;
            };
            let phase = Phase {
                length: self.length,
                windows: Progression::below(count, first, windows_period),
                elements: Progression::below(self.size, element, elements_period),
                base: narrow(at(first, element) / dilation as i128),
                window_step: stride / greatest_common_divisor(dilation, stride),
                element_step: apart / greatest_common_divisor(dilation, apart),
            };
            phases.extend(phase.without_padding());
        }
        phases
    }
}
