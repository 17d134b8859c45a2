//! Replacing leaves, shapes and subtrees of a treedef.

use std::sync::Arc;

use super::build::Builder;
use super::cursor::NodeView;
use super::dynamic::DynamicShapes;
use super::node::{Node, count, target_of};
use super::structure::TreeDef;
use crate::node::shape::{self, DynamicShape, NodeKind, StandIn};

/// Replacing leaves by `None`, and the reverse.
impl TreeDef {
    /// Returns the treedef with each `None` replaced by a leaf.
    pub(crate) fn with_none_as_leaves(&self) -> Self {
        let mut nodes = self.0.nodes.to_vec();
        let mut leaves = 0;
        for node in &mut nodes {
            if node.shape.kind == NodeKind::None {
                (node.shape, node.target) = (&shape::LEAF, 0);
            }
            leaves += usize::from(node.shape.kind == NodeKind::Leaf);
        }
        self.with_nodes(nodes, Arc::clone(&self.0.aux), leaves)
    }

    /// Returns the treedef with some leaves replaced by `None`. Calls `is_none` for each leaf in order. A leaf is
    /// replaced if `is_none` returns `true`.
    pub(crate) fn with_leaves_as_none(&self, mut is_none: impl FnMut() -> bool) -> Self {
        let mut nodes = self.0.nodes.to_vec();
        let mut leaves = 0;
        for node in nodes
            .iter_mut()
            .filter(|node| node.shape.kind == NodeKind::Leaf)
        {
            if is_none() {
                node.shape = &shape::NONE;
            } else {
                leaves += 1;
            }
        }
        self.with_nodes(nodes, Arc::clone(&self.0.aux), leaves)
    }
}

/// Conversion to the optional values of Python. Python has no `Some`: an optional value is the value itself or `None`.
impl TreeDef {
    /// Returns whether a node is a `Some` that the conversion omits. The outer `Some` of `Some(None)` is not omitted,
    /// because without it the value would be `None`.
    pub(crate) fn is_implied_some(&self, node: usize) -> bool {
        let nodes = &self.0.nodes;
        let is_option = |node: &Node| matches!(node.shape.kind, NodeKind::Some | NodeKind::None);
        nodes[node].shape.kind == NodeKind::Some
            && nodes[node].arity == 1
            && nodes
                .get(node + 1)
                .is_some_and(|content| !is_option(content))
    }

    /// Returns the treedef without `Some` nodes, as in JAX: each `Some` is replaced by its content. A `Some` around
    /// another option is kept, because `Some(None)` is not `None`.
    ///
    /// # Examples
    /// ```
    /// use pytree_core::tree;
    /// let model = vec![Some(1), None];
    /// assert_ne!(tree::structure(&model), *tree!([1, None]).treedef());
    /// assert_eq!(tree::structure(&model).without_some(), *tree!([1, None]).treedef());
    /// ```
    #[must_use]
    pub fn without_some(&self) -> Self {
        let mut builder = Builder::default();
        let mut ends: Vec<usize> = Vec::new();
        for at in 0..=self.num_nodes() {
            while ends.last().is_some_and(|&end| end <= at) {
                ends.pop();
                builder.exit();
            }
            match self.0.nodes.get(at) {
                Some(node) if node.shape.kind == NodeKind::Leaf => builder.leaf(node.shape),
                Some(node) if !self.is_implied_some(at) => {
                    builder.node_of(self, at);
                    ends.push(at + node.size as usize);
                }
                _ => {}
            }
        }
        builder.finish()
    }
}

/// Replacing shapes and subtrees, and separating subtrees.
impl TreeDef {
    /// Returns the treedef with new shapes. `function` returns the new shape of a node, or `None` if the node keeps its
    /// shape. A new shape must have the same number of fields.
    pub(crate) fn with_shapes(
        &self,
        mut function: impl FnMut(NodeView<'_>) -> Option<Arc<DynamicShape>>,
    ) -> Self {
        let mut nodes = self.0.nodes.to_vec();
        let mut dynamic = DynamicShapes::default();
        dynamic.adopt(&mut nodes, &self.0);
        for (node, before) in nodes.iter_mut().zip(self.nodes()) {
            if let Some(shape) = function(before) {
                node.shape = StandIn::of(shape.kind());
                node.target = dynamic.position(&shape);
            }
        }
        Self::from_parts(nodes, self.0.aux.to_vec(), dynamic.into_table())
    }

    /// Returns the treedef with the subtree at `position` replaced by `new`.
    pub(crate) fn spliced(&self, position: usize, new: &Self) -> Self {
        let nodes = &self.0.nodes;
        let end = position + nodes[position].size as usize;
        let (aux_start, aux_end) = (self.0.aux_start(position), self.0.aux_start(end));
        let (old_size, new_size) = (nodes[position].size, count(new.num_nodes()));
        let (old_len, new_len) = (aux_end - aux_start, new.0.aux.len());
        let mut spliced = Vec::with_capacity(nodes.len() + new.num_nodes());
        spliced.extend(nodes[..position].iter().enumerate().map(|(number, node)| {
            let above = number + node.size as usize > position;
            Node {
                size: if above {
                    node.size - old_size + new_size
                } else {
                    node.size
                },
                ..*node
            }
        }));
        let mut inserted: Vec<Node> = new.0.nodes.to_vec();
        for node in &mut inserted {
            node.aux += count(aux_start);
        }
        let after = nodes[end..].iter().map(|node| Node {
            aux: count(node.aux as usize - old_len + new_len),
            ..*node
        });
        let mut after: Vec<Node> = after.collect();
        let mut dynamic = DynamicShapes::default();
        dynamic.adopt(&mut spliced, &self.0);
        dynamic.adopt(&mut inserted, &new.0);
        dynamic.adopt(&mut after, &self.0);
        spliced.append(&mut inserted);
        spliced.append(&mut after);
        let mut aux = self.0.aux[..aux_start].to_vec();
        aux.extend_from_slice(&new.0.aux);
        aux.extend_from_slice(&self.0.aux[aux_end..]);
        Self::from_parts(spliced, aux, dynamic.into_table())
    }

    /// Returns the treedef of a single leaf.
    pub fn leaf() -> Self {
        let mut builder = Builder::default();
        builder.leaf(&shape::LEAF);
        builder.finish()
    }

    /// Returns the subtree at a node as a separate treedef. An alias whose target is outside of the subtree loses its
    /// target.
    pub(crate) fn subtree(&self, node: usize) -> Self {
        if node == 0 {
            return self.clone();
        }
        let size = self.0.nodes[node].size as usize;
        let aux_start = self.0.aux_start(node);
        let aux = self.0.aux[aux_start..self.0.aux_start(node + size)].to_vec();
        let nodes = self.0.nodes[node..node + size].iter();
        let mut nodes: Vec<Node> = nodes
            .map(|node| Node {
                aux: node.aux - count(aux_start),
                ..*node
            })
            .collect();
        let mut dynamic = DynamicShapes::default();
        dynamic.adopt(&mut nodes, &self.0);
        if self.0.counts.numbered > 0 {
            let numbered_before = |end: usize| {
                let numbered = self.0.numbered_nodes();
                numbered.partition_point(|&at| at < end)
            };
            let before = numbered_before(node);
            let own = numbered_before(node + size) - before;
            for node in nodes.iter_mut().filter(|node| node.target().is_some()) {
                let inside = node.target().and_then(|number| number.checked_sub(before));
                node.target = target_of(inside.filter(|&number| number < own));
            }
        }
        Self::from_parts(nodes, aux, dynamic.into_table())
    }
}
