//! Operations element by element: unary, binary and comparisons.
//!
//! Operands have the same shape and element type; broadcasting is an operation of its own, done before.

use std::fmt;
use std::sync::Arc;

use smallvec::{SmallVec, smallvec};

use crate::array::{Array, Data};
use crate::dtype::{AbstractArray, DType, TensorElement};
use crate::error::{TensorError, or_panic};
use crate::primitive::{Linear, Operands, Outputs, Primitive, not_linear, one};
use crate::primitives::{convert, select};
use crate::tensor::Tensor;
use crate::trace::bind_one;

/// An element-by-element operation, as the executor fuses it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Elementwise {
    Unary(Unary),
    Binary(Binary),
    Compare(Comparison),
    Select,
    Convert(DType),
}

/// An operation on one tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unary {
    Neg,
    Abs,
    Sign,
    Exp,
    Log,
    Sqrt,
    Sin,
    Cos,
    Tanh,
    Logistic,
    ErfInv,
    IntegerPower(i32),
    Not,
    StopGradient,
}

/// An operation on two tensors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Binary {
    Add,
    Sub,
    Mul,
    Div,
    Max,
    Min,
    And,
    Or,
    Xor,
    ShiftLeft,
    ShiftRight,
}

/// A comparison of two tensors; its result is of bools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Comparison {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
}

#[track_caller]
pub(crate) fn unary(operation: Unary, operand: &Tensor) -> Result<Tensor, TensorError> {
    bind_one(&operation, &[operand])
}

/// A binary operation after broadcasting.
#[track_caller]
pub(crate) fn binary(
    operation: Binary,
    left: &Tensor,
    right: &Tensor,
) -> Result<Tensor, TensorError> {
    let (left, right) = broadcast_together(operation.name(), left, right)?;
    bind_one(&operation, &[&left, &right])
}

/// A comparison after broadcasting.
#[track_caller]
pub(crate) fn compare(
    comparison: Comparison,
    left: &Tensor,
    right: &Tensor,
) -> Result<Tensor, TensorError> {
    let (left, right) = broadcast_together(comparison.name(), left, right)?;
    bind_one(&comparison, &[&left, &right])
}

/// Two tensors with the shape that NumPy's rule gives them together.
#[track_caller]
pub(crate) fn broadcast_together(
    operation: &'static str,
    left: &Tensor,
    right: &Tensor,
) -> Result<(Tensor, Tensor), TensorError> {
    if left.shape() == right.shape() {
        return Ok((left.clone(), right.clone()));
    }
    let shape =
        broadcast_shapes(left.shape(), right.shape()).ok_or_else(|| TensorError::Shape {
            operation,
            found: vec![left.info().clone(), right.info().clone()],
            problem:
                "the shapes do not broadcast: from the last axis on, lengths must be equal or 1"
                    .to_owned(),
            mend: "reshape one of them so that they do".to_owned(),
        })?;
    Ok((
        crate::primitives::shape::broadcast_to(left, &shape)?,
        crate::primitives::shape::broadcast_to(right, &shape)?,
    ))
}

/// The shape that two shapes broadcast to, if they do.
pub(crate) fn broadcast_shapes(left: &[usize], right: &[usize]) -> Option<crate::dtype::Shape> {
    let rank = left.len().max(right.len());
    let length = |shape: &[usize], axis: usize| {
        (axis + shape.len())
            .checked_sub(rank)
            .map_or(1, |axis| shape[axis])
    };
    (0..rank)
        .map(|axis| match (length(left, axis), length(right, axis)) {
            (left, right) if left == right => Some(left),
            (1, other) | (other, 1) => Some(other),
            _ => None,
        })
        .collect()
}

/// Moves the batch axis of every mapped operand to the front and gives the others one.
pub(crate) fn align_batch(operands: &[Tensor], axes: &[Option<usize>], size: usize) -> Vec<Tensor> {
    if let Some(&Some(axis)) = axes.first()
        && axes.iter().all(|&other| other == Some(axis))
    {
        return operands.to_vec();
    }
    operands
        .iter()
        .zip(axes)
        .map(|(operand, axis)| {
            or_panic(crate::primitives::shape::batch_axis_first(
                operand, *axis, size,
            ))
        })
        .collect()
}

/// The batch axis of results whose operands were aligned.
pub(crate) fn aligned_axis(axes: &[Option<usize>]) -> usize {
    match axes.first() {
        Some(&Some(axis)) if axes.iter().all(|&other| other == Some(axis)) => axis,
        _ => 0,
    }
}

