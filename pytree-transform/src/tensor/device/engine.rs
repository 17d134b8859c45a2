//! The interface that an engine implements. It consists of everything that the library needs from a device.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use super::mesh::MeshBuffer;
use crate::base::device_error::DeviceError;
use crate::tensor::handle::Tensor;
use crate::tensor::jaxpr::Jaxpr;

/// An engine: a device that compiles and runs recorded functions, and that holds arrays.
///
/// All buffers of an engine can be operands of all executables of the engine.
/// [`Device::new`](crate::device::Device::new) creates a device from an engine. The library does the rest: it chooses
/// the device of each operation, caches executables, transfers tensors from the host, and names the operation and the
/// device in errors. The executor of the host is not an engine, because it lends and reuses the memory of arrays
/// directly.
///
/// The library calls all methods with the [host](crate::device::Device::HOST) as the chosen device. So an engine itself
/// can compute with tensors on the host. Methods may be called from several threads at the same time.
///
/// # Examples
/// An engine that has its own copies of arrays and computes with the operations of tensors:
/// ```
/// use std::sync::Arc;
/// use pytree_transform::device::{Buffer, Device, DeviceError, Engine, Executable, Input, device_put};
/// use pytree_transform::{Jaxpr, Tensor, jit};
///
/// #[derive(Debug)]
/// struct Copying;
/// #[derive(Debug)]
/// struct Program(Jaxpr);
/// #[derive(Debug)]
/// struct Copied(Tensor);
///
/// impl Engine for Copying {
///     fn name(&self) -> String {
///         "copying".to_owned()
///     }
///     fn compile(&self, jaxpr: &Jaxpr) -> Result<Arc<dyn Executable>, DeviceError> {
///         Ok(Arc::new(Program(jaxpr.clone())))
///     }
///     fn put(&self, tensor: &Tensor) -> Result<Box<dyn Buffer>, DeviceError> {
///         Ok(Box::new(Copied(tensor.clone())))
///     }
/// }
/// impl Executable for Program {
///     fn run(&self, inputs: Vec<Input<'_>>) -> Result<Vec<Box<dyn Buffer>>, DeviceError> {
///         let tensor = |input: &Input<'_>| {
///             let copied = input.downcast_ref::<Copied>();
///             Ok(copied.ok_or_else(|| DeviceError::failed("a buffer of another engine"))?.0.clone())
///         };
///         let operands = inputs.iter().map(tensor).collect::<Result<Vec<_>, DeviceError>>()?;
///         let results = self.0.evaluate(&operands).into_iter();
///         Ok(results.map(|result| Box::new(Copied(result)) as Box<dyn Buffer>).collect())
///     }
/// }
/// impl Buffer for Copied {
///     fn read(&self) -> Result<Tensor, DeviceError> {
///         Ok(self.0.clone())
///     }
/// }
///
/// let device = Device::new(Copying);
/// let x = device_put(&Tensor::from([1.0_f32, 2.0]), &device);
/// let y = jit(|x: Tensor| x * 2.0)(x);
/// assert_eq!(y.device(), &device);
/// assert_eq!(y.to_vec::<f32>(), [2.0, 4.0]);
/// ```
pub trait Engine: fmt::Debug + Send + Sync + Any {
    /// Returns the name of the device for messages and displays, for instance `cuda:0 (NVIDIA H200)`.
    fn name(&self) -> String;

    /// Compiles a recorded function.
    ///
    /// The library prepares the jaxpr: each input is an operand of an equation, each output is the result of an
    /// equation, and no output is listed twice. Constants, also those of nested jaxprs such as the bodies of loops, are
    /// small tensors of the host. Equations with effects, such as `debug_callback`, may occur.
    ///
    /// # Errors
    /// Returns [`DeviceError::Unsupported`] if the engine does not support an equation or a dtype.
    fn compile(&self, jaxpr: &Jaxpr) -> Result<Arc<dyn Executable>, DeviceError>;

    /// Begins to transfer a tensor from the host to the device. The elements of the tensor never change. The engine
    /// must keep a clone of the tensor if the transfer ends after this call, or if the device uses the memory of the
    /// host.
    ///
    /// # Errors
    /// Returns an error if the device has too little memory or does not support the dtype.
    fn put(&self, tensor: &Tensor) -> Result<Box<dyn Buffer>, DeviceError>;
}

/// A function that an [`Engine`] has compiled.
pub trait Executable: fmt::Debug + Send + Sync + Any {
    /// Begins to run the function on buffers of the same engine, and returns a buffer for each output.
    ///
    /// The function may return before the results are computed. If the computation fails later, [`Buffer::read`]
    /// returns the error for each result. Each later run with one of the results as an input also returns the error.
    /// The inputs are in the order of the jaxpr's inputs.
    ///
    /// # Errors
    /// Returns an error if the function could not be started. The owned inputs are lost in this case.
    fn run(&self, inputs: Vec<Input<'_>>) -> Result<Vec<Box<dyn Buffer>>, DeviceError>;
}

/// An array on a device. Its elements may still be computed. After the buffer is dropped, the device frees its memory
/// as soon as no running computation uses it.
pub trait Buffer: fmt::Debug + Send + Sync + Any {
    /// Waits until the elements are computed, and returns them as a tensor on the host. The library stores this tensor,
    /// so it reads a buffer only once. A buffer is read more than once only if several threads read it at the same
    /// time.
    ///
    /// # Errors
    /// Returns an error if the computation of the elements, or their transfer, has failed.
    fn read(&self) -> Result<Tensor, DeviceError>;

    /// Waits until the elements are computed. The default reads them.
    ///
    /// # Errors
    /// Returns an error if the computation of the elements has failed.
    fn wait(&self) -> Result<(), DeviceError> {
        self.read().map(drop)
    }

    /// Returns the buffer as the buffer of a mesh. The default is `None`: the array is on a single device.
    fn on_mesh(&self) -> Option<&dyn MeshBuffer> {
        None
    }
}

/// An operand of a running [`Executable`].
#[derive(Debug)]
pub enum Input<'b> {
    /// A buffer without other handles. The executable may overwrite its memory with results (donation).
    Owned(Box<dyn Buffer>),
    /// A buffer that stays unchanged.
    Borrowed(&'b dyn Buffer),
}

impl Input<'_> {
    /// Returns whether the executable may reuse the memory of the buffer.
    pub fn is_owned(&self) -> bool {
        matches!(self, Self::Owned(_))
    }

    /// Returns the buffer.
    pub fn buffer(&self) -> &dyn Buffer {
        match self {
            Self::Owned(buffer) => &**buffer,
            Self::Borrowed(buffer) => *buffer,
        }
    }

    /// Returns the buffer as the buffer type `B` of an engine, or `None` if the buffer has another type.
    pub fn downcast_ref<B: Buffer>(&self) -> Option<&B> {
        let buffer: &dyn Any = self.buffer();
        buffer.downcast_ref()
    }
}
