//! Converts registered values into trees, and checks them against the kinds of their fields.

use std::any::Any;

use crate::base::error::{RegistrationProblem, TreeError};
use crate::base::kind::FieldKind;
use crate::base::path::{KeyPath, PathKey};
use crate::base::text::short_name;
use crate::contract::arena::Arena;
use crate::contract::pytree::Pytree;
use crate::node::leaf::{AnyLeaf, Leaf};
use crate::treedef::TreeDef;
use crate::trees::dynamic::Tree;
use crate::trees::functions::flatten_as_tree;

/// Returns the paths of a tree's leaves, starting at the module. `base` is the path from the module to the tree.
fn paths_below(base: &KeyPath, treedef: &TreeDef) -> Vec<KeyPath> {
    let below = |path: KeyPath| base.keys().iter().chain(path.keys()).cloned().collect();
    treedef.leaf_paths().into_iter().map(below).collect()
}

/// Returns the path of a field, starting at the module.
fn path_of_field(name: &str) -> KeyPath {
    KeyPath::from_iter([PathKey::Field(name.to_owned().into())])
}

/// Returns a copy of a leaf as an `L`, if its type is `L` or `L` is [`AnyLeaf`].
fn leaf_as<L: Leaf>(leaf: &dyn Leaf) -> Option<L> {
    let mut slot: Option<L> = None;
    let boxed = leaf.clone_boxed();
    let any: &mut dyn Any = &mut slot;
    if let Some(slot) = any.downcast_mut::<Option<AnyLeaf>>() {
        *slot = Some(AnyLeaf::from_boxed(boxed));
    } else {
        boxed.move_into(&mut slot).ok()?;
    }
    slot
}

/// Returns a value as a tree of `L`s or, as the inner error, a problem for each leaf that is not an `L`. `base` is the
/// path from the module to the value.
///
/// # Errors
/// The obstacle that ends the walk over the value.
pub(super) fn read_tree<L: Leaf, T: Pytree>(
    value: &T,
    base: &KeyPath,
) -> Result<Result<Tree<L>, Vec<RegistrationProblem>>, TreeError> {
    let arena = Arena::default();
    let (leaves, treedef) = flatten_as_tree(value, &arena)?;
    let leaves = leaves.into_iter();
    let leaves: Vec<Result<L, String>> = leaves
        .map(|leaf| leaf_as::<L>(leaf).ok_or_else(|| short_name(leaf.type_name())))
        .collect();
    if leaves.iter().all(Result::is_ok) {
        let leaves = leaves.into_iter().flatten().collect();
        return Ok(Ok(Tree::from_parts(treedef, leaves)));
    }
    let problem = |(path, leaf): (KeyPath, Result<L, String>)| {
        Some(RegistrationProblem::LeafType {
            path,
            expected: short_name(std::any::type_name::<L>()),
            found: leaf.err()?,
        })
    };
    let paths = paths_below(base, &treedef).into_iter();
    Ok(Err(paths.zip(leaves).filter_map(problem).collect()))
}

/// Returns the value of a field as a tree. The inner error lists each leaf whose type or kind the field does not allow; see
/// [`read_tree`].
pub(super) fn read_checked<L: Leaf, T: Pytree>(
    value: &T,
    name: &str,
    kind: Option<FieldKind>,
) -> Result<Result<Tree<L>, Vec<RegistrationProblem>>, TreeError> {
    let tree = read_tree(value, &path_of_field(name))?;
    Ok(tree.and_then(|tree| {
        let problems = wrong_kinds(&tree, name, kind);
        if problems.is_empty() {
            Ok(tree)
        } else {
            Err(problems)
        }
    }))
}

/// Returns a problem for each leaf that a field of the kind `kind` cannot hold.
pub(super) fn wrong_kinds<L: Leaf>(
    tree: &Tree<L>,
    name: &str,
    kind: Option<FieldKind>,
) -> Vec<RegistrationProblem> {
    let paths = paths_below(&path_of_field(name), tree.treedef());
    let own = tree.treedef().leaf_kinds();
    let leaves = paths.into_iter().zip(own).zip(tree.leaves());
    leaves
        .filter_map(|((path, own), leaf)| match (kind, own) {
            (Some(FieldKind::Module), None) => Some(RegistrationProblem::WithoutKind { path }),
            (Some(FieldKind::Module), Some(_)) => None,
            (_, Some(kind)) => Some(RegistrationProblem::HasKind { path, kind }),
            (Some(FieldKind::Param | FieldKind::ParamIn(_)), None) => {
                let found = not_trainable(leaf)?;
                Some(RegistrationProblem::NotTrainable { path, found })
            }
            _ => None,
        })
        .collect()
}

/// Returns `None` for a float array or number. For any other leaf, which has no gradient, returns its dtype and shape,
/// or its type if it is not an array.
pub(crate) fn not_trainable(leaf: &dyn Leaf) -> Option<String> {
    match leaf.array_info() {
        Some(info) if info.element.is_float() => None,
        Some(info) => Some(info.to_string()),
        None => Some(short_name(leaf.type_name())),
    }
}
