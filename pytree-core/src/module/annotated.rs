//! Values with metadata: names of axes for sharding, separate learning rates, or any other data about a leaf.
//!
//! An [`Annotated`] is a transparent node, like [`Shared`](crate::Shared): it adds no key to a path, and is displayed
//! as its value. The metadata is static data in the treedef, so parts, transformations and checkpoints preserve the
//! metadata.

use std::any::TypeId;
use std::fmt;

use indexmap::IndexMap;
use pytree_base::lists::Joined;

use crate::base::error::TreeError;
use crate::contract::pytree::{Pytree, PytreeOf, Visit, Visitor};
use crate::contract::unflatten::Unflattener;
use crate::module::field::{HoldsArrays, ModuleField, ParamField, StateField};
use crate::node::leaf::Leaf;
use crate::node::shape::{NodeKind, NodeShape, Shape};
use crate::node::statics::{StaticBox, StaticData, StaticRef, StaticValue};
use crate::treedef::{NodeView, TreeDef};
use crate::trees::dynamic::Tree;
use crate::trees::partition::Partition;
use crate::trees::select_part::{SelectPart, select_partition};

/// The metadata of a value: an ordered map of names and static data.
///
/// Two `Metadata` are equal if they have the same names and data in the same order. So equal metadata has the same
/// display.
///
/// # Examples
/// ```
/// use pytree_core::Metadata;
/// let metadata = Metadata::new().with("sharding", ("data", "model")).with("rate", 0.5);
/// assert_eq!(metadata.get("rate").unwrap().to_string(), "0.5");
/// assert_eq!(metadata.value::<(String, String)>("sharding").unwrap().1, "model");
/// assert_eq!(metadata.to_string(), "sharding=('data', 'model'), rate=0.5");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, pytree_derive::Leaf)]
pub struct Metadata(Vec<(String, StaticData)>);

/// The name under which the metadata of a leaf contains the names of its axes.
const AXES: &str = "axes";

/// The name of the [`StaticData`] record that represents metadata.
const RECORD: &str = "Metadata";

impl Metadata {
    /// Creates empty metadata.
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// Stores `value` under `name`, and returns the metadata. An existing value of this name is replaced. A new name is
    /// added at the end.
    #[must_use]
    pub fn with<V: StaticValue>(mut self, name: &str, value: V) -> Self {
        self.set(name, value);
        self
    }

    /// Stores `value` under `name`. An existing value of this name is replaced. A new name is added at the end.
    pub fn set<V: StaticValue>(&mut self, name: &str, value: V) {
        self.insert(name.to_owned(), value.static_data());
    }

    fn insert(&mut self, name: String, data: StaticData) {
        match self.0.iter_mut().find(|(known, _)| *known == name) {
            Some((_, known)) => *known = data,
            None => self.0.push((name, data)),
        }
    }

    /// Removes `name` and its data, and returns the data.
    pub fn remove(&mut self, name: &str) -> Option<StaticData> {
        let position = self.0.iter().position(|(known, _)| known == name)?;
        Some(self.0.remove(position).1)
    }

    /// Returns the data that is stored under `name`.
    pub fn get(&self, name: &str) -> Option<&StaticData> {
        let found = self.0.iter().find(|(known, _)| known == name);
        found.map(|(_, data)| data)
    }

    /// Returns the value that is stored under `name`, if there is one and its type is `V`.
    pub fn value<V: StaticValue>(&self, name: &str) -> Option<V> {
        V::from_static_data(self.get(name)?)
    }

    /// Iterates over names and data, in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &StaticData)> {
        self.0.iter().map(|(name, data)| (name.as_str(), data))
    }

    /// Returns the number of names.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether there are no names.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds the metadata `other`. If both have a value of the same name, the value of `other` is used.
    pub(crate) fn extend(&mut self, other: Self) {
        for (name, data) in other.0 {
            self.insert(name, data);
        }
    }
}

impl fmt::Display for Metadata {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let entries = self.0.iter().map(|(name, data)| format!("{name}={data}"));
        Joined(", ", entries).fmt(f)
    }
}

impl StaticValue for Metadata {
    fn static_eq(&self, other: &Self) -> bool {
        self == other
    }
    fn static_hash(&self, hasher: &mut dyn std::hash::Hasher) {
        self.static_data().add_to_hash(hasher);
    }
    fn static_show(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "({self})")
    }
    fn static_data(&self) -> StaticData {
        StaticData::Record {
            name: RECORD.to_owned(),
            fields: self.0.clone(),
        }
    }
    fn from_static_data(data: &StaticData) -> Option<Self> {
        let StaticData::Record { name, fields } = data else {
            return None;
        };
        let fields: IndexMap<String, StaticData> = fields.iter().cloned().collect();
        (name == RECORD).then(|| Self(fields.into_iter().collect()))
    }
}

