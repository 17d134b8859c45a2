//! Subtrees: reads parts of a tree, cuts a tree into subtrees, and changes which nodes are leaves.

use pytree_base::bug::{LEAVES, expect_at, expect_next};
use pytree_base::suggest::Effort;

use super::Tree;
use crate::base::error::TreeError;
use crate::base::path::{AsKeyPath, KeyPath, PathKey};
use crate::node::shape::{self, NodeKind};
use crate::treedef::{Builder, NodeView, Renumbered, TreeDef};

/// A borrowed subtree of a tree.
#[derive(Debug)]
pub struct Subtree<'a, L> {
    tree: &'a Tree<L>,
    node: usize,
    /// The number of leaves of the tree that come before this subtree.
    first_leaf: usize,
}

impl<L> Clone for Subtree<'_, L> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<L> Copy for Subtree<'_, L> {}

impl<'a, L> Subtree<'a, L> {
    /// Returns a view of the root of the subtree, with its name, keys and static values.
    pub fn root(&self) -> NodeView<'a> {
        self.tree.treedef.view(self.node)
    }

    /// Returns the family of the root.
    pub fn kind(&self) -> NodeKind {
        self.root().kind()
    }

    /// Returns the name of the root as displayed.
    pub fn name(&self) -> &'a str {
        self.root().name()
    }

    /// Returns whether the subtree is a leaf.
    pub fn is_leaf(&self) -> bool {
        self.kind() == NodeKind::Leaf
    }

    /// Returns the number of leaves. Walks through the subtree to count them.
    pub fn num_leaves(&self) -> usize {
        self.root().num_leaves()
    }

    /// Returns the leaves, in order.
    pub fn leaves(&self) -> &'a [L] {
        let end = self.first_leaf + self.num_leaves();
        expect_at(&self.tree.leaves, self.first_leaf..end, LEAVES)
    }

    /// Returns the path from the root of the tree.
    pub fn path(&self) -> KeyPath {
        self.root().path()
    }

    /// Iterates over the children of the root, in order.
    pub fn children(&self) -> impl Iterator<Item = Self> + use<'a, L> {
        let tree = self.tree;
        let mut first_leaf = self.first_leaf;
        self.root().children().map(move |child| {
            let child = Self {
                tree,
                node: child.position(),
                first_leaf,
            };
            first_leaf += child.num_leaves();
            child
        })
    }

    /// Returns the children of the root with their keys, in the order in which they were inserted. This order differs
    /// from the order of [`children`](Self::children) only for a dictionary, whose children are sorted by key.
    ///
    /// # Examples
    /// ```
    /// use pytree_core::tree;
    /// let tree = tree!({"b": 1, "a": [2]});
    /// assert_eq!(tree.to_string(), "{'a': [2], 'b': 1}");
    /// let entries = tree.root().entries_as_inserted().into_iter();
    /// let shown: Vec<String> = entries.map(|(key, child)| format!("{}: {}", key.unwrap(), child.to_tree())).collect();
    /// assert_eq!(shown, ["['b']: 1", "['a']: [2]"]);
    /// ```
    pub fn entries_as_inserted(&self) -> Vec<(Option<PathKey>, Self)> {
        let root = self.root();
        let mut entries: Vec<_> = root.keys().zip(self.children()).map(Some).collect();
        let order = root.insertion_order().into_iter();
        order.filter_map(|at| entries.get_mut(at)?.take()).collect()
    }

    /// Returns the structure.
    pub fn treedef(&self) -> TreeDef {
        self.root().to_treedef()
    }

    /// Copies the subtree into a tree.
    pub fn to_tree(&self) -> Tree<L>
    where
        L: Clone,
    {
        Tree::from_parts(self.treedef(), self.leaves().to_vec())
    }
}

