//! The interface that an engine implements. It consists of everything that the library needs from a device.

use std::any::Any;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use pytree_kernels::base::dtype::AbstractArray;

use crate::base::device_error::DeviceError;
use crate::base::error::TensorError;
use crate::base::mesh_axes::MeshAxes;
use crate::tensor::Tensor;
use crate::tensor::device::Sharding;
use crate::tensor::jaxpr::Jaxpr;
use crate::tensor::stablehlo::{Partitioning, StableHlo};

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

    /// Compiles a function that all devices of a mesh run at the same time. Only the engine of a
    /// [`Mesh`](crate::device::Mesh) implements this method. The library prepares the jaxpr as for
    /// [`compile`](Self::compile), but an output may be an input, and may be listed twice.
    ///
    /// The executable accepts buffers of any sharding. The default returns an error.
    ///
    /// # Errors
    /// Returns [`DeviceError::Unsupported`] if the engine does not support an equation or a dtype, or is not the engine
    /// of a mesh.
    fn compile_parallel(
        &self,
        _: &ParallelFunction<'_>,
    ) -> Result<Arc<dyn Executable>, DeviceError> {
        Err(not_a_mesh())
    }

    /// Returns whether [`compile_partitioned`](Self::compile_partitioned) divides programs. The default is false: then all
    /// devices of a mesh compute the same outside of [`spmd`](crate::spmd), and annotations of shardings are ignored.
    fn divides_programs(&self) -> bool {
        false
    }

    /// Compares the dtypes and shapes of the parts from which the processes of a mesh make a tensor. All processes call this
    /// function at the same time. The default does nothing, because the program is one process. If the parts differ, the
    /// engine of several processes ends the run with a message.
    ///
    /// # Errors
    /// Returns an error if the processes cannot communicate.
    fn compare_parts(&self, _: &AbstractArray) -> Result<(), DeviceError> {
        Ok(())
    }

    /// Returns whether the programs of [`compile_parallel`](Self::compile_parallel) check their results while
    /// [`debug_nans`](crate::debug_nans) or [`debug_infs`](crate::debug_infs) is on. The default is false: then
    /// [`spmd`](crate::spmd) also computes the function on the host, and checks the results there.
    fn checks_results(&self) -> bool {
        false
    }

    /// Compiles a function whose work the compiler divides among the devices of a mesh. Only the engine of a
    /// [`Mesh`](crate::device::Mesh) whose [`divides_programs`](Self::divides_programs) is true implements this method. The library prepares the jaxpr as for
    /// [`compile`](Self::compile). All inputs of a run have the shardings of `function`.
    ///
    /// The default returns an error.
    ///
    /// # Errors
    /// Returns [`DeviceError::Unsupported`] if the engine does not support an equation or a dtype, or does not divide
    /// programs.
    fn compile_partitioned(&self, _: &PartitionedFunction<'_>) -> Result<Partitioned, DeviceError> {
        Err(DeviceError::unsupported(
            "programs that the compiler divides among several devices",
            "remove `shard` and shardings, or use a `Mesh` of the devices of one client",
        ))
    }

    /// Begins to transfer the parts of a tensor from the host to the devices of a mesh. Only the engine of a
    /// [`Mesh`](crate::device::Mesh) implements this method. The default returns an error.
    ///
    /// # Errors
    /// Returns the errors of [`put`](Self::put), and [`DeviceError::Unsupported`] if this is not the engine of a mesh.
    fn put_sharded(&self, _: &Tensor, _: &Sharding) -> Result<Box<dyn Buffer>, DeviceError> {
        Err(not_a_mesh())
    }

    /// Begins to transfer the parts of a tensor to the devices of a mesh, as [`put_sharded`](Self::put_sharded) does, but
    /// one part after the other. `whole` is the dtype and the shape of the tensor. The engine calls `part` once for each
    /// different part that devices of this process hold, with the range of each axis:
    /// [`Sharding::index`] returns the ranges of a device. The function returns a tensor on the host, or the error that
    /// this method must return. The default returns an error.
    ///
    /// # Errors
    /// Returns the errors of `part`, and those of [`put_sharded`](Self::put_sharded).
    fn put_parts(
        &self,
        _: &AbstractArray,
        _: &Sharding,
        _: &mut PartMaker<'_>,
    ) -> Result<Box<dyn Buffer>, DeviceError> {
        Err(not_a_mesh())
    }

    /// Returns whether this process holds the parts of a device of the mesh. The default is true for all devices. A mesh
    /// of several processes returns true for the devices of this process.
    fn is_addressable(&self, _: usize) -> bool {
        true
    }
}

