//! The lowering of elementwise operations: formulas in operations of StableHLO.
//!
//! StableHLO lacks some functions, such as the inverse sine. The dialect `chlo` has operations for these functions, but
//! `chlo` has no portable serialised form. So this file computes these functions by formulas. A long formula is written
//! as a separate function in the StableHLO module, once for each operand shape and dtype, and is called from there.

use std::f64::consts::{FRAC_2_SQRT_PI, LN_2, PI};

use pytree_base::bug::expect_next;
use pytree_core::leaf::NumberKind;
use pytree_kernels::base::dtype::DType;
use pytree_kernels::base::special::erf_inv;
use pytree_kernels::loops::elementwise::{Binary, Rounding, Unary};

use crate::base::error::or_panic;
use crate::primitives::elementwise::cody;
use crate::tensor::stablehlo::{Block, Value, all_bits};

const ADD: &str = "stablehlo.add";
const SUBTRACT: &str = "stablehlo.subtract";
const MULTIPLY: &str = "stablehlo.multiply";
const DIVIDE: &str = "stablehlo.divide";
const EXPONENTIAL: &str = "stablehlo.exponential";
const LOG_PLUS_ONE: &str = "stablehlo.log_plus_one";

/// Writes a unary operation.
pub(super) fn lower_unary(operation: Unary, block: &mut Block<'_>, x: &Value) -> Value {
    let is_unsigned = x.dtype().kind() == NumberKind::Unsigned;
    let name = match operation {
        Unary::Neg => "negate",
        Unary::Abs if is_unsigned => return x.clone(),
        Unary::Abs => "abs",
        Unary::Sign if is_unsigned => {
            let is_positive = block.comparison_with("NE", x, 0.0);
            return block.converted(&is_positive, x.dtype());
        }
        Unary::Sign => "sign",
        Unary::Floor => "floor",
        Unary::Ceil => "ceil",
        Unary::Round(Rounding::AwayFromZero) => "round_nearest_afz",
        Unary::Round(Rounding::ToEven) => "round_nearest_even",
        Unary::Exp => "exponential",
        Unary::Expm1 => "exponential_minus_one",
        Unary::Log => "log",
        Unary::Log1p => "log_plus_one",
        Unary::Sqrt => "sqrt",
        Unary::Rsqrt => "rsqrt",
        Unary::Cbrt => "cbrt",
        Unary::Sin => "sine",
        Unary::Cos => "cosine",
        Unary::Tan => "tan",
        Unary::Tanh => "tanh",
        Unary::Logistic => "logistic",
        Unary::Not => "not",
        Unary::PopulationCount => "popcnt",
        Unary::StopGradient => return x.clone(),
        Unary::IntegerPower(exponent) => return integer_power(block, x, exponent),
        Unary::Exp2 => {
            let two = block.number_like(x, 2.0);
            return block.binary("stablehlo.power", &two, x);
        }
        Unary::Atan => {
            let one = block.number_like(x, 1.0);
            return block.binary("stablehlo.atan2", x, &one);
        }
        Unary::Asin => return shared(block, "asin", x, asin),
        Unary::Acos => return shared(block, "acos", x, acos),
        Unary::Sinh => return shared(block, "sinh", x, sinh),
        Unary::Cosh => return shared(block, "cosh", x, cosh),
        Unary::Asinh => return shared(block, "asinh", x, asinh),
        Unary::Acosh => return shared(block, "acosh", x, acosh),
        Unary::Atanh => return shared(block, "atanh", x, atanh),
        Unary::Erf => return shared(block, "erf", x, erf_of),
        Unary::Erfc => return shared(block, "erfc", x, erfc_of),
        Unary::ErfInv => return shared(block, "erf_inv", x, erf_inv_of),
    };
    block.unary(&format!("stablehlo.{name}"), x)
}

