//! Parts of a tree.
//!
//! A part has the treedef of the whole tree, but the leaves of other parts are absent. An absent leaf is not the same
//! as the node `None`. Gradients, selected parameters and moments are parts. A part contains a shared leaf once.

mod flags;
mod merge;
mod pop;
mod update;

use std::borrow::Borrow;
use std::fmt;
use std::marker::PhantomData;
use std::ops::Index;

use pytree_base::bug::{LEAVES, bug, expect_next};

use crate::base::error::TreeError;
use crate::base::path::{AsKeyPath, KeyPath};
use crate::contract::pytree::{Pytree, PytreeOf, Visitor};
use crate::contract::unflatten::Unflattener;
use crate::node::leaf::{AnyLeaf, Leaf};
use crate::treedef::{TreeDef, count};
use crate::trees::dynamic::Tree;
use crate::trees::filter::Filter;
use crate::trees::graph;

pub use self::flags::split_by_flags;
pub(crate) use self::merge::replaced;
pub use self::merge::{merge, replace};
pub use self::pop::pop;
pub(crate) use self::update::merge_state_trees;
pub use self::update::{merge_state, update};

/// A part of an `M`: the structure of the `M`, in which some leaves are absent.
///
/// A part is a pytree, is indexed by path, and can be [merged](merge) with its complement.
///
/// # Examples
/// ```
/// use pytree_core::{partition, Filter};
/// let whole = vec![1.0_f32, 2.0, 3.0];
/// let [first, rest] = partition::split(&whole, [Filter::path("[0]"), Filter::everything()])?;
/// assert_eq!(first["[0]"], 1.0);
/// assert!(first.get("[1]").is_err());
/// assert_eq!(partition::merge([first, rest])?, whole);
/// # Ok::<(), pytree_core::TreeError>(())
/// ```
pub struct Partition<M, L = AnyLeaf> {
    tree: Tree<L>,
    whole: PhantomData<fn() -> M>,
}

impl<M, L> Partition<M, L> {
    /// Creates a part from a tree with the structure of `M`, in which some leaves are absent.
    pub fn from_tree(tree: Tree<L>) -> Self {
        Self {
            tree,
            whole: PhantomData,
        }
    }

    /// Returns the part as a tree.
    pub fn tree(&self) -> &Tree<L> {
        &self.tree
    }

    pub(crate) fn tree_mut(&mut self) -> &mut Tree<L> {
        &mut self.tree
    }

    /// Converts the part into a tree.
    pub fn into_tree(self) -> Tree<L> {
        self.tree
    }

    /// Returns the leaves that are present, in order.
    pub fn leaves(&self) -> &[L] {
        self.tree.leaves()
    }

    /// Returns the leaves that are present mutably, in order.
    pub fn leaves_mut(&mut self) -> &mut [L] {
        self.tree.leaves_mut()
    }

    /// Iterates over the leaves that are present, with their paths, in order.
    pub fn iter_with_path(&self) -> impl Iterator<Item = (KeyPath, &L)> {
        self.tree.iter_with_path()
    }

    /// Returns the number of leaves that are present.
    pub fn len(&self) -> usize {
        self.tree.leaves().len()
    }

    /// Returns whether no leaf is present.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the leaf at a path such as `layers[0].weight`. A leaf in a shared node is found at each of its paths.
    ///
    /// # Errors
    /// - [`TreeError::NoLeaf`] with the nearest path of a leaf.
    /// - [`TreeError::NotALeaf`] with the leaves below the path, if it is that of a node.
    /// - [`TreeError::InAnotherPart`] if the leaf is absent.
    /// - [`TreeError::PathSyntax`] if the path is invalid.
    pub fn get(&self, path: &(impl AsKeyPath + ?Sized)) -> Result<&L, TreeError> {
        self.tree.get(path)
    }

    /// Applies `function` to each leaf that is present.
    #[must_use]
    pub fn map<U>(&self, function: impl FnMut(&L) -> U) -> Partition<M, U> {
        Partition::from_tree(self.tree.map(function))
    }

