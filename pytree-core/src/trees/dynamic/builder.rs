//! Builds a dynamic tree or graph node by node.

mod order;
mod problems;

use std::collections::{BTreeSet, HashSet};
use std::fmt;
use std::hash::Hasher;
use std::sync::Arc;

use pytree_base::bug::bug;

use self::order::{Item, LabelAt, Labels, in_order};
use self::problems::Problems;
use super::Tree;
use crate::base::error::TreeError;
use crate::base::kind::{FieldKind, LeafKind};
use crate::base::path::KeyPath;
use crate::node::leaf::AnyLeaf;
use crate::node::shape::{self, DynamicShape, NodeKind, OwnedShape, Shape};
use crate::node::statics::{StaticBox, StaticValue};
use crate::treedef::key_below;

/// Builds a dynamic [`Tree`] of any depth, node by node.
///
/// Begin a node, add its children, and end the node. In a dictionary, add a [`key`](Self::key) before each child. The
/// builder counts children and sorts the children of dictionaries. Calls can be chained; [`finish`](Self::finish)
/// reports the mistakes of all calls. Time and memory are linear in the number of nodes.
///
/// # Examples
/// ```
/// use pytree_core::TreeBuilder;
/// let mut builder = TreeBuilder::new();
/// builder.begin_dict().key("b").begin_list();
/// for number in 1..=3 {
///     builder.leaf(number);
/// }
/// let tree = builder.end().key("a").none().end().finish()?;
/// assert_eq!(tree.to_string(), "{'a': None, 'b': [1, 2, 3]}");
/// # Ok::<(), pytree_core::TreeError>(())
/// ```
///
/// A shared node or a reference has a label. [`again`](Self::again) adds the same node at another path, and
/// [`weak`](Self::weak) adds a weak edge to this node. Both functions may be called before the node itself is added.
///
/// ```
/// use pytree_core::{Shared, TreeBuilder, graph};
/// let mut builder = TreeBuilder::new();
/// builder.begin_tuple().begin_shared("weight").leaf(1.5).end().again("weight").end();
/// let (leaves, treedef) = builder.finish()?.into_parts();
/// let tied: (Shared<f64>, Shared<f64>) = graph::unflatten(&treedef, leaves)?;
/// assert!(tied.0.same(&tied.1));
/// # Ok::<(), pytree_core::TreeError>(())
/// ```
#[derive(Debug)]
pub struct TreeBuilder<L = AnyLeaf> {
    /// The leaves, trees and nodes in the order in which they were added. The root is first.
    items: Vec<Item<L>>,
    /// The positions in `items` of the open nodes, from the root down. A node is open until [`end`](Self::end) ends
    /// it.
    open: Vec<usize>,
    /// The shapes created from names and fields. Equal shapes are stored once.
    shapes: HashSet<Arc<DynamicShape>>,
    labels: Labels,
    problems: Problems,
}

impl<L> Default for TreeBuilder<L> {
    fn default() -> Self {
        Self {
            items: Vec::new(),
            open: Vec::new(),
            shapes: HashSet::new(),
            labels: Labels::default(),
            problems: Problems::default(),
        }
    }
}

impl<L> TreeBuilder<L> {
    /// Creates an empty builder.
    pub fn new() -> Self {
        Self::default()
    }

    /// Begins a list.
    pub fn begin_list(&mut self) -> &mut Self {
        self.begin_shape(&shape::LIST, Vec::new())
    }

    /// Begins a tuple.
    pub fn begin_tuple(&mut self) -> &mut Self {
        self.begin_shape(&shape::TUPLE, Vec::new())
    }

    /// Begins a dictionary. The dictionary stores its children sorted by key, and also the order in which they were
    /// added.
    pub fn begin_dict(&mut self) -> &mut Self {
        self.begin_shape(&shape::DICT, Vec::new())
    }

