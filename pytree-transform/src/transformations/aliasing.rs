//! One node at several places must mean one thing at all of them.

use pytree_core::bug::{LEAVES, pairs};
use pytree_core::{KeyPath, TreeDef};

/// What is said differently of the places of one node: the first place of each leaf of which something else is said
/// at a later one, and that, as text. `own` is what is said of the leaves where they are met first.
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
