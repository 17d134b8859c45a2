//! Elementwise operations on one tensor.

use std::f64::consts::{FRAC_2_SQRT_PI, LN_2, PI};

use pytree_kernels::loops::elementwise;
use pytree_kernels::loops::elementwise::{Comparison, Elementwise, Rounding, Unary};

use crate::primitives::elementwise::comparison::compare_with;
use crate::primitives::elementwise::lowering::lower_unary;
use crate::primitives::prelude::*;
use crate::primitives::select::select;
use crate::primitives::tangent::with_tangent_of;

#[track_caller]
pub(crate) fn unary(operation: Unary, operand: &Tensor) -> Result<Tensor, TensorError> {
    bind_one(&operation, &[operand])
}

/// Returns the square of each element, for use in rules.
#[track_caller]
pub(super) fn square(operand: &Tensor) -> Tensor {
    or_panic(unary(Unary::IntegerPower(2), operand))
}

/// Returns 1 - x² for use in rules, with the derivative -2x.
///
/// The product (1 - x)·(1 + x) is accurate near ±1, but a zero factor times an infinite cotangent is NaN. So only its
/// value is used.
#[track_caller]
fn one_minus_square(x: &Tensor) -> Tensor {
    or_panic(with_tangent_of(
        &((1.0 - x) * (x + 1.0)),
        &(1.0 - square(x)),
    ))
}

impl Primitive for Unary {
    fn name(&self) -> &'static str {
        Elementwise::Unary(*self).name()
    }

    fn abstract_evaluation(&self, operands: &[&AbstractArray]) -> AbstractResults {
        let dtype = operands[0].dtype;
        let (accepted, expected) = match self {
            Self::Neg | Self::Abs | Self::Sign => (dtype != DType::Bool, "a number"),
            Self::IntegerPower(exponent) if *exponent >= 0 => (dtype != DType::Bool, "a number"),
            Self::Not => (!dtype.is_float(), "bool or integers"),
            Self::PopulationCount => (!dtype.is_float() && dtype != DType::Bool, "integers"),
            Self::StopGradient => (true, "any"),
            _ => (dtype.is_float(), "a float dtype"),
        };
        if !accepted {
            let operation = match self {
                Self::IntegerPower(..=-1) => "take a power below 0 of",
                _ => self.name(),
            };
            return Err(TensorError::dtype(operation, operands, expected));
        }
        Ok(one(operands[0].clone()))
    }

    fn evaluate(&self, operands: Operands) -> Outputs<Array> {
        let [operand] = take(operands);
        one(elementwise::unary(*self, operand))
    }

    fn jvp(&self, primals: &[Tensor], tangents: &[Option<Tensor>]) -> WithTangents {
        let x = &primals[0];
        let y = or_panic(unary(*self, x));
        let of = |operation, operand: &Tensor| or_panic(unary(operation, operand));
        let tangent = tangents[0].as_ref().and_then(|t| match self {
            Self::Neg => Some(-t),
            // The derivative at 0 is 1, as in JAX.
            Self::Abs => {
                let [one, minus_one] =
                    [1.0, -1.0].map(|number| Tensor::constant(x.dtype(), number));
                let is_positive = compare_with(Comparison::Ge, x, 0.0);
                Some(t * or_panic(select(&is_positive, &one, &minus_one)))
            }
            Self::Sign
            | Self::Floor
            | Self::Ceil
            | Self::Round(_)
            | Self::Not
            | Self::PopulationCount
            | Self::StopGradient
            | Self::IntegerPower(0) => None,
            Self::Exp => Some(t * &y),
            Self::Exp2 => Some(t * &y * LN_2),
            Self::Expm1 => Some(t * (&y + 1.0)),
            Self::Log => Some(t / x),
            Self::Log1p => Some(t / (x + 1.0)),
            Self::Sqrt => Some(t / (&y * 2.0)),
            Self::Rsqrt => Some(t * ((&y / x) * -0.5)),
            Self::Cbrt => Some(t * (of(Self::IntegerPower(-2), &y) * (1.0 / 3.0))),
            Self::Sin => Some(t * of(Self::Cos, x)),
            Self::Cos => Some(t * -of(Self::Sin, x)),
            Self::Tan => Some(t * (square(&y) + 1.0)),
            Self::Asin => Some(t * of(Self::Rsqrt, &one_minus_square(x))),
            Self::Acos => Some(t * -of(Self::Rsqrt, &one_minus_square(x))),
            Self::Atan => Some(t / (square(x) + 1.0)),
            Self::Sinh => Some(t * of(Self::Cosh, x)),
            Self::Cosh => Some(t * of(Self::Sinh, x)),
            Self::Tanh => Some(t * (1.0 - &y * &y)),
            Self::Asinh => Some(t * of(Self::Rsqrt, &(square(x) + 1.0))),
            // Both factors are NaN below -1, where the root of x² - 1 is a number. Both terms of the derivative of the
            // product have the same sign, so their sum is infinite at 1.
            Self::Acosh => Some(t * (of(Self::Rsqrt, &(x - 1.0)) * of(Self::Rsqrt, &(x + 1.0)))),
            Self::Atanh => Some(of(Self::IntegerPower(-1), &(x + 1.0)) * (t / (1.0 - x))),
            Self::Logistic => Some(t * (&y * (1.0 - &y))),
            // d/dx erf(x) = 2/√π · exp(-x²).
            Self::Erf => Some(t * of(Self::Exp, &-square(x)) * FRAC_2_SQRT_PI),
            Self::Erfc => Some(t * of(Self::Exp, &-square(x)) * -FRAC_2_SQRT_PI),
            // d/dx erf⁻¹(x) = √π/2 · exp(erf⁻¹(x)²).
            Self::ErfInv => Some(t * (of(Self::Exp, &(&y * &y)) * (PI.sqrt() / 2.0))),
            Self::IntegerPower(1) => Some(t.clone()),
            Self::IntegerPower(n) => {
                // For the least i32, `n - 1` overflows. So compute xⁿ⁻¹ as xⁿ / x.
                let lower = n
                    .checked_sub(1)
                    .map_or_else(|| &y / x, |lower| of(Self::IntegerPower(lower), x));
                Some(t * (lower * f64::from(*n)))
            }
        });
        (one(y), one(tangent))
    }

    fn transpose(&self, cotangents: &[Option<Tensor>], _: &[Linear]) -> Cotangents {
        match self {
            Self::Neg => smallvec![cotangents[0].as_ref().map(|cotangent| -cotangent)],
            _ => not_linear(self.name()),
        }
    }

    fn batch(&self, operands: &[Tensor], axes: &[Option<usize>], _: &BatchAxis) -> Batched {
        (one(or_panic(unary(*self, &operands[0]))), one(axes[0]))
    }

    fn lower(&self, block: &mut Block<'_>, operands: &[Value], _: &Infos<'_>) -> Lowered {
        Ok(one(lower_unary(*self, block, &operands[0])))
    }

    fn accepts_narrow(&self) -> bool {
        *self == Self::StopGradient
    }

    fn write_parameters(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::IntegerPower(exponent) => write!(f, "y={exponent}"),
            // These numbers are the values of JAX's enumeration `RoundingMethod`.
            Self::Round(Rounding::AwayFromZero) => f.write_str("rounding_method=0"),
            Self::Round(Rounding::ToEven) => f.write_str("rounding_method=1"),
            _ => Ok(()),
        }
    }

    fn elementwise(&self) -> Option<Elementwise> {
        Some(Elementwise::Unary(*self))
    }
}
