//! Compiled functions, which take their arguments by value or by `&mut`. Traces a function once for each signature of
//! its arguments, and runs the compiled programs.

use std::any::TypeId;
use std::panic::Location;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pytree_base::bug::expect_some;
use pytree_core::boundary::{Attempts, Outcome, References, Visited, flatten_visited};
use pytree_core::level::has_read_captured;
use pytree_core::{TreeDef, TreeError, Unrepeated};
use pytree_kernels::base::array::Array;

use crate::base::error::or_panic;
use crate::executor::compile;
use crate::primitives::body::Body;
use crate::primitives::call::call;
use crate::tensor::Tensor;
use crate::tensor::checks::Checks;
use crate::tensor::device::{self, Device};
use crate::tensor::stage::stage;
use crate::tensor::trace::{Recorder, at_line_by_default, is_staging};
use crate::tensor::traceable::Traceable;
use crate::transformations::cache::{Cache, DEFAULT_SIZE, Entry, Release};
use crate::transformations::dropped::Dropped;
use crate::transformations::function::{Ending, Known, Origin, TracedCall, call_inside};
use crate::transformations::placed::Place;
use crate::transformations::rebuilt;
use crate::transformations::retrace::{Retrace, Traced};
use crate::transformations::signature::Signature;

/// A function and the cache of its programs.
///
/// `T` is the value of a call that runs a program. `E` is the result of a call whose function returned an error while
/// it was traced.
pub(crate) struct Compiled<T, E> {
    pub(crate) origin: Origin,
    function: Arc<FunctionOfLeaves<E>>,
    of_type: FunctionType,
    rebuild: Rebuild<T>,
    pub(crate) checks: Checks,
    /// The device that the user has chosen for this function. `None` means that the arguments of a call determine the
    /// device.
    pub(crate) device: Option<Device>,
    pub(crate) cache: Cache,
    history: Mutex<History>,
}

/// A user's function that is called with an argument of traced leaves.
type FunctionOfLeaves<E> = dyn Fn(&TreeDef, Vec<Tensor>) -> TracedCall<Outcome, E> + Send + Sync;

/// Builds the value of a call from the results of a program.
type Rebuild<T> = fn(&Outcome, Vec<Tensor>, &References) -> Result<T, TreeError>;

