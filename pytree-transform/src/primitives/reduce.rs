//! Reductions over axes: sum, extrema, products, logic, and positions of extrema. The reduced axes are removed.

mod arg_extremum;

use std::fmt;
use std::sync::Arc;

use pytree_base::bug::expect_next;
use pytree_kernels::base::array::{Array, Operands};
use pytree_kernels::base::dtype::{AbstractArray, DType};
use pytree_kernels::base::fold::Fold;
use pytree_kernels::base::shape::{AxisList, without_axes};
use pytree_kernels::loops::elementwise::Comparison;
use pytree_kernels::loops::reduction::{self, Reduction};

pub(crate) use self::arg_extremum::argument_of;
use crate::base::error::{TensorError, or_panic};
use crate::base::text_layout::Tuple;
use crate::primitives::convert::{Convert, convert};
use crate::primitives::create;
use crate::primitives::elementwise::compare;
use crate::primitives::shape::{batched_axis, broadcast_in_dim, reshape, transpose};
use crate::primitives::slice::{concatenate, slice};
use crate::primitives::tangent::tangent_of;
use crate::tensor::Tensor;
use crate::tensor::primitive::{
    AbstractResults, BatchAxis, Batched, Cotangents, Infos, Linear, LinearPrimitive, Lowered,
    LoweredOne, Outputs, Primitive, WithTangents, alone, not_linear, one, take,
};
use crate::tensor::stablehlo::{Block, Bound, Value, all_bits, bound, number};
use crate::tensor::trace::bind_one;

/// Sums a tensor over some axes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Sum {
    pub(crate) axes: AxisList,
    /// The dtype to which the operand is converted part by part, if it is not its own.
    pub(crate) dtype: Option<DType>,
}

/// A reduction over some axes that is not a sum. Such a reduction is not linear.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Reduce {
    pub(crate) reduction: Reduction,
    pub(crate) axes: AxisList,
    /// The dtype to which the operand is converted part by part, if it is not its own.
    pub(crate) dtype: Option<DType>,
}

/// Returns the dtype in which an operand is reduced.
fn reduced(dtype: Option<DType>, operand: &AbstractArray) -> DType {
    dtype.unwrap_or(operand.dtype)
}

/// Writes the conversion of an operand to the dtype in which it is reduced.
fn lower_operand(
    block: &mut Block<'_>,
    operand: &Value,
    dtype: Option<DType>,
) -> Result<Value, TensorError> {
    match dtype.filter(|&dtype| dtype != operand.dtype()) {
        None => Ok(operand.clone()),
        Some(dtype) => {
            let converted = Convert(dtype).lower(block, std::slice::from_ref(operand), &[])?;
            Ok(expect_next(
                &mut converted.into_iter(),
                "a converted operand",
            ))
        }
    }
}

fn write(axes: &[usize], dtype: Option<DType>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    write!(f, "axes={}", Tuple(axes))?;
    dtype.map_or(Ok(()), |dtype| write!(f, " dtype={dtype}"))
}

/// Returns the sum over distinct `axes`. Returns the tensor itself if there are no axes.
#[track_caller]
pub(crate) fn sum(operand: &Tensor, axes: &[usize]) -> Result<Tensor, TensorError> {
    sum_as(operand.dtype(), operand, axes)
}

/// Returns the sum over distinct `axes` of a tensor that is converted to a dtype.
#[track_caller]
pub(crate) fn sum_as(
    dtype: DType,
    operand: &Tensor,
    axes: &[usize],
) -> Result<Tensor, TensorError> {
    if axes.is_empty() && dtype != DType::Bool {
        return convert(operand, dtype);
    }
    let sum = Sum {
        axes: sorted(axes),
        dtype: (dtype != operand.dtype()).then_some(dtype),
    };
    bind_one(&sum, &[operand])
}

/// Returns a reduction over distinct `axes`. Returns the tensor itself if there are no axes.
#[track_caller]
pub(crate) fn reduce_by(
    reduction: Reduction,
    operand: &Tensor,
    axes: &[usize],
) -> Result<Tensor, TensorError> {
    reduce_as(reduction, operand.dtype(), operand, axes)
}

