//! The depth of a walk through typed values, which recurses.

use crate::node::shape::NodeKind;

/// The greatest depth of nested typed values, in nodes. Dynamic trees have no limit.
///
/// To build a struct of six fields (one of 128 bytes, two maps or lists) takes 4.8 KiB of stack a level in a debug
/// build: 1.2 MiB at this depth, of the 2 MiB of a thread. Twice the depth overflows the stack.
pub(crate) const DEPTH_LIMIT: usize = 256;

/// What a node counts, in parts of a node. A transparent node takes little stack: if each level of that struct is in a
/// `Some` and a reference, it takes 7 KiB, and 204 levels take 1.4 MiB.
const NODE: usize = 8;
const TRANSPARENT: usize = 1;

/// The greatest depth in transparent nodes alone. Only an impl of `Pytree` written by hand nests them without others.
pub(crate) const NODE_LIMIT: usize = 4 * DEPTH_LIMIT;

/// The number of open nodes. It allocates nothing, because calls of compiled functions walk their arguments.
#[derive(Clone, Debug, Default)]
pub(crate) struct Depth {
    nodes: usize,
    parts: usize,
    /// A bit for each open node: whether it is transparent.
    transparent: [u64; NODE_LIMIT / 64],
}

impl Depth {
    /// Begins a node.
    ///
    /// # Errors
    /// The limit that the node exceeds.
    #[inline]
    pub(crate) fn enter(&mut self, kind: NodeKind) -> Result<(), usize> {
        self.parts = entered(self.parts, self.nodes, kind)?;
        let (word, bit) = (self.nodes / 64, self.nodes % 64);
        let flag = u64::from(kind.is_transparent()) << bit;
        self.transparent[word] = self.transparent[word] & !(1 << bit) | flag;
        self.nodes += 1;
        Ok(())
    }

    /// Ends the innermost open node.
    #[inline]
    pub(crate) fn exit(&mut self) {
        self.nodes = self.nodes.saturating_sub(1);
        let is_transparent = self.transparent[self.nodes / 64] >> (self.nodes % 64) & 1 == 1;
        let part = if is_transparent { TRANSPARENT } else { NODE };
        self.parts = self.parts.saturating_sub(part);
    }
}

/// Returns the depth in parts of a node after a node begins below `nodes` others, which count `parts`.
///
/// # Errors
/// The limit that the node exceeds.
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
