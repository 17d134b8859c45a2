//! `jit`: a function is recorded once for each structure, shapes and element types, and run as compiled.

use std::borrow::Borrow;
use std::fmt;
use std::panic::Location;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pytree_core::bug::expect_some;
use pytree_core::crossing::{self, Attempts};
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
use crate::transformations::function::{Ending, Function, call_inside, rebuild_result};
use crate::transformations::lowered::Lowered;
use crate::transformations::rebuilt;
use crate::transformations::retrace::{Retrace, Traced};

/// Compiles a function of a pytree.
///
/// It runs once for each treedef (static values included), shapes and element types of its argument, and
/// is replayed after that. It takes its argument by value and reuses the memory of what nobody else
/// holds, unless it writes references: then it may run again. Captured tensors become constants. It can be stored, called like a function from several
/// threads, and given to every other transformation.
///
/// Threads that call it at the same time with the same shapes trace it once: the others wait, as for a
/// [`OnceLock`](std::sync::OnceLock). What it was compiled to is kept for 4096 signatures, the number of JAX, or
/// as many as [`cache_size`](Jit::cache_size) says.
///
/// Build it once and keep it: one that is built anew for every call is compiled anew, too. A line that has
/// built and traced 32 of them is told so on stderr.
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
/// When called: as the function does.
#[track_caller]
pub fn jit<A, R, F>(function: F) -> Jit<A, R>
where
    A: Traceable,
    R: Traceable,
    F: Function<A, Output = R> + Send + Sync + 'static,
{
    Jit::of(Compiled {
        function: Arc::new(move |argument| function.call(argument)),
        name: function_name::<F>(),
        line: Location::caller(),
        checks: Checks::default(),
        cache: Cache::new(DEFAULT_SIZE),
        history: Mutex::default(),
    })
}

/// The name of a function's type without its path: `forward`, or `<closure>`.
fn function_name<F>() -> String {
    let name = std::any::type_name::<F>();
    let path = name.split('<').next().unwrap_or(name);
    match path.rsplit("::").next() {
        None | Some("" | "{{closure}}") => "<closure>".to_owned(),
        Some(last) => last.to_owned(),
    }
}

/// What [`jit`] returns: a compiled function.
pub struct Jit<A, R> {
    compiled: Arc<Compiled<A, R>>,
    call: Arc<dyn Fn(A) -> R + Send + Sync>,
}

/// The function with what it was compiled to so far.
struct Compiled<A, R> {
    function: Arc<dyn Fn(A) -> R + Send + Sync>,
    name: String,
    line: &'static Location<'static>,
    checks: Checks,
    cache: Cache,
    history: Mutex<History>,
}

/// What the last two traces were for.
#[derive(Default)]
struct History {
    last: Option<Traced>,
    why: Option<Retrace>,
}

impl<A: Traceable, R: Traceable> Compiled<A, R> {
    /// Runs it for an argument by value or by reference.
    fn run(&self, argument: impl Borrow<A>) -> R {
        if self.checks.any() {
            return self.checks.within(|| self.run_now(argument));
        }
        self.run_now(argument)
    }

    fn run_now(&self, argument: impl Borrow<A>) -> R {
        let mut attempts = Attempts::default();
        let (entry, mut leaves, references) = self.entry(argument.borrow(), &mut attempts);
        if is_evaluated(&entry, &leaves) {
            if entry.is_repeatable() {
                let entered = (entry, leaves, references);
                return self.run_repeatedly(argument.borrow(), attempts, entered);
            }
            // What nobody else holds is used again.
            drop(argument);
            return self
                .ending(&entry)
                .with(evaluate(&entry, leaves, &references));
        }
        drop(argument);
        leaves.extend(entry.captured.iter().cloned());
        // A call has no line of its own: what derefs to `dyn Fn` does not know its caller.
        let results = at_line_by_default(self.line, || call(&entry.body, &leaves));
        rebuild_result(self.ending(&entry), &entry.outcome, results, &references)
    }

