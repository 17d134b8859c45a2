//! The names of batch axes.

use std::fmt;
use std::sync::Arc;

use smallvec::SmallVec;

/// The name of a batch axis.
pub(crate) type AxisName = Arc<str>;

/// The names of one or more batch axes, outermost first. Collectives such as [`psum`](crate::psum) work over these
/// axes.
///
/// A string is one name. An array, slice or tuple of strings holds several names.
///
/// # Examples
/// ```
/// use pytree_transform::AxisNames;
/// assert_eq!(AxisNames::from("batch").to_string(), "batch");
/// assert_eq!(AxisNames::from(["rows", "columns"]).to_string(), "rows, columns");
/// assert_eq!(AxisNames::from(("rows", "columns")), AxisNames::from(["rows", "columns"]));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct AxisNames(SmallVec<[AxisName; 1]>);

impl AxisNames {
    pub(crate) fn as_slice(&self) -> &[AxisName] {
        &self.0
    }

    /// Returns the first repeated name, or `None` if all names differ.
    pub(crate) fn duplicate(&self) -> Option<&AxisName> {
        let mut names = self.0.iter().enumerate();
        names.find_map(|(position, name)| self.0[..position].contains(name).then_some(name))
    }
}

impl<T: AsRef<str>> FromIterator<T> for AxisNames {
    fn from_iter<I: IntoIterator<Item = T>>(names: I) -> Self {
        let names = names.into_iter();
        Self(names.map(|name| AxisName::from(name.as_ref())).collect())
    }
}

pytree_base::conversions! { AxisNames:
    [] &str, |name| Self::from_iter([name]);
    [] &String, |name| Self::from_iter([name]);
    [] String, |name| Self::from_iter([name]);
    [T: AsRef<str>, const N: usize] [T; N], |names| Self::from_iter(names);
    [T: AsRef<str>] &[T], |names| Self::from_iter(names);
    [A: AsRef<str>, B: AsRef<str>] (A, B), |(first, second)| Self::from([first.as_ref(), second.as_ref()]);
    [A: AsRef<str>, B: AsRef<str>, C: AsRef<str>] (A, B, C), |(first, second, third)| Self::from([first.as_ref(), second.as_ref(), third.as_ref()]);
}

impl fmt::Display for AxisNames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join(", "))
    }
}