/// Writes a binary operation.
pub(super) fn lower_binary(
    operation: Binary,
    block: &mut Block<'_>,
    l: &Value,
    r: &Value,
) -> Value {
    let is_float = l.dtype().kind() == NumberKind::Float;
    let name = match operation {
        Binary::Add => ADD,
        Binary::Sub => SUBTRACT,
        Binary::Mul => MULTIPLY,
        Binary::Div if is_float => DIVIDE,
        Binary::Rem if is_float => "stablehlo.remainder",
        Binary::Div => return integer_quotient(block, l, r),
        Binary::Rem => return integer_remainder(block, l, r),
        Binary::Pow if is_float => "stablehlo.power",
        Binary::Pow => return power_of_integers(block, l, r),
        Binary::Atan2 => "stablehlo.atan2",
        Binary::Max => "stablehlo.maximum",
        Binary::Min => "stablehlo.minimum",
        Binary::LogAddExp => return log_add_exp(block, l, r),
        Binary::And => "stablehlo.and",
        Binary::Or => "stablehlo.or",
        Binary::Xor => "stablehlo.xor",
        Binary::ShiftLeft => "stablehlo.shift_left",
        Binary::ShiftRight => "stablehlo.shift_right_logical",
        Binary::ShiftRightArithmetic => "stablehlo.shift_right_arithmetic",
    };
    match operation {
        Binary::ShiftLeft | Binary::ShiftRight | Binary::ShiftRightArithmetic => {
            shifted(operation, name, block, l, r)
        }
        _ => block.binary(name, l, r),
    }
}

/// Computes log(eˣ + eʸ) without overflow.
pub(crate) fn log_add_exp(block: &mut Block<'_>, x: &Value, y: &Value) -> Value {
    let difference = block.binary(SUBTRACT, x, y);
    let distance = block.unary("stablehlo.abs", &difference);
    let negated = block.unary("stablehlo.negate", &distance);
    let exponential = block.unary(EXPONENTIAL, &negated);
    let rest = block.unary(LOG_PLUS_ONE, &exponential);
    let greater = block.binary("stablehlo.maximum", x, y);
    let result = block.binary(ADD, &greater, &rest);
    // Either both operands are infinities of the same sign, or one operand is NaN.
    let is_not_a_number = block.is_not_a_number(&difference);
    let sum = block.binary(ADD, x, y);
    block.selection(&is_not_a_number, &sum, &result)
}

