//! The shardings of the operands of a program, and the comparison of a spec with a tensor and a mesh.

use pytree_base::suggest::Effort;
use pytree_kernels::base::dtype::AbstractArray;
use smallvec::SmallVec;

use super::axes::MeshAxes;
use super::sharding::Sharding;
use super::spec::{PartitionSpec, SpecAxis};
use crate::base::error::Mistake;
use crate::tensor::handle::Tensor;

/// The shardings of the operands of a program. Operands on the host and operands that are on all devices have no entry,
/// so a program without divided operands needs no memory for its layout.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Layout(SmallVec<[(usize, Sharding); 0]>);

impl Layout {
    /// Returns the layout of a list of operands.
    pub(crate) fn of<'t>(operands: impl IntoIterator<Item = &'t Tensor>) -> Self {
        let divided = operands.into_iter().enumerate();
        let divided = divided.filter_map(|(at, operand)| {
            let array = operand.device_array()?;
            let sharding = array.sharding()?;
            array
                .device
                .divides_programs()
                .then(|| (at, sharding.clone()))
        });
        Self(
            divided
                .filter(|(_, sharding)| !sharding.is_replicated())
                .collect(),
        )
    }

    /// Returns whether all operands are on the host or on all devices.
    pub(crate) fn is_whole(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the sharding of the operand at `position`.
    pub(crate) fn sharding(&self, position: usize, mesh: &MeshAxes) -> Sharding {
        let own = self.0.iter().find(|(at, _)| *at == position);
        own.map_or_else(|| Sharding::replicated(mesh), |(_, own)| own.clone())
    }
}

/// Returns all reasons why a spec cannot divide any tensor. Without a mesh, the names are only compared with each other.
pub(crate) fn problems_of_spec(spec: &PartitionSpec, mesh: Option<&MeshAxes>) -> Vec<Mistake> {
    let mut mistakes = Vec::new();
    if let Some(name) = spec.duplicate() {
        mistakes.push(Mistake::new(
            format!("the spec {spec} names the axis `{name}` of the mesh twice"),
            "name each axis of the mesh once in a spec, because it divides only one axis of a tensor",
        ));
    }
    let Some(mesh) = mesh else { return mistakes };
    for name in spec.axes().iter().flat_map(SpecAxis::names) {
        if mesh.axis(name).is_some() {
            continue;
        }
        let names = mesh.axes().iter().map(|(own, _)| &**own);
        let suggestion = suggestion(name, names);
        mistakes.push(Mistake::new(
            format!(
                "the spec {spec} names the axis `{name}`, but the mesh has the axes ({mesh}){suggestion}"
            ),
            "name axes of the mesh",
        ));
    }
    mistakes
}

/// Returns the most similar of several names as text for messages. The text is empty if no name is similar.
pub(crate) fn suggestion<'n>(name: &str, known: impl Iterator<Item = &'n str>) -> String {
    let known = known.map(|known| (known, known));
    match Effort::default().nearest(name, known) {
        Some((nearest, edits)) if edits * 2 <= name.chars().count() => {
            format!(" (did you mean `{nearest}`?)")
        }
        _ => String::new(),
    }
}

/// Returns all reasons why a tensor does not have the axes and lengths that a spec divides. Without a mesh, only compares
/// the number of axes. `tensor` is the name of the tensor for messages.
pub(crate) fn problems_of_tensor(
    spec: &PartitionSpec,
    mesh: Option<&MeshAxes>,
    (tensor, info): (&str, &AbstractArray),
) -> Vec<Mistake> {
    let mut mistakes = Vec::new();
    let (members, rank) = (spec.axes().len(), info.rank());
    if members > rank {
        let plural = |count: usize, one: &str, more: &str| match count {
            1 => format!("1 {one}"),
            count => format!("{count} {more}"),
        };
        mistakes.push(Mistake::new(
            format!(
                "the spec {spec} has {}, but {tensor} ({info}) has {}",
                plural(members, "member", "members"),
                plural(rank, "axis", "axes")
            ),
            "write at most one member for each axis of the tensor",
        ));
    }
    let Some(mesh) = mesh else { return mistakes };
    for ((axis, member), length) in spec.axes().iter().enumerate().zip(&info.shape) {
        let lengths = member.names().iter().filter_map(|name| mesh.axis(name));
        let parts = lengths.fold(1_usize, |parts, (length, _)| parts.saturating_mul(length));
        if !length.is_multiple_of(parts) {
            let names = member.names().iter().map(|name| format!("`{name}`"));
            let names: Vec<String> = names.collect();
            mistakes.push(Mistake::new(
                format!(
                    "axis {axis} of {tensor} ({info}) has length {length}, which is not a multiple of the {parts} devices of {}",
                    names.join(" × ")
                ),
                "pad the axis, or write `None` for it",
            ));
        }
    }
    mistakes
}

/// Returns all reasons why a spec does not fit a tensor, like [`problems_of_spec`] and [`problems_of_tensor`].
pub(crate) fn problems_of(
    spec: &PartitionSpec,
    mesh: Option<&MeshAxes>,
    tensor: (&str, &AbstractArray),
) -> Vec<Mistake> {
    let mut mistakes = problems_of_spec(spec, mesh);
    mistakes.extend(problems_of_tensor(spec, mesh, tensor));
    mistakes
}