impl<L> Tree<L> {
    /// Returns the whole tree as a subtree.
    pub fn root(&self) -> Subtree<'_, L> {
        Subtree {
            tree: self,
            node: 0,
            first_leaf: 0,
        }
    }

    /// Returns the subtree at `path`. A transparent node, such as `Some`, has the same path as its child. If both are
    /// at `path`, the transparent node is returned.
    ///
    /// # Errors
    /// [`TreeError::NoSubtree`] with the longest prefix of the path that leads to a node.
    ///
    /// # Examples
    /// ```
    /// use pytree_core::tree;
    /// let tree = tree!({"layers": [{"w": 1, "b": 2}]});
    /// assert_eq!(tree.at("['layers'][0]")?.to_tree().to_string(), "{'b': 2, 'w': 1}");
    /// let error = tree.at("['layers'][1]").unwrap_err();
    /// assert_eq!(
    ///     error.to_string(),
    ///     "no subtree at ['layers'][1]: ['layers'] is a list of 1; did you mean `['layers'][0]`?",
    /// );
    /// # Ok::<(), pytree_core::TreeError>(())
    /// ```
    pub fn at(&self, path: &(impl AsKeyPath + ?Sized)) -> Result<Subtree<'_, L>, TreeError> {
        let path = &*path.as_key_path()?;
        let node = self.treedef.follow(path);
        let node =
            node.map_err(|(node, reached)| no_subtree(path, reached, self.treedef.view(node)))?;
        // If the path leads to an alias of a shared node, the content is at the target of the alias.
        let node = self.treedef.first_place_of(node);
        let before = self.treedef.nodes_in(0..node);
        Ok(Subtree {
            tree: self,
            node,
            first_leaf: before.filter(|node| node.kind() == NodeKind::Leaf).count(),
        })
    }

    /// Returns the children of the root with their keys, or `None` if the tree is a leaf. The child of a transparent
    /// node, such as `Some`, has no key.
    ///
    /// # Examples
    /// ```
    /// use pytree_core::tree;
    /// let children = tree!({"b": 1, "a": [2]}).flatten_one_level().unwrap();
    /// let shown: Vec<String> = children.iter().map(|(key, child)| format!("{}{child}", key.as_ref().unwrap())).collect();
    /// assert_eq!(shown, ["['a'][2]", "['b']1"]);
    /// assert!(tree!(1).flatten_one_level().is_none());
    /// ```
    pub fn flatten_one_level(&self) -> Option<Vec<(Option<PathKey>, Self)>>
    where
        L: Clone,
    {
        let root = self.root();
        let children = root.children().map(|child| child.to_tree());
        (!root.is_leaf()).then(|| root.root().keys().zip(children).collect())
    }

    /// Returns a tree whose leaves are subtrees of this tree: the subtrees for which `is_leaf` returns true, and the
    /// leaves outside of these subtrees.
    ///
    /// Calls `is_leaf` from the root down for each node outside of the subtrees that became leaves. Does not call
    /// `is_leaf` for present or absent leaves.
    ///
    /// Use this to apply a function to any choice of subtrees: cut the tree, apply the function to the result, and
    /// [`join`](Tree::join) the subtrees.
    ///
    /// Each subtree becomes a separate tree. If an alias and its target are in different trees of the result, the alias
    /// loses its target.
    ///
    /// # Examples
    /// ```
    /// use pytree_core::shape::NodeKind;
    /// use pytree_core::tree;
    /// let tree = tree!([(1, 2), {"a": (3,)}, 4]);
    /// let cut = tree.cut(|subtree| subtree.kind() == NodeKind::Tuple);
    /// assert_eq!(cut.treedef().to_string(), "PyTreeDef([*, {'a': *}, *])");
    /// assert_eq!(cut.map(|subtree| subtree.leaves().len()).to_string(), "[2, {'a': 1}, 1]");
    /// assert_eq!(cut.join().to_string(), tree.to_string());
    /// ```
    #[doc(alias = "is_leaf")]
    pub fn cut(&self, mut is_leaf: impl FnMut(&Subtree<'_, L>) -> bool) -> Tree<Self>
    where
        L: Clone,
    {
        let mut builder = Builder::default();
        let mut leaves = Vec::new();
        let mut renumbered = Renumbered::default();
        let mut open: Vec<usize> = Vec::new();
        let (mut at, mut first_leaf) = (0, 0);
        while let Some(node) = self.treedef.node(at) {
            if let Some(left) = open.last_mut() {
                *left -= 1;
            }
            let subtree = Subtree {
                tree: self,
                node: at,
                first_leaf,
            };
            if node.kind() == NodeKind::Absent {
                builder.absent(node.splits());
                at += 1;
            } else if subtree.is_leaf() || is_leaf(&subtree) {
                renumbered.leave_out(node);
                builder.leaf(&shape::LEAF);
                let subtree = subtree.to_tree();
                at = node.end();
                first_leaf += subtree.leaves.len();
                leaves.push(subtree);
            } else {
                renumbered.next(&builder, node);
                builder.node_of(&self.treedef, at);
                open.push(node.num_children());
                at += 1;
            }
            while open.last() == Some(&0) {
                open.pop();
                builder.exit();
            }
        }
        renumbered.set_targets(&mut builder);
        Tree::from_parts(builder.finish(), leaves)
    }

    /// Returns a tree in which each `None` is a leaf, too. The leaves become `Option`s: each leaf is `Some`, and each
    /// `None` node becomes the leaf `None`. All functions on trees accept such leaves.
    ///
    /// # Examples
    /// ```
    /// use pytree_core::Tree;
    /// let tree = Tree::list(vec![Tree::leaf(1), Tree::none()]);
    /// let with_leaves = tree.clone().none_as_leaves();
    /// assert_eq!(with_leaves.leaves(), [Some(1), None]);
    /// assert_eq!(with_leaves.treedef().to_string(), "PyTreeDef([*, *])");
    /// assert_eq!(with_leaves.to_string(), "[1, None]");
    /// assert_eq!(with_leaves.none_as_nodes(), tree);
    /// ```
    #[must_use]
    pub fn none_as_leaves(self) -> Tree<Option<L>> {
        let mut own = self.leaves.into_iter();
        let mut leaves = Vec::with_capacity(own.len());
        for node in self.treedef.nodes() {
            match node.kind() {
                NodeKind::Leaf => leaves.push(Some(expect_next(&mut own, LEAVES))),
                NodeKind::None => leaves.push(None),
                _ => {}
            }
        }
        Tree::from_parts(self.treedef.with_none_as_leaves(), leaves)
    }
}

impl<L> Tree<Option<L>> {
    /// Returns a tree in which each leaf that is `None` becomes a node without leaves: the inverse of
    /// [`none_as_leaves`](Tree::none_as_leaves).
    #[must_use]
    pub fn none_as_nodes(self) -> Tree<L> {
        let mut leaves = self.leaves.iter();
        let is_none = || expect_next(&mut leaves, LEAVES).is_none();
        let treedef = self.treedef.with_leaves_as_none(is_none);
        Tree::from_parts(treedef, self.leaves.into_iter().flatten().collect())
    }
}

impl<L> Tree<Tree<L>> {
    /// Returns a tree in which each leaf is replaced by the tree that it contains. This function is the inverse of
    /// [`cut`](Tree::cut), but does not restore the targets that aliases have lost.
    #[must_use]
    pub fn join(self) -> Tree<L> {
        let inner = self.leaves.iter().map(Tree::treedef);
        let treedef = self.treedef.replace_leaves(inner);
        let leaves = self.leaves.into_iter().flat_map(|tree| tree.leaves);
        Tree::from_parts(treedef, leaves.collect())
    }
}

#[cold]
fn no_subtree(path: &KeyPath, reached: usize, node: NodeView<'_>) -> TreeError {
    let asked = path.keys().get(reached).map(ToString::to_string);
    let reached: KeyPath = path.keys().iter().take(reached).cloned().collect();
    let keys = node.keys().flatten().map(|key| {
        let text = key.to_string();
        (key, text)
    });
    let nearest = Effort::default()
        .nearest(asked.as_deref().unwrap_or_default(), keys)
        .map(|(key, _)| reached.keys().iter().cloned().chain([key]).collect());
    TreeError::NoSubtree {
        path: path.clone(),
        reached,
        found: node.describe(),
        nearest,
    }
}
