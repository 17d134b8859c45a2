//! The identity layer.

use pytree_core::Module;
use pytree_transform::Tensor;

/// Returns its input. Use `Identity` as the replacement of a layer that you remove.
#[doc(alias("nnx.identity", "nn.Identity"))]
#[derive(Module, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Identity;

crate::forward!(Identity);

impl Identity {
    /// Returns `x: [..]` unchanged.
    pub fn forward(&self, x: &Tensor) -> Tensor {
        x.clone()
    }
}
