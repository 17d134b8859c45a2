//! The processes of a run, as users see them.

use std::rc::Rc;

use mpi::Threading;
use mpi::environment::initialize_with_threading;
use pytree_transform::processes::{Communicator as _, with_communicator};
use pytree_transform::{Tensor, ix};

use crate::communicator::World;
use crate::error::MpiError;

/// The processes that `mpiexec` started.
///
/// A program that was not started by `mpiexec` is a run of one process.
///
/// Dropping this value ends MPI, so keep it in `main` until the program ends. It stays in the thread that made it:
/// only this thread communicates. The threads of the library, which share the work of a kernel, do not.
///
/// # Examples
/// ```no_run
/// use pytree_mpi::Processes;
/// use pytree_transform::{Tensor, jit, psum};
///
/// let processes = Processes::start()?;
/// let own = processes.part(&Tensor::from([1.0, 2.0, 3.0, 4.0]));
/// let sum = processes.along("data", || jit(|x: Tensor| psum(&x.sum(), "data"))(own));
/// assert_eq!(sum, Tensor::from(10.0));
/// # Ok::<(), pytree_mpi::MpiError>(())
/// ```
#[derive(Debug)]
pub struct Processes {
    world: Rc<World>,
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
            world: Rc::new(World::new(universe)),
        })
    }

    /// Returns the position of this process, which is less than [`size`](Self::size).
    pub fn rank(&self) -> usize {
        self.world.rank()
    }

    /// Returns the number of processes.
    pub fn size(&self) -> usize {
        self.world.size()
    }

    /// Calls a function in which `axis` is the axis of all processes: collectives over this name combine the values of
    /// the processes. All processes must call the same collectives in the same order.
    ///
    /// A function that is compiled in the call can be kept and used in later calls.
    ///
    /// # Panics
    /// Panics if a transformation is in progress: call `along` around the compiled function, or around the whole
    /// program.
    pub fn along<R>(&self, axis: impl AsRef<str>, function: impl FnOnce() -> R) -> R {
        with_communicator(axis, self.world.clone(), function)
    }

    /// Returns the rows of a tensor that belong to this process: axis 0 is divided into one part for each process.
    ///
    /// # Panics
    /// Panics if the length of axis 0 is not a multiple of the number of processes.
    #[must_use]
    #[track_caller]
    pub fn part(&self, tensor: &Tensor) -> Tensor {
        let rows = tensor.shape().first().copied();
        let Some(rows) = rows.filter(|rows| rows.is_multiple_of(self.size())) else {
            panic!(
                "cannot divide {} among {} processes: the length of axis 0 must be a multiple of {}; pad the tensor or drop rows",
                tensor.info(),
                self.size(),
                self.size()
            )
        };
        let length = rows / self.size();
        let start = self.rank() * length;
        tensor.index(ix![start..start + length])
    }
}
