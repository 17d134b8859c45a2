//! Pure dictionaries: converts a tree to nested dictionaries, and replaces leaves of a tree by leaves of such
//! dictionaries.

use std::collections::HashMap;

use pytree_base::bug::{LEAVES, expect_next};

use super::flat::{Places, failed};
use crate::base::error::TreeError;
use crate::base::path::{KeyPath, PathKey};
use crate::node::shape::NodeKind;
use crate::node::statics::{StaticBox, StaticData};
use crate::treedef::NodeView;
use crate::trees::dynamic::{Tree, TreeBuilder};
use crate::trees::partition::Partition;

/// Returns the key of a child in a pure dictionary.
fn pure_key(node: NodeView<'_>, position: usize) -> StaticBox {
    let own = match node.kind() {
        NodeKind::Dict | NodeKind::OrderedDict => node.aux().get(position).cloned(),
        _ => None,
    };
    own.unwrap_or_else(|| match node.key(position) {
        Some(key) => match pure(&key) {
            PathKey::Index(index) => StaticBox::new(index),
            key => StaticBox::new(key.plain()),
        },
        None => StaticBox::new(StaticData::Unit),
    })
}

impl<L: Clone> Tree<L> {
    /// Returns the tree as nested dictionaries. A field becomes a text key, a position becomes an integer key, and a
    /// key of a map is unchanged. Absent leaves and values without leaves are left out.
    ///
    /// # Examples
    /// ```
    /// use pytree_core::tree;
    /// let tree = tree!({"layers": [(1, 2), None], "rate": 0.5});
    /// let pure = tree.to_pure_dict()?;
    /// assert_eq!(pure.to_string(), "{'layers': {0: {0: 1, 1: 2}}, 'rate': 0.5}");
    /// # Ok::<(), pytree_core::TreeError>(())
    /// ```
    ///
    /// # Errors
    /// [`TreeError::Build`] if two keys of a map, such as two functions, are equal as data.
    pub fn to_pure_dict(&self) -> Result<Self, TreeError> {
        let treedef = self.treedef();
        let before = treedef.leaves_before();
        let has_leaves = |node: NodeView<'_>| before[node.position()] < before[node.end()];
        let mut builder = TreeBuilder::new();
        let mut leaves = self.leaves().iter();
        // For each dictionary that is not complete yet, from the root down: the remaining children with their keys.
        let mut open: Vec<std::vec::IntoIter<(StaticBox, NodeView<'_>)>> = Vec::new();
        let mut next = Some(treedef.root());
        while let Some(node) = next {
            let node = node.inside();
            if node.kind() == NodeKind::Leaf {
                builder.leaf(expect_next(&mut leaves, LEAVES).clone());
            } else {
                builder.begin_dict();
                let children = node.children().enumerate();
                let children = children
                    .filter(|(_, child)| has_leaves(*child))
                    .map(|(position, child)| (pure_key(node, position), child));
                open.push(children.collect::<Vec<_>>().into_iter());
            }
            next = None;
            while let Some(children) = open.last_mut() {
                if let Some((key, child)) = children.next() {
                    builder.key_of_any(key);
                    next = Some(child);
                    break;
                }
                open.pop();
                builder.end();
            }
        }
        builder.finish()
    }

    /// Replaces leaves of the tree by the leaves of `pure_dict`, which may contain only some of the leaves. If
    /// `pure_dict` has a text key such as `"1"` and the tree has no such text key, the key is read as an integer,
    /// because files store keys as strings.
    ///
    /// # Examples
    /// ```
    /// use pytree_core::{Tree, tree};
    /// let tree: Tree<i32> = tree!({"layers": [(1, 2), (3, 4)], "rate": 5}).cast()?;
    /// let loaded: Tree<i32> = tree!({"layers": {"1": {"0": 30}}, "rate": 50}).cast()?;
    /// let replaced = tree.replace_by_pure_dict(&loaded)?;
    /// assert_eq!(replaced.to_string(), "{'layers': [(1, 2), (30, 4)], 'rate': 50}");
    /// let misspelt: Tree<i32> = tree!({"layer": {0: 1}}).cast()?;
    /// let mistake = tree.replace_by_pure_dict(&misspelt).unwrap_err();
    /// assert!(mistake.to_string().contains("['layer'][0] does not exist; did you mean `['layers'][0][0]`?"));
    /// # Ok::<(), pytree_core::TreeError>(())
    /// ```
    ///
    /// # Errors
    /// [`TreeError::Places`] with every path of a leaf in `pure_dict` at which the tree has no leaf.
    pub fn replace_by_pure_dict(&self, pure_dict: &Self) -> Result<Self, TreeError> {
        let places = Places::of(self.treedef());
        let present = places.all.iter().filter(|(_, present)| *present);
        let positions: HashMap<KeyPath, usize> = present
            .enumerate()
            .map(|(position, (path, _))| (path.keys().iter().map(pure).collect(), position))
            .collect();
        let mut replaced = self.clone();
        let mut problems = Vec::new();
        for (path, leaf) in pure_dict.iter_with_path() {
            let exact: KeyPath = path.keys().iter().map(pure).collect();
            let integers: KeyPath = exact.keys().iter().map(integer).collect();
            match positions.get(&exact).or_else(|| positions.get(&integers)) {
                Some(&position) => replaced.leaves_mut()[position] = leaf.clone(),
                None => problems.push(places.unknown(path)),
            }
        }
        failed("cannot replace leaves by a pure dictionary", problems)?;
        Ok(replaced)
    }

    /// Converts each text key that is an integer, such as `"1"`, into the integer. Use this for nested dictionaries
    /// from a file, which stores keys as strings.
    ///
    /// # Examples
    /// ```
    /// use pytree_core::tree;
    /// let loaded = tree!({"layers": {"1": 2, "0": 1}});
    /// assert_eq!(loaded.restore_integer_keys()?.to_string(), "{'layers': {0: 1, 1: 2}}");
    /// # Ok::<(), pytree_core::TreeError>(())
    /// ```
    ///
    /// # Errors
    /// [`TreeError::Places`] with every path that occurs twice after the conversion.
    #[doc(alias = "nnx.restore_int_paths")]
    pub fn restore_integer_keys(&self) -> Result<Self, TreeError> {
        let entries = self.to_flat().into_iter();
        Self::nested(entries.map(|(path, leaf)| (path.keys().iter().map(integer).collect(), leaf)))
    }
}

impl<M, L: Clone> Partition<M, L> {
    /// Returns the part as nested dictionaries; see [`Tree::to_pure_dict`].
    ///
    /// # Errors
    /// The errors of [`Tree::to_pure_dict`].
    #[doc(alias = "nnx.to_pure_dict")]
    pub fn to_pure_dict(&self) -> Result<Tree<L>, TreeError> {
        self.tree().to_pure_dict()
    }

