//! Gathers, which read slices of a tensor at indices. The transpose of a gather adds slices at indices.
//!
//! The operands of both primitives may share leading batch axes. So the batching rule of each primitive returns the
//! same primitive with one more batch axis.

mod along;
mod scatter;
mod scatter_add;
mod take;

use pytree_kernels::loops::gather::{self, Outside};

use self::take::{behind_parallel_axes, check_indices, lower_positions, write_batch_axes};
use crate::primitives::prelude::*;
use crate::primitives::shape::batch_axis_first;
use crate::tensor::primitive::take as take_operands;

pub(crate) use self::along::take_along;
pub(crate) use self::scatter::{Scatter, scatter_by};
pub(crate) use self::scatter_add::{ScatterAdd, scatter_add};
pub(crate) use self::take::{Take, take, take_along_last};

impl Primitive for Take {
    fn name(&self) -> &'static str {
        "take"
    }

    fn abstract_evaluation(&self, operands: &[&AbstractArray]) -> AbstractResults {
        let (operand, indices) = (operands[0], operands[1]);
        check_indices("take from", operands)?;
        if self.axis >= operand.rank() {
            return Err(TensorError::axis("take from", operand, self.axis));
        }
        let parallel = operand.shape.get(..self.batch_axes);
        if self.axis < self.batch_axes || parallel != indices.shape.get(..self.batch_axes) {
            return Err(TensorError::shape(
                "take from",
                &[operand, indices],
                format!("the tensors differ in the first {} axes", self.batch_axes),
                "broadcast one of them",
            ));
        }
        if operand.shape[self.axis] == 0 && !indices.is_empty() {
            return Err(TensorError::shape(
                "take from",
                &[operand, indices],
                format!("axis {} has no elements to take", self.axis),
                "take from a tensor whose axis is not empty",
            ));
        }
        let shape = self.result_shape(&operand.shape, &indices.shape);
        Ok(one(AbstractArray {
            dtype: operand.dtype,
            shape,
        }))
    }

    fn evaluate(&self, operands: Operands) -> Outputs<Array> {
        let [operand, indices] = take_operands(operands);
        let blocks = self.blocks(operand.shape());
        let shape = self.result_shape(operand.shape(), indices.shape());
        let outside = self.outside;
        one(gather::gather(&operand, &indices, outside, &blocks, shape))
    }

    fn jvp(&self, primals: &[Tensor], tangents: &[Option<Tensor>]) -> WithTangents {
        let tangent = tangents[0]
            .as_ref()
            .map(|tangent| self.bind(tangent, &primals[1]));
        (one(self.bind(&primals[0], &primals[1])), one(tangent))
    }

    fn transpose(&self, cotangents: &[Option<Tensor>], operands: &[Linear]) -> Cotangents {
        let scatter = ScatterAdd::of(*self, &operands[0].info());
        smallvec![
            cotangents[0]
                .as_ref()
                .map(|cotangent| scatter.bind(cotangent, operands[1].known())),
            None
        ]
    }

    fn batch(&self, operands: &[Tensor], axes: &[Option<usize>], batch: &BatchAxis) -> Batched {
        let size = batch.size;
        let (operand, indices) = (&operands[0], &operands[1]);
        let first = self.batch_axes;
        let (result, axis) = match (axes[0], axes[1]) {
            (Some(batch), None) => {
                // The batch axis must come after the leading axes that both operands have in common.
                let (operand, batch) = behind_parallel_axes(operand, batch, first);
                let take = Self {
                    axis: self.axis + usize::from(batch <= self.axis),
                    ..*self
                };
                let axis = if batch < take.axis {
                    batch
                } else {
                    batch + indices.rank() - first - 1
                };
                (take.bind(&operand, indices), axis)
            }
            (None, Some(batch)) => {
                let (indices, batch) = behind_parallel_axes(indices, batch, first);
                (self.bind(operand, &indices), self.axis + batch - first)
            }
            _ => {
                let operand = or_panic(batch_axis_first(operand, axes[0], size));
                let indices = or_panic(batch_axis_first(indices, axes[1], size));
                (
                    Self {
                        axis: self.axis + 1,
                        batch_axes: first + 1,
                        ..*self
                    }
                    .bind(&operand, &indices),
                    0,
                )
            }
        };
        (one(result), one(Some(axis)))
    }

    fn lower(&self, block: &mut Block<'_>, operands: &[Value], results: &Infos<'_>) -> Lowered {
        if self.outside == Outside::Drop {
            let inside = |x: &[Tensor]| {
                let taken = Self::clamped(self.axis, self.batch_axes).bind(&x[0], &x[1]);
                let scatter = ScatterAdd::of(*self, x[0].info());
                vec![or_panic(scatter.without_dropped(&taken, &x[1]))]
            };
            return Ok(block.computed(operands, inside)?.into());
        }
        let length = operands[0].shape()[self.axis];
        let indices = lower_positions(block, &operands[1], length, Outside::Clamp);
        let axes = self.gather_axes(operands[0].rank(), indices.rank());
        Ok(one(block.gathered(
            &operands[0],
            &indices,
            &axes,
            results[0],
        )))
    }

    fn accepts_narrow(&self) -> bool {
        true
    }

    fn write_parameters(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "axis={}", self.axis)?;
        if self.outside == Outside::Drop {
            f.write_str(" outside=drop")?;
        }
        write_batch_axes(f, self.batch_axes)
    }
}

