//! Processes as the devices of a mesh.
//!
//! Each process runs the same program, and is one device of the mesh: its rank is the number of the device. A tensor on
//! the mesh has the shape of the whole tensor in all processes, and its buffer is the part of this process, which is a
//! tensor on the host. The executor of the host runs a recorded function while the axes of the mesh are bound, so a call
//! costs as much as a call of `jit`.
//!
//! A communicator belongs to a thread, and a device to all threads. So the device has a key, and a table of the thread that made the
//! mesh has the communicators. All processes communicate in the same order: the executor runs collectives in the order of the program,
//! and no pass merges equal ones.

mod connection;

use std::any::Any;
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

use pytree_kernels::base::array::Array;
use pytree_kernels::base::dtype::AbstractArray;

use self::connection::{Connection, connected, kept};
use crate::base::device_error::DeviceError;
use crate::executor;
use crate::jaxpr::run_checked;
use crate::passes::joined_sums;
use crate::primitives::body::program::Slots;
use crate::primitives::collectives::processes::stacked;
use crate::tensor::device::processes::{CollectiveCall, Communicator, Doing, bound};
use crate::tensor::device::{
    Buffer, Device, Executable, Input, MeshAxes, MeshBuffer, MeshDevices, MeshEngine,
    ParallelFunction, PartMaker, Sharding, part_of,
};
use crate::tensor::jaxpr::Jaxpr;
use crate::tensor::{Tensor, checks};

/// The engine of a mesh of processes.
#[derive(Clone)]
struct ProcessEngine(Arc<Connection>);

impl fmt::Debug for ProcessEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.name)
    }
}

impl MeshEngine for ProcessEngine {
    fn name(&self) -> String {
        self.0.name.clone()
    }

    fn compile_parallel(
        &self,
        function: &ParallelFunction<'_>,
    ) -> Result<Arc<dyn Executable>, DeviceError> {
        let jaxpr = function.jaxpr;
        let executable = match self.0.mesh.replicas() {
            1 => executor::Executable::new(jaxpr),
            _ => executor::Executable::new(&joined_sums(jaxpr.clone())),
        };
        Ok(Arc::new(ProcessProgram {
            engine: self.clone(),
            jaxpr: jaxpr.clone(),
            executable,
            inputs: function.inputs.to_vec(),
            outputs: function.outputs.to_vec(),
        }))
    }

    /// Keeps the part of this process. All processes must have the same tensor.
    fn put_parts(
        &self,
        whole: &AbstractArray,
        sharding: &Sharding,
        part: &mut PartMaker<'_>,
    ) -> Result<Box<dyn Buffer>, DeviceError> {
        let part = part(&sharding.index(self.0.rank, &whole.shape))?;
        Ok(Box::new(self.buffer(array_of(part)?, sharding)))
    }

    fn compare_parts(&self, local: &AbstractArray) -> Result<(), DeviceError> {
        let call = CollectiveCall::new(Doing::Part(local));
        for (_, communicator) in &*self.0.axes()? {
            communicator.all_gather(&call, &[], &mut []);
        }
        Ok(())
    }

    fn checks_results(&self) -> bool {
        true
    }

    fn is_addressable(&self, device: usize) -> bool {
        device == self.0.rank
    }
}

impl ProcessEngine {
    fn buffer(&self, array: Arc<Array>, sharding: &Sharding) -> ProcessBuffer {
        ProcessBuffer {
            array,
            sharding: sharding.clone(),
            connection: Arc::clone(&self.0),
        }
    }
}

impl Connection {
    /// Returns the elements of all processes. All processes must call this function if the tensor is divided.
    fn whole_of(&self, part: &Arc<Array>, sharding: &Sharding) -> Result<Tensor, DeviceError> {
        let mut whole = Tensor::from_shared(Arc::clone(part));
        if sharding.is_replicated() {
            return Ok(whole);
        }
        let info = sharding.whole_of(&part.info);
        let call = CollectiveCall::new(Doing::Read(&info));
        // The position along the last axis of the mesh changes fastest, so this axis is joined first.
        for (position, (_, communicator)) in self.axes()?.iter().enumerate().rev() {
            let Some(axis) = sharding.divided(position) else {
                continue;
            };
            let own = whole
                .value()
                .map_err(|error| DeviceError::failed(error.to_string()))?;
            let mut all = stacked(&call, &**communicator, own, axis);
            let length = all.info.shape.remove(axis);
            all.info.shape[axis] *= length;
            whole = Tensor::from_array(all);
        }
        Ok(whole)
    }
}

fn array_of(tensor: Tensor) -> Result<Arc<Array>, DeviceError> {
    let array = tensor.into_array();
    array.ok_or_else(|| DeviceError::failed("a tensor that is not on the host"))
}

/// A tensor on a mesh of processes: the part of this process.
struct ProcessBuffer {
    array: Arc<Array>,
    sharding: Sharding,
    connection: Arc<Connection>,
}

impl fmt::Debug for ProcessBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let info: &AbstractArray = &self.array.info;
        write!(f, "ProcessBuffer({info}, {:?})", self.sharding)
    }
}

impl Buffer for ProcessBuffer {
    /// Reads a tensor that all processes hold without communication. Gathers a divided tensor: all processes must read it.
    fn read(&self) -> Result<Tensor, DeviceError> {
        self.connection.whole_of(&self.array, &self.sharding)
    }

