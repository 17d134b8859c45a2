//! Builds values from treedefs and leaves: the functions that create an [`Unflattener`].

use super::{Contents, LeafSource, Numbers, OnExit, Unflattener};
use crate::base::error::{TreeError, quoted};
use crate::base::text::short_name;
use crate::contract::depth::DEPTH_LIMIT;
use crate::contract::handles::References;
use crate::contract::pytree::Pytree;
use crate::node::leaf::Leaf;
use crate::treedef::TreeDef;

/// Builds a `T` from a treedef and leaves of one type.
///
/// # Errors
/// If there are too few or too many leaves, or if the treedef or a leaf does not match `T`.
pub(crate) fn unflatten<T: Pytree, L: Leaf + Clone>(
    treedef: &TreeDef,
    leaves: Vec<L>,
) -> Result<T, TreeError> {
    treedef.check_count(leaves.len())?;
    unflatten_unchecked(treedef, leaves)
}

/// Builds a `T` without checking the number of leaves, which must agree with the treedef; see [`unflatten`].
pub(crate) fn unflatten_unchecked<T: Pytree, L: Leaf + Clone>(
    treedef: &TreeDef,
    leaves: Vec<L>,
) -> Result<T, TreeError> {
    unflatten_with(treedef, leaves, None)
}

/// Builds a `T` like [`unflatten_unchecked`], and calls `on_exit` for each built node.
pub(crate) fn unflatten_with<'a, T: Pytree, L: Leaf + Clone>(
    treedef: &'a TreeDef,
    leaves: Vec<L>,
    on_exit: Option<OnExit<'a>>,
) -> Result<T, TreeError> {
    let outside = Outside {
        on_exit,
        ..Outside::default()
    };
    build(treedef, leaves, outside, T::unflatten).map(|(built, _)| built)
}

/// Builds a `T` like [`unflatten`]. A numeric leaf of another type is converted if the needed
/// type can represent the value exactly.
pub(crate) fn unflatten_converted<T: Pytree, L: Leaf + Clone>(
    treedef: &TreeDef,
    leaves: Vec<L>,
) -> Result<T, TreeError> {
    treedef.check_count(leaves.len())?;
    let outside = Outside {
        numbers: Numbers::Converted,
        ..Outside::default()
    };
    build(treedef, leaves, outside, T::unflatten).map(|(built, _)| built)
}

/// Builds a `T` and returns the positions of its nodes with a fixed number of children, such as arrays.
pub(crate) fn fixed_nodes<T: Pytree, L: Leaf + Clone>(
    treedef: &TreeDef,
    leaves: &[L],
) -> Result<Vec<usize>, TreeError> {
    let mut fixed = Vec::new();
    let outside = Outside {
        fixed: Some(&mut fixed),
        ..Outside::default()
    };
    build(treedef, leaves.to_vec(), outside, T::unflatten)?;
    Ok(fixed)
}

/// The options of [`build`]: references to use, and callbacks.
#[derive(Default)]
pub(crate) struct Outside<'a> {
    /// Existing references to use instead of new references, in the order of the references in the treedef.
    pub(crate) used: Option<(&'a References, Contents<'a>)>,
    /// The references and shared nodes of a function's argument. The treedef of the function's result refers to each of
    /// these nodes by index.
    pub(crate) known: Option<&'a References>,
    /// The references that the call has read. Values are written to references only if the contents of the read
    /// references have not changed since they were read.
    pub(crate) read: Option<&'a References>,
    pub(crate) on_exit: Option<OnExit<'a>>,
    /// Receives the positions of the nodes that have a fixed number of children.
    pub(crate) fixed: Option<&'a mut Vec<usize>>,
    pub(crate) numbers: Numbers,
}

/// Builds a value from a treedef and exactly as many leaves as the treedef has. Returns the value and its references.
pub(crate) fn build<'a, T, L: Leaf + Clone>(
    treedef: &'a TreeDef,
    leaves: Vec<L>,
    outside: Outside<'a>,
    unflatten: impl FnOnce(&mut Unflattener<'_>) -> Result<T, TreeError>,
) -> Result<(T, References), TreeError> {
    let mut leaves = leaves.into_iter();
    let mut source = Unflattener::new(treedef, &mut leaves, outside);
    match unflatten(&mut source) {
        Ok(built) => Ok((built, source.ended()?)),
        Err(error) => Err(source.complete(error)),
    }
}

impl<'a> Unflattener<'a> {
    fn new(treedef: &'a TreeDef, leaves: &'a mut dyn LeafSource, outside: Outside<'a>) -> Self {
        Self {
            treedef,
            leaves,
            node: 0,
            aux: 0,
            numbered: Vec::with_capacity(treedef.num_numbered()),
            next_number: 0,
            leads_back: treedef.num_numbered() > 0 && treedef.leads_back(),
            links: 0,
            references: References::default(),
            used: outside.used,
            known: outside.known,
            read: outside.read,
            staged: Vec::new(),
            open: Vec::new(),
            tracks: outside.on_exit.is_some()
                || outside.fixed.is_some()
                || treedef.depth() > DEPTH_LIMIT,
            on_exit: outside.on_exit,
            fixed: outside.fixed,
            numbers: outside.numbers,
        }
    }

    /// Checks that the whole treedef was read, and returns the references of the value.
    fn ended(self) -> Result<References, TreeError> {
        if self.node != self.treedef.num_nodes() {
            return Err(self.wrong_node("the end of the tree"));
        }
        if self.aux != self.treedef.num_statics() {
            return Err(self.statics_unread());
        }
        self.finish()
    }

    #[cold]
    fn statics_unread(&self) -> TreeError {
        let mut types: Vec<String> = Vec::new();
        for node in self.treedef.nodes() {
            let shape = node.shape();
            if shape.num_statics() > 0 {
                types.push(short_name(shape.type_name()));
            }
        }
        types.sort_unstable();
        types.dedup();
        TreeError::StaticsUnread {
            read: self.aux,
            stored: self.treedef.num_statics(),
            types: quoted(&types),
        }
    }

    /// Adds all other leaves of wrong types to the error of the first one.
    #[cold]
    fn complete(&mut self, error: TreeError) -> TreeError {
        match error {
            TreeError::LeafTypes { doing, mismatches } => TreeError::LeafTypes {
                doing,
                mismatches: self.all_mismatches(mismatches),
            },
            error => error,
        }
    }
}
