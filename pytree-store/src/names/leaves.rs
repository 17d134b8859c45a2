//! The leaves of a model: their names in a checkpoint, and the modules that they are fields of.

use pytree_core::shape::{NodeKind, Shape};
use pytree_core::{ArrayLeaf, Leaf, NodeView, TreeDef};

use crate::names::arrangement::Arrangement;
use crate::names::weight_names::{Place, WeightNames};
use crate::report::error::CheckpointError;

/// The name under which the leaf is stored if the whole tree is a single leaf, whose key path is empty.
const ROOT: &str = "value";

/// Returns the names under which the leaves of a tree are stored, in order.
pub(crate) fn names(treedef: &TreeDef) -> Vec<String> {
    let named = |path: String| {
        if path.is_empty() {
            ROOT.to_owned()
        } else {
            path
        }
    };
    treedef
        .leaf_paths()
        .iter()
        .map(|path| named(path.to_string()))
        .collect()
}

/// Returns the leaves of a tree as arrays.
///
/// # Errors
/// Returns [`CheckpointError::NotAnArray`] for the first leaf that is neither an array nor a number.
pub(crate) fn arrays_of<'l>(
    leaves: &[&'l dyn Leaf],
    treedef: &TreeDef,
) -> Result<Vec<&'l dyn ArrayLeaf>, CheckpointError> {
    let arrays = leaves.iter().enumerate().map(|(position, leaf)| {
        leaf.as_array().ok_or_else(|| CheckpointError::NotAnArray {
            name: names(treedef).swap_remove(position),
            found: leaf.type_name(),
        })
    });
    arrays.collect()
}

/// Returns the name of a layer of this library, or an empty text for another module: a user's struct may have the same name. A
/// shape that was read from bytes has no type, so its name decides.
pub(crate) fn layer_name<'t>(node: &NodeView<'t>) -> &'t str {
    let is_layer = match node.shape() {
        Shape::Static(shape) => (shape.type_name)().starts_with("pytree_nn::layers::"),
        Shape::Dynamic(_) => true,
    };
    if is_layer { node.name() } else { "" }
}

/// Returns for each leaf, in order, the name of the layer that it is a field of.
fn modules(treedef: &TreeDef) -> Vec<Option<&str>> {
    let mut modules = Vec::with_capacity(treedef.num_leaves());
    // The nodes above the current node: the number of their children that were not visited yet, and the module.
    let mut open: Vec<(usize, Option<&str>)> = Vec::new();
    for node in treedef.nodes() {
        while open.last().is_some_and(|(left, _)| *left == 0) {
            open.pop();
        }
        let mut module = None;
        if let Some((left, above)) = open.last_mut() {
            *left -= 1;
            module = *above;
        }
        if node.kind() == NodeKind::Leaf {
            modules.push(module);
        }
        if node.is_module() {
            module = Some(layer_name(&node));
        }
        open.push((node.num_children(), module));
    }
    modules
}

/// Returns where a file has each leaf of a tree. Without `names`, a file has the leaves under their key paths.
/// `shapes` are the shapes of the leaves.
pub(crate) fn places<'s>(
    treedef: &TreeDef,
    shapes: impl Iterator<Item = &'s [usize]>,
    names: Option<&WeightNames>,
) -> Vec<Place> {
    let paths = self::names(treedef);
    let leaves = paths.into_iter().zip(modules(treedef)).zip(shapes);
    let places = leaves.map(|((path, module), shape)| match names {
        Some(names) => names.place(&path, module, shape),
        None => Place {
            file: path,
            added: Vec::new(),
            part: (0, 1),
            arrangement: Arrangement::same(shape),
        },
    });
    places.collect()
}
