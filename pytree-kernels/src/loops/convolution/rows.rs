//! Copies of rows of windows to a buffer. Rows that are wholly inside of the input are copied in blocks of a constant
//! length, because in the first layer of a network a row has only a few elements: a call of the system's copy function
//! would take longer than the copy itself.

use std::ops::Range;

use bytemuck::{Pod, cast_slice, cast_slice_mut};
use pytree_base::bug::bug;
use smallvec::SmallVec;

use super::problem::Problem;
use crate::base::array::reserved;
use crate::loops::sliding::inside;

/// The least number of neighbouring elements that are copied by the system's copy function.
const LONG: usize = 32;

/// Neighbouring elements of a row. All elements of a line have the same position on all axes except the last.
pub(super) struct Line {
    leading: SmallVec<[usize; 2]>,
    first: usize,
    count: usize,
}

impl Problem {
    /// Divides a range of elements into lines.
    pub(super) fn lines(&self, range: &Range<usize>) -> Vec<Line> {
        let (last, leading) = self
            .axes
            .split_last()
            .map_or((1, &[][..]), |(last, leading)| (last.elements, leading));
        let mut lines = Vec::new();
        let mut start = range.start;
        while start < range.end {
            let (mut rest, first) = (start / last, start % last);
            let count = (last - first).min(range.end - start);
            let mut positions: SmallVec<[usize; 2]> = leading.iter().map(|_| 0).collect();
            for (position, axis) in positions.iter_mut().zip(leading).rev() {
                *position = rest % axis.elements;
                rest /= axis.elements;
            }
            lines.push(Line {
                leading: positions,
                first,
                count,
            });
            start += count;
        }
        lines
    }

    /// Copies rows of windows to `target`. `first` is the offset of the group in the input. The code is compiled once for each
    /// width of elements.
    pub(super) fn pack<T: Pod>(
        &self,
        input: &[T],
        first: usize,
        rows: Range<usize>,
        lines: &[Line],
        target: &mut [T],
    ) {
        match size_of::<T>() {
            4 => self.pack_bits::<u32>(
                cast_slice(input),
                first,
                rows,
                lines,
                cast_slice_mut(target),
            ),
            8 => self.pack_bits::<u64>(
                cast_slice(input),
                first,
                rows,
                lines,
                cast_slice_mut(target),
            ),
            bytes => bug(format_args!("elements of 4 or 8 bytes, found {bytes}")),
        }
    }

    fn pack_bits<T: Copy + Default>(
        &self,
        input: &[T],
        first: usize,
        rows: Range<usize>,
        lines: &[Line],
        target: &mut [T],
    ) {
        let Some((last, leading)) = self.axes.split_last() else {
            return;
        };
        let mut sources: Vec<Option<usize>> = reserved(lines.len());
        let mut starts: SmallVec<[usize; 2]> = leading.iter().map(|_| 0).collect();
        let width = lines.iter().map(|line| line.count).sum::<usize>() * self.inner;
        let whole = self.whole_rows(lines);
        let mut rest_of_target = target;
        let mut row = rows.start;
        while row < rows.end {
            // The rows at one position on the leading axes read the same lines of the input.
            let (mut rest, from) = (row / last.rows, row % last.rows);
            let to = last.rows.min(from + rows.end - row);
            for (start, axis) in starts.iter_mut().zip(leading).rev() {
                *start = rest % axis.rows;
                rest /= axis.rows;
            }
            let offset = first + rest * self.outer_stride;
            sources.clear();
            sources.extend(lines.iter().map(|line| {
                let mut axes = leading.iter().zip(&starts).zip(&line.leading);
                axes.try_fold(offset, |offset, ((axis, &row), &element)| {
                    Some(offset + axis.position(row, element)? * axis.stride)
                })
            }));
            let (target, behind) = rest_of_target.split_at_mut((to - from) * width);
            rest_of_target = behind;
            let whole_from = whole.start.max(from).min(to);
            let whole_to = whole.end.max(whole_from).min(to);
            for (row, target) in (from..to).zip(target.chunks_exact_mut(width)) {
                if !(whole_from..whole_to).contains(&row) {
                    self.copy_row(input, row, lines, &sources, target);
                }
            }
            let target = &mut target[(whole_from - from) * width..(whole_to - from) * width];
            if !target.is_empty() {
                self.copy_whole_rows(input, whole_from, lines, &sources, target, width);
            }
            row += to - from;
        }
    }