    /// Runs a program that writes references, again as long as other threads write those that it has read.
    fn run_repeatedly(&self, argument: &A, mut attempts: Attempts, mut entered: Entered) -> R {
        loop {
            let (entry, leaves, references) = entered;
            match evaluate(&entry, leaves, &references) {
                Err(error) if error.is_conflict() && entry.is_repeatable() => {}
                outcome => return self.ending(&entry).with(outcome),
            }
            drop((entry, references));
            attempts.conflicted();
            entered = self.entry(argument, &mut attempts);
        }
    }

    /// How a call ends that is not repeated.
    fn ending(&self, entry: &Entry) -> Ending<'static> {
        let mut ending = Ending::of("jit", self.line);
        if entry.body.has_effect {
            ending.unrepeated = Unrepeated::Effects;
        }
        ending
    }

    /// What the function is compiled to for an argument, and the argument's leaves and references.
    fn entry(&self, argument: &A, attempts: &mut Attempts) -> Entered {
        if let Some((entry, leaves, references)) = self.cache.newest(argument) {
            entry.depend_on_batch_axes();
            return (entry, leaves, references);
        }
        // Other threads may be needed to trace it.
        attempts.end_turn();
        let (leaves, treedef, mut references) = crossing::take_apart::<Tensor, A>(argument);
        let infos = leaves.iter().map(|leaf| leaf.info().clone()).collect();
        let entry = self
            .cache
            .get_or_trace(Signature { treedef, infos }, self.line, |signature| {
                self.trace(signature)
            });
        entry.depend_on_batch_axes();
        // What nobody holds is used again, and shared nodes that do not come out are held for nobody.
        entry.outcome.release(&mut references);
        (entry, leaves, references)
    }

    fn history(&self) -> MutexGuard<'_, History> {
        self.history.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn trace(&self, signature: Arc<Signature>) -> Entry {
        let treedef = &signature.treedef;
        let (jaxpr, captured, outcome) = stage(Recorder::Jit, &signature.infos, |tensors| {
            call_inside::<A, R>(treedef, tensors, |argument| (self.function)(argument))
        });
        let body = Body::named(Recorder::Jit, self.name.clone(), jaxpr, compile);
        let traced = Traced {
            signature: Arc::clone(&signature),
            batch_axes: body.jaxpr.batch_axes.clone(),
        };
        let before = self.history().last.replace(traced);
        match &before {
            // Signatures are compared by code of the user: no lock is held.
            Some(before) => {
                let why = Retrace::between(self.line, before, &signature);
                self.history().why = Some(why);
            }
            None => rebuilt::traced_first(self.line),
        }
        Entry::new(signature, outcome, body, captured)
    }
}

/// A compiled function with the leaves and references of its argument.
type Entered = (Arc<Entry>, Vec<Tensor>, References);

/// Whether a compiled function runs on these leaves now, and is not recorded or transformed.
fn is_evaluated(entry: &Entry, leaves: &[Tensor]) -> bool {
    // What prints while it runs is recorded by an enclosing `jit`, whatever its operands.
    let is_recorded = entry.body.has_effect && is_staging();
    entry.captured.is_empty()
        && entry.body.axis_names.is_empty()
        && !is_recorded
        && leaves.iter().all(|leaf| leaf.array().is_some())
}

/// Runs a compiled function on arrays.
fn evaluate<R: Traceable>(
    entry: &Entry,
    leaves: Vec<Tensor>,
    references: &References,
) -> Result<R, TreeError> {
    let array = |leaf: Tensor| expect_some(leaf.into_array(), "leaves that are not traced");
    let arrays: Vec<Arc<Array>> = leaves.into_iter().map(array).collect();
    let results = entry.run(arrays);
    let results = results.into_iter().map(Tensor::from_shared).collect();
    entry.outcome.put_together(results, references)
}

impl<A: Traceable, R: Traceable> Jit<A, R> {
    fn of(compiled: Compiled<A, R>) -> Self {
        let compiled = Arc::new(compiled);
        let inner = Arc::clone(&compiled);
        Self {
            compiled,
            call: Arc::new(move |argument| inner.run(argument)),
        }
    }

