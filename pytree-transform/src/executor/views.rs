//! Views: values without memory of their own. A kernel can read the elements of a view from another value.

use pytree_kernels::base::narrow::rounded_to;
use pytree_kernels::base::pattern::Pattern;
use pytree_kernels::base::shape::AxisList;
use pytree_kernels::fused::held_as;
use pytree_kernels::loops::elementwise::{Elementwise, Unary};

use crate::primitives::create::{Broadcast, Full};
use crate::primitives::shape::Reshape;
use crate::tensor::jaxpr::{Equation, Jaxpr, Variable};

/// A value that need not be stored in memory.
#[derive(Clone, Copy, Debug)]
pub(super) enum View {
    /// All elements equal this number.
    Constant(f64),
    /// The elements of another variable, repeated, in another shape, or in a wider dtype.
    Of { source: Variable, pattern: Pattern },
}

/// Returns the result of an equation as a view, or `None` if a kernel cannot read the result without a copy in memory.
pub(super) fn view(jaxpr: &Jaxpr, equation: &Equation) -> Option<View> {
    if let Some(full) = equation.parameters::<Full>() {
        return Some(View::Constant(rounded_to(full.dtype, full.value)));
    }
    let source = *equation.inputs.first()?;
    let is_same = match equation.primitive.elementwise() {
        Some(Elementwise::Unary(Unary::StopGradient)) => true,
        // Registers hold narrower elements as if they were converted.
        Some(Elementwise::Convert(to)) => held_as(jaxpr.info(source).dtype) == to,
        _ => equation.parameters::<Reshape>().is_some(),
    };
    let pattern = if is_same {
        Some(Pattern::Same)
    } else {
        broadcast_pattern(jaxpr, equation)
    };
    pattern.map(|pattern| View::Of { source, pattern })
}

/// Returns how a broadcast repeats its operand, or `None` if a kernel cannot read the result without a copy.
fn broadcast_pattern(jaxpr: &Jaxpr, equation: &Equation) -> Option<Pattern> {
    let broadcast: &Broadcast = equation.parameters()?;
    let operand = jaxpr.info(*equation.inputs.first()?);
    Pattern::of_broadcast(&operand.shape, &broadcast.axes, &broadcast.shape)
}

/// The elements that a reduction reduces to one element, by their position in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    /// Neighbours in memory: each row of `length` elements is reduced to one element.
    Rows { length: usize },
    /// Elements at a distance of `period` in memory: all rows are reduced, element by element, to a single row.
    Columns { period: usize },
}

/// Returns the direction of a reduction of `shape` over `axes`. Returns `None` if `axes` is empty or is in the middle
/// of the shape.
pub(super) fn direction(shape: &[usize], axes: &[usize]) -> Option<Direction> {
    let count: usize = shape.iter().product();
    let long = || (0..shape.len()).filter(|&axis| shape[axis] != 1);
    let reduced: AxisList = long().filter(|axis| axes.contains(axis)).collect();
    let kept: AxisList = long().filter(|axis| !axes.contains(axis)).collect();
    let (first_reduced, last_reduced) = (*reduced.first()?, *reduced.last()?);
    if count == 0 {
        return None;
    }
    if kept.last().is_none_or(|&last| last < first_reduced) {
        let length = reduced.iter().map(|&axis| shape[axis]).product();
        return Some(Direction::Rows { length });
    }
    (kept.first() > Some(&last_reduced)).then(|| Direction::Columns {
        period: kept.iter().map(|&axis| shape[axis]).product(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directions_follow_memory_order() {
        let rows = |length| Some(Direction::Rows { length });
        let columns = |period| Some(Direction::Columns { period });
        assert_eq!(direction(&[2, 3, 4], &[2]), rows(4));
        assert_eq!(direction(&[2, 3, 4], &[1, 2]), rows(12));
        assert_eq!(direction(&[2, 3, 4], &[0, 1, 2]), rows(24));
        assert_eq!(direction(&[2, 3, 4], &[0]), columns(12));
        assert_eq!(direction(&[2, 3, 4], &[0, 1]), columns(4));
        assert_eq!(direction(&[2, 1, 4], &[0, 1]), columns(4));
        assert_eq!(direction(&[2, 3, 1], &[1]), rows(3));
        assert_eq!(direction(&[2, 3, 4], &[1]), None);
        assert_eq!(direction(&[2, 3, 4], &[0, 2]), None);
        assert_eq!(direction(&[2, 1], &[1]), None);
        assert_eq!(direction(&[0, 3], &[0]), None);
    }
}
