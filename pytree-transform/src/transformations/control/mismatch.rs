//! What a branch or a loop must give back, beside what it gives: all differences at once.

use pytree_core::TreeDef;

use crate::dtype::AbstractArray;

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
    let pairs = expected.1.iter().zip(found.1);
    paths
        .iter()
        .zip(pairs)
        .filter(|(_, (expected, found))| expected != found)
        .map(|(path, (expected, found))| {
            format!("at {}: expected {expected}, found {found}", path.or_root())
        })
        .collect()
}

/// How to mend results that differ.
pub(crate) const MEND: &str = "change an element type with `.convert(…)` and a shape with `.reshape(…)` or `.broadcast_to(…)`";
