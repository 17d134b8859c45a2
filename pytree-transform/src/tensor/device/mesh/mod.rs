//! Meshes: several devices, or processes, that run one program together.
//!
//! Only the engine of a mesh implements what is here; an [`Engine`](crate::device::Engine) knows nothing of meshes. The files
//! are:
//! - `engine.rs`: the interface that the engine of a mesh implements
//! - `handle.rs`: a mesh
//! - `as_device.rs`: a mesh as one device, and the calls of its engine
//! - `axes.rs`: the named axes of a mesh
//! - `sharding.rs`: the division of a tensor among the devices of a mesh
//! - `spec.rs`: the spec of a sharding, which names axes of a mesh
//! - `layout.rs`: the shardings of the operands of a program, and the check of a spec
//! - `shards.rs`: the parts of a tensor that devices hold, one at a time
//! - `visualize.rs`: a picture of a sharding
//! - `processes.rs`: the interface of a library that connects processes, and the axes that are bound while a program runs
//!
//! The engine of a mesh of processes uses the executor, so it is a file of a higher layer: `transformations/spmd/processes.rs`.

mod as_device;
mod axes;
mod engine;
mod handle;
mod layout;
pub(crate) mod processes;
mod sharding;
mod shards;
mod spec;
mod visualize;

pub(crate) use self::as_device::part_of;
pub(crate) use self::axes::MeshAxes;
pub use self::engine::{
    MeshBuffer, MeshEngine, ParallelFunction, PartMaker, Partitioned, PartitionedFunction,
};
pub use self::handle::{Mesh, MeshDevices};
pub(crate) use self::layout::{
    Layout, problems_of, problems_of_spec, problems_of_tensor, suggestion,
};
pub use self::sharding::Sharding;
pub use self::shards::Shard;
pub use self::spec::{PartitionSpec, SpecAxis};
pub use self::visualize::visualize_sharding;
