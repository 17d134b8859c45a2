//! Compiles StableHLO and runs it on CPUs, GPUs and TPUs through PJRT plugins of XLA.
//!
//! [`Client`] loads a plugin and lists its devices. [`Executable`] is a compiled program. [`Buffer`] is an array on a
//! device.
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
//! A plugin is a shared library that implements the C interface of PJRT. Your program loads the plugin at run time, so
//! the build does not need the plugin. The Python packages `jax-cuda12-pjrt` and `jax-cuda13-pjrt` contain plugins for
//! NVIDIA GPUs. The package `libtpu` contains the plugin for TPUs. A wheel is a zip archive, which contains the
//! library.
//!
//! A plugin is trusted code that runs in this process. **If a plugin aborts, the process ends**, and no error is
//! returned. XLA aborts when it finds a bug in itself. An older plugin threw a C++ exception for an option of the wrong
//! type. On a machine without a TPU, `libtpu` waits about a minute for the metadata of the cloud.
//!
//! Plugins for CPUs on PyPI are uploads of third parties. Use them only for tests. For all other purposes, build a
//! plugin from the sources of XLA.
//!
//! # Asynchronous runs
//! [`Executable::run`] returns when the run has started. Reading a result waits for the run. If the run failed, reading
//! returns its error. The runs of one device end in the order in which they started.
//!
//! # Targets
//! On a target without shared libraries, such as wasm32, the crate builds, but [`Client::load`] returns an error.

mod buffer;
mod cache;
mod client;
mod convert;
mod device;
mod element;
mod engine;
mod error;
mod executable;
mod mesh;
mod options;
mod parallel;
mod partitions;
mod places;
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
pub use crate::element::{ArrayInfo, Element, ElementType};
pub use crate::error::{ErrorCode, PjrtError};
pub use crate::executable::Executable;
pub use crate::options::{CompileOptions, OptionValue, Options};
pub use crate::stats::{CompiledMemory, DeviceMemory};
