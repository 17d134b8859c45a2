//! Compiled functions, by value or with `&mut` arguments: traces a function for each signature of its arguments, and runs
//! the compiled programs.

use std::any::TypeId;
use std::borrow::Borrow;
use std::panic::Location;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pytree_core::boundary::{Attempts, Visited, flatten_visited};
use pytree_core::bug::expect_some;
use pytree_core::level::has_read_captured;
use pytree_core::{References, TreeError, Unrepeated};

use crate::base::array::Array;
use crate::executor::compile;
use crate::primitives::body::Body;
use crate::primitives::call::call;
use crate::tensor::Tensor;
use crate::tensor::checks::Checks;
use crate::tensor::stage::stage;
use crate::tensor::trace::{Recorder, at_line_by_default, is_staging};
use crate::tensor::traceable::Traceable;
use crate::transformations::cache::{Cache, DEFAULT_SIZE, Entry, Signature};
use crate::transformations::dropped::Dropped;
use crate::transformations::function::{Ending, Known, call_inside, rebuild_result};
use crate::transformations::rebuilt;
use crate::transformations::retrace::{Retrace, Traced};

/// A function and the cache of its programs. `O` is the type of a call's result, in which an error of the function is
/// returned.
pub(crate) struct Compiled<A, R, O> {
    function: Arc<dyn Fn(A) -> Result<R, O> + Send + Sync>,
    of_type: FunctionType,
    pub(crate) line: &'static Location<'static>,
    pub(crate) checks: Checks,
    pub(crate) cache: Cache,
    history: Mutex<History>,
}

impl<A, R, O> Compiled<A, R, O> {
    /// Creates a compiled function with an empty cache.
    pub(crate) fn new(
        function: Arc<dyn Fn(A) -> Result<R, O> + Send + Sync>,
        of_type: FunctionType,
        line: &'static Location<'static>,
    ) -> Self {
        Self {
            function,
            of_type,
            line,
            checks: Checks::default(),
            cache: Cache::new(DEFAULT_SIZE),
            history: Mutex::default(),
        }
    }

    /// Returns a copy with other options and an empty cache.
    pub(crate) fn anew(&self, checks: Checks, size: usize) -> Self {
        Self {
            function: Arc::clone(&self.function),
            of_type: self.of_type,
            line: self.line,
            checks,
            cache: Cache::new(size),
            history: Mutex::default(),
        }
    }

    /// Returns the reason for the last retrace.
    pub(crate) fn why_retraced(&self) -> Option<Retrace> {
        self.history().why.clone()
    }

    fn history(&self) -> MutexGuard<'_, History> {
        self.history.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The key of the newest trace, and the difference between this key and the key of the previous trace.
#[derive(Default)]
struct History {
    last: Option<Traced>,
    why: Option<Retrace>,
}

impl<A: Traceable, R: Traceable, O> Compiled<A, R, O> {
    /// Runs the function on an argument, which is passed by value or by reference.
    pub(crate) fn run(&self, argument: impl Borrow<A>) -> Result<R, O> {
        if self.checks.any() {
            return self.checks.within(|| self.run_now(argument));
        }
        self.run_now(argument)
    }

    fn run_now(&self, argument: impl Borrow<A>) -> Result<R, O> {
        let mut attempts = Attempts::default();
        let (entry, leaves, references) = self.entry(&argument.borrow(), &mut attempts)?;
        if is_evaluated(&entry, &leaves) {
            entry.check_states(self.line, &leaves);
            if entry.is_repeatable() {
                let entered = (entry, leaves, references);
                return self.run_repeatedly(&argument.borrow(), attempts, entered);
            }
            // Once the argument is dropped, the program may reuse the memory of leaves that nobody else holds.
            drop(argument);
            return Ok(self.evaluated(&entry, leaves, &references));
        }
        drop(argument);
        Ok(self.recorded(&entry, leaves, &references))
    }

    /// Runs the program of a cache entry on concrete leaves.
    pub(crate) fn evaluated(
        &self,
        entry: &Entry,
        leaves: Vec<Tensor>,
        references: &References,
    ) -> R {
        self.ending(entry).with(evaluate(entry, leaves, references))
    }

    /// Calls the program of a cache entry inside of another transformation, which records or transforms the call.
    pub(crate) fn recorded(
        &self,
        entry: &Entry,
        mut leaves: Vec<Tensor>,
        references: &References,
    ) -> R {
        leaves.extend(entry.captured.iter().cloned());
        // A call has no source line, because the `dyn Fn` to which a `Jit` derefs does not know its caller.
        let results = at_line_by_default(self.line, || call(&entry.body, &leaves));
        rebuild_result(self.ending(entry), &entry.outcome, results, references)
    }

    /// Runs a program that writes references. If another thread meanwhile writes a reference that the program has read,
    /// runs the program again.
    pub(crate) fn run_repeatedly(
        &self,
        argument: &impl Visited<Tensor>,
        mut attempts: Attempts,
        mut entered: Entered,
    ) -> Result<R, O> {
        loop {
            let (entry, leaves, references) = entered;
            match evaluate(&entry, leaves, &references) {
                Err(error) if error.is_conflict() && entry.is_repeatable() => {}
                outcome => return Ok(self.ending(&entry).with(outcome)),
            }
            drop((entry, references));
            attempts.conflicted();
            entered = self.entry(argument, &mut attempts)?;
        }
    }

