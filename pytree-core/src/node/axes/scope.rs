//! The lengths of named axes, and the comparison of shapes with patterns.

use pytree_base::dtype::ElementType;
use smallvec::SmallVec;

use super::bindings::{Bindings, Bound, Origin, Owner, find};
use super::capture;
use super::pattern::{AxisPattern, ElementPattern, Expression, Length, Rest, ShapePattern};
use super::report::{Reason, Report, suspects};
use crate::base::error::ShapeMismatch;
use crate::node::leaf::{ArrayInfo, MappedAxis};

/// A computed length, such as `heads*head_dim`. Computed lengths are compared at the end, after all names are bound.
#[derive(Clone, Copy, Debug)]
struct Deferred {
    expression: &'static Expression,
    found: usize,
    origin: Origin,
}

/// The lengths of the named axes in a module, or in one call of a function.
///
/// A scope compares shapes without allocating memory. After a mismatch, the shapes are compared again with a scope that
/// records each shape for the message.
#[derive(Debug)]
pub struct Scope {
    /// The lengths that names have, and how many axes are stacked.
    pub(crate) bindings: Bindings,
    elements: SmallVec<[Bound<ElementType>; 1]>,
    deferred: SmallVec<[Deferred; 2]>,
    owner: Owner,
    is_broken: bool,
    /// The position of the current shape among the recorded shapes of the report. `u32::MAX` without a report.
    recorded: u32,
    report: Option<Box<Report>>,
    /// Whether results are captured on this thread.
    captures: bool,
    /// The address of the first array of the module, if results are captured.
    array: Option<usize>,
}

impl Scope {
    /// Creates a scope in which no name is bound.
    #[doc(hidden)]
    #[inline]
    pub fn new() -> Self {
        Self {
            bindings: Bindings::default(),
            elements: SmallVec::new(),
            deferred: SmallVec::new(),
            owner: Owner::Module,
            is_broken: false,
            recorded: u32::MAX,
            report: None,
            captures: capture::is_active(),
            array: None,
        }
    }

    /// Returns whether results are captured.
    #[inline]
    pub(crate) fn captures(&self) -> bool {
        self.captures && self.report.is_none()
    }

    /// Returns the owner of the current shapes.
    pub(crate) fn owner(&self) -> Owner {
        self.owner
    }

    /// Returns the address of the first array of the module, if results are captured.
    pub(super) fn array(&self) -> Option<usize> {
        self.array
    }

    /// Keeps the address of the first array of the module.
    pub(crate) fn keep_array(&mut self, address: usize) {
        self.array.get_or_insert(address);
    }

    /// Creates a scope that records each shape and each mistake.
    pub(crate) fn recording(module: &str) -> Self {
        let mut scope = Self::new();
        scope.record_from_here(module);
        scope
    }

    /// Sets the names of the leading axes of a stacked model, for the report.
    pub(crate) fn name_stacked(&mut self, names: &[&str]) {
        if let Some(report) = &mut self.report {
            report.set_stacked(names);
        }
    }

    /// Returns whether the scope records shapes and mistakes.
    #[inline]
    pub(crate) fn records(&self) -> bool {
        self.report.is_some()
    }

    /// Sets the key path of the next shape, for the report. Without a key path, the report shows the label of the
    /// shape.
    pub(crate) fn set_place(&mut self, place: String) {
        if let Some(report) = &mut self.report {
            report.set_place(place);
        }
    }

    /// Starts to record shapes and mistakes.
    pub(crate) fn record_from_here(&mut self, module: &str) {
        self.is_broken = false;
        self.deferred.clear();
        self.report = Some(Box::new(Report::new(module)));
    }

    /// Sets the key path of the module in the checked value, for the report.
    pub(crate) fn set_module_path(&mut self, path: String) {
        if let Some(report) = &mut self.report {
            report.set_module_path(path);
        }
    }

    /// Sets the axes that `vmap` removed from the next array, for the report.
    pub(crate) fn set_mapped(&mut self, mapped: Vec<MappedAxis>) {
        if let Some(report) = &mut self.report {
            report.set_mapped(mapped);
        }
    }

    /// Runs failed comparisons again in a scope that records all shapes, and returns the mismatches. If another value of
    /// one static field fits all shapes, the mismatches name this field and the value.
    pub(crate) fn explained(module: &str, compare: &dyn Fn(&mut Self)) -> Vec<ShapeMismatch> {
        let mut scope = Self::recording(module);
        compare(&mut scope);
        scope.matches();
        let Some(report) = scope.report.take() else {
            return Vec::new();
        };
        let suspects = suspects(&report, &scope.bindings, &|name, length| {
            let mut other = Self::recording(module);
            if let Some(report) = &mut other.report {
                report.assume(name, length);
            }
            compare(&mut other);
            other.matches()
        });
        report.into_explained(&suspects)
    }

    /// Compares the computed lengths, returns the recorded shapes that do not match, and ends the recording.
    pub(crate) fn take_mismatches(&mut self) -> Vec<ShapeMismatch> {
        self.matches();
        let report = self.report.take();
        report.map_or_else(Vec::new, |report| report.into_mismatches())
    }

    /// Sets the owner of the next shapes.
    #[doc(hidden)]
    #[inline]
    pub fn begin(&mut self, owner: Owner) {
        self.owner = owner;
    }

    /// Binds a name to the value of a static field, a constant or an integer argument. Does nothing if the value cannot
    /// be a length.
    #[doc(hidden)]
    #[inline]
    pub fn number<N: TryInto<usize>>(&mut self, name: &'static str, number: N) {
        if let Ok(value) = number.try_into() {
            let value = match &self.report {
                Some(report) => report.assumed(name).unwrap_or(value),
                None => value,
            };
            let origin = Origin {
                pattern: None,
                owner: self.owner,
                recorded: u32::MAX,
            };
            self.bindings.lengths.push(Bound {
                name,
                value,
                origin,
            });
        }
    }

