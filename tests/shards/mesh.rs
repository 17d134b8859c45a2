//! A mesh whose devices are arrays on the host. It computes nothing, so tests of parts need no plugin.

use std::ops::Range;
use std::sync::Arc;

use pytree::device::{
    Buffer, DeviceError, Executable, MeshBuffer, MeshDevices, MeshEngine, ParallelFunction,
    PartMaker, Sharding,
};
use pytree::{AbstractArray, DType, Tensor};

/// The devices of a mesh, of which this process holds those in a range.
#[derive(Debug)]
pub(crate) struct Held(pub(crate) Range<usize>);

#[derive(Debug)]
struct HostMesh {
    held: Range<usize>,
}

#[derive(Debug)]
struct Parts {
    /// The parts of the devices that this process holds.
    parts: Vec<Option<Tensor>>,
    sharding: Sharding,
}

impl MeshDevices for Held {
    fn together(&self, _: &[(&str, usize)]) -> Result<Box<dyn MeshEngine>, DeviceError> {
        let held = self.0.clone();
        Ok(Box::new(HostMesh { held }))
    }
}

impl MeshEngine for HostMesh {
    fn name(&self) -> String {
        "mesh of arrays".to_owned()
    }

    fn compile_parallel(
        &self,
        _: &ParallelFunction<'_>,
    ) -> Result<Arc<dyn Executable>, DeviceError> {
        Err(DeviceError::unsupported(
            "operations",
            "compute on the host",
        ))
    }

    fn put_parts(
        &self,
        whole: &AbstractArray,
        sharding: &Sharding,
        part: &mut PartMaker<'_>,
    ) -> Result<Box<dyn Buffer>, DeviceError> {
        let mut parts: Vec<Option<Tensor>> = vec![None; sharding.devices()];
        for device in 0..parts.len() {
            if !self.is_addressable(device) {
                continue;
            }
            let index = sharding.index(device, &whole.shape);
            let known = (0..device).find(|&other| {
                parts[other].is_some() && sharding.index(other, &whole.shape) == index
            });
            parts[device] = Some(match known {
                Some(other) => parts[other].clone().unwrap(),
                None => part(&index)?,
            });
        }
        let sharding = sharding.clone();
        Ok(Box::new(Parts { parts, sharding }))
    }

    fn is_addressable(&self, device: usize) -> bool {
        self.held.contains(&device)
    }
}

impl Buffer for Parts {
    fn read(&self) -> Result<Tensor, DeviceError> {
        let Some(parts) = self.parts.iter().cloned().collect::<Option<Vec<_>>>() else {
            return Err(DeviceError::failed("another process holds a part"));
        };
        let rank = parts[0].rank();
        // The first devices with each part, in row-major order of the parts' positions.
        let place = |device: usize| -> Vec<usize> {
            (0..rank)
                .map(|axis| self.sharding.position(device, axis))
                .collect()
        };
        let mut devices: Vec<usize> = (0..parts.len()).collect();
        devices.sort_by_key(|&device| place(device));
        devices.dedup_by_key(|device| place(*device));
        let mut pieces: Vec<Tensor> = devices
            .iter()
            .map(|&device| parts[device].clone())
            .collect();
        for axis in (0..rank).rev() {
            let join = |pieces: &[Tensor]| Tensor::concatenate(pieces, axis as isize);
            pieces = pieces.chunks(self.sharding.parts(axis)).map(join).collect();
        }
        Ok(pieces.swap_remove(0))
    }

    fn on_mesh(&self) -> Option<&dyn MeshBuffer> {
        Some(self)
    }
}

impl MeshBuffer for Parts {
    fn sharding(&self) -> &Sharding {
        &self.sharding
    }

    fn read_part(&self, device: usize) -> Result<Tensor, DeviceError> {
        let Some(part) = &self.parts[device] else {
            return Err(DeviceError::failed("another process holds the part"));
        };
        // A device copies what is read.
        Ok(match part.dtype() {
            DType::F32 => Tensor::new(part.shape(), part.to_vec::<f32>()),
            _ => part.clone(),
        })
    }
}