/// A value with [`Metadata`]. An `Annotated<T>` dereferences to the inner `T`, and has the same key paths, the same
/// display and the same kinds of leaves as the inner value.
///
/// The metadata is part of the treedef. Two models with different metadata have different structures, and a function is
/// compiled once for each structure.
///
/// # Examples
/// ```
/// use ndarray::{Array2, array};
/// use pytree_core::{Annotated, Module, edit, graph};
///
/// #[derive(Module, Debug)]
/// struct Linear {
///     #[param]
///     kernel: Annotated<Array2<f32>>,
///     #[param]
///     bias: Array2<f32>,
/// }
///
/// let kernel = Annotated::new(array![[1.0, 2.0]]).with("sharding", ("data", "model"));
/// let linear = Linear { kernel, bias: array![[0.0]] };
/// assert_eq!(linear.kernel.sum(), 3.0);
///
/// let structure = graph::structure(&linear);
/// assert_eq!(structure.leaf_paths()[0].to_string(), "kernel");
/// let said = structure.leaf_metadata();
/// assert_eq!(said[0].to_string(), "sharding=('data', 'model')");
/// assert!(said[1].is_empty());
///
/// // Change the metadata of all kernels.
/// let linear = edit::apply(linear, |kernel: &mut Annotated<Array2<f32>>| {
///     kernel.metadata_mut().set("differentiable", false);
/// });
/// assert_eq!(linear.kernel.metadata().value("differentiable"), Some(false));
/// ```
#[doc(alias = "nnx.with_metadata")]
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Annotated<T> {
    value: T,
    metadata: Metadata,
}

impl<T> Annotated<T> {
    /// Wraps a value, without metadata.
    pub const fn new(value: T) -> Self {
        Self {
            value,
            metadata: Metadata::new(),
        }
    }

    /// Adds `data` to the metadata under `name`, and returns the annotated value. Existing data of the same name is
    /// replaced. For instance, `name` is `sharding` and `data` are names of axes.
    #[must_use]
    pub fn with<V: StaticValue>(mut self, name: &str, data: V) -> Self {
        self.metadata.set(name, data);
        self
    }

    /// Returns the metadata.
    pub const fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// Returns the metadata mutably.
    #[doc(alias("nnx.set_metadata"))]
    pub const fn metadata_mut(&mut self) -> &mut Metadata {
        &mut self.metadata
    }

    /// Applies `function` to the value and keeps the metadata.
    pub fn map<U>(self, function: impl FnOnce(T) -> U) -> Annotated<U> {
        Annotated {
            value: function(self.value),
            metadata: self.metadata,
        }
    }

    /// Returns the value without its metadata.
    pub fn into_inner(self) -> T {
        self.value
    }
}

/// The shape of an annotated value. The node has one child and one static value, like the node of a trait object. The
/// identity distinguishes the two shapes.
static SHAPE: NodeShape = NodeShape {
    identity: TypeId::of::<Annotated<()>>,
    type_name: std::any::type_name::<Annotated<()>>,
    statics: &["metadata"],
    ..NodeShape::builtin(NodeKind::Object, "Annotated")
};

impl<T: Pytree> Pytree for Annotated<T> {
    fn visit<'a>(&'a self, visitor: &mut dyn Visitor<'a>) {
        if visitor.enter(&SHAPE, 1) == Visit::Skip {
            return;
        }
        visitor.aux(StaticRef::new(&self.metadata));
        self.value.visit(visitor);
        visitor.exit();
    }

    fn unflatten(source: &mut Unflattener<'_>) -> Result<Self, TreeError> {
        source.enter_fixed(&SHAPE, 1)?;
        let metadata = source.aux()?;
        let value = T::unflatten(source)?;
        Ok(source.exit(Self { value, metadata }))
    }
}

impl<T: PytreeOf<L>, L: Leaf + Clone> PytreeOf<L> for Annotated<T> {
    fn each_leaf<'a, F: FnMut(&'a L)>(&'a self, visit: &mut F) {
        self.value.each_leaf(visit);
    }
    fn each_pair<'a, F: FnMut(&'a L, &'a L)>(&'a self, other: &'a Self, visit: &mut F) -> bool {
        StaticRef::new(&self.metadata) == StaticRef::new(&other.metadata)
            && self.value.each_pair(&other.value, visit)
    }
    fn map_leaves<F: FnMut(&L) -> L>(&self, function: &mut F) -> Self {
        Self {
            value: self.value.map_leaves(function),
            metadata: self.metadata.clone(),
        }
    }
}
impl<T: PytreeOf<L>, L: Leaf + Clone> SelectPart<L> for Annotated<T> {
    type Part = Partition<Self, L>;
    fn select_part(tree: Tree<L>) -> Result<Self::Part, TreeError> {
        select_partition(tree)
    }
}

