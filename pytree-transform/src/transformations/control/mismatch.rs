//! Compares the results of a branch or a loop with the expected results, and reports all differences in one error.

use std::collections::HashMap;
use std::ops::Range;

use pytree_base::bug::{LEAVES, pairs};
use pytree_core::TreeDef;
use pytree_core::boundary::References;
use pytree_kernels::base::dtype::AbstractArray;

use crate::tensor::jaxpr::Jaxpr;

/// Returns a line for each difference between the found and the expected structure, shapes and dtypes.
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

/// Returns, for each carried value of a loop, whether the body may change it. `carry` is the range of the carried values among
/// the inputs, and among the outputs.
pub(crate) fn changed(body: &Jaxpr, carry: Range<usize>) -> Vec<bool> {
    let both = pairs(&body.inputs[carry.clone()], &body.outputs[carry], LEAVES);
    both.map(|(before, after)| before != after).collect()
}

/// Returns a line for each path at which the returned carry has a different reference than the received carry. With
/// such a carry, the next iteration would read and write the wrong reference.
pub(crate) fn moved(before: &References, treedef: &TreeDef, after: &References) -> Vec<String> {
    let (given, found) = (before.identities(), after.identities());
    let places = treedef.references();
    // If the structures differ, the callers report this difference and discard the result of this function.
    let both = given.iter().zip(&found).zip(&places);
    both
        .filter(|((given, found), _)| given != found)
        .map(|(_, place)| {
            format!(
                "at {}: found a different reference than the received one; write to the received reference with `.set(…)`, and return the received reference",
                place.path.or_root()
            )
        })
        .collect()
}

/// Returns a text for each reference that is both in the carry and in the inputs of a loop, with its path in the carry
/// and its path in the inputs.
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
            "{left} in the carry is {} in the inputs",
            right_places[right].path.or_root()
        )
    };
    shared.into_iter().map(text).collect()
}

/// Returns the advice at the end of a message about differences. The advice depends on whether only shapes and dtypes
/// differ.
pub(crate) fn fix(differences: &[String]) -> &'static str {
    if differences.iter().all(|text| text.contains(": expected ")) {
        "change an element type with `.convert(…)` and a shape with `.reshape(…)` or `.broadcast_to(…)`"
    } else {
        "return a value with the expected structure, and with the same references at the same paths; return additional values, such as sown intermediates, separately, or pop them first"
    }
}
