//! The primitive that returns the indices that sort a tensor.

use std::fmt;

use pytree_kernels::base::array::{Array, Operands};
use pytree_kernels::base::dtype::{AbstractArray, DType};
use pytree_kernels::base::shape::PerAxis;
use pytree_kernels::primitives::sort::{self, Order};

use crate::base::error::{TensorError, or_panic};
use crate::primitives::shape::{batched_axis, check_positions};
use crate::tensor::Tensor;
use crate::tensor::primitive::{
    AbstractResults, BatchAxis, Batched, Cotangents, Division, Linear, Lowered, Outputs, Primitive,
    WithTangents, alone, not_linear, one, take,
};
use crate::tensor::stablehlo::{Block, Value};
use crate::tensor::trace::bind_one;

/// Returns the indices, as i32, that sort a tensor along an axis, or the first of them. The sort is stable. NaN is the greatest value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ArgSort {
    pub(crate) axis: usize,
    /// If true, the greatest element is first. Equal elements keep their order in both cases.
    pub(crate) descending: bool,
    /// The number of indices to return, or `None` for all.
    pub(crate) count: Option<usize>,
}

/// Returns the indices that sort a tensor along an axis in ascending order.
#[track_caller]
pub(crate) fn argsort(operand: &Tensor, axis: usize) -> Result<Tensor, TensorError> {
    let sort = ArgSort {
        axis,
        descending: false,
        count: None,
    };
    bind_one(&sort, &[operand])
}

/// Returns the indices of the `count` greatest elements along an axis, in descending order.
#[track_caller]
pub(crate) fn greatest(operand: &Tensor, axis: usize, count: usize) -> Result<Tensor, TensorError> {
    let sort = ArgSort {
        axis,
        descending: true,
        count: Some(count),
    };
    bind_one(&sort, &[operand])
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
        let mut shape = operand.shape.clone();
        shape[self.axis] = self.count.unwrap_or(shape[self.axis]);
        Ok(one(AbstractArray {
            dtype: DType::I32,
            shape,
        }))
    }

    fn evaluate(&self, operands: Operands) -> Outputs<Array> {
        let [operand] = take(operands);
        let order = Order {
            descending: self.descending,
            count: self.count.unwrap_or(operand.shape()[self.axis]),
        };
        one(sort::argsort(&operand, self.axis, order))
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
        let indices = AbstractArray::new(DType::I32, &operand.info.shape);
        let positions = block.positions(&indices, self.axis);
        let elements = [operand.dtype(), operand.dtype(), DType::I32, DType::I32];
        let elements = elements.map(|dtype| AbstractArray::new(dtype, []));
        let sorted = [operand.info.clone(), positions.info.clone()];
        let attributes = format_args!("dimension = {} : i64, is_stable = true", self.axis);
        let operands = [operand, &positions];
        let sorted = block.operation_with_regions(
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
        let shape = &results[0].shape;
        let (start, stride) = (shape.iter().map(|_| 0), shape.iter().map(|_| 1));
        let (start, stride): (PerAxis, PerAxis) = (start.collect(), stride.collect());
        let first = |indices: &Value| block.sliced(indices, &start, shape, &stride);
        Ok(match self.count {
            Some(_) => sorted.iter().skip(1).map(first).collect(),
            None => sorted.into_iter().skip(1).collect(),
        })
    }

    fn division(&self, operands: &[&AbstractArray]) -> Option<Division> {
        Division::along(
            operands[0],
            (0..operands[0].rank()).filter(|&axis| axis != self.axis),
        )
    }

    fn write_parameters(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "dimension={}", self.axis)?;
        if self.descending {
            f.write_str(" descending=true")?;
        }
        self.count
            .map_or(Ok(()), |count| write!(f, " count={count}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ix;
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
        for count in 0..7 {
            let expected = [1, 2, 4, 0, 3, 5][..count].to_vec();
            assert_eq!(
                greatest(&x, 0, count).unwrap(),
                Tensor::new([count], expected)
            );
        }
        assert_eq!(
            greatest(&Tensor::from([0, u32::MAX, 0]), 0, 3).unwrap(),
            Tensor::from([1, 0, 2])
        );
    }

    #[test]
    fn selected_indices_are_the_first_sorted_ones() {
        // Long rows, in which the selection removes keys many times; few different elements, and so many equal ones.
        for (length, distinct) in [(1000, 7), (3000, 3000)] {
            let numbers = (0..).map(|i: i32| i.wrapping_mul(7919) % distinct);
            let x = Tensor::new([2, length], numbers.take(2 * length).collect::<Vec<i32>>());
            let all = greatest(&x, 1, length).unwrap();
            let stable = argsort(&(Tensor::from(0) - &x), 1).unwrap();
            assert_eq!(all, stable);
            for count in [1_isize, 10, 100] {
                let found = greatest(&x, 1, count.unsigned_abs()).unwrap();
                assert_eq!(found, all.index(ix![.., ..count]));
            }
        }
    }

    #[test]
    fn batching_agrees_with_evaluation() {
        for axis in 0..3 {
            let sort = ArgSort {
                axis: 1,
                descending: axis == 1,
                count: (axis != 0).then_some(2),
            };
            check_batching(&sort, &[noise(&[3, 4, 5], 1)], &[Some(axis)]);
        }
    }
}
