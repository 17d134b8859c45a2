//! The division of a tensor among the devices of a mesh.
//!
//! A sharding is a `PartitionSpec` on a mesh. It stores for each axis of the mesh which axis of the tensor it
//! divides, and its depth if several axes divide the same one. Parts have equal lengths. Row-major order gives a device its position.

use std::fmt;
use std::ops::Range;

use pytree_base::bug::expect_some;
use pytree_kernels::base::dtype::AbstractArray;
use smallvec::SmallVec;

use super::axes::MeshAxes;
use super::spec::{PartitionSpec, SpecAxis};
use crate::base::axis_names::AxisName;

/// How a tensor is divided among the devices of a [`Mesh`](crate::device::Mesh): a [`PartitionSpec`] on a mesh. The library
/// makes it from a spec; only engines need its functions other than [`spec`](Self::spec).
///
/// An axis of the mesh either divides one axis of the tensor into parts of equal length, or none. In the second case the
/// devices along this axis of the mesh hold the same elements. If several axes of the mesh divide the same axis of the
/// tensor, they have an order, and the position on the last of them changes fastest.
///
/// The devices are numbered in row-major order: between neighbours, the position on the last axis of the mesh changes
/// fastest.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Sharding {
    axes: SmallVec<[ShardedAxis; 2]>,
}

/// An axis of the mesh, and the axis of the tensor that it divides.
#[derive(Clone, PartialEq, Eq, Hash)]
struct ShardedAxis {
    name: AxisName,
    devices: usize,
    divided: Option<usize>,
    /// The number of axes of the mesh that divide the same axis of the tensor and are outside of this one.
    depth: usize,
}

impl Sharding {
    /// Returns the sharding of a tensor whose elements are on all devices of a mesh.
    pub(crate) fn replicated(mesh: &MeshAxes) -> Self {
        let whole = |(name, devices): &(AxisName, usize)| ShardedAxis {
            name: name.clone(),
            devices: *devices,
            divided: None,
            depth: 0,
        };
        Self {
            axes: mesh.axes().iter().map(whole).collect(),
        }
    }

    /// Returns the sharding of a tensor whose elements are on all devices of a mesh with the given names and lengths of
    /// axes.
    pub fn whole(axes: &[(&str, usize)]) -> Self {
        let axes = axes
            .iter()
            .map(|(name, devices)| ((*name).into(), *devices));
        Self::replicated(&MeshAxes::new(axes.collect()))
    }

    /// Returns the sharding that a spec describes on a mesh with these axes. Returns `None` if the spec names an axis that
    /// the mesh does not have, or an axis twice. A member of the spec that leaves the choice to the compiler divides
    /// nothing.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::device::{PartitionSpec, Sharding};
    /// let mesh = [("data", 2), ("model", 4)];
    /// let sharding = Sharding::of_spec(&mesh, &PartitionSpec::from((None, "model"))).unwrap();
    /// assert_eq!((sharding.parts(0), sharding.parts(1)), (1, 4));
    /// assert_eq!(Sharding::of_spec(&mesh, &PartitionSpec::from("pipeline")), None);
    /// ```
    pub fn of_spec<N: AsRef<str>>(mesh: &[(N, usize)], spec: &PartitionSpec) -> Option<Self> {
        let axes = mesh.iter();
        let axes = axes.map(|(name, length)| (AxisName::from(name.as_ref()), *length));
        let mut sharding = Self::replicated(&MeshAxes::new(axes.collect()));
        for (divided, axis) in spec.axes().iter().enumerate() {
            for name in axis.names() {
                let position = sharding.axes.iter().position(|own| own.name == *name)?;
                if sharding.divided(position).is_some() {
                    return None;
                }
                sharding.divide(position, divided);
            }
        }
        Some(sharding)
    }

    /// Divides an axis of the tensor by the axis of the mesh at `position`. Axes of the mesh that already divide the same
    /// axis are outside of this one.
    pub(crate) fn divide(&mut self, position: usize, divided: usize) {
        let depth = self.dividing(divided).len();
        let axis = &mut self.axes[position];
        (axis.divided, axis.depth) = (Some(divided), depth);
    }

