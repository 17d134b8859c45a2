//! A mesh: several devices that run one program together.
//!
//! A mesh is a device, so a tensor on a mesh is one tensor with one buffer. The buffer holds a part for each device.

use std::fmt;
use std::sync::Arc;

use pytree_base::bug::expect_some;
use pytree_derive::panicking_twin;

use super::as_device::AsDevice;
use super::axes::MeshAxes;
use super::engine::MeshEngine;
use crate::base::axis_names::AxisName;
use crate::base::device_error::DeviceError;
use crate::base::error::TensorError;
use crate::tensor::device::handle::{Attached, Device};

/// Several devices that can run one program together: those of a client of `pytree-pjrt`, the processes of an
/// `Rc<dyn Communicator>`, or the [host](Device::HOST) alone.
pub trait MeshDevices {
    /// Returns the engine of a mesh. The axes have different names and lengths of at least 1.
    ///
    /// # Errors
    /// Returns an error if there are too few devices.
    fn together(&self, axes: &[(&str, usize)]) -> Result<Box<dyn MeshEngine>, DeviceError>;
}

/// A grid of devices whose axes have names.
///
/// [`spmd`](crate::spmd) runs a function on all devices of a mesh. A mesh is also a [`Device`]:
/// `device_put(&model, &mesh)` puts a model on all devices, and an operation on tensors of a mesh runs on all devices. Each
/// call of [`new`](Self::new) creates a different device, so create a mesh once.
///
/// # Examples
/// With a client of `pytree-pjrt`, and with the processes of `pytree-mpi`:
/// ```ignore
/// let client = Client::load_with(plugin, &Options::new().set("cpu_device_count", 8))?;
/// let mesh = Mesh::new(&client, [("data", 4), ("model", 2)]);
///
/// let processes = Processes::start()?;
/// let mesh = Mesh::new(&processes, [("data", processes.size())]);
/// ```
/// The host alone, to test programs for a mesh:
/// ```
/// use pytree_transform::device::{Device, Mesh};
/// let mesh = Mesh::new(&Device::HOST, [("data", 1)]);
/// assert_eq!(mesh.devices(), 1);
/// ```
#[doc(alias(
    "jax.make_mesh",
    "jax.sharding.Mesh",
    "torch.distributed.device_mesh.DeviceMesh"
))]
#[derive(Clone)]
pub struct Mesh {
    pub(super) device: Device,
}

impl Mesh {
    /// Creates a mesh from the first devices of a client, or from all processes of a run. Each axis has a name and a length.
    /// The number of devices is the product of the lengths. Between neighbouring devices, the position on the last axis
    /// changes fastest.
    ///
    /// # Panics
    /// Panics if there are no axes, if a name is empty, if two axes have the same name, if a length is 0, or if there are too few devices.
    #[panicking_twin(new, Mesh | Device)]
    pub fn try_new<N: AsRef<str>>(
        devices: &impl MeshDevices,
        axes: impl IntoIterator<Item = (N, usize)>,
    ) -> Result<Self, TensorError> {
        let axes = axes.into_iter();
        let axes = axes.map(|(name, length)| (AxisName::from(name.as_ref()), length));
        let axes = MeshAxes::new(axes.collect());
        if let Some((problem, fix)) = problem(&axes) {
            let axes = axes.to_string().into();
            let problem = problem.into();
            return Err(TensorError::Mesh { axes, problem, fix });
        }
        let named: Vec<(&str, usize)> = axes
            .axes()
            .iter()
            .map(|(name, length)| (&**name, *length))
            .collect();
        let operation = format!("make the mesh ({axes})");
        let engine = devices
            .together(&named)
            .map_err(|error| TensorError::of_device(operation, &"these devices", error))?;
        let device = Device::new(AsDevice { engine, axes });
        Ok(Self { device })
    }

    /// Returns the name and the length of each axis.
    pub fn axes(&self) -> impl ExactSizeIterator<Item = (&str, usize)> {
        let axes = self.mesh_axes().axes().iter();
        axes.map(|(name, length)| (&**name, *length))
    }

    /// Returns the number of devices.
    pub fn devices(&self) -> usize {
        self.mesh_axes().replicas()
    }

    /// Returns the mesh as one device.
    pub fn device(&self) -> &Device {
        &self.device
    }

    pub(crate) fn mesh_axes(&self) -> &MeshAxes {
        expect_some(self.device.mesh(), "the axes of a mesh")
    }

    pub(crate) fn attached(&self) -> &Arc<Attached> {
        expect_some(self.device.attached(), "the engine of a mesh")
    }
}

/// Returns the reason why axes are not those of a mesh, and how to fix them.
fn problem(axes: &MeshAxes) -> Option<(String, &'static str)> {
    let axes = axes.axes();
    if axes.is_empty() {
        return Some((
            "it has no axes".to_owned(),
            "pass names with lengths, for instance `[(\"data\", 4)]`",
        ));
    }
    for (position, (name, length)) in axes.iter().enumerate() {
        if name.is_empty() {
            return Some((
                format!("axis {position} has the name \"\""),
                "give each axis a name, for instance `data`",
            ));
        }
        if axes[..position].iter().any(|(other, _)| other == name) {
            return Some((
                format!("two axes have the name `{name}`"),
                "give each axis its own name",
            ));
        }
        if *length == 0 {
            return Some((
                format!("the axis `{name}` has length 0"),
                "pass the number of devices along the axis, at least 1",
            ));
        }
    }
    let devices = axes
        .iter()
        .try_fold(1_usize, |devices, (_, length)| devices.checked_mul(*length));
    if devices.is_none() {
        let problem = "the product of the lengths is out of range".to_owned();
        return Some((problem, "pass the number of devices along each axis"));
    }
    None
}

impl From<&Mesh> for Device {
    /// Returns the mesh as one device.
    fn from(mesh: &Mesh) -> Self {
        mesh.device.clone()
    }
}

impl fmt::Display for Mesh {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.device)
    }
}

impl fmt::Debug for Mesh {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Mesh({})", self.mesh_axes())
    }
}
