//! Changes the kinds of fields in whole trees.

use std::collections::HashSet;
use std::sync::Arc;

use crate::base::kind::{FieldKind, LeafKind};
use crate::node::shape::DynamicShape;
use crate::treedef::{NodeView, TreeDef};

/// A change of the kinds of all fields.
#[derive(Clone, Copy)]
pub(super) enum Change {
    /// Turns parameters into states of the collection [`Frozen`](crate::Frozen). Parameters in a collection of their
    /// own become states of a collection with the same name below [`Frozen`](crate::Frozen).
    Freeze,
    /// Turns states of the collection [`Frozen`](crate::Frozen) into parameters, except for fields whose leaves have
    /// kinds of their own. A field whose leaves have kinds of their own belongs to a [`Freeze`](crate::Freeze), and was
    /// not a parameter.
    Thaw,
}

impl Change {
    /// Returns the kind that a field of kind `kind` has after the change. `has_own` returns whether the leaves of the
    /// field have kinds of their own, from fields inside the value.
    pub(super) fn of(
        self,
        kind: Option<FieldKind>,
        has_own: impl FnOnce() -> bool,
    ) -> Option<FieldKind> {
        match (self, kind) {
            (Self::Freeze, Some(kind)) => Some(kind.frozen()),
            (Self::Thaw, Some(kind)) if kind.thawed() != kind && !has_own() => Some(kind.thawed()),
            _ => kind,
        }
    }
}

/// Returns whether any of these nodes has a field that determines the kind of its leaves.
pub(super) fn has_kinds<'t>(mut nodes: impl Iterator<Item = NodeView<'t>>) -> bool {
    let decides = |kind: Option<FieldKind>| kind.and_then(LeafKind::of_field).is_some();
    nodes.any(|node| node.shape().fields().any(|(_, kind)| decides(kind)))
}

/// Returns the treedef with the kinds of all fields changed.
pub(super) fn with_kinds(treedef: &TreeDef, change: Change) -> TreeDef {
    let mut made: HashSet<Arc<DynamicShape>> = HashSet::new();
    treedef.with_shapes(|node| {
        let shape = node.shape();
        let has_own = |position: usize| {
            let child = node.child(position);
            child.is_some_and(|child| has_kinds(child.below()))
        };
        let kinds = shape.fields().enumerate();
        let kinds: Vec<_> = kinds
            .map(|(position, (_, kind))| change.of(kind, || has_own(position)))
            .collect();
        if shape
            .fields()
            .map(|(_, kind)| kind)
            .eq(kinds.iter().copied())
        {
            return None;
        }
        let fields = shape.fields().map(|(name, _)| name).zip(kinds);
        let changed =
            DynamicShape::of_distinct(shape.kind(), shape.name(), fields, shape.static_names())
                .with_axes(shape.axes_of_fields());
        if let Some(known) = made.get(&changed) {
            return Some(Arc::clone(known));
        }
        made.insert(Arc::clone(&changed));
        Some(changed)
    })
}
