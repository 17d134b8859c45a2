//! The loops of a tensor product: the axes that the kernel of matrix products handles, and the loops around the kernel.

use std::borrow::Cow;

use smallvec::SmallVec;

use crate::base::array::{Array, row_major_strides};
use crate::base::numbers::{greatest_common_divisor, least_common_multiple};
use crate::base::shape::{PerAxis, Shape};
use crate::base::target::{Following, Rows};
use crate::loops::strided::gather;

/// One axis of the loops of a product: its length, and the strides in the operands and the result.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LoopAxis {
    pub(crate) length: usize,
    pub(crate) left: usize,
    pub(crate) right: usize,
    pub(crate) result: usize,
}

impl LoopAxis {
    const NONE: Self = Self::new(1, [1, 1, 1]);

    /// Creates an axis with the strides in the left operand, in the right operand and in the result.
    pub(crate) const fn new(length: usize, [left, right, result]: [usize; 3]) -> Self {
        Self {
            length,
            left,
            right,
            result,
        }
    }

    /// Returns the offsets of a position on the axis: in the left operand, in the right operand and in the result.
    pub(super) fn offsets(self, position: usize) -> [usize; 3] {
        [self.left, self.right, self.result].map(|stride| stride * position)
    }
}

pub(crate) type LoopAxes = SmallVec<[LoopAxis; 4]>;

/// Joins neighbouring axes that are contiguous in both operands and in the result.
pub(crate) fn joined(axes: impl Iterator<Item = LoopAxis>) -> LoopAxes {
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

/// Removes and returns the longest axis. If several axes are equally long, removes the last of them.
fn take_longest(axes: &mut LoopAxes) -> LoopAxis {
    match (0..axes.len()).max_by_key(|&position| axes[position].length) {
        Some(position) => axes.remove(position),
        None => LoopAxis::NONE,
    }
}

/// The elements of an operand, and the length and stride of each axis. The kernel reads the operand in this layout.
pub(crate) struct Strided<'a> {
    pub(crate) array: Cow<'a, Array>,
    pub(crate) shape: Shape,
    pub(crate) strides: PerAxis,
}

/// The length and stride of each axis of an operand.
#[derive(Clone, Copy)]
pub(crate) struct Layout<'a> {
    pub(crate) shape: &'a [usize],
    pub(crate) strides: &'a [usize],
}

impl Layout<'_> {
    /// Returns whether the contracted axes form one axis in memory.
    pub(crate) fn is_direct(&self, contract: &[usize]) -> bool {
        let part = |&axis: &usize| LoopAxis::new(self.shape[axis], [self.strides[axis], 0, 0]);
        joined(contract.iter().map(part)).len() <= 1
    }
}

impl<'a> Strided<'a> {
    /// Returns the copy of the operand if its elements were gathered.
    pub(crate) fn gathered(self) -> Option<Array> {
        match self.array {
            Cow::Owned(array) => Some(array),
            Cow::Borrowed(_) => None,
        }
    }

    pub(crate) fn layout(&self) -> Layout<'_> {
        Layout {
            shape: &self.shape,
            strides: &self.strides,
        }
    }

    /// Returns the operand without a copy if its contracted axes form one axis in memory. Otherwise, gathers its
    /// elements into a copy.
    pub(crate) fn new(operand: &'a Array, contract: &[usize], others: [&[usize]; 2]) -> Self {
        let shape = Shape::from(operand.shape());
        let (strides, gathered) = strides_read(&shape, contract, others);
        let array = gathered.map_or(Cow::Borrowed(operand), |(lengths, steps)| {
            Cow::Owned(gather(operand, &lengths, &steps, 0))
        });
        Self {
            array,
            shape,
            strides,
        }
    }
}

/// Returns the strides with which the kernel reads an operand. If the operand must be gathered first, also returns the shape of
/// the copy, and the steps between the elements that are copied.
pub(crate) fn strides_read(
    shape: &[usize],
    contract: &[usize],
    others: [&[usize]; 2],
) -> (PerAxis, Option<(Shape, PerAxis<isize>)>) {
    let mut strides = row_major_strides(shape);
    let layout = Layout {
        shape,
        strides: &strides,
    };
    if layout.is_direct(contract) {
        return (strides, None);
    }
    let order = [others[0], others[1], contract].concat();
    let lengths: Shape = order.iter().map(|&axis| shape[axis]).collect();
    let steps = order
        .iter()
        .map(|&axis| strides[axis].cast_signed())
        .collect();
    for (&axis, &stride) in order.iter().zip(&row_major_strides(&lengths)) {
        strides[axis] = stride;
    }
    (strides, Some((lengths, steps)))
}

