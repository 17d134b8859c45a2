//! Writes the elements of an array to places in another order.
//!
//! Each row is written to its place as soon as it is known. So an array that is transposed or divided needs no copy in its own order.

use std::ops::Range;

/// Writes the rows of an array to their places in parts.
pub(crate) struct Scatter<'t> {
    targets: Vec<Target<'t>>,
    /// The number of bytes of an element.
    unit: usize,
    /// The axis that is divided.
    axis: usize,
    /// The shape without the last axis.
    outer: Vec<usize>,
    /// The position of the next row.
    index: Vec<usize>,
}

/// The memory of a part.
pub(crate) struct Target<'t> {
    pub(crate) elements: &'t mut [u8],
    /// The range of the part along the axis that is divided.
    pub(crate) range: Range<usize>,
    /// The position of the first element of the part, and the distance between neighbours along each axis.
    pub(crate) places: (isize, Vec<isize>),
}

impl<'t> Scatter<'t> {
    /// Scatters an array of the given shape, whose elements have `unit` bytes. `axis` is the axis that the targets divide.
    pub(crate) fn new(shape: &[usize], unit: usize, axis: usize, targets: Vec<Target<'t>>) -> Self {
        let outer = shape[..shape.len().saturating_sub(1)].to_vec();
        Self {
            targets,
            unit,
            axis,
            index: vec![0; outer.len()],
            outer,
        }
    }
}

/// A transposed block of rows fills whole cache lines of this many bytes.
const CACHE_LINE: usize = 64;

impl Scatter<'_> {
    /// Writes the next rows, which are along the last axis.
    pub(crate) fn add(&mut self, mut rows: &[u8], width: usize) {
        let bytes = width * self.unit;
        while rows.len() >= bytes {
            let (block, rest) = rows.split_at(self.block(rows.len() / bytes) * bytes);
            self.add_block(block, block.len() / bytes);
            rows = rest;
        }
    }

    /// Returns how many of the next rows are written as one block. Rows for several parts are written one by one. Rows for one part
    /// form a block while only the last index changes.
    fn block(&self, rows: usize) -> usize {
        match (&self.targets[..], self.outer.last(), self.index.last()) {
            ([_], Some(length), Some(index)) => {
                rows.min(length - index).min(CACHE_LINE / self.unit)
            }
            _ => 1,
        }
    }

    fn add_block(&mut self, rows: &[u8], count: usize) {
        let (last, unit) = (self.outer.len(), self.unit);
        for target in &mut self.targets {
            let (mut at, strides) = (target.places.0, &target.places.1);
            let mut is_inside = true;
            for (axis, &index) in self.index.iter().enumerate() {
                let mut index = index;
                if axis == self.axis {
                    is_inside = count > 1 || target.range.contains(&index);
                    index = index.wrapping_sub(target.range.start);
                }
                at += index.cast_signed().wrapping_mul(strides[axis]);
            }
            let rows = match (self.axis == last && count == 1, is_inside) {
                (true, _) => &rows[target.range.start * unit..target.range.end * unit],
                (false, true) => rows,
                (false, false) => continue,
            };
            let elements = &mut *target.elements;
            // One row is copied as many rows of one element.
            let (width, of_rows) = match count {
                1 => (1, strides[last]),
                _ => (rows.len() / unit / count, strides[last - 1]),
            };
            let strides = [of_rows, strides[last]];
            match unit {
                1 => copy::<1>(rows, width, elements, at, strides),
                2 => copy::<2>(rows, width, elements, at, strides),
                4 => copy::<4>(rows, width, elements, at, strides),
                _ => copy::<8>(rows, width, elements, at, strides),
            }
        }
        // Advances the position, the last of its axes first.
        let mut step = count;
        for (index, &length) in self.index.iter_mut().zip(&self.outer).rev() {
            *index += step;
            if *index < length {
                return;
            }
            (*index, step) = (0, 1);
        }
    }
}

/// Copies rows of `width` elements of `N` bytes to positions that begin at `at`, with strides between rows and between columns.
fn copy<const N: usize>(
    rows: &[u8],
    width: usize,
    elements: &mut [u8],
    mut at: isize,
    [of_rows, of_columns]: [isize; 2],
) {
    let (rows, elements) = (rows.as_chunks::<N>().0, elements.as_chunks_mut::<N>().0);
    for column in 0..width {
        let mut to = at;
        for &element in rows[column..].iter().step_by(width) {
            elements[to.cast_unsigned()] = element;
            to += of_rows;
        }
        at += of_columns;
    }
}
