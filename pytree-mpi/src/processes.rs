//! The processes of a run, as users see them.

use std::rc::Rc;

use mpi::Threading;
use mpi::environment::initialize_with_threading;
use pytree_transform::device::{DeviceError, MeshDevices, MeshEngine};
use pytree_transform::processes::Communicator;

use crate::communicator::Group;
use crate::error::MpiError;

/// The processes that `mpiexec` started. Each process is one device of a [`Mesh`](pytree_transform::device::Mesh).
///
/// A program that was not started by `mpiexec` is a run of one process.
///
/// MPI ends when this value, all meshes of the processes and all tensors on these meshes are dropped, so keep them in
/// `main` until the program ends. They stay in the thread that made them: only this thread communicates. The threads of
/// the library, which share the work of a kernel, do not.
///
/// # Examples
/// ```no_run
/// use pytree_mpi::Processes;
/// use pytree_transform::device::Mesh;
/// use pytree_transform::{Tensor, psum, spmd};
///
/// let processes = Processes::start()?;
/// let mesh = Mesh::new(&processes, [("data", processes.size())]);
/// let sum = spmd(|x: Tensor| psum(&x.sum(), "data")).over(&mesh).in_axes("data", 0);
/// let x = Tensor::ones(pytree_transform::DType::F32, [processes.size()]);
/// println!("{}", sum(x)); // Each process prints their number.
/// # Ok::<(), pytree_mpi::MpiError>(())
/// ```
#[derive(Debug)]
pub struct Processes {
    all: Rc<dyn Communicator>,
}

impl Processes {
    /// Starts MPI.
    ///
    /// # Errors
    /// Returns [`MpiError::AlreadyStarted`] if this process has already started MPI, and [`MpiError::NoThreads`] if the
    /// MPI library allows no threads.
    pub fn start() -> Result<Self, MpiError> {
        let started = initialize_with_threading(Threading::Funneled);
        let (universe, provided) = started.ok_or(MpiError::AlreadyStarted)?;
        if provided < Threading::Funneled {
            return Err(MpiError::NoThreads);
        }
        Ok(Self {
            all: Rc::new(Group::of_all(universe)),
        })
    }

    /// Returns the position of this process, which is less than [`size`](Self::size).
    pub fn rank(&self) -> usize {
        self.all.rank()
    }

    /// Returns the number of processes.
    pub fn size(&self) -> usize {
        self.all.size()
    }
}

impl MeshDevices for Processes {
    /// Returns the engine of a mesh of all processes of the run. All processes call this function with the same axes.
    fn together(&self, axes: &[(&str, usize)]) -> Result<Box<dyn MeshEngine>, DeviceError> {
        self.all.together(axes)
    }
}
