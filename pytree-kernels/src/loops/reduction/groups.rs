//! The groups of axes of a reduction, which are reduced one after the other.

use smallvec::SmallVec;

use super::pass::Pass;
use super::widening::{Reduce, elements, reduce_widened};
use crate::base::array::Array;
use crate::base::dtype::{AbstractArray, DType};
use crate::base::narrow::wide;
use crate::base::shape::{AxisList, without_axes};

/// A pass of a reduction, and the number of elements of the first of its three axes.
pub(crate) type Grouped = (Pass, usize);

/// Returns the passes of a reduction over `axes`. Neighbouring reduced axes form a group, and the axes of a group are reduced together.
/// The groups are reduced one after the other, starting with the last group.
pub(crate) fn grouped(shape: &[usize], axes: &[usize]) -> SmallVec<[Grouped; 2]> {
    // An axis of length 1 adds no elements and does not separate other axes, so it does not affect the order.
    let long: AxisList = (0..shape.len()).filter(|&axis| shape[axis] != 1).collect();
    let length = |axes: &[usize]| axes.iter().map(|&axis| shape[axis]).product::<usize>();
    let is_reduced = |axis: &usize| axes.contains(axis);
    let (mut groups, mut rest, mut inner) = (SmallVec::new(), &long[..], 1);
    while let Some(last) = rest.iter().rposition(is_reduced) {
        let first = rest[..last]
            .iter()
            .rposition(|axis| !is_reduced(axis))
            .map_or(0, |axis| axis + 1);
        inner *= length(&rest[last + 1..]);
        groups.push((
            Pass::new(length(&rest[first..=last]), inner),
            length(&rest[..first]),
        ));
        rest = &rest[..first];
    }
    groups
}

/// Reduces an array of a dtype over `axes`, in [groups](grouped).
pub(super) fn folded(operand: &Array, dtype: DType, axes: &[usize], reduce: &Reduce<'_>) -> Array {
    let groups = grouped(operand.shape(), axes);
    let mut reduced: Option<Array> = None;
    for (number, &(pass, outer)) in groups.iter().enumerate() {
        // The results of a group that is not the last one are not rounded.
        let to = if number + 1 < groups.len() {
            wide(dtype)
        } else {
            dtype
        };
        let mut shorter = Array::reused(&AbstractArray::new(to, [outer * pass.inner]));
        let longer = reduced.as_ref().unwrap_or(operand);
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
    result.info.shape = without_axes(operand.shape(), axes);
    result
}
