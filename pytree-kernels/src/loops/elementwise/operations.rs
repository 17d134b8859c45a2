//! The elementwise operations, and their names in jaxprs.

use crate::base::dtype::DType;

/// An elementwise operation that the executor can fuse.
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(missing_docs, reason = "the names say it all")]
pub enum Elementwise {
    Unary(Unary),
    Binary(Binary),
    Compare(Comparison),
    Select,
    Convert(DType),
}

/// An elementwise operation on one tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names say it all")]
pub enum Unary {
    Neg,
    Abs,
    Sign,
    Floor,
    Ceil,
    Round(Rounding),
    Exp,
    Exp2,
    Expm1,
    Log,
    Log1p,
    Sqrt,
    Rsqrt,
    Cbrt,
    Sin,
    Cos,
    Tan,
    Asin,
    Acos,
    Atan,
    Sinh,
    Cosh,
    Tanh,
    Asinh,
    Acosh,
    Atanh,
    Logistic,
    Erf,
    Erfc,
    ErfInv,
    IntegerPower(i32),
    Not,
    PopulationCount,
    StopGradient,
}

/// The direction in which a number halfway between two whole numbers is rounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names say it all")]
pub enum Rounding {
    AwayFromZero,
    ToEven,
}

/// An elementwise operation on two tensors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names say it all")]
pub enum Binary {
    Add,
    Sub,
    Mul,
    Div,
    Rem,
    Pow,
    Atan2,
    Max,
    Min,
    LogAddExp,
    And,
    Or,
    Xor,
    ShiftLeft,
    ShiftRight,
    ShiftRightArithmetic,
}

/// An elementwise comparison of two tensors. The result has the dtype bool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names say it all")]
pub enum Comparison {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
}

impl Elementwise {
    /// Returns the name of the operation in jaxprs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Unary(unary) => unary.operation_name(),
            Self::Binary(binary) => binary.operation_name(),
            Self::Compare(comparison) => comparison.operation_name(),
            Self::Select => "select_n",
            Self::Convert(_) => "convert_element_type",
        }
    }
}

impl Unary {
    fn operation_name(self) -> &'static str {
        match self {
            Self::Neg => "neg",
            Self::Abs => "abs",
            Self::Sign => "sign",
            Self::Floor => "floor",
            Self::Ceil => "ceil",
            Self::Round(_) => "round",
            Self::Exp => "exp",
            Self::Exp2 => "exp2",
            Self::Expm1 => "expm1",
            Self::Log => "log",
            Self::Log1p => "log1p",
            Self::Sqrt => "sqrt",
            Self::Rsqrt => "rsqrt",
            Self::Cbrt => "cbrt",
            Self::Sin => "sin",
            Self::Cos => "cos",
            Self::Tan => "tan",
            Self::Asin => "asin",
            Self::Acos => "acos",
            Self::Atan => "atan",
            Self::Sinh => "sinh",
            Self::Cosh => "cosh",
            Self::Tanh => "tanh",
            Self::Asinh => "asinh",
            Self::Acosh => "acosh",
            Self::Atanh => "atanh",
            Self::Logistic => "logistic",
            Self::Erf => "erf",
            Self::Erfc => "erfc",
            Self::ErfInv => "erf_inv",
            Self::IntegerPower(_) => "integer_pow",
            Self::Not => "not",
            Self::PopulationCount => "population_count",
            Self::StopGradient => "stop_gradient",
        }
    }
}

impl Binary {
    fn operation_name(self) -> &'static str {
        match self {
            Self::Add => "add",
            Self::Sub => "sub",
            Self::Mul => "mul",
            Self::Div => "div",
            Self::Rem => "rem",
            Self::Pow => "pow",
            Self::Atan2 => "atan2",
            Self::Max => "max",
            Self::Min => "min",
            Self::LogAddExp => "logaddexp",
            Self::And => "and",
            Self::Or => "or",
            Self::Xor => "xor",
            Self::ShiftLeft => "shift_left",
            Self::ShiftRight => "shift_right_logical",
            Self::ShiftRightArithmetic => "shift_right_arithmetic",
        }
    }
}

impl Comparison {
    fn operation_name(self) -> &'static str {
        match self {
            Self::Eq => "eq",
            Self::Ne => "ne",
            Self::Lt => "lt",
            Self::Le => "le",
            Self::Gt => "gt",
            Self::Ge => "ge",
        }
    }
}
