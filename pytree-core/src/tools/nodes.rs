//! Walks over the nodes of a model. A shared node is visited once.
//!
//! [`iter_graph`] lists every node, leaf and static field. [`of_type`] returns the nodes of one type as values.
//! [`find_duplicates`] lists the shared nodes and references that are at several paths. To change nodes, see
//! [`edit`](crate::tools::edit): [`edit::apply_any`](crate::tools::edit::apply_any) calls a function for every node,
//! children first.

use std::any::Any;
use std::borrow::Cow;
use std::fmt;
use std::ops::Deref;

use pytree_base::bug::{LEAVES, expect_at};
use pytree_derive::panicking_twin;

use crate::base::error::TreeError;
use crate::base::path::{KeyPath, PathKey};
use crate::base::text::short_name;
use crate::contract::pytree::{Pytree, not_rebuilt};
use crate::contract::unflatten::{unflatten_unchecked, unflatten_with};
use crate::module::field::NodeShapes;
use crate::node::leaf::{AnyLeaf, Leaf};
use crate::node::shape::{NodeKind, Shape};
use crate::node::statics::StaticBox;
use crate::tools::diff::diff;
use crate::tools::edit::place::Parents;
use crate::treedef::{Aliases, NodeView, TreeDef};
use crate::trees::graph;

/// An item of the lists that [`iter_graph`] and [`iter_children`] return: a node, a leaf or a static field of a model.
#[derive(Debug)]
#[non_exhaustive]
pub enum Met {
    /// A node.
    Node {
        /// The displayed name of the node, such as `Linear` or `list`.
        name: Cow<'static, str>,
        /// The family of the node, such as list or struct.
        kind: NodeKind,
        /// Whether the node is a module; see [`NodeView::is_module`].
        is_module: bool,
    },
    /// A leaf.
    Leaf(AnyLeaf),
    /// A static field, which is part of the structure.
    Static(StaticBox),
}

impl Met {
    /// Returns whether this item is a node that is a module; see [`NodeView::is_module`].
    #[doc(alias("nnx.iter_modules", "nnx.iter_module_children", "nn.Module.modules"))]
    pub const fn is_module(&self) -> bool {
        matches!(
            self,
            Self::Node {
                is_module: true,
                ..
            }
        )
    }
}

impl fmt::Display for Met {
    /// Writes the name of a node, or the text of a leaf or static value.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Node { name, .. } => f.write_str(name),
            Self::Leaf(leaf) => leaf.display(f),
            Self::Static(value) => write!(f, "{value:?}"),
        }
    }
}

/// Returns every node, leaf and static field with its path. Children come before their node. A shared node is listed
/// once, at its first path. `Some`, `Shared`, references and boxes are not listed, but their contents are.
///
/// # Examples
/// ```
/// use pytree_core::{Module, Shared, nodes};
///
/// #[derive(Module)]
/// struct Linear {
///     #[param]
///     weight: f32,
///     #[r#static]
///     size: usize,
/// }
///
/// let layer = Shared::new(Linear { weight: 1.5, size: 3 });
/// let model = vec![layer.clone(), layer];
/// let met = nodes::iter_graph(&model);
/// let met: Vec<String> = met.iter().map(|(path, met)| format!("{} {met}", path.tuple())).collect();
/// assert_eq!(met, ["(0, 'weight') 1.5", "(0, 'size') 3", "(0,) Linear", "() list"]);
/// ```
#[doc(alias = "nnx.iter_graph")]
pub fn iter_graph<T: Pytree + ?Sized>(model: &T) -> Vec<(KeyPath, Met)> {
    let (leaves, treedef) = graph::flatten_any(model);
    let mut leaves = leaves.into_iter();
    let parents = Parents::of(&treedef);
    let mut all = Vec::new();
    let mut open: Vec<(usize, usize)> = Vec::new();
    for node in treedef.nodes() {
        let at = node.position();
        while let Some(&(last, end)) = open.last() {
            if end > at {
                break;
            }
            open.pop();
            end_node(&treedef, last, parents.path(last), &mut all);
        }
        match node.kind() {
            NodeKind::Leaf => {
                all.extend(
                    leaves
                        .next()
                        .map(|leaf| (parents.path(at), Met::Leaf(leaf))),
                );
            }
            NodeKind::Absent | NodeKind::Alias => {}
            kind if kind.is_transparent() => {}
            _ => open.push((at, node.end())),
        }
    }
    while let Some((last, _)) = open.pop() {
        end_node(&treedef, last, parents.path(last), &mut all);
    }
    all
}

