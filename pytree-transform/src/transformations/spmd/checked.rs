//! Checks of results on a mesh whose engine checks nothing.
//!
//! The function of all devices is computed once more on the host, operation by operation, as a `vmap` over each axis of the
//! mesh. So the first NaN is found with its operation and its line. The elements of all devices are in one array, and a
//! branch of `cond` whose predicate differs between devices is computed for all of them.

use pytree_base::bug::pairs;

use crate::base::error::or_panic;
use crate::primitives::shape::{move_axis, reshape};
use crate::tensor::Tensor;
use crate::tensor::device::MeshAxes;
use crate::tensor::device::{Sharding, on_host};
use crate::tensor::jaxpr::{INPUTS, Jaxpr};
use crate::transformations::spmd::differing::Levels;

/// Computes a function on the host, and checks the results of its operations. `leaves` are whole tensors.
///
/// # Panics
/// Panics if a result contains a NaN or an infinity that the active checks forbid.
pub(super) fn check(mesh: &MeshAxes, jaxpr: &Jaxpr, inputs: &[Sharding], leaves: &[Tensor]) {
    let _host = on_host();
    let stacked: Vec<Tensor> = pairs(leaves, inputs, INPUTS)
        .map(|(leaf, sharding)| {
            let array = or_panic(leaf.value());
            stacked(Tensor::from_shared(array.clone()), sharding, mesh)
        })
        .collect();
    let levels = Levels::batched(mesh);
    let parts: Vec<Tensor> = pairs(stacked, inputs, INPUTS)
        .map(|(tensor, sharding)| levels.part(tensor, sharding))
        .collect();
    drop(jaxpr.apply(&parts));
    drop(parts);
    drop(levels);
}

/// Divides a tensor into the parts of the devices, which are stacked along a leading axis for each axis of the mesh that
/// divides the tensor.
fn stacked(mut tensor: Tensor, sharding: &Sharding, mesh: &MeshAxes) -> Tensor {
    let mut leading = 0;
    for (position, (_, devices)) in mesh.axes().iter().enumerate() {
        let Some(axis) = sharding.divided(position) else {
            continue;
        };
        let at = leading + axis;
        let mut shape = tensor.shape().to_vec();
        shape[at] /= devices;
        shape.insert(at, *devices);
        tensor = or_panic(move_axis(&or_panic(reshape(&tensor, &shape)), at, leading));
        leading += 1;
    }
    tensor
}
