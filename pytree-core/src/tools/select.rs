//! Typed selectors: a closure selects a leaf or a node of a model.
//!
//! The compiler checks the closure in `at(|m: &Mlp| &m.layers[0].weight)`. The compiler cannot check a path, because a
//! path is a text. The selected node is found by the memory addresses of the leaves in the value that the closure
//! returns. [`at_each`] selects several nodes of one type.

mod each;

use std::any::{Any, TypeId, type_name};
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

pub use self::each::{EachSelector, at_each};

use crate::base::error::{SelectionMistake, TreeError};
use crate::base::path::KeyPath;
use crate::base::text::short_name;
use crate::contract::arena::Arena;
use crate::contract::flatten::Sharing;
use crate::contract::pytree::Pytree;
use crate::node::leaf::Leaf;
use crate::node::shape::NodeKind;
use crate::tools::edit::place::Places;
use crate::tools::edit::replace_any;
use crate::treedef::TreeDef;
use crate::trees::filter::Filter;
use crate::trees::functions::flatten_borrowed;

/// A selector of a `T` in a model of type `M`, created by [`at`].
pub struct Selector<M, T>(Arc<dyn Fn(&M) -> &T + Send + Sync>);

/// Selects a leaf or a node of a model by a closure that borrows this leaf or node.
///
/// # Examples
/// ```
/// use pytree_core::{at, Module};
///
/// #[derive(Module, Clone, Debug)]
/// struct Linear {
///     #[param]
///     weight: f32,
/// }
/// #[derive(Module, Clone, Debug)]
/// struct Mlp {
///     layers: Vec<Linear>,
/// }
///
/// let model = Mlp { layers: vec![Linear { weight: 1.0 }, Linear { weight: 2.0 }] };
/// let weight = at(|m: &Mlp| &m.layers[1].weight);
/// assert_eq!(weight.path(&model)?.to_string(), "layers[1].weight");
/// assert_eq!(weight.update(&model, |weight| weight * 10.0)?.layers[1].weight, 20.0);
///
/// // The new value may have another length.
/// let layers = at(|m: &Mlp| &m.layers);
/// assert_eq!(layers.replace(&model, Vec::new())?.layers.len(), 0);
/// # Ok::<(), pytree_core::TreeError>(())
/// ```
///
/// A field that does not exist is a compile error:
/// ```compile_fail,E0609
/// # use pytree_core::{at, Module};
/// # #[derive(Module)]
/// # struct Linear { #[param] weight: f32 }
/// let misspelt = at(|m: &Linear| &m.wieght);
/// ```
#[doc(alias = "eqx.tree_at")]
pub fn at<M, T, F>(place: F) -> Selector<M, T>
where
    M: Pytree,
    T: Pytree,
    F: Fn(&M) -> &T + Send + Sync + 'static,
{
    Selector(Arc::new(place))
}

