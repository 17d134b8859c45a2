//! The kinds of the leaves.
//!
//! The outermost parameter or state field around a leaf decides its kind. So the moments of an optimizer, which are parts of a
//! model, are states, although the fields of the model are parameters.

use smallvec::SmallVec;

use super::structure::{Kinds, TreeDef};
use crate::base::identity::{IdentityMap, NodeIdentity};
use crate::base::kind::{FieldKind, LeafKind};
use crate::node::shape::Shape;

impl TreeDef {
    /// Returns the kinds of the leaves, in order.
    pub fn leaf_kinds(&self) -> Vec<Option<LeafKind>> {
        self.decide_by_kind(|kind| kind)
    }

    /// Returns for each leaf, in order, the result of `decide` for its kind. Calls `decide` a few times, not once for each
    /// leaf.
    pub(crate) fn decide_by_kind<T: Copy>(
        &self,
        decide: impl FnMut(Option<LeafKind>) -> T,
    ) -> Vec<T> {
        let whole = self.whole();
        let kinds = whole.0.kinds.get_or_init(|| whole.find_kinds());
        let decisions: SmallVec<[T; 8]> = kinds.kinds.iter().copied().map(decide).collect();
        let of_leaves = kinds.of_leaves.iter().map(|&kind| decisions[kind as usize]);
        if !self.has_absent() {
            return of_leaves.collect();
        }
        let presence = self.presence();
        let places = of_leaves.zip(&*presence);
        places
            .filter_map(|(decision, &present)| present.then_some(decision))
            .collect()
    }

    /// Finds the outermost field around each leaf whose kind is `Param` or `State`.
    fn find_kinds(&self) -> Kinds {
        let mut kinds = vec![None];
        let mut of_leaves = Vec::with_capacity(self.num_leaves());
        let mut known = IdentityMap::default();
        let mut kind_of = |field: &FieldKind| match known.insert(NodeIdentity::of_cell(field)) {
            Ok(()) => {
                kinds.push(LeafKind::below_field(field));
                known.len()
            }
            Err(number) => number + 1,
        };
        // For each node that contains the current node: its shape, the number of visited children, the number of all
        // children, and the position of the kind of the outermost field that contains the node, if any.
        let mut open: Vec<(Shape<'_>, u32, u32, Option<usize>)> = Vec::new();
        for node in self.0.nodes.iter() {
            let mut kind = None;
            if let Some((shape, over, _, inherited)) = open.last_mut() {
                kind = inherited.or_else(|| {
                    let field = shape.field_kind(*over as usize);
                    field.filter(|field| field.decides()).map(&mut kind_of)
                });
                *over += 1;
            }
            if node.arity > 0 {
                open.push((self.0.shape_of(node), 0, node.arity, kind));
                continue;
            }
            if node.is_place() {
                of_leaves.push(super::count(kind.unwrap_or(0)));
            }
            while open.last().is_some_and(|(_, over, arity, _)| over == arity) {
                open.pop();
            }
        }
        Kinds { kinds, of_leaves }
    }
}
