//! Code shared by the rules of `scan` and `while_loop`. If a carried value gets a batch axis or a tangent in any
//! iteration, this value has a batch axis or a tangent in all iterations. To find the set of these values, the body's
//! rule is applied until the set stops growing (a least fixed point).

use pytree_base::bug::pairs;

use crate::base::error::or_panic;
use crate::primitives::create::zeros;
use crate::primitives::shape::batch_axis_first;
use crate::tensor::Tensor;

/// The expected results of a loop's body, as text for the panic message of a library bug.
pub(super) const CARRY: &str = "a value for each carried value";

/// Calls `step` until `step` sets no new flag. Returns the flags and the last result of `step`.
///
/// `step` maps the flags of the carried values before an iteration to their flags after the iteration.
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

/// Returns the tangents of a loop's operands. A carried value that `carry` marks gets zeros if it has no tangent yet.
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

/// Returns the operands of a loop. Each carried value that `carry` marks gets a leading batch axis. The first carried
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
