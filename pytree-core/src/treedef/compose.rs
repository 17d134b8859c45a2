//! Composing treedefs from other treedefs, and folding over their nodes.

use pytree_base::bug::{LEAVES, expect_next};

use super::build::Builder;
use super::cursor::NodeView;
use super::structure::TreeDef;
use crate::base::error::TreeError;
use crate::base::path::KeyPath;
use crate::node::shape::{self, NodeKind, NodeShape};

/// Composing treedefs from other treedefs.
impl TreeDef {
    /// Returns the treedef of `None`, a node without leaves.
    pub fn none() -> Self {
        Self::of_children(&shape::NONE, Vec::new())
    }

    /// Returns the treedef of a tuple with the given children.
    pub fn tuple(children: Vec<Self>) -> Self {
        Self::of_children(&shape::TUPLE, children)
    }

    /// Returns the treedef of a list with the given children.
    pub fn list(children: Vec<Self>) -> Self {
        Self::of_children(&shape::LIST, children)
    }

    fn of_children(shape: &'static NodeShape, children: Vec<Self>) -> Self {
        let mut builder = Builder::default();
        builder.enter(shape, children.len());
        children.iter().for_each(|child| builder.subtree(child));
        builder.exit();
        builder.finish()
    }

    /// Returns this treedef with each leaf replaced by `inner`. Absent leaves stay absent.
    ///
    /// # Examples
    /// ```
    /// use pytree_core::{tree, TreeDef};
    /// let outer = tree::structure(&vec![1.0_f32, 2.0]);
    /// let inner = tree::structure(&(1.0_f32, 2.0_f32));
    /// assert_eq!(outer.compose(&inner).to_string(), "PyTreeDef([(*, *), (*, *)])");
    /// assert_eq!(outer, TreeDef::list(vec![TreeDef::leaf(), TreeDef::leaf()]));
    /// ```
    #[doc(alias = "jax.tree_util.PyTreeDef.compose")]
    #[must_use]
    pub fn compose(&self, inner: &Self) -> Self {
        self.replace_leaves(std::iter::repeat(inner))
    }

    /// Returns this treedef with each leaf replaced by the next treedef of `inner`, which yields a treedef for each
    /// leaf. Aliases keep their targets.
    pub(crate) fn replace_leaves<'a>(&self, inner: impl IntoIterator<Item = &'a Self>) -> Self {
        let mut inner = inner.into_iter();
        let mut builder = Builder::default();
        let mut renumbered = Renumbered::default();
        let mut open: Vec<u32> = Vec::new();
        for (at, node) in self.0.nodes.iter().enumerate() {
            if let Some(left) = open.last_mut() {
                *left -= 1;
            }
            renumbered.next(&builder, self.view(at));
            if node.shape.kind == NodeKind::Leaf {
                let expected = "a treedef for each replaced leaf";
                builder.subtree(expect_next(&mut inner, expected));
            } else {
                builder.node_of(self, at);
                open.push(node.arity);
            }
            while open.last() == Some(&0) {
                open.pop();
                builder.exit();
            }
        }
        renumbered.set_targets(&mut builder);
        builder.finish()
    }
}

/// Finds the new targets of aliases when a treedef is built from only some of the nodes of another treedef.
#[derive(Debug, Default)]
pub(crate) struct Renumbered {
    /// The new index of each shared node or reference, at the position of its old index. `None` if the node is left
    /// out.
    numbers: Vec<Option<usize>>,
    /// The new position of each alias, and the old index of its target.
    aliases: Vec<(usize, usize)>,
}

impl Renumbered {
    /// Records `node`, the node of the other treedef that `builder` receives next.
    pub(crate) fn next(&mut self, builder: &Builder, node: NodeView<'_>) {
        if node.kind().is_numbered() {
            self.numbers.push(Some(builder.next_number()));
        }
        let target = node.target();
        self.aliases
            .extend(target.map(|number| (builder.position(), number)));
    }

    /// Records that the subtree at `node`, a node of the other treedef, is left out.
    pub(crate) fn leave_out(&mut self, node: NodeView<'_>) {
        let numbered = node.below().filter(|node| node.kind().is_numbered());
        self.numbers.extend(numbered.map(|_| None));
    }

