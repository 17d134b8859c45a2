//! The argument of a transformation: a single value, or several values that are borrowed from different memory
//! locations.

use crate::contract::pytree::{PytreeOf, Visitor};
use crate::node::leaf::Leaf;

/// A value that can be flattened as one tree of leaves of type `L`, although its members may be borrowed from different
/// memory locations.
///
/// Implement `visit` for a type with several members as a tuple does: call [`enter`](Visitor::enter) with
/// [`TUPLE`](crate::shape::TUPLE), visit each member, and call [`exit`](Visitor::exit).
pub trait Visited<L> {
    /// Visits the value in preorder with `visitor`.
    fn visit<'v>(&'v self, visitor: &mut dyn Visitor<'v>);
}

impl<L: Leaf + Clone, T: PytreeOf<L>> Visited<L> for &T {
    #[inline]
    fn visit<'v>(&'v self, visitor: &mut dyn Visitor<'v>) {
        T::visit(self, visitor);
    }
}