fn same_info(operation: &'static str, operands: &[&AbstractArray]) -> Result<(), TensorError> {
    let found = || operands.iter().map(|&operand| operand.clone()).collect();
    if operands
        .windows(2)
        .any(|pair| pair[0].dtype != pair[1].dtype)
    {
        return Err(TensorError::DType {
            operation,
            found: found(),
            expected: "one element type",
        });
    }
    if operands
        .windows(2)
        .any(|pair| pair[0].shape != pair[1].shape)
    {
        return Err(TensorError::Shape {
            operation,
            found: found(),
            problem: "the shapes differ".to_owned(),
            mend: "broadcast them first".to_owned(),
        });
    }
    Ok(())
}

fn wrong_dtype(
    operation: &'static str,
    operands: &[&AbstractArray],
    expected: &'static str,
) -> TensorError {
    TensorError::DType {
        operation,
        found: operands.iter().map(|&operand| operand.clone()).collect(),
        expected,
    }
}

/// Applies a function to each element, in place if nobody else holds the operand.
fn map_in_place<T: TensorElement>(operand: Arc<Array>, function: impl Fn(T) -> T) -> Array {
    let info = operand.info.clone();
    let mut elements = Array::into_elements::<T>(operand);
    elements
        .iter_mut()
        .for_each(|element| *element = function(*element));
    Array {
        info,
        data: T::data(elements),
    }
}

/// Applies a function to each pair of elements, in place if one operand is held by nobody else.
fn zip_in_place<T: TensorElement>(
    left: Arc<Array>,
    mut right: Arc<Array>,
    function: impl Fn(T, T) -> T,
) -> Array {
    let info = left.info.clone();
    if Arc::strong_count(&left) > 1 {
        if let Some(array) = Arc::get_mut(&mut right) {
            if let Some(elements) = T::slice_mut(&mut array.data) {
                let others = left.elements::<T>();
                elements
                    .iter_mut()
                    .zip(others)
                    .for_each(|(element, &other)| *element = function(other, *element));
            }
            return Arc::unwrap_or_clone(right);
        }
        let elements = left
            .elements::<T>()
            .iter()
            .zip(right.elements::<T>())
            .map(|(&l, &r)| function(l, r))
            .collect();
        return Array {
            info,
            data: T::data(elements),
        };
    }
    let mut elements = Array::into_elements::<T>(left);
    let others = right.elements::<T>();
    elements
        .iter_mut()
        .zip(others)
        .for_each(|(element, &other)| *element = function(*element, other));
    Array {
        info,
        data: T::data(elements),
    }
}

fn take_one(operands: Operands) -> Arc<Array> {
    let [operand] = take::<1>(operands);
    operand
}

/// The operands as an array; their number is the primitive's.
pub(crate) fn take<const N: usize>(operands: Operands) -> [Arc<Array>; N] {
    let count = operands.len();
    let operands = <[Arc<Array>; N]>::try_from(operands.into_vec());
    operands.unwrap_or_else(|_| {
        panic!("a primitive of {N} operands was given {count}; this is a bug of pytree")
    })
}

macro_rules! float_kernel {
    ($operand:expr, $function:path) => {
        float_kernel!($operand, |x| $function(x))
    };
    ($operand:expr, |$x:ident| $body:expr) => {
        match $operand.dtype() {
            DType::F32 => map_in_place::<f32>($operand, |$x| $body),
            _ => map_in_place::<f64>($operand, |$x| $body),
        }
    };
}

