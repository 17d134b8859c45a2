//! A model as a flat ordered dictionary in the layout of `FlareJax`. Each path has an entry: the type of a node, a leaf
//! or, for a later occurrence of a shared node, the path of the first occurrence.
//!
//! The dictionary lists the nodes and leaves as graph functions visit them. The dictionary contains a shared node once,
//! and a value built from the dictionary has the same sharing.

use std::fmt;

use pytree_base::bug::{LEAVES, expect_next};
use xxhash_rust::xxh3::Xxh3;

use crate::base::error::{LeafMismatch, TreeError};
use crate::base::path::{AsKeyPath, KeyPath, PathKey};
use crate::base::text::short_name;
use crate::contract::pytree::Pytree;
use crate::node::compare::integers;
use crate::node::leaf::{AnyLeaf, Leaf};
use crate::node::shape::NodeKind;
use crate::node::statics::StaticRef;
use crate::tools::edit::place::Parents;
use crate::treedef::Aliases;
use crate::treedef::{NodeView, TreeDef};
use crate::trees::dynamic::Tree;
use crate::trees::graph;

/// A flat dictionary from paths to types, leaves and aliases.
///
/// The entries are in the order of the structure: a node, then its static fields, then its children.
///
/// # Examples
/// ```
/// use std::collections::BTreeMap;
/// use pytree_core::{Dictionary, Shared};
///
/// let x = Shared::new(vec![1, 2]);
/// let y = BTreeMap::from([("a", x.clone()), ("b", x)]);
/// let mut flat = Dictionary::flatten(&y);
/// assert_eq!(
///     flat.to_string(),
///     "\
/// {obj.__class__: <class 'dict'>,
/// obj[a].__class__: <class 'list'>,
/// obj[a][0]: 1,
/// obj[a][1]: 2,
/// obj[b]: obj[a]}",
/// );
///
/// // A leaf can be replaced at any of its paths. Unflattening restores the sharing.
/// flat.set("['b'][0]", 4)?;
/// let y: BTreeMap<&str, Shared<Vec<i32>>> = flat.unflatten()?;
/// assert_eq!(*y["a"], [4, 2]);
/// assert!(y["a"].same(&y["b"]));
/// # Ok::<(), pytree_core::TreeError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Dictionary {
    tree: Tree<AnyLeaf>,
}

