//! Changes nodes, leaves and static fields anywhere in a model.
//!
//! [`apply`] changes every node of one type. [`replace_at`] replaces the value at a path. [`set_static`] sets static
//! fields. These three functions return a new model. A shared node is changed once and stays shared. If a Rust
//! expression can borrow the node or leaf, prefer [`at`](crate::at), which the compiler checks.

pub(crate) mod place;
pub(crate) mod replace;

use std::any::{Any, type_name};
use std::collections::BTreeSet;

use pytree_derive::panicking_twin;

use crate::base::error::TreeError;
use crate::base::path::KeyPath;
use crate::base::text::short_name;
use crate::contract::obstacle::passed;
use crate::contract::pytree::{Pytree, not_rebuilt};
use crate::contract::unflatten::unflatten_with;
use crate::node::leaf::{AnyLeaf, Leaf};
use crate::node::shape::NodeKind;
use crate::node::statics::StaticValue;
use crate::tools::edit::place::{Parents, Places};
use crate::tools::edit::replace::replace;
use crate::treedef::TreeDef;
use crate::trees::filter::Filter;
use crate::trees::{graph, shapes};

/// Applies `change` to every node or leaf of the type `N`. The children of a node are changed before the node.
///
/// A boxed trait object is visited twice: as its concrete type, then as the box. A shared node is changed once for all
/// its paths. Inside a dynamic [`Tree`](crate::Tree) only the leaves are visited, because its nodes have no Rust type.
/// For static fields, which are not nodes, use [`set_static`].
///
/// # Examples
/// ```
/// use pytree_core::{edit, Module};
///
/// #[derive(Module)]
/// struct Layer {
///     #[param]
///     weight: f32,
///     #[r#static]
///     frozen: bool,
/// }
///
/// let layers = vec![Layer { weight: 1.0, frozen: false }, Layer { weight: 2.0, frozen: false }];
/// let layers = edit::apply(layers, |layer: &mut Layer| layer.frozen = true);
/// assert!(layers.iter().all(|layer| layer.frozen));
/// let layers = edit::apply(layers, |weight: &mut f32| *weight *= 10.0);
/// assert_eq!(layers[1].weight, 20.0);
/// ```
///
/// # Panics
/// Panics if:
/// - the model contains no `N` (use [`paths_of`] to find out)
/// - the changed arrays do not match the named axes of their modules although the arrays of the model did
/// - the model is nested too deep
/// - a reference may not be read here
/// - the visit and the unflatten of a handwritten impl of `Pytree` do not agree
///
/// `change` may have been called before the panic.
///
/// # Errors
/// - [`TreeError::NoNodeOfType`] if the model contains no `N`.
/// - [`TreeError::Shapes`] if the changed arrays do not match the named axes of their modules although the arrays of
///   the model did.
/// - [`TreeError::NotRebuilt`] if the visit and the unflatten of a handwritten impl of `Pytree` do not agree.
/// - The errors of [`graph::try_flatten_any`](crate::graph::try_flatten_any).
#[doc(alias("nn.Module.apply", "nnx.Module.set_attributes"))]
#[panicking_twin(apply)]
#[must_use]
pub fn try_apply<M: Pytree, N: 'static>(
    model: M,
    mut change: impl FnMut(&mut N),
) -> Result<M, TreeError> {
    let (leaves, treedef) = graph::try_flatten_any(&model)?;
    let was_right = is_right(&model, &treedef);
    drop(model);
    let mut met = false;
    let changed = rebuild(leaves, &treedef, |_, value| {
        if let Some(node) = downcast(value) {
            met = true;
            change(node);
        }
    })?;
    if met {
        checked(changed, was_right)
    } else {
        Err(nothing_of::<N>(&treedef))
    }
}

/// Returns the error for a model that contains no node or leaf of a type.
#[cold]
fn nothing_of<N>(treedef: &TreeDef) -> TreeError {
    let leaves = treedef.nodes().map(|node| node.shape());
    let leaves = leaves.filter(|shape| shape.kind() == NodeKind::Leaf);
    let types: BTreeSet<String> = leaves
        .map(|shape| format!("`{}`", short_name(shape.type_name())))
        .collect();
    TreeError::NoNodeOfType {
        expected: short_name(type_name::<N>()),
        leaves: Vec::from_iter(types).join(", "),
    }
}

