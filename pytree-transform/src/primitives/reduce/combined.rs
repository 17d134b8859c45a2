//! Reductions that are not linear: extrema, products and logic.

use pytree_base::bug::expect_next;
use pytree_kernels::base::fold::Fold;
use pytree_kernels::base::shape::{AxisList, without_axes};
use pytree_kernels::loops::elementwise::Comparison;
use pytree_kernels::loops::reduction::{self, Reduction};

use crate::primitives::convert::convert;
use crate::primitives::create;
use crate::primitives::elementwise::compare;
use crate::primitives::prelude::*;
use crate::primitives::reduce::axes::{
    axes_exist, batched_axes, broadcast_back, lower_operand, not_empty, reduced, write,
};
use crate::primitives::reduce::sum::{sorted, sum};
use crate::primitives::shape::{reshape, transpose};
use crate::primitives::slice::{concatenate, slice};
use crate::primitives::tangent::tangent_of;
use crate::tensor::stablehlo::{Bound, all_bits, bound, number};

/// A reduction over some axes that is not a sum. Such a reduction is not linear.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Reduce {
    pub(crate) reduction: Reduction,
    pub(crate) axes: AxisList,
    /// The dtype to which the operand is converted part by part, if it is not its own.
    pub(crate) dtype: Option<DType>,
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
