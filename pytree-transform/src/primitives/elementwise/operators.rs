//! Operators on tensors, and the numbers that they accept as operands.

use std::ops::{
    Add, AddAssign, BitAnd, BitAndAssign, BitOr, BitOrAssign, Div, DivAssign, Mul, MulAssign, Neg,
    Not, Rem, RemAssign, Sub, SubAssign,
};

use pytree_kernels::loops::elementwise::{Binary, Unary};

use super::operand::{Operand, beside};
use crate::base::error::or_panic;
use crate::primitives::elementwise;
use crate::tensor::Tensor;

macro_rules! operators {
    (left $number:ty) => {
        operators!(left $number, Add add Add, Sub sub Sub, Mul mul Mul, Div div Div, Rem rem Rem);
    };
    (left $number:ty, $($trait:ident $method:ident $operation:ident),*) => {$(
        impl $trait<Tensor> for $number {
            type Output = Tensor;
            #[track_caller]
            fn $method(self, right: Tensor) -> Tensor {
                or_panic(elementwise::binary(Binary::$operation, &or_panic(beside(Binary::$operation, &self, &right)), &right))
            }
        }
        impl $trait<&Tensor> for $number {
            type Output = Tensor;
            #[track_caller]
            fn $method(self, right: &Tensor) -> Tensor {
                or_panic(elementwise::binary(Binary::$operation, &or_panic(beside(Binary::$operation, &self, right)), right))
            }
        }
    )*};
    ($($trait:ident $method:ident $operation:ident),*) => {$(
        impl<R: Operand> $trait<R> for Tensor {
            type Output = Tensor;
            #[track_caller]
            fn $method(self, right: R) -> Tensor {
                or_panic(elementwise::binary(Binary::$operation, &self, &or_panic(beside(Binary::$operation, &right, &self))))
            }
        }
        impl<R: Operand> $trait<R> for &Tensor {
            type Output = Tensor;
            #[track_caller]
            fn $method(self, right: R) -> Tensor {
                or_panic(elementwise::binary(Binary::$operation, self, &or_panic(beside(Binary::$operation, &right, self))))
            }
        }
    )*};
}

/// Implements operators that assign their result, such as `total += &x`. Other handles of the tensor keep the old
/// value.
macro_rules! assigning_operators {
    ($($trait:ident $method:ident $operation:ident),*) => {$(
        impl<R: Operand> $trait<R> for Tensor {
            #[track_caller]
            fn $method(&mut self, right: R) {
                let right = or_panic(beside(Binary::$operation, &right, self));
                *self = or_panic(elementwise::binary(Binary::$operation, self, &right));
            }
        }
    )*};
}
assigning_operators!(
    AddAssign add_assign Add, SubAssign sub_assign Sub, MulAssign mul_assign Mul, DivAssign div_assign Div,
    RemAssign rem_assign Rem,     BitAndAssign bitand_assign And, BitOrAssign bitor_assign Or
);
operators!(Add add Add, Sub sub Sub, Mul mul Mul, Div div Div, Rem rem Rem, BitAnd bitand And, BitOr bitor Or);
// As left operands, only `f64` and `i32` are accepted, so that each literal has a unique type. For instance, `(1.0 -
// &x).exp()` needs no type annotation.
operators!(left f64);
operators!(left i32);

/// Implements an operator with one operand, for `Tensor` and `&Tensor`.
macro_rules! unary_operator {
    ($Operator:ident $method:ident) => {
        impl $Operator for Tensor {
            type Output = Self;
            #[track_caller]
            fn $method(self) -> Self {
                or_panic(elementwise::unary(Unary::$Operator, &self))
            }
        }
        impl $Operator for &Tensor {
            type Output = Tensor;
            #[track_caller]
            fn $method(self) -> Tensor {
                or_panic(elementwise::unary(Unary::$Operator, self))
            }
        }
    };
}
unary_operator!(Neg neg);
unary_operator!(Not not);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_are_negated_and_combined() {
        let x = Tensor::from([-1.0_f32, 0.0, 2.0]);
        let mask = x.greater(0.0);
        assert_eq!(!&mask, Tensor::from([true, true, false]));
        assert_eq!(
            !(mask | x.less(0.0)) & Tensor::from(true),
            Tensor::from([false, true, false])
        );
        assert_eq!(!Tensor::from([0, 5]), Tensor::from([-1, -6]));
        let refused = std::panic::catch_unwind(|| !Tensor::from(1.0_f32));
        assert!(refused.is_err());
    }

    #[test]
    fn assigning_operators_change_one_handle() {
        let mut x = Tensor::from([1.0_f32, 2.0]);
        let before = x.clone();
        x += 1.0;
        x += &before;
        x -= Tensor::from(1.0_f32);
        assert_eq!(x, Tensor::from([2.0_f32, 4.0]));
        x *= 3.0;
        x /= &before;
        assert_eq!(x, Tensor::from([6.0_f32, 6.0]));
        x %= 4.0;
        assert_eq!(x, Tensor::from([2.0_f32, 2.0]));
        assert_eq!(before, Tensor::from([1.0_f32, 2.0]));
        let mut scalar = Tensor::from(1);
        scalar += Tensor::from([1, 2]);
        assert_eq!(scalar, Tensor::from([2, 3]));
        let mut flags = Tensor::from([true, true]);
        flags &= Tensor::from([true, false]);
        flags |= Tensor::from(false);
        assert_eq!(flags, Tensor::from([true, false]));
        let refused = std::panic::catch_unwind(|| {
            let mut x = Tensor::from(1);
            x += 0.5;
        });
        let message = refused.unwrap_err().downcast::<String>().unwrap();
        assert!(
            message.contains("cannot combine the number 0.5 with i32[]"),
            "{message}"
        );
    }
}
