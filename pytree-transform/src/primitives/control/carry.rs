//! Code shared by the loops. A carried value has a batch axis, or a tangent, in all iterations if it gets one in any
//! iteration. The set of such values is the least fixed point of the body's rule.

use pytree_core::bug::pairs;

use crate::base::error::or_panic;
use crate::primitives::create::zeros;
use crate::primitives::shape::batch_axis_first;
use crate::tensor::Tensor;

/// What the body of a loop must return.
pub(super) const CARRY: &str = "a value for each carried value";

/// Sets more and more of the flags in `first`, until `step` does not change them. Also returns the last result of
/// `step`.
///
/// `step` maps the flags of the carry before an iteration to the flags of the carry after it.
pub(super) fn fixed_point<D>(
    first: Vec<bool>,
    mut step: impl FnMut(&[bool]) -> (Vec<bool>, D),
) -> (Vec<bool>, D) {
    let mut flags = first;
    loop {
        let (after, derived) = step(&flags);
        let grown: Vec<bool> = pairs(&flags, after, CARRY)
            .map(|(before, after)| *before || after)
            .collect();
        if grown == flags {
            return (flags, derived);
        }
        flags = grown;
    }
}

/// Returns the tangents, with zeros for carried values that receive a tangent only in the loop.
pub(super) fn with_carry_tangents(
    primals: &[Tensor],
    tangents: &[Option<Tensor>],
    first: usize,
    carry: &[bool],
) -> Vec<Option<Tensor>> {
    let mut tangents = tangents.to_vec();
    for (position, _) in carry.iter().enumerate().filter(|(_, active)| **active) {
        let place = first + position;
        tangents[place].get_or_insert_with(|| zeros(primals[place].info()));
    }
    tangents
}

/// Returns the operands. Each carried value that is mapped in the loop has its batch axis in front. The first carried
/// value is at the position `first`.
pub(super) fn with_mapped_carry(
    operands: &[Tensor],
    axes: &[Option<usize>],
    first: usize,
    carry: &[bool],
    size: usize,
) -> Vec<Tensor> {
    let mut operands = operands.to_vec();
    for (position, _) in carry.iter().enumerate().filter(|(_, mapped)| **mapped) {
        let place = first + position;
        operands[place] = or_panic(batch_axis_first(&operands[place], axes[place], size));
    }
    operands
}
