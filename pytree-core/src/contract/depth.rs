//! The depth of a walk through typed values, which recurses.
//!
//! Functions that flatten, build or compare a typed value call themselves for each node inside of another node, so the
//! stack of the thread limits the depth. A value may nest 256 nodes deep in any thread. A transparent node, such as
//! `Some`, `Shared` or `Ref`, counts as an eighth of a node. In a thread with a larger stack, [`with_stack`] allows
//! deeper values. A dynamic [`Tree`](crate::Tree) has no limit.

use std::cell::Cell;

use crate::node::shape::NodeKind;

thread_local! {
    /// The stack that walks may use: the address at which it begins, and its size in bytes.
    static STACK: Cell<Option<(usize, usize)>> = const { Cell::new(None) };
}

/// The number of bytes of stack that a walk leaves for the frames between two nodes, and for the functions that the
/// walk calls.
const RESERVE: usize = 128 << 10;

/// Runs `run`. In `run`, a walk over a typed value may use `bytes` of stack. The limit of 256 nested nodes does not
/// apply there.
///
/// Leave a part of the thread's stack to the frames around the walk: a quarter is enough. In a debug build, a struct of
/// six fields behind a reference takes 7 KiB of stack; in a release build it takes less. A value that needs more than
/// `bytes` is rejected, like a value outside of `run` that is nested too deep. Dropping a deep value recurses, too, but
/// needs less stack.
///
/// # Examples
/// ```
/// use pytree_core::{Pytree, Ref, depth, nodes};
///
/// #[derive(Pytree)]
/// struct Link {
///     value: f32,
///     next: Option<Ref<Link>>,
/// }
///
/// let chain = (1..1000).fold(Link { value: 0.0, next: None }, |next, level| Link {
///     value: level as f32,
///     next: Some(Ref::new(next)),
/// });
/// let large = std::thread::Builder::new().stack_size(64 << 20);
/// let thread = large.spawn(move || depth::with_stack(48 << 20, || nodes::copy(&chain)));
/// assert_eq!(thread?.join().unwrap().value, 999.0);
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn with_stack<R>(bytes: usize, run: impl FnOnce() -> R) -> R {
    let _guard = Allowed(STACK.replace(Some((stack_address(), bytes))));
    run()
}

/// Restores the previously allowed stack when the guard is dropped.
struct Allowed(Option<(usize, usize)>);

impl Drop for Allowed {
    fn drop(&mut self) {
        STACK.set(self.0);
    }
}

/// Returns an address in the frame of this function.
#[inline(never)]
pub(crate) fn stack_address() -> usize {
    let here = 0_u8;
    std::ptr::from_ref(std::hint::black_box(&here)).addr()
}

/// Returns whether the stack has grown by much since `mark`, an earlier [`stack_address`]. Stacks grow downwards.
pub(crate) fn has_grown_since(mark: usize) -> bool {
    mark.saturating_sub(stack_address()) >= RESERVE
}

/// Returns whether [`with_stack`] allows another node.
#[cold]
pub(crate) fn stack_allows() -> bool {
    STACK.get().is_some_and(|(from, bytes)| {
        let used = from.abs_diff(stack_address());
        used.saturating_add(RESERVE) < bytes
    })
}

/// The greatest depth of nested typed values, in nodes. Dynamic trees have no limit.
///
/// In a debug build, building nested structs of six fields (one field of 128 bytes, and two maps or lists) takes 4.8
/// KiB of stack for each struct: 1.2 MiB at this depth. A thread has 2 MiB, so twice the depth would overflow its
/// stack.
pub(crate) const DEPTH_LIMIT: usize = 256;

/// Depth is counted in eighths of a node. A transparent node, such as `Some`, counts as one eighth because it takes
/// little stack. For example, if each struct of a chain is inside a `Some` and a reference, a struct takes 7 KiB. The
/// limit allows 204 such structs, which take 1.4 MiB.
const NODE: usize = 8;
const TRANSPARENT: usize = 1;

/// The greatest number of nested nodes, transparent or not. Only a handwritten impl of `Pytree` can exceed this limit
/// before its depth exceeds [`DEPTH_LIMIT`].
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
    let limit = if parts + part > NODE * DEPTH_LIMIT {
        DEPTH_LIMIT
    } else if nodes >= NODE_LIMIT {
        NODE_LIMIT
    } else {
        return Ok(parts + part);
    };
    if stack_allows() {
        Ok(parts + part)
    } else {
        Err(limit)
    }
}

/// Checks that a new node of the given kind is not nested too deep. `above` yields the kinds of the nodes that contain
/// the new node, from the root down. The time is linear in the number of nodes. The time is constant if there are fewer
/// than [`DEPTH_LIMIT`] nodes, or if [`with_stack`] provides enough stack.
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
    if stack_allows() {
        return Ok(());
    }
    let (mut parts, mut nodes) = (0, 0);
    for above in above {
        parts = entered(parts, nodes, above)?;
        nodes += 1;
    }
    entered(parts, nodes, kind).map(drop)
}
