//! The check that all devices of a mesh take part in a collective inside of control flow.
//!
//! A collective waits for all devices along its axis. If devices take different branches, or run different numbers of
//! iterations, some devices would wait for ever. A `vmap` has no such problem: it runs all branches for all examples.
//! So the check runs only where a mesh axis is batched to find the values that differ between its devices.

use std::sync::Arc;

use crate::base::axis_names::AxisName;
use crate::primitives::body::Body;
use crate::tensor::jaxpr::{Equation, Jaxpr};
use crate::tensor::primitive::BatchAxis;
use crate::tensor::trace::current_line;

/// Checks that `bodies` contain no collective over the axis of `batch`, because `chooser` differs between the devices along
/// this axis. `chooser` decides whether a device runs a body, and `place` is the control flow.
///
/// # Panics
/// Panics if a body contains a collective over the axis.
pub(super) fn check_agreement<'b>(
    bodies: impl IntoIterator<Item = &'b Arc<Body>>,
    batch: &BatchAxis,
    chooser: &str,
    place: &str,
) {
    let Some(name) = &batch.name else {
        return;
    };
    let mut bodies = bodies.into_iter();
    let Some(found) = bodies.find_map(|body| collective_over(&body.jaxpr, name)) else {
        return;
    };
    let (operation, line) = (found.primitive.name(), found.line);
    panic!(
        "cannot run `{operation}` at {line} in {place} at {}: {chooser} may differ between the devices of `{name}`, so some of them would not take part in the `{operation}`; make {chooser} equal on all devices, for instance with `pmax(&x, \"{name}\")`, or call `{operation}` outside",
        current_line()
    )
}

/// Returns the first equation of a jaxpr, or of a jaxpr inside of it, that exchanges values along an axis.
fn collective_over<'j>(jaxpr: &'j Jaxpr, name: &AxisName) -> Option<&'j Equation> {
    let over = |equation: &&Equation| equation.primitive.axis_names().contains(name);
    jaxpr.equations.iter().filter(over).find_map(|equation| {
        let mut bodies = equation.primitive.bodies().into_iter();
        if let Some(found) = bodies.find_map(|(_, body)| collective_over(body, name)) {
            return Some(found);
        }
        // An operation without operands, such as the position of the device, exchanges nothing.
        let exchanges = equation.primitive.bodies().is_empty() && !equation.inputs.is_empty();
        exchanges.then_some(equation)
    })
}
