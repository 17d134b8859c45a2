//! The processes of MPI as the devices of a mesh.
//!
//! `mpiexec` starts the same program in several processes. `Processes::start` connects them, and `Mesh::new(&processes,
//! [("data", processes.size())])` makes a mesh of them. A function of `spmd` runs on the mesh, each process computes with its
//! part of the argument, and MPI carries the collectives.
//!
//! The feature `link` links the MPI library of the system. Without this feature the crate is empty.
//!
//! # The end of a run
//! A run ends in all processes, or it ends with an error:
//!
//! - A process that is killed ends the run: `mpiexec` kills the other processes and returns a non-zero status.
//! - A process that panics ends the run, because dropping the processes and their meshes during a panic calls
//!   `MPI_Abort`.
//! - A process that ends while others wait for it, for instance after an error, ends the run. The message says what each
//!   process does.
//! - Two processes that call different collectives end the run. The message names both collectives.
//!
//! # Why a crate that is empty without a feature
//! The crate `mpi` runs bindgen on the header of the installed MPI, so it cannot be built without MPI and libclang. A package outside of
//! the workspace could not be an optional dependency with the versions of the workspace's lock file. To load the library at run time
//! would need the layout of one MPI implementation, because `OpenMPI` 4 has no standard ABI.

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