    /// Begins a dictionary whose children keep their order.
    pub fn begin_ordered_dict(&mut self) -> &mut Self {
        self.begin_shape(&shape::ORDERED_DICT, Vec::new())
    }

    /// Begins a named tuple with the given fields.
    pub fn begin_named_tuple(&mut self, name: &str, fields: &[&str]) -> &mut Self {
        let fields: Vec<_> = fields.iter().map(|&field| (field, None)).collect();
        self.begin_dynamic(NodeKind::NamedTuple, name, &fields, Vec::new())
    }

    /// Begins a struct with the given fields and static fields. A Rust type can be built from the struct if both have
    /// the same name, the same static fields, and the same fields with the same kinds.
    ///
    /// To build many nodes, [`begin_shape`](Self::begin_shape) with a single [`DynamicShape`] is faster.
    pub fn begin_struct(
        &mut self,
        name: &str,
        fields: &[(&str, Option<FieldKind>)],
        statics: Vec<(&str, StaticBox)>,
    ) -> &mut Self {
        self.begin_dynamic(NodeKind::Struct, name, fields, statics)
    }

    fn begin_dynamic(
        &mut self,
        kind: NodeKind,
        name: &str,
        fields: &[(&str, Option<FieldKind>)],
        statics: Vec<(&str, StaticBox)>,
    ) -> &mut Self {
        let (names, values): (Vec<&str>, Vec<StaticBox>) = statics.into_iter().unzip();
        match DynamicShape::new(kind, name, fields, &names) {
            Ok(shape) => {
                let known = self.shapes.get(&shape).map(Arc::clone);
                let shape = known.unwrap_or_else(|| {
                    self.shapes.insert(Arc::clone(&shape));
                    shape
                });
                self.begin_shape(shape, values)
            }
            Err(error) => {
                self.problem(&format!("cannot create the shape `{name}`: {error}"));
                self.begin_list()
            }
        }
    }

    /// Begins a node of the given shape, with the given values of its static fields.
    pub fn begin_shape(
        &mut self,
        shape: impl Into<OwnedShape>,
        statics: Vec<StaticBox>,
    ) -> &mut Self {
        let shape = shape.into();
        let view = shape.get();
        if matches!(
            view.kind(),
            NodeKind::Leaf
                | NodeKind::Absent
                | NodeKind::Shared
                | NodeKind::Alias
                | NodeKind::Reference
                | NodeKind::Weak
                | NodeKind::Argument
        ) || (view.kind() == NodeKind::Object && !view.is_default_dict())
        {
            self.begin_list();
            self.problem(&format!(
                "`begin_shape` cannot begin a `{}`; use the method of the builder for it",
                view.name()
            ));
            return self;
        }
        let (expected, found) = (view.num_statics(), statics.len());
        self.begin_owned(shape.clone(), None, statics);
        if expected != found {
            self.problem(&format!(
                "`{}` expects {expected} static values, found {found}",
                view.name()
            ));
        }
        self
    }

    fn begin_owned(
        &mut self,
        shape: OwnedShape,
        label: Option<LabelAt>,
        statics: Vec<StaticBox>,
    ) -> usize {
        let place = self.add(Item::Node {
            label,
            shape,
            aux: statics,
            children: Vec::new(),
        });
        self.open.push(place);
        place
    }

    /// Begins a shared node with a label. The node has one child, and becomes a [`Shared`](crate::Shared).
    pub fn begin_shared(&mut self, label: &str) -> &mut Self {
        self.begin_labelled(&shape::SHARED, label)
    }

    /// Begins a reference with a label. The reference has one child, its content, and becomes a [`Ref`](crate::Ref)
    /// without a kind of its own, as [`Ref::new`](crate::Ref::new) creates it.
    pub fn begin_reference(&mut self, label: &str) -> &mut Self {
        self.begin_labelled(&shape::REFERENCE, label)
    }

