//! The shards of a tensor: the parts that devices hold, one at a time.
//!
//! Reading and writing tensors by shards never needs the memory of a whole tensor. So checkpoints of models on a mesh use
//! these functions.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use pytree_derive::panicking_twin;
use pytree_kernels::base::dtype::AbstractArray;

use super::handle::Mesh;
use super::layout::problems_of;
use super::sharding::Sharding;
use super::spec::PartitionSpec;
use crate::base::device_error::DeviceError;
use crate::base::error::{Mistake, TensorError, or_panic};
use crate::tensor::device::array::DeviceArray;
use crate::tensor::device::current::on_host;
use crate::tensor::device::handle::Attached;
use crate::tensor::handle::Tensor;

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
    /// the host, or on a single device. [`Sharding::spec`] returns the spec.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// use pytree_transform::device::{Device, Mesh, device_put};
    /// let mesh = Mesh::new(&Device::HOST, [("data", 1)]);
    /// let x = device_put(&Tensor::from([1.0_f32, 2.0]), mesh.divided("data"));
    /// assert_eq!(x.sharding().unwrap().spec(), "data".into());
    /// ```
    #[doc(alias = "jax.Array.sharding")]
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
    /// use pytree_transform::device::{Device, Mesh, device_put};
    /// let mesh = Mesh::new(&Device::HOST, [("data", 1)]);
    /// let x = device_put(&Tensor::from([1.0_f32, 2.0]), mesh.divided("data"));
    /// let own = &x.shards()[0];
    /// assert_eq!((own.device(), own.index()), (0, &[0..2][..]));
    /// assert_eq!(own.read().to_vec::<f32>(), [1.0, 2.0]);
    /// ```
    #[doc(alias = "jax.Array.addressable_shards")]
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
        let Some(sharding) = array.sharding() else {
            return array.device.put(self);
        };
        if self.sharding() == Some(sharding) && self.try_device()? == &array.device {
            return Ok(self.clone());
        }
        let mesh = sharding.mesh_axes();
        let mistakes = problems_of(&sharding.spec(), Some(&mesh), ("the tensor", self.info()));
        if !mistakes.is_empty() {
            let (own, other, device) = (self.info(), other.info(), &array.device);
            let operation = format!("put {own} where {other} is on {device}");
            let fix = "put it on one device, or divide another axis";
            let mistake = Mistake::new(Mistake::joined(mistakes).problem, fix);
            return Err(TensorError::sharding(operation, vec![mistake]));
        }
        let host = self.try_to_host()?;
        array.device.put_sharded(&host, sharding)
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

impl Mesh {
    /// Compares the dtypes and shapes of the parts that the processes of this mesh pass.
    pub(crate) fn compare_parts(&self, local: &AbstractArray) -> Result<(), TensorError> {
        let compared = self.attached().compare_parts(local);
        compared.map_err(|error| {
            let operation = format!("compare {local} with the parts of other processes");
            TensorError::of_device(operation, self.device(), error)
        })
    }
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
            let _host = on_host();
            let buffer = self.buffer();
            let part = match buffer.on_mesh() {
                Some(parts) => parts.read_part(device)?,
                None => buffer.read()?,
            };
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
        let device = tensor.device_array()?.device.clone();
        device.mesh().is_some().then_some(Self { device })
    }

    /// Returns the numbers of the devices whose parts this process holds, in ascending order.
    pub fn own_devices(&self) -> impl Iterator<Item = usize> {
        (0..self.devices()).filter(|&device| self.device().is_addressable(device))
    }

    /// Returns a tensor on this mesh from its parts. `part` is called with the range of each axis, once for each part
    /// that devices of this process hold, and returns the elements of these ranges. So no process needs the memory of the
    /// whole tensor. JAX calls this function `make_array_from_callback`.
    ///
    /// `whole` is the dtype and the shape of the whole tensor. The spec has a member for each axis of the tensor, as in
    /// [`Mesh::divided`].
    ///
    /// # Panics
    /// Panics if the spec names an axis that the mesh does not have or has more members than `whole` has axes, if a length
    /// is not a multiple of the number of devices, if `part` returns a tensor of another dtype or shape, or if a device
    /// reports an error.
    ///
    /// # Examples
    /// On a mesh of four devices, the function would be called four times, each time for two rows:
    /// ```
    /// use pytree_transform::device::{Device, Mesh};
    /// use pytree_transform::{AbstractArray, DType, Tensor};
    /// let mesh = Mesh::new(&Device::HOST, [("data", 1)]);
    /// let whole = AbstractArray::new(DType::F32, [8, 100]);
    /// let x = mesh.tensor_from_callback(&whole, "data", |index| {
    ///     // A program would read these rows of a file.
    ///     Tensor::ones(DType::F32, [index[0].len(), 100])
    /// });
    /// assert_eq!(x.shape(), [8, 100]);
    /// ```
    #[doc(alias = "jax.make_array_from_callback")]
    #[track_caller]
    pub fn tensor_from_callback(
        &self,
        whole: &AbstractArray,
        spec: impl Into<PartitionSpec>,
        mut part: impl FnMut(&[Range<usize>]) -> Tensor,
    ) -> Tensor {
        or_panic(
            self.try_tensor_from_callback(whole, spec, |index| {
                Ok::<Tensor, TensorError>(part(index))
            }),
        )
    }

    /// Like [`tensor_from_callback`](Self::tensor_from_callback), with a function that may fail.
    ///
    /// # Errors
    /// Returns the error of `part`, [`TensorError::Sharding`] if the spec does not fit the mesh or `whole`,
    /// [`TensorError::Shape`] if `part` returns a tensor of another dtype or shape, or [`TensorError::Device`] if a device
    /// reports an error.
    pub fn try_tensor_from_callback<E: From<TensorError>>(
        &self,
        whole: &AbstractArray,
        spec: impl Into<PartitionSpec>,
        part: impl FnMut(&[Range<usize>]) -> Result<Tensor, E>,
    ) -> Result<Tensor, E> {
        let (spec, axes) = (spec.into(), self.mesh_axes());
        let mistakes = problems_of(&spec, Some(axes), ("the tensor", whole));
        let sharding = match Sharding::of_spec(axes.axes(), &spec) {
            Some(sharding) if mistakes.is_empty() => sharding,
            _ => {
                let operation = format!("make {whole} on {self}");
                return Err(TensorError::sharding(operation, mistakes).into());
            }
        };
        self.attached().tensor_from_parts(whole, &sharding, part)
    }
}
