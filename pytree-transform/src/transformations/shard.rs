//! `shard`: says how the tensors of a pytree are divided among the devices of a mesh.

use pytree_base::bug::{LEAVES, pairs};
use pytree_core::graph;
use pytree_derive::panicking_twin;

use crate::base::error::{Mistake, TensorError};
use crate::primitives::sharding::sharding_constraint;
use crate::tensor::Tensor;
use crate::tensor::device::{Device, PartitionSpec, Sharding, chosen};
use crate::tensor::traceable::{Traceable, rebuild};
use crate::transformations::sharding_rules::Shardings;

/// Returns a pytree with the same elements, whose tensors are divided among the devices of a mesh as a spec or rules say. A
/// spec applies to all tensors.
///
/// In a function that `jit` compiles for a [`Mesh`](crate::device::Mesh), `shard` tells the compiler how to divide an
/// intermediate value; the compiler inserts the communication. Equivalent to `jax.lax.with_sharding_constraint`. The
/// gradient is divided in the same way. Under `vmap`, the compiler chooses how the batch axis is divided. On the host and
/// on a single device, `shard` returns its argument.
///
/// Outside of compiled functions, `shard` moves tensors of a mesh between its devices. A tensor on the host is put on the
/// mesh that [`with_device`](crate::device::with_device) has chosen; without one, it stays on the host.
/// [`device_put`](crate::device::device_put) with [`Mesh::divided`](crate::device::Mesh::divided) puts tensors on a mesh.
///
/// # Panics
/// Panics if a spec has more members than a tensor has axes, names an axis of the mesh twice, or names an axis that the
/// mesh does not have, or if a length is not a multiple of the number of devices. The message lists all such tensors. In a
/// function that is recorded, the mesh is not known: the names and lengths are checked when the function is compiled.
///
/// # Examples
/// ```
/// use pytree_transform::device::shard;
/// use pytree_transform::{DType, Tensor, jit};
/// let f = jit(|x: Tensor| shard(&(x * 2.0), ("data", None)));
/// // The host ignores the annotation.
/// assert_eq!(f(Tensor::ones(DType::F32, [4, 2])), Tensor::full(DType::F32, [4, 2], 2.0));
/// ```
#[doc(alias = "lax.with_sharding_constraint")]
#[panicking_twin(shard, Sharding | Device | Lowering)]
pub fn try_shard<T: Traceable>(
    value: &T,
    shardings: impl Into<Shardings>,
) -> Result<T, TensorError> {
    let shardings = shardings.into();
    let (leaves, treedef) = graph::flatten::<Tensor, T>(value);
    let mesh = mesh_of(&leaves);
    let operation = match &mesh {
        Some(mesh) => format!("shard the value on {mesh}"),
        None => "shard the value".to_owned(),
    };
    let axes = mesh.as_ref().and_then(Device::mesh);
    let specs = shardings.of_leaves(&operation, axes, &treedef, &leaves)?;
    let mut results = Vec::with_capacity(leaves.len());
    for (leaf, spec) in pairs(&leaves, &specs, LEAVES) {
        results.push(sharded(leaf, spec, mesh.as_ref())?);
    }
    Ok(rebuild(&treedef, results))
}

/// Returns the mesh of the tensors that are on devices, or the chosen mesh. Returns `None` if there is no mesh.
fn mesh_of(leaves: &[Tensor]) -> Option<Device> {
    let own = leaves.iter().find_map(|leaf| leaf.placed_on().cloned());
    Some(own.unwrap_or_else(chosen)).filter(|device| device.mesh().is_some())
}

#[track_caller]
fn sharded(
    leaf: &Tensor,
    spec: &PartitionSpec,
    mesh: Option<&Device>,
) -> Result<Tensor, TensorError> {
    match mesh {
        _ if leaf.is_traced() => sharding_constraint(leaf, spec),
        Some(mesh) => placed(leaf, spec, mesh),
        None => Ok(leaf.clone()),
    }
}

/// Returns a tensor with the same elements, divided among the devices of a mesh. A tensor that is already on the mesh moves
/// between its devices. Any other tensor is transferred through the host.
#[track_caller]
pub(crate) fn placed(
    tensor: &Tensor,
    spec: &PartitionSpec,
    mesh: &Device,
) -> Result<Tensor, TensorError> {
    let axes = mesh.mesh();
    let sharding = axes.and_then(|axes| Sharding::of_spec(axes.axes(), spec));
    let Some(sharding) = sharding else {
        let mistake = Mistake::new(
            format!("the spec {spec} does not fit {mesh}"),
            "name axes of the mesh",
        );
        return Err(TensorError::sharding("shard", vec![mistake]));
    };
    if tensor.try_device()? != mesh {
        return mesh.put_sharded(tensor, &sharding);
    }
    if tensor.sharding() == Some(&sharding) {
        return Ok(tensor.clone());
    }
    if !mesh.divides_programs() && !tensor.is_traced() {
        return mesh.put_sharded(tensor, &sharding);
    }
    sharding_constraint(tensor, spec)
}
