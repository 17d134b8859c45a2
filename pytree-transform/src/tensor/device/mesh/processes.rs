//! Processes that run the same program: the interface of a library that connects them, and the axes that are bound while
//! a program runs.
//!
//! A process is one device of a mesh. A [`Communicator`] sends bytes between the processes along an axis of the mesh. A
//! recorded function for one device has free names of axes. While the function runs, a communicator is bound to each
//! name, and the evaluation of a collective calls this communicator.
//!
//! The bound axes belong to a thread and to a run.

use std::cell::Cell;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::panic::Location;
use std::rc::Rc;

use pytree_kernels::base::dtype::AbstractArray;

use crate::base::axis_names::AxisName;
use crate::tensor::primitive::Primitive;
use crate::tensor::trace::known_line;

/// Sends bytes between processes that run the same program. [`Mesh::new`](crate::device::Mesh::new) makes a mesh of the
/// processes of an `Rc<dyn Communicator>`.
///
/// A communicator moves bytes and computes nothing. The library adds and compares the elements in the order of the
/// ranks, so all processes get the same bits, and these are the bits of a `vmap` over the same examples.
///
/// All processes call the same functions in the same order. Each function gets a description of what the process does. A
/// communicator compares the [fingerprints](CollectiveCall::fingerprint) of all processes, so that two different
/// collectives are an error and not a result without meaning.
///
/// Only the thread that made the mesh calls the communicator.
///
/// # Errors
/// The functions return no errors. If a process is lost, the others cannot continue: the communicator ends the process
/// or panics.
///
/// # Examples
/// A communicator of a single process:
///
/// ```
/// use std::rc::Rc;
/// use pytree_transform::device::Mesh;
/// use pytree_transform::processes::{CollectiveCall, Communicator};
/// use pytree_transform::{Tensor, psum, spmd};
///
/// #[derive(Debug)]
/// struct Alone;
///
/// impl Communicator for Alone {
///     fn rank(&self) -> usize {
///         0
///     }
///     fn size(&self) -> usize {
///         1
///     }
///     fn all_gather(&self, _: &CollectiveCall<'_>, own: &[u8], all: &mut [u8]) {
///         all.copy_from_slice(own);
///     }
///     fn all_to_all(&self, _: &CollectiveCall<'_>, sent: &[u8], received: &mut [u8]) {
///         received.copy_from_slice(sent);
///     }
///     fn permute(
///         &self,
///         _: &CollectiveCall<'_>,
///         own: &[u8],
///         destination: Option<usize>,
///         source: Option<usize>,
///         received: &mut [u8],
///     ) {
///         if destination.is_some() && source.is_some() {
///             received.copy_from_slice(own);
///         }
///     }
///     fn split(&self, _: &CollectiveCall<'_>, _: usize) -> Rc<dyn Communicator> {
///         Rc::new(Alone)
///     }
/// }
///
/// let alone: Rc<dyn Communicator> = Rc::new(Alone);
/// let mesh = Mesh::new(&alone, [("data", 1)]);
/// let sum = spmd(|x: Tensor| psum(&x.sum(), "data")).over(&mesh).in_axes("data", 0);
/// assert_eq!(sum(Tensor::from([1.0, 2.0])).item::<f64>(), 3.0);
/// ```
pub trait Communicator: fmt::Debug {
    /// Returns the position of this process, which is less than [`size`](Self::size).
    fn rank(&self) -> usize;

    /// Returns the number of processes, which is at least 1.
    fn size(&self) -> usize;

