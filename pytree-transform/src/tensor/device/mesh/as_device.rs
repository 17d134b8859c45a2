//! A mesh as one device, and the calls of its engine.

use std::any::Any;
use std::ops::Range;
use std::sync::Arc;

use pytree_kernels::base::array::{Array, row_major_strides};
use pytree_kernels::base::dtype::AbstractArray;
use pytree_kernels::base::shape::{PerAxis, Shape};
use pytree_kernels::loops::strided::gather;

use super::axes::MeshAxes;
use super::engine::{MeshEngine, ParallelFunction, PartMaker, Partitioned, PartitionedFunction};
use super::sharding::Sharding;
use crate::base::device_error::DeviceError;
use crate::base::error::TensorError;
use crate::tensor::device::array::DeviceArray;
use crate::tensor::device::current::on_host;
use crate::tensor::device::engine::{Buffer, Engine, Executable};
use crate::tensor::device::handle::{Attached, Device};
use crate::tensor::handle::Tensor;
use crate::tensor::jaxpr::Jaxpr;

/// A mesh as the engine of one device: all devices hold all elements, and compute the same.
#[derive(Debug)]
pub(super) struct AsDevice {
    pub(super) engine: Box<dyn MeshEngine>,
    pub(super) axes: MeshAxes,
}

impl Engine for AsDevice {
    fn name(&self) -> String {
        self.engine.name()
    }

    fn compile(&self, jaxpr: &Jaxpr) -> Result<Arc<dyn Executable>, DeviceError> {
        let whole = |count| vec![Sharding::replicated(&self.axes); count];
        self.engine.compile_parallel(&ParallelFunction {
            jaxpr,
            inputs: &whole(jaxpr.inputs.len()),
            outputs: &whole(jaxpr.outputs.len()),
        })
    }

    fn put(&self, tensor: &Tensor) -> Result<Box<dyn Buffer>, DeviceError> {
        let whole = Sharding::replicated(&self.axes);
        let part = &mut |_: &[Range<usize>]| Ok(tensor.clone());
        self.engine.put_parts(tensor.info(), &whole, part)
    }
}

impl Attached {
    fn as_mesh(&self) -> Option<&AsDevice> {
        let engine: &dyn Any = &*self.engine;
        engine.downcast_ref()
    }

    fn mesh_engine(&self) -> Result<&dyn MeshEngine, DeviceError> {
        let mesh = self.as_mesh().map(|mesh| &*mesh.engine);
        mesh.ok_or_else(|| {
            DeviceError::unsupported(
                "programs over several devices",
                "make a `Mesh` of the devices",
            )
        })
    }

    /// Returns the axes of a device that is a mesh, or `None` for another device.
    pub(crate) fn mesh(&self) -> Option<&MeshAxes> {
        self.as_mesh().map(|mesh| &mesh.axes)
    }

    /// Returns whether this is a mesh whose engine compiles programs that the compiler divides among the devices.
    pub(crate) fn divides_programs(&self) -> bool {
        self.as_mesh()
            .is_some_and(|mesh| mesh.engine.divides_programs())
    }

    /// Returns whether this is a mesh whose programs check their results.
    pub(crate) fn checks_results(&self) -> bool {
        self.as_mesh()
            .is_some_and(|mesh| mesh.engine.checks_results())
    }

    /// Compares the dtypes and shapes of the parts that the processes of this mesh pass.
    pub(super) fn compare_parts(&self, local: &AbstractArray) -> Result<(), DeviceError> {
        self.mesh_engine()?.compare_parts(local)
    }

    pub(crate) fn compile_parallel(
        self: &Arc<Self>,
        name: &str,
        function: &ParallelFunction<'_>,
    ) -> Result<Arc<dyn Executable>, TensorError> {
        pytree_base::span!(DEBUG, "compile", function = name);
        let _host = on_host();
        let engine = self.mesh_engine();
        let compiled = engine.and_then(|engine| engine.compile_parallel(function));
        compiled.map_err(|error| self.not_compiled(name, error))
    }

