//! `device_put`: moves the tensors of a pytree to a device.

use std::cell::RefCell;

use pytree_base::bug::{LEAVES, expect_next};
use pytree_core::graph;
use pytree_derive::panicking_twin;

use crate::base::error::TensorError;
use crate::tensor::Tensor;
use crate::tensor::device::{Device, PartitionSpec};
use crate::tensor::traceable::Traceable;
use crate::transformations::shard::placed;
use crate::transformations::sharding_rules::NamedSharding;

/// The target of [`device_put`]: a device, or a mesh with the shardings of the tensors.
#[derive(Clone, Debug)]
pub struct Placement(Target);

#[derive(Clone, Debug)]
enum Target {
    Device(Device),
    Sharding(NamedSharding),
}

pytree_base::conversions! { Placement:
    [D: Into<Device>] D, |device| Self(Target::Device(device.into()));
    [] NamedSharding, |sharding| Self(Target::Sharding(sharding));
    [] &NamedSharding, |sharding| sharding.clone().into();
}

/// Returns a pytree whose tensors are on a device: a model, a batch, or one tensor.
///
/// Tensors that are already on the device are shared with the argument. When this function returns, the device may
/// still copy the other tensors. A tensor on another device is transferred through the host, which waits for its
/// elements. [`Device::HOST`] moves tensors back to the host. A shared node stays shared. A reference becomes a new
/// reference in the result.
///
/// With [`Mesh::divided`](crate::device::Mesh::divided), the tensors are divided among the devices of a mesh. Tensors that
/// are already on the mesh move between its devices, without the host.
///
/// # Panics
/// Panics if a tensor is traced. Panics if the device reports an error, for instance because it has too little memory.
/// Panics if a tensor cannot be divided; see [`shard`](crate::device::shard).
///
/// # Examples
/// ```
/// use pytree_transform::Tensor;
/// use pytree_transform::device::{Device, device_put};
/// let pair = (Tensor::from(1.0_f32), Tensor::from([2, 3]));
/// let (x, _) = device_put(&pair, Device::HOST);
/// assert!(x.device().is_host());
/// ```
#[doc(alias("jax.device_put", "torch.nn.Module.to"))]
#[panicking_twin(device_put, Traced | Device | Sharding)]
pub fn try_device_put<T: Traceable>(
    value: &T,
    place: impl Into<Placement>,
) -> Result<T, TensorError> {
    match place.into().0 {
        Target::Device(device) => moved(value, |tensor| device.put(tensor)),
        Target::Sharding(sharding) => divided(value, &sharding),
    }
}

/// Returns a pytree whose tensors are divided among the devices of a mesh.
fn divided<T: Traceable>(value: &T, sharding: &NamedSharding) -> Result<T, TensorError> {
    let mesh = sharding.mesh.device();
    let (leaves, treedef) = graph::flatten::<Tensor, T>(value);
    let operation = format!("put the value on {mesh}");
    let shardings = &sharding.shardings;
    let specs = shardings.of_leaves(&operation, mesh.mesh(), &treedef, &leaves)?;
    let specs: RefCell<std::vec::IntoIter<PartitionSpec>> = RefCell::new(specs.into_iter());
    moved(value, |tensor| {
        let spec = expect_next(&mut *specs.borrow_mut(), LEAVES);
        placed(tensor, &spec, mesh)
    })
}

/// Returns a pytree whose tensors are moved by `put`, which is called for each tensor in order until it fails.
fn moved<T: Traceable>(
    value: &T,
    put: impl Fn(&Tensor) -> Result<Tensor, TensorError>,
) -> Result<T, TensorError> {
    let failed = RefCell::new(None);
    let moved = graph::map(value, |tensor: &Tensor| {
        if failed.borrow().is_some() {
            return tensor.clone();
        }
        put(tensor).unwrap_or_else(|error| {
            failed.replace(Some(error));
            tensor.clone()
        })
    });
    match failed.into_inner() {
        None => Ok(moved),
        Some(error) => Err(error),
    }
}
