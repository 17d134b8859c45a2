//! A mesh: several devices of a client as one device for tensors.
//!
//! A tensor on a mesh has one buffer for each device. A program of `spmd` has one replica for each device. A program that
//! XLA divides has one partition for each device.
//!
//! Devices of `spmd` are replicas and not partitions: a program of partitions passes XLA's partitioner, which refuses `partition_id`
//! and needs an annotation at each value that it shall not divide. On CPUs a call waits for the end of the run, as in JAX: the devices
//! of a client share a few threads, and a device that runs ahead would occupy the threads that the others need.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use pytree_transform::device::{
    self, DeviceError, Input, MeshBuffer, MeshDevices, ParallelFunction, PartMaker, Partitioned,
    PartitionedFunction, Sharding,
};
use pytree_transform::indexing::Index;
use pytree_transform::{AbstractArray, StableHlo, Tensor};

use crate::buffer::Buffer;
use crate::client::Client;
use crate::convert::{device_error, tensor};
use crate::engine::{compile_options, not_lowered, transfer};
use crate::error::PjrtError;
use crate::options::CompileOptions;
use crate::parallel::ParallelExecutable;

impl MeshDevices for Client {
    /// Returns the engine of a mesh of the first devices of the client.
    fn together(&self, axes: &[(&str, usize)]) -> Result<Box<dyn device::MeshEngine>, DeviceError> {
        let expected = axes.iter().map(|(_, length)| length).product();
        let found = self.devices().len();
        if found < expected {
            let fix = match self.platform_name() {
                "cpu" => format!(
                    "load the client with `Options::new().set(\"cpu_device_count\", {expected})`, or make an axis shorter"
                ),
                _ => "make an axis shorter".to_owned(),
            };
            let what = format!("a mesh of {expected} devices, because the client has {found}");
            return Err(DeviceError::unsupported(what, fix));
        }
        let named = axes.iter();
        let named = named.map(|(name, length)| ((*name).to_owned(), *length));
        let named: Vec<(String, usize)> = named.collect();
        let whole = Sharding::whole(axes);
        let axes = axes
            .iter()
            .map(|(name, length)| format!("{name}: {length}"));
        let axes: Vec<String> = axes.collect();
        let name = format!("{} mesh ({})", self.platform_name(), axes.join(", "));
        Ok(Box::new(MeshEngine {
            client: self.without_places(),
            name: name.into(),
            axes: named.into(),
            devices: expected,
            whole,
        }))
    }
}

/// The option of XLA that replaces the representation of shardings in which Shardy's attributes are passed.
const NEW_SHARDINGS: &str = "xla_enable_hlo_sharding_v3";

/// The first devices of a client, which run recorded functions together.
#[derive(Clone)]
struct MeshEngine {
    client: Client,
    name: Arc<str>,
    axes: Arc<[(String, usize)]>,
    devices: usize,
    /// The sharding of tensors whose elements are on all devices.
    whole: Sharding,
}

impl fmt::Debug for MeshEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl device::MeshEngine for MeshEngine {
    fn name(&self) -> String {
        self.name.to_string()
    }

    fn compile_parallel(
        &self,
        function: &ParallelFunction<'_>,
    ) -> Result<Arc<dyn device::Executable>, DeviceError> {
        let jaxpr = function.jaxpr;
        let module = jaxpr.try_to_stablehlo().map_err(not_lowered)?;
        let axes = module.replica_axes();
        let replicas: usize = axes.iter().map(|(_, length)| length).product();
        if let [(name, _), ..] = axes[..]
            && replicas != self.devices
        {
            return Err(DeviceError::unsupported(
                format!("a collective over the axis `{name}` outside of `spmd` and `vmap`"),
                "call the function in a `spmd` over a mesh with this axis",
            ));
        }
        let constants = module.constants().iter();
        let constants = constants
            .map(|constant| self.transfer(constant, &self.whole))
            .collect::<Result<_, _>>()?;
        // As for one device, a single operation costs as much as the copy of an input that is not donated.
        let text = if jaxpr.equations().len() > 1 {
            module.text_with_donors()
        } else {
            module.text_without_locations().to_owned()
        };
        let options = compile_options(&self.client);
        let executable = self.client.compile_parallel(&text, &options, self.devices);
        Ok(Arc::new(Program {
            engine: self.clone(),
            executable: executable.map_err(device_error)?,
            constants,
            inputs: function.inputs.to_vec(),
            outputs: function.outputs.to_vec(),
        }))
    }

    fn divides_programs(&self) -> bool {
        true
    }

    fn compile_partitioned(
        &self,
        function: &PartitionedFunction<'_>,
    ) -> Result<Partitioned, DeviceError> {
        self.compile_partitions(function)
    }

