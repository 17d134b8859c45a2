//! What a branch or a loop must give back, beside what it gives: all differences at once.

use std::collections::HashMap;

use pytree_core::bug::{LEAVES, pairs};
use pytree_core::{References, TreeDef};

use crate::base::dtype::AbstractArray;

/// The difference of what was found to what was expected, one line each; nothing if there is none.
pub(crate) fn differences(
    expected: (&TreeDef, &[AbstractArray]),
    found: (&TreeDef, &[AbstractArray]),
) -> Vec<String> {
    if expected.0 != found.0 {
        let of_structure = expected.0.differences(found.0);
        return of_structure.iter().map(ToString::to_string).collect();
    }
    let paths = expected.0.leaf_paths();
    let both = pairs(expected.1, found.1, LEAVES);
    pairs(&paths, both, LEAVES)
        .filter(|(_, (expected, found))| expected != found)
        .map(|(path, (expected, found))| {
            format!("at {}: expected {expected}, found {found}", path.or_root())
        })
        .collect()
}

/// The references of a carry that are others than those it was given at the same places, one line each. Reading one in
/// the next iteration would read what another holds, and afterwards the values would be in the wrong ones.
pub(crate) fn moved(before: &References, treedef: &TreeDef, after: &References) -> Vec<String> {
    let (given, found) = (before.identities(), after.identities());
    let places = treedef.references();
    // Where the structures differ, those are reported, and these are not.
    let both = given.iter().zip(&found).zip(&places);
    both
        .filter(|((given, found), _)| given != found)
        .map(|(_, place)| {
            format!(
                "at {}: another reference than was given there; write to that with `.set(…)` and give it back",
                place.path.or_root()
            )
        })
        .collect()
}

/// The references that two values share, with their places in each.
pub(crate) fn in_both(
    carry: (&TreeDef, &References),
    inputs: (&TreeDef, &References),
) -> Vec<String> {
    let (of_carry, of_inputs) = (carry.1.identities(), inputs.1.identities());
    let positions: HashMap<_, usize> = of_inputs
        .iter()
        .enumerate()
        .map(|(at, identity)| (identity, at))
        .collect();
    let shared = of_carry.iter().enumerate();
    let shared: Vec<(usize, usize)> = shared
        .filter_map(|(left, identity)| Some((left, *positions.get(identity)?)))
        .collect();
    if shared.is_empty() {
        return Vec::new();
    }
    let (left_places, right_places) = (carry.0.references(), inputs.0.references());
    let text = |(left, right): (usize, usize)| {
        let left = left_places[left].path.or_root();
        format!(
            "{left} of the carry is {}",
            right_places[right].path.or_root()
        )
    };
    shared.into_iter().map(text).collect()
}

/// How to mend results that differ: if all do in shapes and element types only, or else in their structures.
pub(crate) fn mend(differences: &[String]) -> &'static str {
    if differences.iter().all(|text| text.contains(": expected ")) {
        "change an element type with `.convert(…)` and a shape with `.reshape(…)` or `.broadcast_to(…)`"
    } else {
        "give back the structure that is expected, with the same references at the same places; what comes up inside, such as values sown, is returned beside it, or popped before"
    }
}
