//! Concatenates large slices without arrays of their own, as a roll and a padding with neighbouring elements need them.

use std::ops::Range;
use std::sync::Arc;

use pytree_kernels::loops::concatenate;

use super::only_evaluated::only_evaluated;
use crate::primitives::prelude::*;
use crate::primitives::slice::{Concatenate, Slice};
use crate::tensor::jaxpr::{Jaxpr, Variable};

/// The bytes of a result from which on its slices are not stored. Loops over smaller ones run as small programs, which move slices as
/// they are.
const LARGE: usize = 1 << 20;

/// A concatenation of ranges of the operands along an axis.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct ConcatenatedSlices {
    axis: usize,
    ranges: Vec<Range<usize>>,
}

impl Primitive for ConcatenatedSlices {
    fn name(&self) -> &'static str {
        "concatenate_slices"
    }

    fn abstract_evaluation(&self, operands: &[&AbstractArray]) -> AbstractResults {
        let mut result = operands[0].clone();
        result.shape[self.axis] = self.ranges.iter().map(ExactSizeIterator::len).sum();
        Ok(one(result))
    }

    fn evaluate(&self, operands: Operands) -> Outputs<Array> {
        one(concatenate::slices(&operands, self.axis, &self.ranges))
    }

    fn accepts_narrow(&self) -> bool {
        true
    }

    only_evaluated!();

    fn write_parameters(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "dimension={} ranges={:?}", self.axis, self.ranges)
    }
}

/// Replaces large concatenations whose operands are slices along the same axis.
pub(super) fn concatenated_slices(mut jaxpr: Jaxpr) -> Jaxpr {
    let makers = jaxpr.makers();
    let slice = |jaxpr: &Jaxpr, axis: usize, variable: Variable| {
        let maker = &jaxpr.equations[makers[variable.index()]?];
        let slice: &Slice = maker.parameters()?;
        let source = maker.inputs[0];
        let is_whole = |(at, &length): (usize, &usize)| {
            at == axis || (slice.start[at], slice.limit[at]) == (0, length)
        };
        let mut lengths = jaxpr.info(source).shape.iter().enumerate();
        let fits = slice.stride.iter().all(|&stride| stride == 1) && lengths.all(is_whole);
        fits.then(|| (source, slice.start[axis]..slice.limit[axis]))
    };
    let mut is_changed = false;
    for place in 0..jaxpr.equations.len() {
        let equation = &jaxpr.equations[place];
        let Some(&Concatenate { axis }) = equation.parameters() else {
            continue;
        };
        let parts = equation.inputs.iter().map(|&input| {
            let whole = || (input, 0..jaxpr.info(input).shape[axis]);
            slice(&jaxpr, axis, input).unwrap_or_else(whole)
        });
        let (inputs, ranges): (_, Vec<_>) = parts.unzip();
        if inputs != equation.inputs && jaxpr.info(equation.outputs[0]).bytes() >= LARGE {
            is_changed = true;
            jaxpr.equations[place].inputs = inputs;
            jaxpr.equations[place].primitive = Arc::new(ConcatenatedSlices { axis, ranges });
        }
    }
    if is_changed {
        jaxpr.without_dead_code()
    } else {
        jaxpr
    }
}