    fn put_parts(
        &self,
        whole: &AbstractArray,
        sharding: &Sharding,
        part: &mut PartMaker<'_>,
    ) -> Result<Box<dyn device::Buffer>, DeviceError> {
        Ok(Box::new(self.transfer_parts(whole, sharding, part)?))
    }
}

impl MeshEngine {
    /// Compiles a function that XLA divides. XLA chooses how the results are divided. If axes of the mesh cannot describe
    /// what it has chosen, the function is compiled again with these results on all devices.
    fn compile_partitions(
        &self,
        function: &PartitionedFunction<'_>,
    ) -> Result<Partitioned, DeviceError> {
        let ranks = function.jaxpr().outputs();
        let ranks: Vec<usize> = ranks.iter().map(|output| output.shape.len()).collect();
        let (mut executable, module) = self.partitioned(function, None)?;
        let mut found = executable.partitions(&self.axes, &ranks);
        let chosen = found.as_ref().map(|found| &found.results[..]);
        let chosen: Vec<Option<Sharding>> = chosen.map_or(vec![None; ranks.len()], <[_]>::to_vec);
        let is_known = chosen.iter().all(Option::is_some);
        let whole = || self.whole.clone();
        let outputs = chosen.into_iter().map(|known| known.unwrap_or_else(whole));
        let outputs: Vec<Sharding> = outputs.collect();
        if !is_known {
            executable = self.partitioned(function, Some(&outputs))?.0;
            found = executable.partitions(&self.axes, &ranks);
        }
        let parts = found.map(|found| {
            let own = found.parameters.into_iter().take(function.inputs().len());
            own.map(|part| part.shape).collect()
        });
        let constants = module.constants().iter();
        let constants = constants
            .map(|constant| self.transfer(constant, &self.whole))
            .collect::<Result<_, _>>()?;
        let executable = Arc::new(Program {
            engine: self.clone(),
            executable,
            constants,
            inputs: function.inputs().to_vec(),
            outputs: outputs.clone(),
        });
        Ok(Partitioned {
            executable,
            outputs,
            parts,
        })
    }

    fn partitioned(
        &self,
        function: &PartitionedFunction<'_>,
        outputs: Option<&[Sharding]>,
    ) -> Result<(ParallelExecutable, StableHlo), DeviceError> {
        let module = function.try_to_stablehlo(outputs).map_err(not_lowered)?;
        let text = if function.jaxpr().equations().len() > 1 {
            module.text_with_donors()
        } else {
            module.text_without_locations().to_owned()
        };
        let open = vec![outputs.is_none(); module.outputs().len()];
        let options = compile_options(&self.client);
        let compile = |options: &CompileOptions| {
            let client = &self.client;
            client.compile_partitioned(&text, options, self.devices, &open)
        };
        // Without this option, XLA warns that it reads shardings in this form.
        let executable = match compile(&options.clone().set(NEW_SHARDINGS, false)) {
            // Older plugins do not have the option.
            Err(error) if error.to_string().contains(NEW_SHARDINGS) => compile(&options),
            outcome => outcome,
        };
        Ok((executable.map_err(device_error)?, module))
    }

    /// Begins to transfer the parts of a tensor to the devices.
    fn transfer(&self, tensor: &Tensor, sharding: &Sharding) -> Result<Parts, DeviceError> {
        self.transfer_parts(tensor.info(), sharding, |index| {
            if sharding.is_replicated() {
                return Ok(tensor.clone());
            }
            let ranges: Vec<Index> = index.iter().cloned().map(Index::from).collect();
            let part = tensor.try_index(ranges);
            part.map_err(|error| DeviceError::failed(error.to_string()))
        })
    }

    /// Begins to transfer parts to the devices that hold them. Calls `part` once for each different part.
    fn transfer_parts(
        &self,
        whole: &AbstractArray,
        sharding: &Sharding,
        mut part: impl FnMut(&[Range<usize>]) -> Result<Tensor, DeviceError>,
    ) -> Result<Parts, DeviceError> {
        let devices = &self.client.devices()[..self.devices];
        let rank = whole.rank();
        let mut parts: Vec<Option<Buffer>> = devices.iter().map(|_| None).collect();
        for device in 0..devices.len() {
            if parts[device].is_some() {
                continue;
            }
            let piece = part(&sharding.index(device, &whole.shape))?;
            let own = place(sharding, device, rank);
            for other in device..devices.len() {
                if place(sharding, other, rank) == own {
                    parts[other] = Some(transfer(&piece, &devices[other])?);
                }
            }
        }
        Ok(Parts {
            parts: parts.into_iter().flatten().collect(),
            sharding: sharding.clone(),
        })
    }
}

/// Returns the number of a device's part. The parts are numbered in row-major order of their positions in the tensor.
fn place(sharding: &Sharding, device: usize, rank: usize) -> usize {
    (0..rank).fold(0, |number, axis| {
        number * sharding.parts(axis) + sharding.position(device, axis)
    })
}

