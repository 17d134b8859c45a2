//! The argument of a transformation as the boundary sees it: one value, or values that are borrowed from several places.

use crate::contract::pytree::{PytreeOf, Visitor};
use crate::node::leaf::Leaf;

/// A value that can be flattened as one tree of leaves of type `L`, though its members may be borrowed from different
/// places.
///
/// A type with several members visits them as a tuple does: [`enter`](Visitor::enter) with
/// [`TUPLE`](crate::shape::TUPLE), each member, [`exit`](Visitor::exit).
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
