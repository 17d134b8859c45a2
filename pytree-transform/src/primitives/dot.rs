//! Tensor products, which multiply two tensors and sum over pairs of axes. Other pairs of axes may be batch axes.

pub(in crate::primitives) mod matrix_product;
pub(crate) mod slices;

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use pytree_core::bug::expect_some;
use smallvec::smallvec;

pub(crate) use self::matrix_product::{Factor, Part, Summation};
use pytree_kernels::base::array::{Array, reused, row_major_strides};
use pytree_kernels::base::dtype::{AbstractArray, DType};
use pytree_kernels::base::shape::{AxisList, Shape};
use pytree_kernels::base::target::{Following, Region, Target, Then};
use pytree_kernels::base::threads::{self, Piece};

use self::matrix_product::{
    Layout, LoopAxis, Loops, PER_NANOSECOND, Strided, multiply_then, parts, strides_read,
};
use crate::base::error::{TensorError, or_panic};
use crate::primitives::elementwise::sum_of;
use crate::primitives::shape::{batched_axis, sorting_permutation, transpose};
use crate::tensor::Tensor;
use crate::tensor::primitive::{
    AbstractResults, BatchAxis, Batched, Cotangents, Divided, Linear, Lowered, Operands, Outputs,
    Primitive, WithTangents, one, take,
};
use crate::tensor::stablehlo::{Block, Value};
use crate::tensor::trace::bind_one;

/// Multiplies two tensors and sums over pairs of axes, like `lax.dot_general`. The contracted axes `contract.0[i]` of
/// the left and `contract.1[i]` of the right operand are removed. The batch axes `batch.0[i]` and `batch.1[i]` become
/// one axis. The result has the batch axes, then the other axes of the left operand, then the other axes of the right
/// operand.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct DotGeneral {
    pub(crate) contract: (AxisList, AxisList),
    pub(crate) batch: (AxisList, AxisList),
}

/// Applies [`DotGeneral`] to two tensors.
#[track_caller]
pub(crate) fn dot_general(
    left: &Tensor,
    right: &Tensor,
    contract: (&[usize], &[usize]),
    batch: (&[usize], &[usize]),
) -> Result<Tensor, TensorError> {
    let pair = |(left, right): (&[usize], &[usize])| {
        (AxisList::from_slice(left), AxisList::from_slice(right))
    };
    bind_one(
        &DotGeneral {
            contract: pair(contract),
            batch: pair(batch),
        },
        &[left, right],
    )
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
struct Side<'a> {
    contract: &'a [usize],
    batch: &'a [usize],
    free: AxisList,
    /// For each free axis of the operand, the position of this axis in the result.
    kept: AxisList,
}

impl DotGeneral {
    fn sides(&self, left_rank: usize, right_rank: usize) -> (Side<'_>, Side<'_>) {
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

    /// Returns the new indices of the axes `axes` after a batch axis is inserted at position `batch`.
    fn shifted(axes: &[usize], batch: Option<usize>) -> AxisList {
        axes.iter()
            .map(|&axis| batch.map_or(axis, |batch| batched_axis(axis, batch)))
            .collect()
    }
}

/// Computes the cotangent of the operand `own` from the cotangent of the result and from `known`, the value of the
/// other operand. `other` has the axes of the other operand.
fn cotangent_of(own: &Side<'_>, cotangent: &Tensor, other: &Side<'_>, known: &Tensor) -> Tensor {
    let batch: AxisList = (0..own.batch.len()).collect();
    // The product below has the contracted axes in the order of the other operand.
    let contracted: AxisList = sorting_permutation(other.contract)
        .iter()
        .map(|&position| own.contract[position])
        .collect();
    let axes = |first: &[usize], second: &[usize]| -> AxisList {
        [own.batch, first, second].concat().into_iter().collect()
    };
    let cotangent_first = axes(&own.free, &contracted);
    let known_first = axes(&contracted, &own.free);
    // Choose the order of the two factors so that no transpose is needed afterwards.
    let (product, axes) = if known_first.is_sorted() {
        (
            dot_general(
                known,
                cotangent,
                (&other.free, &other.kept),
                (other.batch, &batch),
            ),
            known_first,
        )
    } else {
        (
            dot_general(
                cotangent,
                known,
                (&other.kept, &other.free),
                (&batch, other.batch),
            ),
            cotangent_first,
        )
    };
    or_panic(transpose(&or_panic(product), &sorting_permutation(&axes)))
}

impl DotGeneral {
    /// Returns the shape of the result. The shapes of the operands must already be checked.
    fn result_shape(&self, left: &[usize], right: &[usize]) -> Shape {
        let (left_side, right_side) = self.sides(left.len(), right.len());
        let batch = self.batch.0.iter().map(|&axis| left[axis]);
        let rows = left_side.free.iter().map(|&axis| left[axis]);
        let columns = right_side.free.iter().map(|&axis| right[axis]);
        Shape::from(&*list(batch.chain(rows).chain(columns)))
    }