    /// Begins a reference with a label and the kind of its content; see [`begin_reference`](Self::begin_reference).
    pub fn begin_reference_of(&mut self, kind: LeafKind, label: &str) -> &mut Self {
        let field = (shape::REFERENCE_FIELD, Some(kind.field()));
        let (fields, statics) = ([field].into_iter(), [].into_iter());
        let name = shape::REFERENCE_NAME;
        let shape = DynamicShape::of_distinct(NodeKind::Reference, name, fields, statics);
        self.begin_labelled(shape, label)
    }

    fn begin_labelled(&mut self, shape: impl Into<OwnedShape>, label: &str) -> &mut Self {
        let at = self.labels.position(label);
        let place = self.begin_owned(shape.into(), Some(at), Vec::new());
        if self.labels.entries[at].1.replace(place).is_some() {
            self.problem(&format!(
                "two nodes have the label `{label}`; call `again` to add the same node at another path"
            ));
        }
        self
    }

    /// Adds another occurrence of the shared node or the reference with a label, at the path of the next child.
    ///
    /// A shared node can contain itself only through a reference or a weak edge. A reference can contain itself.
    pub fn again(&mut self, label: &str) -> &mut Self {
        let label = self.labels.position(label);
        self.add(Item::Again(label));
        self
    }

    /// Adds a weak edge to the shared node or the reference with a label.
    pub fn weak(&mut self, label: &str) -> &mut Self {
        let label = self.labels.position(label);
        self.add(Item::Weak(Some(label)));
        self
    }

    /// Adds a weak edge without a target.
    pub fn weak_without_target(&mut self) -> &mut Self {
        self.add(Item::Weak(None));
        self
    }

    /// Adds the key of the next child of a dictionary.
    pub fn key<K: StaticValue>(&mut self, key: K) -> &mut Self {
        self.key_of_any(StaticBox::new(key))
    }

    /// Adds a key of any type; see [`key`](Self::key).
    pub fn key_of_any(&mut self, key: StaticBox) -> &mut Self {
        let problem = match self.open_node() {
            Some((shape, aux, children)) if is_map(shape) => {
                if aux.len() == children.len() {
                    aux.push(key);
                    return self;
                }
                let problem = format!(
                    "the key {key:?} directly follows another key, which has no child; add a child after each key"
                );
                // Replaces the key without a child. So the next child belongs to the new key, and the old key is
                // reported only once.
                aux.pop();
                aux.push(key);
                problem
            }
            _ => format!("the key {key:?} is not in a dictionary"),
        };
        self.problem(&problem);
        self
    }

    /// Adds a leaf.
    pub fn leaf(&mut self, leaf: L) -> &mut Self {
        self.add(Item::Leaf(leaf));
        self
    }

    /// Adds a whole tree.
    pub fn subtree(&mut self, tree: Tree<L>) -> &mut Self {
        self.add(Item::Tree(tree));
        self
    }

    /// Adds `None`.
    pub fn none(&mut self) -> &mut Self {
        self.begin_shape(&shape::NONE, Vec::new()).end()
    }

    /// Ends the innermost node that is still open, that is, begun and not yet ended.
    pub fn end(&mut self) -> &mut Self {
        let Some((shape, aux, children)) = self.open_node() else {
            self.problem("`end` is called, but no node is open; call `end` once for each node");
            return self;
        };
        let found = children.len();
        let expected = match shape.kind() {
            NodeKind::Struct | NodeKind::TupleStruct | NodeKind::NamedTuple => shape.num_fields(),
            NodeKind::None => 0,
            NodeKind::Some | NodeKind::Object | NodeKind::Shared | NodeKind::Reference => 1,
            NodeKind::Dict | NodeKind::OrderedDict => aux.len(),
            _ => found,
        };
        let mut problem = None;
        if is_map(shape) {
            let mut met = BTreeSet::new();
            let mut keys = aux.iter().filter(|key| !is_missing(key));
            let twice = keys.find(|key| !met.insert(key.data()));
            problem = twice.map(|key| format!("the key {key:?} occurs twice"));
        }
        if expected != found {
            problem = Some(format!(
                "`{}` expects {expected} children, found {found}",
                shape.name()
            ));
        }
        if let Some(problem) = problem {
            self.problem(&problem);
        }
        self.open.pop();
        self
    }

