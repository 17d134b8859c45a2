//! `wait`: waits until the tensors of a pytree are computed.

use pytree_core::graph;
use pytree_derive::panicking_twin;

use crate::base::error::TensorError;
use crate::tensor::Tensor;
use crate::tensor::traceable::Traceable;

/// Waits until all tensors of a pytree are computed: a model, a batch, or one tensor. No element is transferred.
///
/// A device computes later than the program calls it, so a measurement of time must wait before it reads the clock.
/// Tensors on the host are always computed, and a traced tensor has no elements to wait for. The counterpart in JAX is
/// `jax.block_until_ready`.
///
/// # Panics
/// Panics if the computation of a tensor has failed. The message names the operation.
///
/// # Examples
/// ```
/// use pytree_transform::device::wait;
/// use pytree_transform::{DType, Tensor, jit};
/// use std::time::Instant;
/// let square = jit(|x: Tensor| x.matmul(&x));
/// let x = Tensor::ones(DType::F32, [100, 100]);
/// wait(&square(x.clone())); // compiles
/// let start = Instant::now();
/// wait(&square(x));
/// println!("{:?}", start.elapsed());
/// ```
#[doc(alias("jax.block_until_ready", "torch.cuda.synchronize"))]
#[panicking_twin(wait, Device)]
pub fn try_wait<T: Traceable>(value: &T) -> Result<(), TensorError> {
    let leaves = graph::leaves::<Tensor, T>(value);
    leaves.into_iter().try_for_each(Tensor::wait_until_computed)
}
