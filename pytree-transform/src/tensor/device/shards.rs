//! The shards of a tensor: the parts that devices hold, one at a time.
//!
//! Reading and writing tensors by shards never needs the memory of a whole tensor. So checkpoints of models on a mesh use
//! these functions.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use pytree_core::bug::expect_some;
use pytree_derive::panicking_twin;

use super::{Attached, Device, DeviceArray, Mesh, Sharding};
use crate::base::device_error::DeviceError;
use crate::base::dtype::AbstractArray;
use crate::base::error::{TensorError, or_panic};
use crate::tensor::Tensor;

/// The part of a tensor that one device holds: see [`Tensor::shards`].
#[derive(Clone)]
pub struct Shard<'t> {
    tensor: &'t Tensor,
    device: usize,
    index: Vec<Range<usize>>,
    replica: usize,
}

impl Shard<'_> {
    /// Returns the number of the device in its mesh, in row-major order. Returns 0 for a tensor that is not on a mesh.
    pub fn device(&self) -> usize {
        self.device
    }

    /// Returns the range of each axis of the tensor that the device holds.
    pub fn index(&self) -> &[Range<usize>] {
        &self.index
    }

    /// Returns how many devices with a lower number hold the same part. So the shards with the number 0 are the whole
    /// tensor, without repetitions.
    pub fn replica(&self) -> usize {
        self.replica
    }

    /// Returns the elements of the part as a tensor on the host. Waits until they are computed. Each call transfers them
    /// from the device, and nothing keeps them.
    ///
    /// # Panics
    /// Panics if the device reports an error.
    #[panicking_twin(read, Device)]
    pub fn try_read(&self) -> Result<Tensor, TensorError> {
        match self.tensor.device_array() {
            Some(array) => array.read_part(self.device, &self.part()),
            None => Ok(self.tensor.clone()),
        }
    }

    /// Returns the dtype and the shape of the part.
    fn part(&self) -> AbstractArray {
        part_at(self.tensor.info(), &self.index)
    }
}

impl fmt::Debug for Shard<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shard")
            .field("device", &self.device)
            .field("index", &self.index)
            .field("replica", &self.replica)
            .finish()
    }
}

/// Returns the dtype and the shape of the part of an array at an index.
fn part_at(whole: &AbstractArray, index: &[Range<usize>]) -> AbstractArray {
    AbstractArray::new(
        whole.dtype,
        index.iter().map(Range::len).collect::<Vec<_>>(),
    )
}

impl Tensor {
    /// Returns how the tensor is divided among the devices of its mesh. Returns `None` for a tensor that is traced, on
    /// the host, or on a single device.
    pub fn sharding(&self) -> Option<&Sharding> {
        self.device_array()?.sharding()
    }

    /// Returns the parts of the tensor that devices of this process hold, in the order of the devices. A tensor on the
    /// host or on a single device has one shard, the whole tensor. JAX calls the shards `addressable_shards`.
    ///
    /// [`Shard::read`] transfers a single part. To read each element once, skip the shards whose
    /// [`replica`](Shard::replica) is not 0.
    ///
    /// # Panics
    /// Panics if the tensor is traced.
    ///
    /// # Examples
    /// With a mesh of one device, which holds both halves of the tensor:
    /// ```
    /// use pytree_transform::Tensor;
    /// use pytree_transform::device::{Device, Mesh};
    /// let mesh = Mesh::new(&Device::HOST, [("data", 1)]);
    /// let x = mesh.put(&Tensor::from([1.0_f32, 2.0]), &mesh.sharding([("data", 0)]));
    /// let own = &x.shards()[0];
    /// assert_eq!((own.device(), own.index()), (0, &[0..2][..]));
    /// assert_eq!(own.read().to_vec::<f32>(), [1.0, 2.0]);
    /// ```
    #[panicking_twin(shards, Traced)]
    pub fn try_shards(&self) -> Result<Vec<Shard<'_>>, TensorError> {
        if self.is_traced() {
            // The error of the transformation that traces the tensor. `grad` knows the value, but not its parts.
            self.value()?;
        }
        let whole = || self.shape().iter().map(|&length| 0..length).collect();
        let Some((array, sharding)) = self
            .device_array()
            .and_then(|array| Some((array, array.sharding()?)))
        else {
            return Ok(vec![Shard {
                tensor: self,
                device: 0,
                index: whole(),
                replica: 0,
            }]);
        };
        let devices = (0..sharding.devices()).filter(|&device| array.device.is_addressable(device));
        let shard = |device| Shard {
            tensor: self,
            device,
            index: sharding.index(device, self.shape()),
            replica: sharding.replica(device, self.rank()),
        };
        Ok(devices.map(shard).collect())
    }
}