    /// Applies `function` to each leaf that is present and the corresponding leaf of `other`.
    ///
    /// # Errors
    /// [`TreeError::Structure`] if different leaves are present in the parts.
    pub fn map2<N, U>(
        &self,
        other: &Partition<M, N>,
        function: impl FnMut(&L, &N) -> U,
    ) -> Result<Partition<M, U>, TreeError> {
        self.tree
            .map2(&other.tree, function)
            .map(Partition::from_tree)
    }
}

impl<M, L> Index<&str> for Partition<M, L> {
    type Output = L;

    /// Returns the leaf at a path.
    ///
    /// # Panics
    /// If [`Partition::get`] returns an error for this path.
    #[track_caller]
    fn index(&self, path: &str) -> &L {
        match self.get(path) {
            Ok(leaf) => leaf,
            Err(error) => panic!("cannot index a part: {error}"),
        }
    }
}

impl<M, L: Clone> Clone for Partition<M, L> {
    fn clone(&self) -> Self {
        Self::from_tree(self.tree.clone())
    }
}
impl<M, L: PartialEq> PartialEq for Partition<M, L> {
    fn eq(&self, other: &Self) -> bool {
        self.tree == other.tree
    }
}
impl<M, L: fmt::Debug> fmt::Debug for Partition<M, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.tree.fmt(f)
    }
}

impl<M, L: Leaf> fmt::Display for Partition<M, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.tree, f)
    }
}

impl<M: 'static, L: Leaf + Clone> Pytree for Partition<M, L> {
    fn visit<'a>(&'a self, visitor: &mut dyn Visitor<'a>) {
        self.tree.visit(visitor);
    }
    fn unflatten(source: &mut Unflattener<'_>) -> Result<Self, TreeError> {
        Tree::unflatten(source).map(Self::from_tree)
    }
}
impl<M: 'static, L: Leaf + Clone> PytreeOf<L> for Partition<M, L> {
    fn each_leaf<'a, F: FnMut(&'a L)>(&'a self, visit: &mut F) {
        self.leaves().iter().for_each(visit);
    }
    fn map_leaves<F: FnMut(&L) -> L>(&self, function: &mut F) -> Self {
        self.map(function)
    }
}

/// Splits a tree into one part for each filter. A leaf is in the part of the first filter that accepts the leaf.
///
/// # Errors
/// [`TreeError::Unassigned`] with all leaves that no filter accepts; to avoid this error, put [`Filter::everything`]
/// last. [`TreeError::AfterEverything`] if [`Filter::everything`] is not the last filter, and [`TreeError::NoLeaf`] if
/// a path of a filter does not exist.
#[doc(alias("nnx.split", "refx.tree_partition"))]
#[track_caller]
pub fn split<M: PytreeOf<L>, L: Leaf + Clone, const N: usize>(
    whole: &M,
    filters: [Filter; N],
) -> Result<[Partition<M, L>; N], TreeError> {
    let (leaves, treedef) = graph::try_flatten::<L, M>(whole)?;
    let assigned = assign_each(&treedef, &leaves, &filters)?;
    Ok(split_leaves(&treedef.as_whole(), leaves, &assigned))
}

/// Splits a tree into as many parts as there are filters, as [`split`] does.
///
/// # Examples
/// ```
/// use pytree_core::{Filter, partition};
/// let filters: Vec<Filter> = (0..3).map(|layer| Filter::path(format!("[{layer}]"))).collect();
/// let parts = partition::split_all(&vec![1.0_f32, 2.0, 3.0], &filters)?;
/// assert_eq!(parts[1].leaves(), [2.0]);
/// # Ok::<(), pytree_core::TreeError>(())
/// ```
///
/// # Errors
/// The errors of [`split`].
#[track_caller]
pub fn split_all<M: PytreeOf<L>, L: Leaf + Clone>(
    whole: &M,
    filters: &[Filter],
) -> Result<Vec<Partition<M, L>>, TreeError> {
    let (leaves, treedef) = graph::try_flatten::<L, M>(whole)?;
    let assigned = assign_each(&treedef, &leaves, filters)?;
    let treedef = treedef.as_whole();
    let part = |part| select(&treedef, &leaves, |position| assigned[position] == part);
    Ok((0..count(filters.len())).map(part).collect())
}

