//! The argument of a function that is differentiated: its leaves, which of them are active, and how a gradient is made.

use std::panic::Location;

use pytree_core::bug::{bug, expect_next};
use pytree_core::{Filter, LeafKind, SelectPart, Tree, TreeDef};

use crate::tensor::Tensor;
use crate::transformations::aliasing::conflicts;
use crate::transformations::grad::Gradient;

/// An argument, taken apart.
#[derive(Debug)]
pub(crate) struct Argument {
    pub(crate) treedef: TreeDef,
    pub(crate) leaves: Vec<Tensor>,
    /// Which leaves to differentiate.
    pub(crate) active: Vec<bool>,
    kinds: Vec<Option<LeafKind>>,
}

impl Argument {
    /// The argument, of which the leaves that `wrt` accepts are differentiated; by default those that are not states.
    ///
    /// # Panics
    /// If a node has several kinds, if the filter cannot choose, or if a leaf to differentiate is not a float.
    pub(crate) fn new(
        leaves: Vec<Tensor>,
        treedef: TreeDef,
        wrt: Option<&Filter>,
        line: &Location<'_>,
    ) -> Self {
        let kinds = treedef.leaf_kinds();
        let show = |kind: &Option<LeafKind>| match kind {
            Some(kind) => format!("{kind} at"),
            None => "no kind at".to_owned(),
        };
        let conflicts = conflicts(&treedef, &kinds, |all, _| Some(all.leaf_kinds()), show);
        assert!(
            conflicts.is_empty(),
            "cannot differentiate: one node is at several places of different kinds: {}; give the fields one kind, or each a node of its own (gradient taken at {line})",
            conflicts.join("; ")
        );
        let active: Vec<bool> = match wrt {
            None => kinds
                .iter()
                .map(|kind| !matches!(kind, Some(LeafKind::State(_))))
                .collect(),
            Some(filter) => match filter.choose(&treedef, &leaves) {
                Ok(chosen) => chosen,
                Err(error) => panic!(
                    "cannot choose what to differentiate by {filter:?}: {error} (gradient taken at {line})"
                ),
            },
        };
        if active
            .iter()
            .zip(&leaves)
            .any(|(&active, leaf)| active && !leaf.dtype().is_float())
        {
            let places: Vec<String> = treedef
                .leaf_paths()
                .iter()
                .zip(&leaves)
                .zip(&active)
                .filter(|((_, leaf), active)| **active && !leaf.dtype().is_float())
                .map(|((path, leaf), _)| format!("{} ({})", path.or_root(), leaf.info()))
                .collect();
            panic!(
                "cannot differentiate with respect to {}: only f32 and f64 have gradients; make it a state, capture it in the closure, or choose the leaves with `.wrt(filter)` (gradient taken at {line})",
                places.join(", ")
            );
        }
        Self {
            treedef,
            leaves,
            active,
            kinds,
        }
    }

    /// Puts the cotangents of the active leaves in the argument's structure. A leaf without a kind that received none has
    /// a gradient of `zeros`, and so has a member of a tuple that is not differentiated; a parameter that received none is
    /// absent.
    pub(crate) fn gradient<M: SelectPart<Tensor>>(
        &self,
        cotangents: Vec<Option<Tensor>>,
        zeros: impl Fn(&Tensor) -> Tensor,
    ) -> Gradient<M> {
        let mut cotangents = cotangents.into_iter();
        // A tensor that is the argument, or a member of a tuple, has a gradient that is a tensor.
        let members = self.treedef.is_tuple_member();
        let gradients = self
            .leaves
            .iter()
            .zip(&self.active)
            .zip(self.kinds.iter().zip(members))
            .map(|((leaf, &active), (kind, member))| {
                let cotangent = if active {
                    expect_next(
                        &mut cotangents,
                        "a cotangent, or none, for each active leaf",
                    )
                } else {
                    None
                };
                if member || (active && kind.is_none()) {
                    return Some(cotangent.unwrap_or_else(|| zeros(leaf)));
                }
                cotangent
            })
            .collect();
        match Tree::with_absent(&self.treedef, gradients).and_then(M::select_part) {
            Ok(part) => part,
            Err(error) => bug(format_args!(
                "a gradient of the argument's type, found that {error}"
            )),
        }
    }
}
