//! `Axes`: the batch axis of each leaf of an argument or result.
//!
//! Axes are a prefix tree of the structure: they may end at a node where the structure continues. A number applies to
//! all leaves of its subtree. As in other prefix trees, axes have no level for `Some`, shared nodes and boxed objects,
//! so the axes at such a node apply to its child. All mismatches are reported together.

use pytree_base::bug::{LEAVES, expect_at};
use pytree_base::suggest::Effort;
use pytree_core::shape::NodeKind;
use pytree_core::{
    Filter, KeyPath, LeafKind, PathKey, StaticBox, StaticData, StaticValue, Tree, TreeDef,
};

use crate::tensor::Tensor;

/// The batch axis of each leaf of an argument or result, as a prefix tree: it may end at a node where the structure of
/// the value continues.
///
/// A number applies to all leaves of its subtree. `None` means that these leaves have no batch axis. Negative axes
/// count from the end. Write a tuple for a tuple, and an array or `Vec` for a list. Use [`dict`](Axes::dict) for maps,
/// and [`fields`](Axes::fields) or [`filter`](Axes::filter) for modules. A tree of axes that `Tree::map` returns for a
/// model fits that model.
///
/// # Examples
/// ```
/// use pytree_transform::{Axes, Tensor, vmap};
/// let dot = vmap(|(x, ys): (Tensor, Vec<Tensor>)| x * &ys[0] + &ys[1]).in_axes((0, [Some(-1), None]));
/// let (x, y) = (Tensor::from([1.0, 2.0]), Tensor::from([[3.0, 4.0]]));
/// assert_eq!(dot((x, vec![y, Tensor::from(10.0)])), Tensor::from([[13.0], [18.0]]));
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Axes {
    /// One axis for all leaves. A negative axis counts from the end. `None` means that the leaves have no batch axis.
    All(Option<isize>),
    /// Axes for each member of a tuple.
    Tuple(Vec<Axes>),
    /// Axes for each element of a list.
    List(Vec<Axes>),
    /// Axes for each key of a map.
    Dict(Vec<(PathKey, Axes)>),
    /// Axes for each field of a struct.
    Fields(Vec<(String, Axes)>),
    /// Filters with axes: the first filter that accepts a leaf decides the axis of the leaf.
    Filter(Vec<(Filter, Option<isize>)>),
    /// A tree whose leaves are the axes.
    Tree(Tree<Option<isize>>),
}

impl Axes {
    /// Returns axes for the fields of a struct, by name. Every field that holds leaves needs an entry.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Axes;
    /// let same = Axes::fields([("weight", Some(0)), ("bias", None)]);
    /// let mixed = Axes::fields([("layers", Axes::from([0, 1])), ("scale", Axes::from(None))]);
    /// ```
    pub fn fields<K: Into<String>, A: Into<Self>>(
        fields: impl IntoIterator<Item = (K, A)>,
    ) -> Self {
        let fields = fields.into_iter();
        Self::Fields(
            fields
                .map(|(name, axes)| (name.into(), axes.into()))
                .collect(),
        )
    }

    /// Returns axes for the keys of a map.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::{Axes, Tensor, vmap};
    /// use std::collections::BTreeMap;
    /// let sum = vmap(|map: BTreeMap<String, Tensor>| &map["x"] + &map["y"])
    ///     .in_axes(Axes::dict([("x", Some(0)), ("y", None)]));
    /// let (x, y) = (Tensor::from([1.0, 2.0]), Tensor::from(10.0));
    /// let map = BTreeMap::from([("x".to_owned(), x), ("y".to_owned(), y)]);
    /// assert_eq!(sum(map).to_vec::<f64>(), [11.0, 12.0]);
    /// ```
    pub fn dict<K: StaticValue, A: Into<Self>>(entries: impl IntoIterator<Item = (K, A)>) -> Self {
        let key = |value: K| {
            let value = StaticBox::new(value);
            match value.data() {
                StaticData::Integer(integer) => PathKey::Index(integer),
                StaticData::Text(text) => PathKey::Text(text),
                _ => PathKey::Other(format!("{value:?}")),
            }
        };
        let entries = entries.into_iter();
        Self::Dict(
            entries
                .map(|(name, axes)| (key(name), axes.into()))
                .collect(),
        )
    }

