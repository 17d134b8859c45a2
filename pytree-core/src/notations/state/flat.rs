//! Flat states: converts a tree to an ordered list of paths and leaves, and back.

use std::cell::{OnceCell, RefCell};
use std::collections::HashMap;

use indexmap::IndexMap;
use pytree_base::bug::{bug, expect_next};
use pytree_base::suggest::Effort;
use smallvec::SmallVec;

use crate::base::error::{PlaceProblem, TreeError};
use crate::base::path::{KeyPath, PathKey};
use crate::treedef::Aliases;
use crate::treedef::TreeDef;
use crate::trees::dynamic::{Tree, TreeBuilder};
use crate::trees::partition::Partition;

impl<L: Clone> Tree<L> {
    /// Returns the paths and leaves, in order: a flat state.
    ///
    /// # Examples
    /// ```
    /// use pytree_core::{Tree, tree};
    /// let tree: Tree<i32> = tree!({"a": [1, 2], "b": 3}).cast()?;
    /// let mut flat = tree.to_flat();
    /// assert_eq!(flat[1].0.to_string(), "['a'][1]");
    /// flat.reverse();
    /// assert_eq!(Tree::from_flat(tree.treedef(), flat)?, tree);
    /// # Ok::<(), pytree_core::TreeError>(())
    /// ```
    pub fn to_flat(&self) -> Vec<(KeyPath, L)> {
        self.iter_with_path()
            .map(|(path, leaf)| (path, leaf.clone()))
            .collect()
    }
}

impl<L> Tree<L> {
    /// Builds a tree of the structure `treedef` from paths and leaves in any order: the inverse of
    /// [`to_flat`](Self::to_flat). A leaf that is absent in `treedef` needs no entry, but may have one.
    ///
    /// # Errors
    /// [`TreeError::Places`] with every path that does not exist or is repeated, and every leaf that is missing.
    pub fn from_flat(
        treedef: &TreeDef,
        entries: impl IntoIterator<Item = (KeyPath, L)>,
    ) -> Result<Self, TreeError> {
        place(treedef, entries, true)
    }

    /// Builds nested dictionaries from paths and leaves in any order, without a given structure. A field becomes a text
    /// key, and a position becomes an integer key.
    ///
    /// # Examples
    /// ```
    /// use pytree_core::{KeyPath, Tree};
    /// let entries = [("layers[0].weight", 1), ("layers[0].bias", 2), ("rate", 3)];
    /// let entries = entries.map(|(path, leaf)| (path.parse::<KeyPath>().unwrap(), leaf));
    /// let tree = Tree::nested(entries)?;
    /// assert_eq!(tree.to_string(), "{'layers': {0: {'bias': 2, 'weight': 1}}, 'rate': 3}");
    /// # Ok::<(), pytree_core::TreeError>(())
    /// ```
    ///
    /// # Errors
    /// [`TreeError::Places`] with every path that is repeated, or is below a leaf.
    pub fn nested(entries: impl IntoIterator<Item = (KeyPath, L)>) -> Result<Self, TreeError> {
        let mut nested = Nested::default();
        let mut problems = Vec::new();
        for (path, leaf) in entries {
            problems.extend(nested.put(&path, leaf));
        }
        failed("cannot build nested dictionaries", problems)?;
        nested.finish()
    }
}

impl<M, L: Clone> Partition<M, L> {
    /// Returns the paths and leaves that are present, in order: a flat state.
    #[doc(alias = "nnx.to_flat_state")]
    pub fn to_flat(&self) -> Vec<(KeyPath, L)> {
        self.tree().to_flat()
    }
}

impl<M, L> Partition<M, L> {
    /// Builds a part of the structure `treedef` from paths and leaves in any order. A leaf without an entry is absent.
    ///
    /// # Examples
    /// ```
    /// use pytree_core::{Partition, graph, partition};
    /// let model = vec![1.0_f32, 2.0, 3.0];
    /// let part = Partition::from_flat(&graph::structure(&model), [("[1]".parse()?, 20.0_f32)])?;
    /// assert_eq!(partition::replace(&model, &part)?, [1.0, 20.0, 3.0]);
    /// # Ok::<(), pytree_core::TreeError>(())
    /// ```
    ///
    /// # Errors
    /// [`TreeError::Places`] with every path that does not exist or is repeated.
    #[doc(alias = "nnx.from_flat_state")]
    pub fn from_flat(
        treedef: &TreeDef,
        entries: impl IntoIterator<Item = (KeyPath, L)>,
    ) -> Result<Self, TreeError> {
        place(treedef, entries, false).map(Self::from_tree)
    }
}

/// Returns [`TreeError::Places`] if there are problems.
pub(super) fn failed(doing: &'static str, problems: Vec<PlaceProblem>) -> Result<(), TreeError> {
    if problems.is_empty() {
        return Ok(());
    }
    Err(TreeError::Places { doing, problems })
}

