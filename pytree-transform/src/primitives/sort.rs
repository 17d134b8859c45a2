//! The primitive that sorts a tensor, or returns the indices that sort it.

use pytree_kernels::base::shape::PerAxis;
use pytree_kernels::loops::sort::{self, Order, Sorted};

use crate::primitives::gather::take_along;
use crate::primitives::prelude::*;
use crate::primitives::shape::{batched_axis, check_positions};

/// Returns the sorted elements of a tensor along an axis, or their indices as i32, or the first of them. The sort is stable. NaN is the
/// greatest value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Sort {
    pub(crate) sorted: Sorted,
    pub(crate) axis: usize,
    /// If true, the greatest element is first. Equal elements keep their order in both cases.
    pub(crate) descending: bool,
    /// The number of elements or indices to return, or `None` for all.
    pub(crate) count: Option<usize>,
}

/// Sorts a tensor along an axis in ascending order, or returns the indices that sort it.
#[track_caller]
pub(crate) fn sort(sorted: Sorted, operand: &Tensor, axis: usize) -> Result<Tensor, TensorError> {
    let sort = Sort {
        sorted,
        axis,
        descending: false,
        count: None,
    };
    bind_one(&sort, &[operand])
}

/// Returns the indices of the `count` greatest elements along an axis, in descending order.
#[track_caller]
pub(crate) fn greatest(operand: &Tensor, axis: usize, count: usize) -> Result<Tensor, TensorError> {
    let sort = Sort {
        sorted: Sorted::Positions,
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

impl Primitive for Sort {
    fn name(&self) -> &'static str {
        match self.sorted {
            Sorted::Elements => "sort",
            Sorted::Positions => "argsort",
        }
    }

    fn abstract_evaluation(&self, operands: &[&AbstractArray]) -> AbstractResults {
        let operand = operands[0];
        if self.axis >= operand.rank() {
            return Err(TensorError::axis("sort", operand, self.axis));
        }
        check_positions("sort", operand, self.axis)?;
        let mut shape = operand.shape.clone();
        shape[self.axis] = self.count.unwrap_or(shape[self.axis]);
        let dtype = match self.sorted {
            Sorted::Elements => operand.dtype,
            Sorted::Positions => DType::I32,
        };
        Ok(one(AbstractArray { dtype, shape }))
    }

    fn evaluate(&self, operands: Operands) -> Outputs<Array> {
        let [operand] = take(operands);
        let order = Order {
            descending: self.descending,
            count: self.count.unwrap_or(operand.shape()[self.axis]),
        };
        one(sort::sort(&operand, self.axis, order, self.sorted))
    }

    /// Moves the tangents of the elements with them.
    fn jvp(&self, primals: &[Tensor], tangents: &[Option<Tensor>]) -> WithTangents {
        let tangent = tangents[0]
            .as_ref()
            .filter(|_| self.sorted == Sorted::Elements);
        let Some(tangent) = tangent else {
            return alone(self, primals);
        };
        let sort = Self {
            sorted: Sorted::Positions,
            ..*self
        };
        let positions = or_panic(bind_one(&sort, &[&primals[0]]));
        let sorted = |tensor: &Tensor| or_panic(take_along(tensor, &positions, self.axis));
        (one(sorted(&primals[0])), one(Some(sorted(tangent))))
    }

    fn batch(&self, operands: &[Tensor], axes: &[Option<usize>], _: &BatchAxis) -> Batched {
        let axis = axes[0].map_or(self.axis, |batch| batched_axis(self.axis, batch));
        let sort = Self { axis, ..*self };
        (
            one(or_panic(bind_one(&sort, &[&operands[0]]))),
            one(axes[0]),
        )
    }

    fn lower(&self, block: &mut Block<'_>, operands: &[Value], results: &Infos<'_>) -> Lowered {
        let operand = &operands[0];
        let indices = AbstractArray::new(DType::I32, &operand.info.shape);
        let positions = block.positions(&indices, self.axis);
        let elements = [operand.dtype(), operand.dtype(), DType::I32, DType::I32];
        let elements = elements.map(|dtype| AbstractArray::new(dtype, []));
        let infos = [operand.info.clone(), positions.info.clone()];
        let attributes = format_args!("dimension = {} : i64, is_stable = true", self.axis);
        let operands = [operand, &positions];
        let sorted = block.operation_with_regions(
            "stablehlo.sort",
            &operands,
            attributes,
            infos,
            |block| {
                block.region(elements, |block, pair| {
                    Ok(vec![is_before(block, self.descending, &pair[0], &pair[1])])
                })
            },
        )?;
        let result = match self.sorted {
            Sorted::Elements => &sorted[0],
            Sorted::Positions => &sorted[1],
        };
        if self.count.is_none() {
            return Ok(one(result.clone()));
        }
        let shape = &results[0].shape;
        let (start, stride): (PerAxis, PerAxis) = shape.iter().map(|_| (0, 1)).unzip();
        Ok(one(block.sliced(result, &start, shape, &stride)))
    }

    fn accepts_narrow(&self) -> bool {
        true
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
    use crate::primitives::convert::convert;
    use crate::primitives::shape::tests::rule_checks::{check_batching, check_tangent, noise};

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
        assert_eq!(
            sort(Sorted::Positions, &x, 0).unwrap(),
            Tensor::from([6, 2, 5, 0, 3, 4, 1])
        );
        assert_eq!(
            sort(Sorted::Positions, &Tensor::from([3, -1, 2]), 0).unwrap(),
            Tensor::from([1, 2, 0])
        );
        assert_eq!(
            sort(Sorted::Positions, &Tensor::from([u32::MAX, 0, 1]), 0).unwrap(),
            Tensor::from([1, 2, 0])
        );
        assert_eq!(
            sort(Sorted::Positions, &Tensor::from([true, false, true]), 0).unwrap(),
            Tensor::from([1, 0, 2])
        );
        assert_eq!(
            sort(
                Sorted::Positions,
                &Tensor::from(vec![i64::MAX, i64::MIN]),
                0
            )
            .unwrap(),
            Tensor::from([1, 0])
        );
        assert_eq!(
            sort(
                Sorted::Positions,
                &Tensor::from([[3.0_f32, 1.0], [2.0, 4.0]]),
                0
            )
            .unwrap(),
            Tensor::from([[1, 0], [0, 1]])
        );
        assert_eq!(
            sort(Sorted::Positions, &Tensor::zeros(DType::F32, [0, 2]), 0)
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
            let stable = sort(Sorted::Positions, &(Tensor::from(0) - &x), 1).unwrap();
            assert_eq!(all, stable);
            for count in [1_isize, 10, 100] {
                let found = greatest(&x, 1, count.unsigned_abs()).unwrap();
                assert_eq!(found, all.index(ix![.., ..count]));
            }
        }
    }

    #[test]
    fn rules_agree_with_evaluation() {
        for (axis, sorted) in (0..3)
            .flat_map(|axis| [Sorted::Elements, Sorted::Positions].map(|sorted| (axis, sorted)))
        {
            let sort = Sort {
                sorted,
                axis: 1,
                descending: axis == 1,
                count: (axis != 0).then_some(2),
            };
            let x = [noise(&[3, 4, 5], 1)];
            check_batching(&sort, &x, &[Some(axis)]);
            if sorted == Sorted::Elements {
                check_tangent(&sort, &x);
            }
        }
    }

    #[test]
    fn sorted_elements_keep_their_bits() {
        let x = Tensor::from([
            f64::from_bits(0xfff8_0000_0000_0001),
            0.0,
            -0.0,
            -1.0,
            f64::NAN,
        ]);
        let order = sort(Sorted::Positions, &x, 0).unwrap();
        let bits = |x: &Tensor| {
            x.to_vec::<f64>()
                .into_iter()
                .map(f64::to_bits)
                .collect::<Vec<_>>()
        };
        let sorted = sort(Sorted::Elements, &x, 0).unwrap();
        assert_eq!(bits(&sorted), bits(&take_along(&x, &order, 0).unwrap()));
        for &dtype in DType::ALL {
            let x = or_panic(convert(&(noise(&[7, 40], 2) * 9.0), dtype));
            for axis in [0, 1] {
                let order = sort(Sorted::Positions, &x, axis).unwrap();
                let taken = take_along(&x, &order, axis).unwrap();
                assert_eq!(sort(Sorted::Elements, &x, axis).unwrap(), taken);
            }
        }
    }
}
