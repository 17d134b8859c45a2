//! The argument of a function that is differentiated: its leaves, flags that mark the differentiated leaves, and the
//! gradient.
use std::panic::Location;

use pytree_base::bug::{bug, expect_next};
use pytree_core::{Filter, LeafKind, SelectPart, Tree, TreeDef};

use crate::tensor::Tensor;
use crate::transformations::aliasing::conflicts;

/// A flattened argument of a function that is differentiated.
#[derive(Debug)]
pub(crate) struct Argument {
    pub(crate) treedef: TreeDef,
    pub(crate) leaves: Vec<Tensor>,
    /// For each leaf, whether it is differentiated.
    pub(crate) active: Vec<bool>,
    kinds: Vec<Option<LeafKind>>,
}

impl Argument {
    /// Decides which leaves of an argument are differentiated: the leaves that `wrt` accepts, or by default all leaves
    /// except states.
    ///
    /// # Panics
    /// Panics if:
    /// - a shared node has different kinds at different paths
    /// - `wrt` does not fit the argument
    /// - a leaf to differentiate is not a float
    #[track_caller]
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
            "cannot differentiate: one shared node has different kinds at different paths: {}; give these fields the same kind, or use a separate node in each field (gradient taken at {line})",
            conflicts.join("; ")
        );
        let active: Vec<bool> = match wrt {
            None => kinds
                .iter()
                .map(|kind| !kind.as_ref().is_some_and(LeafKind::is_state))
                .collect(),
            Some(filter) => match filter.choose(&treedef, &leaves) {
                Ok(chosen) => chosen,
                Err(error) => panic!(
                    "cannot choose the leaves to differentiate with the filter {filter:?}: {error} (gradient taken at {line})"
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
                "cannot differentiate with respect to {}: only floats have gradients; make the leaf a state, capture the tensor in the closure, or choose other leaves with `.wrt(filter)` (gradient taken at {line})",
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

    /// Builds the gradient, in the argument's structure, from the cotangents of the differentiated leaves. If a
    /// cotangent is `None`, the gradient of a parameter is absent, and the gradient of a leaf without a kind is
    /// `zeros`. A tensor that is a member of a tuple has the gradient `zeros` even if it is not differentiated.
    pub(crate) fn gradient<M: SelectPart<Tensor>>(
        &self,
        cotangents: Vec<Option<Tensor>>,
        zeros: impl Fn(&Tensor) -> Tensor,
    ) -> Gradient<M> {
        let mut cotangents = cotangents.into_iter();
        // If the argument or a member of a tuple is a tensor, its gradient is a tensor and cannot be absent.
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
        match Tree::with_absent(&self.treedef.as_whole(), gradients).and_then(M::select_part) {
            Ok(part) => part,
            Err(error) => bug(format_args!(
                "a gradient with the type of the argument, found the error: {error}"
            )),
        }
    }
}

/// The type of the gradient with respect to an `M`: a tensor if `M` is a tensor, a tuple if `M` is a tuple, and a
/// [`Partition`](pytree_core::Partition) for every other type.
pub type Gradient<M> = <M as SelectPart<Tensor>>::Part;