impl Primitive for Unary {
    fn name(&self) -> &'static str {
        match self {
            Self::Neg => "neg",
            Self::Abs => "abs",
            Self::Sign => "sign",
            Self::Exp => "exp",
            Self::Log => "log",
            Self::Sqrt => "sqrt",
            Self::Sin => "sin",
            Self::Cos => "cos",
            Self::Tanh => "tanh",
            Self::Logistic => "logistic",
            Self::ErfInv => "erf_inv",
            Self::IntegerPower(_) => "integer_pow",
            Self::Not => "not",
            Self::StopGradient => "stop_gradient",
        }
    }

    fn abstract_evaluation(
        &self,
        operands: &[&AbstractArray],
    ) -> Result<Outputs<AbstractArray>, TensorError> {
        let dtype = operands[0].dtype;
        let (accepted, expected) = match self {
            Self::Neg | Self::Abs | Self::Sign => (dtype != DType::Bool, "a number"),
            Self::IntegerPower(exponent) if *exponent >= 0 => (dtype != DType::Bool, "a number"),
            Self::Not => (!dtype.is_float(), "bool or integers"),
            Self::StopGradient => (true, "any"),
            _ => (dtype.is_float(), "f32 or f64"),
        };
        if !accepted {
            return Err(wrong_dtype(self.name(), operands, expected));
        }
        Ok(one(operands[0].clone()))
    }

    fn evaluate(&self, operands: Operands) -> Outputs<Array> {
        let operand = take_one(operands);
        one(match self {
            Self::Neg => match operand.dtype() {
                DType::I32 => map_in_place::<i32>(operand, i32::wrapping_neg),
                DType::I64 => map_in_place::<i64>(operand, i64::wrapping_neg),
                DType::U32 => map_in_place::<u32>(operand, u32::wrapping_neg),
                _ => float_kernel!(operand, |x| -x),
            },
            Self::Abs => match operand.dtype() {
                DType::I32 => map_in_place::<i32>(operand, i32::wrapping_abs),
                DType::I64 => map_in_place::<i64>(operand, i64::wrapping_abs),
                DType::U32 => Arc::unwrap_or_clone(operand),
                _ => float_kernel!(operand, |x| x.abs()),
            },
            Self::Sign => match operand.dtype() {
                DType::I32 => map_in_place::<i32>(operand, i32::signum),
                DType::I64 => map_in_place::<i64>(operand, i64::signum),
                DType::U32 => map_in_place::<u32>(operand, |x| u32::from(x > 0)),
                // A zero keeps its sign and NaN stays, as in JAX.
                _ => float_kernel!(operand, |x| if x == 0.0 || x.is_nan() {
                    x
                } else {
                    x.signum()
                }),
            },
            Self::Exp => float_kernel!(operand, |x| x.exp()),
            Self::Log => float_kernel!(operand, |x| x.ln()),
            Self::Sqrt => float_kernel!(operand, |x| x.sqrt()),
            Self::Sin => float_kernel!(operand, |x| x.sin()),
            Self::Cos => float_kernel!(operand, |x| x.cos()),
            Self::Tanh => float_kernel!(operand, |x| x.tanh()),
            Self::Logistic => float_kernel!(operand, |x| 1.0 / (1.0 + (-x).exp())),
            Self::ErfInv => match operand.dtype() {
                DType::F32 => map_in_place::<f32>(operand, crate::special::erf_inv_f32),
                _ => map_in_place::<f64>(operand, crate::special::erf_inv_f64),
            },
            Self::IntegerPower(exponent) => integer_power(operand, *exponent),
            Self::StopGradient => Arc::unwrap_or_clone(operand),
            Self::Not => match operand.dtype() {
                DType::I32 => map_in_place::<i32>(operand, |x| !x),
                DType::I64 => map_in_place::<i64>(operand, |x| !x),
                DType::U32 => map_in_place::<u32>(operand, |x| !x),
                _ => map_in_place::<bool>(operand, |x| !x),
            },
        })
    }

    fn jvp(
        &self,
        primals: &[Tensor],
        tangents: &[Option<Tensor>],
    ) -> (Outputs<Tensor>, Outputs<Option<Tensor>>) {
        let x = &primals[0];
        let y = or_panic(unary(*self, x));
        let tangent = tangents[0].as_ref().and_then(|t| match self {
            Self::Neg => Some(-t),
            // The derivative at 0 is 1, as in JAX.
            Self::Abs => Some(x.greater_equal(0.0).select(t, &-t)),
            Self::Sign | Self::Not | Self::StopGradient | Self::IntegerPower(0) => None,
            Self::Exp => Some(t * &y),
            Self::Log => Some(t / x),
            Self::Sqrt => Some(t / (&y * 2.0)),
            Self::Sin => Some(t * x.cos()),
            Self::Cos => Some(t * -x.sin()),
            Self::Tanh => Some(t * (1.0 - &y * &y)),
            Self::Logistic => Some(t * (&y * (1.0 - &y))),
            // d/dx erf⁻¹(x) = √π/2 · exp(erf⁻¹(x)²).
            Self::ErfInv => Some(t * ((&y * &y).exp() * (std::f64::consts::PI.sqrt() / 2.0))),
            Self::IntegerPower(1) => Some(t.clone()),
            Self::IntegerPower(n) => {
                // The least exponent has none below it.
                let lower = n
                    .checked_sub(1)
                    .map_or_else(|| &y / x, |lower| x.powi(lower));
                Some(t * (lower * f64::from(*n)))
            }
        });
        (one(y), one(tangent))
    }

    fn transpose(
        &self,
        cotangents: &[Option<Tensor>],
        _: &[Linear],
    ) -> SmallVec<[Option<Tensor>; 2]> {
        match self {
            Self::Neg => smallvec![cotangents[0].as_ref().map(|cotangent| -cotangent)],
            _ => not_linear(self),
        }
    }

    fn batch(
        &self,
        operands: &[Tensor],
        axes: &[Option<usize>],
        _: usize,
    ) -> (Outputs<Tensor>, Outputs<Option<usize>>) {
        (one(or_panic(unary(*self, &operands[0]))), one(axes[0]))
    }

    fn write_parameters(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::IntegerPower(exponent) => write!(f, "y={exponent}"),
            _ => Ok(()),
        }
    }

    fn to_shared(&self) -> Arc<dyn Primitive> {
        Arc::new(*self)
    }

    fn elementwise(&self) -> Option<Elementwise> {
        Some(Elementwise::Unary(*self))
    }
}