    /// Gathers the bytes of all processes in the order of their ranks. `all` is [`size`](Self::size) times as long as
    /// `own`, which has the same length in all processes.
    fn all_gather(&self, call: &CollectiveCall<'_>, own: &[u8], all: &mut [u8]);

    /// Sends part `i` of `sent` to the process of rank `i`, and writes the part from the process of rank `i` to part
    /// `i` of `received`. Both consist of [`size`](Self::size) parts of equal length.
    fn all_to_all(&self, call: &CollectiveCall<'_>, sent: &[u8], received: &mut [u8]);

    /// Sends `own` to the process of rank `destination`, and receives `received` from the process of rank `source`.
    /// `None` means that nothing is sent or received. `received` is as long as `own` and holds zeros, which stay
    /// if nothing is received. All processes call this function, also those that neither send nor receive.
    fn permute(
        &self,
        call: &CollectiveCall<'_>,
        own: &[u8],
        destination: Option<usize>,
        source: Option<usize>,
        received: &mut [u8],
    );

    /// Divides the processes into groups, and returns a communicator of the processes whose number `group` is that of
    /// this process. Their ranks are in the order of their ranks here. A mesh with several axes calls this function for
    /// each axis.
    fn split(&self, call: &CollectiveCall<'_>, group: usize) -> Rc<dyn Communicator>;
}

/// The description of what all processes do together. `{}` displays it like `psum axes=('data',) of f32[3]`, and `{:#}` also
/// shows the lines of the program.
#[derive(Debug)]
pub struct CollectiveCall<'a> {
    doing: Doing<'a>,
    /// The line of the collective, if it is known.
    line: Option<Line>,
    /// The line of the `spmd` whose function runs.
    function: Option<Line>,
}

/// A line of the user's program.
type Line = &'static Location<'static>;

/// What all processes do together.
#[derive(Debug)]
pub(crate) enum Doing<'a> {
    /// They compute a collective.
    Collective(&'a dyn Primitive, &'a AbstractArray),
    /// They read a tensor, of which each process has a part.
    Read(&'a AbstractArray),
    /// They make a mesh.
    Mesh(&'a [(&'a str, usize)]),
    /// They make a tensor, of which each process passes a part with this dtype and shape.
    Part(&'a AbstractArray),
}

impl<'a> CollectiveCall<'a> {
    /// Describes what this process does at the current line of the user's program.
    pub(crate) fn new(doing: Doing<'a>) -> Self {
        Self {
            doing,
            line: known_line(),
            function: FUNCTION.get(),
        }
    }

    /// Returns a number that is equal in all processes that run the same program and do the same at the same line, with the
    /// same parameters, dtype and shape. The number is never 0.
    pub fn fingerprint(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        for line in [self.line, self.function] {
            // Addresses differ between processes.
            let line = line.map(|line| (line.file(), line.line(), line.column()));
            line.hash(&mut hasher);
        }
        match self.doing {
            Doing::Collective(primitive, operand) => {
                primitive.add_to_hash(&mut hasher);
                operand.hash(&mut hasher);
            }
            Doing::Read(whole) => ("read", whole).hash(&mut hasher),
            Doing::Mesh(axes) => ("mesh", axes).hash(&mut hasher),
            Doing::Part(local) => ("part", local).hash(&mut hasher),
        }
        hasher.finish().max(1)
    }
}

impl fmt::Display for CollectiveCall<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.doing {
            Doing::Collective(primitive, operand) => {
                write!(f, "{} ", primitive.name())?;
                primitive.write_parameters(f)?;
                write!(f, " of {operand}")?;
            }
            Doing::Read(whole) => write!(f, "read of the divided {whole}")?,
            Doing::Mesh(axes) => write!(f, "Mesh::new with the axes {axes:?}")?,
            Doing::Part(local) => write!(f, "tensor_from_process_data with {local}")?,
        }
        if !f.alternate() {
            return Ok(());
        }
        if let Some(line) = self.line {
            write!(f, " at {line}")?;
        }
        match self
            .function
            .filter(|function| Some(*function) != self.line)
        {
            Some(function) => write!(f, " in the spmd of {function}"),
            None => Ok(()),
        }
    }
}

/// An axis of a mesh, and the processes along this axis.
pub(crate) type ConnectedAxis = (AxisName, Rc<dyn Communicator>);

thread_local! {
    /// The line of the `spmd` whose function runs.
    static FUNCTION: Cell<Option<Line>> = const { Cell::new(None) };
}
pytree_core::per_thread! {
    /// The bound axes, the outermost first.
    static BOUND: Vec<ConnectedAxis> = Vec::new();
}

/// Binds the axes of a mesh, the outermost first, until the returned guard is dropped. Collectives over their names
/// combine the values of the processes.
#[must_use]
pub(crate) fn bound(axes: &[ConnectedAxis]) -> Bound {
    BOUND.with_borrow_mut(|bound| bound.extend(axes.iter().cloned()));
    Bound {
        axes: axes.len(),
        outer: FUNCTION.replace(known_line()),
    }
}

/// A guard that removes the axes that were bound last.
#[derive(Debug)]
pub(crate) struct Bound {
    axes: usize,
    /// The line of the function that ran before.
    outer: Option<Line>,
}

impl Drop for Bound {
    fn drop(&mut self) {
        FUNCTION.set(self.outer);
        for _ in 0..self.axes {
            let ended = BOUND.with_borrow_mut(Vec::pop);
            // Dropping the communicator may run any code, so the thread-local variable is not borrowed here.
            drop(ended);
        }
    }
}

/// Returns the communicator of the innermost axis with this name, and the position of the axis: outer axes have lower
/// positions.
pub(crate) fn communicator(name: &AxisName) -> Option<(usize, Rc<dyn Communicator>)> {
    BOUND.with_borrow(|bound| {
        let position = bound.iter().rposition(|(other, _)| other == name)?;
        Some((position, Rc::clone(&bound[position].1)))
    })
}