/// An entry of a [`Dictionary`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum DictionaryEntry<'d> {
    /// A node. The children of the node have their own entries.
    Node(NodeView<'d>),
    /// `None`, or a weak edge without a target.
    None,
    /// A leaf.
    Leaf(&'d AnyLeaf),
    /// A later occurrence of a shared node or reference, or a weak edge: the path of the first occurrence.
    Alias(KeyPath),
    /// A static field.
    Static(StaticRef<'d>),
}

impl Dictionary {
    /// Flattens a value into a dictionary.
    #[doc(alias = "FlareJax.flatten")]
    pub fn flatten<T: Pytree + ?Sized>(value: &T) -> Self {
        let (leaves, treedef) = graph::flatten_any(value);
        Self {
            tree: Tree::from_parts(treedef, leaves),
        }
    }

    /// Builds a value from the dictionary. The value has the same sharing as the value that was flattened.
    ///
    /// # Errors
    /// [`TreeError`] if the structure does not match `T`.
    #[doc(alias = "FlareJax.unflatten")]
    pub fn unflatten<T: Pytree>(&self) -> Result<T, TreeError> {
        self.tree.to_value()
    }

    /// Returns the structure, in which later occurrences of shared nodes are aliases.
    pub fn treedef(&self) -> &TreeDef {
        self.tree.treedef()
    }

    /// Returns the entries, in order. A transparent node, such as `Some`, has no entry.
    pub fn entries(&self) -> Vec<(KeyPath, DictionaryEntry<'_>)> {
        let treedef = self.tree.treedef();
        let parents = Parents::of(treedef);
        let aliases = Aliases::of(treedef);
        let mut leaves = self.tree.leaves().iter();
        let mut entries = Vec::with_capacity(treedef.num_nodes());
        for (at, node) in treedef.nodes().enumerate() {
            let path = parents.path(at);
            let first = treedef
                .alias_of(at)
                .map(|number| aliases.firsts().get(number));
            let entry = match (node.kind(), first) {
                (_, Some(first)) => first.cloned().map(DictionaryEntry::Alias),
                (NodeKind::Leaf, _) => {
                    Some(DictionaryEntry::Leaf(expect_next(&mut leaves, LEAVES)))
                }
                (NodeKind::Absent, _) => None,
                (NodeKind::None | NodeKind::Alias, _) => Some(DictionaryEntry::None),
                (kind, _) if kind.is_transparent() => None,
                _ => Some(DictionaryEntry::Node(node)),
            };
            let Some(entry) = entry else {
                continue;
            };
            entries.push((path.clone(), entry));
            for (key, value) in node.keyed_statics() {
                let mut path = path.clone();
                path.push(key);
                entries.push((path, DictionaryEntry::Static(value)));
            }
        }
        entries
    }

    /// Returns the leaf at a path. The path may lead through a later occurrence of a shared node.
    ///
    /// # Errors
    /// - [`TreeError::NoLeaf`] with the nearest path of a leaf.
    /// - [`TreeError::PathSyntax`] if the path is invalid.
    pub fn get(&self, path: &(impl AsKeyPath + ?Sized)) -> Result<&AnyLeaf, TreeError> {
        let path = path.as_key_path()?;
        let path = self.first_place(&path);
        self.tree.get(&path)
    }

    /// Replaces the leaf at a path and returns the old leaf. The path may lead through a later occurrence of a shared
    /// node.
    ///
    /// # Errors
    /// The errors of [`get`](Self::get), and [`TreeError::LeafTypes`] if the types of the old and the new leaf differ.
    pub fn set<L: Leaf>(
        &mut self,
        path: &(impl AsKeyPath + ?Sized),
        leaf: L,
    ) -> Result<AnyLeaf, TreeError> {
        let path = path.as_key_path()?;
        let path = self.first_place(&path);
        let old = self.tree.get_mut(&path)?;
        let new = AnyLeaf::new(leaf);
        if old.as_any().type_id() == new.as_any().type_id() {
            return Ok(std::mem::replace(old, new));
        }
        Err(TreeError::LeafTypes {
            doing: "cannot set a leaf",
            mismatches: vec![LeafMismatch {
                expected: short_name(old.type_name()),
                found: short_name(new.type_name()),
                path,
            }],
        })
    }

    /// Returns the path that leads to the node at `path` only through first occurrences of shared nodes.
    fn first_place(&self, path: &KeyPath) -> KeyPath {
        let aliases = Aliases::of(self.tree.treedef());
        aliases.first_of(path).unwrap_or_else(|| path.clone())
    }

    /// Returns a hash of structure and leaves, the same in every process and on every machine.
    ///
    /// The structure is hashed as in [`TreeDef::content_hash`]. Arrays and numbers are hashed by dtype, shape and the
    /// bits of the elements; their Rust types do not matter. Other leaves are hashed by type and displayed text.
    ///
    /// # Examples
    /// ```
    /// use pytree_core::{Dictionary, Shared};
    /// let hash = |value: &(Shared<f32>, Shared<f32>)| Dictionary::flatten(value).content_hash();
    /// let one = Shared::new(1.0);
    /// let (tied, two) = ((one.clone(), one), (Shared::new(1.0), Shared::new(1.0)));
    /// assert_eq!(hash(&tied), hash(&tied.clone()));
    /// assert_ne!(hash(&tied), hash(&two));
    /// ```
    pub fn content_hash(&self) -> u128 {
        let mut hasher = Xxh3::new();
        hasher.update(&self.tree.treedef().content_hash().to_le_bytes());
        for leaf in self.tree.leaves() {
            add_leaf(&mut hasher, leaf);
        }
        hasher.digest128()
    }
}

/// Adds a leaf to a hash. The length of each part is added before the part, so that the end of each part is
/// unambiguous.
fn add_leaf(hasher: &mut Xxh3, leaf: &AnyLeaf) {
    let mut add = |bytes: &[u8]| {
        hasher.update(&(bytes.len() as u64).to_le_bytes());
        hasher.update(bytes);
    };
    if let Some((info, values)) = leaf.array_info().zip(leaf.values()) {
        add(info.to_string().as_bytes());
        let bytes: Vec<u8> = match integers(info, leaf) {
            Some(integers) => integers.into_iter().flat_map(i128::to_le_bytes).collect(),
            None => values.into_iter().flat_map(f64::to_le_bytes).collect(),
        };
        add(&bytes);
    } else {
        add(short_name(leaf.type_name()).as_bytes());
        add(Shown(leaf).to_string().as_bytes());
    }
}

/// Displays a leaf as in a tree.
struct Shown<'l>(&'l AnyLeaf);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.display(f)
    }
}

/// Formats a path as `FlareJax` does, with keys that have no quotes: `obj[a].weight`.
struct Lookup<'p>(&'p KeyPath);

impl fmt::Display for Lookup<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("obj")?;
        self.0.keys().iter().try_for_each(|key| match key {
            PathKey::Field(name) => write!(f, ".{name}"),
            key => write!(f, "[{}]", key.plain()),
        })
    }
}

impl fmt::Display for Dictionary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("{")?;
        for (position, (path, entry)) in self.entries().iter().enumerate() {
            f.write_str(if position == 0 { "" } else { ",\n" })?;
            let place = Lookup(path);
            match entry {
                DictionaryEntry::Node(node) => {
                    write!(f, "{place}.__class__: <class '{}'>", node.name())?;
                }
                DictionaryEntry::None => write!(f, "{place}: None")?,
                DictionaryEntry::Leaf(leaf) => write!(f, "{place}: {}", Shown(leaf))?,
                DictionaryEntry::Alias(first) => write!(f, "{place}: {}", Lookup(first))?,
                DictionaryEntry::Static(value) => write!(f, "{place}: {value:?}")?,
            }
        }
        f.write_str("}")
    }
}