fn integer_power(operand: Arc<Array>, exponent: i32) -> Array {
    let positive = exponent.unsigned_abs();
    match operand.dtype() {
        DType::I32 => map_in_place::<i32>(operand, |x| x.wrapping_pow(positive)),
        DType::I64 => map_in_place::<i64>(operand, |x| x.wrapping_pow(positive)),
        DType::U32 => map_in_place::<u32>(operand, |x| x.wrapping_pow(positive)),
        DType::F32 => match exponent {
            2 => map_in_place::<f32>(operand, |x| x * x),
            _ => map_in_place::<f32>(operand, |x| x.powi(exponent)),
        },
        _ => map_in_place::<f64>(operand, |x| x.powi(exponent)),
    }
}

macro_rules! number_kernel {
    ($left:expr, $right:expr, $wrapping:ident, |$l:ident, $r:ident| $float:expr) => {
        match $left.dtype() {
            DType::I32 => zip_in_place::<i32>($left, $right, |l, r| l.$wrapping(r)),
            DType::I64 => zip_in_place::<i64>($left, $right, |l, r| l.$wrapping(r)),
            DType::U32 => zip_in_place::<u32>($left, $right, |l, r| l.$wrapping(r)),
            DType::F32 => zip_in_place::<f32>($left, $right, |$l, $r| $float),
            _ => zip_in_place::<f64>($left, $right, |$l, $r| $float),
        }
    };
}

macro_rules! bit_kernel {
    ($left:expr, $right:expr, $operator:tt) => {
        match $left.dtype() {
            DType::I32 => zip_in_place::<i32>($left, $right, |l, r| l $operator r),
            DType::I64 => zip_in_place::<i64>($left, $right, |l, r| l $operator r),
            DType::U32 => zip_in_place::<u32>($left, $right, |l, r| l $operator r),
            _ => zip_in_place::<bool>($left, $right, |l, r| l $operator r),
        }
    };
}

impl Binary {
    fn evaluate_pair(self, left: Arc<Array>, right: Arc<Array>) -> Array {
        match self {
            Self::Add => number_kernel!(left, right, wrapping_add, |l, r| l + r),
            Self::Sub => number_kernel!(left, right, wrapping_sub, |l, r| l - r),
            Self::Mul => number_kernel!(left, right, wrapping_mul, |l, r| l * r),
            Self::Div => {
                match left.dtype() {
                    // Division by zero gives -1, all bits set, as XLA does.
                    DType::I32 => zip_in_place::<i32>(left, right, |l, r| {
                        if r == 0 { -1 } else { l.wrapping_div(r) }
                    }),
                    DType::I64 => zip_in_place::<i64>(left, right, |l, r| {
                        if r == 0 { -1 } else { l.wrapping_div(r) }
                    }),
                    DType::U32 => zip_in_place::<u32>(left, right, |l, r| {
                        l.checked_div(r).unwrap_or(u32::MAX)
                    }),
                    DType::F32 => zip_in_place::<f32>(left, right, |l, r| l / r),
                    _ => zip_in_place::<f64>(left, right, |l, r| l / r),
                }
            }
            // NaN on either side wins, as in JAX.
            Self::Max => number_kernel!(left, right, max, |l, r| if l > r || l.is_nan() {
                l
            } else {
                r
            }),
            Self::Min => number_kernel!(left, right, min, |l, r| if l < r || l.is_nan() {
                l
            } else {
                r
            }),
            Self::And => bit_kernel!(left, right, &),
            Self::Or => bit_kernel!(left, right, |),
            Self::Xor => bit_kernel!(left, right, ^),
            Self::ShiftLeft => shift(
                left,
                right,
                u32::checked_shl,
                i32::checked_shl,
                i64::checked_shl,
            ),
            Self::ShiftRight => shift(
                left,
                right,
                u32::checked_shr,
                |l, r| l.cast_unsigned().checked_shr(r).map(u32::cast_signed),
                |l, r| l.cast_unsigned().checked_shr(r).map(u64::cast_signed),
            ),
        }
    }
}