    pub(crate) fn compile_partitioned(
        self: &Arc<Self>,
        name: &str,
        jaxpr: &Jaxpr,
        mesh: &MeshAxes,
        inputs: &[Sharding],
    ) -> Result<Partitioned, TensorError> {
        pytree_base::span!(DEBUG, "compile", function = name);
        let _host = on_host();
        let function = PartitionedFunction {
            jaxpr,
            mesh,
            inputs,
        };
        let engine = self.mesh_engine();
        let compiled = engine.and_then(|engine| engine.compile_partitioned(&function));
        let compiled = compiled.and_then(|compiled| {
            let (found, expected) = (compiled.outputs.len(), jaxpr.outputs.len());
            if found == expected {
                return Ok(compiled);
            }
            Err(DeviceError::failed(format!(
                "its engine returned {found} shardings for {expected} outputs; this is a mistake in the engine"
            )))
        });
        compiled.map_err(|error| self.not_compiled(name, error))
    }

    /// Returns the array of a tensor on this device, which is a mesh. Transfers a tensor that is on the host, so that
    /// its parts have the given sharding. An array that is already on the mesh may have another sharding.
    pub(crate) fn sharded_array_of(
        self: &Arc<Self>,
        tensor: Tensor,
        sharding: &Sharding,
    ) -> Result<Arc<DeviceArray>, TensorError> {
        match tensor.into_device_array() {
            Ok(array) => Ok(array),
            Err(tensor) => self.put_sharded(tensor.value()?, sharding).map(Arc::new),
        }
    }

    fn put_sharded(
        self: &Arc<Self>,
        whole: &Arc<Array>,
        sharding: &Sharding,
    ) -> Result<DeviceArray, TensorError> {
        self.array_from_parts(&whole.info, sharding, &mut |index| {
            Ok(Tensor::from_shared(part_of(whole, index)))
        })
    }

    /// Returns an array on this device, which is a mesh, from its parts.
    pub(super) fn array_from_parts(
        self: &Arc<Self>,
        whole: &AbstractArray,
        sharding: &Sharding,
        part: &mut PartMaker<'_>,
    ) -> Result<DeviceArray, TensorError> {
        let _host = on_host();
        let engine = self.mesh_engine();
        let buffer = engine.and_then(|engine| engine.put_parts(whole, sharding, part));
        self.array(whole, buffer)
    }
}

impl Device {
    /// Returns the axes of a device that is a mesh, or `None` for another device.
    pub(crate) fn mesh(&self) -> Option<&MeshAxes> {
        self.attached()?.mesh()
    }

    /// Returns whether this is a mesh whose engine compiles programs that the compiler divides among the devices.
    pub(crate) fn divides_programs(&self) -> bool {
        let attached = self.attached();
        attached.is_some_and(|attached| attached.divides_programs())
    }

    /// Returns whether this process holds the parts of a device of this mesh.
    pub(crate) fn is_addressable(&self, device: usize) -> bool {
        let mesh = self.attached().and_then(|attached| attached.as_mesh());
        mesh.is_none_or(|mesh| mesh.engine.is_addressable(device))
    }

    /// Returns a tensor with the same elements on this device, which is a mesh. A tensor that is not on the host is
    /// transferred through the host.
    ///
    /// # Errors
    /// Returns the errors of [`put`](Self::put).
    pub(crate) fn put_sharded(
        &self,
        tensor: &Tensor,
        sharding: &Sharding,
    ) -> Result<Tensor, TensorError> {
        let host = tensor.value()?;
        Ok(match self.attached() {
            None => Tensor::from_shared(Arc::clone(host)),
            Some(attached) => Tensor::on_device(attached.put_sharded(host, sharding)?.into()),
        })
    }
}

/// Returns the elements of an array with the given range of each axis.
pub(crate) fn part_of(whole: &Arc<Array>, index: &[Range<usize>]) -> Arc<Array> {
    let shape: Shape = index.iter().map(Range::len).collect();
    if *whole.shape() == *shape {
        return Arc::clone(whole);
    }
    let strides = row_major_strides(whole.shape());
    let starts = index.iter().zip(&strides);
    let offset = starts.map(|(range, stride)| range.start * stride).sum();
    let strides: PerAxis<isize> = strides.iter().map(|stride| stride.cast_signed()).collect();
    Arc::new(gather(whole, &shape, &strides, offset))
}