    /// Replaces leaves of the part by the leaves of `pure_dict`; see [`Tree::replace_by_pure_dict`].
    ///
    /// # Errors
    /// The errors of [`Tree::replace_by_pure_dict`].
    #[doc(alias = "nnx.replace_by_pure_dict")]
    pub fn replace_by_pure_dict(&self, pure_dict: &Tree<L>) -> Result<Self, TreeError> {
        let replaced = self.tree().replace_by_pure_dict(pure_dict);
        replaced.map(Self::from_tree)
    }
}

/// Returns the key that a pure dictionary has instead of `key`. A field of a tuple struct becomes an integer.
fn pure(key: &PathKey) -> PathKey {
    match key {
        PathKey::Field(name) if name.bytes().all(|byte| byte.is_ascii_digit()) => integer(key),
        PathKey::Field(name) => PathKey::Text(name.to_string()),
        key => key.clone(),
    }
}

/// Converts a text key that is an integer, such as `"1"`, into the integer. Other keys stay the same.
fn integer(key: &PathKey) -> PathKey {
    match key {
        PathKey::Text(_) | PathKey::Field(_) => key
            .plain()
            .parse()
            .map_or_else(|_| pure_text(key), PathKey::Index),
        key => key.clone(),
    }
}

fn pure_text(key: &PathKey) -> PathKey {
    PathKey::Text(key.plain())
}
