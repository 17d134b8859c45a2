//! Devices: the places of tensors, and the engines that compute with them.
//!
//! A tensor is on the host or on one device. The files are:
//! - `handle.rs`: the handle of a device
//! - `engine.rs`: the interface that an engine implements
//! - `current.rs`: the device that part of a program has chosen
//! - `placement.rs`: the choice of the device for an operation
//! - `array.rs`: an array on a device
//! - `program.rs`: a jaxpr that is compiled for a device
//! - `mesh/`: several devices as one device, and processes as devices
//! - `operations.rs`: single operations
//! - `structure.rs`: the comparison of single operations, which may have bodies
//! - `constants.rs`: converts the tensors that the body of an operation has captured into operands
//!
//! Invariants: an operation runs on the device of its operands. Operands on the host are transferred to this device.
//! Operands on two devices are an error. The elements of a tensor are transferred to the host only if they are read.
//!
//! A recorded function belongs to no device: it is compiled for each device that runs it. A run gets a buffer by value exactly if no
//! other tensor holds the buffer, so nothing can use a donated buffer again. The executor of the host is not an engine: it lends arrays
//! by reference count and returns no errors.

mod array;
mod compiled;
mod constants;
mod current;
mod engine;
mod handle;
mod mesh;
mod operations;
mod placement;
mod program;
mod slot;
mod structure;

pub(crate) use self::array::DeviceArray;
pub use self::current::with_device;
pub(crate) use self::current::{beside, chosen, is_chosen, on_host, within};
pub use self::engine::{Buffer, Engine, Executable, Input};
pub use self::handle::Device;
pub(crate) use self::mesh::{
    Layout, MeshAxes, part_of, problems_of, problems_of_spec, problems_of_tensor, processes,
    suggestion,
};
pub use self::mesh::{
    Mesh, MeshBuffer, MeshDevices, MeshEngine, ParallelFunction, PartMaker, PartitionSpec,
    Partitioned, PartitionedFunction, Shard, Sharding, SpecAxis, visualize_sharding,
};
pub(crate) use self::operations::evaluate;
pub(crate) use self::placement::{Mixed, described, of_jaxpr, of_tensors, uses_device};
pub(crate) use self::program::Program;
pub(crate) use self::slot::Slots;