    /// Returns the axis of the tensor that the axis of the mesh at `position` divides.
    pub(crate) fn divided(&self, position: usize) -> Option<usize> {
        self.axes[position].divided
    }

    /// Returns the number of devices.
    pub fn devices(&self) -> usize {
        self.axes.iter().map(|axis| axis.devices).product()
    }

    /// Returns whether all devices hold all elements.
    pub fn is_replicated(&self) -> bool {
        self.axes.iter().all(|axis| axis.divided.is_none())
    }

    /// Returns the number of parts along an axis of the tensor.
    pub fn parts(&self, axis: usize) -> usize {
        let dividing = self.axes.iter().filter(|own| own.divided == Some(axis));
        dividing.map(|own| own.devices).product()
    }

    /// Returns the position of a device's part along an axis of the tensor. The position is less than the number of
    /// [`parts`](Self::parts).
    pub fn position(&self, device: usize, axis: usize) -> usize {
        let place = |own: &ShardedAxis| {
            let inner = self
                .axes
                .iter()
                .rev()
                .take_while(|other| other.name != own.name);
            let stride: usize = inner.map(|other| other.devices).product();
            device / stride % own.devices
        };
        let dividing = self.dividing(axis).into_iter();
        dividing.fold(0, |position, own| position * own.devices + place(own))
    }

    /// Returns the spec of the sharding.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::device::{PartitionSpec, Sharding};
    /// let spec = PartitionSpec::from((None, ("model", "data")));
    /// let sharding = Sharding::of_spec(&[("data", 2), ("model", 4)], &spec).unwrap();
    /// assert_eq!(sharding.spec(), spec);
    /// ```
    pub fn spec(&self) -> PartitionSpec {
        let divided = self.axes.iter().filter_map(|axis| axis.divided);
        let count = divided.max().map_or(0, |last| last + 1);
        let names = |axis| self.dividing(axis).into_iter().map(|own| own.name.clone());
        (0..count)
            .map(|axis| SpecAxis::Along(names(axis).collect()))
            .collect()
    }

    /// Returns the range of each axis of a tensor that a device holds. `shape` is the shape of the whole tensor. The
    /// lengths of divided axes must be multiples of their number of [`parts`](Self::parts).
    pub fn index(&self, device: usize, shape: &[usize]) -> Vec<Range<usize>> {
        let range = |(axis, &length): (usize, &usize)| {
            let part = length / self.parts(axis);
            let start = self.position(device, axis) * part;
            start..start + part
        };
        shape.iter().enumerate().map(range).collect()
    }

    /// Returns how many devices with a lower number hold the same part of a tensor with `rank` axes.
    pub fn replica(&self, device: usize, rank: usize) -> usize {
        let has_same_part = |other: &usize| {
            (0..rank).all(|axis| self.position(*other, axis) == self.position(device, axis))
        };
        (0..device).filter(has_same_part).count()
    }

    /// Returns the axes of the mesh.
    pub(super) fn mesh_axes(&self) -> MeshAxes {
        let axes = self.axes.iter();
        MeshAxes::new(axes.map(|axis| (axis.name.clone(), axis.devices)).collect())
    }

    /// Returns the names of the axes of the mesh that divide an axis of the tensor, for messages.
    pub(crate) fn names(&self, axis: usize) -> String {
        let names = self.dividing(axis).into_iter();
        let names = names.map(|axis| format!("`{}`", axis.name));
        names.collect::<Vec<_>>().join(" × ")
    }

    /// Returns the axes of the mesh that divide an axis of the tensor, the outermost first.
    fn dividing(&self, axis: usize) -> SmallVec<[&ShardedAxis; 2]> {
        let own = self.axes.iter().filter(|own| own.divided == Some(axis));
        let mut own: SmallVec<[&ShardedAxis; 2]> = own.collect();
        own.sort_by_key(|own| own.depth);
        own
    }

    /// Returns the shape of a part, or the first axis whose length is not a multiple of its number of parts.
    pub(crate) fn part_of(&self, whole: &AbstractArray) -> Result<AbstractArray, usize> {
        let mut part = whole.clone();
        for (axis, length) in part.shape.iter_mut().enumerate() {
            let parts = self.parts(axis);
            if !length.is_multiple_of(parts) {
                return Err(axis);
            }
            *length /= parts;
        }
        Ok(part)
    }

