//! The depth of a walk through typed values, which recurses.

use crate::node::shape::NodeKind;

/// The greatest depth of nested typed values, in nodes. Dynamic trees have no limit.
///
/// In a debug build, building nested structs of six fields (one of 128 bytes, two maps or lists) takes 4.8 KiB of stack
/// for each struct: 1.2 MiB at this depth. A thread has 2 MiB, so twice the depth would overflow its stack.
pub(crate) const DEPTH_LIMIT: usize = 256;

/// Depth is counted in eighths of a node. A transparent node, such as `Some`, counts as one eighth because it takes
/// little stack: in a chain of nested structs that are each inside a `Some` and a reference, a struct takes 7 KiB, and
/// the 204 structs within the limit take 1.4 MiB.
const NODE: usize = 8;
const TRANSPARENT: usize = 1;

/// The greatest number of nested nodes, transparent or not. Only a handwritten impl of `Pytree` exceeds this limit
/// first.
pub(crate) const NODE_LIMIT: usize = 4 * DEPTH_LIMIT;

/// Returns the depth of a new node, in eighths of a node. The node is below `nodes` other nodes, whose depth is
/// `parts`.
///
/// # Errors
/// Returns the limit that the node exceeds.
#[inline]
pub(crate) fn entered(parts: usize, nodes: usize, kind: NodeKind) -> Result<usize, usize> {
    let part = if kind.is_transparent() {
        TRANSPARENT
    } else {
        NODE
    };
    if parts + part > NODE * DEPTH_LIMIT {
        Err(DEPTH_LIMIT)
    } else if nodes >= NODE_LIMIT {
        Err(NODE_LIMIT)
    } else {
        Ok(parts + part)
    }
}

/// Checks that a node may begin inside of the nodes with the kinds `above`, from the root down.
///
/// # Errors
/// Returns the limit that the node exceeds.
#[inline]
pub(crate) fn check(
    above: impl ExactSizeIterator<Item = NodeKind>,
    kind: NodeKind,
) -> Result<(), usize> {
    // Fewer nodes than the limit are never too deep, whatever their kinds are.
    if above.len() < DEPTH_LIMIT {
        return Ok(());
    }
    check_kinds(above, kind)
}

/// Checks the depth like [`check`], for any number of nodes.
#[cold]
fn check_kinds(above: impl Iterator<Item = NodeKind>, kind: NodeKind) -> Result<(), usize> {
    let (mut parts, mut nodes) = (0, 0);
    for above in above {
        parts = entered(parts, nodes, above)?;
        nodes += 1;
    }
    entered(parts, nodes, kind).map(drop)
}