/// Applies `change` to every node or leaf of the type `N`, with its path; see [`apply`]. `change` receives the first
/// path of a shared node.
///
/// # Panics
/// In the same cases as [`apply`].
///
/// # Errors
/// The errors of [`try_apply`].
#[doc(alias = "nnx.recursive_map")]
#[panicking_twin(apply_with_path)]
#[must_use]
pub fn try_apply_with_path<M: Pytree, N: 'static>(
    model: M,
    mut change: impl FnMut(&KeyPath, &mut N),
) -> Result<M, TreeError> {
    let (leaves, treedef) = graph::try_flatten_any(&model)?;
    let was_right = is_right(&model, &treedef);
    drop(model);
    let parents = Parents::of(&treedef);
    let mut met = false;
    let changed = rebuild(leaves, &treedef, |node, value| {
        if let Some(value) = downcast(value) {
            met = true;
            change(&parents.path(node), value);
        }
    })?;
    if met {
        checked(changed, was_right)
    } else {
        Err(nothing_of::<N>(&treedef))
    }
}

/// Applies `change` to nodes and leaves of every type, with their paths. `change` downcasts each value to the types
/// that it handles; see [`apply_with_path`].
///
/// # Examples
/// ```
/// use pytree_core::edit;
/// let mut met = Vec::new();
/// let _ = edit::apply_any((1.0_f32, vec![2_i32]), |path, _| met.push(path.to_string()));
/// assert_eq!(met, ["[0]", "[1][0]", "[1]", ""]);
/// ```
///
/// # Panics
/// In the cases of [`apply`], except the case that the model contains no `N`.
///
/// # Errors
/// The errors of [`try_apply`] except for [`TreeError::NoNodeOfType`].
#[doc(alias = "nnx.recursive_map")]
#[panicking_twin(apply_any)]
#[must_use]
pub fn try_apply_any<M: Pytree>(
    model: M,
    mut change: impl FnMut(&KeyPath, &mut dyn Any),
) -> Result<M, TreeError> {
    let (leaves, treedef) = graph::try_flatten_any(&model)?;
    let was_right = is_right(&model, &treedef);
    drop(model);
    let parents = Parents::of(&treedef);
    let changed = rebuild(leaves, &treedef, |node, value| {
        let path = parents.path(node);
        match value.downcast_mut::<AnyLeaf>() {
            Some(leaf) => change(&path, leaf.as_any_mut()),
            None => change(&path, value),
        }
    })?;
    checked(changed, was_right)
}

/// Returns whether a model has named axes and its arrays match them. `treedef` is the structure of the model.
fn is_right<M: Pytree>(model: &M, treedef: &TreeDef) -> bool {
    treedef.has_axes() && shapes::check(model).is_ok()
}

/// Returns a changed model.
///
/// # Errors
/// [`TreeError::Shapes`] if the arrays of the model matched the named axes of its modules before the change, and no
/// longer match.
fn checked<M: Pytree>(changed: M, was_right: bool) -> Result<M, TreeError> {
    if was_right {
        shapes::check(&changed)?;
    }
    Ok(changed)
}

/// Returns the paths of the nodes and leaves of the type `N`, from the root down. A shared node is listed once, with
/// its first path.
///
/// # Examples
/// ```
/// use pytree_core::edit;
/// let model = (vec![1.0_f32], vec![2.0_f32, 3.0]);
/// let paths = edit::paths_of::<Vec<f32>>(&model);
/// assert_eq!(paths.iter().map(ToString::to_string).collect::<Vec<_>>(), ["[0]", "[1]"]);
/// ```
///
/// # Panics
/// Panics if:
/// - the model is nested too deep
/// - a reference may not be read here
/// - the visit and the unflatten of a handwritten impl of `Pytree` do not agree
///
/// See [`try_paths_of`] for a fallible version.
#[track_caller]
pub fn paths_of<N: 'static>(model: &impl Pytree) -> Vec<KeyPath> {
    passed(paths_in::<N, _>(model))
}

/// Returns an error where [`paths_of`] panics.
///
/// # Errors
/// [`TreeError::NotRebuilt`] if the visit and the unflatten of a handwritten impl of `Pytree` do not agree, or the
/// errors of [`graph::try_flatten_any`](crate::graph::try_flatten_any).
pub fn try_paths_of<N: 'static>(model: &impl Pytree) -> Result<Vec<KeyPath>, TreeError> {
    paths_in::<N, _>(model)
}