/// Returns a reduction over distinct `axes` of a tensor that is converted to a dtype.
#[track_caller]
pub(crate) fn reduce_as(
    reduction: Reduction,
    dtype: DType,
    operand: &Tensor,
    axes: &[usize],
) -> Result<Tensor, TensorError> {
    if axes.is_empty() && accepts(reduction, dtype) {
        return convert(operand, dtype);
    }
    let reduce = Reduce {
        reduction,
        axes: sorted(axes),
        dtype: (dtype != operand.dtype()).then_some(dtype),
    };
    bind_one(&reduce, &[operand])
}

fn sorted(axes: &[usize]) -> AxisList {
    let mut axes = AxisList::from_slice(axes);
    axes.sort_unstable();
    axes
}

/// Broadcasts a reduced tensor along the removed axes `axes`, back to the shape before the reduction.
#[track_caller]
fn broadcast_back(
    reduced: &Tensor,
    shape: &[usize],
    axes: &[usize],
) -> Result<Tensor, TensorError> {
    let kept: AxisList = (0..shape.len())
        .filter(|axis| !axes.contains(axis))
        .collect();
    broadcast_in_dim(reduced, shape, &kept)
}

/// Returns the reduced axes after a batch axis is inserted at position `batch`. Also returns the position of the batch
/// axis in the result.
fn batched_axes(axes: &[usize], batch: usize) -> (AxisList, usize) {
    let axes: AxisList = axes.iter().map(|&axis| batched_axis(axis, batch)).collect();
    let before = axes.iter().filter(|&&axis| axis < batch).count();
    (axes, batch - before)
}

/// Returns an error if an extremum is taken over an empty axis.
fn not_empty(
    operation: &'static str,
    operand: &AbstractArray,
    axes: &[usize],
) -> Result<(), TensorError> {
    match axes.iter().find(|&&axis| operand.shape[axis] == 0) {
        None => Ok(()),
        Some(axis) => Err(TensorError::shape(
            operation,
            &[operand],
            format!("axis {axis} has length 0, so it has no extremum"),
            "pass a tensor with at least one element along this axis",
        )),
    }
}

fn axes_exist(
    operation: &'static str,
    operand: &AbstractArray,
    axes: &[usize],
) -> Result<(), TensorError> {
    if let Some(&axis) = axes.iter().find(|&&axis| axis >= operand.rank()) {
        return Err(TensorError::axis(operation, operand, axis));
    }
    match axes.windows(2).find(|pair| pair[0] == pair[1]) {
        None => Ok(()),
        Some(pair) => Err(TensorError::shape(
            operation,
            &[operand],
            format!("axis {} is given twice", pair[0]),
            "give each axis once",
        )),
    }
}

impl LinearPrimitive for Sum {
    fn name(&self) -> &'static str {
        "reduce_sum"
    }

    fn result(&self, operand: &AbstractArray) -> Result<AbstractArray, TensorError> {
        axes_exist("sum", operand, &self.axes)?;
        let dtype = reduced(self.dtype, operand);
        if dtype == DType::Bool {
            let expected =
                "numbers; count true elements with `count_nonzero` or `count_nonzero_axes`";
            return Err(TensorError::dtype("sum", &[operand], expected));
        }
        Ok(AbstractArray {
            dtype,
            shape: without_axes(&operand.shape, &self.axes),
        })
    }

    fn evaluate(&self, operand: Arc<Array>) -> Array {
        reduction::sum(&operand, reduced(self.dtype, &operand.info), &self.axes)
    }

    fn transpose(&self, cotangent: &Tensor, operand: &AbstractArray) -> Tensor {
        or_panic(broadcast_back(cotangent, &operand.shape, &self.axes))
    }

    fn batch(&self, operand: &Tensor, axis: usize) -> (Tensor, usize) {
        let (axes, axis) = batched_axes(&self.axes, axis);
        let dtype = reduced(self.dtype, operand.info());
        (or_panic(sum_as(dtype, operand, &axes)), axis)
    }

    fn lower(&self, block: &mut Block<'_>, operand: &Value, _: &AbstractArray) -> LoweredOne {
        let operand = lower_operand(block, operand, self.dtype)?;
        let start = number(operand.dtype(), 0.0);
        block.reduced("stablehlo.add", &operand, &start, &self.axes)
    }

    fn write_parameters(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write(&self.axes, self.dtype, f)
    }

    fn widens_parts(&self) -> bool {
        true
    }

    fn reduction(&self) -> Option<(Fold, &[usize])> {
        self.dtype.is_none().then_some((Fold::Sum, &self.axes))
    }
}

