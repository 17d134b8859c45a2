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

pytree_base::named! {
    /// An elementwise operation on one tensor.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    #[allow(missing_docs, reason = "the names say it all")]
    pub enum Unary {
        Neg = "neg",
        Abs = "abs",
        Sign = "sign",
        Floor = "floor",
        Ceil = "ceil",
        Round(Rounding) = "round",
        Exp = "exp",
        Exp2 = "exp2",
        Expm1 = "expm1",
        Log = "log",
        Log1p = "log1p",
        Sqrt = "sqrt",
        Rsqrt = "rsqrt",
        Cbrt = "cbrt",
        Sin = "sin",
        Cos = "cos",
        Tan = "tan",
        Asin = "asin",
        Acos = "acos",
        Atan = "atan",
        Sinh = "sinh",
        Cosh = "cosh",
        Tanh = "tanh",
        Asinh = "asinh",
        Acosh = "acosh",
        Atanh = "atanh",
        Logistic = "logistic",
        Erf = "erf",
        Erfc = "erfc",
        ErfInv = "erf_inv",
        IntegerPower(i32) = "integer_pow",
        Not = "not",
        PopulationCount = "population_count",
        StopGradient = "stop_gradient",
    }

    fn operation_name;
}

/// The direction in which a number halfway between two whole numbers is rounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names say it all")]
pub enum Rounding {
    AwayFromZero,
    ToEven,
}

pytree_base::named! {
    /// An elementwise operation on two tensors.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    #[allow(missing_docs, reason = "the names say it all")]
    pub enum Binary {
        Add = "add",
        Sub = "sub",
        Mul = "mul",
        Div = "div",
        Rem = "rem",
        Pow = "pow",
        Atan2 = "atan2",
        Max = "max",
        Min = "min",
        LogAddExp = "logaddexp",
        And = "and",
        Or = "or",
        Xor = "xor",
        ShiftLeft = "shift_left",
        ShiftRight = "shift_right_logical",
        ShiftRightArithmetic = "shift_right_arithmetic",
    }

    fn operation_name;
}

pytree_base::named! {
    /// An elementwise comparison of two tensors. The result has the dtype bool.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    #[allow(missing_docs, reason = "the names say it all")]
    pub enum Comparison {
        Eq = "eq",
        Ne = "ne",
        Lt = "lt",
        Le = "le",
        Gt = "gt",
        Ge = "ge",
    }

    fn operation_name;
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