fn paths_in<N: 'static, M: Pytree>(model: &M) -> Result<Vec<KeyPath>, TreeError> {
    let (leaves, treedef) = graph::try_flatten_any(model)?;
    let mut nodes = Vec::new();
    let _: M = rebuild(leaves, &treedef, |node, value| {
        if downcast::<N>(value).is_some() {
            nodes.push(node);
        }
    })?;
    nodes.sort_unstable();
    let parents = Parents::of(&treedef);
    Ok(nodes.into_iter().map(|node| parents.path(node)).collect())
}

/// Replaces the node or leaf at a path such as `layers[0]` by `value`.
///
/// The new value must have the type of the old value, but may have another structure, for instance a longer `Vec`. If
/// the path leads to an `Option` (even if it is `None`), a `Shared` or a boxed trait object, `value` may be the whole
/// object or only its content. A shared node is replaced at all its paths.
///
/// # Examples
/// ```
/// use pytree_core::edit;
/// let model = (vec![1.0_f32], 2.0_f32);
/// let longer = edit::replace_at(&model, "[0]", vec![5.0_f32, 6.0])?;
/// assert_eq!(longer, (vec![5.0, 6.0], 2.0));
/// let mistake = edit::replace_at(&model, "[0]", 5.0_f32).unwrap_err();
/// assert!(mistake.to_string().contains("expected a list, found a leaf"));
/// # Ok::<(), pytree_core::TreeError>(())
/// ```
///
/// # Errors
/// - [`TreeError::PathSyntax`] if the path is invalid.
/// - [`TreeError::NoNode`] with the most similar existing path.
/// - [`TreeError::Replacement`] if the value does not fit.
/// - [`TreeError::Shapes`] if the arrays of the new model do not match the named axes of their modules although the
///   arrays of `model` do.
#[doc(alias = "pax.replace")]
pub fn replace_at<M: Pytree, N: Pytree>(model: &M, path: &str, value: N) -> Result<M, TreeError> {
    let path: KeyPath = path.parse()?;
    let places = Places::of(model)?;
    let nodes = places.at(&path)?;
    let outcome = replace_any(model, &places, &nodes, &value);
    let is_none = |&node: &usize| places.treedef.view(node).kind() == NodeKind::None;
    if outcome.is_err() && nodes.iter().all(is_none) {
        // `value` may be the content of an `Option` that is `None` in the model.
        return match replace_any(model, &places, &nodes, &Some(value)) {
            Err(TreeError::Replacement { .. }) => outcome,
            other => other,
        };
    }
    outcome
}

/// Sets each static field that has the type of `value` and that the filter selects.
///
/// A filter selects a static field by its path, with [`Filter::path`] or [`Filter::path_contains`]. The last step of
/// the path is the name of the field. A field in a shared node is selected only by the first path of the node. To set
/// the fields of all modules of one type, use [`apply`].
///
/// The result is a copy: `model` does not change, also where it holds a [reference](crate::Ref). The copy has its own
/// shared nodes and references, and places that share one in the model share one in the copy. The leaves are clones.
///
/// # Examples
/// ```
/// use pytree_core::{edit, Filter, Module};
///
/// #[derive(Module)]
/// struct Layer {
///     #[param]
///     weight: f32,
///     #[r#static]
///     is_training: bool,
/// }
///
/// let layer = || Layer { weight: 1.0, is_training: true };
/// let model = (layer(), vec![layer(), layer()]);
/// let model = edit::set_static(&model, &Filter::path("[1]"), false)?;
/// assert!(model.0.is_training && !model.1[0].is_training && !model.1[1].is_training);
///
/// let mistake = edit::set_static(&model, &Filter::path_contains("training"), true);
/// assert!(mistake.err().unwrap().to_string().contains("[0].is_training"));
/// # Ok::<(), pytree_core::TreeError>(())
/// ```
///
/// # Errors
/// - [`TreeError::NoStatic`] with all static fields of the type `T` if the filter selects none of them.
/// - [`TreeError::NoNode`] if a path of the filter does not exist.
/// - [`TreeError::Shapes`] if the arrays of the model no longer match their named axes.
///
/// The last error is possible because the value of a static field may determine the length of a named axis.
#[doc(alias = "nnx.Module.set_attributes")]
pub fn set_static<M: Pytree, T: StaticValue>(
    model: &M,
    filter: &Filter,
    value: T,
) -> Result<M, TreeError> {
    let (leaves, treedef) = graph::try_flatten_any(model)?;
    let mut paths = filter.paths().into_iter();
    if let Some(path) = paths.find(|path| !treedef.has_path(path)) {
        return Err(treedef.no_node(path));
    }
    let fields = treedef.static_fields::<T>();
    let resolved = filter.resolved(&treedef);
    let chosen = fields
        .iter()
        .filter(|(_, path)| resolved.accepts_static(path));
    let chosen: Vec<usize> = chosen.map(|(position, _)| *position).collect();
    if chosen.is_empty() {
        return Err(TreeError::NoStatic {
            value: short_name(type_name::<T>()),
            filter: format!("{filter:?}"),
            places: fields.into_iter().map(|(_, path)| path).collect(),
        });
    }
    let changed = treedef.with_static(&chosen, &value);
    if changed.has_axes() {
        shapes::check_change(model, &changed, &leaves)?;
    }
    graph::unflatten(&changed, leaves)
}

