//! Conversions between values and references: the functions of the Python library `refx`, for pytrees of
//! [`Ref`](crate::Ref)s.
//!
//! Transformations and partitions do not need these functions. [`deref()`] returns a tree of values in which later
//! occurrences of a reference are aliases, and [`reref`] builds a value with references from such a tree. A part of a
//! value, created by [`partition`], contains the values of its references, and [`update_refs`] writes the values of a
//! part back to the references.

use pytree_base::bug::{LEAVES, expect_at};
use pytree_derive::panicking_twin;

use crate::base::error::TreeError;
use crate::base::kind::LeafKind;
use crate::contract::pytree::{Pytree, PytreeOf};
use crate::contract::unflatten::Contents;
use crate::node::leaf::Leaf;
use crate::node::shape::NodeKind;
use crate::references::boundary;
use crate::references::reference;
use crate::trees::dynamic::{Tree, same_structure};
use crate::trees::partition::{self, Partition};

/// Returns a tree in which the first occurrence of each reference is its value, and later occurrences are aliases.
///
/// # Examples
/// ```
/// use pytree_core::Ref;
/// use pytree_core::refs::{deref, reref};
/// let (r1, r2) = (Ref::new(1), Ref::new(2));
/// let values = deref::<i32, _>(&(vec![r1.clone(), r1, r2.clone()], r2));
/// assert_eq!(values.to_string(), "([1, alias 0, 2], alias 1)");
/// let (list, last): (Vec<Ref<i32>>, Ref<i32>) = reref(&values)?;
/// assert!(list[0].same(&list[1]) && list[2].same(&last));
/// # Ok::<(), pytree_core::TreeError>(())
/// ```
///
/// # Errors
/// [`TreeError::Dereferenced`] if the value contains plain values instead of references. In this case, the value was
/// already dereferenced, or contains a part of a value with references.
///
/// # Panics
/// If a reference cannot be read, or a trait object in the value holds a leaf of another type.
#[doc(alias = "refx.deref")]
#[panicking_twin(deref)]
pub fn try_deref<L: Leaf + Clone, T: PytreeOf<L>>(value: &T) -> Result<Tree<L>, TreeError> {
    let (leaves, treedef, references) = boundary::try_flatten_with_references::<L, T>(value)?;
    let numbered = treedef.numbered_nodes().iter().enumerate();
    let without_cell: Vec<usize> = numbered
        .filter(|&(number, &node)| {
            treedef.view(node).kind() == NodeKind::Reference && references.node(number).is_none()
        })
        .map(|(_, &node)| node)
        .collect();
    if without_cell.is_empty() {
        return Ok(Tree::from_parts(treedef, leaves));
    }
    Err(TreeError::Dereferenced {
        paths: treedef.node_paths(&without_cell),
    })
}

/// Builds a value with new references from a tree of values: the inverse of [`deref()`].
///
/// # Errors
/// [`TreeError`] if the structure of the tree or the type of a leaf does not match `T`.
#[doc(alias = "refx.reref")]
pub fn reref<T: Pytree, L: Leaf + Clone>(values: &Tree<L>) -> Result<T, TreeError> {
    let leaves = values.leaves().to_vec();
    boundary::unflatten_with_new_references(values.treedef(), leaves).map(|(value, _)| value)
}

/// Writes the leaves of `part` to the references of `target`. A leaf that is absent in `part` keeps its value in
/// `target`.
///
/// # Examples
/// ```
/// use pytree_core::{Filter, Ref, partition, refs};
/// let pair = (Ref::param(1.0_f32), Ref::new(2.0_f32));
/// let params = partition::filter(&pair, &Filter::param());
/// refs::update_refs(&pair, &params.map(|w: &f32| w - 0.1))?;
/// assert_eq!((pair.0.get(), pair.1.get()), (0.9, 2.0));
/// # Ok::<(), pytree_core::TreeError>(())
/// ```
///
/// # Errors
/// - [`TreeError::Merge`] if the part has another structure.
/// - [`TreeError::Shapes`] if a new leaf does not match the named axes of its module.
/// - [`TreeError::NotInReference`] with each leaf of the part that is not in a reference.
/// - [`TreeError::Reference`] if a reference cannot be written.
///
/// If there is an error, nothing is written.
#[doc(alias = "refx.update_refs")]
pub fn update_refs<T: PytreeOf<L>, L: Leaf + Clone>(
    target: &T,
    part: &Partition<T, L>,
) -> Result<(), TreeError> {
    boundary::repeated(|| update_refs_once(target, part))
}