#[diagnostic::do_not_recommend]
impl<T: ModuleField> ModuleField for Annotated<T> {}
#[diagnostic::do_not_recommend]
impl<T: ParamField> ParamField for Annotated<T> {}
#[diagnostic::do_not_recommend]
impl<T: StateField> StateField for Annotated<T> {}
impl<T: HoldsArrays> HoldsArrays for Annotated<T> {}

impl<T> From<T> for Annotated<T> {
    fn from(value: T) -> Self {
        Self::new(value)
    }
}

pytree_base::dereferences! { [T] Annotated<T>, value: T }
impl<T: fmt::Debug> fmt::Debug for Annotated<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Annotated({:?}", self.value)?;
        for (name, data) in self.metadata.iter() {
            write!(f, ", {name}={data}")?;
        }
        f.write_str(")")
    }
}

impl TreeDef {
    /// Returns the metadata of each leaf, in order, collected from all [`Annotated`] nodes above the leaf. If several
    /// of these nodes have metadata of the same name, the value of the innermost node is used.
    ///
    /// If a leaf has named axes, its metadata contains the names of these axes under `axes`. If an [`Annotated`] node
    /// above the leaf has data under `axes`, this data is used instead.
    ///
    /// # Examples
    /// ```
    /// use ndarray::Array2;
    /// use pytree_core::{Annotated, Module, graph};
    /// #[derive(Module)]
    /// struct Linear {
    ///     #[param("in out")]
    ///     weight: Array2<f32>,
    ///     #[param("in out")]
    ///     mask: Annotated<Array2<f32>>,
    /// }
    /// let zeros = || Array2::zeros((2, 3));
    /// let mask = Annotated::new(zeros()).with("axes", ("rows", "columns"));
    /// let metadata = graph::structure(&Linear { weight: zeros(), mask }).leaf_metadata();
    /// assert_eq!(metadata[0].to_string(), "axes=('in', 'out')");
    /// assert_eq!(metadata[1].to_string(), "axes=('rows', 'columns')");
    /// ```
    #[doc(alias = "nnx.get_partition_spec")]
    pub fn leaf_metadata(&self) -> Vec<Metadata> {
        let mut all = self.annotations();
        for (metadata, axes) in all.iter_mut().zip(self.leaf_axes()) {
            if let Some(axes) = axes
                && metadata.get(AXES).is_none()
            {
                let axes = axes.into_iter().map(StaticData::Text);
                metadata.insert(AXES.to_owned(), StaticData::Tuple(axes.collect()));
            }
        }
        all
    }

    /// Returns for each leaf the metadata of the [`Annotated`] nodes above the leaf.
    fn annotations(&self) -> Vec<Metadata> {
        let mut all = Vec::with_capacity(self.num_leaves());
        // For each enclosing node that has metadata: the position at which the node ends, and the metadata of leaves in
        // it.
        let mut open: Vec<(usize, Metadata)> = Vec::new();
        for node in self.nodes() {
            while open.last().is_some_and(|(end, _)| *end <= node.position()) {
                open.pop();
            }
            let said = || {
                open.last()
                    .map_or_else(Metadata::new, |(_, said)| said.clone())
            };
            if node.kind() == NodeKind::Leaf {
                all.push(said());
            } else if let Some(metadata) = metadata_of(node) {
                let mut said = said();
                said.extend(metadata);
                open.push((node.end(), said));
            }
        }
        all
    }
}

/// Returns the metadata of a node, if it is an [`Annotated`] value.
pub(crate) fn metadata_of(node: NodeView<'_>) -> Option<Metadata> {
    if node.shape() != Shape::Static(&SHAPE) {
        return None;
    }
    node.aux().first().and_then(StaticBox::to_value)
}

impl<L> Tree<L> {
    /// Returns a tree of the same structure with the metadata of each leaf; see [`TreeDef::leaf_metadata`].
    ///
    /// # Examples
    /// ```
    /// use pytree_core::{Annotated, Tree};
    /// let tree = Tree::of(&(Annotated::new(1.0_f32).with("axes", ("in", "out")), 2.0_f32));
    /// let axes = tree.metadata().map(|said| said.value::<(String, String)>("axes"));
    /// assert_eq!(axes.leaves()[0].as_ref().unwrap().0, "in");
    /// assert_eq!(axes.leaves()[1], None);
    /// ```
    pub fn metadata(&self) -> Tree<Metadata> {
        Tree::from_parts(self.treedef().clone(), self.treedef().leaf_metadata())
    }
}