    fn wait(&self) -> Result<(), DeviceError> {
        Ok(())
    }

    fn on_mesh(&self) -> Option<&dyn MeshBuffer> {
        Some(self)
    }
}

impl MeshBuffer for ProcessBuffer {
    fn sharding(&self) -> &Sharding {
        &self.sharding
    }

    /// Reads without communication.
    fn read_part(&self, _device: usize) -> Result<Tensor, DeviceError> {
        Ok(Tensor::from_shared(Arc::clone(&self.array)))
    }
}

/// A recorded function that is prepared for the executor of the host.
struct ProcessProgram {
    engine: ProcessEngine,
    /// The function, to be run equation by equation while results are checked.
    jaxpr: Jaxpr,
    executable: executor::Executable,
    inputs: Vec<Sharding>,
    outputs: Vec<Sharding>,
}

impl fmt::Debug for ProcessProgram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ProcessProgram({})", self.engine.0.name)
    }
}

impl Executable for ProcessProgram {
    fn run(&self, inputs: Vec<Input<'_>>) -> Result<Vec<Box<dyn Buffer>>, DeviceError> {
        let axes = self.engine.0.axes()?;
        let operands = inputs.into_iter().zip(&self.inputs);
        let operands = operands.map(|(input, expected)| self.operand(input, expected));
        let operands: Vec<Arc<Array>> = operands.collect::<Result<_, _>>()?;
        let results = {
            let _bound = bound(&axes);
            if checks::active() {
                run_checked(&self.jaxpr, operands)
            } else {
                self.executable.run_in(&mut Slots::new(), operands)
            }
        };
        let results = results.into_iter().zip(&self.outputs);
        let buffer =
            |(part, sharding)| -> Box<dyn Buffer> { Box::new(self.engine.buffer(part, sharding)) };
        Ok(results.map(buffer).collect())
    }
}

impl ProcessProgram {
    /// Returns the part of an operand with the expected sharding. The program may reuse the memory of an owned operand. An
    /// operand with another sharding is gathered first, by all processes.
    fn operand(&self, input: Input<'_>, expected: &Sharding) -> Result<Arc<Array>, DeviceError> {
        let connection = &self.engine.0;
        let found = input.downcast_ref::<ProcessBuffer>();
        let found = found.filter(|part| Arc::ptr_eq(&part.connection, connection));
        let Some(found) = found else {
            return Err(DeviceError::failed("a buffer of another engine"));
        };
        if found.sharding != *expected {
            let whole = array_of(connection.whole_of(&found.array, &found.sharding)?)?;
            let index = expected.index(connection.rank, whole.shape());
            return Ok(part_of(&whole, &index));
        }
        Ok(match input {
            Input::Borrowed(_) => Arc::clone(&found.array),
            Input::Owned(buffer) => {
                let buffer: Box<dyn Any> = buffer;
                match buffer.downcast::<ProcessBuffer>() {
                    Ok(part) => part.array,
                    Err(_) => return Err(DeviceError::failed("a buffer of another engine")),
                }
            }
        })
    }
}

impl MeshDevices for Rc<dyn Communicator> {
    /// Returns the engine of a mesh of all processes of the communicator. All processes must call this function with the same axes,
    /// because it communicates.
    fn together(&self, axes: &[(&str, usize)]) -> Result<Box<dyn MeshEngine>, DeviceError> {
        let named = axes.iter().map(|(name, length)| ((*name).into(), *length));
        let mesh = MeshAxes::new(named.collect());
        let (wanted, found) = (mesh.replicas(), self.size());
        if wanted != found {
            return Err(DeviceError::unsupported(
                format!("a mesh of {wanted} processes, because the run has {found}"),
                format!("choose lengths whose product is {found}, or start {wanted} processes"),
            ));
        }
        let connected = connected(self, &mesh, axes);
        let key = kept(connected);
        let name = format!("process mesh ({mesh})");
        Ok(Connection::engine(name, Some(key), self.rank(), mesh))
    }
}

impl MeshDevices for Device {
    /// Returns the engine of a mesh of the host alone: all axes have length 1. A program for a mesh then runs in one process, from any
    /// thread.
    fn together(&self, axes: &[(&str, usize)]) -> Result<Box<dyn MeshEngine>, DeviceError> {
        let named = axes.iter().map(|(name, length)| ((*name).into(), *length));
        let mesh = MeshAxes::new(named.collect());
        if !self.is_host() {
            return Err(DeviceError::unsupported(
                match self.mesh() {
                    Some(_) => format!("a mesh of another mesh, the {self}"),
                    None => format!("a mesh of {self} alone"),
                },
                "pass the client of the devices, the processes, or `Device::HOST`, as in `Mesh::new(&client, [(\"data\", 4)])`",
            ));
        }
        if mesh.replicas() != 1 {
            return Err(DeviceError::unsupported(
                format!(
                    "a mesh of {} devices, because the host is one device",
                    mesh.replicas()
                ),
                "choose the length 1 for each axis, or make the mesh of a client or of processes",
            ));
        }
        Ok(Connection::engine(
            format!("host mesh ({mesh})"),
            None,
            0,
            mesh,
        ))
    }
}

impl Connection {
    fn engine(name: String, key: Option<u64>, rank: usize, mesh: MeshAxes) -> Box<dyn MeshEngine> {
        Box::new(ProcessEngine(Arc::new(Self {
            key,
            name,
            rank,
            mesh,
        })))
    }
}
