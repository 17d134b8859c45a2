//! Random bits: the block function of Threefry, JAX's counter-based generator.

use pytree_base::bug::bug;
use pytree_kernels::loops::threefry::{self, GROUPS, PARITY, ROTATIONS};

use crate::primitives::elementwise::{align_batch, aligned_axis, same_info};
use crate::primitives::prelude::*;
use crate::tensor::trace::bind;

/// Applies Threefry-2x32 with 20 rounds elementwise: maps two words of a key and two words of a counter to two words of
/// random bits (Salmon et al., "Parallel Random Numbers: As Easy as 1, 2, 3", 2011).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Threefry2x32;

/// Returns the two words of random bits for keys and counters. All operands are u32 tensors of one shape.
#[track_caller]
pub(crate) fn threefry2x32(
    key0: &Tensor,
    key1: &Tensor,
    count0: &Tensor,
    count1: &Tensor,
) -> Result<(Tensor, Tensor), TensorError> {
    let results = bind(&Threefry2x32, &[key0, key1, count0, count1])?;
    match <[Tensor; 2]>::try_from(results.into_vec()) {
        Ok([first, second]) => Ok((first, second)),
        Err(results) => bug(format_args!(
            "two results of threefry2x32, found {}",
            results.len()
        )),
    }
}

/// Writes the operations of [`threefry::block`]. `words` holds the two words of the key, followed by the two words of the
/// counter.
fn lower_block(block: &mut Block<'_>, words: &[Value]) -> Vec<Value> {
    const ADD: &str = "stablehlo.add";
    const XOR: &str = "stablehlo.xor";
    let [key0, key1] = [&words[0], &words[1]];
    let both = block.binary(XOR, key0, key1);
    let parity = block.filled(&key0.info, PARITY);
    let keys = [
        key0.clone(),
        key1.clone(),
        block.binary(XOR, &both, &parity),
    ];
    let mut x = [
        block.binary(ADD, &words[2], &keys[0]),
        block.binary(ADD, &words[3], &keys[1]),
    ];
    for group in 0..GROUPS {
        let turn = usize::from(group);
        for rotation in ROTATIONS[turn % 2] {
            x[0] = block.binary(ADD, &x[0], &x[1]);
            let [up, down] = [rotation, u32::BITS - rotation];
            let up = block.binary_with("stablehlo.shift_left", &x[1], up.into());
            let down = block.binary_with("stablehlo.shift_right_logical", &x[1], down.into());
            let rotated = block.binary("stablehlo.or", &up, &down);
            x[1] = block.binary(XOR, &rotated, &x[0]);
        }
        x[0] = block.binary(ADD, &x[0], &keys[(turn + 1) % 3]);
        x[1] = block.binary(ADD, &x[1], &keys[(turn + 2) % 3]);
        x[1] = block.binary_with(ADD, &x[1], (group + 1).into());
    }
    x.into()
}

impl Primitive for Threefry2x32 {
    fn name(&self) -> &'static str {
        "threefry2x32"
    }

    fn abstract_evaluation(&self, operands: &[&AbstractArray]) -> AbstractResults {
        if operands.iter().any(|operand| operand.dtype != DType::U32) {
            return Err(TensorError::dtype("draw random bits with", operands, "u32"));
        }
        same_info("draw random bits with", operands)?;
        Ok(smallvec![operands[0].clone(), operands[0].clone()])
    }

    fn evaluate(&self, operands: Operands) -> Outputs<Array> {
        let [key0, key1, count0, count1] = take(operands);
        threefry::evaluate(&key0, &key1, count0, count1)
            .into_iter()
            .collect()
    }

    fn jvp(&self, primals: &[Tensor], _: &[Option<Tensor>]) -> WithTangents {
        alone(self, primals)
    }

    fn batch(&self, operands: &[Tensor], axes: &[Option<usize>], batch: &BatchAxis) -> Batched {
        let size = batch.size;
        let aligned = align_batch(operands, axes, size);
        let axis = Some(aligned_axis(axes));
        let (first, second) = or_panic(threefry2x32(
            &aligned[0],
            &aligned[1],
            &aligned[2],
            &aligned[3],
        ));
        (smallvec![first, second], smallvec![axis, axis])
    }

    fn lower(&self, block: &mut Block<'_>, operands: &[Value], _: &Infos<'_>) -> Lowered {
        block
            .call_shared("threefry2x32", operands, |block, words| {
                Ok(lower_block(block, words))
            })
            .map(Into::into)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::primitives::shape::tests::rule_checks::{check_batching, noise};

    #[test]
    fn batching_agrees_with_evaluation() {
        let words = |shape: &[usize], seed| {
            let numbers = noise(shape, seed).to_vec::<f64>();
            #[allow(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "only bits are needed"
            )]
            Tensor::new(
                shape,
                numbers
                    .iter()
                    .map(|number| (number.abs() * 4e9) as u32)
                    .collect::<Vec<_>>(),
            )
        };
        let operands = [
            words(&[2, 3], 1),
            words(&[2], 2),
            words(&[3, 2], 3),
            words(&[2], 4),
        ];
        check_batching(&Threefry2x32, &operands, &[Some(1), None, Some(0), None]);
    }

    #[test]
    fn only_u32_of_one_shape_is_accepted() {
        let (word, words) = (Tensor::from(1_u32), Tensor::from([1_u32, 2]));
        assert!(threefry2x32(&word, &word, &words, &words).is_err());
        assert!(threefry2x32(&word, &word, &word, &Tensor::from(1)).is_err());
    }
}