/// Returns the words that describe the reduction in messages, for instance `take the maximum of`.
fn operation(reduction: Reduction) -> &'static str {
    match reduction {
        Reduction::Max => "take the maximum of",
        Reduction::Min => "take the minimum of",
        Reduction::Prod => "multiply the elements of",
        Reduction::And => "take `and` of the elements of",
        Reduction::Or => "take `or` of the elements of",
    }
}

/// Returns whether the reduction supports a dtype.
fn accepts(reduction: Reduction, dtype: DType) -> bool {
    match reduction {
        Reduction::Max | Reduction::Min => true,
        Reduction::Prod => dtype != DType::Bool,
        Reduction::And | Reduction::Or => !dtype.is_float(),
    }
}

impl Reduce {
    fn of(&self, operand: &Tensor, axes: &[usize]) -> Tensor {
        let dtype = reduced(self.dtype, operand.info());
        or_panic(reduce_as(self.reduction, dtype, operand, axes))
    }

    /// Divides the tangent of the extremum equally among all elements that equal the extremum, as JAX does.
    fn tangent_of_extremum(&self, x: &Tensor, extremum: &Tensor, tangent: &Tensor) -> Tensor {
        let beside = or_panic(broadcast_back(extremum, x.shape(), &self.axes));
        let chosen = or_panic(convert(
            &or_panic(compare(Comparison::Eq, x, &beside)),
            x.dtype(),
        ));
        let count = or_panic(sum(&chosen, &self.axes));
        or_panic(sum(&(tangent * chosen), &self.axes)) / count
    }
}

