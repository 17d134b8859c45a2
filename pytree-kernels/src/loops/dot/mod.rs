//! Tensor products, which multiply two arrays and sum over pairs of axes. Other pairs of axes may be batch axes.

pub(crate) mod matrix_product;
mod quantized;
pub mod slices;

use std::sync::Arc;

use half::{bf16, f16};
use pytree_base::bug::expect_some;
use smallvec::smallvec;

pub use self::matrix_product::Summation;
pub(crate) use self::matrix_product::{Factor, Part, Stored};
use self::matrix_product::{
    Layout, LoopAxis, Loops, PER_NANOSECOND, Strided, multiply_then, parts, strides_read,
};
use crate::base::array::{Array, reused, row_major_strides};
use crate::base::divided::{Divided, Results};
use crate::base::dtype::{AbstractArray, DType};
use crate::base::narrow::Half;
use crate::base::shape::{AxisList, Shape, sorting_permutation};
use crate::base::target::{Following, Region, Target, Then};
use crate::base::threads::{self, Piece};

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
}

impl DotGeneral {
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
    fn ordered_contract(&self) -> (AxisList, AxisList) {
        sorting_permutation(&self.contract.0)
            .iter()
            .map(|&pair| (self.contract.0[pair], self.contract.1[pair]))
            .unzip()
    }

    /// Returns the loops of a product with a result of the given shape. The shapes and strides of the operands are given.
    fn loops(&self, shape: &[usize], left: Layout<'_>, right: Layout<'_>) -> Loops {
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
    fn loops_of(&self, left: &AbstractArray, right: &AbstractArray) -> Option<Loops> {
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

    /// Returns the operands in the layout that the loops read.
    pub(crate) fn operands(&self, left: Arc<Array>, right: Arc<Array>) -> DotOperands {
        let shape = self.result_shape(left.shape(), right.shape());
        if left.info.is_empty() || right.info.is_empty() {
            return DotOperands {
                shape,
                loops: None,
                left,
                right,
            };
        }
        let (left_contract, right_contract) = self.ordered_contract();
        let (left_side, right_side) = self.sides(left.shape().len(), right.shape().len());
        let l = Strided::new(&left, &left_contract, [&self.batch.0, &left_side.free]);
        let r = Strided::new(&right, &right_contract, [&self.batch.1, &right_side.free]);
        let loops = Some(self.loops(&shape, l.layout(), r.layout()));
        let [l, r] = [l.gathered(), r.gathered()];
        DotOperands {
            shape,
            loops,
            left: l.map_or(left, Arc::new),
            right: r.map_or(right, Arc::new),
        }
    }

    /// Computes the product of two arrays of floats or of wide integers.
    pub fn evaluate(&self, left: Arc<Array>, right: Arc<Array>) -> Array {
        match left.dtype() {
            DType::BF16 => self.multiply::<bf16>(left, right),
            DType::F16 => self.multiply::<f16>(left, right),
            DType::F32 => self.multiply::<f32>(left, right),
            DType::I32 => self.multiply::<i32>(left, right),
            DType::I64 => self.multiply::<i64>(left, right),
            DType::U32 => self.multiply::<u32>(left, right),
            _ => self.multiply::<f64>(left, right),
        }
    }

    fn multiply<T: Stored>(&self, left: Arc<Array>, right: Arc<Array>) -> Array {
        let operands = self.operands(left, right);
        let mut target = reused::<T>(operands.shape.iter().product());
        operands.multiply(Target::new(&mut target), threads::count(), None);
        Array::new(&operands.shape, target)
    }

    /// Prepares the product of two operands, so that several threads share it. Returns `None` for integers, and if the right
    /// operand must be laid out again first.
    pub fn divided(&self, left: &Arc<Array>, right: &Arc<Array>) -> Option<Box<dyn Divided>> {
        let operands = self.operands(Arc::clone(left), Arc::clone(right));
        let is_half = Half::of(left.dtype()).is_some();
        let loops = operands.loops.as_ref();
        if loops.is_none_or(|loops| !is_half && loops.is_turned()) {
            return None;
        }
        match left.dtype() {
            DType::BF16 => Some(Box::new(DividedProduct::<bf16>::new(operands))),
            DType::F16 => Some(Box::new(DividedProduct::<f16>::new(operands))),
            DType::F32 => Some(Box::new(DividedProduct::<f32>::new(operands))),
            DType::F64 => Some(Box::new(DividedProduct::<f64>::new(operands))),
            _ => None,
        }
    }
}

/// The operands of a product, in the layout that its loops read.
pub(crate) struct DotOperands {
    /// The shape of the result.
    shape: Shape,
    /// `None` if the result has no elements, or is a sum of no products.
    loops: Option<Loops>,
    left: Arc<Array>,
    right: Arc<Array>,
}

impl DotOperands {
    /// Writes the product to `target`, on parallel threads if there is enough work, and continues with the regions of the result.
    pub(crate) fn multiply<T: Stored>(
        &self,
        mut target: Target<'_, T>,
        threads: usize,
        then: Option<Then<'_>>,
    ) {
        let (left, right) = (self.left.elements(), self.right.elements());
        if let Some(loops) = &self.loops {
            return multiply_then(loops, left, right, target, threads, then);
        }
        let count = target.elements();
        target.slice_mut(0, count).fill(T::default());
        if let Some(then) = then {
            (then.run)(Region::between(0, count));
        }
    }

    /// Divides the product into at most `count` parts, which different threads may run.
    ///
    /// # Panics
    /// Panics if the product is not [divisible](DotGeneral::is_divisible).
    pub(crate) fn parts<'a, T: Stored>(
        &'a self,
        target: Target<'a, T>,
        count: usize,
        following: Option<&Following>,
    ) -> Vec<Part<'a>> {
        let loops = expect_some(self.loops.as_ref(), "a product that is divisible");
        let (left, right) = (self.left.elements(), self.right.elements());
        parts(loops, left, right, target, count, following)
    }
}

/// A product that several threads share.
struct DividedProduct<T> {
    operands: DotOperands,
    target: Vec<T>,
}

impl<T: Stored> DividedProduct<T> {
    fn new(operands: DotOperands) -> Self {
        Self {
            target: reused(operands.shape.iter().product()),
            operands,
        }
    }
}

impl<T: Stored> Divided for DividedProduct<T> {
    fn pieces<'a>(&'a mut self, count: usize, pieces: &mut Vec<Piece<'a>>) {
        let target = Target::new(&mut self.target);
        for part in self.operands.parts(target, count, None) {
            pieces.push(Box::new(move || part(None)));
        }
    }

    fn results(self: Box<Self>) -> Results {
        smallvec![Array::new(&self.operands.shape, self.target)]
    }
}