/// A right operand that is stored column by column is copied to another layout only if it has at least this many
/// elements.
const LAID_OUT: usize = 1 << 12;

/// The greatest number of multiplications for which a plain loop is faster than a kernel call.
const SMALL: usize = 512;

/// The greatest number of rows and of columns for which the crate `gemm` has special kernels.
const FEW: usize = 64;

/// The greatest number of elements of a result that the crate `gemm` computes as inner products.
pub(super) const INNER: usize = 16 * 16;

/// The greatest number of rows or columns of a thin product.
const THIN: usize = 8;

/// The least number of terms of a thin product that is no matrix-vector product.
const THIN_DEPTH: usize = 64;

/// The kernel that computes a matrix product.
///
/// Each kernel has its own order of summation. If a product is divided into parts, all parts use the kernel of the
/// whole product, so the number of parts does not change the bits of the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kernel {
    /// A plain loop.
    Plain,
    /// A matrix-vector product, or a product with few rows or few columns.
    Thin,
    /// A small result of inner products of rows and columns that are contiguous in memory. gemm adds in another order if the result
    /// is larger, so the product is never divided.
    Inner,
    /// A matrix product with few rows and columns. gemm's order of summation depends on the numbers of rows and
    /// columns, so the product is never divided.
    Few,
    /// Any other matrix product. gemm divides the depth into parts whose lengths depend only on the depth.
    Blocked,
}

/// The loops of a product: a matrix product over `rows`, `columns` and `depth` (the contracted axis), repeated over the
/// axes `outer`.
#[derive(Clone, Debug)]
pub(crate) struct Loops {
    pub(super) outer: LoopAxes,
    pub(super) rows: LoopAxis,
    pub(crate) columns: LoopAxis,
    pub(crate) depth: LoopAxis,
}