impl Primitive for Reduce {
    fn name(&self) -> &'static str {
        match self.reduction {
            Reduction::Max => "reduce_max",
            Reduction::Min => "reduce_min",
            Reduction::Prod => "reduce_prod",
            Reduction::And => "reduce_and",
            Reduction::Or => "reduce_or",
        }
    }

    fn abstract_evaluation(&self, operands: &[&AbstractArray]) -> AbstractResults {
        let (operand, operation) = (operands[0], operation(self.reduction));
        axes_exist(operation, operand, &self.axes)?;
        let dtype = reduced(self.dtype, operand);
        if !accepts(self.reduction, dtype) {
            let expected = match self.reduction {
                Reduction::Prod => "numbers",
                _ => "bool or integers; compare the tensor with a number first",
            };
            return Err(TensorError::dtype(operation, &[operand], expected));
        }
        if matches!(self.reduction, Reduction::Max | Reduction::Min) {
            not_empty(operation, operand, &self.axes)?;
        }
        Ok(one(AbstractArray {
            dtype,
            shape: without_axes(&operand.shape, &self.axes),
        }))
    }

    fn evaluate(&self, operands: Operands) -> Outputs<Array> {
        let [operand] = take(operands);
        let dtype = reduced(self.dtype, &operand.info);
        let Self {
            reduction, axes, ..
        } = self;
        one(reduction::reduce(*reduction, &operand, dtype, axes))
    }

    fn jvp(&self, primals: &[Tensor], tangents: &[Option<Tensor>]) -> WithTangents {
        let x = &primals[0];
        let result = self.of(x, &self.axes);
        // No float is converted to a float.
        let tangent = tangents[0].as_ref().filter(|_| self.dtype.is_none());
        let tangent = tangent.map(|tangent| match self.reduction {
            Reduction::Prod => tangent_of(|x| product_in_halves(x, &self.axes), x, tangent),
            _ => self.tangent_of_extremum(x, &result, tangent),
        });
        (one(result), one(tangent))
    }

    fn transpose(&self, _: &[Option<Tensor>], _: &[Linear]) -> Cotangents {
        not_linear(self)
    }

    fn batch(&self, operands: &[Tensor], axes: &[Option<usize>], _: &BatchAxis) -> Batched {
        let Some(batch) = axes[0] else {
            return alone(self, operands);
        };
        let (axes, batch) = batched_axes(&self.axes, batch);
        (one(self.of(&operands[0], &axes)), one(Some(batch)))
    }

    fn lower(&self, block: &mut Block<'_>, operands: &[Value], _: &Infos<'_>) -> Lowered {
        let operand = &lower_operand(block, &operands[0], self.dtype)?;
        let dtype = operand.dtype();
        let (name, start) = match self.reduction {
            Reduction::Max => ("stablehlo.maximum", bound(dtype, Bound::Least)),
            Reduction::Min => ("stablehlo.minimum", bound(dtype, Bound::Greatest)),
            Reduction::Prod => ("stablehlo.multiply", number(dtype, 1.0)),
            Reduction::And => ("stablehlo.and", all_bits(dtype)),
            Reduction::Or => ("stablehlo.or", number(dtype, 0.0)),
        };
        let reaches = match self.reduction {
            Reduction::Max => Some(Bound::Greatest),
            Reduction::Min => Some(Bound::Least),
            Reduction::Prod | Reduction::And | Reduction::Or => None,
        };
        // XLA may reduce between devices.
        if let (Some(reaches), Some(_)) = (reaches, block.partition_mesh()) {
            let element = AbstractArray::new(dtype, []);
            let start = block.splat(&element, &start);
            let reduce = |block: &mut Block<'_>, keys: &[Value]| {
                let combine = |block: &mut Block<'_>, pair: &[Value]| {
                    Ok(vec![block.binary(name, &pair[0], &pair[1])])
                };
                let results = block.reduced_by(&[&keys[0]], &keys[1..], &self.axes, combine)?;
                Ok(expect_next(
                    &mut results.into_iter(),
                    "the result of a reduction",
                ))
            };
            return block
                .extremum_with_nan(reaches, &[operand, &start], reduce)
                .map(one);
        }
        block.reduced(name, operand, &start, &self.axes).map(one)
    }

    fn write_parameters(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write(&self.axes, self.dtype, f)
    }

    fn widens_parts(&self) -> bool {
        true
    }

    fn reduction(&self) -> Option<(Fold, &[usize])> {
        let fold = match self.reduction {
            Reduction::Max => Fold::Max,
            Reduction::Min => Fold::Min,
            Reduction::Prod | Reduction::And | Reduction::Or => return None,
        };
        self.dtype.is_none().then_some((fold, &self.axes))
    }
}

/// Computes the product over some axes. Repeatedly multiplies one half of the tensor by the other half. The derivative
/// of these products contains no quotient, so it is correct where elements are zero.
fn product_in_halves(x: &Tensor, axes: &[usize]) -> Tensor {
    let kept: AxisList = (0..x.rank()).filter(|axis| !axes.contains(axis)).collect();
    let permutation: AxisList = axes.iter().chain(&kept).copied().collect();
    let result = without_axes(x.shape(), axes);
    let count = axes.iter().map(|&axis| x.shape()[axis]).product();
    let shape = [count, result.iter().product()];
    let mut rows = or_panic(reshape(&or_panic(transpose(x, &permutation)), &shape));
    while rows.shape()[0] > 1 {
        let (count, width) = (rows.shape()[0], rows.shape()[1]);
        let half = count / 2;
        let part = |start, limit| or_panic(slice(&rows, &[start, 0], &[limit, width], &[1, 1]));
        let product = part(0, half) * part(half, 2 * half);
        rows = if count % 2 == 1 {
            or_panic(concatenate(&[&product, &part(count - 1, count)], 0))
        } else {
            product
        };
    }
    if rows.shape()[0] == 0 {
        return or_panic(create::full(x.dtype(), &result, 1.0));
    }
    or_panic(reshape(&rows, &result))
}

#[cfg(test)]
mod tests {
    use pytree_kernels::loops::reduction::Extremum;