/// Builds a tree from paths and leaves. If `whole` is true, each leaf that is present in `treedef` needs an entry.
fn place<L>(
    treedef: &TreeDef,
    entries: impl IntoIterator<Item = (KeyPath, L)>,
    whole: bool,
) -> Result<Tree<L>, TreeError> {
    let places = Places::of(treedef);
    // Two leaves can have the same path, if two keys of a map have the same displayed text. The positions for each path
    // are in reverse order, so that `pop` returns the first position.
    let mut free: HashMap<&KeyPath, SmallVec<[usize; 1]>> =
        HashMap::with_capacity(places.all.len());
    for (position, (path, _)) in places.all.iter().enumerate().rev() {
        free.entry(path).or_default().push(position);
    }
    let mut leaves: Vec<Option<L>> = places.all.iter().map(|_| None).collect();
    let mut problems = Vec::new();
    for (path, leaf) in entries {
        match free.get_mut(&path).map(SmallVec::pop) {
            Some(Some(position)) => leaves[position] = Some(leaf),
            Some(None) => problems.push(PlaceProblem::Twice(path)),
            None => problems.push(places.unknown(path)),
        }
    }
    for ((path, present), leaf) in places.all.iter().zip(&leaves) {
        if whole && *present && leaf.is_none() {
            problems.push(PlaceProblem::Missing(path.clone()));
        }
    }
    failed("cannot build a tree of a flat state", problems)?;
    let mut given = leaves.iter();
    let treedef = treedef.with_presence(|_| {
        expect_next(&mut given, "an item for each path of the flat state").is_some()
    });
    Ok(Tree::from_parts(
        treedef,
        leaves.into_iter().flatten().collect(),
    ))
}

/// The paths of all leaves of a structure, and suggestions for paths that do not exist.
pub(super) struct Places<'t> {
    treedef: &'t TreeDef,
    /// The path of each leaf, and whether the leaf is present in the structure.
    pub(super) all: Vec<(KeyPath, bool)>,
    aliases: OnceCell<Aliases>,
    effort: RefCell<Effort>,
}

impl<'t> Places<'t> {
    pub(super) fn of(treedef: &'t TreeDef) -> Self {
        let mut all = Vec::new();
        treedef.walk_places(|place| all.push((place.path.clone(), place.holds_leaf)));
        Self {
            treedef,
            all,
            aliases: OnceCell::new(),
            effort: RefCell::default(),
        }
    }

    /// Returns why a path leads to no leaf.
    pub(super) fn unknown(&self, path: KeyPath) -> PlaceProblem {
        let aliases = self.aliases.get_or_init(|| Aliases::of(self.treedef));
        if let Some(first) = aliases.first_of(&path) {
            return PlaceProblem::Alias { path, first };
        }
        let places = self.all.iter().map(|(place, _)| (place, place.to_string()));
        let nearest = self.effort.borrow_mut().nearest(&path.to_string(), places);
        PlaceProblem::Unknown {
            path,
            nearest: nearest.map(|(place, _)| place.clone()),
        }
    }
}

/// Nested dictionaries while they are built. A dictionary stores the position of each child in `nodes`. The root is the
/// first of `nodes`.
struct Nested<L> {
    nodes: Vec<NestedNode<L>>,
}

enum NestedNode<L> {
    Empty,
    Leaf(L),
    Dict(IndexMap<PathKey, usize>),
}

impl<L> Default for Nested<L> {
    fn default() -> Self {
        Self {
            nodes: vec![NestedNode::Empty],
        }
    }
}

impl<L> Nested<L> {
    /// Adds a leaf at a path, or returns the reason why the leaf cannot be added.
    fn put(&mut self, path: &KeyPath, leaf: L) -> Option<PlaceProblem> {
        let mut node = 0;
        for (above, key) in path.keys().iter().enumerate() {
            let key = match key {
                PathKey::Field(name) => PathKey::Text(name.to_string()),
                key => key.clone(),
            };
            if matches!(self.nodes[node], NestedNode::Empty) {
                self.nodes[node] = NestedNode::Dict(IndexMap::new());
            }
            let next = self.nodes.len();
            let NestedNode::Dict(children) = &mut self.nodes[node] else {
                return Some(PlaceProblem::BelowLeaf {
                    path: path.clone(),
                    leaf: path.keys().iter().take(above).cloned().collect(),
                });
            };
            node = *children.entry(key).or_insert(next);
            if node == next {
                self.nodes.push(NestedNode::Empty);
            }
        }
        match &self.nodes[node] {
            NestedNode::Empty => {
                self.nodes[node] = NestedNode::Leaf(leaf);
                None
            }
            NestedNode::Leaf(_) => Some(PlaceProblem::Twice(path.clone())),
            NestedNode::Dict(_) => Some(PlaceProblem::BelowLeaf {
                path: self.first_below(node, path),
                leaf: path.clone(),
            }),
        }
    }

    /// Returns the path of the first leaf below a node.
    fn first_below(&self, mut node: usize, path: &KeyPath) -> KeyPath {
        let mut path = path.clone();
        while let NestedNode::Dict(children) = &self.nodes[node] {
            let Some((key, child)) = children.first() else {
                break;
            };
            path.push(key.clone());
            node = *child;
        }
        path
    }

    fn finish(self) -> Result<Tree<L>, TreeError> {
        let mut builder = TreeBuilder::new();
        let mut nodes: Vec<Option<NestedNode<L>>> = self.nodes.into_iter().map(Some).collect();
        // For each dictionary that is not complete yet, from the root down: the remaining children.
        let mut open: Vec<indexmap::map::IntoIter<PathKey, usize>> = Vec::new();
        let mut next = Some(0);
        while let Some(node) = next {
            match nodes.get_mut(node).and_then(Option::take) {
                Some(NestedNode::Leaf(leaf)) => {
                    builder.leaf(leaf);
                }
                Some(NestedNode::Dict(children)) => {
                    builder.begin_dict();
                    open.push(children.into_iter());
                }
                Some(NestedNode::Empty) => {
                    builder.begin_dict().end();
                }
                None => bug("each dictionary to have one parent"),
            }
            next = None;
            while let Some(children) = open.last_mut() {
                if let Some((key, child)) = children.next() {
                    match key {
                        PathKey::Index(index) => builder.key(index),
                        key => builder.key(key.plain()),
                    };
                    next = Some(child);
                    break;
                }
                open.pop();
                builder.end();
            }
        }
        builder.finish()
    }
}
