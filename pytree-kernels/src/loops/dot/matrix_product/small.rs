//! Small products of f32 in memory that has a block of elements after each element. A block is computed at a time, in the order of the
//! kernel of whole arrays.

use super::loops::{Kernel, LoopAxis, Loops};
use super::thin::{LANES, joined_rows};
use crate::base::instructions::{are_portable, have_fused};

/// An axis of a product: its length, and its strides in the factors, in the operand with the lanes, and in the result.
#[derive(Clone, Copy)]
pub(crate) struct Axis {
    length: usize,
    factors: usize,
    pub(crate) lanes: usize,
    result: usize,
}

/// A matrix product whose result has neighbouring elements along the axis `lane`. Each row of the result is a sum of rows of the operand
/// with the lanes, which are multiplied by numbers of the other operand.
#[derive(Clone, Copy)]
pub(crate) struct SmallRows {
    /// Whether the left operand has the lanes.
    pub(crate) lanes_are_left: bool,
    pub(crate) lane: Axis,
    rows: Axis,
    pub(crate) depth: Axis,
    /// What the first term is added to.
    start: f32,
    /// Whether terms are added in the order of products of one line, with fused multiplications.
    pub(crate) is_thin: bool,
}

impl SmallRows {
    /// Returns the rows of a product, or `None` if other kernels compute it.
    pub(crate) fn of(loops: &Loops) -> Option<Self> {
        let (rows, columns, depth) = (loops.rows, loops.columns, loops.depth);
        let (kernel, is_fused) = (loops.kernel(), have_fused());
        let is_thin = kernel == Kernel::Thin && is_fused;
        let is_plain = kernel == Kernel::Plain || kernel == Kernel::Thin && !is_fused;
        // A sum of one term has no order, and is the term itself in the kernels of `gemm`.
        let is_term = !is_thin && !is_plain && depth.length == 1;
        let is_small = is_thin || is_plain || is_term;
        if !is_small || !loops.outer.is_empty() || are_portable() {
            return None;
        }
        let lanes_are_left = columns.length == 1 && rows.length > 1;
        let axis = |axis: LoopAxis| {
            let (factors, lanes) = if lanes_are_left {
                (axis.right, axis.left)
            } else {
                (axis.left, axis.right)
            };
            Axis {
                length: axis.length,
                factors,
                lanes,
                result: axis.result,
            }
        };
        let (lane, rows) = if lanes_are_left {
            (axis(rows), axis(columns))
        } else {
            (axis(columns), axis(rows))
        };
        let is_ascending = rows.length == 1 || rows.result >= lane.length;
        (lane.result == 1 && is_ascending).then(|| Self {
            lanes_are_left,
            lane,
            rows,
            depth: axis(depth),
            start: if is_term { -0.0 } else { 0.0 },
            is_thin,
        })
    }

    /// Returns the positions of the elements of the operand with the lanes in an order in which those of a term are neighbours, and how
    /// many a term has.
    pub(crate) fn laid_out(&self) -> (Vec<usize>, usize) {
        let width = self.lane.length.next_multiple_of(LANES);
        let position = |at: usize| {
            let (term, lane) = (at / width, (at % width).min(self.lane.length - 1));
            term * self.depth.lanes + lane * self.lane.lanes
        };
        let positions = (0..self.depth.length * width).map(position);
        (positions.collect(), width)
    }

    /// Writes the product. `IS_THIN` is the field.
    ///
    /// # Safety
    /// The memory of each operand and of the result has [`LANES`] elements after each element.
    #[inline(always)]
    #[allow(unsafe_code, reason = "the caller promises the memory")]
    pub(crate) unsafe fn multiply<const IS_THIN: bool>(
        self,
        factors: *const f32,
        lanes: *const f32,
        result: *mut f32,
    ) {
        let mut row = 0;
        while row < self.rows.length {
            // A block that is longer than the row is followed by the next row.
            let mut first = 0;
            while first < self.lane.length {
                // SAFETY: the caller promises it.
                unsafe {
                    let factors = factors.add(row * self.rows.factors);
                    let lanes = lanes.add(first);
                    let sums = if IS_THIN {
                        joined_rows(
                            #[inline(always)]
                            |lane| self.sums::<IS_THIN>(factors, lanes, lane, LANES),
                        )
                    } else {
                        self.sums::<IS_THIN>(factors, lanes, 0, 1)
                    };
                    let to = result.add(row * self.rows.result + first);
                    to.cast::<[f32; LANES]>().write(sums);
                }
                first += LANES;
            }
            row += 1;
        }
    }

    /// Returns the sums of every `step`-th term from `first` on.
    ///
    /// # Safety
    /// As [`multiply`](Self::multiply).
    #[inline(always)]
    #[allow(unsafe_code, reason = "the caller promises the memory")]
    unsafe fn sums<const IS_FUSED: bool>(
        self,
        factors: *const f32,
        lanes: *const f32,
        first: usize,
        step: usize,
    ) -> [f32; LANES] {
        let (mut sums, mut term) = ([self.start; LANES], first);
        while term < self.depth.length {
            // SAFETY: the caller promises it.
            let (factor, block) = unsafe {
                let block = lanes.add(term * self.depth.lanes);
                (
                    factors.add(term * self.depth.factors).read(),
                    block.cast::<[f32; LANES]>().read(),
                )
            };
            for lane in 0..LANES {
                sums[lane] = if IS_FUSED {
                    factor.mul_add(block[lane], sums[lane])
                } else {
                    sums[lane] + factor * block[lane]
                };
            }
            term += step;
        }
        sums
    }
}
