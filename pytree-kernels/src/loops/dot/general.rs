//! The axes of a product, and the loops that compute it.

use super::matrix_product::{Layout, LoopAxis, Loops, PER_NANOSECOND, Summation, strides_read};
use crate::base::array::row_major_strides;
use crate::base::dtype::AbstractArray;
use crate::base::narrow::Half;
use crate::base::shape::{AxisList, Shape, sorting_permutation};

/// Multiplies two tensors and sums over pairs of axes, like `lax.dot_general`. The contracted axes `contract.0[i]` of
/// the left and `contract.1[i]` of the right operand are removed. The batch axes `batch.0[i]` and `batch.1[i]` become
/// one axis. The result has the batch axes, then the other axes of the left operand, then the other axes of the right
/// operand.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct DotGeneral {
    /// The contracted axes of both operands.
    pub contract: (AxisList, AxisList),
    /// The batch axes of both operands.
    pub batch: (AxisList, AxisList),
}

/// Returns the free axes of an operand: the axes that are neither contracted nor batch axes.
fn free_axes(rank: usize, contract: &[usize], batch: &[usize]) -> AxisList {
    list((0..rank).filter(|axis| !contract.contains(axis) && !batch.contains(axis)))
}

/// Collects a few axes. For a few axes, `push` is faster than `collect`, which reserves memory first.
#[inline]
fn list(axes: impl Iterator<Item = usize>) -> AxisList {
    let mut list = AxisList::new();
    for axis in axes {
        list.push(axis);
    }
    list
}

/// The axes of one operand of a product. These axes determine the axes of the operand's cotangent.
#[derive(Debug)]
pub struct Side<'a> {
    /// The contracted axes.
    pub contract: &'a [usize],
    /// The batch axes.
    pub batch: &'a [usize],
    /// The axes that are neither contracted nor batch axes.
    pub free: AxisList,
    /// For each free axis of the operand, the position of this axis in the result.
    pub kept: AxisList,
}

impl DotGeneral {
    /// Returns the axes of the left and of the right operand, whose numbers of axes are given.
    pub fn sides(&self, left_rank: usize, right_rank: usize) -> (Side<'_>, Side<'_>) {
        let batch = self.batch.0.len();
        let left = free_axes(left_rank, &self.contract.0, &self.batch.0);
        let right = free_axes(right_rank, &self.contract.1, &self.batch.1);
        let middle = batch + left.len();
        let end = middle + right.len();
        (
            Side {
                contract: &self.contract.0,
                batch: &self.batch.0,
                free: left,
                kept: list(batch..middle),
            },
            Side {
                contract: &self.contract.1,
                batch: &self.batch.1,
                free: right,
                kept: list(middle..end),
            },
        )
    }

    /// Returns the shape of the result. The shapes of the operands must already be checked.
    pub fn result_shape(&self, left: &[usize], right: &[usize]) -> Shape {
        let (left_side, right_side) = self.sides(left.len(), right.len());
        let batch = self.batch.0.iter().map(|&axis| left[axis]);
        let rows = left_side.free.iter().map(|&axis| left[axis]);
        let columns = right_side.free.iter().map(|&axis| right[axis]);
        Shape::from(&*list(batch.chain(rows).chain(columns)))
    }

    /// Returns about how many nanoseconds one thread takes for the product of two operands.
    pub fn nanoseconds(&self, left: &AbstractArray, right: &AbstractArray) -> usize {
        if let Some(loops) = self.loops_of(left, right) {
            return loops.nanoseconds();
        }
        let depth: usize = self
            .contract
            .0
            .iter()
            .map(|&axis| left.shape[axis])
            .product();
        let results: usize = self
            .result_shape(&left.shape, &right.shape)
            .iter()
            .product();
        depth * results / PER_NANOSECOND
    }

