//! `device_put`: moves the tensors of a pytree to a device.

use std::cell::RefCell;

use pytree_core::graph;
use pytree_derive::panicking_twin;

use crate::base::error::TensorError;
use crate::tensor::Tensor;
use crate::tensor::device::Device;
use crate::tensor::traceable::Traceable;

/// Returns a pytree whose tensors are on a device: a model, a batch, or one tensor.
///
/// Tensors that are already on the device are shared with the argument. When this function returns, the device may
/// still copy the other tensors. A tensor on another device is transferred through the host, which waits for its
/// elements. [`Device::HOST`] moves tensors back to the host. A shared node stays shared. A reference becomes a new
/// reference in the result.
///
/// # Panics
/// Panics if a tensor is traced. Panics if the device reports an error, for instance because it has too little memory.
///
/// # Examples
/// ```
/// use pytree_transform::Tensor;
/// use pytree_transform::device::{Device, device_put};
/// let pair = (Tensor::from(1.0_f32), Tensor::from([2, 3]));
/// let (x, _) = device_put(&pair, Device::HOST);
/// assert!(x.device().is_host());
/// ```
#[panicking_twin(device_put, Traced | Device)]
pub fn try_device_put<T: Traceable>(
    value: &T,
    device: impl Into<Device>,
) -> Result<T, TensorError> {
    let device = device.into();
    let failed = RefCell::new(None);
    let moved = graph::map(value, |tensor: &Tensor| {
        if failed.borrow().is_some() {
            return tensor.clone();
        }
        device.put(tensor).unwrap_or_else(|error| {
            failed.replace(Some(error));
            tensor.clone()
        })
    });
    match failed.into_inner() {
        None => Ok(moved),
        Some(error) => Err(error),
    }
}
