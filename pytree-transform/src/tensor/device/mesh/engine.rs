//! The interface that the engine of a mesh implements.

use std::any::Any;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use pytree_kernels::base::dtype::AbstractArray;

use super::axes::MeshAxes;
use super::sharding::Sharding;
use crate::base::device_error::DeviceError;
use crate::base::error::TensorError;
use crate::tensor::device::engine::{Buffer, Executable};
use crate::tensor::handle::Tensor;
use crate::tensor::jaxpr::Jaxpr;
use crate::tensor::stablehlo::{Partitioning, StableHlo};

/// The engine of a [`Mesh`](crate::device::Mesh): several devices that run one program together.
///
/// What [`Engine`](crate::device::Engine) says of threads, of the chosen device and of buffers is true here, too. All buffers
/// of the engine return a [`MeshBuffer`] from [`Buffer::on_mesh`].
pub trait MeshEngine: fmt::Debug + Send + Sync + Any {
    /// Returns the name of the mesh for messages and displays.
    fn name(&self) -> String;

    /// Compiles a function that all devices run at the same time. The library prepares the jaxpr as for
    /// [`Engine::compile`](crate::device::Engine::compile), but an output may be an input, and may be listed twice. The
    /// executable accepts buffers of any sharding.
    ///
    /// # Errors
    /// Returns [`DeviceError::Unsupported`] if the engine does not support an equation or a dtype.
    fn compile_parallel(
        &self,
        function: &ParallelFunction<'_>,
    ) -> Result<Arc<dyn Executable>, DeviceError>;

    /// Begins to transfer the parts of a tensor from the host to the devices, one after the other. `whole` is the dtype and
    /// the shape of the tensor. The engine calls `part` once for each different part that devices of this process hold,
    /// with the range of each axis: [`Sharding::index`] returns the ranges of a device. The function returns a tensor on
    /// the host, or the error that this method must return.
    ///
    /// # Errors
    /// Returns the errors of `part` and of [`Engine::put`](crate::device::Engine::put).
    fn put_parts(
        &self,
        whole: &AbstractArray,
        sharding: &Sharding,
        part: &mut PartMaker<'_>,
    ) -> Result<Box<dyn Buffer>, DeviceError>;

    /// Returns whether [`compile_partitioned`](Self::compile_partitioned) divides programs. The default is false: then all
    /// devices compute the same outside of [`spmd`](crate::spmd), and annotations of shardings are ignored.
    fn divides_programs(&self) -> bool {
        false
    }

    /// Compiles a function whose work the compiler divides among the devices. An engine whose
    /// [`divides_programs`](Self::divides_programs) is true implements this method. The library prepares the jaxpr as for
    /// [`Engine::compile`](crate::device::Engine::compile). All inputs of a run have the shardings of the function.
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

    /// Returns whether this process holds the parts of a device. The default is true for all devices. A mesh of several
    /// processes returns true for the devices of this process.
    fn is_addressable(&self, _: usize) -> bool {
        true
    }

    /// Compares the dtypes and shapes of the parts from which the processes make a tensor. All processes call this function
    /// at the same time. The default does nothing, because the program is one process. If the parts differ, the engine of
    /// several processes ends the run with a message.
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
}

/// A [`Buffer`] of a mesh: an array of which each device holds a part.
pub trait MeshBuffer {
    /// Returns how the array is divided among the devices.
    fn sharding(&self) -> &Sharding;

    /// Waits until the part of one device is computed, and returns it as a tensor on the host. The library calls this
    /// method only for devices of this process.
    ///
    /// # Errors
    /// Returns an error if the computation of the part, or its transfer, has failed.
    fn read_part(&self, device: usize) -> Result<Tensor, DeviceError>;
}

/// A function that returns the part of a tensor with the given range of each axis: see [`MeshEngine::put_parts`].
pub type PartMaker<'p> = dyn FnMut(&[Range<usize>]) -> Result<Tensor, DeviceError> + 'p;

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
