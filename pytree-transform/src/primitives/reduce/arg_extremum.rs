//! The positions of extrema along an axis.

use pytree_base::lists::Tuple;
use pytree_kernels::base::shape::without_axes;
use pytree_kernels::loops::reduction::{self, Extremum};

use super::axes::{axes_exist, batched_axes, not_empty};
use crate::primitives::prelude::*;
use crate::primitives::shape::check_positions;
use crate::tensor::stablehlo::{Bound, bound};

/// Returns the position of the first extremum along an axis, as i32. NaN is more extreme than all numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ArgExtremum {
    pub(crate) extremum: Extremum,
    pub(crate) axis: usize,
}

/// Returns the position of the first extremum along an axis.
#[track_caller]
pub(crate) fn argument_of(
    extremum: Extremum,
    operand: &Tensor,
    axis: usize,
) -> Result<Tensor, TensorError> {
    bind_one(&ArgExtremum { extremum, axis }, &[operand])
}

/// Selects the better of two elements, with its position. NaN is better than a number. If both elements are equally
/// good, the first is selected.
fn better_of(block: &mut Block<'_>, direction: &str, pair: &[Value]) -> Vec<Value> {
    let [left, left_place, right, right_place] = [&pair[0], &pair[1], &pair[2], &pair[3]];
    let both = |block: &mut Block<'_>, x: &Value, y: &Value| block.binary("stablehlo.and", x, y);
    let either = |block: &mut Block<'_>, x: &Value, y: &Value| block.binary("stablehlo.or", x, y);
    let is_extremum = block.comparison(direction, left, right);
    let left_is_number = block.comparison("EQ", left, left);
    let right_is_number = block.comparison("EQ", right, right);
    let left_is_not = block.unary("stablehlo.not", &left_is_number);
    let right_is_not = block.unary("stablehlo.not", &right_is_number);
    let is_first_nan = both(block, &left_is_not, &right_is_number);
    let is_better = either(block, &is_extremum, &is_first_nan);
    let is_equal = block.comparison("EQ", left, right);
    let are_nan = both(block, &left_is_not, &right_is_not);
    let is_tie = either(block, &is_equal, &are_nan);
    let is_before = block.comparison("LT", left_place, right_place);
    let wins_tie = both(block, &is_tie, &is_before);
    let is_left = either(block, &is_better, &wins_tie);
    vec![
        block.selection(&is_left, left, right),
        block.selection(&is_left, left_place, right_place),
    ]
}

impl Primitive for ArgExtremum {
    fn name(&self) -> &'static str {
        match self.extremum {
            Extremum::Max => "argmax",
            Extremum::Min => "argmin",
        }
    }

    fn abstract_evaluation(&self, operands: &[&AbstractArray]) -> AbstractResults {
        let operand = operands[0];
        axes_exist(Primitive::name(self), operand, &[self.axis])?;
        not_empty(Primitive::name(self), operand, &[self.axis])?;
        check_positions(Primitive::name(self), operand, self.axis)?;
        Ok(one(AbstractArray {
            dtype: DType::I32,
            shape: without_axes(&operand.shape, &[self.axis]),
        }))
    }

    fn evaluate(&self, operands: Operands) -> Outputs<Array> {
        let [operand] = take(operands);
        one(reduction::argument(self.extremum, &operand, self.axis))
    }

    fn jvp(&self, primals: &[Tensor], _: &[Option<Tensor>]) -> WithTangents {
        alone(self, primals)
    }

    fn batch(&self, operands: &[Tensor], axes: &[Option<usize>], _: &BatchAxis) -> Batched {
        let Some(batch) = axes[0] else {
            return alone(self, operands);
        };
        let (axes, batch) = batched_axes(&[self.axis], batch);
        (
            one(or_panic(argument_of(self.extremum, &operands[0], axes[0]))),
            one(Some(batch)),
        )
    }

    fn lower(&self, block: &mut Block<'_>, operands: &[Value], _: &Infos<'_>) -> Lowered {
        let operand = &operands[0];
        let positions = AbstractArray::new(DType::I32, &operand.info.shape);
        let positions = block.positions(&positions, self.axis);
        let (direction, worst) = match self.extremum {
            Extremum::Max => ("GT", Bound::Least),
            Extremum::Min => ("LT", Bound::Greatest),
        };
        let element = AbstractArray::new(operand.dtype(), []);
        let starts = [
            block.splat(&element, &bound(operand.dtype(), worst)),
            block.filled(&AbstractArray::new(DType::I32, []), i32::MAX),
        ];
        let results = block.reduced_by(
            &[operand, &positions],
            &starts,
            &[self.axis],
            |block, pair| Ok(better_of(block, direction, pair)),
        )?;
        Ok(results.into_iter().skip(1).collect())
    }

    fn accepts_narrow(&self) -> bool {
        true
    }

    fn write_parameters(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "axes={} index_dtype=i32", Tuple(&[self.axis]))
    }
}