impl<T, E> Compiled<T, E> {
    /// Creates a compiled function with an empty cache. `F` is the type of the user's function, which `function` calls.
    #[track_caller]
    pub(crate) fn new<F: 'static, A: Traceable, R: Traceable>(
        name: &'static str,
        function: impl Fn(A) -> Result<R, E> + Send + Sync + 'static,
        rebuild: Rebuild<T>,
    ) -> Self {
        let function =
            move |treedef: &TreeDef, leaves| call_inside(Known::All, treedef, leaves, &function);
        Self {
            origin: Origin {
                name,
                line: Location::caller(),
            },
            function: Arc::new(function),
            of_type: FunctionType::of::<F>(),
            rebuild,
            checks: Checks::default(),
            device: None,
            cache: Cache::new(DEFAULT_SIZE),
            history: Mutex::default(),
        }
    }

    /// Returns a copy with other options and an empty cache.
    pub(crate) fn anew(&self, checks: Checks, device: Option<Device>, size: usize) -> Self {
        Self {
            function: Arc::clone(&self.function),
            checks,
            device,
            cache: Cache::new(size),
            history: Mutex::default(),
            ..*self
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

impl<T, E> Compiled<T, E> {
    /// Calls the function with the arguments `given`. Also returns the result of `divide`, which is what a program leaves of the
    /// arguments while it runs.
    ///
    /// A program may reuse the memory of leaves that have no other handle. With `release`, the arguments keep their leaves until the
    /// program can no longer fail, and `release` then replaces the leaves by placeholders.
    ///
    /// # Errors
    /// Returns the result of the call if the function is traced and returns an error.
    pub(crate) fn run<G: Visited<Tensor>, S>(
        &self,
        given: G,
        divide: impl FnOnce(G) -> S,
        release: Option<fn(&mut S, &TreeDef, Vec<Tensor>)>,
    ) -> Result<(T, S), E> {
        if self.checks.any() {
            return self.checks.within(|| self.run_now(given, divide, release));
        }
        self.run_now(given, divide, release)
    }

    fn run_now<G: Visited<Tensor>, S>(
        &self,
        given: G,
        divide: impl FnOnce(G) -> S,
        release: Option<fn(&mut S, &TreeDef, Vec<Tensor>)>,
    ) -> Result<(T, S), E> {
        pytree_base::span!(TRACE, "call", function = self.of_type.name, line = %self.origin.line);
        let mut attempts = Attempts::default();
        let (entry, leaves, references) = self.entry(&given, &mut attempts)?;
        if !is_evaluated(&entry, &leaves) {
            let rest = divide(given);
            return Ok((self.recorded(&entry, leaves, &references), rest));
        }
        entry.check_states(self.origin, &leaves);
        if entry.is_repeatable() {
            let entered = (entry, leaves, references);
            let value = self.run_repeatedly(&given, attempts, entered)?;
            return Ok((value, divide(given)));
        }
        let place = self.place(&entry, &leaves);
        let mut rest = divide(given);
        // Another thread may still prevent the writes of a program that writes references.
        let release = release.filter(|_| !entry.outcome.writes());
        let treedef = &entry.signature.treedef;
        let lent = &mut rest;
        let mut release = release.map(|release| move |leaves| release(lent, treedef, leaves));
        let release = release.as_mut().map(|release| release as Release<'_>);
        let value = self.evaluate(&entry, &place, leaves, &references, release);
        Ok((self.ending(&entry).with(value), rest))
    }

    /// Returns where the program of a cache entry runs on these leaves.
    #[inline]
    pub(crate) fn place(&self, entry: &Entry, leaves: &[Tensor]) -> Place {
        let is_free = self.device.is_none() && entry.devices.is_empty() && !device::is_chosen();
        if is_free && leaves.iter().all(|leaf| leaf.array().is_some()) {
            return Place::Host;
        }
        or_panic(Place::of(self.origin, self.device.as_ref(), entry, leaves))
    }

    /// Calls the program of a cache entry inside of another transformation, which records or transforms the call.
    fn recorded(&self, entry: &Entry, mut leaves: Vec<Tensor>, references: &References) -> T {
        leaves.extend(entry.captured.iter().cloned());
        let _device = self.device.as_ref().map(device::within);
        // A call has no source line, because the `dyn Fn` to which a `Jit` derefs does not know its caller.
        let results = at_line_by_default(self.origin.line, || call(&entry.body, &leaves));
        let value = (self.rebuild)(&entry.outcome, results, references);
        self.ending(entry).with(value)
    }

    /// Runs the program of a cache entry on leaves that are not traced.
    fn evaluate(
        &self,
        entry: &Entry,
        place: &Place,
        leaves: Vec<Tensor>,
        references: &References,
        release: Option<Release<'_>>,
    ) -> Result<T, TreeError> {
        if let Place::Device(placed) = place {
            let results = or_panic(placed.run(entry, leaves, release));
            return (self.rebuild)(&entry.outcome, results, references);
        }
        let array = |leaf: Tensor| expect_some(leaf.into_array(), "leaves on the host");
        let arrays: Vec<Arc<Array>> = leaves.into_iter().map(array).collect();
        let results = entry.run(arrays, release);
        let results = results.into_iter().map(Tensor::from_shared).collect();
        (self.rebuild)(&entry.outcome, results, references)
    }

    /// Runs a program that writes references. Runs the program again if another thread has written a reference after
    /// the program read it.
    fn run_repeatedly(
        &self,
        given: &dyn Visited<Tensor>,
        mut attempts: Attempts,
        mut entered: Entered,
    ) -> Result<T, E> {
        loop {
            let (entry, leaves, references) = entered;
            let place = self.place(&entry, &leaves);
            match self.evaluate(&entry, &place, leaves, &references, None) {
                Err(error)
                    if error.is_conflict() && !error.is_own_conflict() && entry.is_repeatable() => {
                }
                outcome => return Ok(self.ending(&entry).with(outcome)),
            }
            drop((entry, references));
            attempts.conflicted();
            entered = self.entry(given, &mut attempts)?;
        }
    }

    /// Describes a call, for messages about writes to references that conflict with the writes of another thread.
    fn ending(&self, entry: &Entry) -> Ending<'static> {
        let mut ending = Ending::of(self.origin.name, self.origin.line);
        if entry.body.has_effect {
            ending.unrepeated = Unrepeated::Effects;
        }
        ending
    }

    /// Returns the cache entry for the arguments of a call, to show its program.
    ///
    /// # Panics
    /// Panics if the function is traced and returns an error.
    #[track_caller]
    pub(crate) fn shown(&self, given: &dyn Visited<Tensor>) -> Arc<Entry> {
        self.shown_with_leaves(given).0
    }

    /// Returns the cache entry for the arguments of a call, like [`shown`](Self::shown), and the leaves of the arguments.
    #[track_caller]
    pub(crate) fn shown_with_leaves(
        &self,
        given: &dyn Visited<Tensor>,
    ) -> (Arc<Entry>, Vec<Tensor>) {
        let Ok((entry, leaves, _)) = self.entry(given, &mut Attempts::default()) else {
            panic!(
                "cannot record the function of the {}: the function returned an `Err` for this argument; call the function to get the error",
                self.origin
            )
        };
        (entry, leaves)
    }

    /// Returns the cache entry for the arguments of a call, and their leaves and references. On a cache miss, traces
    /// the function.
    ///
    /// # Errors
    /// Returns the result of the call if the function is traced and returns an error.
    fn entry(&self, given: &dyn Visited<Tensor>, attempts: &mut Attempts) -> Result<Entered, E> {
        if let Some((entry, leaves, references)) = self.cache.newest(given) {
            entry.depend_on_batch_axes();
            return Ok((entry, leaves, references));
        }
        // Tracing may wait for other threads, and these threads may wait until this call ends its turn.
        attempts.end_turn();
        let (leaves, treedef, mut references) = flatten_visited::<Tensor>(given);
        let infos = leaves.iter().map(|leaf| leaf.info().clone()).collect();
        let entry =
            self.cache
                .get_or_trace(Signature { treedef, infos }, self.origin, &|signature| {
                    self.trace(signature)
                })?;
        entry.depend_on_batch_axes();
        // Release the handles of shared nodes that the result does not contain, so that their memory can be reused.
        entry.outcome.release(&mut references);
        Ok((entry, leaves, references))
    }

    fn trace(&self, signature: Arc<Signature>) -> Result<Entry, E> {
        pytree_base::span!(DEBUG, "trace", function = self.of_type.name, line = %self.origin.line);
        let treedef = &signature.treedef;
        let (jaxpr, captured, outcome) = stage(Recorder::Jit, &signature.infos, |tensors| {
            let (leaves, outcome) = (self.function)(treedef, tensors);
            (
                leaves,
                outcome.map(|outcome| (outcome, has_read_captured())),
            )
        });
        let (outcome, is_used_once) = outcome?;
        self.cache.traced();
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
                let why = Retrace::between(self.origin.line, before, &signature);
                rebuilt::traced_again(self.origin, self.cache.traces(), self.cache.calls(), &why);
                self.history().why = Some(why);
            }
            None => rebuilt::traced_first(self.origin, self.of_type.id),
        }
        let mut entry = Entry::new(signature, outcome, body, captured, dropped);
        entry.is_used_once = is_used_once;
        Ok(entry)
    }
}