/// Returns the part of a tree with all leaves that a filter accepts. The other leaves are absent in the part.
///
/// # Panics
/// If a path of the filter does not exist.
#[doc(alias(
    "nnx.state",
    "nnx.variables",
    "refx.get_partition",
    "eqx.filter",
    "nn.Module.parameters",
    "nn.Module.state_dict"
))]
#[track_caller]
pub fn filter<M: PytreeOf<L>, L: Leaf + Clone>(whole: &M, filter: &Filter) -> Partition<M, L> {
    match try_filter(whole, filter) {
        Ok(part) => part,
        Err(error) => panic!("cannot select a part: {error}"),
    }
}

/// Returns the part of a tree that a filter accepts, or an error where [`filter`] panics.
///
/// # Errors
/// [`TreeError::NoLeaf`] if a path of the filter does not exist.
#[track_caller]
pub fn try_filter<M: PytreeOf<L>, L: Leaf + Clone>(
    whole: &M,
    filter: &Filter,
) -> Result<Partition<M, L>, TreeError> {
    let (leaves, treedef) = graph::try_flatten::<L, M>(whole)?;
    let accepted = accepted(&treedef, &leaves, filter)?;
    Ok(select(&treedef.as_whole(), &leaves, |position| {
        accepted[position]
    }))
}

impl<M, L: Leaf + Clone> Partition<M, L> {
    /// Returns a part of an `M` with those leaves of this part that a filter accepts.
    ///
    /// # Errors
    /// [`TreeError::NoLeaf`] if a path of the filter does not exist.
    pub fn filter(&self, filter: &Filter) -> Result<Self, TreeError> {
        let (leaves, treedef) = (self.leaves(), self.tree.treedef());
        let accepted = accepted(treedef, leaves, filter)?;
        Ok(select(treedef, leaves, |position| accepted[position]))
    }

    /// Splits this part into parts of an `M`, as [`split`] does with a whole tree.
    ///
    /// # Errors
    /// The errors of [`split`].
    pub fn split<const N: usize>(self, filters: [Filter; N]) -> Result<[Self; N], TreeError> {
        let (leaves, treedef) = self.tree.into_parts();
        let assigned = assign_each(&treedef, &leaves, &filters)?;
        Ok(split_leaves(&treedef, leaves, &assigned))
    }
}

/// Returns for each leaf whether the filter accepts it.
fn accepted<L: Leaf>(
    treedef: &TreeDef,
    leaves: &[L],
    filter: &Filter,
) -> Result<Vec<bool>, TreeError> {
    let (assigned, _) = assign(treedef, leaves, std::slice::from_ref(filter))?;
    Ok(assigned.into_iter().map(|part| part != NO_PART).collect())
}

/// Returns the parts of the leaves. `treedef` is the structure of the parts, and `assigned` has the index of the part of
/// each leaf.
fn split_leaves<M, L, const N: usize>(
    treedef: &TreeDef,
    leaves: Vec<L>,
    assigned: &[u32],
) -> [Partition<M, L>; N] {
    let mut parts = treedef.split::<N>(assigned).map(|part| {
        let kept = Vec::with_capacity(part.num_leaves());
        (part, kept)
    });
    for (leaf, &part) in leaves.into_iter().zip(assigned) {
        parts[checked::<N>(part)].1.push(leaf);
    }
    parts.map(|(part, kept)| Partition::from_tree(Tree::from_parts(part, kept)))
}

/// Converts the position of a part to an index below `N`.
#[inline]
fn checked<const N: usize>(part: u32) -> usize {
    let part = part as usize;
    if part >= N {
        bug(format_args!(
            "each leaf to be assigned to one of {N} parts, found {part}"
        ));
    }
    part
}

/// The value that [`first_of`] returns for a leaf that no filter accepts.
const NO_PART: u32 = u32::MAX;