impl Tensor {
    /// Returns a tensor of the same dtype and shape on the same device, with other elements. On a mesh, it also has the same
    /// sharding, and `part` is called as for [`Mesh::tensor_from_callback`]: once for each part that devices of this process
    /// hold, with the range of each axis. Elsewhere, `part` is called once, with the whole range of each axis. The elements
    /// of a traced tensor are replaced by a tensor on the host.
    ///
    /// # Errors
    /// Returns the error of `part`, [`TensorError::Shape`] if `part` returns a tensor of another dtype or shape, or
    /// [`TensorError::Device`] if a device reports an error.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::{Tensor, TensorError};
    /// let x = Tensor::from([1.0_f32, 2.0]);
    /// let y = x.try_refilled(|index| {
    ///     assert_eq!(index, [0..2]);
    ///     Ok::<_, TensorError>(Tensor::from([3.0_f32, 4.0]))
    /// })?;
    /// assert_eq!(y.to_vec::<f32>(), [3.0, 4.0]);
    /// # Ok::<(), TensorError>(())
    /// ```
    pub fn try_refilled<E: From<TensorError>>(
        &self,
        mut part: impl FnMut(&[Range<usize>]) -> Result<Tensor, E>,
    ) -> Result<Tensor, E> {
        let array = self.device_array();
        if let Some(array) = array
            && let (Some(device), Some(sharding)) = (array.device.attached(), array.sharding())
        {
            return device.tensor_from_parts(self.info(), sharding, part);
        }
        let whole: Vec<Range<usize>> = self.shape().iter().map(|&length| 0..length).collect();
        let elements = checked(self.info(), &whole, part(&whole)?)?;
        Ok(match array {
            Some(array) => array.device.put(&elements)?,
            None => elements,
        })
    }

    /// Returns this tensor where `other` is: on the same device and, on a mesh, with the same sharding. If `other` is traced,
    /// returns this tensor on the host.
    ///
    /// # Panics
    /// Panics if this tensor is traced, if it cannot be divided like `other`, or if a device reports an error.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// let x = Tensor::from([1.0_f32, 2.0]);
    /// assert!(x.put_like(&Tensor::from(0)).device().is_host());
    /// ```
    #[must_use]
    #[panicking_twin(put_like, Traced | Sharding | Device)]
    pub fn try_put_like(&self, other: &Tensor) -> Result<Tensor, TensorError> {
        let Some(array) = other.device_array() else {
            return self.try_to_host();
        };
        let (Some(device), Some(sharding)) = (array.device.attached(), array.sharding()) else {
            return array.device.put(self);
        };
        if self.sharding() == Some(sharding) && self.try_device()? == &array.device {
            return Ok(self.clone());
        }
        if let Some(problem) = misfit(self.info(), sharding) {
            let fix = "put it on one device, or divide another axis";
            let axes = array.device.name().into();
            let problem = problem.into();
            return Err(TensorError::Sharding { axes, problem, fix });
        }
        let host = self.try_to_host()?;
        device
            .sharded_array_of(host, sharding)
            .map(Tensor::on_device)
    }
}

/// Returns a part on the host, after a check of its dtype and shape.
fn checked(
    whole: &AbstractArray,
    index: &[Range<usize>],
    part: Tensor,
) -> Result<Tensor, TensorError> {
    let part = part.try_to_host()?;
    let expected = part_at(whole, index);
    if *part.info() == expected {
        return Ok(part);
    }
    let problem = format!("the part {index:?} of {whole} is {expected}");
    let fix = "return the elements of the given ranges";
    Err(TensorError::shape(
        "use as a part",
        &[part.info()],
        problem,
        fix,
    ))
}

