//! The functions that transformations take and return. Each of these functions takes one pytree.
//!
//! A tuple serves as an argument list. A function is a closure, or the struct that another transformation returned.
//! This struct dereferences to `dyn Fn`, so it is called like a function.

use std::fmt;
use std::panic::Location;

use pytree_base::bug::{LEAVES, expect_at};
use pytree_core::boundary::{self, Outcome, References};

use pytree_core::{ReferenceError, TreeDef, TreeError, Unrepeated};

use crate::tensor::Tensor;
use crate::tensor::trace::at_own_lines;
use crate::tensor::traceable::{Traceable, rebuilt};

/// A function of one argument: a closure, or the result of a transformation.
///
/// `Kind` is [`Callable`]. The compiler infers it.
#[diagnostic::on_unimplemented(
    message = "the parameters of this function do not fit the transformation",
    label = "expected one parameter, by value, `&` or `&mut` as the notes show",
    note = "several arguments are one tuple, with its type: `|(x, y): (Tensor, Tensor)| …`, or under `grad` `|(x, y): &(Tensor, Tensor)| …`",
    note = "`vmap` passes the argument by value: `|model: Net| …`; `jit` passes it by value or lends it; `grad` and all other transformations lend it: `|model: &Net| …`, and the closure captures what is not differentiated",
    note = "a function that writes its model, for instance one with dropout or batch normalization, takes `|model: &mut Net| …`: use `value_and_grad_mut`, `jit_mut` or `vmap_mut`"
)]
pub trait Function<A, Kind = Callable> {
    /// The type of the result.
    type Output;

    /// Calls the function.
    #[track_caller]
    fn call(&self, argument: A) -> Self::Output;
}

/// The kind of functions that can be called: see [`Function`].
#[derive(Debug)]
pub enum Callable {}

/// A kind that no function has: see [`Function`].
#[derive(Debug)]
pub enum Uncallable {}

impl<F, A, R> Function<A> for F
where
    F: Fn(A) -> R,
{
    type Output = R;

    fn call(&self, argument: A) -> R {
        self(argument)
    }
}

// Nothing meets this bound. Without a second implementation for all types, rustc would choose the first implementation
// even for a closure with other parameters. In that case, rustc would not show the message of `Function`, and would
// only report that the closure is not an `Fn(A)`.
impl<F, A> Function<A, Uncallable> for F
where
    Uncallable: Fn(F),
{
    type Output = ();

    fn call(&self, _: A) {}
}

/// A function whose parameter has the type `P`: a closure, or the result of a transformation. From this, the compiler infers
/// the parameter of a function that can also be called as another [`Function`], for instance by reference.
#[diagnostic::on_unimplemented(
    message = "the parameters of this function do not fit the transformation",
    label = "expected a function of one argument",
    note = "several arguments are one tuple, with its type: `|(x, y): (Tensor, Tensor)| …`",
    note = "a function that writes its model, for instance one with dropout or batch normalization, takes `|model: &mut Net| …`: use `jit_mut` or `vmap_mut`"
)]
pub trait Unary<P, Kind = Callable>: Function<P, Kind> {}

impl<F, P, R> Unary<P> for F where F: Fn(P) -> R {}

impl<F, P> Unary<P, Uncallable> for F where Uncallable: Fn(F) {}

/// Unflattens an argument, and replaces each reference by a new reference. Also returns the new references; see
/// [`rebuild`](crate::tensor::traceable::rebuild).
#[track_caller]
pub(crate) fn inside<T: Traceable>(treedef: &TreeDef, leaves: Vec<Tensor>) -> (T, References) {
    rebuilt::<T, _>(boundary::unflatten_with_new_references(treedef, leaves))
}

/// Where the user compiled a function, for messages. The display is, for instance, `jit at src/main.rs:7:13`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Origin {
    /// The transformation: `jit` or `jit_mut`.
    pub(crate) name: &'static str,
    pub(crate) line: &'static Location<'static>,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {}", self.name, self.line)
    }
}

/// Describes a transformed call, for messages about conflicting writes to references at the end of the call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ending<'l> {
    pub(crate) name: &'static str,
    pub(crate) line: &'l Location<'l>,
    /// The reason why the call is not repeated if another thread has written the references that the call read.
    pub(crate) unrepeated: Unrepeated,
}

impl<'l> Ending<'l> {
    /// Describes a call of the transformation `name`, which has run a user's function and so is not repeated.
    pub(crate) fn of(name: &'static str, line: &'l Location<'l>) -> Self {
        Self {
            name,
            line,
            unrepeated: Unrepeated::Function(name),
        }
    }