    /// Returns the tree and empties the builder.
    ///
    /// # Errors
    /// [`TreeError::Build`] with all mistakes. Mistakes are:
    /// - a node that did not end, or has a wrong number of children or static values
    /// - a child of a dictionary without a key, or a key that is repeated or has no child
    /// - no root, or several roots
    /// - a label with no node or with several nodes
    /// - a shared node that contains itself
    pub fn finish(&mut self) -> Result<Tree<L>, TreeError> {
        if self.items.is_empty() {
            self.problem("the tree has no root; add a leaf or begin a node");
        }
        if !self.open.is_empty() {
            self.problem(&format!(
                "{} nodes are still open; call `end` once for each node",
                self.open.len()
            ));
        }
        let Self {
            items,
            labels,
            mut problems,
            ..
        } = std::mem::take(self);
        if !problems.is_empty() {
            return Err(problems.into_error());
        }
        let tree = in_order(items, &labels, &mut problems);
        if !problems.is_empty() {
            return Err(problems.into_error());
        }
        Ok(tree)
    }

    /// Adds a leaf, a tree or a node as the next child of the innermost open node, or as the root.
    fn add(&mut self, item: Item<L>) -> usize {
        let at = self.items.len();
        let problem = match self.open_node() {
            Some((shape, aux, children)) => {
                children.push(at);
                let has_key = !is_map(shape) || aux.len() == children.len();
                if !has_key {
                    // Without a placeholder, each later key would belong to the wrong child.
                    aux.push(StaticBox::new(MissingKey));
                }
                (!has_key).then_some("a child of a dictionary has no key; call `key` before it")
            }
            None => (at > 0).then_some(
                "the tree already has a root, and a tree has only one root; begin a list or a tuple first, and add both nodes to it",
            ),
        };
        if let Some(problem) = problem {
            self.problem(problem);
        }
        self.items.push(item);
        at
    }

    /// Returns the shape, the keys or static values, and the children of the innermost open node.
    fn open_node(&mut self) -> Option<(Shape<'_>, &mut Vec<StaticBox>, &mut Vec<usize>)> {
        match &mut self.items[*self.open.last()?] {
            Item::Node {
                shape,
                aux,
                children,
                ..
            } => Some((shape.get(), aux, children)),
            _ => bug("the innermost open node to be one that can have children"),
        }
    }

    /// Records a mistake and its path.
    #[cold]
    fn problem(&mut self, what: &str) {
        let Self {
            items,
            open,
            problems,
            ..
        } = self;
        let path = || {
            let mut path = KeyPath::root();
            for pair in open.windows(2) {
                if let Some(Item::Node {
                    shape,
                    aux,
                    children,
                    ..
                }) = items.get(pair[0])
                {
                    let position = children.len().saturating_sub(1);
                    if let Some(key) = key_below(shape.get(), aux, position) {
                        path.push(key);
                    }
                }
            }
            path
        };
        problems.add(path, what);
    }
}

/// A placeholder for the key of a child that was added to a dictionary without a key. A tree never contains a
/// placeholder, because a missing key is an error.
#[derive(Clone)]
struct MissingKey;

impl StaticValue for MissingKey {
    fn static_eq(&self, _: &Self) -> bool {
        true
    }
    fn static_hash(&self, _: &mut dyn Hasher) {}
    fn static_show(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no key")
    }
}

fn is_missing(key: &StaticBox) -> bool {
    key.downcast_ref::<MissingKey>().is_some()
}

fn is_map(shape: Shape<'_>) -> bool {
    matches!(shape.kind(), NodeKind::Dict | NodeKind::OrderedDict)
}