/// Adds the static fields of a node to `all`, and then the node itself.
fn end_node(treedef: &TreeDef, node: usize, path: KeyPath, all: &mut Vec<(KeyPath, Met)>) {
    let view = treedef.view(node);
    for (key, value) in view.keyed_statics() {
        let mut path = path.clone();
        path.push(key);
        all.push((path, Met::Static(value.to_box())));
    }
    all.push((path, met(view)));
}

fn met(view: NodeView<'_>) -> Met {
    Met::Node {
        name: view.shape().name_text(),
        kind: view.kind(),
        is_module: view.is_module(),
    }
}

/// Returns the children of a model's root with their keys, in order, without their descendants.
///
/// # Examples
/// ```
/// use pytree_core::{Module, nodes};
///
/// #[derive(Module)]
/// struct Linear {
///     #[param]
///     weight: f32,
/// }
/// #[derive(Module)]
/// struct Block {
///     linear: Linear,
///     #[state]
///     count: i32,
/// }
///
/// let block = Block { linear: Linear { weight: 1.0 }, count: 7 };
/// let children = nodes::iter_children(&block);
/// let shown: Vec<String> = children.iter().map(|(key, child)| format!("{key} {child}")).collect();
/// assert_eq!(shown, [".linear Linear", ".count 7"]);
/// let modules = children.iter().filter(|(_, child)| child.is_module());
/// assert_eq!(modules.count(), 1);
/// ```
#[doc(alias("nnx.iter_children", "nn.Module.children"))]
pub fn iter_children<T: Pytree + ?Sized>(model: &T) -> Vec<(PathKey, Met)> {
    let (leaves, treedef) = graph::flatten_any(model);
    let shared = treedef.numbered_nodes();
    let before = treedef.leaves_before();
    let root = treedef.root().inside();
    let children = root.children().enumerate();
    let children = children.filter_map(|(position, child)| {
        let mut node = child.inside();
        // A later occurrence of a shared node is an alias. The content of the node is at its first occurrence.
        if let Some(number) = node.target() {
            node = treedef.view(*shared.get(number)?).inside();
        }
        let met = match node.kind() {
            NodeKind::Leaf => {
                Met::Leaf(expect_at(&leaves, before[node.position()], LEAVES).clone())
            }
            // The alias in a weak edge to a node outside of the model has no target.
            NodeKind::Absent | NodeKind::Alias => return None,
            _ => met(node),
        };
        Some((root.key(position)?, met))
    });
    children.collect()
}

/// Returns copies of the nodes and leaves of the type `N` with their paths, from the root down. A shared node is listed
/// once.
///
/// # Examples
/// ```
/// use pytree_core::nodes;
/// let model = (vec![1.0_f32], vec![2.0_f32, 3.0]);
/// let lists = nodes::of_type::<Vec<f32>>(&model);
/// assert_eq!(lists[1].0.to_string(), "[1]");
/// assert_eq!(lists[1].1, [2.0, 3.0]);
/// ```
///
/// # Panics
/// Panics if:
/// - the model is nested too deep
/// - a reference may not be read here
/// - the visit and the unflatten of a handwritten impl of `Pytree` do not agree
///
/// # Errors
/// [`TreeError::NotRebuilt`] if the visit and the unflatten of a handwritten impl of `Pytree` do not agree, or the
/// errors of [`graph::try_flatten_any`](crate::graph::try_flatten_any).
#[panicking_twin(of_type)]
pub fn try_of_type<N: Clone + 'static>(
    model: &impl Pytree,
) -> Result<Vec<(KeyPath, N)>, TreeError> {
    nodes_of(model)
}

