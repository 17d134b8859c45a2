//! The patterns of shapes. A macro parses the text of a pattern at compile time; see `shape_language` in the derive.

use std::fmt;

use pytree_base::dtype::ElementType;

use super::roles::Roles;

/// A pattern that describes the dtype and the shape of an array, for instance `f32[batch in]`.
///
/// The derive generates patterns from the strings in `#[param("…")]` and `#[shapes(x = "…")]`. Two patterns are equal
/// if these strings are equal.
#[derive(Debug)]
pub struct ShapePattern {
    /// The name of the field or argument that the pattern describes.
    pub label: &'static str,
    /// The pattern as the user wrote it.
    pub text: &'static str,
    /// The dtype.
    pub element: ElementPattern,
    /// The axes before `rest`, or all axes if there is no `rest`.
    pub before: &'static [AxisPattern],
    /// `...` or `*name`: any number of axes.
    pub rest: Option<Rest>,
    /// The axes after `rest`.
    pub after: &'static [AxisPattern],
    /// The roles of the axes, if they are declared. Comparisons of shapes ignore the roles.
    pub roles: Option<Roles>,
}

/// The dtype in a [`ShapePattern`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ElementPattern {
    /// Any dtype.
    Any,
    /// One dtype, for instance `f32`.
    Is(ElementType),
    /// `float`: any float dtype.
    Float,
    /// `int`: any integer dtype.
    Integer,
    /// `number`: any integer or float dtype.
    Number,
    /// A name that begins with a capital letter, for instance `T`: the same dtype wherever the name occurs in a scope.
    Named(&'static str),
    /// A name with a family, for instance `T: float`. The dtype belongs to the family, and is the same at each
    /// occurrence of the name.
    Bounded(&'static str, &'static ElementPattern),
}

/// An axis in a [`ShapePattern`].
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum AxisPattern {
    /// `_`: any length.
    Any,
    /// A number: exactly this length.
    Length(usize),
    /// A name: the axis has the same length wherever the name occurs in a scope.
    Named(&'static str),
    /// `name?`: the length that is bound to the name, or 1.
    Broadcast(&'static str),
    /// A computed length, for instance `heads*head_dim`.
    Computed(&'static Expression),
}

/// Any number of axes in a [`ShapePattern`].
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Rest {
    /// `...`: any axes.
    Any,
    /// `*name`: the same axes wherever the name occurs in a scope.
    Named(&'static str),
}

/// A length that is computed from names and numbers.
#[derive(Debug)]
pub struct Expression {
    /// The expression as the user wrote it.
    pub text: &'static str,
    /// The expression in postfix notation: each operator is applied to the two values before it.
    pub steps: &'static [Step],
}

/// A step of an [`Expression`].
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Step {
    /// A number.
    Number(usize),
    /// The length that is bound to a name.
    Name(&'static str),
    /// An operation on the two values before it.
    Apply(Operator),
}

/// An operation on lengths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Operator {
    /// `+`
    Add,
    /// `-`
    Subtract,
    /// `*`
    Multiply,
    /// `/`, rounded down.
    Divide,
}

/// The greatest number of values that the computation of an [`Expression`] keeps at a time. The macro rejects deeper
/// expressions.
pub(super) const VALUES: usize = 16;

impl Expression {
    /// Returns the computed length, or `None` if no length is bound to a name. The result is [`Length::Undefined`] if
    /// the length is negative, too large, or a division by zero.
    pub(super) fn value(&self, length_of: impl Fn(&str) -> Option<usize>) -> Option<Length> {
        let mut values = [0_i128; VALUES];
        let mut count = 0;
        for step in self.steps {
            let value = match *step {
                Step::Number(number) => i128::try_from(number).ok()?,
                Step::Name(name) => i128::try_from(length_of(name)?).ok()?,
                Step::Apply(operator) => {
                    count -= 2;
                    let (left, right) = (values[count], values[count + 1]);
                    let result = match operator {
                        Operator::Add => left.checked_add(right),
                        Operator::Subtract => left.checked_sub(right),
                        Operator::Multiply => left.checked_mul(right),
                        Operator::Divide if right == 0 => None,
                        Operator::Divide => left.checked_div_euclid(right),
                    };
                    match result {
                        Some(result) => result,
                        None => return Some(Length::Undefined),
                    }
                }
            };
            values[count] = value;
            count += 1;
        }
        Some(usize::try_from(values[0]).map_or(Length::Undefined, Length::Is))
    }

    /// Iterates over the names, in order of their first occurrence.
    pub(super) fn names(&self) -> impl Iterator<Item = &'static str> {
        let names = self.steps.iter().filter_map(|step| match step {
            Step::Name(name) => Some(*name),
            _ => None,
        });
        let mut seen = Vec::new();
        names.filter(move |name| {
            let is_new = !seen.contains(name);
            seen.push(*name);
            is_new
        })
    }
}

/// The result of an [`Expression`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Length {
    Is(usize),
    /// A negative length, a division by zero, or a number that is too large.
    Undefined,
}

impl PartialEq for ShapePattern {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}
impl Eq for ShapePattern {}

impl ShapePattern {
    /// Creates a pattern of any dtype and without axes.
    #[doc(hidden)]
    pub const fn new(label: &'static str, text: &'static str) -> Self {
        Self {
            label,
            text,
            element: ElementPattern::Any,
            before: &[],
            rest: None,
            after: &[],
            roles: None,
        }
    }

    /// Returns the number of axes of the pattern, without `rest`.
    #[inline]
    pub(crate) const fn fixed(&self) -> usize {
        self.before.len() + self.after.len()
    }

    /// Returns whether an array with `axes` axes may match.
    #[inline]
    pub(super) const fn has_rank(&self, axes: usize) -> bool {
        let fixed = self.fixed();
        axes == fixed || (axes > fixed && self.rest.is_some())
    }

    /// Returns the axes as strings, in order. For `f32[... heads*head_dim]`, the strings are `...` and
    /// `heads*head_dim`.
    pub fn axes(&self) -> impl Iterator<Item = &'static str> {
        axes_of(self.text)
    }
}

/// Returns the axes of a pattern as strings, in order.
pub(crate) fn axes_of(text: &str) -> impl Iterator<Item = &str> {
    let inner = text.split_once('[').map_or(text, |(_, inner)| inner);
    inner.trim_end().trim_end_matches(']').split_whitespace()
}

impl fmt::Display for ShapePattern {
    /// Writes the pattern with brackets, as dtypes and shapes are displayed: `[batch in]`, `f32[batch in]`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.text.contains('[') {
            f.write_str(self.text)
        } else {
            write!(f, "[{}]", self.text)
        }
    }
}

impl ElementPattern {
    /// Returns whether a dtype belongs to the pattern. Returns true for a named dtype, because the scope compares the
    /// dtypes that have the same name.
    #[inline]
    pub(super) const fn contains(self, element: ElementType) -> bool {
        match self {
            Self::Any | Self::Named(_) => true,
            Self::Bounded(_, family) => family.contains(element),
            Self::Is(expected) => expected as u8 == element as u8,
            Self::Float => element.is_float(),
            Self::Integer => element.is_integer(),
            Self::Number => element.is_float() || element.is_integer(),
        }
    }
}
