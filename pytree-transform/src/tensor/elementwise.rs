//! The names of elementwise operations, whose rules are in `primitives/elementwise`.

use pytree_kernels::base::dtype::DType;

/// An elementwise operation that the executor can fuse.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Elementwise {
    Unary(Unary),
    Binary(Binary),
    Compare(Comparison),
    Select,
    Convert(DType),
}

/// An elementwise operation on one tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Unary {
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
pub(crate) enum Rounding {
    AwayFromZero,
    ToEven,
}

/// An elementwise operation on two tensors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Binary {
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
pub(crate) enum Comparison {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
}
