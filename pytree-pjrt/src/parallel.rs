//! Programs that several devices of a client run together.

use std::fmt;
use std::sync::Arc;

use crate::buffer::Buffer;
use crate::device::Device;
use crate::element::ArrayInfo;
use crate::error::{Failure, PjrtError};
use crate::executable::output_types;
use crate::partitions::{Axes, Partitions};
use crate::sys::{BufferHandle, ExecutableHandle};

/// A compiled program that runs on several devices at the same time. The devices are replicas, or partitions of one
/// replica.
pub(crate) struct ParallelExecutable {
    handle: ExecutableHandle,
    name: Arc<str>,
    /// The device of each replica or partition.
    devices: Vec<Device>,
    /// The types of the results of one device.
    outputs: Vec<Arc<ArrayInfo>>,
    /// Whether a start waits for the end of the run.
    waits: bool,
}

impl ParallelExecutable {
    /// Creates the program from a compiled program whose replicas run on `devices`. With `waits`, a start waits for the
    /// end of the run.
    pub(crate) fn new(
        handle: ExecutableHandle,
        devices: Vec<Device>,
        waits: bool,
    ) -> Result<Self, PjrtError> {
        let doing = |failure| PjrtError::plugin("read the properties of a program", failure);
        let name: Arc<str> = handle.name().map_err(doing)?.into();
        let found = handle.devices().map_err(doing)?.len();
        if found != devices.len() {
            let expected = devices.len();
            return Err(doing(Failure::unimplemented(
                "PJRT_LoadedExecutable_AddressableDevices",
                format!("the program runs on {found} devices of this process, not on {expected}"),
            )));
        }
        let outputs = output_types(&handle, &name)?;
        Ok(Self {
            handle,
            name,
            devices,
            outputs,
            waits,
        })
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn handle(&self) -> &ExecutableHandle {
        &self.handle
    }

    /// Returns the shardings of the results, and what one device holds of each parameter. `ranks` has the number of axes of
    /// each result. Returns `None` if the plugin does not return the compiled program.
    pub(crate) fn partitions(&self, mesh: Axes<'_>, ranks: &[usize]) -> Option<Partitions> {
        let (format, bytes) = self.handle.optimized_program().ok()?;
        Partitions::decode((&format, &bytes), mesh, ranks)
    }

    /// Starts the program on all devices. `inputs` has a list of buffers for each device. The inputs at the positions
    /// `not_donated` keep their memory, on all devices. Returns the results of each device.
    pub(crate) fn start(
        &self,
        inputs: &[Vec<&Buffer>],
        not_donated: &[i64],
    ) -> Result<Vec<Vec<Buffer>>, Failure> {
        let mut handles: Vec<Vec<&BufferHandle>> = Vec::with_capacity(inputs.len());
        for buffers in inputs {
            handles.push(buffers.iter().map(|buffer| buffer.handle()).collect());
        }
        let results =
            self.handle
                .execute_all(&handles, not_donated, self.outputs.len(), self.waits)?;
        let of_device = |(handles, device): (Vec<BufferHandle>, &Device)| {
            let results = handles.into_iter().zip(&self.outputs);
            let buffer = |(handle, array): (BufferHandle, &Arc<ArrayInfo>)| {
                let maker = Some(Arc::clone(&self.name));
                Buffer::new(handle, Arc::clone(array), device.clone(), maker)
            };
            results.map(buffer).collect()
        };
        Ok(results
            .into_iter()
            .zip(&self.devices)
            .map(of_device)
            .collect())
    }
}

impl fmt::Debug for ParallelExecutable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let devices = self.devices.len();
        write!(
            f,
            "ParallelExecutable(`{}` on {devices} devices)",
            self.name
        )
    }
}
