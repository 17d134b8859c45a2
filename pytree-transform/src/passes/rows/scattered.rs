//! The sums of rows in zeros of a table's size that are kept as rows.

use crate::primitives::gather::ScatterAdd;
use crate::tensor::jaxpr::{Equation, Jaxpr};

/// The least number of elements of a table whose gradient is kept as rows.
const LEAST: usize = 1 << 16;

/// How many times as many rows a table has at least as its gradient.
const TIMES: usize = 4;

/// Returns the parameters of an equation that adds rows to zeros, if there are few rows.
pub(super) fn scattered<'e>(jaxpr: &Jaxpr, equation: &'e Equation) -> Option<&'e ScatterAdd> {
    let scatter: &ScatterAdd = equation.parameters()?;
    let table = jaxpr.info(equation.outputs[0]);
    let count = jaxpr.info(equation.inputs[1]).len();
    let is_large = table.len() >= LEAST && i32::try_from(scatter.length).is_ok();
    let is_along_first = scatter.axis == 0 && scatter.batch_axes == 0;
    (is_large && is_along_first && are_few(count, scatter.length)).then_some(scatter)
}

/// Returns whether so few rows of a table with `length` rows are cheaper than the whole table.
pub(super) fn are_few(rows: usize, length: usize) -> bool {
    rows > 0 && rows.saturating_mul(TIMES) <= length
}
