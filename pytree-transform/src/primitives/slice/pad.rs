//! Padding of tensors. Negative padding removes elements.

use pytree_base::lists::Tuple;
use pytree_kernels::base::shape::{AxisList, PerAxis};
use pytree_kernels::loops::pad::Pad;
use smallvec::SmallVec;

use crate::primitives::create::{self, broadcast_in_dim, or_zeros};
use crate::primitives::prelude::*;
use crate::primitives::reduce;
use crate::primitives::select::select;
use crate::primitives::slice::part::{batched, inserted, slice};

/// Pads a tensor with the scalar `value`, see [`Pad`]. Returns the tensor itself if nothing changes.
#[track_caller]
pub(crate) fn pad(
    operand: &Tensor,
    value: &Tensor,
    low: &[isize],
    high: &[isize],
    interior: &[usize],
) -> Result<Tensor, TensorError> {
    let unchanged = low.iter().chain(high).all(|&padding| padding == 0)
        && interior.iter().all(|&padding| padding == 0);
    if unchanged && low.len() == operand.rank() {
        return Ok(operand.clone());
    }
    // Interior padding has no effect on an axis of length 0 or 1.
    let has_neighbours = |axis: usize| operand.shape().get(axis).is_none_or(|&length| length > 1);
    let pad = Pad {
        low: SmallVec::from_slice(low),
        high: SmallVec::from_slice(high),
        interior: (0..interior.len())
            .map(|axis| {
                if has_neighbours(axis) {
                    interior[axis]
                } else {
                    0
                }
            })
            .collect(),
    };
    bind_one(&pad, &[operand, value])
}
impl Primitive for Pad {
    fn name(&self) -> &'static str {
        "pad"
    }

    fn abstract_evaluation(&self, operands: &[&AbstractArray]) -> AbstractResults {
        let (operand, value) = (operands[0], operands[1]);
        if operand.dtype != value.dtype {
            return Err(TensorError::dtype(
                "pad",
                operands,
                "the same element type in the tensor and the padding value",
            ));
        }
        let paddings = [self.low.len(), self.high.len(), self.interior.len()];
        let shape = if paddings == [operand.rank(); 3] {
            self.result_shape(&operand.shape)
        } else {
            None
        };
        match shape {
            Some(shape) if value.rank() == 0 => Ok(one(AbstractArray {
                dtype: operand.dtype,
                shape,
            })),
            _ => {
                let Self {
                    low,
                    high,
                    interior,
                } = self;
                let problem = format!(
                    "the paddings low {low:?}, high {high:?} and interior {interior:?} do not fit the tensor"
                );
                let fix = "for each axis, pass one low, one high and one interior number, which together remove at most the length of the axis, and pass a scalar value";
                Err(TensorError::shape("pad", operands, problem, fix))
            }
        }
    }

    fn evaluate(&self, operands: Operands) -> Outputs<Array> {
        let [operand, value] = take(operands);
        one(self.evaluate(&operand, &value))
    }

    fn jvp(&self, primals: &[Tensor], tangents: &[Option<Tensor>]) -> WithTangents {
        let padded = |operand: &Tensor, value: &Tensor| {
            or_panic(pad(operand, value, &self.low, &self.high, &self.interior))
        };
        let tangent = match (&tangents[0], &tangents[1]) {
            (None, None) => None,
            (operand, value) => {
                let operand = or_zeros(operand.as_ref(), primals[0].info());
                let value = or_zeros(value.as_ref(), primals[1].info());
                Some(padded(&operand, &value))
            }
        };
        (one(padded(&primals[0], &primals[1])), one(tangent))
    }

    /// Computes the cotangent of the operand by negative padding and a stride, which are the inverse of the padding.
    /// The cotangent of the padding value is the sum of the cotangents of all padded elements.
    fn transpose(&self, cotangents: &[Option<Tensor>], operands: &[Linear]) -> Cotangents {
        let Some(cotangent) = &cotangents[0] else {
            return smallvec![None, None];
        };
        let axes: AxisList = (0..cotangent.rank()).collect();
        let negated = |paddings: &[isize]| {
            paddings
                .iter()
                .map(|padding| -padding)
                .collect::<PerAxis<isize>>()
        };
        let zero = Tensor::constant(cotangent.dtype(), 0.0);
        let none: PerAxis = smallvec![0; axes.len()];
        let cropped = or_panic(pad(
            cotangent,
            &zero,
            &negated(&self.low),
            &negated(&self.high),
            &none,
        ));
        let stride: PerAxis = self.interior.iter().map(|interior| interior + 1).collect();
        let of_operand = or_panic(slice(&cropped, &none, cropped.shape(), &stride));
        let of_value = operands[1].is_unknown().then(|| {
            let all = or_panic(reduce::sum(cotangent, &axes));
            all - or_panic(reduce::sum(&of_operand, &axes))
        });
        smallvec![operands[0].is_unknown().then_some(of_operand), of_value]
    }

    fn batch(&self, operands: &[Tensor], axes: &[Option<usize>], batch: &BatchAxis) -> Batched {
        let size = batch.size;
        let batch = axes[0].unwrap_or(0);
        let operand = or_panic(batched(&operands[0], axes[0], size));
        let (low, high, interior) = (
            inserted(&self.low, batch, 0),
            inserted(&self.high, batch, 0),
            inserted(&self.interior, batch, 0),
        );
        let padded = |operand: &Tensor, value: &Tensor| {
            or_panic(pad(operand, value, &low, &high, &interior))
        };
        let result = if axes[1].is_none() {
            padded(&operand, &operands[1])
        } else {
            // Each example has its own padding value. So fill the result with the padding values, and overwrite the
            // positions of the elements.
            let zeros = padded(&operand, &Tensor::constant(operand.dtype(), 0.0));
            let inside = or_panic(create::full(DType::Bool, operand.shape(), 1.0));
            let inside = padded(&inside, &Tensor::constant(DType::Bool, 0.0));
            let values = or_panic(broadcast_in_dim(&operands[1], zeros.shape(), &[batch]));
            or_panic(select(&inside, &zeros, &values))
        };
        (one(result), one(Some(batch)))
    }

    fn lower(&self, block: &mut Block<'_>, operands: &[Value], _: &Infos<'_>) -> Lowered {
        let (low, high, interior) = (&self.low, &self.high, &self.interior);
        Ok(one(block.padded(
            &operands[0],
            &operands[1],
            low,
            high,
            interior,
        )))
    }

    fn accepts_narrow(&self) -> bool {
        true
    }

    fn write_parameters(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let axes = self.low.iter().zip(&self.high).zip(&self.interior);
        let axes = axes.map(|((low, high), interior)| format!("({low}, {high}, {interior})"));
        write!(f, "padding_config={}", Tuple(axes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::primitives::shape::tests::rule_checks::{
        check_batching, check_tangent, check_transpose, noise,
    };

    fn pad_of(low: [isize; 2], high: [isize; 2], interior: [usize; 2]) -> Pad {
        Pad {
            low: SmallVec::from_slice(&low),
            high: SmallVec::from_slice(&high),
            interior: PerAxis::from_slice(&interior),
        }
    }

    #[test]
    fn pad_adds_before_between_and_after() {
        let x = Tensor::from([1, 2, 3]);
        let padded = |low, high, interior| {
            pad(&x, &Tensor::from(0), &[low], &[high], &[interior])
                .unwrap()
                .to_vec::<i32>()
        };
        assert_eq!(padded(1, 2, 1), [0, 1, 0, 2, 0, 3, 0, 0]);
        assert_eq!(padded(-1, 0, 0), [2, 3]);
        assert_eq!(padded(-1, 0, 1), [0, 2, 0, 3]);
        assert_eq!(padded(-2, -2, 1), [2]);
        assert_eq!(padded(-3, 2, 0), [0, 0]);
        assert_eq!(padded(2, -4, 0), [0]);
        assert!(pad(&x, &Tensor::from(0), &[-2], &[-2], &[0]).is_err());
        let nothing = Tensor::zeros(DType::I32, [0]);
        assert_eq!(
            pad(&nothing, &Tensor::from(7), &[1], &[1], &[5]).unwrap(),
            Tensor::from([7, 7])
        );
    }

    #[test]
    fn rules_of_padding_agree_with_evaluation() {
        for pad in [
            pad_of([1, 0], [0, 2], [0, 0]),
            pad_of([-1, 1], [2, -1], [1, 2]),
            pad_of([0, -2], [-1, 3], [0, 1]),
        ] {
            let operands = [noise(&[4, 5], 1), noise(&[], 2)];
            check_transpose(&pad, &operands, 0);
            check_transpose(&pad, &operands, 1);
            check_tangent(&pad, &operands);
            for (axis, shape) in [(0, [3, 4, 5]), (1, [4, 3, 5]), (2, [4, 5, 3])] {
                check_batching(
                    &pad,
                    &[noise(&shape, 1), noise(&[], 2)],
                    &[Some(axis), None],
                );
                check_batching(
                    &pad,
                    &[noise(&shape, 1), noise(&[3], 2)],
                    &[Some(axis), Some(0)],
                );
            }
            check_batching(&pad, &[noise(&[4, 5], 1), noise(&[3], 2)], &[None, Some(0)]);
        }
    }
}
