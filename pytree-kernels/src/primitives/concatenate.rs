//! The concatenation of arrays.

use std::sync::Arc;

use crate::base::array::{Array, reused_bits};
use crate::base::bits::with_bits;

/// Concatenates arrays along an axis. They have the same dtype, and the same lengths on all other axes.
pub fn evaluate(operands: &[Arc<Array>], axis: usize) -> Array {
    let mut shape = operands[0].info.shape.clone();
    shape[axis] = operands.iter().map(|operand| operand.shape()[axis]).sum();
    let outer: usize = shape[..axis].iter().product();
    let dtype = operands[0].dtype();
    with_bits!(dtype, T => {
        let mut elements = reused_bits::<T>(dtype, shape.iter().product());
        let mut at = 0;
        for row in 0..outer {
            for operand in operands {
                let part = operand.bits::<T>();
                let length = part.len() / outer;
                elements[at..at + length].copy_from_slice(&part[row * length..][..length]);
                at += length;
            }
        }
        Array::from_bits(dtype, &shape, elements)
    })
}
