//! The shardings of an argument or a result, from the axes that the user gives.

use pytree_base::bug::{expect_at, pairs};
use pytree_core::TreeDef;
use pytree_kernels::base::dtype::AbstractArray;

use crate::base::axis_names::AxisName;
use crate::tensor::Tensor;
use crate::tensor::device::{MeshAxes, Sharding};
use crate::transformations::axes::Axes;
use crate::transformations::batch::{axes_of, from_front};
use crate::transformations::function::Origin;
use crate::transformations::signature::Signature;

/// The axes that the user has set with `in_axes` or `out_axes`.
pub(super) struct Division<'o> {
    pub(super) mesh: &'o MeshAxes,
    pub(super) axes: &'o [(AxisName, Axes)],
    /// The name of the option, for messages.
    pub(super) option: &'static str,
    pub(super) origin: Origin,
}

/// Returns the sharding of each leaf of a value.
///
/// # Panics
/// Panics if the axes are not a prefix tree of the value, or if an axis is out of range. The message lists all leaves
/// whose axis is out of range.
pub(super) fn shardings(
    division: &Division<'_>,
    treedef: &TreeDef,
    leaves: &[Tensor],
) -> Vec<Sharding> {
    let mut shardings = vec![Sharding::replicated(division.mesh); leaves.len()];
    let mut problems = Vec::new();
    for (position, (name, _)) in division.mesh.axes().iter().enumerate() {
        let Some((_, axes)) = division.axes.iter().find(|(known, _)| known == name) else {
            continue;
        };
        let option = format!("{}(\"{name}\", …)", division.option);
        let wanted = axes_of(division.origin, &option, axes, treedef, leaves);
        for (leaf, (tensor, axis)) in pairs(leaves, wanted, "an axis for each leaf").enumerate() {
            let Some(axis) = axis else { continue };
            if let Some(axis) = from_front(axis, tensor.rank()) {
                shardings[leaf].divide(position, axis);
            } else {
                let path = &treedef.leaf_paths()[leaf];
                let info = tensor.info();
                problems.push(format!(
                    "{} ({info}) has no axis {axis}, which `.{option}` divides",
                    path.or_root()
                ));
            }
        }
    }
    assert!(
        problems.is_empty(),
        "cannot spmd: {}; pass an axis of the leaf, or `None` ({})",
        problems.join("; "),
        division.origin
    );
    shardings
}

/// Returns the shape of the part of each leaf that one device gets.
///
/// # Panics
/// Panics if a length is not a multiple of the number of devices. The message lists all such leaves.
pub(super) fn parts_of(
    origin: Origin,
    signature: &Signature,
    shardings: &[Sharding],
) -> Vec<AbstractArray> {
    let mut problems = Vec::new();
    let mut parts = Vec::with_capacity(shardings.len());
    let paths = signature.treedef.leaf_paths();
    for (leaf, (info, sharding)) in
        pairs(&signature.infos, shardings, "a sharding for each leaf").enumerate()
    {
        match sharding.part_of(info) {
            Ok(part) => parts.push(part),
            Err(axis) => {
                let path = expect_at(&paths, leaf, "a path for each leaf");
                problems.push(format!(
                    "axis {axis} of {} ({info}) has length {}, which is not a multiple of the {} devices of {}",
                    path.or_root(),
                    info.shape[axis],
                    sharding.parts(axis),
                    sharding.names(axis)
                ));
            }
        }
    }
    assert!(
        problems.is_empty(),
        "cannot divide the argument of spmd among the devices: {}; pad the axis, or give all devices the whole leaf with `None` ({origin})",
        problems.join("; ")
    );
    parts
}