    /// Returns the shape of a tensor whose parts have the given shape.
    pub(crate) fn whole_of(&self, part: &AbstractArray) -> AbstractArray {
        let mut whole = part.clone();
        for (axis, length) in whole.shape.iter_mut().enumerate() {
            *length = expect_some(
                length.checked_mul(self.parts(axis)),
                "a length that `usize` holds",
            );
        }
        whole
    }
}

impl fmt::Debug for Sharding {
    /// Writes the spec and the axes of the mesh, for instance `Sharding((None, "model") on data: 2, model: 4)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sharding({} on {})", self.spec(), self.mesh_axes())
    }
}

#[cfg(test)]
mod tests {
    use pytree_kernels::base::dtype::DType;

    use super::*;

    fn sharding(divided: [Option<usize>; 2]) -> Sharding {
        let mesh = MeshAxes::new(vec![("data".into(), 2), ("model".into(), 3)]);
        let mut sharding = Sharding::replicated(&mesh);
        for (position, axis) in divided.into_iter().enumerate() {
            if let Some(axis) = axis {
                sharding.divide(position, axis);
            }
        }
        sharding
    }

    fn positions(sharding: &Sharding, axis: usize) -> Vec<usize> {
        let devices = 0..sharding.devices();
        devices
            .map(|device| sharding.position(device, axis))
            .collect()
    }

    #[test]
    fn devices_are_in_row_major_order() {
        let both = sharding([Some(0), Some(1)]);
        assert_eq!(positions(&both, 0), [0, 0, 0, 1, 1, 1]);
        assert_eq!(positions(&both, 1), [0, 1, 2, 0, 1, 2]);
        let same = sharding([Some(1), Some(1)]);
        assert_eq!(positions(&same, 1), [0, 1, 2, 3, 4, 5]);
        assert_eq!(positions(&same, 0), [0; 6]);
    }

    #[test]
    fn first_named_axis_is_outermost() {
        let mesh = [("data", 2), ("model", 3)];
        let of = |spec: PartitionSpec| Sharding::of_spec(&mesh, &spec).unwrap();
        let inner = of([["model", "data"]].into());
        assert_eq!(positions(&inner, 0), [0, 2, 4, 1, 3, 5]);
        assert_eq!(inner.names(0), "`model` × `data`");
        assert_ne!(inner, of([["data", "model"]].into()));
        assert_eq!(of([["data", "model"]].into()), sharding([Some(0), Some(0)]));
        assert_eq!(Sharding::of_spec(&mesh, &["data", "data"].into()), None);
    }

    #[test]
    fn devices_hold_ranges_and_replicas() {
        let columns = sharding([None, Some(1)]);
        assert_eq!(columns.index(4, &[5, 6]), [0..5, 2..4]);
        let replicas: Vec<usize> = (0..6).map(|device| columns.replica(device, 2)).collect();
        assert_eq!(replicas, [0, 0, 0, 1, 1, 1]);
        let rows = sharding([Some(0), None]);
        let replicas: Vec<usize> = (0..6).map(|device| rows.replica(device, 2)).collect();
        assert_eq!(replicas, [0, 1, 2, 0, 1, 2]);
        assert_eq!(
            Sharding::whole(&[("data", 2), ("model", 3)]).replica(5, 0),
            5
        );
    }

    #[test]
    fn lengths_must_be_multiples() {
        let both = sharding([Some(0), Some(0)]);
        let array = |shape: [usize; 2]| AbstractArray::new(DType::F32, shape);
        assert_eq!(both.part_of(&array([12, 5])), Ok(array([2, 5])));
        assert_eq!(both.whole_of(&array([2, 5])), array([12, 5]));
        assert_eq!(both.part_of(&array([9, 5])), Err(0));
        assert_eq!(both.names(0), "`data` × `model`");
        let shown = r#"Sharding((("data", "model"),) on data: 2, model: 3)"#;
        assert_eq!(format!("{both:?}"), shown);
        assert!(sharding([None, None]).is_replicated() && !both.is_replicated());
    }
}
