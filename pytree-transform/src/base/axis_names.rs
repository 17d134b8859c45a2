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

impl From<&str> for AxisNames {
    fn from(name: &str) -> Self {
        Self::from_iter([name])
    }
}
impl From<&String> for AxisNames {
    fn from(name: &String) -> Self {
        Self::from_iter([name])
    }
}
impl From<String> for AxisNames {
    fn from(name: String) -> Self {
        Self::from_iter([name])
    }
}
impl<T: AsRef<str>, const N: usize> From<[T; N]> for AxisNames {
    fn from(names: [T; N]) -> Self {
        Self::from_iter(names)
    }
}
impl<T: AsRef<str>> From<&[T]> for AxisNames {
    fn from(names: &[T]) -> Self {
        Self::from_iter(names)
    }
}
impl<A: AsRef<str>, B: AsRef<str>> From<(A, B)> for AxisNames {
    fn from((first, second): (A, B)) -> Self {
        Self::from_iter([first.as_ref(), second.as_ref()])
    }
}
impl<A: AsRef<str>, B: AsRef<str>, C: AsRef<str>> From<(A, B, C)> for AxisNames {
    fn from((first, second, third): (A, B, C)) -> Self {
        Self::from_iter([first.as_ref(), second.as_ref(), third.as_ref()])
    }
}

impl fmt::Display for AxisNames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join(", "))
    }
}