/// The cache entry for the arguments of a call, with the leaves and references of these arguments.
type Entered = (Arc<Entry>, Vec<Tensor>, References);

/// Returns whether a call runs the compiled program immediately. Otherwise, an enclosing transformation records or
/// transforms the call.
fn is_evaluated(entry: &Entry, leaves: &[Tensor]) -> bool {
    // An enclosing `jit` must record a program with effects, such as printing, even if all operands are concrete.
    let is_recorded = entry.body.has_effect && is_staging();
    entry.captured.is_empty()
        && entry.body.axis_names.is_empty()
        && !is_recorded
        && !leaves.iter().any(Tensor::is_traced)
}

/// The type of a user's function, for warnings and for names in jaxprs.
#[derive(Clone, Copy, Debug)]
struct FunctionType {
    id: TypeId,
    name: &'static str,
}

impl FunctionType {
    fn of<F: 'static>() -> Self {
        Self {
            id: TypeId::of::<F>(),
            name: std::any::type_name::<F>(),
        }
    }

    /// Returns the name of the function without its path, for instance `forward`. For a closure, returns `<closure>`.
    fn short_name(self) -> String {
        let path = self.name.split('<').next().unwrap_or(self.name);
        match path.rsplit("::").next() {
            None | Some("" | "{{closure}}") => "<closure>".to_owned(),
            Some(last) => last.to_owned(),
        }
    }
}

