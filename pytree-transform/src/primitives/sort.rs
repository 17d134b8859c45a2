//! The primitive that returns the indices that sort a tensor.

use std::fmt;

use pytree_kernels::base::array::{Array, Operands};
use pytree_kernels::base::dtype::{AbstractArray, DType};
use pytree_kernels::primitives::sort;

use crate::base::error::{TensorError, or_panic};
use crate::primitives::shape::{batched_axis, check_positions};
use crate::tensor::Tensor;
use crate::tensor::primitive::{
    AbstractResults, BatchAxis, Batched, Cotangents, Division, Linear, Lowered, Outputs, Primitive,
    WithTangents, alone, not_linear, one, take,
};
use crate::tensor::stablehlo::{Block, Value};
use crate::tensor::trace::bind_one;

/// Returns the indices, as i32, that sort a tensor along an axis. The sort is stable. NaN is the greatest value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ArgSort {
    pub(crate) axis: usize,
    /// If true, the greatest element is first. Equal elements keep their order in both cases.
    pub(crate) descending: bool,
}

/// Returns the indices that sort a tensor along an axis in ascending order.
#[track_caller]
pub(crate) fn argsort(operand: &Tensor, axis: usize) -> Result<Tensor, TensorError> {
    let descending = false;
    bind_one(&ArgSort { axis, descending }, &[operand])
}

/// Returns the indices that sort a tensor along an axis in descending order.
#[track_caller]
pub(crate) fn argsort_descending(operand: &Tensor, axis: usize) -> Result<Tensor, TensorError> {
    let descending = true;
    bind_one(&ArgSort { axis, descending }, &[operand])
}

/// Writes whether the element `left` must come before the element `right`. NaN is the greatest value, and both zeros
/// are equal.
fn is_before(block: &mut Block<'_>, descending: bool, left: &Value, right: &Value) -> Value {
    let (less, greater) = if descending {
        (right, left)
    } else {
        (left, right)
    };
    let is_less = block.comparison("LT", less, greater);
    if !left.dtype().is_float() {
        return is_less;
    }
    let is_number = block.comparison("EQ", less, less);
    let is_not_a_number = block.is_not_a_number(greater);
    let is_before_nan = block.binary("stablehlo.and", &is_number, &is_not_a_number);
    block.binary("stablehlo.or", &is_less, &is_before_nan)
}

impl Primitive for ArgSort {
    fn name(&self) -> &'static str {
        "argsort"
    }

    fn abstract_evaluation(&self, operands: &[&AbstractArray]) -> AbstractResults {
        let operand = operands[0];
        if self.axis >= operand.rank() {
            return Err(TensorError::axis("sort", operand, self.axis));
        }
        check_positions("sort", operand, self.axis)?;
        Ok(one(AbstractArray {
            dtype: DType::I32,
            shape: operand.shape.clone(),
        }))
    }

    fn evaluate(&self, operands: Operands) -> Outputs<Array> {
        let [operand] = take(operands);
        one(sort::argsort(&operand, self.axis, self.descending))
    }

    fn jvp(&self, primals: &[Tensor], _: &[Option<Tensor>]) -> WithTangents {
        alone(self, primals)
    }

    fn transpose(&self, _: &[Option<Tensor>], _: &[Linear]) -> Cotangents {
        not_linear(self)
    }

    fn batch(&self, operands: &[Tensor], axes: &[Option<usize>], _: &BatchAxis) -> Batched {
        let axis = axes[0].map_or(self.axis, |batch| batched_axis(self.axis, batch));
        let sort = Self { axis, ..*self };
        (
            one(or_panic(bind_one(&sort, &[&operands[0]]))),
            one(axes[0]),
        )
    }

    fn lower(
        &self,
        block: &mut Block<'_>,
        operands: &[Value],
        results: &[&AbstractArray],
    ) -> Lowered {
        let operand = &operands[0];
        let positions = block.positions(results[0], self.axis);
        let elements = [operand.dtype(), operand.dtype(), DType::I32, DType::I32];
        let elements = elements.map(|dtype| AbstractArray::new(dtype, []));
        let sorted = [operand.info.clone(), positions.info.clone()];
        let attributes = format_args!("dimension = {} : i64, is_stable = true", self.axis);
        let operands = [operand, &positions];
        let results = block.operation_with_regions(
            "stablehlo.sort",
            &operands,
            attributes,
            sorted,
            |block| {
                block.region(elements, |block, pair| {
                    Ok(vec![is_before(block, self.descending, &pair[0], &pair[1])])
                })
            },
        )?;
        Ok(results.into_iter().skip(1).collect())
    }

    fn division(&self, operands: &[&AbstractArray]) -> Option<Division> {
        Division::along(
            operands[0],
            (0..operands[0].rank()).filter(|&axis| axis != self.axis),
        )
    }

    fn write_parameters(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "dimension={}", self.axis)?;
        f.write_str(if self.descending {
            " descending=true"
        } else {
            ""
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::primitives::shape::rule_checks::{check_batching, noise};

    #[test]
    fn sort_is_stable_with_nan_last() {
        let x = Tensor::from([
            0.0,
            f64::NAN,
            -1.0,
            -0.0,
            f64::INFINITY,
            -1.0,
            f64::NEG_INFINITY,
        ]);
        assert_eq!(argsort(&x, 0).unwrap(), Tensor::from([6, 2, 5, 0, 3, 4, 1]));
        assert_eq!(
            argsort(&Tensor::from([3, -1, 2]), 0).unwrap(),
            Tensor::from([1, 2, 0])
        );
        assert_eq!(
            argsort(&Tensor::from([u32::MAX, 0, 1]), 0).unwrap(),
            Tensor::from([1, 2, 0])
        );
        assert_eq!(
            argsort(&Tensor::from([true, false, true]), 0).unwrap(),
            Tensor::from([1, 0, 2])
        );
        assert_eq!(
            argsort(&Tensor::from(vec![i64::MAX, i64::MIN]), 0).unwrap(),
            Tensor::from([1, 0])
        );
        assert_eq!(
            argsort(&Tensor::from([[3.0_f32, 1.0], [2.0, 4.0]]), 0).unwrap(),
            Tensor::from([[1, 0], [0, 1]])
        );
        assert_eq!(
            argsort(&Tensor::zeros(DType::F32, [0, 2]), 0)
                .unwrap()
                .shape(),
            [0, 2]
        );
    }

    #[test]
    fn descending_keeps_the_order_of_equals() {
        let x = Tensor::from([1.0, f64::NAN, 2.0, -0.0, 2.0, 0.0]);
        assert_eq!(
            argsort_descending(&x, 0).unwrap(),
            Tensor::from([1, 2, 4, 0, 3, 5])
        );
        assert_eq!(
            argsort_descending(&Tensor::from([0, u32::MAX, 0]), 0).unwrap(),
            Tensor::from([1, 0, 2])
        );
    }

    #[test]
    fn batching_agrees_with_evaluation() {
        for axis in 0..3 {
            let sort = ArgSort {
                axis: 1,
                descending: axis == 1,
            };
            check_batching(&sort, &[noise(&[3, 4, 5], 1)], &[Some(axis)]);
        }
    }
}
