//! Builds a dynamic tree node by node.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use super::Tree;
use crate::base::bug::bug;
use crate::base::error::TreeError;
use crate::base::kind::FieldKind;
use crate::base::path::KeyPath;
use crate::node::insertion::sort_entries;
use crate::node::leaf::AnyLeaf;
use crate::node::shape::{self, DynamicShape, NodeKind, OwnedShape, Shape};
use crate::node::statics::{StaticBox, StaticValue};
use crate::treedef::{Builder, key_below};

/// Builds a dynamic [`Tree`] of any depth, node by node.
///
/// Begin a node, add its children, and end the node. In a dictionary, add a [`key`](Self::key) before each child. The
/// builder counts children and sorts those of dictionaries. Calls can be chained; [`finish`](Self::finish) reports the
/// mistakes of all calls. Time and memory are linear in the number of nodes.
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
#[derive(Debug)]
pub struct TreeBuilder<L = AnyLeaf> {
    /// The leaves, trees and nodes in the order in which they were added. The root is first.
    places: Vec<Place<L>>,
    /// The positions of the nodes that have begun and not ended, from the root down.
    open: Vec<usize>,
    /// The shapes created from names and fields. Equal shapes are stored once.
    shapes: HashSet<Arc<DynamicShape>>,
    /// The first mistakes, and the number of later mistakes.
    problems: Vec<String>,
    more: usize,
}

/// A leaf, a tree or a node that was added.
#[derive(Debug)]
enum Place<L> {
    Leaf(L),
    Tree(Tree<L>),
    Node {
        shape: OwnedShape,
        /// The static values; for a map, the keys.
        aux: Vec<StaticBox>,
        children: Vec<usize>,
    },
}

/// The greatest number of mistakes that are reported. Further mistakes are only counted.
const TOLD: usize = 20;

