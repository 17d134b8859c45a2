//! The report of shapes that do not match their patterns: each shape, and the origin of each expected length.

mod mapped;
mod suspects;

use std::fmt::Write as _;

pub(crate) use self::suspects::suspects;
use pytree_base::dtype::ElementType;

use super::bindings::{Bindings, Origin, Owner};
use super::pattern::{AxisPattern, ElementPattern, Expression, Length, Rest, ShapePattern};
use crate::base::error::ShapeMismatch;
use crate::node::leaf::{ArrayInfo, MappedAxis};

/// The reason why a shape does not match its pattern.
#[derive(Clone, Debug)]
pub(super) enum Reason {
    /// The number of axes differs.
    Rank,
    /// The length of an axis differs from the number in the pattern.
    Length,
    /// The length of an axis differs from the length that is bound to its name. The number is the length of the axis.
    Name(&'static str, usize),
    /// The axes differ from the axes that are bound to `*name`. The list contains the expected axes.
    Rest(&'static str, Vec<usize>),
    /// A computed length differs.
    Computed(&'static Expression, Length),
    /// The dtype differs. If the dtype in the pattern is a name, such as `T`, the reason contains the name, its dtype,
    /// and the shape that gave the name this dtype.
    Element(Option<(&'static str, ElementType, Origin)>),
}

/// A shape that was compared with a pattern.
#[derive(Debug)]
struct Recorded {
    place: String,
    found: ArrayInfo,
    pattern: &'static ShapePattern,
    owner: Owner,
    /// The axes that `vmap` removed from the array.
    mapped: Vec<MappedAxis>,
    /// The expected lengths, each with its origin, if the shape does not match.
    expected: Vec<String>,
    fixes: Vec<String>,
    /// A probable cause, in addition to the fixes.
    hint: Option<String>,
    is_wrong: bool,
}

/// Records the compared shapes.
#[derive(Debug)]
pub(super) struct Report {
    shapes: Vec<Recorded>,
    /// The name of the module, which some fixes suggest to change.
    module: String,
    /// The names of the leading axes of a stacked model.
    stacked: String,
    /// The key path of the module in the checked value. Empty for the root, and in a method.
    module_path: String,
    /// The key path of the next shape.
    place: Option<String>,
    /// The axes that `vmap` removed from the next shape.
    mapped: Vec<MappedAxis>,
    /// The length that a static field is assumed to have instead of its own.
    assumed: Option<(&'static str, usize)>,
}

impl Report {
    pub(super) fn new(module: &str) -> Self {
        Self {
            shapes: Vec::new(),
            module: module.to_owned(),
            stacked: String::new(),
            module_path: String::new(),
            place: None,
            mapped: Vec::new(),
            assumed: None,
        }
    }

    /// Assumes another length for a static field.
    pub(super) fn assume(&mut self, name: &'static str, length: usize) {
        self.assumed = Some((name, length));
    }

    /// Returns the length that a static field is assumed to have.
    pub(super) fn assumed(&self, name: &str) -> Option<usize> {
        let (assumed, length) = self.assumed?;
        (assumed == name).then_some(length)
    }

    /// Sets the key path of the module in the checked value.
    pub(super) fn set_module_path(&mut self, path: String) {
        self.module_path = path;
    }

    /// Sets the names of the leading axes of a stacked model, which messages show before the names of each pattern.
    pub(super) fn set_stacked(&mut self, names: &[&str]) {
        self.stacked = names.join(" ");
    }

    /// Returns the pattern with brackets. The names of the stacked axes come before the names of the pattern.
    fn displayed(&self, pattern: &ShapePattern, owner: Owner) -> String {
        let text = pattern.to_string();
        if self.stacked.is_empty() || owner != Owner::Module {
            return text;
        }
        let space = if text.ends_with("[]") { "" } else { " " };
        text.replacen('[', &format!("[{}{space}", self.stacked), 1)
    }

    pub(super) fn recorded(&self) -> u32 {
        u32::try_from(self.shapes.len()).unwrap_or(u32::MAX)
    }

    fn shape_at(&self, origin: Origin) -> Option<&Recorded> {
        self.shapes.get(usize::try_from(origin.recorded).ok()?)
    }

    /// Sets the key path of the next shape.
    pub(super) fn set_place(&mut self, place: String) {
        self.place = Some(place);
    }

    /// Records a shape before it is compared.
    pub(super) fn record(
        &mut self,
        found: ArrayInfo<&[usize]>,
        pattern: &'static ShapePattern,
        owner: Owner,
    ) {
        let place = self.place.take();
        let place = place.unwrap_or_else(|| pattern.label.to_owned());
        self.shapes.push(Recorded {
            place,
            found: found.into(),
            pattern,
            owner,
            mapped: std::mem::take(&mut self.mapped),
            expected: Vec::new(),
            fixes: Vec::new(),
            hint: None,
            is_wrong: false,
        });
    }

    /// Adds a reason why the shape at `origin` does not match.
    pub(super) fn add(&mut self, reason: Reason, origin: Origin, bound: &Bindings) {
        let (expected, fix) = self.explain(&reason, origin, bound);
        let hint = match reason {
            Reason::Name(name, found) => {
                let mapped = self.mapped_instead(origin, bound.length_of(name));
                mapped.or_else(|| self.transposed(name, found, origin, bound))
            }
            Reason::Rank => self.mapped_instead(origin, None),
            _ => None,
        };
        let position = usize::try_from(origin.recorded).unwrap_or(usize::MAX);
        if let Some(shape) = self.shapes.get_mut(position) {
            shape.is_wrong = true;
            for text in expected {
                push_new(&mut shape.expected, text);
            }
            push_new(&mut shape.fixes, fix);
            shape.hint = shape.hint.take().or(hint);
        }
    }

    /// Returns a hint if the axes of a shape seem to be in a wrong order. There are two such cases. Another axis of the
    /// shape has the expected length. Or the field that gave the name its length has another axis with the found
    /// length.
    fn transposed(
        &self,
        name: &str,
        found: usize,
        origin: Origin,
        bound: &Bindings,
    ) -> Option<String> {
        let length = bound.length_of(name)?;
        let from = bound.origin_of(name)?;
        if from.recorded == origin.recorded {
            return None;
        }
        let here = self.other_axis(origin.recorded, length, bound);
        let hint = here.or_else(|| {
            // This hint is given only for fields. Arguments often have equal lengths by chance, so for them the hint
            // would often be wrong.
            let are_fields = [from.owner, origin.owner] == [Owner::Module; 2];
            are_fields.then(|| self.other_axis(from.recorded, found, bound))?
        });
        hint.map(|(axis, length, place)| {
            format!("axis {axis} of {place} has length {length}: did you transpose {place}?")
        })
    }

    /// Returns an axis of a recorded shape that has the given length. Skips an axis if its length is certainly correct:
    /// the pattern contains the length as a number, or the name of the axis got this length from another shape.
    fn other_axis(
        &self,
        recorded: u32,
        length: usize,
        bound: &Bindings,
    ) -> Option<(usize, usize, String)> {
        let shape = self.shapes.get(usize::try_from(recorded).ok()?)?;
        let stacked = bound.stacked;
        let ShapePattern { before, after, .. } = shape.pattern;
        let lengths = shape.found.shape.get(stacked..)?;
        let end = lengths.len().checked_sub(after.len())?;
        let is_free = |axis: usize| {
            let pattern = if axis < end {
                before.get(axis)
            } else {
                after.get(axis - end)
            };
            match pattern {
                Some(AxisPattern::Length(fixed)) => *fixed != length,
                Some(AxisPattern::Named(name) | AxisPattern::Broadcast(name)) => {
                    bound.length_of(name) != Some(length)
                        || bound
                            .origin_of(name)
                            .is_some_and(|origin| origin.recorded == recorded)
                }
                _ => true,
            }
        };
        let axis = (0..lengths.len()).find(|&axis| lengths[axis] == length && is_free(axis))?;
        Some((axis + stacked, length, shown(&shape.place)))
    }

    /// Returns the expected lengths with their origins, and the fix.
    fn explain(&self, reason: &Reason, origin: Origin, bound: &Bindings) -> (Vec<String>, String) {
        let (place, verb) = (self.place(origin), origin.owner.verb());
        match reason {
            Reason::Rank => {
                let pattern = origin.pattern;
                let expected = pattern.map_or_else(Vec::new, |pattern| self.known(pattern, bound));
                (expected, self.rank_fix(origin, bound))
            }
            Reason::Length => (Vec::new(), format!("{verb} {place} with that length")),
            Reason::Name(name, found) => self.explain_name(name, *found, origin, bound),
            Reason::Rest(name, lengths) => {
                let from = bound.origin_of(name);
                let expected = format!("*{name} = {lengths:?}{}", self.source(name, from));
                let other =
                    from.map_or_else(String::new, |from| format!(" and {}", self.place(from)));
                (
                    vec![expected],
                    format!("{verb} {place}{other} with the same axes `*{name}`"),
                )
            }
            Reason::Computed(expression, computed) => {
                self.explain_computed(expression, *computed, origin, bound)
            }
            Reason::Element(None) => {
                let element = origin
                    .pattern
                    .map_or(ElementPattern::Any, |pattern| pattern.element);
                let family = match element {
                    ElementPattern::Bounded(_, family) => *family,
                    element => element,
                };
                let dtype = match family {
                    ElementPattern::Float => "a float dtype".to_owned(),
                    ElementPattern::Integer => "an integer dtype".to_owned(),
                    ElementPattern::Is(element) => element.to_string(),
                    _ => "an integer or float dtype".to_owned(),
                };
                (Vec::new(), format!("convert {place} to {dtype}"))
            }
            Reason::Element(Some((name, element, from))) => {
                let expected = format!("{name} = {element}{}", self.source(name, Some(*from)));
                let found = self.shape_at(origin).map(|shape| shape.found.element);
                let other = match (from.owner, origin.owner, found) {
                    // No layer of floats can be made of integers, and the other way around.
                    (Owner::Module, Owner::Argument, Some(found))
                        if found.is_float() == element.is_float() =>
                    {
                        format!(", or make the {} of {found}", self.module)
                    }
                    _ => String::new(),
                };
                (
                    vec![expected],
                    format!("convert {place} to {element}{other}"),
                )
            }
        }
    }

    /// Explains the length of a name.
    fn explain_name(
        &self,
        name: &str,
        found: usize,
        origin: Origin,
        bound: &Bindings,
    ) -> (Vec<String>, String) {
        let (place, verb) = (self.place(origin), origin.owner.verb());
        let length = bound.length_of(name).unwrap_or_default();
        let from = bound.origin_of(name);
        let expected = format!("{name} = {length}{}", self.source(name, from));
        let fix = match from {
            Some(from) if from.owner == Owner::Module && origin.owner == Owner::Argument => {
                let module = &self.module;
                // An array that lacks an axis of length 1 is no reason for a wider module.
                let added = match length {
                    1 => format!(" (if {place} lacks this axis, add it)"),
                    _ => String::new(),
                };
                format!(
                    "pass {place} with {name} = {length}{added}, or make the {module} with {name} = {found}"
                )
            }
            Some(from) if from.recorded == origin.recorded => {
                format!("{verb} {place} with the same length for each `{name}`")
            }
            Some(from) if from.pattern.is_some() => {
                format!(
                    "{verb} {place} and {} with the same `{name}`",
                    self.place(from)
                )
            }
            _ => format!("{verb} {place} with {name} = {length}"),
        };
        (vec![expected], fix)
    }

    /// Explains a computed length.
    fn explain_computed(
        &self,
        expression: &Expression,
        computed: Length,
        origin: Origin,
        bound: &Bindings,
    ) -> (Vec<String>, String) {
        let (place, verb) = (self.place(origin), origin.owner.verb());
        let names = expression.names().map(|name| {
            let length = bound.length_of(name).unwrap_or_default();
            let source = self.source_text(name, bound.origin_of(name));
            format!(
                "{name} = {length}{}",
                source.map_or_else(String::new, |text| format!(" from {text}"))
            )
        });
        let names: Vec<String> = names.collect();
        let text = expression.text;
        let (value, fix) = match computed {
            Length::Is(length) => (
                length.to_string(),
                format!("{verb} {place} with {text} = {length}"),
            ),
            Length::Undefined => (
                "no length".to_owned(),
                format!("choose lengths for which {text} is a length"),
            ),
        };
        let from = if names.is_empty() {
            String::new()
        } else {
            format!(" ({})", names.join(", "))
        };
        (vec![format!("{text} = {value}{from}")], fix)
    }

    fn rank_fix(&self, origin: Origin, bound: &Bindings) -> String {
        let place = self.place(origin);
        let Some(pattern) = origin.pattern else {
            return format!("reshape {place}");
        };
        let fixed = pattern.fixed();
        let least = if pattern.rest.is_some() {
            "at least "
        } else {
            ""
        };
        let plural = if fixed == 1 { "axis" } else { "axes" };
        match origin.owner {
            // If an array has more axes than names, the model may be stacked.
            Owner::Module if bound.stacked == 0 && self.rank(origin) > fixed => format!(
                "make {place} with {least}{fixed} {plural}; if several models are stacked in this one, use it under `vmap`, and check it with `axes::check_stacked`, or write `#[module(stacked = \"name\")]` above the field that holds it"
            ),
            Owner::Module => {
                let after = match bound.stacked {
                    0 => "",
                    _ => " after the stacked ones",
                };
                format!("make {place} with {least}{fixed} {plural}{after}")
            }
            Owner::Argument | Owner::Result => {
                let reshape = format!("reshape {place} to {least}{fixed} {plural}");
                match self.unmapped(origin, fixed) {
                    Some(unmapped) => format!("{unmapped}, or {reshape}"),
                    None => reshape,
                }
            }
        }
    }

    /// Returns the number of axes of a shape.
    fn rank(&self, origin: Origin) -> usize {
        let shape = self.shape_at(origin);
        shape.map_or(0, |shape| shape.found.shape.len())
    }

    /// Returns the lengths that are already bound to names of a pattern.
    fn known(&self, pattern: &ShapePattern, bound: &Bindings) -> Vec<String> {
        let axes = pattern.before.iter().chain(pattern.after);
        let names = axes.filter_map(|axis| match axis {
            AxisPattern::Named(name) | AxisPattern::Broadcast(name) => Some(*name),
            _ => None,
        });
        let rest = pattern.rest.and_then(|rest| match rest {
            Rest::Named(name) => Some(name),
            Rest::Any => None,
        });
        let known = names.chain(rest).filter_map(|name| {
            let length = bound.length_of(name)?;
            Some(format!(
                "{name} = {length}{}",
                self.source(name, bound.origin_of(name))
            ))
        });
        known.collect()
    }

    /// Returns the place of a field or argument: its key path, or its name.
    fn place(&self, origin: Origin) -> String {
        let label = || origin.pattern.map_or("", |pattern| pattern.label);
        let recorded = self.shape_at(origin);
        shown(recorded.map_or_else(label, |shape| &shape.place))
    }

    /// Returns ` (from …)`, the origin of a length.
    fn source(&self, name: &str, origin: Option<Origin>) -> String {
        self.source_text(name, origin)
            .map_or_else(String::new, |text| format!(" (from {text})"))
    }

    fn source_text(&self, name: &str, origin: Option<Origin>) -> Option<String> {
        let origin = origin?;
        let Some(pattern) = origin.pattern else {
            let what = match origin.owner {
                Owner::Module => "static",
                Owner::Argument | Owner::Result => "argument",
            };
            return Some(format!("the {what} `{name}`"));
        };
        Some(match self.shape_at(origin) {
            Some(shape) => {
                let pattern = self.displayed(pattern, origin.owner);
                format!("{}: {} as {pattern}", shown(&shape.place), shape.found)
            }
            None => format!("{} as {pattern}", shown(pattern.label)),
        })
    }

    /// Returns the shapes that do not match.
    pub(super) fn into_mismatches(mut self) -> Vec<ShapeMismatch> {
        let shapes = std::mem::take(&mut self.shapes);
        let wrong = shapes.into_iter().filter(|shape| shape.is_wrong);
        let mismatches = wrong.map(|mut shape| {
            let mut expected = self.displayed(shape.pattern, shape.owner);
            for (position, text) in shape.expected.iter().enumerate() {
                let before = if position == 0 { " with" } else { "," };
                let _ = write!(expected, "{before} {text}");
            }
            shape.fixes.extend(shape.hint);
            ShapeMismatch {
                place: shape.place,
                found: shape.found.to_string(),
                expected,
                fix: shape.fixes.join("; "),
            }
        });
        mismatches.collect()
    }
}

impl Owner {
    /// Returns the verb of the fix.
    const fn verb(self) -> &'static str {
        match self {
            Self::Argument => "pass",
            Self::Module | Self::Result => "make",
        }
    }
}

/// Adds a text, unless the list already contains it.
fn push_new(texts: &mut Vec<String>, text: String) {
    if !texts.contains(&text) {
        texts.push(text);
    }
}

/// Returns a key path as messages show it: `field 0` for the first field of a tuple struct, because `0` alone looks
/// like a length.
fn shown(place: &str) -> String {
    if place.starts_with(|first: char| first.is_ascii_digit()) {
        format!("field {place}")
    } else {
        place.to_owned()
    }
}