/// Writes a formula of many operations as a function of the module.
fn shared(
    block: &mut Block<'_>,
    name: &'static str,
    x: &Value,
    formula: fn(&mut Block<'_>, &Value) -> Value,
) -> Value {
    let operands = std::slice::from_ref(x);
    let written = block.call_shared(name, operands, |block, x| Ok(vec![formula(block, &x[0])]));
    let mut results = or_panic(written).into_iter();
    expect_next(&mut results, "the result of a formula")
}

/// Computes xⁿ by repeated squaring.
fn integer_power(block: &mut Block<'_>, x: &Value, exponent: i32) -> Value {
    let mut rest = exponent.unsigned_abs();
    let mut square = x.clone();
    let mut product: Option<Value> = None;
    while rest > 0 {
        if rest % 2 == 1 {
            product = Some(match &product {
                Some(product) => block.binary(MULTIPLY, product, &square),
                None => square.clone(),
            });
        }
        rest /= 2;
        if rest > 0 {
            square = block.binary(MULTIPLY, &square, &square);
        }
    }
    let one = |block: &mut Block<'_>| block.number_like(x, 1.0);
    let power = product.unwrap_or_else(|| one(block));
    if exponent >= 0 {
        return power;
    }
    let one = one(block);
    block.binary(DIVIDE, &one, &power)
}

/// Divides integers. StableHLO does not define a division by zero or the division of the least number by -1. Here a
/// division by zero returns a number with all bits set. The least number divided by -1 is the least number.
fn integer_quotient(block: &mut Block<'_>, l: &Value, r: &Value) -> Value {
    let by_zero = block.comparison_with("EQ", r, 0.0);
    let one = block.number_like(r, 1.0);
    let all_bits = block.splat(&l.info, &all_bits(l.dtype()));
    if l.dtype().kind() == NumberKind::Unsigned {
        let divisor = block.selection(&by_zero, &one, r);
        let quotient = block.binary(DIVIDE, l, &divisor);
        return block.selection(&by_zero, &all_bits, &quotient);
    }
    let by_minus_one = block.comparison_with("EQ", r, -1.0);
    let is_special = block.binary("stablehlo.or", &by_zero, &by_minus_one);
    let divisor = block.selection(&is_special, &one, r);
    let quotient = block.binary(DIVIDE, l, &divisor);
    let negated = block.unary("stablehlo.negate", l);
    let quotient = block.selection(&by_minus_one, &negated, &quotient);
    block.selection(&by_zero, &all_bits, &quotient)
}

/// Returns powers of integers. StableHLO does not define negative powers. Here they are ±1 for a base of ±1, and 0 for
/// other bases.
fn power_of_integers(block: &mut Block<'_>, base: &Value, exponent: &Value) -> Value {
    if base.dtype().kind() == NumberKind::Unsigned {
        return natural_power(block, base, exponent);
    }
    let [zero, one] = [0.0, 1.0].map(|number| block.number_like(base, number));
    let is_negative = block.comparison("LT", exponent, &zero);
    // The powers of ±1 depend only on the lowest bit of the exponent.
    let lowest = block.binary("stablehlo.and", exponent, &one);
    let exponent = block.selection(&is_negative, &lowest, exponent);
    let power = natural_power(block, base, &exponent);
    let size = block.unary("stablehlo.abs", base);
    let is_other = block.comparison("NE", &size, &one);
    let is_fraction = block.binary("stablehlo.and", &is_negative, &is_other);
    block.selection(&is_fraction, &zero, &power)
}

/// Returns powers of integers with exponents of at least 0. The powers of some compilers of XLA read only the lowest six
/// bits of an exponent, so this function multiplies the powers for six bits each.
fn natural_power(block: &mut Block<'_>, base: &Value, exponent: &Value) -> Value {
    const BITS: usize = 6;
    let [shift, mask] = [6.0, 63.0].map(|number| block.number_like(exponent, number));
    let lowest = block.binary("stablehlo.and", exponent, &mask);
    let mut product = block.binary("stablehlo.power", base, &lowest);
    let [mut base, mut rest] = [base.clone(), exponent.clone()];
    for _ in 1..(8 * base.dtype().bytes()).div_ceil(BITS) {
        for _ in 0..BITS {
            base = block.binary(MULTIPLY, &base, &base);
        }
        rest = block.binary("stablehlo.shift_right_logical", &rest, &shift);
        let digit = block.binary("stablehlo.and", &rest, &mask);
        let power = block.binary("stablehlo.power", &base, &digit);
        product = block.binary(MULTIPLY, &product, &power);
    }
    product
}

/// Returns the remainder of a division of integers. The remainder of a division by zero is the dividend.
fn integer_remainder(block: &mut Block<'_>, l: &Value, r: &Value) -> Value {
    let by_zero = block.comparison_with("EQ", r, 0.0);
    let mut is_special = by_zero.clone();
    if l.dtype().kind() == NumberKind::Signed {
        let by_minus_one = block.comparison_with("EQ", r, -1.0);
        is_special = block.binary("stablehlo.or", &by_zero, &by_minus_one);
    }
    // A division by -1 has the remainder 0, as a division by 1 has. So replace the divisor -1 by 1.
    let one = block.number_like(r, 1.0);
    let divisor = block.selection(&is_special, &one, r);
    let remainder = block.binary("stablehlo.remainder", l, &divisor);
    block.selection(&by_zero, l, &remainder)
}

/// Shifts bits. StableHLO does not define shifts by the bit width or more. Here a shift by the bit width or more, or by
/// a negative number, moves all bits out: it returns 0, or copies of the sign bit if the shift copies the sign.
fn shifted(operation: Binary, name: &str, block: &mut Block<'_>, l: &Value, r: &Value) -> Value {
    let width = (8 * l.dtype().bytes()) as f64;
    let zero = block.number_like(r, 0.0);
    let is_negative = block.comparison("LT", r, &zero);
    let is_long = block.comparison_with("GE", r, width);
    let is_outside = block.binary("stablehlo.or", &is_negative, &is_long);
    if operation == Binary::ShiftRightArithmetic {
        let longest = block.number_like(r, width - 1.0);
        let distance = block.selection(&is_outside, &longest, r);
        return block.binary(name, l, &distance);
    }
    let distance = block.selection(&is_outside, &zero, r);
    let result = block.binary(name, l, &distance);
    block.selection(&is_outside, &zero, &result)
}

/// Computes (1 - x)(1 + x), which is accurate near ±1.
fn one_minus_square(block: &mut Block<'_>, x: &Value) -> Value {
    let one = block.number_like(x, 1.0);
    let below = block.binary(SUBTRACT, &one, x);
    let above = block.binary(ADD, &one, x);
    block.binary(MULTIPLY, &below, &above)
}

/// Computes the inverse sine as 2 atan2(x, 1 + √(1 - x²)).
fn asin(block: &mut Block<'_>, x: &Value) -> Value {
    let square = one_minus_square(block, x);
    let root = block.unary("stablehlo.sqrt", &square);
    let beside = block.binary_with(ADD, &root, 1.0);
    let half = block.binary("stablehlo.atan2", x, &beside);
    block.binary_with(MULTIPLY, &half, 2.0)
}

/// Computes the inverse cosine as 2 atan2(√(1 - x²), 1 + x).
fn acos(block: &mut Block<'_>, x: &Value) -> Value {
    let square = one_minus_square(block, x);
    let root = block.unary("stablehlo.sqrt", &square);
    let beside = block.binary_with(ADD, x, 1.0);
    let half = block.binary("stablehlo.atan2", &root, &beside);
    let result = block.binary_with(MULTIPLY, &half, 2.0);
    // At -1, both arguments of atan2 are 0.
    let is_end = block.comparison_with("EQ", x, -1.0);
    let end = block.number_like(x, PI);
    block.selection(&is_end, &end, &result)
}

/// Computes e^|x| / 2 for large |x| as the product of two factors. The factors do not overflow before the result does.
fn half_exponential(block: &mut Block<'_>, distance: &Value) -> Value {
    let half = block.binary_with(MULTIPLY, distance, 0.5);
    let root = block.unary(EXPONENTIAL, &half);
    let first = block.binary_with(MULTIPLY, &root, 0.5);
    block.binary(MULTIPLY, &first, &root)
}

/// The bound above which e⁻ˣ is too small to change the sum of eˣ and e⁻ˣ in an f64.
const ONE_SIDED: f64 = 20.0;

/// Computes the hyperbolic sine from eˣ - 1, because eˣ - e⁻ˣ loses digits near 0.
fn sinh(block: &mut Block<'_>, x: &Value) -> Value {
    let distance = block.unary("stablehlo.abs", x);
    let above = block.unary("stablehlo.exponential_minus_one", &distance);
    let exponential = block.binary_with(ADD, &above, 1.0);
    let quotient = block.binary(DIVIDE, &above, &exponential);
    let sum = block.binary(ADD, &above, &quotient);
    let near = block.binary_with(MULTIPLY, &sum, 0.5);
    let far = half_exponential(block, &distance);
    let is_far = block.comparison_with("GT", &distance, ONE_SIDED);
    let result = block.selection(&is_far, &far, &near);
    with_sign(block, &result, x)
}

fn cosh(block: &mut Block<'_>, x: &Value) -> Value {
    let distance = block.unary("stablehlo.abs", x);
    let exponential = block.unary(EXPONENTIAL, &distance);
    let one = block.number_like(x, 1.0);
    let inverse = block.binary(DIVIDE, &one, &exponential);
    let sum = block.binary(ADD, &exponential, &inverse);
    let near = block.binary_with(MULTIPLY, &sum, 0.5);
    let far = half_exponential(block, &distance);
    let is_far = block.comparison_with("GT", &distance, ONE_SIDED);
    block.selection(&is_far, &far, &near)
}

/// Negates a value where `sign` is negative. A zero gets the sign of `sign`.
fn with_sign(block: &mut Block<'_>, value: &Value, sign: &Value) -> Value {
    let is_negative = block.comparison_with("LT", sign, 0.0);
    let negated = block.unary("stablehlo.negate", value);
    let signed = block.selection(&is_negative, &negated, value);
    let is_zero = block.comparison_with("EQ", sign, 0.0);
    block.selection(&is_zero, sign, &signed)
}

/// Above this bound, x² + 1 and x² - 1 are both rounded to x², so the argument of the logarithm is 2x.
const LARGE: f64 = 1e10;

/// Computes log x + log 2, which is the limit of the inverse hyperbolic sine and cosine.
fn log_of_double(block: &mut Block<'_>, x: &Value) -> Value {
    let log = block.unary("stablehlo.log", x);
    block.binary_with(ADD, &log, LN_2)
}

/// Computes the inverse hyperbolic sine as log1p(|x| + x² / (1 + √(x² + 1))).
fn asinh(block: &mut Block<'_>, x: &Value) -> Value {
    let distance = block.unary("stablehlo.abs", x);
    let square = block.binary(MULTIPLY, x, x);
    let above = block.binary_with(ADD, &square, 1.0);
    let root = block.unary("stablehlo.sqrt", &above);
    let divisor = block.binary_with(ADD, &root, 1.0);
    let quotient = block.binary(DIVIDE, &square, &divisor);
    let sum = block.binary(ADD, &distance, &quotient);
    let near = block.unary(LOG_PLUS_ONE, &sum);
    let far = log_of_double(block, &distance);
    let is_far = block.comparison_with("GT", &distance, LARGE);
    let result = block.selection(&is_far, &far, &near);
    with_sign(block, &result, x)
}

/// Computes the inverse hyperbolic cosine from x - 1, because x² - 1 loses digits near 1.
fn acosh(block: &mut Block<'_>, x: &Value) -> Value {
    let above = block.binary_with(SUBTRACT, x, 1.0);
    let factor = block.binary_with(ADD, &above, 2.0);
    let product = block.binary(MULTIPLY, &above, &factor);
    let root = block.unary("stablehlo.sqrt", &product);
    let sum = block.binary(ADD, &above, &root);
    let near = block.unary(LOG_PLUS_ONE, &sum);
    let far = log_of_double(block, x);
    let is_far = block.comparison_with("GT", x, LARGE);
    let result = block.selection(&is_far, &far, &near);
    let is_outside = block.comparison_with("LT", x, 1.0);
    let nothing = block.number_like(x, f64::NAN);
    block.selection(&is_outside, &nothing, &result)
}

/// Computes the inverse hyperbolic tangent as ½ log1p(2|x| / (1 - |x|)).
fn atanh(block: &mut Block<'_>, x: &Value) -> Value {
    let distance = block.unary("stablehlo.abs", x);
    let double = block.binary_with(MULTIPLY, &distance, 2.0);
    let one = block.number_like(x, 1.0);
    let rest = block.binary(SUBTRACT, &one, &distance);
    let quotient = block.binary(DIVIDE, &double, &rest);
    let log = block.unary(LOG_PLUS_ONE, &quotient);
    let half = block.binary_with(MULTIPLY, &log, 0.5);
    with_sign(block, &half, x)
}

/// Evaluates a polynomial by Horner's scheme. The coefficient of the highest power is first.
fn polynomial(block: &mut Block<'_>, x: &Value, coefficients: &[f64]) -> Value {
    let (first, rest) = coefficients.split_first().unwrap_or((&0.0, &[]));
    let first = block.number_like(x, *first);
    rest.iter().fold(first, |sum, &coefficient| {
        let product = block.binary(MULTIPLY, &sum, x);
        block.binary_with(ADD, &product, coefficient)
    })
}

/// Computes erf(x) for |x| up to 0.46875.
fn erf_near_zero(block: &mut Block<'_>, x: &Value) -> Value {
    let square = block.binary(MULTIPLY, x, x);
    let numerator = polynomial(block, &square, &cody::NEAR_NUMERATOR);
    let denominator = polynomial(block, &square, &cody::NEAR_DENOMINATOR);
    let quotient = block.binary(DIVIDE, &numerator, &denominator);
    block.binary(MULTIPLY, x, &quotient)
}

/// Computes 1 - erf(|x|) for |x| of at least 0.46875.
fn erfc_beyond(block: &mut Block<'_>, distance: &Value) -> Value {
    let numerator = polynomial(block, distance, &cody::MIDDLE_NUMERATOR);
    let denominator = polynomial(block, distance, &cody::MIDDLE_DENOMINATOR);
    let middle = block.binary(DIVIDE, &numerator, &denominator);
    let square = block.binary(MULTIPLY, distance, distance);
    let one = block.number_like(distance, 1.0);
    let z = block.binary(DIVIDE, &one, &square);
    let numerator = polynomial(block, &z, &cody::FAR_NUMERATOR);
    let denominator = polynomial(block, &z, &cody::FAR_DENOMINATOR);
    let quotient = block.binary(DIVIDE, &numerator, &denominator);
    let rest = block.binary(MULTIPLY, &z, &quotient);
    let limit = block.number_like(distance, FRAC_2_SQRT_PI / 2.0);
    let difference = block.binary(SUBTRACT, &limit, &rest);
    let far = block.binary(DIVIDE, &difference, distance);
    let is_middle = block.comparison_with("LE", distance, 4.0);
    let factor = block.selection(&is_middle, &middle, &far);
    let negated = block.unary("stablehlo.negate", &square);
    let exponential = block.unary(EXPONENTIAL, &negated);
    block.binary(MULTIPLY, &exponential, &factor)
}

fn erf_of(block: &mut Block<'_>, x: &Value) -> Value {
    let distance = block.unary("stablehlo.abs", x);
    let near = erf_near_zero(block, x);
    let complement = erfc_beyond(block, &distance);
    let one = block.number_like(x, 1.0);
    let far = block.binary(SUBTRACT, &one, &complement);
    let far = with_sign(block, &far, x);
    let is_near = block.comparison_with("LE", &distance, NEAR);
    block.selection(&is_near, &near, &far)
}

fn erfc_of(block: &mut Block<'_>, x: &Value) -> Value {
    let distance = block.unary("stablehlo.abs", x);
    let near = erf_near_zero(block, x);
    let one = block.number_like(x, 1.0);
    let near = block.binary(SUBTRACT, &one, &near);
    let far = erfc_beyond(block, &distance);
    let two = block.number_like(x, 2.0);
    let reflected = block.binary(SUBTRACT, &two, &far);
    let is_negative = block.comparison_with("LT", x, 0.0);
    let far = block.selection(&is_negative, &reflected, &far);
    let is_near = block.comparison_with("LE", &distance, NEAR);
    block.selection(&is_near, &near, &far)
}

/// The bound up to which erf is computed as x times a function of x².
const NEAR: f64 = 0.46875;

/// Computes the inverse of the error function by the polynomials that evaluation uses for the dtype.
fn erf_inv_of(block: &mut Block<'_>, x: &Value) -> Value {
    let square = block.binary(MULTIPLY, x, x);
    let negated = block.unary("stablehlo.negate", &square);
    let log = block.unary(LOG_PLUS_ONE, &negated);
    let w = block.unary("stablehlo.negate", &log);
    let root = block.unary("stablehlo.sqrt", &w);
    let factor = if x.dtype() == DType::F64 {
        let centre = shifted_polynomial(block, &w, 3.125, &erf_inv::CENTRE);
        let tail = shifted_polynomial(block, &root, 3.25, &erf_inv::TAIL);
        let far_tail = shifted_polynomial(block, &root, 5.0, &erf_inv::FAR_TAIL);
        let is_tail = block.comparison_with("LT", &w, 16.0);
        let tail = block.selection(&is_tail, &tail, &far_tail);
        let is_centre = block.comparison_with("LT", &w, 6.25);
        block.selection(&is_centre, &centre, &tail)
    } else {
        let centre = shifted_polynomial(block, &w, 2.5, &erf_inv::CENTRE_F32.map(f64::from));
        let tail = shifted_polynomial(block, &root, 3.0, &erf_inv::TAIL_F32.map(f64::from));
        let is_centre = block.comparison_with("LT", &w, 5.0);
        block.selection(&is_centre, &centre, &tail)
    };
    let result = block.binary(MULTIPLY, &factor, x);
    let distance = block.unary("stablehlo.abs", x);
    let is_end = block.comparison_with("EQ", &distance, 1.0);
    let end = block.binary_with(MULTIPLY, x, f64::INFINITY);
    block.selection(&is_end, &end, &result)
}

/// Evaluates a polynomial of `x - centre`.
fn shifted_polynomial(
    block: &mut Block<'_>,
    x: &Value,
    centre: f64,
    coefficients: &[f64],
) -> Value {
    let x = block.binary_with(SUBTRACT, x, centre);
    polynomial(block, &x, coefficients)
}
