//! Displays of lists.

use std::fmt;

/// Displays items with a separator between them.
///
/// # Examples
/// ```
/// use pytree_base::lists::Joined;
/// assert_eq!(Joined(", ", [1, 2]).to_string(), "1, 2");
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Joined<I>(pub &'static str, pub I);

impl<I: IntoIterator<Item: fmt::Display> + Clone> fmt::Display for Joined<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, item) in self.1.clone().into_iter().enumerate() {
            f.write_str(if position == 0 { "" } else { self.0 })?;
            item.fmt(f)?;
        }
        Ok(())
    }
}

/// Displays items as a tuple of Python.
///
/// # Examples
/// ```
/// use pytree_base::lists::Tuple;
/// assert_eq!(Tuple([2, 3]).to_string(), "(2, 3)");
/// assert_eq!(Tuple([1]).to_string(), "(1,)");
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Tuple<I>(pub I);

impl<I: IntoIterator<Item: fmt::Display> + Clone> fmt::Display for Tuple<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_single = self.0.clone().into_iter().count() == 1;
        let end = if is_single { "," } else { "" };
        write!(f, "({}{end})", Joined(", ", self.0.clone()))
    }
}
