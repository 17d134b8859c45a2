//! Devices: where tensors are, and which engine computes with them.
//!
//! A tensor is on the host or on one device. `handle.rs` is the handle of a device, `engine.rs` is the interface that an engine implements, `current.rs` the
//! device that a part of a program has chosen, `array.rs` an array on a device, `program.rs` a jaxpr that is compiled for
//! a device, and `operations.rs` single operations.
//!
//! Invariants: an operation runs on the device of its operands. Operands of the host are transferred to it. Operands of
//! two devices are an error. A tensor leaves a device only where its elements are read.

mod array;
mod current;
mod engine;
mod handle;
mod operations;
mod placement;
mod program;
mod slot;

pub(crate) use self::array::DeviceArray;
pub use self::current::with_device;
pub(crate) use self::current::{beside, chosen, is_chosen, on_host, within};
pub use self::engine::{Buffer, Engine, Executable, Input};
use self::handle::Attached;
pub use self::handle::Device;
pub(crate) use self::operations::evaluate;
pub(crate) use self::placement::{Mixed, described, of_jaxpr, of_tensors, uses_device};
pub(crate) use self::program::Program;
pub(crate) use self::slot::Slots;