/// Joins the parts of a tensor, which are numbered in row-major order of their positions in the tensor.
fn joined(mut pieces: Vec<Tensor>, sharding: &Sharding) -> Result<Tensor, DeviceError> {
    let rank = pieces.first().map_or(0, Tensor::rank);
    for axis in (0..rank).rev() {
        let parts = sharding.parts(axis);
        if parts > 1 {
            let join = |pieces: &[Tensor]| Tensor::try_concatenate(pieces, axis.cast_signed());
            let joined: Result<Vec<Tensor>, _> = pieces.chunks(parts).map(join).collect();
            pieces = joined.map_err(|error| DeviceError::failed(error.to_string()))?;
        }
    }
    let whole = pieces.into_iter().next();
    whole.ok_or_else(|| DeviceError::failed("a tensor on a mesh without devices"))
}

/// A tensor on a mesh: the part of each device.
#[derive(Debug)]
struct Parts {
    parts: Vec<Buffer>,
    sharding: Sharding,
}

impl device::Buffer for Parts {
    /// Waits for all parts and joins them. Reads only one of several equal parts.
    fn read(&self) -> Result<Tensor, DeviceError> {
        let rank = self.parts.first().map_or(0, |part| part.dims().len());
        let count = (0..rank).map(|axis| self.sharding.parts(axis)).product();
        let mut pieces: Vec<Option<Tensor>> = vec![None; count];
        for (device, part) in self.parts.iter().enumerate() {
            let piece = &mut pieces[place(&self.sharding, device, rank)];
            if piece.is_none() {
                *piece = Some(tensor(part)?);
            } else {
                part.wait().map_err(device_error)?;
            }
        }
        joined(pieces.into_iter().flatten().collect(), &self.sharding)
    }

    fn wait(&self) -> Result<(), DeviceError> {
        let mut parts = self.parts.iter();
        parts.try_for_each(|part| part.wait().map_err(device_error))
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
        tensor(&self.parts[device])
    }
}

/// A recorded function that is compiled for all devices of a mesh.
#[derive(Debug)]
struct Program {
    engine: MeshEngine,
    executable: ParallelExecutable,
    /// The large constants, which are the last arguments.
    constants: Vec<Parts>,
    inputs: Vec<Sharding>,
    outputs: Vec<Sharding>,
}

impl device::Executable for Program {
    fn run(&self, inputs: Vec<Input<'_>>) -> Result<Vec<Box<dyn device::Buffer>>, DeviceError> {
        // A tensor with another sharding is gathered on the host and divided again.
        let mut moved: Vec<Option<Parts>> = Vec::with_capacity(inputs.len());
        for (input, expected) in inputs.iter().zip(&self.inputs) {
            let found = &self.parts(input)?.sharding;
            let is_same = found == expected || found.is_replicated() && expected.is_replicated();
            moved.push(if is_same {
                None
            } else {
                Some(self.engine.transfer(&input.buffer().read()?, expected)?)
            });
        }
        let mut kept: Vec<i64> = Vec::new();
        let mut operands: Vec<&Parts> = Vec::with_capacity(inputs.len() + self.constants.len());
        for ((input, moved), position) in inputs.iter().zip(&moved).zip(0_i64..) {
            if let Some(parts) = moved {
                operands.push(parts);
                continue;
            }
            operands.push(self.parts(input)?);
            if !input.is_owned() {
                kept.push(position);
            }
        }
        operands.extend(&self.constants);
        let of_device = |device: usize| -> Vec<&Buffer> {
            operands.iter().map(|parts| &parts.parts[device]).collect()
        };
        let lists: Vec<Vec<&Buffer>> = (0..self.engine.devices).map(of_device).collect();
        let name = self.executable.name();
        let results = {
            let _starting = self.engine.client.starting();
            self.executable.start(&lists, &kept)
        };
        let results = results.map_err(|failure| device_error(PjrtError::execute(name, failure)))?;
        let mut results: Vec<_> = results.into_iter().map(Vec::into_iter).collect();
        let of_output = |sharding: &Sharding| {
            let parts = results.iter_mut().filter_map(Iterator::next);
            Box::new(Parts {
                parts: parts.collect(),
                sharding: sharding.clone(),
            }) as Box<dyn device::Buffer>
        };
        Ok(self.outputs.iter().map(of_output).collect())
    }
}

impl Program {
    fn parts<'i>(&self, input: &'i Input<'_>) -> Result<&'i Parts, DeviceError> {
        let parts = input.downcast_ref::<Parts>();
        let parts = parts.filter(|parts| parts.parts.len() == self.engine.devices);
        parts.ok_or_else(|| DeviceError::failed("a buffer of another engine"))
    }
}
