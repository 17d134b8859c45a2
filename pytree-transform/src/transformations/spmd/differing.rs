//! Which results differ between the devices.
//!
//! The recorded function is batched abstractly, with a `vmap` for each axis of the mesh. A result that has the batch axis
//! of such a `vmap` may differ between the devices along the axis.

use pytree_base::bug::pairs;
use pytree_core::kind::{BatchStat, CollectionId};
use pytree_core::{LeafKind, TreeDef};
use pytree_kernels::base::dtype::AbstractArray;

use crate::base::error::or_panic;
use crate::tensor::Tensor;
use crate::tensor::device::MeshAxes;
use crate::tensor::device::Sharding;
use crate::tensor::jaxpr::{INPUTS, Jaxpr};
use crate::tensor::primitive::BatchAxis;
use crate::tensor::stage::stage;
use crate::tensor::trace::{Interpreter, Recorder, Trace};
use crate::transformations::function::Origin;

/// The trace levels that bind the axes of a mesh, the outermost first.
pub(super) struct Levels(Vec<Trace>);

impl Levels {
    /// Begins the levels to record a function, or to find the values that differ between devices.
    pub(super) fn begin(mesh: &MeshAxes) -> Self {
        Self::of(mesh, true)
    }

    /// Begins the levels to compute the function of all devices as one batch.
    pub(super) fn batched(mesh: &MeshAxes) -> Self {
        Self::of(mesh, false)
    }

    fn of(mesh: &MeshAxes, is_mesh: bool) -> Self {
        let level = |(name, length): &(_, usize)| {
            Trace::begin(Interpreter::Batch(BatchAxis {
                size: *length,
                name: Some(std::sync::Arc::clone(name)),
                is_mesh,
            }))
        };
        Self(mesh.axes().iter().map(level).collect())
    }
}

impl Levels {
    /// Returns the part of a device. `stacked` has the parts of all devices, with a leading axis for each axis of the mesh
    /// that divides the tensor.
    pub(super) fn part(&self, stacked: Tensor, sharding: &Sharding) -> Tensor {
        let levels = self.0.iter().enumerate();
        let divided = levels.filter(|(position, _)| sharding.divided(*position).is_some());
        divided.fold(stacked, |tensor, (_, level)| level.batched(tensor, 0))
    }
}

impl Drop for Levels {
    fn drop(&mut self) {
        // The innermost level ends first.
        while self.0.pop().is_some() {}
    }
}

/// Checks that each output is equal on all devices along the axes of the mesh that do not divide the output.
///
/// # Panics
/// Panics if such an output may differ. The message lists all of them.
pub(super) fn check_equal(
    origin: Origin,
    mesh: &MeshAxes,
    jaxpr: &Jaxpr,
    (inputs, outputs): (&[Sharding], &[Sharding]),
    result: &TreeDef,
) {
    let differing = differing(mesh, jaxpr, inputs);
    let mut problems = Vec::new();
    let mut options = Vec::new();
    let mut statistics = String::new();
    let paths = result.leaf_paths();
    let kinds = result.leaf_kinds();
    let statistic = Some(LeafKind::State(CollectionId::of::<BatchStat>()));
    for (leaf, (sharding, differs)) in
        pairs(outputs, &differing, "a flag for each output").enumerate()
    {
        for (position, (name, _)) in mesh.axes().iter().enumerate() {
            if sharding.divided(position).is_some() || !differs[position] {
                continue;
            }
            let info = jaxpr.info(jaxpr.outputs[leaf]);
            problems.push(format!(
                "{} ({info}) differs between the devices of `{name}`, but its axis is `None`",
                paths[leaf].or_root()
            ));
            if kinds[leaf] == statistic && statistics.is_empty() {
                statistics = format!(
                    "give the layer of these statistics the name of the axis, as in `norm.axis_name = Some(\"{name}\".into())`, or "
                );
            }
            let option = format!("`.out_axes(\"{name}\", …)`");
            if !options.contains(&option) {
                options.push(option);
            }
        }
    }
    assert!(
        problems.is_empty(),
        "cannot return from spmd: {}; {statistics}return the same value on all devices, such as a mean by `pmean`, or set the axis with {} ({origin})",
        problems.join("; "),
        options.join(" and ")
    );
}

/// Returns, for each output and each axis of the mesh, whether the output may differ between the devices along the axis.
fn differing(mesh: &MeshAxes, jaxpr: &Jaxpr, inputs: &[Sharding]) -> Vec<Vec<bool>> {
    let axes = mesh.axes();
    let divides = |sharding: &Sharding| -> Vec<usize> {
        let positions = 0..axes.len();
        positions
            .filter(|&position| sharding.divided(position).is_some())
            .collect()
    };
    // The parts of all devices, stacked along one leading axis for each axis of the mesh that divides the input.
    let stacked: Vec<AbstractArray> = pairs(&jaxpr.inputs, inputs, INPUTS)
        .map(|(input, sharding)| {
            let mut info = jaxpr.info(*input).clone();
            for &position in divides(sharding).iter().rev() {
                info.shape.insert(0, axes[position].1);
            }
            info
        })
        .collect();
    let (.., differing) = stage(Recorder::Spmd, &stacked, |tensors| {
        let mut levels = Levels::begin(mesh);
        let parts: Vec<Tensor> = pairs(tensors, inputs, INPUTS)
            .map(|(tensor, sharding)| levels.part(tensor, sharding))
            .collect();
        let mut results = jaxpr.apply(&parts);
        drop(parts);
        let mut differing = vec![vec![false; axes.len()]; results.len()];
        while let Some(level) = levels.0.pop() {
            let position = levels.0.len();
            for (result, differs) in results.iter_mut().zip(&mut differing) {
                let (value, axis) = or_panic(level.unbatched(result));
                *result = value;
                differs[position] = axis.is_some();
            }
        }
        (results, differing)
    });
    differing
}