    /// Returns axes by filters: the first filter that accepts a leaf decides the axis of the leaf.
    ///
    /// Key paths begin at the subtree to which the filters apply. Each leaf must be accepted by at least one filter, so
    /// write [`Filter::everything`] last.
    ///
    /// # Examples
    /// ```
    /// use pytree_core::Filter;
    /// use pytree_transform::{Axes, Tensor, vmap};
    /// let sum = vmap(|(x, y): (Tensor, Tensor)| x + y)
    ///     .in_axes(Axes::filter([(Filter::path("[0]"), Some(0)), (Filter::everything(), None)]));
    /// assert_eq!(sum((Tensor::from([1, 2]), Tensor::from(10))).to_vec::<i32>(), [11, 12]);
    /// ```
    #[doc(alias = "nnx.StateAxes")]
    pub fn filter(filters: impl IntoIterator<Item = (Filter, Option<i32>)>) -> Self {
        let filters = filters.into_iter();
        Self::Filter(
            filters
                .map(|(filter, axis)| (filter, axis.and_then(|axis| isize::try_from(axis).ok())))
                .collect(),
        )
    }

    /// Returns the axis that these axes give to each leaf of a structure.
    ///
    /// # Errors
    /// Returns all reasons why the axes are not a prefix tree of the structure.
    pub(crate) fn of_leaves(
        &self,
        treedef: &TreeDef,
        leaves: &[Tensor],
    ) -> Result<Vec<Option<isize>>, Vec<String>> {
        if let Self::All(axis) = self {
            return Ok(vec![*axis; leaves.len()]);
        }
        let mut walk = Walk {
            leaves,
            kinds: &treedef.leaf_kinds(),
            axes: Vec::with_capacity(leaves.len()),
            problems: Vec::new(),
            effort: Effort::default(),
        };
        walk.enter(self, treedef, &KeyPath::root());
        if walk.problems.is_empty() {
            Ok(walk.axes)
        } else {
            Err(walk.problems)
        }
    }

    /// Returns whether any part of these axes is a [`Tree`].
    pub(crate) fn has_tree(&self) -> bool {
        match self {
            Self::All(_) | Self::Filter(_) => false,
            Self::Tree(_) => true,
            Self::Tuple(members) | Self::List(members) => members.iter().any(Self::has_tree),
            Self::Dict(entries) => entries.iter().any(|(_, axes)| axes.has_tree()),
            Self::Fields(fields) => fields.iter().any(|(_, axes)| axes.has_tree()),
        }
    }

    /// Returns a short description of the axes for messages, for instance `a tuple of 2`.
    fn describe(&self) -> String {
        match self {
            Self::All(_) => "a single axis".to_owned(),
            Self::Tuple(members) => format!("a tuple of {}", members.len()),
            Self::List(members) => format!("a list of {}", members.len()),
            Self::Dict(_) => "a map".to_owned(),
            Self::Fields(_) => "the fields of a struct".to_owned(),
            Self::Filter(_) => "a list of filters".to_owned(),
            Self::Tree(tree) => format!("a tree {:?}", tree.treedef()),
        }
    }
}

/// The state of a parallel walk through the axes and through the structure of the value.
struct Walk<'a> {
    leaves: &'a [Tensor],
    kinds: &'a [Option<LeafKind>],
    axes: Vec<Option<isize>>,
    problems: Vec<String>,
    effort: Effort,
}