    /// Returns the primitive as a product, or `None` if it is another primitive.
    pub(crate) fn of(primitive: &dyn Primitive) -> Option<&Self> {
        let primitive: &dyn Any = primitive;
        primitive.downcast_ref()
    }

    /// Returns about how many nanoseconds one thread takes for the product of two operands.
    pub(crate) fn nanoseconds(&self, left: &AbstractArray, right: &AbstractArray) -> usize {
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
    pub(crate) fn summation(
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
        Some((pairs, self.loops(&shape, l, r).summation()))
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
    pub(crate) fn is_divisible(&self, left: &AbstractArray, right: &AbstractArray) -> bool {
        let is_wide = matches!(left.dtype, DType::F32 | DType::F64);
        let loops = self.loops_of(left, right).filter(|_| is_wide);
        loops.is_some_and(|loops| !loops.is_turned())
    }

    /// Returns whether the elements of the result are computed in the order of memory, so that another computation can continue
    /// with its regions.
    pub(crate) fn is_in_order(&self, left: &AbstractArray, right: &AbstractArray) -> bool {
        let Some(loops) = self.loops_of(left, right) else {
            return false;
        };
        loops.is_in_order()
    }

    /// Returns the number of elements of a row of the result of a product in order.
    pub(crate) fn width(&self, left: &AbstractArray, right: &AbstractArray) -> usize {
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

    fn multiply<T: Factor>(&self, left: Arc<Array>, right: Arc<Array>) -> Array {
        let operands = self.operands(left, right);
        let mut target = reused::<T>(operands.shape.iter().product());
        operands.multiply(Target::new(&mut target), threads::count(), None);
        Array::new(&operands.shape, target)
    }

    /// Prepares the product of two operands, so that several threads share it. Returns `None` for integers, and if the right
    /// operand must be laid out again first.
    pub(crate) fn divided(
        &self,
        left: &Arc<Array>,
        right: &Arc<Array>,
    ) -> Option<Box<dyn Divided>> {
        let operands = self.operands(Arc::clone(left), Arc::clone(right));
        if operands.loops.as_ref().is_none_or(Loops::is_turned) {
            return None;
        }
        match left.dtype() {
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
    pub(crate) fn multiply<T: Factor>(
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
    pub(crate) fn parts<'a, T: Factor>(
        &'a self,
        target: Target<'a, T>,
        count: usize,
        following: Option<&Following>,
    ) -> Vec<Part<'a, T>> {
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

impl<T: Factor> DividedProduct<T> {
    fn new(operands: DotOperands) -> Self {
        Self {
            target: reused(operands.shape.iter().product()),
            operands,
        }
    }
}

impl<T: Factor> Divided for DividedProduct<T> {
    fn pieces<'a>(&'a mut self, count: usize, pieces: &mut Vec<Piece<'a>>) {
        let target = Target::new(&mut self.target);
        for part in self.operands.parts(target, count, None) {
            pieces.push(Box::new(move || part.run(None)));
        }
    }

    fn results(self: Box<Self>) -> Outputs<Array> {
        one(Array::new(&self.operands.shape, self.target))
    }
}

impl Primitive for DotGeneral {
    fn name(&self) -> &'static str {
        "dot_general"
    }

    fn abstract_evaluation(&self, operands: &[&AbstractArray]) -> AbstractResults {
        let (left, right) = (operands[0], operands[1]);
        if left.dtype != right.dtype || left.dtype == DType::Bool {
            return Err(TensorError::dtype(
                "multiply",
                operands,
                "numbers, with the same element type in both tensors",
            ));
        }
        for (what, (left_axes, right_axes)) in
            [("contracted", &self.contract), ("batch", &self.batch)]
        {
            if left_axes.len() != right_axes.len() {
                return Err(TensorError::shape(
                    "multiply",
                    operands,
                    format!("the {what} axes {left_axes:?} and {right_axes:?} differ in number"),
                    "name the same number of axes for both tensors",
                ));
            }
            for (&l, &r) in left_axes.iter().zip(right_axes) {
                let lengths = (left.shape.get(l), right.shape.get(r));
                if lengths.0.is_none() || lengths.0 != lengths.1 {
                    return Err(TensorError::shape(
                        "multiply",
                        operands,
                        format!("the {what} axes {l} and {r} differ in length"),
                        "transpose or reshape one of them",
                    ));
                }
            }
        }
        Ok(one(AbstractArray {
            dtype: left.dtype,
            shape: self.result_shape(&left.shape, &right.shape),
        }))
    }

    fn evaluate(&self, operands: Operands) -> Outputs<Array> {
        let [left, right] = take(operands);
        one(match left.dtype() {
            DType::F32 => self.multiply::<f32>(left, right),
            DType::I32 => self.multiply::<i32>(left, right),
            DType::I64 => self.multiply::<i64>(left, right),
            DType::U32 => self.multiply::<u32>(left, right),
            _ => self.multiply::<f64>(left, right),
        })
    }

    fn jvp(&self, primals: &[Tensor], tangents: &[Option<Tensor>]) -> WithTangents {
        let product = |left: &Tensor, right: &Tensor| or_panic(bind_one(self, &[left, right]));
        let left = tangents[0]
            .as_ref()
            .map(|tangent| product(tangent, &primals[1]));
        let right = tangents[1]
            .as_ref()
            .map(|tangent| product(&primals[0], tangent));
        (
            one(product(&primals[0], &primals[1])),
            one(sum_of(left, right)),
        )
    }

    fn transpose(&self, cotangents: &[Option<Tensor>], operands: &[Linear]) -> Cotangents {
        let Some(cotangent) = &cotangents[0] else {
            return smallvec![None, None];
        };
        let (left, right) = self.sides(operands[0].info().rank(), operands[1].info().rank());
        smallvec![
            operands[0].is_unknown().then(|| cotangent_of(
                &left,
                cotangent,
                &right,
                operands[1].known()
            )),
            operands[1].is_unknown().then(|| cotangent_of(
                &right,
                cotangent,
                &left,
                operands[0].known()
            ))
        ]
    }

    /// Batches the product. If both operands have a batch axis, these two axes become one more pair of batch axes of
    /// the product. If only one operand has a batch axis, this axis becomes one more free axis.
    fn batch(&self, operands: &[Tensor], axes: &[Option<usize>], _: &BatchAxis) -> Batched {
        let shifted = |(left, right): &(AxisList, AxisList)| {
            (Self::shifted(left, axes[0]), Self::shifted(right, axes[1]))
        };
        let mut product = Self {
            contract: shifted(&self.contract),
            batch: shifted(&self.batch),
        };
        if let (Some(left), Some(right)) = (axes[0], axes[1]) {
            product.batch.0.insert(0, left);
            product.batch.1.insert(0, right);
        }
        let (left, right) = product.sides(operands[0].rank(), operands[1].rank());
        let place = |side: &Side<'_>, axis: usize| {
            let position = side.free.iter().position(|&free| free == axis);
            Some(
                side.kept[expect_some(
                    position,
                    "the batch axis to be a free axis, because only one operand has it",
                )],
            )
        };
        let result_axis = match (axes[0], axes[1]) {
            (Some(_), Some(_)) => Some(0),
            (Some(axis), None) => place(&left, axis),
            (None, Some(axis)) => place(&right, axis),
            (None, None) => None,
        };
        (
            one(or_panic(bind_one(&product, &[&operands[0], &operands[1]]))),
            one(result_axis),
        )
    }

    fn lower(
        &self,
        block: &mut Block<'_>,
        operands: &[Value],
        results: &[&AbstractArray],
    ) -> Lowered {
        let ((contract_left, contract_right), (batch_left, batch_right)) =
            (&self.contract, &self.batch);
        // Without the highest precision, a TPU would round f32 to bf16.
        let attributes = format_args!(
            "dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = {batch_left:?}, rhs_batching_dimensions = {batch_right:?}, lhs_contracting_dimensions = {contract_left:?}, rhs_contracting_dimensions = {contract_right:?}>, precision_config = [#stablehlo<precision HIGHEST>, #stablehlo<precision HIGHEST>]"
        );
        let operands = [&operands[0], &operands[1]];
        let result = results[0].clone();
        Ok(one(block.operation(
            "stablehlo.dot_general",
            &operands,
            attributes,
            result,
        )))
    }

    fn multiplies_narrow_floats(&self) -> bool {
        true
    }

    fn write_parameters(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ((contract_left, contract_right), (batch_left, batch_right)) =
            (&self.contract, &self.batch);
        write!(
            f,
            "dimension_numbers=(({contract_left:?}, {contract_right:?}), ({batch_left:?}, {batch_right:?}))"
        )
    }
}

#[cfg(test)]
mod tests;
