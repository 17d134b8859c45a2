//! Checks that a shared node has the same property, such as its batch axis, at all its paths.

use pytree_base::bug::{LEAVES, pairs};
use pytree_core::{KeyPath, TreeDef};

/// Compares a property of leaves, for instance the batch axis, at all paths of a shared node. Returns a text for each
/// later path at which the property differs from `own`, the property at the first path.
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