    /// Describes a call, for messages about writes to references that conflict with the writes of another thread.
    fn ending(&self, entry: &Entry) -> Ending<'static> {
        let mut ending = Ending::of("jit", self.line);
        if entry.body.has_effect {
            ending.unrepeated = Unrepeated::Effects;
        }
        ending
    }

    /// Returns the cache entry for an argument, and the argument's leaves and references. On a cache miss, traces the
    /// function.
    ///
    /// # Errors
    /// Returns the result of the function if the function is traced and returns an error.
    pub(crate) fn entry(
        &self,
        argument: &impl Visited<Tensor>,
        attempts: &mut Attempts,
    ) -> Result<Entered, O> {
        if let Some((entry, leaves, references)) = self.cache.newest(argument) {
            entry.depend_on_batch_axes();
            return Ok((entry, leaves, references));
        }
        // Tracing may wait for other threads, and these threads may wait until this call ends its turn.
        attempts.end_turn();
        let (leaves, treedef, mut references) = flatten_visited::<Tensor>(argument);
        let infos = leaves.iter().map(|leaf| leaf.info().clone()).collect();
        let entry =
            self.cache
                .get_or_trace(Signature { treedef, infos }, self.line, |signature| {
                    self.trace(signature)
                })?;
        entry.depend_on_batch_axes();
        // Release the handles of shared nodes that the result does not contain, so that their memory can be reused.
        entry.outcome.release(&mut references);
        Ok((entry, leaves, references))
    }

    fn trace(&self, signature: Arc<Signature>) -> Result<Entry, O> {
        let treedef = &signature.treedef;
        let (jaxpr, captured, outcome) = stage(Recorder::Jit, &signature.infos, |tensors| {
            let function = |argument: A| (self.function)(argument);
            let (leaves, outcome) = call_inside(Known::All, treedef, tensors, function);
            (
                leaves,
                outcome.map(|outcome| (outcome, has_read_captured())),
            )
        });
        let (outcome, is_used_once) = outcome?;
        let dropped = Dropped::find(&signature, &jaxpr);
        let body = Body::named(Recorder::Jit, self.of_type.short_name(), jaxpr, compile);
        let traced = Traced {
            signature: Arc::clone(&signature),
            batch_axes: body.jaxpr.batch_axes.clone(),
            is_used_once,
        };
        let before = self.history().last.replace(traced);
        match &before {
            // Comparing signatures may run code of the user, so no lock is held.
            Some(before) => {
                let why = Retrace::between(self.line, before, &signature);
                rebuilt::traced_again(self.cache.traces(), self.cache.calls(), &why);
                self.history().why = Some(why);
            }
            None => rebuilt::traced_first(self.line, self.of_type.id),
        }
        let mut entry = Entry::new(signature, outcome, body, captured, dropped);
        entry.is_used_once = is_used_once;
        Ok(entry)
    }
}

/// Returns the message for a function that cannot be shown because it returned an `Err`.
pub(crate) fn returned_an_error(operation: &str, line: &Location<'_>) -> String {
    format!(
        "cannot record the function of the {operation} at {line}: the function returned an `Err` for this argument; call the function to get the error"
    )
}

/// A cache entry with the leaves and references of the argument for which the entry was looked up.
pub(crate) type Entered = (Arc<Entry>, Vec<Tensor>, References);

/// Returns whether a call runs the compiled program immediately. Otherwise, an enclosing transformation records or
/// transforms the call.
pub(crate) fn is_evaluated(entry: &Entry, leaves: &[Tensor]) -> bool {
    // An enclosing `jit` must record a program with effects, such as printing, even if all operands are concrete.
    let is_recorded = entry.body.has_effect && is_staging();
    entry.captured.is_empty()
        && entry.body.axis_names.is_empty()
        && !is_recorded
        && leaves.iter().all(|leaf| leaf.array().is_some())
}

/// Runs the program of a cache entry on concrete leaves, and builds the result.
fn evaluate<R: Traceable>(
    entry: &Entry,
    leaves: Vec<Tensor>,
    references: &References,
) -> Result<R, TreeError> {
    let array = |leaf: Tensor| expect_some(leaf.into_array(), "leaves that are not traced");
    let arrays: Vec<Arc<Array>> = leaves.into_iter().map(array).collect();
    let results = entry.run(arrays);
    let results = results.into_iter().map(Tensor::from_shared).collect();
    entry.outcome.unflatten_result(results, references)
}

/// The type of a user's function, for warnings and for names in jaxprs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FunctionType {
    id: TypeId,
    name: &'static str,
}

impl FunctionType {
    pub(crate) fn of<F: 'static>() -> Self {
        Self {
            id: TypeId::of::<F>(),
            name: std::any::type_name::<F>(),
        }
    }

    /// Returns the name of the function without its path, for instance `forward`; `<closure>` for a closure.
    fn short_name(self) -> String {
        let path = self.name.split('<').next().unwrap_or(self.name);
        match path.rsplit("::").next() {
            None | Some("" | "{{closure}}") => "<closure>".to_owned(),
            Some(last) => last.to_owned(),
        }
    }
}