impl<M: Pytree, T: Pytree> Selector<M, T> {
    /// Returns the selected value.
    ///
    /// # Panics
    /// If the closure panics, for instance because an index is out of range.
    #[track_caller]
    pub fn get<'m>(&self, model: &'m M) -> &'m T {
        (self.0)(model)
    }

    /// Returns the path of the selected value. For a shared node, returns its first path.
    ///
    /// # Errors
    /// [`TreeError::Selection`] if the closure returns a value without leaves, or a value outside of the model.
    ///
    /// # Panics
    /// In the same cases as [`get`](Self::get).
    #[track_caller]
    pub fn path(&self, model: &M) -> Result<KeyPath, TreeError> {
        let places = Places::of(model)?;
        let node = self.find(model, &places)?;
        Ok(places.treedef.path_of(node))
    }

    /// Returns a filter that accepts the leaves of the selected value.
    ///
    /// The filter compares paths, so it can be used with every model that has the structure of `model`, and with
    /// gradients.
    ///
    /// # Errors
    /// The errors of [`path`](Self::path).
    ///
    /// # Panics
    /// In the same cases as [`get`](Self::get).
    #[track_caller]
    pub fn filter(&self, model: &M) -> Result<Filter, TreeError> {
        filter_of(model, vec![self.path(model)?], &[self.get(model)])
    }

    /// Replaces the selected value.
    ///
    /// The value may have another structure, for instance a longer `Vec`. A shared node is replaced at all its paths.
    ///
    /// # Errors
    /// - The errors of [`path`](Self::path).
    /// - [`TreeError::Replacement`] if the model cannot be built with the value.
    /// - [`TreeError::Shapes`] if the arrays of the new model do not match the named axes of their modules although the
    ///   arrays of `model` do.
    ///
    /// # Panics
    /// In the same cases as [`get`](Self::get).
    #[track_caller]
    pub fn replace(&self, model: &M, value: T) -> Result<M, TreeError> {
        let places = Places::of(model)?;
        let node = self.find(model, &places)?;
        replace_any(model, &places, &[node], &value)
    }

    /// Replaces the selected value by the result of `change`.
    ///
    /// # Errors
    /// The errors of [`replace`](Self::replace).
    ///
    /// # Panics
    /// In the same cases as [`get`](Self::get), and if `change` panics.
    #[track_caller]
    pub fn update(&self, model: &M, change: impl FnOnce(&T) -> T) -> Result<M, TreeError> {
        self.replace(model, change(self.get(model)))
    }

    /// Returns the position of the selected node: the outermost node that has exactly the leaves of the value that the
    /// closure returns.
    #[track_caller]
    fn find(&self, model: &M, places: &Places) -> Result<usize, TreeError> {
        let selected = Selected::of(self.get(model))?;
        Graph::of(model, &places.treedef)?.position_of::<T>(&selected)
    }
}

/// Returns the error for a mistake in the selection of a `T`.
fn mistaken<T>(mistake: SelectionMistake) -> TreeError {
    TreeError::Selection {
        selected: short_name(type_name::<T>()),
        mistake,
    }
}

/// Returns a filter that accepts the leaves of the selected values, whose paths are `places`.
fn filter_of<M: Pytree, T: Pytree>(
    model: &M,
    mut places: Vec<KeyPath>,
    selected: &[&T],
) -> Result<Filter, TreeError> {
    let mut selected_leaves = HashSet::new();
    for value in selected {
        selected_leaves.extend(leaf_addresses(*value)?.0);
    }
    let arena = Arena::default();
    let (leaves, treedef) = flatten_borrowed(Sharing::Preserve, model, &arena)?;
    let mut chosen: Vec<KeyPath> = treedef
        .leaf_paths()
        .into_iter()
        .zip(leaves)
        .filter(|(_, leaf)| selected_leaves.contains(&Address::of(*leaf)))
        .map(|(path, _)| path)
        .collect();
    // `chosen` contains the first path of each leaf. For a leaf in a shared node, this path may be outside of the
    // selected values. In sorted order, a place is followed by the paths below it.
    chosen.sort_unstable();
    places.retain(|place| {
        let first = chosen.partition_point(|path| path < place);
        chosen
            .get(first)
            .is_some_and(|path| place.is_prefix_of(path))
    });
    let filter = |paths: &[KeyPath]| {
        paths.iter().try_fold(Filter::nothing(), |filter, path| {
            Ok::<_, TreeError>(filter | Filter::try_path(path.to_string())?)
        })
    };
    let above = filter(&places)?;
    chosen.retain(|path| !above.accepts_static(path));
    chosen.append(&mut places);
    filter(&chosen)
}

/// The identity of a leaf in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Address {
    /// The memory address of the leaf. `None` if its type has size zero, because such a leaf has no address of its own.
    address: Option<usize>,
    kind: TypeId,
}

impl Address {
    fn of(leaf: &dyn Leaf) -> Self {
        let any: &dyn Any = leaf;
        Self {
            address: (size_of_val(leaf) > 0).then(|| std::ptr::from_ref(leaf).cast::<()>().addr()),
            kind: any.type_id(),
        }
    }
}

fn leaf_addresses<T: Pytree>(value: &T) -> Result<(Vec<Address>, TreeDef), TreeError> {
    let arena = Arena::default();
    let (leaves, treedef) = flatten_borrowed(Sharing::Preserve, value, &arena)?;
    Ok((leaves.into_iter().map(Address::of).collect(), treedef))
}

/// A model in the graph form, in which a shared node is stored once, at its first path.
struct Graph<'t> {
    treedef: &'t TreeDef,
    leaves: Vec<Address>,
    /// The number of leaves before each node.
    before: Vec<usize>,
}

