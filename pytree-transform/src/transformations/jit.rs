//! `jit`: records a function once for each signature (structure, shapes and dtypes of the argument), and runs the
//! compiled program.

use std::any::TypeId;
use std::borrow::Borrow;
use std::fmt;
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
use crate::tensor::jaxpr::Jaxpr;
use crate::tensor::stage::stage;
use crate::tensor::trace::{Recorder, at_line_by_default, is_staging};
use crate::tensor::traceable::Traceable;
use crate::transformations::cache::{Cache, DEFAULT_SIZE, Entry, Signature};
use crate::transformations::dropped::Dropped;
use crate::transformations::function::{Ending, Function, Known, call_inside, rebuild_result};
use crate::transformations::lowered::Lowered;
use crate::transformations::rebuilt;
use crate::transformations::retrace::{Retrace, Traced};
use crate::transformations::returned::Returned;

/// Compiles a function of a pytree: the returned [`Jit`] records the function and runs the compiled program.
///
/// The first call with a signature, which is the treedef (static values included), shapes and dtypes of the argument,
/// traces the function. Later calls with this signature run the recorded program. Captured tensors become constants.
/// The compiled function takes its argument by value and reuses the memory of tensors that nobody else holds. If the
/// program writes references, it reuses no memory of the argument, because it may have to run again. The compiled
/// function can be stored, called from several threads, and passed to every other transformation.
///
/// If several threads call the function at the same time with the same signature, one thread traces it and the others
/// wait, as for a [`OnceLock`](std::sync::OnceLock). Compiled programs are cached for 4096 signatures, as in JAX, or
/// for the number that [`cache_size`](Jit::cache_size) sets.
///
/// Inside of another transformation, the function may capture and read references that belong to this transformation.
/// The values of these references are inputs of the recorded program. Each call traces the function, because the values
/// may have changed since the last call.
///
/// Build a compiled function once and keep it: a function that is built for every call is also compiled for every call.
/// When a source line has built and traced 32 compiled functions of one type, a [warning](crate::set_warning_hook)
/// names the line. If most calls of a compiled function trace it again, another warning names the part of the argument
/// that changes.
///
/// The function may return a `Result`; see [`Returned`]. If it returns an `Err` while it is traced, the call returns
/// this `Err`: nothing is compiled, no reference is written, and the next call traces the function again.
///
/// # Examples
/// ```
/// use pytree_transform::{Tensor, jit};
/// let f = jit(|(x, y): (Tensor, Tensor)| x.sin() * y);
/// let z = f((Tensor::from([0.0_f32, 1.0]), Tensor::from([1.0_f32, 2.0])));
/// assert_eq!(z.shape(), [2]);
/// assert_eq!(f.traces(), 1);
/// ```
///
/// # Panics
/// The compiled function panics if `function` panics.
#[track_caller]
pub fn jit<A, R, F, K>(function: F) -> Jit<A, R::Value, R::With<R::Value>>
where
    A: Traceable,
    R: Returned<K>,
    F: Function<A, Output = R> + Send + Sync + 'static,
{
    let call = move |argument| {
        let result = function.call(argument).into_value();
        result.map_err(|error| R::with(Err(error)))
    };
    Jit::of(
        Compiled::new(Arc::new(call), FunctionType::of::<F>(), Location::caller()),
        |value| R::with(Ok(value)),
    )
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

/// A compiled function, the result of [`jit`].
///
/// `O` is the result of a call: `R`, or `Result<R, E>` if the function returns a `Result`.
pub struct Jit<A, R, O = R> {
    compiled: Arc<Compiled<A, R, O>>,
    /// Converts the result of the program to the result of a call, for instance by `Ok`.
    ok: fn(R) -> O,
    call: Arc<dyn Fn(A) -> O + Send + Sync>,
}

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
    fn run(&self, argument: impl Borrow<A>) -> Result<R, O> {
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
        "cannot record the function of the {operation} at {line}: it returned an `Err` for this argument; call it to get the error"
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

impl<A: Traceable, R: Traceable, O: 'static> Jit<A, R, O> {
    fn of(compiled: Compiled<A, R, O>, ok: fn(R) -> O) -> Self {
        let compiled = Arc::new(compiled);
        let inner = Arc::clone(&compiled);
        Self {
            compiled,
            ok,
            call: Arc::new(move |argument| match inner.run(argument) {
                Ok(value) => ok(value),
                Err(failed) => failed,
            }),
        }
    }

    /// Makes a copy of the function with an empty cache.
    fn anew(&self, checks: Checks, size: usize) -> Self {
        Self::of(self.compiled.anew(checks, size), self.ok)
    }

    /// Sets how many signatures the cache holds: at most `size`, but at least one. The least recently used program is
    /// evicted first. The default is 4096, as in JAX.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::{DType, Tensor, jit};
    /// let f = jit(|x: Tensor| x.sum()).cache_size(2);
    /// for length in [1, 2, 3, 2, 1] {
    ///     f(Tensor::ones(DType::F32, [length]));
    /// }
    /// assert_eq!(f.traces(), 4, "the vector of one was forgotten");
    /// ```
    #[must_use]
    pub fn cache_size(self, size: usize) -> Self {
        self.anew(self.compiled.checks, size)
    }

    /// Makes calls panic if an operation of the compiled function returns NaN. The message names the equation, its
    /// source line and its operands; see [`debug_nans`](crate::debug_nans). The function then runs without fused
    /// kernels.
    ///
    /// # Examples
    /// ```should_panic
    /// use pytree_transform::{Tensor, jit};
    /// let f = jit(|x: Tensor| x.log().sum()).check_nans();
    /// f(Tensor::from([1.0_f32, -1.0]));
    /// ```
    #[must_use]
    pub fn check_nans(self) -> Self {
        let checks = self.compiled.checks.with_nans();
        self.anew(checks, self.compiled.cache.size())
    }

    /// Makes calls panic if an operation of the compiled function returns an infinity; otherwise like
    /// [`check_nans`](Self::check_nans).
    #[must_use]
    pub fn check_infs(self) -> Self {
        let checks = self.compiled.checks.with_infs();
        self.anew(checks, self.compiled.cache.size())
    }

    /// Returns how many times the function was traced.
    pub fn traces(&self) -> usize {
        self.compiled.cache.traces()
    }

    /// Returns for how many signatures the cache currently holds a program.
    pub fn cached(&self) -> usize {
        self.compiled.cache.len()
    }

    /// Removes all compiled programs; the next call traces the function again.
    pub fn clear_cache(&self) {
        self.compiled.cache.clear();
    }

    /// Returns why the last trace was necessary: each difference between the arguments of the last two traces. Returns
    /// `None` if the function was traced at most once.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::{Tensor, jit};
    /// let f = jit(|x: Tensor| x.sum());
    /// f(Tensor::from([1.0_f32]));
    /// f(Tensor::from([1.0_f32, 2.0]));
    /// assert_eq!(f.why_retraced().unwrap(), "the root: f32[1] before, f32[2] now");
    /// ```
    pub fn why_retraced(&self) -> Option<Retrace> {
        self.compiled.why_retraced()
    }

    /// Returns the jaxpr of the function for the given argument, without dead code.
    ///
    /// # Panics
    /// If the function panics or returns an `Err`.
    #[track_caller]
    pub fn jaxpr(&self, argument: &A) -> Jaxpr {
        self.recorded(argument).body.jaxpr.clone()
    }

    #[track_caller]
    fn recorded(&self, argument: &A) -> Arc<Entry> {
        let Ok((entry, ..)) = self.compiled.entry(&argument, &mut Attempts::default()) else {
            panic!("{}", returned_an_error("jit", self.compiled.line))
        };
        entry
    }

    /// Returns the program that runs for an argument: the optimized jaxpr, its schedule and its memory.
    ///
    /// # Panics
    /// If the function panics or returns an `Err`.
    #[track_caller]
    pub fn lower(&self, argument: &A) -> Lowered {
        Lowered::new(&self.recorded(argument).body.jaxpr)
    }
}

impl<A, R, O> Clone for Jit<A, R, O> {
    fn clone(&self) -> Self {
        Self {
            compiled: Arc::clone(&self.compiled),
            ok: self.ok,
            call: Arc::clone(&self.call),
        }
    }
}

impl<A, R, O> std::ops::Deref for Jit<A, R, O> {
    type Target = dyn Fn(A) -> O + Send + Sync;
    fn deref(&self) -> &Self::Target {
        &*self.call
    }
}

impl<A: Traceable, R: Traceable, O: 'static> Function<A> for Jit<A, R, O> {
    type Output = O;
    fn call(&self, argument: A) -> O {
        (self.call)(argument)
    }
}

impl<'a, A: Traceable, R: Traceable, O: 'static> Function<&'a A> for Jit<A, R, O> {
    type Output = O;
    fn call(&self, argument: &'a A) -> O {
        match self.compiled.run(argument) {
            Ok(value) => (self.ok)(value),
            Err(failed) => failed,
        }
    }
}

impl<A: Traceable, R: Traceable, O: 'static> Function<A> for &Jit<A, R, O> {
    type Output = O;
    fn call(&self, argument: A) -> O {
        Function::<A>::call(*self, argument)
    }
}

impl<'a, A: Traceable, R: Traceable, O: 'static> Function<&'a A> for &Jit<A, R, O> {
    type Output = O;
    fn call(&self, argument: &'a A) -> O {
        Function::<&'a A>::call(*self, argument)
    }
}

impl<A, R, O> fmt::Debug for Jit<A, R, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Jit({})", self.compiled.line)
    }
}