/// Shifts by more than the width give 0.
fn shift(
    left: Arc<Array>,
    right: Arc<Array>,
    u32_shift: impl Fn(u32, u32) -> Option<u32>,
    i32_shift: impl Fn(i32, u32) -> Option<i32>,
    i64_shift: impl Fn(i64, u32) -> Option<i64>,
) -> Array {
    match left.dtype() {
        DType::U32 => zip_in_place::<u32>(left, right, |l, r| u32_shift(l, r).unwrap_or(0)),
        DType::I32 => zip_in_place::<i32>(left, right, |l, r| {
            u32::try_from(r)
                .ok()
                .and_then(|r| i32_shift(l, r))
                .unwrap_or(0)
        }),
        _ => zip_in_place::<i64>(left, right, |l, r| {
            u32::try_from(r)
                .ok()
                .and_then(|r| i64_shift(l, r))
                .unwrap_or(0)
        }),
    }
}

impl Primitive for Binary {
    fn name(&self) -> &'static str {
        match self {
            Self::Add => "add",
            Self::Sub => "sub",
            Self::Mul => "mul",
            Self::Div => "div",
            Self::Max => "max",
            Self::Min => "min",
            Self::And => "and",
            Self::Or => "or",
            Self::Xor => "xor",
            Self::ShiftLeft => "shift_left",
            Self::ShiftRight => "shift_right_logical",
        }
    }

    fn abstract_evaluation(
        &self,
        operands: &[&AbstractArray],
    ) -> Result<Outputs<AbstractArray>, TensorError> {
        same_info(self.name(), operands)?;
        let dtype = operands[0].dtype;
        let (accepted, expected) = match self {
            Self::And | Self::Or | Self::Xor => (!dtype.is_float(), "bool or integers"),
            Self::ShiftLeft | Self::ShiftRight => {
                (!dtype.is_float() && dtype != DType::Bool, "integers")
            }
            _ => (dtype != DType::Bool, "numbers"),
        };
        if !accepted {
            return Err(wrong_dtype(self.name(), operands, expected));
        }
        Ok(one(operands[0].clone()))
    }

    fn evaluate(&self, operands: Operands) -> Outputs<Array> {
        let [left, right] = take(operands);
        one(self.evaluate_pair(left, right))
    }

    fn jvp(
        &self,
        primals: &[Tensor],
        tangents: &[Option<Tensor>],
    ) -> (Outputs<Tensor>, Outputs<Option<Tensor>>) {
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
            // d(x/y) = dx/y - z/y · dy.
            Self::Div => sum_of(dx.map(|dx| dx / y), dy.map(|dy| dy * -(&z / y))),
            Self::Max => sum_of(
                dx.map(|dx| dx * share_of(x, y, &z)),
                dy.map(|dy| dy * share_of(y, x, &z)),
            ),
            Self::Min => sum_of(
                dx.map(|dx| dx * share_of(x, y, &z)),
                dy.map(|dy| dy * share_of(y, x, &z)),
            ),
            Self::And | Self::Or | Self::Xor | Self::ShiftLeft | Self::ShiftRight => None,
        };
        (one(z), one(tangent))
    }

    fn transpose(
        &self,
        cotangents: &[Option<Tensor>],
        operands: &[Linear],
    ) -> SmallVec<[Option<Tensor>; 2]> {
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
            _ => not_linear(self),
        }
    }

    fn batch(
        &self,
        operands: &[Tensor],
        axes: &[Option<usize>],
        size: usize,
    ) -> (Outputs<Tensor>, Outputs<Option<usize>>) {
        let aligned = align_batch(operands, axes, size);
        (
            one(or_panic(binary(*self, &aligned[0], &aligned[1]))),
            one(Some(aligned_axis(axes))),
        )
    }

    fn write_parameters(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        Ok(())
    }

    fn to_shared(&self) -> Arc<dyn Primitive> {
        Arc::new(*self)
    }

    fn elementwise(&self) -> Option<Elementwise> {
        Some(Elementwise::Binary(*self))
    }
}

