//! The evaluation of products: their operands are laid out as the loops read them, and threads share the work.

use std::sync::Arc;

use half::{bf16, f16};
use pytree_base::bug::expect_some;
use smallvec::smallvec;

use super::general::DotGeneral;
use super::matrix_product::{Loops, Part, Stored, Strided, multiply_then, parts};
use crate::base::array::{Array, reused};
use crate::base::divided::{Divided, Results};
use crate::base::dtype::DType;
use crate::base::narrow::Half;
use crate::base::shape::Shape;
use crate::base::target::{Following, Region, Target, Then};
use crate::base::threads::{self, Piece};

impl DotGeneral {
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
    pub(super) shape: Shape,
    /// `None` if the result has no elements, or is a sum of no products.
    pub(super) loops: Option<Loops>,
    pub(super) left: Arc<Array>,
    pub(super) right: Arc<Array>,
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
