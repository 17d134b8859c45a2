//! A node at several places must have the same property, such as its axis, at all of them.

use pytree_core::bug::{LEAVES, pairs};
use pytree_core::{KeyPath, TreeDef};

/// Returns the conflicts between the places of a node as text: each later place whose property differs, with the first
/// place of the leaf. `own` holds the properties of the leaves at their first places.
pub(crate) fn conflicts<T: PartialEq>(
    treedef: &TreeDef,
    own: &[T],
    at_all_places: impl FnOnce(&TreeDef, &[usize]) -> Option<Vec<T>>,
    show: impl Fn(&T) -> String,
) -> Vec<String> {
    let Some((all, which)) = treedef.with_all_places() else {
        return Vec::new();
    };
    let Some(said) = at_all_places(&all, &which) else {
        return Vec::new();
    };
    let (first, paths) = (treedef.leaf_paths(), all.leaf_paths());
    let place = |said: &T, path: &KeyPath| format!("{} {}", show(said), path.or_root());
    let each = pairs(pairs(&said, &which, LEAVES), &paths, LEAVES);
    let differing = each.filter(|((said, leaf), _)| **said != own[**leaf]);
    differing
        .map(|((said, &leaf), path)| {
            format!("{}, {}", place(&own[leaf], &first[leaf]), place(said, path))
        })
        .collect()
}
