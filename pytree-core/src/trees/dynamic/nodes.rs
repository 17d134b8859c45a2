//! The nodes of a dynamic tree: functions that create a node from its children.

use indexmap::IndexMap;

use super::Tree;
use crate::base::error::TreeError;
use crate::node::insertion::sort_entries;
use crate::node::shape::{self, DynamicShape, NodeKind, Shape};
use crate::node::statics::{StaticBox, StaticValue};
use crate::treedef::Builder;

/// Functions that create the nodes of a dynamic tree.
impl<L> Tree<L> {
    fn node(shape: Shape<'_>, keys: Vec<StaticBox>, children: Vec<Self>) -> Self {
        let mut builder = Builder::default();
        builder.enter_shape(shape, children.len());
        keys.into_iter().for_each(|key| builder.aux(key));
        let mut leaves = Vec::with_capacity(children.iter().map(|child| child.leaves.len()).sum());
        for child in children {
            builder.subtree(&child.treedef);
            leaves.extend(child.leaves);
        }
        builder.exit();
        Self {
            treedef: builder.finish(),
            leaves,
        }
    }

    /// Creates a list of trees.
    pub fn list(children: Vec<Self>) -> Self {
        Self::node(Shape::Static(&shape::LIST), Vec::new(), children)
    }

    /// Creates a tuple of trees.
    pub fn tuple(children: Vec<Self>) -> Self {
        Self::node(Shape::Static(&shape::TUPLE), Vec::new(), children)
    }

    /// Creates `None`, a node without leaves.
    pub fn none() -> Self {
        Self::node(Shape::Static(&shape::NONE), Vec::new(), Vec::new())
    }

    /// Creates a dictionary. The children are sorted by key, and the order of the entries is stored, too. If several
    /// keys are equal, the last value is kept.
    pub fn dict<K: StaticValue>(entries: Vec<(K, Self)>) -> Self {
        let entries = entries.into_iter();
        Self::dict_of_any(
            entries
                .map(|(key, child)| (StaticBox::new(key), child))
                .collect(),
        )
    }

    /// Creates a dictionary with keys of various types, sorted as [`StaticData`](crate::StaticData): bools, numbers,
    /// strings, tuples. See [`dict`](Self::dict).
    pub fn dict_of_any(entries: Vec<(StaticBox, Self)>) -> Self {
        let (mut keys, children, order) = sort_entries(entries);
        keys.push(StaticBox::new(order));
        Self::node(Shape::Static(&shape::DICT), keys, children)
    }

    /// Creates a dictionary in the order of the entries. If several keys are equal, the first key determines the
    /// position, and the last value is kept.
    pub fn ordered_dict<K: StaticValue + Eq + std::hash::Hash>(entries: Vec<(K, Self)>) -> Self {
        let entries: IndexMap<K, Self> = entries.into_iter().collect();
        let (keys, children): (Vec<_>, Vec<_>) = entries
            .into_iter()
            .map(|(key, child)| (StaticBox::new(key), child))
            .unzip();
        Self::node(Shape::Static(&shape::ORDERED_DICT), keys, children)
    }

    /// Creates an ordered dictionary with keys of various types; see [`ordered_dict`](Self::ordered_dict).
    pub fn ordered_dict_of_any(entries: Vec<(StaticBox, Self)>) -> Self {
        let entries: IndexMap<StaticBox, Self> = entries.into_iter().collect();
        let (keys, children) = entries.into_iter().unzip();
        Self::node(Shape::Static(&shape::ORDERED_DICT), keys, children)
    }

    /// Creates a `deque` of Python. `maxlen`, its greatest number of items, is a static value: a `deque` with another bound
    /// has another structure.
    ///
    /// # Examples
    /// ```
    /// use pytree_core::Tree;
    /// let recent = Tree::deque(Some(3), vec![Tree::leaf(1), Tree::leaf(2)])?;
    /// assert_eq!(recent.to_string(), "deque([1, 2], maxlen=3)");
    /// # Ok::<(), pytree_core::TreeError>(())
    /// ```
    ///
    /// # Errors
    /// [`TreeError::Build`] if there are more than `maxlen` children.
    pub fn deque(maxlen: Option<usize>, children: Vec<Self>) -> Result<Self, TreeError> {
        if let Some(maxlen) = maxlen.filter(|&maxlen| maxlen < children.len()) {
            return Err(TreeError::Build {
                node: "deque",
                reason: format!(
                    "expected at most maxlen = {maxlen} children, found {}; remove the first children, or raise `maxlen`",
                    children.len()
                ),
            });
        }
        let statics = vec![StaticBox::new(maxlen)];
        Ok(Self::node(Shape::Static(&shape::DEQUE), statics, children))
    }