/// Returns whether a node of a treedef is an `N`, a type that derives `Module` or `Pytree`. A treedef that was read from bytes
/// knows no types, so the descriptions of the nodes are compared.
///
/// # Examples
/// ```
/// use pytree_core::{Module, graph, nodes};
/// #[derive(Module)]
/// struct Point {
///     #[param]
///     x: f32,
/// }
/// let treedef = graph::structure(&vec![Point { x: 1.0 }, Point { x: 2.0 }]);
/// let points = treedef.nodes().filter(|node| nodes::is_of_type::<Point>(node));
/// assert_eq!(points.count(), 2);
/// ```
pub fn is_of_type<N: NodeShapes>(node: &NodeView<'_>) -> bool {
    let mut shapes = N::SHAPES.iter();
    shapes.any(|shape| node.shape() == Shape::Static(shape))
}

fn nodes_of<N: Clone + 'static, M: Pytree>(model: &M) -> Result<Vec<(KeyPath, N)>, TreeError> {
    let (leaves, treedef) = graph::try_flatten_any(model)?;
    let mut nodes: Vec<(usize, N)> = Vec::new();
    let _: M = unflatten_with(
        &treedef,
        leaves,
        Some(Box::new(|node, value: &mut dyn Any| {
            let inside = value.downcast_ref::<AnyLeaf>().map(Leaf::as_any);
            let found = value.downcast_ref().or_else(|| inside?.downcast_ref());
            nodes.extend(found.map(|found: &N| (node, found.clone())));
        })),
    )
    .map_err(not_rebuilt::<M>)?;
    nodes.sort_by_key(|(node, _)| *node);
    let parents = Parents::of(&treedef);
    let nodes = nodes.into_iter();
    let nodes = nodes.map(|(node, found)| (parents.path(node), found));
    Ok(nodes.collect())
}

/// Copies a model. The copy shares no node with the model. Nodes that are shared inside the model are shared inside the
/// copy, too.
///
/// A clone, in contrast, shares its [`Shared`](crate::Shared) nodes and [references](crate::Ref) with the original.
///
/// # Examples
/// ```
/// use pytree_core::{Shared, nodes};
/// let weight = Shared::new(1.5_f32);
/// let tied = (weight.clone(), weight);
/// let copy = nodes::copy(&tied);
/// assert!(copy.0.same(&copy.1) && !copy.0.same(&tied.0));
/// ```
///
/// # Panics
/// If the model is nested too deep, if a reference may not be read here, or if a handwritten impl of `Pytree` visits
/// and unflattens differently.
///
/// # Errors
/// [`TreeError::NotRebuilt`] if the visit and the unflatten of a handwritten impl of `Pytree` do not agree, or the
/// errors of [`graph::try_flatten_any`](crate::graph::try_flatten_any).
#[doc(alias("nnx.clone", "refx.clone", "copy.deepcopy"))]
#[panicking_twin(copy)]
#[must_use]
pub fn try_copy<T: Pytree>(model: &T) -> Result<T, TreeError> {
    let (leaves, treedef) = graph::try_flatten_any(model)?;
    unflatten_unchecked(&treedef, leaves).map_err(not_rebuilt::<T>)
}

