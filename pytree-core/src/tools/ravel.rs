//! Ravels all leaves of a model to one vector, and builds a model from such a vector.

use std::any::type_name;
use std::fmt;
use std::marker::PhantomData;

use ndarray::{Array1, ArrayBase, Data, Ix1};
use pytree_base::bug::bug;

use crate::base::error::{LeafMismatch, TreeError};
use crate::base::text::short_name;
use crate::contract::pytree::Pytree;
use crate::contract::unflatten::unflatten_unchecked;
use crate::node::leaf::{AnyLeaf, Element, Leaf};
use crate::treedef::TreeDef;
use crate::trees::graph;

/// Builds a model from a vector. An `Unravel` stores the structure and the leaf shapes of the model that [`ravel`]
/// received.
pub struct Unravel<M, E> {
    treedef: TreeDef,
    leaves: Vec<AnyLeaf>,
    length: usize,
    model: PhantomData<fn(E) -> M>,
}

/// Returns all leaves of a model as one vector, and an [`Unravel`] that builds a model from such a vector.
///
/// The vector contains the leaves in order, and the elements of each leaf in row-major order. A leaf in a shared node
/// occurs once. Each leaf must be a number of type `E` or an array of such numbers.
///
/// # Examples
/// ```
/// use ndarray::array;
/// use pytree_core::ravel::ravel;
/// let model = (1.0_f32, array![[2.0_f32, 3.0], [4.0, 5.0]]);
/// let (vector, form) = ravel::<f32, _>(&model)?;
/// assert_eq!(vector, array![1.0, 2.0, 3.0, 4.0, 5.0]);
/// assert_eq!(form.unravel(&(vector * 2.0))?, (2.0, array![[4.0, 6.0], [8.0, 10.0]]));
/// # Ok::<(), pytree_core::TreeError>(())
/// ```
///
/// # Errors
/// [`TreeError::LeafTypes`] with each leaf that is neither an `E` nor an array of `E`.
pub fn ravel<E: Element, M: Pytree>(model: &M) -> Result<(Array1<E>, Unravel<M, E>), TreeError> {
    let (leaves, treedef) = graph::try_flatten_any(model)?;
    let mut vector = Vec::new();
    let mut others = Vec::new();
    for (position, leaf) in leaves.iter().enumerate() {
        match leaf.array_view::<E>() {
            Some(elements) => vector.extend(elements.iter().copied()),
            None => others.push(position),
        }
    }
    if !others.is_empty() {
        let paths = treedef.leaf_paths();
        return Err(TreeError::LeafTypes {
            doing: "cannot ravel",
            mismatches: others
                .into_iter()
                .map(|position| LeafMismatch {
                    path: paths[position].clone(),
                    expected: format!("{} or an array of it", short_name(type_name::<E>())),
                    found: leaves[position].array_info().map_or_else(
                        || short_name(leaves[position].type_name()),
                        |info| info.to_string(),
                    ),
                })
                .collect(),
        });
    }
    let form = Unravel {
        treedef,
        leaves,
        length: vector.len(),
        model: PhantomData,
    };
    Ok((vector.into(), form))
}

impl<M: Pytree, E: Element> Unravel<M, E> {
    /// Returns the number of elements of all leaves.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Returns whether the leaves have no elements.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Builds a model whose leaves contain the elements of `vector`.
    ///
    /// # Errors
    /// [`TreeError::Unravel`] if the length of the vector differs from [`len`](Self::len).
    pub fn unravel<S: Data<Elem = E>>(&self, vector: &ArrayBase<S, Ix1>) -> Result<M, TreeError> {
        if vector.len() != self.length {
            return Err(TreeError::Unravel {
                expected: self.length,
                found: vec![vector.len()],
            });
        }
        let mut elements = vector.iter().copied();
        let leaves = self.leaves.iter().map(|leaf| {
            let mut leaf = leaf.clone();
            let Some(mut array) = leaf.array_view_mut::<E>() else {
                bug(format_args!(
                    "the leaf of type {} to be an array, as it was in the call of `ravel`",
                    leaf.type_name()
                ));
            };
            array
                .iter_mut()
                .zip(elements.by_ref())
                .for_each(|(place, element)| *place = element);
            leaf
        });
        unflatten_unchecked(&self.treedef, leaves.collect())
    }
}

impl<M, E> Clone for Unravel<M, E> {
    fn clone(&self) -> Self {
        Self {
            treedef: self.treedef.clone(),
            leaves: self.leaves.clone(),
            ..*self
        }
    }
}
impl<M, E> fmt::Debug for Unravel<M, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Unravel([{}] into {})", self.length, self.treedef)
    }
}
