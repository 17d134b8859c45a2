//! The groups of axes of a reduction, which are reduced one after the other.

use super::pass::Pass;
use super::widening::{Reduce, elements, reduce_widened};
use crate::base::array::Array;
use crate::base::dtype::{AbstractArray, DType};
use crate::base::narrow::wide;
use crate::base::shape::{AxisList, without_axes};

/// Reduces an array of a dtype over `axes`. Neighbouring reduced axes form a group, and the axes of a group are reduced together.
/// The groups are reduced one after the other, starting with the last group.
pub(super) fn folded(operand: &Array, dtype: DType, axes: &[usize], reduce: &Reduce<'_>) -> Array {
    let shape = operand.shape();
    // An axis of length 1 adds no elements and does not separate other axes, so it does not affect the order.
    let long: AxisList = (0..shape.len()).filter(|&axis| shape[axis] != 1).collect();
    let length = |axes: &[usize]| axes.iter().map(|&axis| shape[axis]).product::<usize>();
    let is_reduced = |axis: &usize| axes.contains(axis);
    let mut reduced: Option<Array> = None;
    let mut rest = &long[..];
    let mut inner = 1;
    while let Some(last) = rest.iter().rposition(is_reduced) {
        let first = rest[..last]
            .iter()
            .rposition(|axis| !is_reduced(axis))
            .map_or(0, |axis| axis + 1);
        inner *= length(&rest[last + 1..]);
        let (outer, length) = (length(&rest[..first]), length(&rest[first..=last]));
        rest = &rest[..first];
        // The results of a group that is not the last one are not rounded.
        let to = if rest.iter().any(is_reduced) {
            wide(dtype)
        } else {
            dtype
        };
        let mut shorter = Array::reused(&AbstractArray::new(to, [outer * inner]));
        let (pass, longer) = (
            Pass::new(length, inner),
            reduced.as_ref().unwrap_or(operand),
        );
        if to != DType::Bool && (longer.dtype() != wide(to) || to != wide(to)) {
            reduce_widened(pass, longer, &mut shorter, reduce);
        } else {
            reduce(pass, longer, &mut shorter);
        }
        reduced = Some(shorter);
    }
    let mut result = reduced.unwrap_or_else(|| match dtype {
        DType::Bool => {
            let mut truth = Array::reused(&AbstractArray::new(dtype, [operand.info.len()]));
            reduce(Pass::new(1, 1), operand, &mut truth);
            truth
        }
        _ => elements(operand, 0..operand.info.len(), dtype),
    });
    result.info.shape = without_axes(shape, axes);
    result
}
