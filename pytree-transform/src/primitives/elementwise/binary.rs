//! Elementwise operations on two tensors.

use pytree_kernels::loops::elementwise;
use pytree_kernels::loops::elementwise::{Binary, Comparison, Elementwise, Unary};

use crate::primitives::create;
use crate::primitives::elementwise::broadcasting::{
    align_batch, aligned_axis, bind_broadcast, same_info,
};
use crate::primitives::elementwise::comparison::{compare, compare_with};
use crate::primitives::elementwise::lowering::lower_binary;
use crate::primitives::elementwise::unary::{square, unary};
use crate::primitives::prelude::*;
use crate::primitives::select::select;

/// Applies a binary operation to two tensors, which are broadcast to their common shape.
#[track_caller]
pub(crate) fn binary(
    operation: Binary,
    left: &Tensor,
    right: &Tensor,
) -> Result<Tensor, TensorError> {
    bind_broadcast(&operation, left, right)
}

impl Primitive for Binary {
    fn name(&self) -> &'static str {
        Elementwise::Binary(*self).name()
    }

    fn abstract_evaluation(&self, operands: &[&AbstractArray]) -> AbstractResults {
        same_info(self.name(), operands)?;
        let dtype = operands[0].dtype;
        let (accepted, expected) = match self {
            Self::And | Self::Or | Self::Xor => (
                !dtype.is_float(),
                "bool or integers; compare with a number first, which returns bools",
            ),
            Self::ShiftLeft | Self::ShiftRight | Self::ShiftRightArithmetic => {
                (!dtype.is_float() && dtype != DType::Bool, "integers")
            }
            Self::Atan2 | Self::LogAddExp => (dtype.is_float(), "a float dtype"),
            _ => (dtype != DType::Bool, "numbers"),
        };
        if !accepted {
            return Err(TensorError::dtype(self.name(), operands, expected));
        }
        Ok(one(operands[0].clone()))
    }

    fn evaluate(&self, operands: Operands) -> Outputs<Array> {
        let [left, right] = take(operands);
        one(elementwise::binary(*self, left, right))
    }

    fn jvp(&self, primals: &[Tensor], tangents: &[Option<Tensor>]) -> WithTangents {
        let (x, y) = (&primals[0], &primals[1]);
        let z = or_panic(binary(*self, x, y));
        let (dx, dy) = (tangents[0].as_ref(), tangents[1].as_ref());
        let tangent = match self {
            Self::Add => sum_of(dx.cloned(), dy.cloned()),
            Self::Sub => match (dx, dy) {
                (Some(dx), Some(dy)) => Some(dx - dy),
                (Some(dx), None) => Some(dx.clone()),
                (None, Some(dy)) => Some(-dy),
                (None, None) => None,
            },
            Self::Mul => sum_of(dx.map(|dx| dx * y), dy.map(|dy| x * dy)),
            // d(x/y) = (dx - z · dy)/y. Both operands share the division.
            Self::Div => match (dx, dy) {
                (Some(dx), Some(dy)) => Some((dx - dy * &z) / y),
                _ => dx.map(|dx| dx / y).or(dy.map(|dy| dy * -(&z / y))),
            },
            Self::Max | Self::Min => {
                let [of_x, of_y] = match self {
                    Self::Max => [Comparison::Gt, Comparison::Lt],
                    _ => [Comparison::Lt, Comparison::Gt],
                };
                sum_of(
                    dx.map(|dx| dx * share_of(of_x, x, y)),
                    dy.map(|dy| dy * share_of(of_y, x, y)),
                )
            }
            // x rem y = x - y · trunc(x/y), and the derivative of trunc(x/y) is 0 nearly everywhere.
            Self::Rem => sum_of(
                dx.cloned(),
                dy.map(|dy| {
                    let quotient = x / y;
                    let of = |operation, operand: &Tensor| or_panic(unary(operation, operand));
                    let whole = of(Unary::Floor, &of(Unary::Abs, &quotient));
                    -dy * (of(Unary::Sign, &quotient) * whole)
                }),
            ),
            Self::Pow => sum_of(
                dx.map(|dx| dx * (y * or_panic(binary(Self::Pow, x, &(y - 1.0))))),
                // Where x is 0, the power does not depend on y, but log x is infinite. So replace an x of 0 by 1.
                dy.map(|dy| {
                    let is_zero = compare_with(Comparison::Eq, x, 0.0);
                    let base = or_panic(select(&is_zero, &create::ones_like(x), x));
                    dy * (or_panic(unary(Unary::Log, &base)) * &z)
                }),
            ),
            Self::Atan2 => {
                let square = || square(x) + square(y);
                sum_of(
                    dx.map(|dx| dx * (y / square())),
                    dy.map(|dy| dy * (-x / square())),
                )
            }
            Self::LogAddExp => {
                let share = |of: &Tensor| {
                    let difference = finite_or_zero(of) - finite_or_zero(&z);
                    or_panic(unary(Unary::Exp, &difference))
                };
                sum_of(dx.map(|dx| dx * share(x)), dy.map(|dy| dy * share(y)))
            }
            Self::And
            | Self::Or
            | Self::Xor
            | Self::ShiftLeft
            | Self::ShiftRight
            | Self::ShiftRightArithmetic => None,
        };
        (one(z), one(tangent))
    }

    fn transpose(&self, cotangents: &[Option<Tensor>], operands: &[Linear]) -> Cotangents {
        let Some(cotangent) = &cotangents[0] else {
            return smallvec![None, None];
        };
        let (left, right) = (operands[0].is_unknown(), operands[1].is_unknown());
        match self {
            Self::Add => smallvec![
                left.then(|| cotangent.clone()),
                right.then(|| cotangent.clone())
            ],
            Self::Sub => smallvec![left.then(|| cotangent.clone()), right.then(|| -cotangent)],
            Self::Mul => smallvec![
                left.then(|| cotangent * operands[1].known()),
                right.then(|| operands[0].known() * cotangent)
            ],
            Self::Div => smallvec![left.then(|| cotangent / operands[1].known()), None],
            _ => not_linear(self.name()),
        }
    }

    fn batch(&self, operands: &[Tensor], axes: &[Option<usize>], batch: &BatchAxis) -> Batched {
        let size = batch.size;
        let aligned = align_batch(operands, axes, size);
        (
            one(or_panic(binary(*self, &aligned[0], &aligned[1]))),
            one(Some(aligned_axis(axes))),
        )
    }

    fn lower(&self, block: &mut Block<'_>, operands: &[Value], _: &Infos<'_>) -> Lowered {
        Ok(one(lower_binary(*self, block, &operands[0], &operands[1])))
    }

    fn elementwise(&self) -> Option<Elementwise> {
        Some(Elementwise::Binary(*self))
    }
}