    /// Returns the order in which the product adds the terms of an element: of the pairs of contracted axes, without pairs of
    /// length 1, and of the terms of each pair. Products of equal factors whose order is equal have equal bits. Returns `None` if
    /// no term is rounded, so that every order gives the same bits.
    pub fn summation(
        &self,
        left: &AbstractArray,
        right: &AbstractArray,
    ) -> Option<(AxisList, Summation)> {
        if !left.dtype.is_float() || left.is_empty() || right.is_empty() {
            return None;
        }
        let contract = self.ordered_contract();
        let (left_side, right_side) = self.sides(left.rank(), right.rank());
        let (l, _) = strides_read(&left.shape, &contract.0, [&self.batch.0, &left_side.free]);
        let (r, _) = strides_read(&right.shape, &contract.1, [&self.batch.1, &right_side.free]);
        let [l, r] = [(left, &l), (right, &r)].map(|(info, strides)| Layout {
            shape: &info.shape,
            strides,
        });
        let shape = self.result_shape(&left.shape, &right.shape);
        let mut pairs = sorting_permutation(&self.contract.0);
        pairs.retain(|pair| left.shape[self.contract.0[*pair]] != 1);
        let is_half = Half::of(left.dtype).is_some();
        Some((pairs, self.loops(&shape, l, r).summation(is_half)))
    }

    /// Returns the pairs of contracted axes in the order of the left operand, in which the product adds.
    pub(super) fn ordered_contract(&self) -> (AxisList, AxisList) {
        sorting_permutation(&self.contract.0)
            .iter()
            .map(|&pair| (self.contract.0[pair], self.contract.1[pair]))
            .unzip()
    }

    /// Returns the loops of a product with a result of the given shape. The shapes and strides of the operands are given.
    pub(super) fn loops(&self, shape: &[usize], left: Layout<'_>, right: Layout<'_>) -> Loops {
        let (left_side, right_side) = self.sides(left.shape.len(), right.shape.len());
        let strides = row_major_strides(shape);
        let axis = |l: Option<usize>, r: Option<usize>, place: Option<usize>| LoopAxis {
            length: l
                .map_or(1, |l| left.shape[l])
                .max(r.map_or(1, |r| right.shape[r])),
            left: l.map_or(0, |l| left.strides[l]),
            right: r.map_or(0, |r| right.strides[r]),
            result: place.map_or(0, |place| strides[place]),
        };
        let of_left = left_side.free.iter().zip(&left_side.kept);
        let of_right = right_side.free.iter().zip(&right_side.kept);
        let batch = (self.batch.0.iter().zip(&self.batch.1)).enumerate();
        let contract = self.ordered_contract();
        let depth = contract.0.iter().zip(&contract.1);
        Loops::new(
            batch.map(|(place, (&l, &r))| axis(Some(l), Some(r), Some(place))),
            of_left.map(|(&l, &place)| axis(Some(l), None, Some(place))),
            of_right.map(|(&r, &place)| axis(None, Some(r), Some(place))),
            depth.map(|(&l, &r)| axis(Some(l), Some(r), None)),
        )
    }

    /// Returns the loops of the product of two operands, or `None` if an operand is empty or must be gathered first.
    pub(crate) fn loops_of(&self, left: &AbstractArray, right: &AbstractArray) -> Option<Loops> {
        let contract = self.ordered_contract();
        let strides = [left, right].map(|info| row_major_strides(&info.shape));
        let [l, r] = [(left, &strides[0]), (right, &strides[1])].map(|(info, strides)| Layout {
            shape: &info.shape,
            strides,
        });
        let is_direct = l.is_direct(&contract.0) && r.is_direct(&contract.1);
        let fits = is_direct && !left.is_empty() && !right.is_empty();
        let shape = self.result_shape(&left.shape, &right.shape);
        fits.then(|| self.loops(&shape, l, r))
    }

    /// Returns whether threads can share the product of two operands without a first phase, in which an operand is laid out
    /// again.
    pub fn is_divisible(&self, left: &AbstractArray, right: &AbstractArray) -> bool {
        let loops = self.loops_of(left, right);
        let is_half = Half::of(left.dtype).is_some();
        left.dtype.is_float() && loops.is_some_and(|loops| is_half || !loops.is_turned())
    }

    /// Returns whether the elements of the result are computed in the order of memory, so that another computation can continue
    /// with its regions.
    pub fn is_in_order(&self, left: &AbstractArray, right: &AbstractArray) -> bool {
        let Some(loops) = self.loops_of(left, right) else {
            return false;
        };
        loops.is_in_order()
    }

    /// Returns the number of elements of a row of the result of a product in order.
    pub fn width(&self, left: &AbstractArray, right: &AbstractArray) -> usize {
        self.loops_of(left, right).map_or(1, |loops| loops.width())
    }
}