    /// Returns the value of `outcome`. If `outcome` is a conflict between threads, the panic message names the
    /// transformation and its line.
    ///
    /// # Panics
    /// Panics if `outcome` is an error: a reference may not be written, or another thread has written a reference that
    /// the call read.
    #[track_caller]
    pub(crate) fn with<T>(self, outcome: Result<T, TreeError>) -> T {
        match outcome {
            Err(TreeError::Reference(ReferenceError::Conflict { path, writer, .. })) => {
                let unrepeated = self.unrepeated;
                let conflict = ReferenceError::Conflict {
                    path,
                    writer,
                    unrepeated,
                };
                panic!("{conflict} ({} at {})", self.name, self.line)
            }
            outcome => rebuilt::<T, T>(outcome),
        }
    }
}

/// Unflattens a value that contains `references`, and writes the references with a leaf that `changed` marks; see
/// [`unflatten_changed`](boundary::unflatten_changed).
#[track_caller]
pub(crate) fn rebuild_changed<T: Traceable>(
    ending: Ending<'_>,
    treedef: &TreeDef,
    leaves: Vec<Tensor>,
    references: &References,
    changed: &[bool],
) -> T {
    let is_changed = |leaf| *expect_at(changed, leaf, LEAVES);
    ending.with(boundary::unflatten_changed(
        treedef, leaves, references, is_changed,
    ))
}

/// Builds the result that the caller of a transformed function receives. Copies the values that the function wrote to
/// references into the caller's references.
#[track_caller]
pub(crate) fn rebuild_result<R: Traceable>(
    ending: Ending<'_>,
    outcome: &Outcome,
    leaves: Vec<Tensor>,
    references: &References,
) -> R {
    ending.with(outcome.unflatten_result(leaves, references))
}

/// The nodes of an argument that keep their identity in the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Known {
    /// References and shared nodes.
    All,
    /// Only references. A shared node loses its identity, because it has different leaves in the result and in the
    /// argument.
    References,
}

/// The result of a user's function that was called with traced leaves: the leaves of its value, and the rest of the
/// value, such as its structure. If the function returned an error, the list of leaves is empty.
pub(crate) type TracedCall<T, E> = (Vec<Tensor>, Result<T, E>);

/// Calls a user's function with an argument of traced leaves. `known` selects the nodes of the argument that keep their
/// identity in the result.
///
/// Returns the leaves of the result, followed by the leaves that were written to references of the argument. The
/// returned [`Outcome`] describes the structure of both. If the function returns an error, the writes to references are
/// discarded.
#[track_caller]
pub(crate) fn call_inside<A: Traceable, R: Traceable, E>(
    known: Known,
    treedef: &TreeDef,
    leaves: Vec<Tensor>,
    function: impl FnOnce(A) -> Result<R, E>,
) -> TracedCall<Outcome, E> {
    let known = |_: &R, references: References| match known {
        Known::All => references,
        Known::References => references.without_shared(),
    };
    call_inside_knowing(known, treedef, leaves, function)
}

/// Calls a user's function as [`call_inside`] does. `known` receives the result and the nodes of the argument, and returns
/// the nodes that keep their identity in the result.
#[track_caller]
pub(crate) fn call_inside_knowing<A: Traceable, R: Traceable, E>(
    known: impl FnOnce(&R, References) -> References,
    treedef: &TreeDef,
    leaves: Vec<Tensor>,
    function: impl FnOnce(A) -> Result<R, E>,
) -> TracedCall<Outcome, E> {
    let (argument, references) = inside::<A>(treedef, leaves);
    let outcome = at_own_lines(|| function(argument)).map(|result| {
        let written = references.written();
        Outcome::of(&result, &known(&result, references), written)
    });
    or_no_leaves(outcome)
}

/// Converts the outcome of a user's function: the value, divided into its leaves and the rest, or the error.
pub(crate) fn or_no_leaves<T, E>(value: Result<(Vec<Tensor>, T), E>) -> TracedCall<T, E> {
    match value {
        Ok((leaves, rest)) => (leaves, Ok(rest)),
        Err(error) => (Vec::new(), Err(error)),
    }
}

/// Calls a user's function as [`call_inside`] does. Returns the values of all references of the argument, and the
/// positions of the written references among them.
///
/// So two branches have outcomes of the same structure even if they write to different references.
#[track_caller]
pub(crate) fn call_inside_with_all<A: Traceable, R: Traceable, E>(
    treedef: &TreeDef,
    leaves: Vec<Tensor>,
    function: impl FnOnce(A) -> Result<R, E>,
) -> TracedCall<(Outcome, Vec<usize>), E> {
    let (argument, references) = inside::<A>(treedef, leaves);
    let outcome = at_own_lines(|| function(argument)).map(|result| {
        let written = references.written();
        let all = (0..references.len()).collect();
        let (leaves, outcome) = Outcome::of(&result, &references, all);
        (leaves, (outcome, written))
    });
    or_no_leaves(outcome)
}