impl Walk<'_> {
    /// Appends the axis of each leaf of the subtree at `path`.
    fn enter(&mut self, axes: &Axes, treedef: &TreeDef, path: &KeyPath) {
        let (start, count) = (self.axes.len(), treedef.num_leaves());
        match axes {
            Axes::All(axis) => self.axes.extend(std::iter::repeat_n(*axis, count)),
            Axes::Filter(filters) => self.by_filter(filters, treedef, path),
            Axes::Tree(tree) => match tree.broadcast_to(treedef) {
                Ok(full) => self.axes.extend_from_slice(full.leaves()),
                Err(error) => self.problem(path, &error.to_string()),
            },
            _ if treedef.kind().is_transparent() => {
                treedef
                    .children()
                    .iter()
                    .for_each(|child| self.enter(axes, child, path));
            }
            // Neither `None` nor an alias (a later occurrence of a shared node) has leaves.
            _ if matches!(treedef.kind(), NodeKind::None | NodeKind::Alias) => {}
            Axes::Tuple(members) => self.in_order(axes, members, NodeKind::Tuple, treedef, path),
            Axes::List(members) => self.in_order(axes, members, NodeKind::List, treedef, path),
            Axes::Dict(entries) => {
                let entries = entries.iter().map(|(key, axes)| (key.clone(), axes));
                let kinds = [NodeKind::Dict, NodeKind::OrderedDict];
                self.by_key(axes, &kinds, entries.collect(), treedef, path);
            }
            Axes::Fields(fields) => {
                let field = |name: &String| PathKey::Field(name.clone().into());
                let entries = fields.iter().map(|(name, axes)| (field(name), axes));
                let kinds = [
                    NodeKind::Struct,
                    NodeKind::TupleStruct,
                    NodeKind::NamedTuple,
                ];
                self.by_key(axes, &kinds, entries.collect(), treedef, path);
            }
        }
        // After a problem, some leaves of the subtree may lack an axis. The leaves in the subtree get `None`, so that
        // the walk can continue.
        self.axes.resize(start + count, None);
    }

    fn problem(&mut self, path: &KeyPath, problem: &str) {
        self.problems
            .push(format!("at {}: {problem}", path.or_root()));
    }

    fn other_node(&mut self, axes: &Axes, treedef: &TreeDef, path: &KeyPath) {
        let found = treedef.nodes().next().map(|node| format!("{node:?}"));
        let found = found.unwrap_or_default();
        let axes = axes.describe();
        self.problem(
            path,
            &format!("the axes are given as {axes}, but the value is {found}"),
        );
    }

    fn in_order(
        &mut self,
        axes: &Axes,
        members: &[Axes],
        kind: NodeKind,
        treedef: &TreeDef,
        path: &KeyPath,
    ) {
        let children = treedef.children();
        if treedef.kind() != kind || children.len() != members.len() {
            return self.other_node(axes, treedef, path);
        }
        for (position, (member, child)) in members.iter().zip(&children).enumerate() {
            let key = PathKey::Index(i128::try_from(position).unwrap_or(i128::MAX));
            self.enter(member, child, &below(path, key));
        }
    }

    fn by_key(
        &mut self,
        axes: &Axes,
        kinds: &[NodeKind],
        entries: Vec<(PathKey, &Axes)>,
        treedef: &TreeDef,
        path: &KeyPath,
    ) {
        let root = treedef.nodes().next();
        let Some(root) = root.filter(|root| kinds.contains(&root.kind())) else {
            return self.other_node(axes, treedef, path);
        };
        let keys: Vec<PathKey> = root.keys().flatten().collect();
        for (position, (key, _)) in entries.iter().enumerate() {
            if entries[..position].iter().any(|(other, _)| other == key) {
                self.problem(path, &format!("{} is named twice", shown(key)));
            } else if !keys.contains(key) {
                let others = keys.iter().map(|other| (other, other.to_string()));
                let nearest = self.effort.nearest(&key.to_string(), others);
                let suggestion = nearest.map_or_else(String::new, |(nearest, _)| {
                    format!("; did you mean {}?", shown(nearest))
                });
                let problem = format!("{root:?} has no {}{suggestion}", shown(key));
                self.problem(path, &problem);
            }
        }
        for (key, child) in keys.into_iter().zip(treedef.children()) {
            let own = entries.iter().find(|(name, _)| *name == key);
            let child_path = below(path, key);
            match own {
                Some((_, axes)) => self.enter(axes, &child, &child_path),
                None if child.num_leaves() == 0 => {}
                None => {
                    self.problem(&child_path, "no axis is given");
                    let count = self.axes.len() + child.num_leaves();
                    self.axes.resize(count, None);
                }
            }
        }
    }

    fn by_filter(
        &mut self,
        filters: &[(Filter, Option<isize>)],
        treedef: &TreeDef,
        path: &KeyPath,
    ) {
        if let Err(error) = Filter::check_order(filters.iter().map(|(filter, _)| filter)) {
            self.problem(path, &error.to_string());
        }
        let start = self.axes.len();
        let leaves = self.leaves.get(start..start + treedef.num_leaves());
        let leaves = leaves.unwrap_or_default();
        let mut resolved = Vec::with_capacity(filters.len());
        for (filter, axis) in filters {
            let for_leaves = filter.for_leaves(treedef, leaves).unwrap_or_else(|error| {
                self.problem(path, &format!("{filter:?}: {error}"));
                filter.resolved(treedef)
            });
            resolved.push((for_leaves, *axis));
        }
        for leaf_path in treedef.leaf_paths() {
            let position = self.axes.len();
            let kind = *expect_at(self.kinds, position, LEAVES);
            let leaf = expect_at(self.leaves, position, LEAVES);
            let accepts = |filter: &Filter| filter.accepts(&leaf_path, kind, leaf);
            let first = resolved.iter().find(|(filter, _)| accepts(filter));
            if first.is_none() {
                let whole: KeyPath = path
                    .keys()
                    .iter()
                    .chain(leaf_path.keys())
                    .cloned()
                    .collect();
                let what = kind.map_or_else(String::new, |kind| format!(" ({kind})"));
                let problem = format!(
                    "no filter accepts the leaf{what}; add `(Filter::everything(), None)` as the last filter"
                );
                self.problem(&whole, &problem);
            }
            self.axes.push(first.and_then(|(_, axis)| *axis));
        }
    }
}