/// Returns the reason why a sharding does not divide an array into equal parts.
fn misfit(whole: &AbstractArray, sharding: &Sharding) -> Option<String> {
    if let Some(axis) = sharding.first_outside(whole.rank()) {
        let names = sharding.names(axis);
        return Some(format!(
            "{names} divides axis {axis}, which {whole} has not"
        ));
    }
    let axis = sharding.part_of(whole).err()?;
    let (names, parts, length) = (
        sharding.names(axis),
        sharding.parts(axis),
        whole.shape[axis],
    );
    Some(format!(
        "axis {axis} of {whole} has length {length}, which is not a multiple of the {parts} devices of {names}"
    ))
}

impl Attached {
    /// Returns a tensor on this device, which is a mesh, from its parts.
    fn tensor_from_parts<E: From<TensorError>>(
        self: &Arc<Self>,
        whole: &AbstractArray,
        sharding: &Sharding,
        mut part: impl FnMut(&[Range<usize>]) -> Result<Tensor, E>,
    ) -> Result<Tensor, E> {
        let mut failed = None;
        let array = self.array_from_parts(whole, sharding, &mut |index| {
            let part = part(index).and_then(|part| Ok(checked(whole, index, part)?));
            part.map_err(|error| {
                failed = Some(error);
                DeviceError::failed("a part of the tensor could not be made")
            })
        });
        match (failed, array) {
            (Some(error), _) => Err(error),
            (None, array) => Ok(Tensor::on_device(array?.into())),
        }
    }
}

impl DeviceArray {
    /// Returns the part of one device on the host, and checks its dtype and shape.
    fn read_part(&self, device: usize, expected: &AbstractArray) -> Result<Tensor, TensorError> {
        let read = || {
            let _host = super::on_host();
            let part = self.buffer().read_part(device)?;
            if part.info() != expected || part.array().is_none() {
                let found = part.info();
                return Err(DeviceError::failed(format!(
                    "its engine returned {found} for a part of {expected}; this is a mistake in the engine"
                )));
            }
            Ok(part)
        };
        read().map_err(|error| self.failed("read a part of", error))
    }
}

impl Device {
    /// Returns whether this process holds the parts of a device of this mesh.
    pub(crate) fn is_addressable(&self, device: usize) -> bool {
        self.attached()
            .is_none_or(|attached| attached.engine.is_addressable(device))
    }
}

impl Mesh {
    /// Returns the mesh of a tensor. Returns `None` for a tensor that is traced, on the host, or on a single device.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// use pytree_transform::device::{Device, Mesh, device_put};
    /// let mesh = Mesh::new(&Device::HOST, [("data", 1)]);
    /// let x = device_put(&Tensor::from([1.0_f32, 2.0]), &mesh);
    /// assert_eq!(Mesh::of(&x).map(|mesh| mesh.devices()), Some(1));
    /// ```
    pub fn of(tensor: &Tensor) -> Option<Self> {
        let array = tensor.device_array()?;
        let axes = array.sharding()?.mesh_axes();
        Some(Self::from_parts(array.device.clone(), axes))
    }

    /// Returns the numbers of the devices whose parts this process holds, in ascending order.
    pub fn own_devices(&self) -> impl Iterator<Item = usize> {
        (0..self.devices()).filter(|&device| self.device().is_addressable(device))
    }

    /// Returns the sharding that divides axes of a tensor. Each pair is the name of an axis of this mesh and the axis of
    /// the tensor that is divided along it. Other axes of the mesh divide nothing: their devices hold the same elements.
    ///
    /// # Panics
    /// Panics if the mesh has no axis of this name, or if an axis of the mesh is given twice.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::device::{Device, Mesh};
    /// let mesh = Mesh::new(&Device::HOST, [("data", 1), ("model", 1)]);
    /// let by_columns = mesh.sharding([("model", 1)]);
    /// assert_eq!(format!("{by_columns:?}"), "Sharding(data: None, model: 1)");
    /// ```
    #[panicking_twin(sharding, Sharding)]
    pub fn try_sharding<N: AsRef<str>>(
        &self,
        divided: impl IntoIterator<Item = (N, usize)>,
    ) -> Result<Sharding, TensorError> {
        let mut sharding = Sharding::replicated(self.mesh_axes());
        for (name, axis) in divided {
            let name = name.as_ref();
            let Some(position) = self.axes().position(|(known, _)| known == name) else {
                let problem = format!("it has no axis `{name}`");
                return Err(self.not_divided(problem, "name an axis of the mesh"));
            };
            if sharding.divided(position).is_some() {
                let problem = format!("its axis `{name}` is given twice");
                let fix = "divide one axis of the tensor along each axis of the mesh";
                return Err(self.not_divided(problem, fix));
            }
            sharding.divide(position, axis);
        }
        Ok(sharding)
    }