/// Checks that the `visit` and the `unflatten` of an impl of `Pytree` agree. Call it in a test of each impl that you
/// write by hand, with a value whose leaves and static values all differ.
///
/// The value is flattened and built again. An impl that reads two fields of the same type in another order than it
/// visits them builds a value without an error, but another value.
///
/// # Errors
/// - [`TreeError::ChangedByRebuilding`] if the two values differ.
/// - The errors of [`try_copy`].
///
/// # Examples
/// ```
/// use pytree_core::shape::{Field, NodeShape};
/// use pytree_core::{Pytree, TreeError, Unflattener, Visitor, nodes};
///
/// struct Pair(f32, f32);
///
/// const SHAPE: &NodeShape = &NodeShape::of_struct::<Pair>("Pair", &[Field::plain("0"), Field::plain("1")], &[]);
///
/// impl Pytree for Pair {
///     fn visit<'a>(&'a self, visitor: &mut dyn Visitor<'a>) {
///         visitor.enter(SHAPE, 2);
///         self.0.visit(visitor);
///         self.1.visit(visitor);
///         visitor.exit();
///     }
///     fn unflatten(source: &mut Unflattener<'_>) -> Result<Self, TreeError> {
///         source.enter_fixed(SHAPE, 2)?;
///         // The wrong order.
///         let (right, left) = (f32::unflatten(source)?, f32::unflatten(source)?);
///         Ok(source.exit(Self(left, right)))
///     }
/// }
///
/// let error = nodes::check_impl(&Pair(1.0, 2.0)).unwrap_err();
/// assert!(error.to_string().starts_with("a `Pair` changes when it is built again"));
/// ```
pub fn check_impl<T: Pytree>(value: &T) -> Result<(), TreeError> {
    let difference = diff(value, &try_copy(value)?);
    if difference.is_empty() {
        return Ok(());
    }
    Err(TreeError::ChangedByRebuilding {
        value: short_name(std::any::type_name::<T>()),
        difference: difference.to_string(),
    })
}

/// The paths of each shared node or reference that is at several paths, in order. The display has the layout of Flax
/// NNX.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Duplicates(Vec<Vec<KeyPath>>);

impl Deref for Duplicates {
    type Target = [Vec<KeyPath>];
    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl fmt::Display for Duplicates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let groups = self.0.iter().map(|paths| {
            let paths: Vec<String> = paths.iter().map(KeyPath::tuple).collect();
            format!("[{}]", paths.join(", "))
        });
        write!(f, "[{}]", groups.collect::<Vec<_>>().join(", "))
    }
}

/// Returns the paths of each shared node or reference that is at several paths of a model. If the result is empty, the
/// model is a tree.
///
/// If a duplicate is inside a shared node, the paths of the duplicate are listed only below the first path of the
/// shared node.
///
/// # Examples
/// ```
/// use pytree_core::{Module, Shared, nodes};
///
/// #[derive(Module)]
/// struct Parent {
///     #[param]
///     left: Shared<f32>,
///     #[param]
///     right: Shared<f32>,
/// }
///
/// let left = Shared::new(1.0);
/// let parent = Parent { right: left.clone(), left };
/// let duplicates = nodes::find_duplicates(&parent);
/// assert_eq!(duplicates.to_string(), "[[('left',), ('right',)]]");
/// assert_eq!(duplicates[0][1].to_string(), "right");
/// ```
#[doc(alias = "nnx.find_duplicates")]
pub fn find_duplicates<T: Pytree + ?Sized>(model: &T) -> Duplicates {
    duplicates_of(&graph::structure(model))
}

/// Finds the duplicates of a structure; see [`find_duplicates`].
pub(crate) fn duplicates_of(treedef: &TreeDef) -> Duplicates {
    let aliases = Aliases::of(treedef);
    let firsts = aliases.firsts().iter();
    let mut groups: Vec<Vec<KeyPath>> = firsts.map(|first| vec![first.clone()]).collect();
    for (number, path) in aliases.all() {
        if let Some(paths) = groups.get_mut(*number) {
            paths.push(path.clone());
        }
    }
    groups.retain(|paths| paths.len() > 1);
    Duplicates(groups)
}
