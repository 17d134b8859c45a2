//! Views: values that a kernel reads without their being in memory, since they repeat others.

use std::any::Any;

use smallvec::SmallVec;

use crate::primitives::create::Full;
use crate::primitives::shape::{Broadcast, Reshape};
use crate::tensor::elementwise::{Elementwise, Unary};
use crate::tensor::jaxpr::{Equation, Jaxpr, Variable};

/// How the elements of a value are found in another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Pattern {
    /// In the same order.
    Same,
    /// One for all.
    Scalar,
    /// A row repeated: element `i` is element `i % period`.
    Cycle { period: usize },
    /// A column repeated: element `i` is element `i / times`.
    Stretch { times: usize },
}

/// A value that need not be in memory.
#[derive(Clone, Copy, Debug)]
pub(super) enum View {
    /// The same number everywhere.
    Constant(f64),
    /// Another value, repeated or in another shape.
    Of { source: Variable, pattern: Pattern },
}

/// What an equation makes, if a kernel can do without it in memory.
pub(super) fn view(jaxpr: &Jaxpr, equation: &Equation) -> Option<View> {
    if !jaxpr.info(*equation.outputs.first()?).dtype.is_float() {
        return None;
    }
    let primitive: &dyn Any = &*equation.primitive;
    if let Some(full) = primitive.downcast_ref::<Full>() {
        return Some(View::Constant(full.value));
    }
    let same = primitive.is::<Reshape>()
        || equation.primitive.elementwise() == Some(Elementwise::Unary(Unary::StopGradient));
    let pattern = if same {
        Some(Pattern::Same)
    } else {
        broadcast_pattern(jaxpr, equation)
    };
    pattern.map(|pattern| View::Of {
        source: equation.inputs[0],
        pattern,
    })
}

/// How the operand of a broadcast is repeated, if it is one that can be read in place.
fn broadcast_pattern(jaxpr: &Jaxpr, equation: &Equation) -> Option<Pattern> {
    let primitive: &dyn Any = &*equation.primitive;
    let broadcast = primitive.downcast_ref::<Broadcast>()?;
    let operand = jaxpr.info(*equation.inputs.first()?);
    // Axes of length 1 do not matter; the others must lie in order and keep their lengths.
    let kept: SmallVec<[usize; 4]> = operand
        .shape
        .iter()
        .zip(&broadcast.axes)
        .filter(|(length, _)| **length != 1)
        .map(|(_, &axis)| axis)
        .collect();
    let rest: SmallVec<[usize; 4]> = (0..broadcast.shape.len())
        .filter(|&axis| broadcast.shape[axis] != 1)
        .collect();
    if kept == rest {
        return Some(Pattern::Same);
    }
    if kept.is_empty() {
        return Some(Pattern::Scalar);
    }
    if operand.is_empty() {
        return None;
    }
    if kept.len() <= rest.len() && kept[..] == rest[rest.len() - kept.len()..] {
        return Some(Pattern::Cycle {
            period: operand.len(),
        });
    }
    if kept[..] == rest[..kept.len().min(rest.len())] {
        return Some(Pattern::Stretch {
            times: broadcast.shape.iter().product::<usize>() / operand.len(),
        });
    }
    None
}

/// Along which part of its elements, in memory order, a reduction goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    /// Over neighbours: each row of this length becomes one element.
    Rows { length: usize },
    /// Over elements so far apart: all rows become one.
    Columns { period: usize },
}

/// The direction of a reduction of `shape` over `axes`; none if it goes over axes in the middle, or over
/// nothing.
pub(super) fn direction(shape: &[usize], axes: &[usize]) -> Option<Direction> {
    let count: usize = shape.iter().product();
    let long = || (0..shape.len()).filter(|&axis| shape[axis] != 1);
    let reduced: SmallVec<[usize; 4]> = long().filter(|axis| axes.contains(axis)).collect();
    let kept: SmallVec<[usize; 4]> = long().filter(|axis| !axes.contains(axis)).collect();
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