fn below(path: &KeyPath, key: PathKey) -> KeyPath {
    path.keys().iter().cloned().chain([key]).collect()
}

/// Returns a key as messages write it.
fn shown(key: &PathKey) -> String {
    match key {
        PathKey::Field(name) => format!("field `{name}`"),
        key => format!("key {key}"),
    }
}

pytree_base::conversions! { Axes:
    [] i32, |axis| Self::All(isize::try_from(axis).ok());
    [] Option<i32>, |axis| axis.map_or(Self::All(None), Self::from);
    [A: Into<Self>] Vec<A>, |members| Self::List(members.into_iter().map(Into::into).collect());
    [A: Into<Self>, const N: usize] [A; N],
        |members| Self::List(members.into_iter().map(Into::into).collect());
    [] Tree<Option<i32>>,
        |tree| Self::Tree(tree.map(|axis| axis.and_then(|axis| isize::try_from(axis).ok())));
}

macro_rules! tuples {
    ($(($($name:ident),+))*) => {$(
        impl<$($name: Into<Axes>),+> From<($($name,)+)> for Axes {
            fn from(($($name,)+): ($($name,)+)) -> Self {
                Self::Tuple(vec![$($name.into()),+])
            }
        }
    )*};
}
#[allow(non_snake_case, reason = "the type parameters name the members")]
mod tuples {
    use super::Axes;
    tuples! { (A) (A, B) (A, B, C) (A, B, C, D) (A, B, C, D, E) (A, B, C, D, E, F)
    (A, B, C, D, E, F, G) (A, B, C, D, E, F, G, H) }
}