    /// Sets the targets of the aliases to the new numbers. An alias of a node that is left out loses its target.
    pub(crate) fn set_targets(self, builder: &mut Builder) {
        for (alias, number) in self.aliases {
            builder.set_target(alias, self.numbers.get(number).copied().flatten());
        }
    }
}

/// Access to the nodes.
impl TreeDef {
    /// Returns the number of the root's children.
    pub fn num_children(&self) -> usize {
        self.root().num_children()
    }

    /// Returns the treedef of the root's child at `position`, or `None` if the position is out of range.
    pub fn child(&self, position: usize) -> Option<Self> {
        let child = self.root().child(position);
        child.map(|child| child.to_treedef())
    }

    /// Combines `leaves` into a single value, from the leaves up.
    ///
    /// `function` computes the value of each node from the values of its children. An absent leaf is a node without
    /// children.
    ///
    /// # Errors
    /// Returns [`TreeError::LeafCount`] if there are too few or too many leaves. In this case `function` is not called.
    ///
    /// # Examples
    /// ```
    /// use pytree_core::tree;
    /// let treedef = tree!([1, (2, 3)]).treedef().clone();
    /// let depth = treedef.fold([0, 0, 0], |_, below| 1 + below.into_iter().max().unwrap_or(0))?;
    /// assert_eq!(depth, 2);
    /// # Ok::<(), pytree_core::TreeError>(())
    /// ```
    #[doc(alias = "jax.tree_util.PyTreeDef.walk")]
    pub fn fold<A>(
        &self,
        leaves: impl IntoIterator<Item = A>,
        mut function: impl FnMut(NodeView<'_>, Vec<A>) -> A,
    ) -> Result<A, TreeError> {
        let leaves: Vec<A> = leaves.into_iter().collect();
        self.check_count(leaves.len())
            .map_err(|error| error.while_doing("cannot fold"))?;
        let mut leaves = leaves.into_iter();
        let mut values: Vec<A> = Vec::new();
        // The position of each node with missing children, and the number of its missing children.
        let mut open: Vec<(usize, u32)> = Vec::new();
        for (at, node) in self.0.nodes.iter().enumerate() {
            if let Some((_, missing)) = open.last_mut() {
                *missing -= 1;
            }
            if node.shape.kind == NodeKind::Leaf {
                values.push(expect_next(&mut leaves, LEAVES));
            } else {
                open.push((at, node.arity));
            }
            while let Some(&(at, 0)) = open.last() {
                open.pop();
                let first = values.len() - self.0.nodes[at].arity as usize;
                let children = values.split_off(first);
                values.push(function(self.view(at), children));
            }
        }
        values.pop().ok_or_else(|| TreeError::Build {
            node: "value",
            reason: "the treedef has no nodes".to_owned(),
        })
    }

    /// Returns the paths of the nodes at the positions `targets`, which must be in ascending order. Walks once over all
    /// nodes.
    pub(crate) fn node_paths(&self, targets: &[usize]) -> Vec<KeyPath> {
        let mut targets = targets.iter().peekable();
        let mut paths = Vec::with_capacity(targets.len());
        let mut path = KeyPath::root();
        // For each node that contains the current node: its position, the index of its next child, and whether `path`
        // contains a key for the node itself.
        let mut open: Vec<(usize, usize, bool)> = Vec::new();
        for at in 0..self.num_nodes() {
            let mut pushed = false;
            if let Some((parent, next, _)) = open.last_mut() {
                if let Some(key) = self.view(*parent).key(*next) {
                    path.push(key);
                    pushed = true;
                }
                *next += 1;
            }
            if targets.next_if_eq(&&at).is_some() {
                paths.push(path.clone());
                if targets.peek().is_none() {
                    break;
                }
            }
            open.push((at, 0, pushed));
            while let Some(&(last, next, pushed)) = open.last() {
                if next < self.0.nodes[last].arity as usize {
                    break;
                }
                if pushed {
                    path.pop();
                }
                open.pop();
            }
        }
        paths
    }
}
