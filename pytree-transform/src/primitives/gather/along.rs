//! Gathers along an axis at indices of their own for each position on the other axes.

use pytree_kernels::loops::gather::{self, Outside};

use super::scatter_add::ScatterAdd;
use super::take::{Take, take_along_last};
use crate::primitives::prelude::*;
use crate::primitives::shape::{batch_axis_first, move_axis};
use crate::tensor::primitive::take as take_operands;

/// Returns the elements along `axis` at the indices. All axes of the indices except `axis` have the same lengths as in the operand.
/// Indices out of range are clamped to the nearest end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct TakeAlong {
    axis: usize,
}

/// Returns the elements along `axis` at `indices`. All other axes of `indices` have the same lengths as in the operand.
#[track_caller]
pub(crate) fn take_along(
    operand: &Tensor,
    indices: &Tensor,
    axis: usize,
) -> Result<Tensor, TensorError> {
    if axis + 1 == operand.rank() {
        return take_along_last(operand, indices);
    }
    bind_one(&TakeAlong { axis }, &[operand, indices])
}

impl TakeAlong {
    fn bind(self, operand: &Tensor, indices: &Tensor) -> Tensor {
        or_panic(bind_one(&self, &[operand, indices]))
    }

    /// Applies a function to tensors whose axis is the last one.
    fn on_last(
        self,
        [operand, indices]: [&Tensor; 2],
        function: impl FnOnce(&Tensor, &Tensor) -> Tensor,
    ) -> Tensor {
        let last = operand.rank() - 1;
        let [operand, indices] =
            [operand, indices].map(|tensor| or_panic(move_axis(tensor, self.axis, last)));
        or_panic(move_axis(&function(&operand, &indices), last, self.axis))
    }
}

impl Primitive for TakeAlong {
    fn name(&self) -> &'static str {
        "take_along_axis"
    }

    fn abstract_evaluation(&self, operands: &[&AbstractArray]) -> AbstractResults {
        let last = operands[0].rank() - 1;
        let on_last = |info: &AbstractArray| {
            let mut shape = info.shape.clone();
            let length = shape.remove(self.axis);
            shape.push(length);
            AbstractArray::new(info.dtype, shape)
        };
        let take = Take::clamped(last, last);
        take.abstract_evaluation(&[&on_last(operands[0]), &on_last(operands[1])])?;
        let shape = &operands[1].shape;
        Ok(one(AbstractArray::new(operands[0].dtype, shape)))
    }

    fn evaluate(&self, operands: Operands) -> Outputs<Array> {
        let [operand, indices] = take_operands(operands);
        one(gather::gather_along(&operand, &indices, self.axis))
    }

    fn jvp(&self, primals: &[Tensor], tangents: &[Option<Tensor>]) -> WithTangents {
        let tangent = tangents[0].as_ref();
        let tangent = tangent.map(|tangent| self.bind(tangent, &primals[1]));
        (one(self.bind(&primals[0], &primals[1])), one(tangent))
    }

    fn transpose(&self, cotangents: &[Option<Tensor>], operands: &[Linear]) -> Cotangents {
        let shape = operands[0].info().shape;
        let scatter = ScatterAdd {
            axis: shape.len() - 1,
            length: shape[self.axis],
            outside: Outside::Clamp,
            batch_axes: shape.len() - 1,
        };
        let scattered = |cotangent: &Tensor| {
            let operands = [cotangent, operands[1].known()];
            self.on_last(operands, |updates, indices| scatter.bind(updates, indices))
        };
        smallvec![cotangents[0].as_ref().map(scattered), None]
    }

    fn batch(&self, operands: &[Tensor], axes: &[Option<usize>], batch: &BatchAxis) -> Batched {
        let front = |operand: usize| {
            or_panic(batch_axis_first(
                &operands[operand],
                axes[operand],
                batch.size,
            ))
        };
        let axis = self.axis + 1;
        let result = Self { axis }.bind(&front(0), &front(1));
        (one(result), one(Some(0)))
    }

    fn lower(&self, block: &mut Block<'_>, operands: &[Value], _: &Infos<'_>) -> Lowered {
        let taken = |x: &[Tensor]| {
            let taken = |x: &Tensor, at: &Tensor| or_panic(take_along_last(x, at));
            vec![self.on_last([&x[0], &x[1]], taken)]
        };
        Ok(block.computed(operands, taken)?.into())
    }

    fn accepts_narrow(&self) -> bool {
        true
    }

    fn write_parameters(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "axis={}", self.axis)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::primitives::shape::tests::rule_checks::{
        check_batching, check_tangent, check_transpose, noise,
    };

    /// Indices of an axis of length 4, from the end too, and out of range.
    fn indices(shape: &[usize]) -> Tensor {
        let count: usize = shape.iter().product();
        let numbers = (0..).map(|n: i32| n.wrapping_mul(7) % 11 - 5);
        Tensor::new(shape, numbers.take(count).collect::<Vec<_>>())
    }

    #[test]
    fn elements_are_those_along_the_last_axis() {
        for (shape, at, axis) in [
            (&[4, 3][..], &[5, 3][..], 0),
            (&[2, 4, 3], &[2, 1, 3], 1),
            (&[4, 70, 90], &[3, 70, 90], 0),
            (&[4, 0], &[5, 0], 0),
            (&[4, 3], &[0, 3], 0),
        ] {
            let (x, at) = (noise(shape, 1), indices(at));
            let take = TakeAlong { axis };
            let expected = take.on_last([&x, &at], |x, at| take_along_last(x, at).unwrap());
            assert_eq!(take_along(&x, &at, axis).unwrap(), expected);
        }
    }

    #[test]
    fn rules_agree_with_evaluation() {
        let take = TakeAlong { axis: 1 };
        let (x, at) = (noise(&[2, 4, 3], 1), indices(&[2, 5, 3]));
        check_tangent(&take, &[x.clone(), at.clone()]);
        check_transpose(&take, &[x.clone(), at.clone()], 0);
        let (of_x, of_at) = (noise(&[2, 4, 6, 3], 2), indices(&[2, 5, 3, 6]));
        check_batching(&take, &[of_x.clone(), at], &[Some(2), None]);
        check_batching(&take, &[x, of_at.clone()], &[None, Some(3)]);
        check_batching(&take, &[of_x, of_at], &[Some(2), Some(3)]);
    }
}
