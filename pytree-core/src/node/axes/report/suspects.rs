//! Wrong static fields: finds the static lengths that explain all mismatches of a module.
//!
//! If several arrays agree with each other and not with a static field, the field is probably wrong, and not the
//! arrays. In this case, the report lists no arrays. It names the field, and the length that fits all arrays.

use super::{Recorded, Report, shown};
use crate::base::error::ShapeMismatch;
use crate::node::axes::bindings::{Bindings, Owner};
use crate::node::axes::pattern::{AxisPattern, Expression, Length, ShapePattern};

/// A static field or constant of a module, with the only other length that fits all shapes.
#[derive(Debug)]
pub(crate) struct Suspect {
    name: &'static str,
    length: usize,
    fitting: usize,
}

/// The greatest length that is tried for a static field whose axes have computed lengths.
const GREATEST: usize = 1 << 14;

/// The number of arrays that the message lists.
const LISTED: usize = 4;

/// Returns the static fields that explain all mismatches of a report. `fits` returns whether all shapes match if
/// the static field of the given name has the given length.
pub(crate) fn suspects(
    report: &Report,
    bindings: &Bindings,
    fits: &dyn Fn(&'static str, usize) -> bool,
) -> Vec<Suspect> {
    let wrong: Vec<&Recorded> = report.wrong().collect();
    let Some(first) = wrong.first() else {
        return Vec::new();
    };
    // An argument is more often wrong than the model.
    if wrong.iter().any(|shape| shape.owner != Owner::Module) {
        return Vec::new();
    }
    let statics = bindings.lengths.iter().filter(|bound| bound.is_static());
    let suspects = statics.filter_map(|bound| {
        let mut fitting = lengths_for(bound.name, first, bindings)
            .filter(|&length| length != bound.value && fits(bound.name, length));
        let length = fitting.next()?;
        // With a division, several lengths may fit.
        fitting.next().is_none().then_some(Suspect {
            name: bound.name,
            length: bound.value,
            fitting: length,
        })
    });
    suspects.collect()
}

/// Iterates over the lengths of a name for which the first axis that needs this name matches.
fn lengths_for<'s>(
    name: &'static str,
    shape: &Recorded,
    bindings: &'s Bindings,
) -> Box<dyn Iterator<Item = usize> + 's> {
    for (axis, found) in axes_with_lengths(shape, bindings.stacked) {
        match *axis {
            AxisPattern::Named(used) | AxisPattern::Broadcast(used) if used == name => {
                return Box::new(std::iter::once(found));
            }
            AxisPattern::Computed(expression) if expression.names().any(|used| used == name) => {
                let is_found = move |length: &usize| {
                    value_with(expression, name, *length, bindings) == Some(Length::Is(found))
                };
                return Box::new((1..=GREATEST).filter(is_found));
            }
            _ => {}
        }
    }
    Box::new(std::iter::empty())
}

/// Returns the value of an expression if a name has another length.
fn value_with(
    expression: &Expression,
    name: &str,
    length: usize,
    bindings: &Bindings,
) -> Option<Length> {
    expression.value(|used| {
        if used == name {
            Some(length)
        } else {
            bindings.length_of(used)
        }
    })
}

/// Iterates over the axes of a pattern outside of `...`, with the lengths that the shape has there.
fn axes_with_lengths(
    shape: &Recorded,
    stacked: usize,
) -> impl Iterator<Item = (&'static AxisPattern, usize)> {
    let ShapePattern { before, after, .. } = shape.pattern;
    let lengths = shape.found.shape.get(stacked..).unwrap_or_default();
    let end = lengths.len().saturating_sub(after.len());
    let first = before.iter().zip(lengths);
    let last = after.iter().zip(&lengths[end..]);
    first.chain(last).map(|(axis, length)| (axis, *length))
}

impl Report {
    fn wrong(&self) -> impl Iterator<Item = &Recorded> {
        self.shapes.iter().filter(|shape| shape.is_wrong)
    }

    /// Returns the mismatches. If static fields explain them, the mismatch of one array suggests to change the field.
    /// The mismatches of several arrays become a single mismatch of the field.
    pub(in crate::node::axes) fn into_explained(self, suspects: &[Suspect]) -> Vec<ShapeMismatch> {
        let Some(first) = suspects.first() else {
            return self.into_mismatches();
        };
        let set =
            |suspect: &Suspect| format!("the static `{}` to {}", suspect.name, suspect.fitting);
        let set = suspects.iter().map(set).collect::<Vec<_>>().join(" or ");
        let wrong: Vec<&Recorded> = self.wrong().collect();
        let count = wrong.len();
        if count == 1 {
            let mut mismatches = self.into_mismatches();
            for mismatch in &mut mismatches {
                mismatch.fix = format!("{}, or set {set}", mismatch.fix);
            }
            return mismatches;
        }
        let text = |shape: &&Recorded| {
            let pattern = self.displayed(shape.pattern, shape.owner);
            format!("{}: {} as {pattern}", shown(&shape.place), shape.found)
        };
        let mut arrays: Vec<String> = wrong.iter().take(LISTED).map(text).collect();
        if count > LISTED {
            arrays.push(format!("and {} more", count - LISTED));
        }
        let current = suspects
            .iter()
            .map(|suspect| format!("{} = {}", suspect.name, suspect.length));
        let current = current.collect::<Vec<_>>().join(" and ");
        let place = match self.module_path.as_str() {
            "" => first.name.to_owned(),
            path => format!("{path}.{}", first.name),
        };
        vec![ShapeMismatch {
            place,
            found: first.length.to_string(),
            expected: format!("{} (from {})", first.fitting, arrays.join(", ")),
            fix: format!("set {set}, or make these {count} arrays with {current}"),
        }]
    }
}
