//! Conversion of a model to one vector of all its leaves, and back. Both directions work inside of any transformation.

use std::fmt;
use std::marker::PhantomData;

use pytree_core::error::LeafMismatch;
use pytree_core::{KeyPath, TreeDef, TreeError, graph};
use pytree_derive::panicking_twin;
use pytree_kernels::base::dtype::{AbstractArray, DType};

use crate::primitives::slice::slice;
use crate::tensor::Tensor;
use crate::tensor::traceable::Traceable;

/// Rebuilds a model from a vector that [`ravel`] returned. An `Unravel` stores the structure of the model and the shape
/// of each leaf.
pub struct Unravel<M> {
    treedef: TreeDef,
    leaves: Vec<AbstractArray>,
    dtype: DType,
    length: usize,
    model: PhantomData<fn() -> M>,
}

/// Returns one vector of all leaves of a model, and the [`Unravel`] that rebuilds a model from the vector.
///
/// The leaves are in the order of the tree, and the elements of each leaf in row-major order. A shared leaf occurs once
/// in the vector. For a model without leaves, the vector is empty and has the dtype `f32`.
///
/// Both directions consist of tensor operations, so they can be differentiated, compiled and batched.
///
/// # Examples
/// ```
/// use pytree_transform::{Tensor, grad, ravel};
/// let model = (Tensor::from(1.0_f32), Tensor::from([[2.0_f32, 3.0]]));
/// let (vector, form) = ravel(&model);
/// assert_eq!(vector.to_vec::<f32>(), [1.0, 2.0, 3.0]);
/// assert_eq!(form.unravel(&vector)?, model);
///
/// let loss = |vector: &Tensor| {
///     let (scale, weight) = form.unravel(vector).expect("a vector of the model's length");
///     (scale * weight).sum()
/// };
/// assert_eq!(grad(loss)(&vector).to_vec::<f32>(), [5.0, 1.0, 1.0]);
/// # Ok::<(), pytree_core::TreeError>(())
/// ```
///
/// # Panics
/// Panics if the dtypes of the leaves differ.
///
/// # Errors
/// Returns [`TreeError::LeafTypes`] if the dtypes of the leaves differ. The error lists each leaf whose dtype differs
/// from the dtype of the first leaf. Also returns the errors of [`graph::try_flatten`].
#[doc(alias("jax.flatten_util.ravel_pytree", "torch.nn.utils.parameters_to_vector"))]
#[panicking_twin(ravel)]
pub fn try_ravel<M: Traceable>(model: &M) -> Result<(Tensor, Unravel<M>), TreeError> {
    let (leaves, treedef) = graph::try_flatten::<Tensor, M>(model)?;
    let dtype = leaves.first().map_or(DType::F32, Tensor::dtype);
    if leaves.iter().any(|leaf| leaf.dtype() != dtype) {
        let mismatches = treedef.leaf_paths().into_iter().zip(&leaves);
        return Err(TreeError::LeafTypes {
            doing: "cannot ravel leaves with different element types; convert them first",
            mismatches: mismatches
                .filter(|(_, leaf)| leaf.dtype() != dtype)
                .map(|(path, leaf)| mismatch(path, dtype, leaf))
                .collect(),
        });
    }
    let form = Unravel {
        treedef,
        dtype,
        length: leaves.iter().map(Tensor::len).sum(),
        leaves: leaves.iter().map(|leaf| leaf.info().clone()).collect(),
        model: PhantomData,
    };
    let vector = if leaves.is_empty() {
        Tensor::zeros(dtype, [0])
    } else {
        let flat: Vec<Tensor> = leaves.iter().map(Tensor::flatten).collect();
        Tensor::concatenate(&flat, 0)
    };
    Ok((vector, form))
}

fn mismatch(path: KeyPath, expected: DType, found: &Tensor) -> LeafMismatch {
    LeafMismatch::new(path, expected.to_string(), found.info().to_string())
}

impl<M: Traceable> Unravel<M> {
    /// Returns the number of elements of all leaves.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Returns whether the leaves have no elements.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Returns the model whose leaves are the elements of `vector`.
    ///
    /// # Errors
    /// Returns [`TreeError::Unravel`] if `vector` does not have one axis of the expected length. Returns
    /// [`TreeError::LeafTypes`] if the dtype of `vector` is not the dtype of the leaves.
    pub fn unravel(&self, vector: &Tensor) -> Result<M, TreeError> {
        if vector.shape() != [self.length] {
            return Err(TreeError::Unravel {
                expected: self.length,
                found: vector.shape().to_vec(),
            });
        }
        if vector.dtype() != self.dtype {
            return Err(TreeError::LeafTypes {
                doing: "cannot unravel",
                mismatches: vec![mismatch(KeyPath::root(), self.dtype, vector)],
            });
        }
        let mut start = 0;
        let mut leaves = Vec::with_capacity(self.leaves.len());
        for info in &self.leaves {
            let end = start + info.len();
            let part = slice(vector, &[start], &[end], &[1])
                .and_then(|part| part.try_reshape(&info.shape));
            leaves.push(part.map_err(|error| TreeError::Build {
                node: "leaf from a vector",
                reason: error.to_string(),
            })?);
            start = end;
        }
        graph::unflatten(&self.treedef, leaves)
    }
}

impl<M> Clone for Unravel<M> {
    fn clone(&self) -> Self {
        Self {
            treedef: self.treedef.clone(),
            leaves: self.leaves.clone(),
            ..*self
        }
    }
}
impl<M> fmt::Debug for Unravel<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Unravel({}[{}] into {})",
            self.dtype, self.length, self.treedef
        )
    }
}