impl<L> Default for TreeBuilder<L> {
    fn default() -> Self {
        Self {
            places: Vec::new(),
            open: Vec::new(),
            shapes: HashSet::new(),
            problems: Vec::new(),
            more: 0,
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

    /// Begins a dictionary. Its children are sorted by key, and the order in which they were added is stored, too.
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
                self.problem(&format!("cannot make the shape `{name}`: {error}"));
                self.begin_list()
            }
        }
    }

    /// Begins a node of a shape, with the values of its static fields.
    pub fn begin_shape(
        &mut self,
        shape: impl Into<OwnedShape>,
        statics: Vec<StaticBox>,
    ) -> &mut Self {
        self.begin_owned(shape.into(), statics)
    }

    fn begin_owned(&mut self, shape: OwnedShape, statics: Vec<StaticBox>) -> &mut Self {
        let (expected, found) = (shape.get().num_statics(), statics.len());
        let place = self.add(Place::Node {
            shape: shape.clone(),
            aux: statics,
            children: Vec::new(),
        });
        self.open.push(place);
        let shape = shape.get();
        if matches!(
            shape.kind(),
            NodeKind::Leaf
                | NodeKind::Absent
                | NodeKind::Object
                | NodeKind::Shared
                | NodeKind::Alias
                | NodeKind::Reference
                | NodeKind::Weak
                | NodeKind::Argument
        ) {
            self.problem(&format!(
                "a node of the shape `{}` cannot begin",
                shape.name()
            ));
        }
        if expected != found {
            self.problem(&format!(
                "`{}` expects {expected} static values, found {found}",
                shape.name()
            ));
        }
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
                format!("the key {key:?} follows another key; give each a child")
            }
            _ => format!("the key {key:?} is not in a dictionary"),
        };
        self.problem(&problem);
        self
    }

    /// Adds a leaf.
    pub fn leaf(&mut self, leaf: L) -> &mut Self {
        self.add(Place::Leaf(leaf));
        self
    }

    /// Adds a whole tree.
    pub fn subtree(&mut self, tree: Tree<L>) -> &mut Self {
        self.add(Place::Tree(tree));
        self
    }

    /// Adds `None`.
    pub fn none(&mut self) -> &mut Self {
        self.begin_shape(&shape::NONE, Vec::new()).end()
    }

    /// Ends the innermost node that has begun and not ended.
    pub fn end(&mut self) -> &mut Self {
        let Some((shape, aux, children)) = self.open_node() else {
            self.problem(
                "`end` is called, but all nodes have ended; call `end` once for each node",
            );
            return self;
        };
        let found = children.len();
        let expected = match shape.kind() {
            NodeKind::Struct | NodeKind::TupleStruct | NodeKind::NamedTuple => shape.num_fields(),
            NodeKind::None => 0,
            NodeKind::Some => 1,
            NodeKind::Dict | NodeKind::OrderedDict => aux.len(),
            _ => found,
        };
        let mut problem = None;
        if is_map(shape) {
            let mut met = BTreeSet::new();
            let twice = aux.iter().find(|key| !met.insert(key.data()));
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
    /// [`TreeError::Build`] with all mistakes: nodes that did not end or have a wrong number of children or static
    /// values, dictionary children without a key, keys without a child or repeated, no root or several.
    pub fn finish(&mut self) -> Result<Tree<L>, TreeError> {
        if self.places.is_empty() {
            self.problem("the tree has no root; add a leaf or begin a node");
        }
        if !self.open.is_empty() {
            self.problem(&format!(
                "{} nodes have not ended; call `end` once for each",
                self.open.len()
            ));
        }
        let Self {
            places,
            problems,
            more,
            ..
        } = std::mem::take(self);
        if problems.is_empty() {
            return Ok(in_order(places));
        }
        let mut problems = problems;
        if more > 0 {
            problems.push(format!("and {more} more"));
        }
        let reason = problems.join("; ");
        Err(TreeError::Build {
            node: "tree",
            reason,
        })
    }

    /// Adds a leaf, a tree or a node as the next child of the innermost open node, or as the root.
    fn add(&mut self, place: Place<L>) -> usize {
        let at = self.places.len();
        let problem = match self.open_node() {
            Some((shape, aux, children)) => {
                children.push(at);
                let has_key = !is_map(shape) || aux.len() == children.len();
                (!has_key).then_some("a child of a dictionary has no key; call `key` before it")
            }
            None => (at > 0).then_some(
                "the tree already has a root; begin a list or a tuple that contains both",
            ),
        };
        if let Some(problem) = problem {
            self.problem(problem);
        }
        self.places.push(place);
        at
    }

    /// Returns the innermost node that has not ended: its shape, its keys or static values, and its children.
    fn open_node(&mut self) -> Option<(Shape<'_>, &mut Vec<StaticBox>, &mut Vec<usize>)> {
        match &mut self.places[*self.open.last()?] {
            Place::Node {
                shape,
                aux,
                children,
            } => Some((shape.get(), aux, children)),
            _ => bug("an open node that is not a leaf"),
        }
    }

    /// Records a mistake and its path.
    #[cold]
    fn problem(&mut self, what: &str) {
        if self.problems.len() == TOLD {
            self.more += 1;
            return;
        }
        let mut path = KeyPath::root();
        for pair in self.open.windows(2) {
            if let Some(Place::Node {
                shape,
                aux,
                children,
            }) = self.places.get(pair[0])
            {
                let position = children.len().saturating_sub(1);
                if let Some(key) = key_below(shape.get(), aux, position) {
                    path.push(key);
                }
            }
        }
        self.problems.push(format!("in {}: {what}", path.or_root()));
    }
}

fn is_map(shape: Shape<'_>) -> bool {
    matches!(shape.kind(), NodeKind::Dict | NodeKind::OrderedDict)
}

/// Builds the tree from its leaves, trees and nodes. All of them except the first are children of a node.
fn in_order<L>(places: Vec<Place<L>>) -> Tree<L> {
    let mut places: Vec<Option<Place<L>>> = places.into_iter().map(Some).collect();
    let mut builder = Builder::default();
    let mut leaves = Vec::new();
    // The remaining children of each node that has not ended.
    let mut open = vec![vec![0].into_iter()];
    while let Some(siblings) = open.last_mut() {
        let Some(at) = siblings.next() else {
            open.pop();
            // The outermost list of children belongs to no node. It contains only the root.
            builder.exit();
            continue;
        };
        match places.get_mut(at).and_then(Option::take) {
            Some(Place::Leaf(leaf)) => {
                builder.leaf(&shape::LEAF);
                leaves.push(leaf);
            }
            Some(Place::Tree(tree)) => {
                let (subtree_leaves, treedef) = tree.into_parts();
                builder.subtree(&treedef);
                leaves.extend(subtree_leaves);
            }
            Some(Place::Node {
                shape,
                aux,
                children,
            }) => {
                let (aux, children) = if shape.get().kind() == NodeKind::Dict {
                    let (mut keys, children, order) =
                        sort_entries(aux.into_iter().zip(children).collect());
                    keys.push(StaticBox::new(order));
                    (keys, children)
                } else {
                    (aux, children)
                };
                builder.enter_shape(shape.get(), children.len());
                aux.into_iter().for_each(|value| builder.aux(value));
                open.push(children.into_iter());
            }
            None => bug("each node of a tree to be the child of one other node"),
        }
    }
    Tree::from_parts(builder.finish(), leaves)
}