    #[inline]
    fn origin(&self, pattern: &'static ShapePattern) -> Origin {
        Origin {
            pattern: Some(pattern),
            owner: self.owner,
            recorded: self.recorded,
        }
    }

    /// Compares a shape with a pattern, and binds the names that are not bound yet.
    #[inline]
    pub(crate) fn compare(&mut self, pattern: &'static ShapePattern, found: ArrayInfo<&[usize]>) {
        if self.report.is_some() {
            self.record(pattern, found);
        }
        let shape = found.shape.get(self.bindings.stacked..);
        let Some(shape) = shape.filter(|shape| pattern.has_rank(shape.len())) else {
            return self.mistake(Reason::Rank, self.origin(pattern));
        };
        if !matches!(pattern.element, ElementPattern::Any) {
            self.compare_element(pattern.element, found.element, self.origin(pattern));
        }
        let (first, others) = shape.split_at(pattern.before.len());
        let (rest, last) = others.split_at(others.len() - pattern.after.len());
        if let Some(Rest::Named(name)) = pattern.rest {
            self.compare_rest(name, rest, self.origin(pattern));
        }
        // One call for both parts, so that the compiler inlines the call.
        for (axes, lengths) in [(pattern.before, first), (pattern.after, last)] {
            self.compare_axes(axes, lengths, pattern);
        }
    }

    #[cold]
    fn record(&mut self, pattern: &'static ShapePattern, found: ArrayInfo<&[usize]>) {
        if let Some(report) = &mut self.report {
            self.recorded = report.recorded();
            report.record(found, pattern, self.owner);
        }
    }

    #[inline]
    fn compare_axes(
        &mut self,
        axes: &'static [AxisPattern],
        lengths: &[usize],
        pattern: &'static ShapePattern,
    ) {
        for (axis, &found) in axes.iter().zip(lengths) {
            let AxisPattern::Named(name) = *axis else {
                self.compare_special(axis, found, pattern);
                continue;
            };
            match find(&self.bindings.lengths, name) {
                Some(bound) if bound.value == found => {}
                Some(_) => self.mistake(Reason::Name(name, found), self.origin(pattern)),
                None => {
                    let origin = self.origin(pattern);
                    self.bindings.lengths.push(Bound {
                        name,
                        value: found,
                        origin,
                    });
                }
            }
        }
    }

    /// Compares an axis that is not a name.
    #[inline(never)]
    fn compare_special(
        &mut self,
        axis: &'static AxisPattern,
        found: usize,
        pattern: &'static ShapePattern,
    ) {
        let origin = self.origin(pattern);
        match *axis {
            AxisPattern::Any => {}
            AxisPattern::Length(expected) if expected == found => {}
            AxisPattern::Length(_) => self.mistake(Reason::Length, origin),
            AxisPattern::Broadcast(_) if found == 1 => {}
            AxisPattern::Named(name) | AxisPattern::Broadcast(name) => {
                match find(&self.bindings.lengths, name) {
                    Some(bound) if bound.value == found => {}
                    Some(_) => self.mistake(Reason::Name(name, found), origin),
                    None => self.bindings.lengths.push(Bound {
                        name,
                        value: found,
                        origin,
                    }),
                }
            }
            AxisPattern::Computed(expression) => self.deferred.push(Deferred {
                expression,
                found,
                origin,
            }),
        }
    }

    #[inline(never)]
    fn compare_rest(&mut self, name: &'static str, found: &[usize], origin: Origin) {
        match find(&self.bindings.rests, name) {
            Some(bound) if bound.value[..] == *found => {}
            Some(bound) => {
                let expected = bound.value.to_vec();
                self.mistake(Reason::Rest(name, expected), origin);
            }
            None => self.bindings.rests.push(Bound {
                name,
                value: found.into(),
                origin,
            }),
        }
    }

    #[inline(never)]
    fn compare_element(&mut self, expected: ElementPattern, found: ElementType, origin: Origin) {
        let (ElementPattern::Named(name) | ElementPattern::Bounded(name, _)) = expected else {
            if !expected.contains(found) {
                self.mistake(Reason::Element(None), origin);
            }
            return;
        };
        match find(&self.elements, name) {
            Some(bound) if bound.value != found => {
                let reason = Reason::Element(Some((name, bound.value, bound.origin)));
                self.mistake(reason, origin);
            }
            _ if !expected.contains(found) => self.mistake(Reason::Element(None), origin),
            Some(_) => {}
            None => self.elements.push(Bound {
                name,
                value: found,
                origin,
            }),
        }
    }

    /// Compares the computed lengths, and returns whether all shapes match.
    #[doc(hidden)]
    #[inline]
    pub fn matches(&mut self) -> bool {
        if !self.deferred.is_empty() {
            self.compare_computed();
        }
        !self.is_broken
    }

    /// Compares the computed lengths. A computed length is not compared if one of its names is not bound. This is
    /// possible if an optional field is absent.
    fn compare_computed(&mut self) {
        for Deferred {
            expression,
            found,
            origin,
        } in std::mem::take(&mut self.deferred)
        {
            match expression.value(|name| self.bindings.length_of(name)) {
                Some(Length::Is(expected)) if expected == found => {}
                None => {}
                Some(computed) => self.mistake(Reason::Computed(expression, computed), origin),
            }
        }
    }

    #[cold]
    fn mistake(&mut self, reason: Reason, origin: Origin) {
        self.is_broken = true;
        if let Some(mut report) = self.report.take() {
            report.add(reason, origin, &self.bindings);
            self.report = Some(report);
        }
    }
}