/// The sum of two tangents, either of which may be zeros.
pub(crate) fn sum_of(left: Option<Tensor>, right: Option<Tensor>) -> Option<Tensor> {
    match (left, right) {
        (Some(left), Some(right)) => Some(left + right),
        (left, right) => left.or(right),
    }
}

/// How much of a tangent passes a maximum or minimum `z` of `x` and `other`: all, half at a tie, none.
fn share_of(x: &Tensor, other: &Tensor, z: &Tensor) -> Tensor {
    let chosen = or_panic(convert::convert(
        &or_panic(compare(Comparison::Eq, x, z)),
        x.dtype(),
    ));
    let tie = or_panic(compare(Comparison::Eq, x, other));
    let half = Tensor::constant(x.dtype(), 0.5);
    let half = or_panic(crate::primitives::shape::broadcast_to(&half, x.shape()));
    or_panic(select::select(&tie, &half, &chosen))
}

impl Comparison {
    #[allow(
        clippy::float_cmp,
        clippy::bool_comparison,
        reason = "comparing is what this does, of all element types alike"
    )]
    fn evaluate_pair(self, left: &Array, right: &Array) -> Vec<bool> {
        fn run<T: TensorElement>(
            left: &Array,
            right: &Array,
            holds: impl Fn(T, T) -> bool,
        ) -> Vec<bool> {
            left.elements::<T>()
                .iter()
                .zip(right.elements::<T>())
                .map(|(&l, &r)| holds(l, r))
                .collect()
        }
        crate::array::with_type!(left.dtype(), T => match self {
            Self::Eq => run::<T>(left, right, |l, r| l == r),
            Self::Ne => run::<T>(left, right, |l, r| l != r),
            Self::Lt => run::<T>(left, right, |l, r| l < r),
            Self::Le => run::<T>(left, right, |l, r| l <= r),
            Self::Gt => run::<T>(left, right, |l, r| l > r),
            Self::Ge => run::<T>(left, right, |l, r| l >= r),
        })
    }
}

impl Primitive for Comparison {
    fn name(&self) -> &'static str {
        match self {
            Self::Eq => "eq",
            Self::Ne => "ne",
            Self::Lt => "lt",
            Self::Le => "le",
            Self::Gt => "gt",
            Self::Ge => "ge",
        }
    }

    fn abstract_evaluation(
        &self,
        operands: &[&AbstractArray],
    ) -> Result<Outputs<AbstractArray>, TensorError> {
        same_info(self.name(), operands)?;
        Ok(one(AbstractArray {
            dtype: DType::Bool,
            shape: operands[0].shape.clone(),
        }))
    }

    fn evaluate(&self, operands: Operands) -> Outputs<Array> {
        let elements = self.evaluate_pair(&operands[0], &operands[1]);
        one(Array {
            info: AbstractArray {
                dtype: DType::Bool,
                shape: operands[0].info.shape.clone(),
            },
            data: Data::Bool(elements),
        })
    }

    fn jvp(
        &self,
        primals: &[Tensor],
        _: &[Option<Tensor>],
    ) -> (Outputs<Tensor>, Outputs<Option<Tensor>>) {
        (
            one(or_panic(compare(*self, &primals[0], &primals[1]))),
            one(None),
        )
    }

    fn transpose(&self, _: &[Option<Tensor>], _: &[Linear]) -> SmallVec<[Option<Tensor>; 2]> {
        not_linear(self)
    }

    fn batch(
        &self,
        operands: &[Tensor],
        axes: &[Option<usize>],
        size: usize,
    ) -> (Outputs<Tensor>, Outputs<Option<usize>>) {
        let aligned = align_batch(operands, axes, size);
        (
            one(or_panic(compare(*self, &aligned[0], &aligned[1]))),
            one(Some(aligned_axis(axes))),
        )
    }

    fn write_parameters(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        Ok(())
    }

    fn to_shared(&self) -> Arc<dyn Primitive> {
        Arc::new(*self)
    }

    fn elementwise(&self) -> Option<Elementwise> {
        Some(Elementwise::Compare(*self))
    }
}
