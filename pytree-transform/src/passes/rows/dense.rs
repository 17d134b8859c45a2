//! Warns about a gradient of a table that is computed as a whole.

use hashbrown::HashMap;
use pytree_kernels::loops::gather::Outside;

use super::background::{Background, Rows};
use super::scattered::scattered;
use crate::base::warning::{WarningKind, warn};
use crate::tensor::jaxpr::{Equation, Jaxpr, Variable};

/// The least number of bytes of a table of which a warning is given: about a millisecond of each call.
const LARGE: usize = 16 << 20;

/// Warns about each large gradient of a table that still is a sum of rows in zeros of the table's size, and names what reads it.
pub(super) fn warn_of_dense(jaxpr: &Jaxpr, rows: &HashMap<Variable, Rows>) {
    for equation in &jaxpr.equations {
        let Some(scatter) = scattered(jaxpr, equation) else {
            continue;
        };
        let gradient = equation.outputs[0];
        let table = jaxpr.info(gradient);
        // A scatter that drops indices is an operation of the user.
        if scatter.outside == Outside::Drop || table.bytes() < LARGE {
            continue;
        }
        warn(WarningKind::DenseGradient, equation.line, || {
            let reader = match reader(jaxpr, rows, gradient) {
                Some(reader) => format!(
                    "`{}` at {} reads all of it",
                    reader.primitive.name(),
                    reader.line
                ),
                None => "the compiled function returns it".to_owned(),
            };
            let (line, count) = (equation.line, jaxpr.info(equation.inputs[1]).len());
            format!(
                "the gradient of a table {table}, of which {line} reads {count} rows, becomes dense, because {reader}: each call costs the whole table; update the table in the same compiled function, by an optimizer that leaves other rows as they are: `sgd`, `adagrad` or `lazy_adam`, without momentum and weight decay"
            )
        });
    }
}

/// Returns the first equation that reads a value, or a value with the same rows, as a whole. Returns `None` if it is an output.
fn reader<'j>(
    jaxpr: &'j Jaxpr,
    rows: &HashMap<Variable, Rows>,
    gradient: Variable,
) -> Option<&'j Equation> {
    let mut values = vec![gradient];
    for equation in &jaxpr.equations {
        if !equation.inputs.iter().any(|input| values.contains(input)) {
            continue;
        }
        let output = *equation.outputs.first()?;
        match rows.get(&output).map(|rows| rows.background) {
            Some(Background::Number(_)) => values.push(output),
            _ => return Some(equation),
        }
    }
    None
}