    use super::arg_extremum::ArgExtremum;
    use super::*;
    use crate::primitives::shape::tests::rule_checks::{
        all_indices, assert_close, check_batching, check_tangent, check_transpose, noise,
    };

    fn max(operand: &Tensor, axes: &[usize]) -> Result<Tensor, TensorError> {
        reduce_by(Reduction::Max, operand, axes)
    }

    fn argmax(operand: &Tensor, axis: usize) -> Result<Tensor, TensorError> {
        argument_of(Extremum::Max, operand, axis)
    }

    fn argmin(operand: &Tensor, axis: usize) -> Result<Tensor, TensorError> {
        argument_of(Extremum::Min, operand, axis)
    }

    fn subsets(rank: usize) -> impl Iterator<Item = Vec<usize>> {
        (0..1 << rank)
            .map(move |bits: usize| (0..rank).filter(|axis| bits >> axis & 1 == 1).collect())
    }

    #[test]
    fn sums_and_maxima_match_definition() {
        for shape in [&[2, 3, 4, 5][..], &[3, 1, 40], &[70, 3], &[2, 3, 2, 3, 2]] {
            let x = noise(shape, 1);
            let view = x.view::<f64>().unwrap();
            for axes in subsets(shape.len()) {
                let kept = without_axes(shape, &axes);
                let mut sums = vec![0.0; kept.iter().product()];
                let mut maxima = vec![f64::NEG_INFINITY; sums.len()];
                for index in all_indices(shape) {
                    let at = (0..shape.len())
                        .filter(|axis| !axes.contains(axis))
                        .fold(0, |at, axis| at * shape[axis] + index[axis]);
                    sums[at] += view[&index[..]];
                    maxima[at] = view[&index[..]].max(maxima[at]);
                }
                assert_close(&sum(&x, &axes).unwrap(), &Tensor::new(&kept, sums), 1e-14);
                assert_eq!(max(&x, &axes).unwrap(), Tensor::new(&kept, maxima));
                let negated = reduce_by(Reduction::Min, &-&x, &axes).unwrap();
                assert_eq!(-negated, max(&x, &axes).unwrap());
            }
        }
    }

    #[test]
    fn long_f32_sums_are_accurate() {
        // 0.1 in f32 is 0.100000001490116. A single accumulator would have an error of 958 after a million additions.
        // Blocks of 32 elements, added pairwise, have at most the error of 50 roundings.
        let x = Tensor::full(DType::F32, [1_000_000, 2], 0.1);
        let expected = 100_000.001_490_116;
        for total in sum(&x, &[0]).unwrap().to_vec::<f32>() {
            assert!((f64::from(total) - expected).abs() < 0.1, "{total}");
        }
        let total: f32 = sum(&x, &[0, 1]).unwrap().item();
        assert!((f64::from(total) - 2.0 * expected).abs() < 0.2, "{total}");
    }

    #[test]
    fn empty_sum_is_zero_without_maximum() {
        let x = Tensor::zeros(DType::F32, [0, 3]);
        assert_eq!(sum(&x, &[0]).unwrap(), Tensor::zeros(DType::F32, [3]));
        assert_eq!(sum(&x, &[1]).unwrap(), Tensor::zeros(DType::F32, [0]));
        assert_eq!(max(&x, &[1]).unwrap().shape(), [0]);
        let error = max(&x, &[0]).unwrap_err().to_string();
        assert!(error.contains("axis 0 has length 0"), "{error}");
        assert!(argmax(&x, 0).is_err());
    }

    #[test]
    fn argmax_finds_first_maximum_or_nan() {
        let x = Tensor::from([[1.0, 3.0, 3.0], [f64::NAN, 2.0, f64::NAN]]);
        assert_eq!(argmax(&x, 1).unwrap(), Tensor::from([1, 0]));
        assert_eq!(argmax(&x, 0).unwrap(), Tensor::from([1, 0, 1]));
        assert!(max(&x, &[1]).unwrap().to_vec::<f64>()[1].is_nan());
        assert_eq!(
            argmax(&Tensor::from([f64::NEG_INFINITY; 2]), 0).unwrap(),
            Tensor::from(0)
        );
        assert_eq!(
            argmax(&Tensor::from([false, true]), 0).unwrap(),
            Tensor::from(1)
        );
    }

