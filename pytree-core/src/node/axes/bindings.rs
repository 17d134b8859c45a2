//! The lengths to which the names of axes are bound, and where each name got its length.

use smallvec::SmallVec;

use super::pattern::ShapePattern;

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
    pub(super) origin: Origin,
}

impl<T> Bound<T> {
    /// Returns the label of the field or argument that gave the name its value.
    pub(super) fn label(&self) -> &'static str {
        (self.origin.pattern).map_or(self.name, |pattern| pattern.label)
    }

    /// Returns whether the value belongs to a static field or to a constant of the module.
    pub(super) fn is_static(&self) -> bool {
        self.origin.pattern.is_none() && self.origin.owner == Owner::Module
    }
}

/// The lengths of the names in a scope.
#[derive(Debug, Default)]
pub(crate) struct Bindings {
    pub(super) lengths: SmallVec<[Bound<usize>; 8]>,
    /// The axes that are bound to `*name`.
    pub(super) rests: SmallVec<[Bound<SmallVec<[usize; 4]>>; 1]>,
    /// The number of leading axes that are not part of a module's patterns, because the module is stacked.
    pub(crate) stacked: usize,
}

impl Bindings {
    /// Returns the length of the axis with the given name. Returns `None` if no length is bound to the name.
    pub(super) fn length_of(&self, name: &str) -> Option<usize> {
        Some(find(&self.lengths, name)?.value)
    }

    /// Returns where a name got its length.
    pub(super) fn origin_of(&self, name: &str) -> Option<Origin> {
        let length = find(&self.lengths, name).map(|bound| bound.origin);
        length.or_else(|| find(&self.rests, name).map(|bound| bound.origin))
    }
}

#[inline]
pub(super) fn find<'b, T>(bound: &'b [Bound<T>], name: &str) -> Option<&'b Bound<T>> {
    bound.iter().find(|bound| is_same(bound.name, name))
}

/// Returns whether two names are equal. Equal names in one crate usually have the same address, so their bytes are
/// rarely compared.
#[inline]
fn is_same(left: &str, right: &str) -> bool {
    left.len() == right.len() && (std::ptr::eq(left.as_ptr(), right.as_ptr()) || left == right)
}