/// The position of the first accepting filter for each leaf, and the paths of the leaves that no filter accepts.
type Assignment = (Vec<u32>, Vec<KeyPath>);

/// Returns the position of the first filter that `accepts` returns true for.
fn first_of<F: Borrow<Filter>>(filters: &[F], accepts: impl Fn(&Filter) -> bool) -> u32 {
    let first = filters.iter().position(|filter| accepts(filter.borrow()));
    first.map_or(NO_PART, count)
}

/// Returns for each leaf the position of the first filter that accepts the leaf.
///
/// # Errors
/// The errors of [`split`].
fn assign_each<L: Leaf>(
    treedef: &TreeDef,
    leaves: &[L],
    filters: &[Filter],
) -> Result<Vec<u32>, TreeError> {
    Filter::check_order(filters)?;
    let (assigned, unassigned) = assign(treedef, leaves, filters)?;
    if unassigned.is_empty() {
        return Ok(assigned);
    }
    Err(TreeError::Unassigned { paths: unassigned })
}

/// Returns two lists: for each leaf the position of the first filter that accepts the leaf, and the paths of all leaves
/// that no filter accepts.
fn assign<L: Leaf>(
    treedef: &TreeDef,
    leaves: &[L],
    filters: &[Filter],
) -> Result<Assignment, TreeError> {
    if filters.iter().all(Filter::is_by_kind) {
        let assigned = treedef
            .decide_by_kind(|kind| first_of(filters, |filter| filter.accepts_kind(kind.as_ref())));
        if !assigned.contains(&NO_PART) {
            return Ok((assigned, Vec::new()));
        }
    }
    let filters: Vec<_> = filters
        .iter()
        .map(|filter| filter.for_leaves(treedef, leaves))
        .collect::<Result<_, _>>()?;
    let (mut assigned, mut unassigned) = (Vec::with_capacity(leaves.len()), Vec::new());
    let mut leaf = leaves.iter();
    treedef.walk_places(|place| {
        if !place.holds_leaf {
            return;
        }
        let leaf = expect_next(&mut leaf, LEAVES);
        let part = first_of(&filters, |filter| {
            filter.accepts(place.path, place.kind(), leaf)
        });
        if part == NO_PART {
            unassigned.push(place.path.clone());
        }
        assigned.push(part);
    });
    Ok((assigned, unassigned))
}

/// Returns the part that contains a leaf if `keep` returns true for the position of the leaf. `treedef` is the structure
/// of a part, or of a value [as a whole](TreeDef::as_whole).
pub fn select<M, L: Clone>(
    treedef: &TreeDef,
    leaves: &[L],
    keep: impl Fn(usize) -> bool,
) -> Partition<M, L> {
    Partition::from_tree(Tree::select(treedef, leaves, keep))
}

/// Completes the leaves of a part: returns a leaf for each leaf of `whole`, the structure of a value. A leaf that the part
/// `treedef` does not hold is the result of `absent`, which receives the position of the leaf. Returns `None` if
/// `treedef` is not a part of `whole`.
pub fn fill<L>(
    treedef: &TreeDef,
    leaves: Vec<L>,
    whole: &TreeDef,
    mut absent: impl FnMut(usize) -> L,
) -> Option<Vec<L>> {
    // A member of a tuple may itself be a part. The gradient of a part is a part of the same whole.
    let [treedef, whole] = [treedef, whole].map(|treedef| treedef.with_splits(|_| 0));
    if !treedef.is_same_but_for_presence(&whole) {
        return None;
    }
    let (presence, expected) = (treedef.presence(), whole.presence());
    let mut leaves = leaves.into_iter();
    let mut filled = Vec::with_capacity(whole.num_leaves());
    for (&is_present, &is_expected) in presence.iter().zip(&*expected) {
        match (is_present, is_expected) {
            (true, true) => filled.push(expect_next(&mut leaves, LEAVES)),
            (false, true) => filled.push(absent(filled.len())),
            (true, false) => return None,
            (false, false) => {}
        }
    }
    Some(filled)
}
