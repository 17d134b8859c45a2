//! The signature of an argument: its structure, shapes and dtypes.
use std::hash::{DefaultHasher, Hash, Hasher};

use pytree_core::TreeDef;
use pytree_kernels::base::dtype::AbstractArray;

use crate::tensor::Tensor;

/// The key of an entry: the argument's structure, shapes and dtypes.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Signature {
    pub(crate) treedef: TreeDef,
    pub(crate) infos: Vec<AbstractArray>,
}

impl Signature {
    /// Returns whether the leaves have the shapes and dtypes of this signature.
    pub(super) fn is_of(&self, leaves: &[&Tensor]) -> bool {
        let mut pairs = leaves.iter().zip(&self.infos);
        leaves.len() == self.infos.len() && pairs.all(|(leaf, info)| leaf.info() == info)
    }

    pub(super) fn hashed(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.treedef.hash(&mut hasher);
        self.infos.hash(&mut hasher);
        hasher.finish()
    }
}