/// A function that returns the part of a tensor with the given range of each axis: see [`Engine::put_parts`].
pub type PartMaker<'p> = dyn FnMut(&[Range<usize>]) -> Result<Tensor, DeviceError> + 'p;

fn not_a_mesh() -> DeviceError {
    DeviceError::unsupported(
        "programs over several devices",
        "make a `Mesh` of the devices",
    )
}

/// A function that all devices of a mesh run at the same time, each on its own parts of the inputs.
#[derive(Debug)]
#[non_exhaustive]
pub struct ParallelFunction<'f> {
    /// The function that one device runs. Its shapes are the shapes of parts. Its collectives combine devices:
    /// [`StableHlo::replica_axes`](crate::StableHlo::replica_axes) returns all axes of the mesh.
    pub jaxpr: &'f Jaxpr,
    /// The sharding of each input.
    pub inputs: &'f [Sharding],
    /// The sharding of each output.
    pub outputs: &'f [Sharding],
}

/// A function whose work the compiler divides among the devices of a mesh.
#[derive(Debug)]
pub struct PartitionedFunction<'f> {
    /// The function. Its shapes are the shapes of whole tensors.
    pub(crate) jaxpr: &'f Jaxpr,
    pub(crate) mesh: &'f MeshAxes,
    pub(crate) inputs: &'f [Sharding],
}

impl PartitionedFunction<'_> {
    /// Returns the function. Its shapes are the shapes of whole tensors.
    pub fn jaxpr(&self) -> &Jaxpr {
        self.jaxpr
    }

    /// Returns the name and the length of each axis of the mesh.
    pub fn mesh(&self) -> impl ExactSizeIterator<Item = (&str, usize)> {
        let axes = self.mesh.axes().iter();
        axes.map(|(name, length)| (&**name, *length))
    }

    /// Returns the sharding of each input.
    pub fn inputs(&self) -> &[Sharding] {
        self.inputs
    }

    /// Returns the function as a module of StableHLO. The shardings are attributes of the dialect `sdy` (Shardy). If
    /// `outputs` is `None`, the compiler chooses the shardings of the results.
    ///
    /// # Errors
    /// Returns [`TensorError::Lowering`] if StableHLO cannot express an equation, or if the spec of a `shard` does not fit
    /// the mesh or the shape.
    pub fn try_to_stablehlo(&self, outputs: Option<&[Sharding]>) -> Result<StableHlo, TensorError> {
        self.jaxpr.to_partitioned_stablehlo(Partitioning {
            mesh: self.mesh.clone(),
            inputs: self.inputs.to_vec(),
            outputs: outputs.map(<[Sharding]>::to_vec),
        })
    }
}

/// A compiled [`PartitionedFunction`].
#[derive(Debug)]
pub struct Partitioned {
    /// The program for all devices.
    pub executable: Arc<dyn Executable>,
    /// The sharding of each output, which the compiler has chosen.
    pub outputs: Vec<Sharding>,
    /// The shape of the part that one device holds of each input, from the compiled program. `None` if the compiler does
    /// not report it.
    pub parts: Option<Vec<Vec<usize>>>,
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

    /// Returns how the array is divided among the devices of a mesh. The default is `None`: the array is on a single
    /// device.
    fn sharding(&self) -> Option<&Sharding> {
        None
    }

    /// Waits until the part of one device is computed, and returns it as a tensor on the host. The library calls this
    /// method only for devices of this process. The default returns the whole array.
    ///
    /// # Errors
    /// Returns an error if the computation of the part, or its transfer, has failed.
    fn read_part(&self, _device: usize) -> Result<Tensor, DeviceError> {
        self.read()
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