/// Defines the options that `jit` and `jit_mut` share, and the methods that describe the cache and the compiled program. The
/// argument follows the type, with the form of it that the library visits.
macro_rules! compiled_options {
    ([$($generics:tt)*] $type:ty, |$given:ident: $argument:ty| $visited:expr) => {
        impl<$($generics)*> $type {
            /// Makes a copy of the function with an empty cache.
            fn anew(&self, checks: $crate::tensor::checks::Checks, size: usize) -> Self {
                let device = self.compiled.device.clone();
                Self::of(self.compiled.anew(checks, device, size))
            }

            /// Makes the function run on a device. The cache of the returned function is empty.
            ///
            /// A call transfers tensors on the host to the device. To transfer a model only once, use
            /// [`device_put`](crate::device::device_put). The results are on the device. A tensor on another device is
            /// an error.
            ///
            /// Without `on`, the function runs on the device of its argument and of its captured tensors. If all of
            /// these are on the host, the function runs on the device that [`with_device`](crate::device::with_device)
            /// has chosen.
            ///
            /// Inside of another compiled function, the device of the outer function is used.
            ///
            /// # Examples
            /// ```
            /// use pytree_transform::device::Device;
            /// use pytree_transform::{Tensor, jit};
            /// let f = jit(|x: Tensor| x * 2.0).on(Device::HOST);
            /// assert!(f(Tensor::from(1.0)).device().is_host());
            /// ```
            #[must_use]
            pub fn on(self, device: impl Into<$crate::tensor::device::Device>) -> Self {
                let (checks, size) = (self.compiled.checks, self.compiled.cache.size());
                Self::of(self.compiled.anew(checks, Some(device.into()), size))
            }

            /// Sets the maximum number of signatures in the cache to `size`, or to 1 if `size` is 0. The least recently
            /// used program is evicted first. The default is 4096, as in JAX.
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

            /// Makes calls panic if an operation of the compiled function returns NaN. The message names the equation,
            /// its source line and its operands; see [`debug_nans`](crate::debug_nans). The function then runs without
            /// fused kernels.
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

            /// Makes calls panic if an operation of the compiled function returns an infinity. For the other
            /// properties, see [`check_nans`](Self::check_nans).
            #[must_use]
            pub fn check_infs(self) -> Self {
                let checks = self.compiled.checks.with_infs();
                self.anew(checks, self.compiled.cache.size())
            }

            /// Returns the jaxpr of the function for the given argument, without dead code. The outputs of a function that
            /// writes arguments are the new values of these arguments, then the result. Does not change the argument.
            ///
            /// # Panics
            /// If the function panics or returns an `Err`.
            #[track_caller]
            pub fn jaxpr(&self, $given: $argument) -> $crate::tensor::jaxpr::Jaxpr {
                self.compiled.shown($visited).body.jaxpr.clone()
            }

            /// Returns the program that runs for an argument: the optimized jaxpr, its schedule and its memory. Does not
            /// change the argument.
            ///
            /// # Panics
            /// If the function panics or returns an `Err`.
            #[doc(alias = "jax.jit.lower")]
            #[track_caller]
            pub fn lower(&self, $given: $argument) -> $crate::transformations::lowered::Lowered {
                $crate::transformations::lowered::Lowered::new(&self.compiled.shown($visited).body.jaxpr)
            }

            /// Compiles the function for an argument on a [`Mesh`](crate::device::Mesh), and returns how the leaves of the
            /// argument and of the result are divided among the devices. What each device holds of an input comes from the
            /// compiled program. Does not run the function. Equivalent to `input_shardings` and `output_shardings` in JAX.
            ///
            /// # Examples
            /// ```
            /// use pytree_transform::{Tensor, jit};
            /// let f = jit(|x: Tensor| x.sin());
            /// let shardings = f.shardings(&Tensor::from([1.0_f32, 2.0]));
            /// assert_eq!(shardings.inputs[0].part, [2]);
            /// assert_eq!(shardings.inputs[0].sharding, None, "the host is not a mesh");
            /// ```
            ///
            /// # Panics
            /// If the function panics or returns an `Err`, or the device cannot compile it.
            #[track_caller]
            pub fn shardings(
                &self,
                $given: $argument,
            ) -> $crate::transformations::compiled_shardings::CompiledShardings {
                self.compiled.shardings($visited)
            }

            /// Returns the function for the given argument as a module of StableHLO; see
            /// [`Jaxpr::to_stablehlo`](crate::Jaxpr::to_stablehlo). The module has the outputs of [`jaxpr`](Self::jaxpr).
            /// Does not change the argument.
            ///
            /// # Panics
            /// If the function panics or returns an `Err`, or an equation has no form in StableHLO, for instance a callback.
            #[track_caller]
            pub fn stablehlo(&self, $given: $argument) -> $crate::tensor::stablehlo::StableHlo {
                self.compiled.shown($visited).stablehlo()
            }

            /// Returns how many times the function was traced and recorded. A trace that ends with an error or a panic does not
            /// count: the cache remembers no failure, so each call with this argument runs the function again, and the function
            /// makes its error or panic anew.
            pub fn traces(&self) -> usize {
                self.compiled.cache.traces()
            }

            /// Returns the number of signatures for which the cache currently holds a program.
            pub fn cached(&self) -> usize {
                self.compiled.cache.len()
            }

            /// Removes all compiled programs. The next call traces the function again.
            #[doc(alias = "jax.clear_caches")]
            pub fn clear_cache(&self) {
                self.compiled.cache.clear();
            }

            /// Returns the reason for the last trace: each difference between the arguments of the last two traces.
            /// Returns `None` if the function was traced at most once.
            ///
            /// # Examples
            /// ```
            /// use pytree_transform::{Tensor, jit};
            /// let f = jit(|x: Tensor| x.sum());
            /// f(Tensor::from([1.0_f32]));
            /// f(Tensor::from([1.0_f32, 2.0]));
            /// assert_eq!(f.why_retraced().unwrap(), "the root: f32[1] before, f32[2] now");
            /// ```
            #[doc(alias = "jax_explain_cache_misses")]
            pub fn why_retraced(&self) -> Option<$crate::transformations::retrace::Retrace> {
                self.compiled.why_retraced()
            }
        }
    };
}
pub(crate) use compiled_options;

/// Makes a compiled function callable like a function. Copies of it share its cache. The type `$target` is that of the function that it
/// calls, and `$bounds` are further bounds under which it can be called.
macro_rules! compiled_function {
    ([$($generics:tt)*] $name:ident<$($argument:ident),*>, $target:ty $(where $($bounds:tt)+)?) => {
        impl<$($generics)*> Clone for $name<$($argument),*> {
            fn clone(&self) -> Self {
                Self {
                    compiled: std::sync::Arc::clone(&self.compiled),
                    call: std::sync::Arc::clone(&self.call),
                }
            }
        }

        impl<$($generics)*> std::ops::Deref for $name<$($argument),*> $(where $($bounds)+)? {
            type Target = $target;
            fn deref(&self) -> &Self::Target {
                &*self.call
            }
        }

        impl<$($generics)*> std::fmt::Debug for $name<$($argument),*> {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self.compiled.origin.line)
            }
        }
    };
}
pub(crate) use compiled_function;
