//! Axes that `vmap` removed: a hint for shapes that were written with the axis of the examples.

use super::Report;
use crate::node::axes::bindings::{Origin, Owner};
use crate::node::axes::pattern::ShapePattern;
use crate::node::leaf::MappedAxis;

impl Report {
    /// Sets the axes that `vmap` removed from the next shape.
    pub(in crate::node::axes) fn set_mapped(&mut self, mapped: Vec<MappedAxis>) {
        self.mapped = mapped;
    }

    /// Returns the fix for an array with too few axes if `vmap` removed some of its axes. `fixed` is the number of axes
    /// that the pattern needs.
    pub(super) fn unmapped(&self, origin: Origin, fixed: usize) -> Option<String> {
        let shape = self.shape_at(origin)?;
        let removed = removed(&shape.mapped)?;
        if origin.owner == Owner::Module || self.rank(origin) >= fixed {
            return None;
        }
        let place = self.place(origin);
        Some(format!(
            "the call runs under `vmap`, which removed {removed} from {place}: write the axes of one example in `#[shapes]`"
        ))
    }

    /// Returns a hint for an array of a stacked field that is mapped, or whose mapped axis has the length that another axis
    /// should have.
    pub(super) fn mapped_instead(&self, origin: Origin, expected: Option<usize>) -> Option<String> {
        let shape = self.shape_at(origin)?;
        let removed = removed(&shape.mapped)?;
        let ShapePattern {
            rest, after, label, ..
        } = shape.pattern;
        let fix = if origin.owner == Owner::Module && rest.is_some() && after.is_empty() {
            format!("call the method outside of `vmap`, and map `{label}` inside of the method")
        } else if shape
            .mapped
            .iter()
            .any(|axis| Some(axis.length) == expected)
        {
            "did you map the wrong axis?".to_owned()
        } else {
            return None;
        };
        let place = self.place(origin);
        Some(format!(
            "the call runs under `vmap`, which removed {removed} from {place}: {fix}"
        ))
    }
}

/// Describes removed axes: `axis 0 (length 8) of f32[8,4]`. Returns `None` if there are none.
fn removed(mapped: &[MappedAxis]) -> Option<String> {
    let text = |axis: &MappedAxis| {
        let MappedAxis {
            axis,
            length,
            array,
        } = axis;
        format!("axis {axis} (length {length}) of {array}")
    };
    let texts: Vec<String> = mapped.iter().map(text).collect();
    (!texts.is_empty()).then(|| texts.join(" and "))
}
