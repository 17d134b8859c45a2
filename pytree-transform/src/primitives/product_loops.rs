//! The loops of a product: which axes are those of the kernel, and which go around it.

use std::borrow::Cow;

use smallvec::SmallVec;

use crate::array::{Array, row_major_strides};
use crate::dtype::Shape;
use crate::primitives::shape::gather;

/// One axis of the loops of a product: its length, and how far apart neighbours are in the operands and
/// the result.
#[derive(Clone, Copy, Debug)]
pub(in crate::primitives) struct LoopAxis {
    pub(in crate::primitives) length: usize,
    pub(in crate::primitives) left: usize,
    pub(in crate::primitives) right: usize,
    pub(in crate::primitives) result: usize,
}

impl LoopAxis {
    const NONE: Self = Self {
        length: 1,
        left: 1,
        right: 1,
        result: 1,
    };
}

type LoopAxes = SmallVec<[LoopAxis; 4]>;

/// The axes with neighbours joined where they are one axis in operands and result alike.
fn joined(axes: impl Iterator<Item = LoopAxis>) -> LoopAxes {
    let mut joined = LoopAxes::new();
    for axis in axes.filter(|axis| axis.length != 1) {
        match joined.last_mut() {
            Some(last)
                if last.left == axis.left * axis.length
                    && last.right == axis.right * axis.length
                    && last.result == axis.result * axis.length =>
            {
                *last = LoopAxis {
                    length: last.length * axis.length,
                    ..axis
                };
            }
            _ => joined.push(axis),
        }
    }
    joined
}

/// Takes the longest axis out, the last one of several.
fn take_longest(axes: &mut LoopAxes) -> LoopAxis {
    match (0..axes.len()).max_by_key(|&position| axes[position].length) {
        Some(position) => axes.remove(position),
        None => LoopAxis::NONE,
    }
}

/// An operand as the loops read it: elements, and by axis of the operand the lengths and strides.
pub(in crate::primitives) struct Strided<'a> {
    pub(in crate::primitives) array: Cow<'a, Array>,
    pub(in crate::primitives) shape: Shape,
    pub(in crate::primitives) strides: Shape,
}

impl<'a> Strided<'a> {
    /// The operand as it lies, or gathered, so that its contracted axes are one axis in memory.
    pub(in crate::primitives) fn new(
        operand: &'a Array,
        contract: &[usize],
        others: [&[usize]; 2],
    ) -> Self {
        let shape = Shape::from_slice(operand.shape());
        let mut strides = row_major_strides(&shape);
        let part = |&axis: &usize| LoopAxis {
            length: shape[axis],
            left: strides[axis],
            right: 0,
            result: 0,
        };
        if joined(contract.iter().map(part)).len() <= 1 {
            return Self {
                array: Cow::Borrowed(operand),
                shape,
                strides,
            };
        }
        let order = [others[0], others[1], contract].concat();
        let lengths: Shape = order.iter().map(|&axis| shape[axis]).collect();
        let steps: SmallVec<[isize; 4]> = order
            .iter()
            .map(|&axis| strides[axis].cast_signed())
            .collect();
        let gathered = gather(operand, &lengths, &steps, 0);
        for (&axis, &stride) in order.iter().zip(&row_major_strides(&lengths)) {
            strides[axis] = stride;
        }
        Self {
            array: Cow::Owned(gathered),
            shape,
            strides,
        }
    }
}

/// The loops of a product: matrix products over `rows`, `columns` and `depth`, repeated over `outer`.
#[derive(Clone, Debug)]
pub(in crate::primitives) struct Loops {
    pub(super) outer: LoopAxes,
    pub(super) rows: LoopAxis,
    pub(super) columns: LoopAxis,
    pub(super) depth: LoopAxis,
}

impl Loops {
    /// The loops over the axes given: of the rows, the columns and the contracted axes the longest one is
    /// left to the kernel.
    pub(in crate::primitives) fn new(
        batch: impl Iterator<Item = LoopAxis>,
        rows: impl Iterator<Item = LoopAxis>,
        columns: impl Iterator<Item = LoopAxis>,
        depth: impl Iterator<Item = LoopAxis>,
    ) -> Self {
        let (mut outer, mut depth) = (joined(batch), joined(depth));
        let (mut more_rows, mut more_columns) = (joined(rows), joined(columns));
        let (rows, columns) = (
            take_longest(&mut more_rows),
            take_longest(&mut more_columns),
        );
        outer.extend(more_rows.into_iter().chain(more_columns));
        let longest = take_longest(&mut depth);
        debug_assert!(depth.is_empty(), "contracted axes that are not one");
        Self {
            outer,
            rows,
            columns,
            depth: longest,
        }
    }

    /// The number of multiplications.
    pub(super) fn work(&self) -> usize {
        let outer: usize = self.outer.iter().map(|axis| axis.length).product();
        outer * self.rows.length * self.columns.length * self.depth.length
    }

    /// The loops of the transposed product of one matrix: operands change places.
    pub(super) fn transposed(&self) -> Self {
        let swapped = |axis: LoopAxis, result: usize| LoopAxis {
            left: axis.right,
            right: axis.left,
            result,
            ..axis
        };
        Self {
            outer: LoopAxes::new(),
            rows: swapped(self.columns, self.rows.length),
            columns: swapped(self.rows, 1),
            depth: swapped(self.depth, 0),
        }
    }

    /// Both halves of the loops, cut so that the first one's results lie before the second one's, and the
    /// offsets of the second half in left, right and result.
    pub(super) fn halves(&self) -> Option<(Self, Self, [usize; 3])> {
        let axes = || self.outer.iter().chain([&self.rows, &self.columns]);
        let outermost = (0..axes().count())
            .filter(|&place| axes().nth(place).is_some_and(|axis| axis.length > 1))
            .max_by_key(|&place| axes().nth(place).map_or(0, |axis| axis.result))?;
        let part = |length: usize| {
            let mut half = self.clone();
            let rows = half.outer.len();
            let axis = match outermost.checked_sub(rows) {
                None => &mut half.outer[outermost],
                Some(0) => &mut half.rows,
                Some(_) => &mut half.columns,
            };
            axis.length = length;
            half
        };
        let axis = axes().nth(outermost)?;
        // Kernels work on blocks of 16 rows or columns.
        let half = match axis.length / 2 {
            half if half >= 32 => half.next_multiple_of(16),
            half => half,
        };
        let offsets = [axis.left, axis.right, axis.result].map(|stride| stride * half);
        Some((part(half), part(axis.length - half), offsets))
    }

    /// Calls `product` with the offsets in left, right and result of each matrix product.
    pub(in crate::primitives) fn run(&self, mut product: impl FnMut([usize; 3])) {
        let count: usize = self.outer.iter().map(|axis| axis.length).product();
        for index in 0..count {
            let mut rest = index;
            let mut offsets = [0; 3];
            for axis in self.outer.iter().rev() {
                let position = rest % axis.length;
                rest /= axis.length;
                offsets[0] += position * axis.left;
                offsets[1] += position * axis.right;
                offsets[2] += position * axis.result;
            }
            product(offsets);
        }
    }
}