/// Calls a user's function with an argument of traced leaves, for a transformation that cannot return writes to
/// references.
///
/// # Errors
/// Returns the error of the function. The writes to references are then discarded.
///
/// # Panics
/// If the function succeeds, and has written a reference of the argument.
#[track_caller]
pub(crate) fn call_reading<A: Traceable, R, E>(
    operation: &str,
    treedef: &TreeDef,
    leaves: Vec<Tensor>,
    function: impl FnOnce(A) -> Result<R, E>,
) -> Result<R, E> {
    let (argument, references) = inside::<A>(treedef, leaves);
    let result = at_own_lines(|| function(argument))?;
    unwritten(operation, treedef, &references);
    Ok(result)
}

/// Panics if a reference of an argument was written, because `operation` cannot return the write.
#[track_caller]
pub(crate) fn unwritten(operation: &str, treedef: &TreeDef, references: &References) {
    let written = references.written();
    if written.is_empty() {
        return;
    }
    let places = treedef.references();
    let paths: Vec<String> = written
        .iter()
        .map(|&position| places[position].path.or_root())
        .collect();
    panic!(
        "cannot write the reference at {} inside of {operation}: the write would be lost; return the value instead",
        paths.join(", ")
    );
}

/// Implements [`Function`] for the struct that a transformation returns, and makes this struct callable like a
/// function.
///
/// The function takes its argument by value or, with `reference`, by reference. With `callable`, for functions that
/// write their argument, the struct is callable but does not implement [`Function`].
macro_rules! transformed {
    ([$($generics:tt)*] $type:ty, ($argument:ty) -> $output:ty) => {
        transformed!(callable [$($generics)*] $type, dyn Fn($argument) -> $output);
        transformed!(
            function [$($generics)*] $type, ($argument) -> $output,
            given => given, pytree_core::boundary::copy::<$crate::tensor::Tensor, _>(given)
        );
    };
    (reference [$($generics:tt)*] $type:ty, ($argument:ty) -> $output:ty $(where $($bounds:tt)+)?) => {
        transformed!(callable [$($generics)*] $type, dyn Fn(&$argument) -> $output $(where $($bounds)+)?);
        transformed!(
            function [$($generics)*] $type, ($argument) -> $output,
            given => &given, given $(, where $($bounds)+)?
        );
    };
    (callable [$($generics:tt)*] $type:ty, dyn $(for<$lifetime:lifetime>)? Fn($argument:ty) -> $output:ty $(where $($bounds:tt)+)?) => {
        impl<'f, $($generics)*> std::ops::Deref for $type $(where $($bounds)+)? {
            type Target = dyn $(for<$lifetime>)? Fn($argument) -> $output + Send + Sync + 'f;
            fn deref(&self) -> &Self::Target {
                &*self.call
            }
        }
        impl<'f, $($generics)*> std::fmt::Debug for $type $(where $($bounds)+)? {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(stringify!($type))
            }
        }
    };
    (
        function [$($generics:tt)*] $type:ty, ($argument:ty) -> $output:ty,
        $given:ident => $owned:expr, $borrowed:expr $(, where $($bounds:tt)+)?
    ) => {
        #[diagnostic::do_not_recommend]
        impl<'f, $($generics)*> $crate::transformations::function::Unary<$argument> for $type $(where $($bounds)+)? {}
        #[diagnostic::do_not_recommend]
        impl<'r, 'f, $($generics)*> $crate::transformations::function::Unary<$argument> for &'r $type $(where $($bounds)+)? {}
        #[diagnostic::do_not_recommend]
        impl<'f, $($generics)*> $crate::transformations::function::Function<$argument> for $type $(where $($bounds)+)? {
            type Output = $output;
            fn call(&self, $given: $argument) -> $output {
                (self.call)($owned)
            }
        }
        #[diagnostic::do_not_recommend]
        impl<'f, 'a, $($generics)*> $crate::transformations::function::Function<&'a $argument> for $type $(where $($bounds)+)? {
            type Output = $output;
            fn call(&self, $given: &'a $argument) -> $output {
                (self.call)($borrowed)
            }
        }
        #[diagnostic::do_not_recommend]
        impl<'r, 'f, $($generics)*> $crate::transformations::function::Function<$argument> for &'r $type $(where $($bounds)+)? {
            type Output = $output;
            fn call(&self, $given: $argument) -> $output {
                (self.call)($owned)
            }
        }
        #[diagnostic::do_not_recommend]
        impl<'r, 'f, 'a, $($generics)*> $crate::transformations::function::Function<&'a $argument> for &'r $type $(where $($bounds)+)? {
            type Output = $output;
            fn call(&self, $given: &'a $argument) -> $output {
                (self.call)($borrowed)
            }
        }
    };
}
pub(crate) use transformed;