    /// Returns a tensor with the same elements, which is divided among the devices of this mesh. A tensor that has this
    /// sharding is returned unchanged. A tensor on another device, or with another sharding, is transferred through the
    /// host.
    ///
    /// # Panics
    /// Panics if the tensor is traced, if the sharding belongs to another mesh, if it divides an axis that the tensor has
    /// not, if the length of an axis is not a multiple of its number of parts, or if a device reports an error.
    #[panicking_twin(put, Sharding | Traced | Device)]
    pub fn try_put(&self, tensor: &Tensor, sharding: &Sharding) -> Result<Tensor, TensorError> {
        self.check(tensor.info(), sharding)?;
        if tensor.try_device()? == self.device() && tensor.sharding() == Some(sharding) {
            return Ok(tensor.clone());
        }
        let host = tensor.try_to_host()?;
        let device = expect_some(self.device().attached(), "the engine of a mesh");
        device
            .sharded_array_of(host, sharding)
            .map(Tensor::on_device)
    }

    /// Returns a tensor on this mesh from its parts. `part` is called with the range of each axis, once for each part
    /// that devices of this process hold, and returns the elements of these ranges. So no process needs the memory of the
    /// whole tensor. JAX calls this function `make_array_from_callback`.
    ///
    /// `whole` is the dtype and the shape of the whole tensor.
    ///
    /// # Panics
    /// Panics if the sharding belongs to another mesh or does not divide `whole` into equal parts, if `part` returns a
    /// tensor of another dtype or shape, or if a device reports an error.
    ///
    /// # Examples
    /// On a mesh of four devices, the function would be called four times, each time for two rows:
    /// ```
    /// use pytree_transform::device::{Device, Mesh};
    /// use pytree_transform::{AbstractArray, DType, Tensor};
    /// let mesh = Mesh::new(&Device::HOST, [("data", 1)]);
    /// let whole = AbstractArray::new(DType::F32, [8, 100]);
    /// let x = mesh.tensor_from_callback(&whole, &mesh.sharding([("data", 0)]), |index| {
    ///     // A program would read these rows of a file.
    ///     Tensor::ones(DType::F32, [index[0].len(), 100])
    /// });
    /// assert_eq!(x.shape(), [8, 100]);
    /// ```
    pub fn tensor_from_callback(
        &self,
        whole: &AbstractArray,
        sharding: &Sharding,
        mut part: impl FnMut(&[Range<usize>]) -> Tensor,
    ) -> Tensor {
        or_panic(self.try_tensor_from_callback(whole, sharding, |index| {
            Ok::<Tensor, TensorError>(part(index))
        }))
    }

    /// Like [`tensor_from_callback`](Self::tensor_from_callback), with a function that may fail.
    ///
    /// # Errors
    /// Returns the error of `part`, [`TensorError::Sharding`] if the sharding or a part does not fit, or
    /// [`TensorError::Device`] if a device reports an error.
    pub fn try_tensor_from_callback<E: From<TensorError>>(
        &self,
        whole: &AbstractArray,
        sharding: &Sharding,
        part: impl FnMut(&[Range<usize>]) -> Result<Tensor, E>,
    ) -> Result<Tensor, E> {
        self.check(whole, sharding)?;
        let device = expect_some(self.device().attached(), "the engine of a mesh");
        device.tensor_from_parts(whole, sharding, part)
    }

    /// Checks that a sharding belongs to this mesh and divides an array into equal parts.
    fn check(&self, whole: &AbstractArray, sharding: &Sharding) -> Result<(), TensorError> {
        if !sharding.is_of(self.mesh_axes()) {
            let problem = format!("{sharding:?} belongs to a mesh with other axes");
            return Err(self.not_divided(problem, "create it with `Mesh::sharding` of this mesh"));
        }
        match misfit(whole, sharding) {
            Some(problem) => {
                Err(self.not_divided(problem, "divide another axis, or change its length"))
            }
            None => Ok(()),
        }
    }

    pub(crate) fn not_divided(&self, problem: String, fix: &'static str) -> TensorError {
        TensorError::Sharding {
            axes: self.mesh_axes().to_string().into(),
            problem: problem.into(),
            fix,
        }
    }
}