impl Loops {
    /// Creates the loops over the given axes. The kernel handles the longest axis of the rows, the longest axis of the
    /// columns and the contracted axis.
    pub(crate) fn new(
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

    /// Creates the loops of a single matrix product. `left` and `right` are the strides of the rows and of the columns of the operands,
    /// and `width` is the stride of the rows of the result, whose columns are contiguous.
    pub(crate) fn single(
        [rows, columns, depth]: [usize; 3],
        left: [usize; 2],
        right: [usize; 2],
        width: usize,
    ) -> Self {
        Self {
            outer: LoopAxes::new(),
            rows: LoopAxis::new(rows, [left[0], 0, width]),
            columns: LoopAxis::new(columns, [0, right[1], 1]),
            depth: LoopAxis::new(depth, [left[1], right[0], 0]),
        }
    }

    /// Returns the number of rows of each matrix product, and the number of matrix products.
    pub(crate) fn extents(&self) -> (usize, usize) {
        let products = self.outer.iter().map(|axis| axis.length).product();
        (self.rows.length, products)
    }

    /// Returns the number of multiplications of the whole product.
    pub(super) fn work(&self) -> usize {
        self.results() * self.depth.length
    }

    /// Returns the number of elements of the result.
    pub(super) fn results(&self) -> usize {
        let outer: usize = self.outer.iter().map(|axis| axis.length).product();
        outer * self.rows.length * self.columns.length
    }

    /// Returns whether the kernels would read neighbouring columns of the right operand that are far apart in memory,
    /// and gather them repeatedly. Such an operand is laid out again first.
    pub(crate) fn is_turned(&self) -> bool {
        let apart = self.outer.iter().all(|axis| axis.right == 0) && self.depth.right == 1;
        let turned = self.columns.length * self.depth.length;
        let is_read_once = self.kernel() == Kernel::Thin;
        apart && self.columns.right >= 2 && turned >= LAID_OUT && !is_read_once
    }

    /// Returns the loops of the transposed matrix product, with the operands swapped.
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

    /// Returns the kernel that computes each matrix product.
    pub(crate) fn kernel(&self) -> Kernel {
        let (rows, columns) = (self.rows.length, self.columns.length);
        if rows * columns * self.depth.length <= SMALL {
            Kernel::Plain
        } else if self.is_thin() {
            Kernel::Thin
        } else if self.is_inner() {
            Kernel::Inner
        } else if rows.max(columns) <= FEW {
            Kernel::Few
        } else {
            Kernel::Blocked
        }
    }

    /// Returns whether the product is a matrix-vector product, or has few rows or few columns.
    fn is_thin(&self) -> bool {
        let (rows, columns) = (self.rows.length, self.columns.length);
        let is_long = rows.max(columns) > FEW && self.depth.length >= THIN_DEPTH;
        match rows.min(columns) {
            1 => true,
            few => few <= THIN && is_long,
        }
    }

    /// Returns whether `gemm` computes this product as inner products.
    pub(super) fn is_inner(&self) -> bool {
        let is_contiguous = self.depth.left == 1 && self.depth.right == 1;
        is_contiguous && self.rows.length * self.columns.length <= INNER
    }

    /// Returns the axis with the index `place`. The order of the axes is: the axes `outer`, the rows, the columns.
    fn axis(&self, place: usize) -> &LoopAxis {
        match place.checked_sub(self.outer.len()) {
            None => &self.outer[place],
            Some(0) => &self.rows,
            Some(_) => &self.columns,
        }
    }

    /// Returns the loops with the length of one axis changed to `length`. `place` is the index of this axis, as in
    /// [`axis`](Self::axis).
    fn part(&self, place: usize, length: usize) -> Self {
        let mut part = self.clone();
        let axis = match place.checked_sub(self.outer.len()) {
            None => &mut part.outer[place],
            Some(0) => &mut part.rows,
            Some(_) => &mut part.columns,
        };
        axis.length = length;
        part
    }

    /// Returns the number of elements between neighbouring rows of the result, if the result is in order.
    pub(crate) fn width(&self) -> usize {
        if self.rows.length == 1 {
            self.columns.length
        } else {
            self.rows.result
        }
    }

    /// Returns whether the elements of the result are in memory in the order of the loops, without gaps.
    pub(crate) fn is_in_order(&self) -> bool {
        let axes = self.outer.iter().chain([&self.rows, &self.columns]);
        let mut inner = 1;
        axes.rev().filter(|axis| axis.length > 1).all(|axis| {
            let is_next = axis.result == inner;
            inner *= axis.length;
            is_next
        })
    }

    /// Divides the loops into two halves. Also returns the offsets of the second half in the left operand, the right
    /// operand and the result. Returns `None` if one half would use a kernel that differs from the kernel of the whole
    /// product, or if `following` cannot continue with the halves.
    ///
    /// A product without outer axes is divided along the longer one of rows and columns: each half then reads one half of
    /// the longer operand, and the whole shorter operand.
    pub(super) fn halves(&self, following: Option<&Following>) -> Option<(Self, Self, [usize; 3])> {
        let outer = (0..self.outer.len()).filter(|&place| self.outer[place].length > 1);
        if let Some(place) = outer.max_by_key(|&place| self.outer[place].result) {
            return self.halves_along(place, following);
        }
        let (rows, columns) = (self.outer.len(), self.outer.len() + 1);
        let (longer, shorter) = if self.columns.length > self.rows.length {
            (columns, rows)
        } else {
            (rows, columns)
        };
        let halves = self.halves_along(longer, following);
        halves.or_else(|| self.halves_along(shorter, following))
    }

    /// Divides the loops into two halves of the axis with the index `place`, as [`halves`](Self::halves) does.
    fn halves_along(
        &self,
        place: usize,
        following: Option<&Following>,
    ) -> Option<(Self, Self, [usize; 3])> {
        let axis = *self.axis(place);
        let is_outer = place < self.outer.len();
        let is_within_rows = place > self.outer.len() && self.rows.length > 1;
        let unit = match following {
            None => 1,
            Some(following) if is_within_rows => match following.rows {
                Rows::Divisible => 1,
                Rows::Whole => return None,
            },
            Some(following) => {
                let common = greatest_common_divisor(following.grain, axis.result.max(1));
                following.grain / common
            }
        };
        // The kernels work on blocks of 16 rows or columns.
        let block = if axis.length / 2 >= 32 { 16 } else { 1 };
        let unit = least_common_multiple(unit, block)?;
        let half = (axis.length / 2).next_multiple_of(unit);
        let rest = axis.length.checked_sub(half).filter(|&rest| rest > 0)?;
        let halves = (self.part(place, half), self.part(place, rest));
        let keep = [&halves.0, &halves.1].map(|half| half.kernel() == self.kernel());
        (half > 0
            && keep == [true; 2]
            && (is_outer || !matches!(self.kernel(), Kernel::Few | Kernel::Inner)))
        .then(|| (halves.0, halves.1, axis.offsets(half)))
    }

    /// Calls `product` once for each matrix product, with the offsets in the left operand, the right operand and the
    /// result.
    pub(crate) fn run(&self, mut product: impl FnMut([usize; 3])) {
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
