//! The lengths of named axes, and the comparison of shapes with patterns.

use smallvec::SmallVec;

use super::capture;
use super::pattern::{AxisPattern, ElementPattern, Expression, Length, Rest, ShapePattern};
use super::report::{Reason, Report, suspects};
use crate::base::error::ShapeMismatch;
use crate::node::leaf::{ArrayInfo, ElementType, MappedAxis};

/// The owner of a checked shape. Messages suggest a different fix for each owner.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// A field of the module.
    Module,
    /// An argument of the function.
    Argument,
    /// The result of the function.
    Result,
}

/// Where a name got its length.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Origin {
    /// The pattern of the field or argument. `None` for a static field, a constant or an integer argument, because its
    /// value is the length.
    pub(super) pattern: Option<&'static ShapePattern>,
    pub(super) owner: Owner,
    /// The index of the shape in the report. `u32::MAX` if there is no report or no shape.
    pub(super) recorded: u32,
}

/// A name that is bound to a value: to the length of an axis, to a dtype, or to the lengths of the axes of `*name`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bound<T> {
    pub(super) name: &'static str,
    pub(super) value: T,
    origin: Origin,
}

impl<T> Bound<T> {
    /// Returns the label of the field or argument that gave the name its value.
    pub(super) fn label(&self) -> &'static str {
        let pattern = self.origin.pattern;
        pattern.map_or(self.name, |pattern| pattern.label)
    }

    /// Returns whether the value belongs to a static field or to a constant of the module.
    pub(super) fn is_static(&self) -> bool {
        self.origin.pattern.is_none() && self.origin.owner == Owner::Module
    }
}

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
    lengths: SmallVec<[Bound<usize>; 8]>,
    elements: SmallVec<[Bound<ElementType>; 1]>,
    /// The axes that are bound to `*name`.
    rests: SmallVec<[Bound<SmallVec<[usize; 4]>>; 1]>,
    deferred: SmallVec<[Deferred; 2]>,
    owner: Owner,
    /// The number of leading axes that are not part of a module's patterns, because the module is stacked.
    pub(crate) stacked: usize,
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
            lengths: SmallVec::new(),
            elements: SmallVec::new(),
            rests: SmallVec::new(),
            deferred: SmallVec::new(),
            owner: Owner::Module,
            stacked: 0,
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

    /// Returns the report of a scope that records.
    pub(super) fn report(&self) -> Option<&Report> {
        self.report.as_deref()
    }

    /// Runs failed comparisons again in a scope that records all shapes, and returns the mismatches. If another value of
    /// one static field fits all shapes, the mismatches name this field and the value.
    pub(crate) fn explained(module: &str, compare: &dyn Fn(&mut Self)) -> Vec<ShapeMismatch> {
        let mut scope = Self::recording(module);
        compare(&mut scope);
        scope.matches();
        let suspects = suspects(&scope, &|name, length| {
            let mut other = Self::recording(module);
            if let Some(report) = &mut other.report {
                report.assume(name, length);
            }
            compare(&mut other);
            other.matches()
        });
        let report = scope.report.take();
        report.map_or_else(Vec::new, |report| report.into_explained(&suspects))
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

    /// Returns the names with their lengths.
    #[inline]
    pub(super) fn lengths(&self) -> &[Bound<usize>] {
        &self.lengths
    }

    /// Returns the length of the axis with the given name. Returns `None` if no length is bound to the name.
    pub(super) fn length_of(&self, name: &str) -> Option<usize> {
        Some(find(self.lengths(), name)?.value)
    }

    /// Returns where a name got its length.
    pub(super) fn origin_of(&self, name: &str) -> Option<Origin> {
        let length = find(self.lengths(), name).map(|bound| bound.origin);
        length.or_else(|| find(&self.rests, name).map(|bound| bound.origin))
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
            self.lengths.push(Bound {
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
        let shape = found.shape.get(self.stacked..);
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
            match find(self.lengths(), name) {
                Some(bound) if bound.value == found => {}
                Some(_) => self.mistake(Reason::Name(name, found), self.origin(pattern)),
                None => {
                    let origin = self.origin(pattern);
                    self.lengths.push(Bound {
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
                match find(self.lengths(), name) {
                    Some(bound) if bound.value == found => {}
                    Some(_) => self.mistake(Reason::Name(name, found), origin),
                    None => self.lengths.push(Bound {
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
        match find(&self.rests, name) {
            Some(bound) if bound.value[..] == *found => {}
            Some(bound) => {
                let expected = bound.value.to_vec();
                self.mistake(Reason::Rest(name, expected), origin);
            }
            None => self.rests.push(Bound {
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
            match expression.value(|name| self.length_of(name)) {
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
            report.add(reason, origin, self);
            self.report = Some(report);
        }
    }
}

#[inline]
fn find<'b, T>(bound: &'b [Bound<T>], name: &str) -> Option<&'b Bound<T>> {
    bound.iter().find(|bound| is_same(bound.name, name))
}

/// Returns whether two names are equal. Equal names in one crate usually have the same address, so their bytes are
/// rarely compared.
#[inline]
fn is_same(left: &str, right: &str) -> bool {
    left.len() == right.len() && (std::ptr::eq(left.as_ptr(), right.as_ptr()) || left == right)
}