    /// The same function, nothing compiled yet.
    fn anew(&self, checks: Checks, size: usize) -> Self {
        let compiled = &self.compiled;
        Self::of(Compiled {
            function: Arc::clone(&compiled.function),
            name: compiled.name.clone(),
            line: compiled.line,
            checks,
            cache: Cache::new(size),
            history: Mutex::default(),
        })
    }

    /// Keeps what the function was compiled to for at most `size` signatures, and for at least one. What was used
    /// longest ago is forgotten first. The default is 4096, as in JAX.
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

    /// Panics where an operation of the compiled function gives NaN, and names the equation, the line it was
    /// written at, and its operands; see [`debug_nans`](crate::debug_nans). Operations are not fused then.
    ///
    /// # Examples
    /// ```should_panic
    /// use pytree_transform::{Tensor, jit};
    /// let f = jit(|x: Tensor| x.log().sum()).check_nans();
    /// f(Tensor::from([1.0_f32, -1.0]));
    /// ```
    #[must_use]
    pub fn check_nans(self) -> Self {
        self.anew(self.compiled.checks.with_nans(), self.compiled.cache.size())
    }

    /// As [`check_nans`](Self::check_nans), for infinities.
    #[must_use]
    pub fn check_infs(self) -> Self {
        self.anew(self.compiled.checks.with_infs(), self.compiled.cache.size())
    }

    /// How many times the function was traced.
    pub fn traces(&self) -> usize {
        self.compiled.cache.traces()
    }

    /// For how many signatures it is compiled at the moment.
    pub fn cached(&self) -> usize {
        self.compiled.cache.len()
    }

    /// Forgets what the function was compiled to; it is traced again when called.
    pub fn clear_cache(&self) {
        self.compiled.cache.clear();
    }

    /// Why the function was traced the last time it was traced again: each difference to the argument of
    /// the trace before. Nothing if it was traced at most once.
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
        self.compiled.history().why.clone()
    }

    /// The recorded function for an argument, without what its result does not need.
    ///
    /// # Panics
    /// As the function does.
    pub fn jaxpr(&self, argument: &A) -> Jaxpr {
        self.compiled
            .entry(argument, &mut Attempts::default())
            .0
            .body
            .jaxpr
            .clone()
    }

    /// What runs for an argument: the optimised jaxpr, its schedule and its memory.
    ///
    /// # Panics
    /// As the function does.
    pub fn lower(&self, argument: &A) -> Lowered {
        Lowered::new(
            &self
                .compiled
                .entry(argument, &mut Attempts::default())
                .0
                .body
                .jaxpr,
        )
    }
}

impl<A, R> Clone for Jit<A, R> {
    fn clone(&self) -> Self {
        Self {
            compiled: Arc::clone(&self.compiled),
            call: Arc::clone(&self.call),
        }
    }
}

impl<A, R> std::ops::Deref for Jit<A, R> {
    type Target = dyn Fn(A) -> R + Send + Sync;
    fn deref(&self) -> &Self::Target {
        &*self.call
    }
}

impl<A: Traceable, R: Traceable> Function<A> for Jit<A, R> {
    type Output = R;
    fn call(&self, argument: A) -> R {
        (self.call)(argument)
    }
}

impl<'a, A: Traceable, R: Traceable> Function<&'a A> for Jit<A, R> {
    type Output = R;
    fn call(&self, argument: &'a A) -> R {
        self.compiled.run(argument)
    }
}

impl<A: Traceable, R: Traceable> Function<A> for &Jit<A, R> {
    type Output = R;
    fn call(&self, argument: A) -> R {
        Function::<A>::call(*self, argument)
    }
}

impl<'a, A: Traceable, R: Traceable> Function<&'a A> for &Jit<A, R> {
    type Output = R;
    fn call(&self, argument: &'a A) -> R {
        Function::<&'a A>::call(*self, argument)
    }
}

impl<A, R> fmt::Debug for Jit<A, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Jit({})", self.compiled.line)
    }
}
