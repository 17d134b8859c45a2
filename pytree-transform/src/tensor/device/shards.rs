//! The shards of a tensor: the parts that devices hold, one at a time.
//!
//! Reading and writing tensors by shards never needs the memory of a whole tensor. So checkpoints of models on a mesh use
//! these functions.

use std::fmt;
use std::ops::Range;

use pytree_core::bug::expect_some;
use pytree_derive::panicking_twin;

use super::{Device, DeviceArray, Mesh, Sharding};
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
    /// With a mesh of two devices:
    /// ```ignore
    /// let x = mesh.put(&Tensor::from([1.0_f32, 2.0, 3.0, 4.0]), &mesh.sharding([("data", 0)]));
    /// let second = &x.shards()[1];
    /// assert_eq!(second.index(), [2..4]);
    /// assert_eq!(second.read().to_vec::<f32>(), [3.0, 4.0]);
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
    /// Returns the sharding that divides axes of a tensor. Each pair is the name of an axis of this mesh and the axis of
    /// the tensor that is divided along it. Other axes of the mesh divide nothing: their devices hold the same elements.
    ///
    /// # Panics
    /// Panics if the mesh has no axis of this name, or if an axis of the mesh is given twice.
    ///
    /// # Examples
    /// With a mesh of the axes `data` and `model`:
    /// ```ignore
    /// let weight = mesh.put(&weight, &mesh.sharding([("model", 1)]));
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
    /// With a mesh of four devices:
    /// ```ignore
    /// let rows = AbstractArray::new(DType::F32, [8, 100]);
    /// let x = mesh.tensor_from_callback(&rows, &mesh.sharding([("data", 0)]), |index| {
    ///     read_rows(index[0].clone()) // f32[2,100]
    /// });
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
        mut part: impl FnMut(&[Range<usize>]) -> Result<Tensor, E>,
    ) -> Result<Tensor, E> {
        self.check(whole, sharding)?;
        let mut failed = None;
        let mut checked = |index: &[Range<usize>]| -> Result<Tensor, E> {
            let found = part(index)?.try_to_host()?;
            let expected = part_at(whole, index);
            if *found.info() == expected {
                return Ok(found);
            }
            let found = found.info();
            let problem = format!("the part {index:?} of {whole} is {expected}, found {found}");
            Err(self
                .not_divided(problem, "return the elements of the given ranges")
                .into())
        };
        let device = expect_some(self.device().attached(), "the engine of a mesh");
        let array = device.array_from_parts(whole, sharding, &mut |index| {
            checked(index).map_err(|error| {
                failed = Some(error);
                DeviceError::failed("a part of the tensor could not be made")
            })
        });
        match (failed, array) {
            (Some(error), _) => Err(error),
            (None, array) => Ok(Tensor::on_device(array?.into())),
        }
    }

    /// Checks that a sharding belongs to this mesh and divides an array into equal parts.
    fn check(&self, whole: &AbstractArray, sharding: &Sharding) -> Result<(), TensorError> {
        if !sharding.is_of(self.mesh_axes()) {
            let problem = format!("{sharding:?} belongs to a mesh with other axes");
            return Err(self.not_divided(problem, "create it with `Mesh::sharding` of this mesh"));
        }
        let outside = (0..self.axes().len()).find_map(|position| {
            let axis = sharding.divided(position)?;
            (axis >= whole.rank()).then_some(axis)
        });
        if let Some(axis) = outside {
            let names = sharding.names(axis);
            let problem = format!("{names} divides axis {axis}, which {whole} has not");
            return Err(self.not_divided(problem, "pass an axis of the tensor"));
        }
        let Err(axis) = sharding.part_of(whole) else {
            return Ok(());
        };
        let (names, parts, length) = (
            sharding.names(axis),
            sharding.parts(axis),
            whole.shape[axis],
        );
        let problem = format!(
            "axis {axis} of {whole} has length {length}, which is not a multiple of the {parts} devices of {names}"
        );
        Err(self.not_divided(problem, "divide another axis, or change its length"))
    }

    pub(crate) fn not_divided(&self, problem: String, fix: &'static str) -> TensorError {
        TensorError::Sharding {
            axes: self.mesh_axes().to_string().into(),
            problem: problem.into(),
            fix,
        }
    }
}