/// Replaces the first of `nodes` that can be replaced by `value`. All of `nodes` have the same path. The arrays of the
/// new model must match the named axes of its modules, unless the arrays of `model` do not match.
pub(crate) fn replace_any<M: Pytree, N: Pytree>(
    model: &M,
    places: &Places,
    nodes: &[usize],
    value: &N,
) -> Result<M, TreeError> {
    let mut outcome = Err(TreeError::NoNode {
        path: KeyPath::root(),
        nearest: None,
    });
    for &node in nodes {
        outcome = replace(model, places, &[(node, value)])
            .map_err(|problem| misfit::<N>(places, node, problem));
        if let Ok((changed, has_axes)) = &outcome {
            if *has_axes {
                shapes::check_changed(model, changed)?;
            }
            break;
        }
    }
    outcome.map(|(changed, _)| changed)
}

/// Replaces each of `nodes` by a value. The nodes are in preorder, and no node contains another.
pub(crate) fn replace_all<M: Pytree, N: Pytree>(
    model: &M,
    places: &Places,
    values: &[(usize, &N)],
) -> Result<M, TreeError> {
    let of_any_type: Vec<(usize, &dyn Pytree)> = values
        .iter()
        .map(|&(node, value)| -> (usize, &dyn Pytree) { (node, value) })
        .collect();
    let outcome = replace(model, places, &of_any_type).map_err(|problem| {
        // If one of the values does not fit even alone, reports this value.
        let alone = values.iter().find_map(|&(node, value)| {
            let problem = replace(model, places, &[(node, value)]).err()?;
            Some(misfit::<N>(places, node, problem))
        });
        alone.unwrap_or(problem)
    });
    let (changed, has_axes) = outcome?;
    if has_axes {
        shapes::check_changed(model, &changed)?;
    }
    Ok(changed)
}

/// Returns the error for a value that does not fit in the place of a node.
fn misfit<N>(places: &Places, node: usize, problem: TreeError) -> TreeError {
    TreeError::Replacement {
        path: places.treedef.path_of(node),
        value: short_name(type_name::<N>()),
        problem: Box::new(problem),
    }
}

/// Rebuilds the model and calls `change` for each node and leaf.
fn rebuild<M: Pytree>(
    leaves: Vec<AnyLeaf>,
    treedef: &TreeDef,
    mut change: impl FnMut(usize, &mut dyn Any),
) -> Result<M, TreeError> {
    let change = Box::new(|node, value: &mut dyn Any| change(node, value));
    unflatten_with(treedef, leaves, Some(change)).map_err(not_rebuilt::<M>)
}

/// Returns `value` as an `N`, if it is an `N` or an [`AnyLeaf`] that contains an `N`.
fn downcast<N: 'static>(value: &mut dyn Any) -> Option<&mut N> {
    if value.is::<N>() {
        value.downcast_mut()
    } else {
        value.downcast_mut::<AnyLeaf>()?.as_any_mut().downcast_mut()
    }
}