/// Writes like [`update_refs`], but returns a conflict error if another thread writes a reference of the target during
/// the call.
fn update_refs_once<T: PytreeOf<L>, L: Leaf + Clone>(
    target: &T,
    part: &Partition<T, L>,
) -> Result<(), TreeError> {
    let (leaves, treedef, references) = boundary::try_flatten_with_references::<L, T>(target)?;
    let replaced = partition::replaced(&treedef, leaves, part)?;
    replaced.check(target, &treedef)?;
    let (leaves, changed) = (replaced.leaves, replaced.changed);
    // The leaf ranges of references are in order, and two ranges are either disjoint or nested.
    let mut ranges = treedef.reference_leaves().peekable();
    let mut inside_until = 0;
    let mut outside = Vec::new();
    for (position, changed) in changed.iter().enumerate() {
        while let Some(range) = ranges.next_if(|range| range.start <= position) {
            inside_until = inside_until.max(range.end);
        }
        if *changed && position >= inside_until {
            outside.push(position);
        }
    }
    if !outside.is_empty() {
        let paths = treedef.leaf_paths();
        let paths = outside.into_iter().map(|position| paths[position].clone());
        return Err(TreeError::NotInReference {
            paths: paths.collect(),
        });
    }
    boundary::unflatten_changed::<L, T>(&treedef, leaves, &references, |position| {
        *expect_at(&changed, position, LEAVES)
    })
    .map(drop)
}

/// Returns the references of a value. [`RefsOf::update_from`] writes them.
pub fn of<T: Pytree>(value: &T) -> RefsOf<'_, T> {
    RefsOf(value)
}

/// The references of a value, created by [`of`].
#[derive(Debug)]
pub struct RefsOf<'a, T>(&'a T);

impl<T: Pytree> RefsOf<'_, T> {
    /// Writes the values of the references of `source` to the references of this value, which must have the same
    /// structure. Leaves outside of references do not change.
    ///
    /// # Examples
    /// ```
    /// use pytree_core::{Ref, refs};
    /// let (old, new) = (vec![Ref::new(1), Ref::new(2)], vec![Ref::new(3), Ref::new(4)]);
    /// refs::of(&old).update_from::<i32>(&new)?;
    /// assert_eq!((old[1].get(), new[1].get()), (4, 4));
    /// # Ok::<(), pytree_core::TreeError>(())
    /// ```
    ///
    /// # Errors
    /// - [`TreeError::Structure`] with all differences between the structures.
    /// - [`TreeError::Reference`] if a reference cannot be written.
    ///
    /// If there is an error, nothing is written.
    pub fn update_from<L: Leaf + Clone>(&self, source: &T) -> Result<(), TreeError>
    where
        T: PytreeOf<L>,
    {
        boundary::repeated(|| {
            let (leaves, treedef, of_source) =
                boundary::try_flatten_with_references::<L, T>(source)?;
            let (_, of_target, references) = boundary::try_flatten_with_references::<L, T>(self.0)?;
            same_structure("cannot update references", &of_target, &treedef)?;
            let references = references.beside(of_source);
            boundary::unflatten_with_references::<L, T>(
                &treedef,
                leaves,
                &references,
                Contents::Written,
            )
            .map(drop)
        })
    }
}

/// Runs `body`, which may write a reference only if `is_mutable` accepts the reference's own kind. In nested calls, the
/// `is_mutable` of each call must accept the kind.
///
/// # Examples
/// ```
/// use pytree_core::kind::BatchStat;
/// use pytree_core::{LeafKind, Ref, refs};
/// let (weight, mean) = (Ref::param(1), Ref::state::<BatchStat>(2));
/// refs::with_mutable(|kind| kind == Some(LeafKind::Param), || {
///     weight.set(3);
///     let error = mean.try_set(4).unwrap_err();
///     assert!(error.to_string().starts_with("cannot write a reference of kind BatchStat"));
/// });
/// mean.set(4);
/// ```
#[doc(alias = "refx.mutable")]
pub fn with_mutable<R>(
    is_mutable: impl Fn(Option<LeafKind>) -> bool + 'static,
    body: impl FnOnce() -> R,
) -> R {
    let _guard = reference::Mutable::begin(Box::new(is_mutable));
    body()
}
