//! Leaves of types that no feature of this crate knows.

use std::fmt;

use crate::node::leaf::Leaf;

/// A value of any type as a leaf, which may be a parameter or a state: for types of other crates. Of its own type, a crate derives
/// [`Leaf`](derive@crate::Leaf) instead. Functions that need elements, such as files, summaries and comparisons within a tolerance, treat
/// it as a leaf without a shape.
///
/// # Examples
/// ```
/// use std::time::Duration;
/// use pytree_core::{Module, Opaque};
///
/// #[derive(Module, Clone, Debug)]
/// struct Timed {
///     #[state]
///     spent: Opaque<Duration>,
/// }
///
/// let mut timed = Timed { spent: Opaque(Duration::ZERO) };
/// *timed.spent += Duration::from_secs(1);
/// assert_eq!(timed.spent.as_secs(), 1);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Opaque<T>(
    /// The value.
    pub T,
);

pytree_base::dereferences! { [T] Opaque<T>, 0: T }

impl<T: Clone + fmt::Debug + Send + Sync + 'static> Leaf for Opaque<T> {
    crate::__leaf_methods!();
    fn display(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
crate::__leaf_is_pytree!([T: Clone + fmt::Debug + Send + Sync + 'static] Opaque<T>);
crate::leaf_field!(param [T: Clone + fmt::Debug + Send + Sync + 'static] Opaque<T>);