    /// Returns the rows without elements outside of the last axis. Returns no rows if the elements of a row are not
    /// neighbours in memory.
    fn whole_rows(&self, lines: &[Line]) -> Range<usize> {
        let last = &self.axes[self.axes.len() - 1];
        if last.element_step > 1 || self.inner < self.inner_total {
            return 0..0;
        }
        let first = lines.iter().map(|line| line.first).min().unwrap_or(0);
        let end = lines.iter().map(|line| line.first + line.count).max();
        let span = end.unwrap_or(0) - first;
        let starts = (last.length + 1).saturating_sub(span);
        let start = last.base + first.cast_signed();
        inside(start, last.row_step, last.rows, starts)
    }

    /// Copies rows that [`whole_rows`](Self::whole_rows) has found, beginning at the row `row`. `sources` has the
    /// offset of each line in the input, or `None` for a line outside of a leading axis. Such a line is filled with
    /// zeros.
    fn copy_whole_rows<T: Copy + Default>(
        &self,
        input: &[T],
        row: usize,
        lines: &[Line],
        sources: &[Option<usize>],
        target: &mut [T],
        width: usize,
    ) {
        let last = &self.axes[self.axes.len() - 1];
        let step = last.row_step * last.stride;
        let mut at = 0;
        for (line, source) in lines.iter().zip(sources) {
            let length = line.count * self.inner;
            let here = at..at + length;
            at += length;
            let rows = target.chunks_exact_mut(width);
            let Some(source) = source else {
                rows.for_each(|target| target[here.clone()].fill(T::default()));
                continue;
            };
            let start = (last.start(row) + line.first.cast_signed()).cast_unsigned();
            let input = &input[source + start * last.stride..];
            if length >= LONG {
                for (row, target) in rows.enumerate() {
                    target[here.clone()].copy_from_slice(&input[row * step..][..length]);
                }
                continue;
            }
            let mut done = 0;
            done = copy_blocks::<T, 8>(input, step, target, width, &here, done);
            done = copy_blocks::<T, 4>(input, step, target, width, &here, done);
            done = copy_blocks::<T, 2>(input, step, target, width, &here, done);
            copy_blocks::<T, 1>(input, step, target, width, &here, done);
        }
    }

    /// Copies a row. Elements outside of the last axis are filled with zeros.
    fn copy_row<T: Copy + Default>(
        &self,
        input: &[T],
        row: usize,
        lines: &[Line],
        sources: &[Option<usize>],
        mut target: &mut [T],
    ) {
        let last = &self.axes[self.axes.len() - 1];
        for (line, source) in lines.iter().zip(sources) {
            let (now, behind) = target.split_at_mut(line.count * self.inner);
            target = behind;
            let Some(source) = source else {
                now.fill(T::default());
                continue;
            };
            let from = last.start(row) + (line.first * last.element_step).cast_signed();
            for (element, target) in now.chunks_exact_mut(self.inner).enumerate() {
                let at = from + (element * last.element_step).cast_signed();
                match usize::try_from(at).ok().filter(|&at| at < last.length) {
                    Some(at) => {
                        target.copy_from_slice(&input[source + at * last.stride..][..self.inner]);
                    }
                    None => target.fill(T::default()),
                }
            }
        }
    }
}

/// Copies blocks of `N` elements to the range `here` of each row of `target`. The first `done` elements of the range
/// are already copied. Neighbouring rows are `step` elements apart in the input, and `width` elements apart in the
/// target. Returns the first element that is not copied.
fn copy_blocks<T: Copy, const N: usize>(
    input: &[T],
    step: usize,
    target: &mut [T],
    width: usize,
    here: &Range<usize>,
    mut done: usize,
) -> usize {
    while done + N <= here.len() {
        for (row, target) in target.chunks_exact_mut(width).enumerate() {
            let block = &mut target[here.start + done..][..N];
            block.copy_from_slice(&input[row * step + done..][..N]);
        }
        done += N;
    }
    done
}
