//! Axes of processes: named axes whose examples are in different processes.
//!
//! A process holds one example of such an axis, and a [`Communicator`] sends bytes between the processes. A collective
//! over the axis has no batch to combine, so no trace level interprets it: the collective is evaluated like any other
//! operation, and its evaluation calls the communicator.
//!
//! The axes belong to a thread. They are bound while no transformation is in progress, so all trace levels are above
//! them.

use std::cell::RefCell;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::rc::Rc;

use crate::base::axis_names::AxisName;
use crate::base::dtype::AbstractArray;
use crate::tensor::primitive::Primitive;
use crate::tensor::trace::is_transforming;

/// Sends bytes between the processes of one named axis. Collectives such as [`psum`](crate::psum) call it while
/// [`with_communicator`] binds the axis.
///
/// A communicator moves bytes and computes nothing. The library adds and compares the elements in the order of the
/// ranks, so all processes get the same bits, and these are the bits of a `vmap` over the same examples.
///
/// All processes call the same functions in the same order. Each function gets a description of the collective. A
/// communicator compares the [fingerprints](CollectiveCall::fingerprint) of all processes, so that two different
/// collectives are an error and not a result without meaning.
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
/// use pytree_transform::processes::{CollectiveCall, Communicator, with_communicator};
/// use pytree_transform::{Tensor, axis_size, psum};
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
/// }
///
/// let sum = with_communicator("data", Rc::new(Alone), || psum(&Tensor::from([1.0, 2.0]), "data"));
/// assert_eq!(sum, Tensor::from([1.0, 2.0]));
/// ```
pub trait Communicator: fmt::Debug {
    /// Returns the position of this process along the axis, which is less than [`size`](Self::size).
    fn rank(&self) -> usize;

    /// Returns the number of processes along the axis, which is at least 1.
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
}

/// The description of a collective, which is displayed like `psum axes=('data',) of f32[3]`.
#[derive(Debug)]
pub struct CollectiveCall<'a> {
    pub(crate) primitive: &'a dyn Primitive,
    pub(crate) operand: &'a AbstractArray,
}

impl CollectiveCall<'_> {
    /// Returns a number that is equal in all processes that run the same program and call the same collective, with
    /// the same parameters, dtype and shape. The number is never 0.
    pub fn fingerprint(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.primitive.add_to_hash(&mut hasher);
        self.operand.hash(&mut hasher);
        hasher.finish().max(1)
    }
}

impl fmt::Display for CollectiveCall<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", self.primitive.name())?;
        self.primitive.write_parameters(f)?;
        write!(f, " of {}", self.operand)
    }
}

thread_local! {
    /// The bound axes, the outermost first.
    static BOUND: RefCell<Vec<(AxisName, Rc<dyn Communicator>)>> = const { RefCell::new(Vec::new()) };
}

/// Calls a function while `name` is the axis of the processes that `communicator` connects.
///
/// In the function, each process computes one example of the axis. Collectives over the name, compiled or not, combine
/// the examples of all processes. The function may use all transformations. The axis is bound for this thread only. An
/// axis of the same name that is bound inside, by this function or by a `vmap`, hides it.
///
/// # Panics
/// Panics if a transformation is in progress, because a recorded program would outlive the axis.
pub fn with_communicator<R>(
    name: impl AsRef<str>,
    communicator: Rc<dyn Communicator>,
    function: impl FnOnce() -> R,
) -> R {
    let name = AxisName::from(name.as_ref());
    assert!(
        !is_transforming(),
        "cannot bind the axis of processes `{name}` inside of a transformation such as `jit`, `grad` or `vmap`; bind the axis around the transformed function, or around the whole program"
    );
    BOUND.with_borrow_mut(|bound| bound.push((name, communicator)));
    let _bound = Unbind;
    function()
}

/// A guard that removes the axis that was bound last.
struct Unbind;

impl Drop for Unbind {
    fn drop(&mut self) {
        let ended = BOUND.with_borrow_mut(Vec::pop);
        // Dropping the communicator may run any code, so the thread-local variable is not borrowed here.
        drop(ended);
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

/// Returns the number of processes along the innermost axis with this name.
pub(crate) fn size(name: &AxisName) -> Option<usize> {
    BOUND.with_borrow(|bound| {
        let mut innermost_first = bound.iter().rev();
        innermost_first
            .find_map(|(other, communicator)| (other == name).then(|| communicator.size()))
    })
}

/// Returns the names of the bound axes, innermost first.
pub(crate) fn names() -> Vec<AxisName> {
    BOUND.with_borrow(|bound| bound.iter().rev().map(|(name, _)| name.clone()).collect())
}
