//! Collectives between processes through MPI.
//!
//! `mpiexec` starts the same program in several processes. `Processes::start` connects them. A function that runs in
//! `Processes::along("data", …)` may use collectives such as `psum` over the axis `data`, also in compiled functions and
//! in derivatives. Each process holds one example of the axis, and MPI carries the examples.
//!
//! The feature `link` links the MPI library of the system. Without this feature the crate is empty.
//!
//! # The end of a run
//! A run ends in all processes, or it ends with an error:
//!
//! - A process that is killed ends the run: `mpiexec` kills the other processes and returns a non-zero status.
//! - A process that panics ends the run, because dropping `Processes` during a panic calls `MPI_Abort`.
//! - A process that ends while others wait for it in a collective, for instance after an error, ends the run. The
//!   message names the collective.
//! - Two processes that call different collectives end the run. The message names both collectives.

#[cfg(feature = "link")]
mod communicator;
#[cfg(feature = "link")]
mod error;
#[cfg(feature = "link")]
mod processes;

#[cfg(feature = "link")]
pub use crate::error::MpiError;
#[cfg(feature = "link")]
pub use crate::processes::Processes;