    /// Creates a `defaultdict` of Python, whose `entries` are a [`dict`](Self::dict), as JAX and optree flatten it, or an
    /// [`ordered_dict`](Self::ordered_dict), as optree flattens it in its insertion-ordered mode. `factory` is a static
    /// value, such as the name of the function that creates missing values; it is displayed as it is written.
    ///
    /// # Examples
    /// ```
    /// use pytree_core::Tree;
    /// let entries = Tree::dict(vec![("b", Tree::leaf(1)), ("a", Tree::leaf(2))]);
    /// let counts = Tree::default_dict(Some("<class 'int'>"), entries)?;
    /// assert_eq!(counts.to_string(), "defaultdict(<class 'int'>, {'a': 2, 'b': 1})");
    /// assert_eq!(counts["['b']"], 1);
    /// # Ok::<(), pytree_core::TreeError>(())
    /// ```
    ///
    /// # Errors
    /// [`TreeError::Build`] if `entries` is not a dictionary.
    pub fn default_dict(factory: Option<&str>, entries: Self) -> Result<Self, TreeError> {
        if !matches!(
            entries.treedef.kind(),
            NodeKind::Dict | NodeKind::OrderedDict
        ) {
            return Err(TreeError::Build {
                node: "defaultdict",
                reason: format!(
                    "expected a dictionary as the entries, found {}; pass a `Tree::dict` or a `Tree::ordered_dict`",
                    entries.treedef.root().describe()
                ),
            });
        }
        let statics = vec![StaticBox::new(factory.map(str::to_owned))];
        let shape = Shape::Static(&shape::DEFAULT_DICT);
        Ok(Self::node(shape, statics, vec![entries]))
    }

    /// Creates a named tuple, which is displayed as in Python. The names of its fields are the keys of its children.
    ///
    /// # Errors
    /// [`TreeError::Build`] if two fields have the same name.
    ///
    /// # Examples
    /// ```
    /// use pytree_core::Tree;
    /// let point = Tree::named_tuple("Point", vec![("x", Tree::leaf(1)), ("y", Tree::leaf(2))])?;
    /// assert_eq!(point.to_string(), "Point(x=1, y=2)");
    /// assert_eq!(point.treedef().to_string(), "PyTreeDef(CustomNode(namedtuple[Point], [*, *]))");
    /// # Ok::<(), pytree_core::TreeError>(())
    /// ```
    pub fn named_tuple(name: &str, fields: Vec<(&str, Self)>) -> Result<Self, TreeError> {
        Self::custom(NodeKind::NamedTuple, name, fields, Vec::new())
    }

    /// Creates a node with a name, named children and static values. The node has the structure of a plain struct with
    /// this name and these fields.
    ///
    /// # Errors
    /// [`TreeError::Build`] if two fields have the same name.
    ///
    /// # Examples
    /// ```
    /// use pytree_core::{StaticBox, Tree};
    /// let layer = Tree::named_struct("Layer", vec![("weight", Tree::leaf(1))], vec![("rate", StaticBox::new(0.5))])?;
    /// assert_eq!(layer.to_string(), "Layer { weight: 1, rate = 0.5 }");
    /// # Ok::<(), pytree_core::TreeError>(())
    /// ```
    pub fn named_struct(
        name: &str,
        fields: Vec<(&str, Self)>,
        statics: Vec<(&str, StaticBox)>,
    ) -> Result<Self, TreeError> {
        Self::custom(NodeKind::Struct, name, fields, statics)
    }

    fn custom(
        kind: NodeKind,
        name: &str,
        fields: Vec<(&str, Self)>,
        statics: Vec<(&str, StaticBox)>,
    ) -> Result<Self, TreeError> {
        let (names, children): (Vec<_>, Vec<_>) = fields
            .into_iter()
            .map(|(name, child)| ((name, None), child))
            .unzip();
        let (static_names, values): (Vec<_>, Vec<_>) = statics.into_iter().unzip();
        let shape = DynamicShape::new(kind, name, &names, &static_names)?;
        Ok(Self::node(Shape::Dynamic(&shape), values, children))
    }
}
