//! Shardings in a module: attributes of the dialect `sdy` (Shardy), by which XLA divides a program among devices.
//!
//! The mesh is a symbol of the module, and each sharding refers to it by name. A member of a sharding in braces lists the
//! axes of the mesh that divide an axis of the tensor. `{?}` leaves the choice to the compiler.

use std::fmt::Write as _;

use pytree_kernels::base::dtype::AbstractArray;

use crate::tensor::device::{MeshAxes, PartitionSpec, Sharding, SpecAxis};

/// How the compiler divides a module among the devices of a mesh.
#[derive(Clone, Debug)]
pub(crate) struct Partitioning {
    pub(crate) mesh: MeshAxes,
    /// The sharding of each input of `main`.
    pub(crate) inputs: Vec<Sharding>,
    /// The sharding of each result of `main`. `None` means that the compiler chooses.
    pub(crate) outputs: Option<Vec<Sharding>>,
}

impl Partitioning {
    /// Returns the attributes of a module with this partitioning, and the operation that defines the mesh.
    pub(super) fn head(&self) -> (String, String) {
        let partitions = self.mesh.replicas();
        let attributes =
            format!("mhlo.num_partitions = {partitions} : i32, mhlo.num_replicas = 1 : i32");
        let axes = self.mesh.axes().iter();
        let axes: Vec<String> = axes
            .map(|(name, length)| format!("\"{}\"={length}", name.escape_default()))
            .collect();
        (
            attributes,
            format!("  sdy.mesh @mesh = <[{}]>\n", axes.join(", ")),
        )
    }

    /// Returns the attribute of an argument of `main`. The arguments after the inputs are constants, which all devices
    /// hold.
    pub(super) fn of_input(&self, position: usize, info: &AbstractArray) -> String {
        let sharding = self.inputs.get(position);
        let spec = sharding.map_or_else(PartitionSpec::default, Sharding::spec);
        format!(" {{sdy.sharding = {}}}", attribute(&spec, info.rank()))
    }

    /// Returns the attribute of a result of `main`. The attribute is empty if the compiler chooses.
    pub(super) fn of_output(&self, position: usize, info: &AbstractArray) -> String {
        let outputs = self.outputs.as_ref();
        let Some(sharding) = outputs.and_then(|outputs| outputs.get(position)) else {
            return String::new();
        };
        let attribute = attribute(&sharding.spec(), info.rank());
        format!(" {{sdy.sharding = {attribute}}}")
    }
}

/// Returns the attribute for a tensor of a rank. Axes of the tensor without a member of the spec are not divided.
pub(super) fn attribute(spec: &PartitionSpec, rank: usize) -> String {
    let mut text = "#sdy.sharding<@mesh, [".to_owned();
    for axis in 0..rank {
        let comma = if axis == 0 { "" } else { ", " };
        let _ = match spec.axes().get(axis) {
            Some(SpecAxis::Unconstrained) => write!(text, "{comma}{{?}}"),
            member => {
                let names = member.map_or(&[][..], SpecAxis::names).iter();
                let names: Vec<String> = names
                    .map(|name| format!("\"{}\"", name.escape_default()))
                    .collect();
                write!(text, "{comma}{{{}}}", names.join(", "))
            }
        };
    }
    text.push_str("]>");
    text
}