#[cfg(test)]
mod tests {
    use pytree_kernels::base::dtype::DType;

    use super::*;
    use crate::primitives::shape::tests::rule_checks::{
        all_indices, check_batching, check_tangent, check_transpose, noise,
    };

    /// Returns pseudo-random indices of an axis of length 4.
    fn indices(shape: &[usize], seed: u32) -> Tensor {
        let length = noise(shape, seed)
            .to_vec::<f64>()
            .iter()
            .map(|number| i32::from(*number > 0.0) + i32::from(number.abs() > 0.5) * 2)
            .collect::<Vec<_>>();
        Tensor::new(shape, length)
    }

    #[test]
    fn take_reads_at_the_indices() {
        for (shape, at, axis) in [
            (&[4][..], &[6][..], 0),
            (&[4, 3], &[2, 3], 0),
            (&[2, 4], &[], 1),
            (&[2, 4, 3], &[5], 1),
        ] {
            let (x, at) = (noise(shape, 1), indices(at, 2));
            let y = take(&x, &at, axis).unwrap();
            let (x, y) = (x.view::<f64>().unwrap(), y.view::<f64>().unwrap());
            let at = at.view::<i32>().unwrap();
            for index in all_indices(y.shape()) {
                let position = at[&index[axis..axis + at.ndim()]].unsigned_abs() as usize;
                let source = [&index[..axis], &[position], &index[axis + at.ndim()..]].concat();
                assert_eq!(y[&index[..]].to_bits(), x[&source[..]].to_bits());
            }
        }
    }

    #[test]
    fn out_of_range_indices_are_clamped() {
        let x = Tensor::from([10, 20, 30]);
        assert_eq!(
            take(&x, &Tensor::from([-5, 1, 9, -1, -3]), 0).unwrap(),
            Tensor::from([10, 20, 30, 30, 10])
        );
        assert_eq!(
            take(&x, &Tensor::from([u32::MAX]), 0).unwrap(),
            Tensor::from([30])
        );
        assert_eq!(
            take(&x, &Tensor::from(vec![i64::MIN, i64::MAX]), 0).unwrap(),
            Tensor::from([10, 30])
        );
    }

    #[test]
    fn out_of_range_slices_are_zeros() {
        let take = Take {
            axis: 1,
            outside: Outside::Drop,
            batch_axes: 0,
        };
        let x = Tensor::from([[10, 20, 30], [1, 2, 3]]);
        assert_eq!(
            take.bind(&x, &Tensor::from([-4, 1, 3, -3])),
            Tensor::from([[0, 20, 0, 10], [0, 2, 0, 1]])
        );
    }

