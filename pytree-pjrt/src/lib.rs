//! Compiles StableHLO and runs it on CPUs, GPUs and TPUs through PJRT plugins of XLA.
//!
//! [`Client`] loads a plugin and has its devices. [`Executable`] is a compiled program. [`Buffer`] is an array on a device.
//!
//! ```no_run
//! use pytree_pjrt::{Client, CompileOptions};
//!
//! let client = Client::from_env()?;
//! let program = "module @add {
//!     func.func @main(%x: tensor<2xf32>, %y: tensor<2xf32>) -> tensor<2xf32> {
//!         %z = stablehlo.add %x, %y : tensor<2xf32>
//!         return %z : tensor<2xf32>
//!     }
//! }";
//! let add = client.compile(program, &CompileOptions::new())?;
//! let x = client.put(&[1.0_f32, 2.0], &[2])?;
//! let sums = add.run(&[&x, &x], &[])?;
//! assert_eq!(sums[0].to_vec::<f32>()?, [2.0, 4.0]);
//! # Ok::<(), pytree_pjrt::PjrtError>(())
//! ```
//!
//! # Plugins
//! A plugin is a shared library that implements the C interface of PJRT. It is loaded when the program runs; the build needs
//! nothing of it. The Python packages `jax-cuda12-pjrt` and `jax-cuda13-pjrt` contain plugins for NVIDIA GPUs, and `libtpu` the
//! one for TPUs. A wheel is a zip archive, from which the library must be unzipped.
//!
//! A plugin is trusted code that runs in this process. **If a plugin aborts, the process ends**: XLA aborts when it finds a bug
//! of its own, and an older plugin threw a C++ exception at an option of the wrong type. No error can be returned then. `libtpu` waits about a minute for the cloud's metadata on a machine without a
//! TPU.
//!
//! Plugins for CPUs on PyPI are uploads of third parties. They are good enough for tests; build a plugin from the sources of XLA
//! for anything else.
//!
//! # Asynchronous runs
//! [`Executable::run`] returns when the run has started. Reading a result waits for it, and returns the error of the run if it
//! failed. Runs of one device end in the order in which they started.
//!
//! # Targets
//! Without shared libraries, as on wasm32, the crate builds and [`Client::load`] returns an error.

mod buffer;
mod cache;
mod client;
mod convert;
mod device;
mod element;
mod engine;
mod error;
mod executable;
mod options;
mod plugin;
mod proto;
mod signature;
mod stats;
#[allow(
    unsafe_code,
    reason = "a C interface is called through pointers; all such calls are in this module"
)]
mod sys;

pub use crate::buffer::{Buffer, Read};
pub use crate::cache::CacheStats;
pub use crate::client::Client;
pub use crate::device::Device;
pub use crate::element::{ArrayType, Element, ElementType};
pub use crate::error::{ErrorCode, PjrtError};
pub use crate::executable::Executable;
pub use crate::options::{CompileOptions, OptionValue, Options};
pub use crate::stats::{CompiledMemory, DeviceMemory};