/// Returns the sum of two tangents. `None` means zeros.
pub(crate) fn sum_of(left: Option<Tensor>, right: Option<Tensor>) -> Option<Tensor> {
    match (left, right) {
        (Some(left), Some(right)) => Some(left + right),
        (left, right) => left.or(right),
    }
}

/// Replaces +∞ by 0. Otherwise, a later difference of two infinities would be NaN.
fn finite_or_zero(x: &Tensor) -> Tensor {
    let is_infinite = compare_with(Comparison::Eq, x, f64::INFINITY);
    or_panic(select(&is_infinite, &create::zeros_like(x), x))
}

/// Returns the derivative of a maximum or minimum of `x` and `y` with respect to one of them: 1 where `comparison` holds, so that it is
/// the result, 1/2 where `x` equals `y`, otherwise 0.
fn share_of(comparison: Comparison, x: &Tensor, y: &Tensor) -> Tensor {
    let [one, half, zero] = [1.0, 0.5, 0.0].map(|number| Tensor::constant(x.dtype(), number));
    let is_tie = or_panic(compare(Comparison::Eq, x, y));
    let of_tie = or_panic(select(&is_tie, &half, &zero));
    let is_result = or_panic(compare(comparison, x, y));
    or_panic(select(&is_result, &one, &of_tie))
}
