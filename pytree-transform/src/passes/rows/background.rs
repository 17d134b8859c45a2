//! Values of which some rows are listed, and their elements in the other rows.

use std::sync::Arc;

use pytree_kernels::base::array::{Array, Operands};
use pytree_kernels::base::dtype::{AbstractArray, DType};
use pytree_kernels::loops::create;
use pytree_kernels::loops::elementwise::{Binary, Elementwise, Unary};

use crate::primitives::create::known_scalar;
use crate::tensor::Tensor;
use crate::tensor::evaluation::evaluate;
use crate::tensor::jaxpr::Variable;
use crate::tensor::primitive::Primitive;

/// A value of which some rows are listed.
#[derive(Clone, Copy)]
pub(super) struct Rows {
    pub(super) positions: Variable,
    pub(super) elements: Variable,
    pub(super) background: Background,
}

/// The elements of a value in the rows that are not listed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Background {
    /// This number.
    Number(f64),
    /// The elements of another value.
    Same(Variable),
    /// Other elements.
    Other,
}

impl Background {
    fn is(self, number: f64) -> bool {
        matches!(self, Self::Number(found) if found - number == 0.0)
    }

    /// Returns the background of the result of an elementwise primitive from the dtypes and the backgrounds of its operands.
    ///
    /// A product of zero and anything, and a quotient of zero and anything, are zero: no row is read only to find out that it is infinite or NaN.
    pub(super) fn of(primitive: &dyn Primitive, operands: &[(DType, Self)]) -> Self {
        let numbers: Option<Vec<(DType, f64)>> = operands
            .iter()
            .map(|(dtype, background)| match background {
                Self::Number(number) => Some((*dtype, *number)),
                _ => None,
            })
            .collect();
        if let Some(numbers) = numbers {
            return evaluated(primitive, &numbers).map_or(Self::Other, Self::Number);
        }
        let at = |operand: usize| operands[operand].1;
        match primitive.elementwise() {
            Some(Elementwise::Binary(binary)) => binary_of(binary, at(0), at(1)),
            Some(Elementwise::Select) => match at(0) {
                Self::Number(condition) => at(if condition == 0.0 { 2 } else { 1 }),
                _ if at(1) == at(2) => at(1),
                _ => Self::Other,
            },
            Some(Elementwise::Unary(Unary::StopGradient) | Elementwise::Convert(_)) => at(0),
            _ => Self::Other,
        }
    }
}

fn binary_of(binary: Binary, left: Background, right: Background) -> Background {
    match binary {
        Binary::Add if left.is(0.0) => right,
        Binary::Add | Binary::Sub if right.is(0.0) => left,
        Binary::Mul if left.is(0.0) || right.is(0.0) => Background::Number(0.0),
        Binary::Div if left.is(0.0) => Background::Number(0.0),
        Binary::Mul if left.is(1.0) => right,
        Binary::Mul | Binary::Div if right.is(1.0) => left,
        _ => Background::Other,
    }
}

/// Returns the result of a primitive for operands that are numbers.
fn evaluated(primitive: &dyn Primitive, operands: &[(DType, f64)]) -> Option<f64> {
    let arrays: Operands = operands
        .iter()
        .map(|(dtype, number)| Arc::new(create::full(*dtype, &[], *number)))
        .collect();
    let infos: Vec<&AbstractArray> = arrays.iter().map(|array| &array.info).collect();
    primitive.abstract_evaluation(&infos).ok()?;
    let result: Option<Array> = evaluate(primitive, arrays).into_iter().next();
    known_scalar(&Tensor::from_array(result?))
}
