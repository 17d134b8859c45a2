//! An array on a device. It stores a copy of its elements on the host after they are first read.

use std::any::Any;
use std::panic::RefUnwindSafe;
use std::sync::{Arc, OnceLock};

use pytree_kernels::base::array::Array;
use pytree_kernels::base::dtype::AbstractArray;

use super::current::on_host;
use super::engine::Buffer;
use super::handle::{Attached, Device};
use super::mesh::Sharding;
use crate::base::device_error::DeviceError;
use crate::base::error::TensorError;
use crate::tensor::handle::Tensor;

/// An array on a device. Its elements never change.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct DeviceArray {
    /// This field must be the first field of the struct. See `Array` for the reason.
    pub(crate) info: AbstractArray,
    pub(crate) device: Device,
    buffer: Box<dyn Buffer>,
    /// The elements on the host. Empty until the elements are first read.
    host: OnceLock<Arc<Array>>,
    /// The operation that computed the array. An error that appears when the elements are read names this operation.
    made_by: Arc<str>,
}

/// A panic does not change an array: its elements never change, and its engine can be used by several threads.
impl RefUnwindSafe for DeviceArray {}

impl DeviceArray {
    /// Returns the array of a buffer. `made_by` is the operation that returned the buffer.
    pub(super) fn new(
        device: Device,
        info: AbstractArray,
        buffer: Box<dyn Buffer>,
        made_by: &Arc<str>,
    ) -> Self {
        Self {
            info,
            device,
            buffer,
            host: OnceLock::new(),
            made_by: Arc::clone(made_by),
        }
    }

    /// Returns the elements on the host. The first call waits until the elements are computed, and transfers them.
    pub(crate) fn host(&self) -> Result<&Arc<Array>, TensorError> {
        if let Some(array) = self.host.get() {
            return Ok(array);
        }
        let array = self.read().map_err(|error| self.failed("read", error))?;
        Ok(self.host.get_or_init(|| array))
    }

    /// Waits until the elements are computed, without a transfer.
    pub(crate) fn wait(&self) -> Result<(), TensorError> {
        if self.host.get().is_some() {
            return Ok(());
        }
        let _host = on_host();
        self.buffer
            .wait()
            .map_err(|error| self.failed("wait for", error))
    }

    pub(super) fn failed(&self, verb: &str, error: DeviceError) -> TensorError {
        let operation = format!("{verb} {}, a result of `{}`,", self.info, self.made_by);
        TensorError::of_device(operation, &self.device, error)
    }

    fn read(&self) -> Result<Arc<Array>, DeviceError> {
        let _host = on_host();
        let tensor = self.buffer.read()?;
        if tensor.info() != &self.info || tensor.array().is_none() {
            let (found, device) = (tensor.info(), tensor.try_device().unwrap_or(&Device::HOST));
            let expected = &self.info;
            return Err(DeviceError::failed(format!(
                "its engine returned {found} on {device} for a buffer of {expected}; this is a mistake in the engine"
            )));
        }
        tensor
            .into_array()
            .ok_or_else(|| DeviceError::failed("no elements"))
    }

    /// Returns how the array is divided among the devices of its mesh, or `None` if it is on a single device.
    pub(crate) fn sharding(&self) -> Option<&Sharding> {
        Some(self.buffer.on_mesh()?.sharding())
    }

    /// Returns the array that takes the place of this one when its buffer is donated to `program`. Each use of it is an error.
    pub(super) fn donated_to(&self, program: &Arc<str>) -> Self {
        let buffer = Box::new(Donated(Arc::clone(program)));
        Self::new(
            self.device.clone(),
            self.info.clone(),
            buffer,
            &self.made_by,
        )
    }

    /// Returns an error if the buffer was donated to a program that failed.
    pub(super) fn check_kept(&self) -> Result<(), TensorError> {
        let buffer: &dyn Any = &*self.buffer;
        match buffer.downcast_ref::<Donated>() {
            None => Ok(()),
            Some(donated) => Err(self.failed("use", donated.error())),
        }
    }

    pub(super) fn buffer(&self) -> &dyn Buffer {
        &*self.buffer
    }

    /// Returns the buffer by value if `this` is the only handle of the array.
    pub(super) fn into_buffer(this: Arc<Self>) -> Result<Box<dyn Buffer>, Arc<Self>> {
        Arc::try_unwrap(this).map(|array| array.buffer)
    }
}

/// Takes the place of a buffer that was donated to the program with this name, which failed.
#[derive(Debug)]
struct Donated(Arc<str>);

impl Donated {
    fn error(&self) -> DeviceError {
        DeviceError::Donated {
            program: (*self.0).into(),
        }
    }
}

impl Buffer for Donated {
    fn read(&self) -> Result<Tensor, DeviceError> {
        Err(self.error())
    }
}

impl Attached {
    /// Returns the array of a tensor on this device. Transfers a tensor that is on the host. The tensor must not be
    /// traced or be on another device.
    pub(super) fn array_of(
        self: &Arc<Self>,
        tensor: Tensor,
    ) -> Result<Arc<DeviceArray>, TensorError> {
        match tensor.into_device_array() {
            Ok(array) => Ok(array),
            Err(tensor) => self.put(&tensor).map(Arc::new),
        }
    }

    fn put(self: &Arc<Self>, tensor: &Tensor) -> Result<DeviceArray, TensorError> {
        let _host = on_host();
        self.array(tensor.info(), self.engine.put(tensor))
    }

    /// Returns the array of a tensor whose transfer has begun.
    pub(super) fn array(
        self: &Arc<Self>,
        info: &AbstractArray,
        transfer: Result<Box<dyn Buffer>, DeviceError>,
    ) -> Result<DeviceArray, TensorError> {
        let device = self.device();
        match transfer {
            Ok(buffer) => Ok(DeviceArray::new(device, info.clone(), buffer, &self.put_by)),
            Err(error) => {
                let operation = format!("put {info}");
                Err(TensorError::of_device(operation, &device, error))
            }
        }
    }
}

impl Device {
    /// Returns a tensor with the same elements on this device. A tensor that is already on this device is returned
    /// unchanged. A tensor of another device is transferred through the host.
    ///
    /// # Errors
    /// Returns [`TensorError::Traced`] if the tensor is traced. Returns [`TensorError::Device`] if a transfer fails.
    pub(crate) fn put(&self, tensor: &Tensor) -> Result<Tensor, TensorError> {
        if tensor.try_device()? == self {
            return Ok(tensor.clone());
        }
        let host = Tensor::from_shared(Arc::clone(tensor.value()?));
        match self.attached() {
            None => Ok(host),
            Some(attached) => Ok(Tensor::on_device(attached.array_of(host)?)),
        }
    }
}