    #[test]
    fn rules_agree_with_evaluation() {
        for axes in [&[0][..], &[1, 2], &[0, 2]] {
            let (sum, max) = (
                Sum {
                    axes: AxisList::from_slice(axes),
                    dtype: None,
                },
                Reduce {
                    reduction: Reduction::Max,
                    axes: AxisList::from_slice(axes),
                    dtype: None,
                },
            );
            let converted = Sum {
                dtype: Some(DType::I32),
                ..sum.clone()
            };
            let truth = Reduce {
                reduction: Reduction::And,
                dtype: Some(DType::Bool),
                ..max.clone()
            };
            let x = [noise(&[2, 3, 4], 1)];
            check_transpose(&sum, &x, 0);
            check_tangent(&sum, &x);
            check_tangent(&max, &x);
            let others = [Reduction::Min, Reduction::Prod].map(|reduction| Reduce {
                reduction,
                ..max.clone()
            });
            others.iter().for_each(|other| check_tangent(other, &x));
            for axis in 0..4 {
                let mut shape = vec![2, 3, 4];
                shape.insert(axis, 5);
                let x = [noise(&shape, 1)];
                check_batching(&sum, &x, &[Some(axis)]);
                check_batching(&max, &x, &[Some(axis)]);
                let integers = [or_panic(convert(&(&x[0] * 2.0), DType::I8))];
                check_batching(&converted, &integers, &[Some(axis)]);
                check_batching(&truth, &integers, &[Some(axis)]);
                others
                    .iter()
                    .for_each(|other| check_batching(other, &x, &[Some(axis)]));
                for extremum in [Extremum::Max, Extremum::Min] {
                    let argument = ArgExtremum {
                        extremum,
                        axis: axes[0],
                    };
                    check_batching(&argument, &x, &[Some(axis)]);
                }
            }
        }
    }

    #[test]
    fn argmin_finds_first_minimum_or_nan() {
        let x = Tensor::from([[3.0, 1.0, 1.0], [f64::NAN, 2.0, f64::NAN]]);
        assert_eq!(argmin(&x, 1).unwrap(), Tensor::from([1, 0]));
        assert_eq!(argmin(&x, 0).unwrap(), Tensor::from([1, 0, 1]));
        let unsigned = Tensor::from([u32::MAX, 0, 5]);
        assert_eq!(argmin(&unsigned, 0).unwrap(), Tensor::from(1));
        assert_eq!(argmax(&unsigned, 0).unwrap(), Tensor::from(0));
    }

    #[test]
    fn empty_reductions_have_neutral_values() {
        let x = Tensor::zeros(DType::I32, [0, 2]);
        let of = |reduction, x: &Tensor| reduce_by(reduction, x, &[0]);
        assert_eq!(of(Reduction::Prod, &x).unwrap(), Tensor::from([1, 1]));
        assert_eq!(of(Reduction::And, &x).unwrap(), Tensor::from([-1, -1]));
        assert_eq!(of(Reduction::Or, &x).unwrap(), Tensor::from([0, 0]));
        assert!(of(Reduction::Min, &x).is_err());
        let bits = Tensor::from([0b110, 0b011]);
        assert_eq!(of(Reduction::And, &bits).unwrap(), Tensor::from(0b010));
        assert_eq!(of(Reduction::Or, &bits).unwrap(), Tensor::from(0b111));
        let error = of(Reduction::And, &Tensor::from([1.0])).unwrap_err();
        assert!(
            error
                .to_string()
                .contains("compare the tensor with a number first")
        );
        assert!(of(Reduction::Prod, &Tensor::from([true])).is_err());
    }

    #[test]
    fn sum_of_bools_is_an_error() {
        let error = sum(&Tensor::from([true]), &[0]).unwrap_err().to_string();
        assert!(
            error.contains("count true elements with `count_nonzero`"),
            "{error}"
        );
    }
}