    #[test]
    fn cotangents_of_dropped_updates_are_zeros() {
        let at = Tensor::from([2, 0, 3, -4, 2]);
        let scatter = ScatterAdd {
            axis: 0,
            length: 3,
            outside: Outside::Drop,
            batch_axes: 0,
        };
        let cotangent = noise(&[3, 20], 1);
        let updates = AbstractArray::new(DType::F64, [5, 20]);
        let operands = [Linear::Unknown(updates), Linear::Known(at.clone())];
        let found = scatter.transpose(&[Some(cotangent.clone())], &operands);
        let taken = Take::clamped(0, 0).bind(&cotangent, &at);
        let expected = scatter.without_dropped(&taken, &at).unwrap();
        assert_eq!(found[0].as_ref(), Some(&expected));
    }

    #[test]
    fn scatter_adds_repeated_indices() {
        let scatter = ScatterAdd {
            axis: 0,
            length: 3,
            outside: Outside::Clamp,
            batch_axes: 0,
        };
        let updates = Tensor::from([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]);
        let y = scatter.bind(&updates, &Tensor::from([2, 0, 2]));
        assert_eq!(y, Tensor::from([[3.0, 4.0], [0.0, 0.0], [6.0, 8.0]]));
    }

    #[test]
    fn take_from_empty_axis_is_an_error() {
        let x = Tensor::zeros(DType::F32, [0, 2]);
        assert!(take(&x, &Tensor::from([0]), 0).is_err());
        assert_eq!(
            take(&x, &Tensor::zeros(DType::I32, [0]), 0)
                .unwrap()
                .shape(),
            [0, 2]
        );
        assert!(take(&x, &Tensor::from([0.0]), 1).is_err());
    }

    #[test]
    fn parallel_axes_are_those_of_both() {
        let x = Tensor::zeros(DType::F32, [2, 3]);
        assert!(take_along_last(&x, &Tensor::zeros(DType::I32, [2, 5])).is_ok());
        for at in [&[3, 5][..], &[]] {
            let error = take_along_last(&x, &Tensor::zeros(DType::I32, at)).unwrap_err();
            assert!(
                error.to_string().contains("differ in the first 1 axes"),
                "{error}"
            );
        }
    }

    #[test]
    fn rules_agree_with_evaluation() {
        let with_batch = |shape: &[usize], axis: usize| {
            let mut shape = shape.to_vec();
            shape.insert(axis, 3);
            shape
        };
        // The shape of the operand, the shape of the indices, the axis, and the number of shared batch axes.
        for (shape, at, axis, batch_axes) in [
            (&[4, 2][..], &[5][..], 0, 0),
            (&[2, 4, 3], &[2, 2], 1, 0),
            (&[2, 4], &[], 1, 0),
            (&[2, 3, 4, 2], &[2, 5], 2, 1),
        ] {
            let take = Take::clamped(axis, batch_axes);
            // The index 3 is out of range of the length 3.
            let [clamped, dropped] =
                [(4, Outside::Clamp), (3, Outside::Drop)].map(|(length, outside)| ScatterAdd {
                    axis,
                    length,
                    outside,
                    batch_axes,
                });
            let updates = take.result_shape(shape, at);
            let inside = Take {
                outside: Outside::Drop,
                ..take
            };
            let mut short = shape.to_vec();
            short[axis] = 3;
            let cases: [(&dyn Primitive, &[usize]); 4] = [
                (&take, shape),
                (&inside, &short),
                (&clamped, &updates),
                (&dropped, &updates),
            ];
            for (primitive, shape) in cases {
                check_transpose(primitive, &[noise(shape, 1), indices(at, 2)], 0);
                check_tangent(primitive, &[noise(shape, 1), indices(at, 2)]);
                for left in 0..=shape.len() {
                    let operand = noise(&with_batch(shape, left), 3);
                    check_batching(
                        primitive,
                        &[operand.clone(), indices(at, 2)],
                        &[Some(left), None],
                    );
                    for right in 0..=at.len() {
                        let at = indices(&with_batch(at, right), 4);
                        check_batching(
                            primitive,
                            &[operand.clone(), at.clone()],
                            &[Some(left), Some(right)],
                        );
                        check_batching(primitive, &[noise(shape, 1), at], &[None, Some(right)]);
                    }
                }
            }
        }
    }
}