impl<'t> Graph<'t> {
    fn of<M: Pytree>(model: &M, treedef: &'t TreeDef) -> Result<Self, TreeError> {
        Ok(Self {
            treedef,
            leaves: leaf_addresses(model)?.0,
            before: treedef.leaves_before(),
        })
    }

    fn leaf(&self, node: usize) -> Option<&Address> {
        self.leaves.get(*self.before.get(node)?)
    }

    /// Returns the position of a selected `T`: the outermost node that equals the selected value.
    fn position_of<T>(&self, selected: &Selected) -> Result<usize, TreeError> {
        let positions = self.treedef.nodes().map(|node| node.position());
        self.first_of(positions, selected)
            .ok_or_else(|| mistaken::<T>(SelectionMistake::Elsewhere))
    }

    /// Returns the first of `positions` at which the model contains the selected value.
    fn first_of(
        &self,
        mut positions: impl Iterator<Item = usize>,
        selected: &Selected,
    ) -> Option<usize> {
        let found = positions.find(|&position| selected.is_at(self, position))?;
        // The found node may be an alias, because a weak edge may come before its target.
        Some(self.treedef.first_place_of(found))
    }

    /// Returns for each leaf the nodes whose first leaf is this leaf, from the outermost to the innermost.
    fn by_first_leaf(&self) -> HashMap<Address, Vec<usize>> {
        let mut nodes: HashMap<Address, Vec<usize>> = HashMap::new();
        for position in self.treedef.nodes().map(|node| node.position()) {
            if let Some(leaf) = self.leaf(self.treedef.first_place_of(position)) {
                nodes.entry(*leaf).or_default().push(position);
            }
        }
        nodes
    }
}

/// The value that a closure selected, in the graph form.
struct Selected {
    treedef: TreeDef,
    leaves: Vec<Address>,
}

impl Selected {
    /// # Errors
    /// [`TreeError::Selection`] if the value cannot be found by the addresses of its leaves.
    fn of<T: Pytree>(value: &T) -> Result<Self, TreeError> {
        let (leaves, treedef) = leaf_addresses(value)?;
        if leaves.is_empty() {
            return Err(mistaken::<T>(SelectionMistake::NoLeaves));
        }
        if leaves.iter().all(|leaf| leaf.address.is_none()) {
            return Err(mistaken::<T>(SelectionMistake::NoSize));
        }
        Ok(Self { treedef, leaves })
    }

    /// Returns whether the selected value equals the subtree at `node` of a model: whether both have the same nodes and
    /// the same leaves. The first occurrence of a shared node in the value may be an alias in the model.
    fn is_at(&self, model: &Graph<'_>, node: usize) -> bool {
        let mut leaves = self.leaves.iter();
        // For each node of the value that an alias can refer to, in order: the corresponding node of the model.
        let mut numbered: Vec<usize> = Vec::new();
        let mut aliases: Vec<(usize, usize)> = Vec::new();
        let mut rest = vec![node];
        for own in self.treedef.nodes() {
            let Some(node) = rest.pop() else {
                return false;
            };
            let node = model.treedef.first_place_of(node);
            if own.kind() == NodeKind::Alias {
                // An alias without a target belongs to a weak edge to a node outside of the value.
                aliases.extend(own.target().map(|number| (number, node)));
                continue;
            }
            let found = model.treedef.view(node);
            if found.shape() != own.shape()
                || found.num_children() != own.num_children()
                || found.aux() != own.aux()
            {
                return false;
            }
            if own.kind() == NodeKind::Leaf && leaves.next() != model.leaf(node) {
                return false;
            }
            if own.kind().is_numbered() {
                numbered.push(node);
            }
            let first = rest.len();
            rest.extend(found.children().map(|child| child.position()));
            rest[first..].reverse();
        }
        aliases
            .into_iter()
            .all(|(number, node)| numbered.get(number) == Some(&node))
    }
}

impl<M, T> Clone for Selector<M, T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}
impl<M, T> fmt::Debug for Selector<M, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Selector({} of {})",
            short_name(type_name::<T>()),
            short_name(type_name::<M>())
        )
    }
}
