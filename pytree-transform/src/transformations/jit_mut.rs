//! `jit_mut`: compiles a function that takes some of its arguments by `&mut` and writes them.

use std::fmt;
use std::panic::Location;
use std::sync::Arc;

use pytree_core::boundary::{Attempts, unflatten_with_new_references};

use crate::tensor::Tensor;
use crate::tensor::checks::{self, Checks};
use crate::tensor::jaxpr::Jaxpr;
use crate::tensor::traceable::Traceable;
use crate::transformations::cache::Entry;
use crate::transformations::compiled::{Compiled, FunctionType, is_evaluated, returned_an_error};
use crate::transformations::lowered::Lowered;
use crate::transformations::retrace::Retrace;
use crate::transformations::returned::Returned;
use crate::transformations::writing::{
    Arguments, Borrowed, Parts, WritingFunction, call_with_values, writing_function,
};

/// Compiles a function that writes some of its arguments. Each call updates these arguments; see [`jit`](crate::jit).
///
/// The function takes `&mut M`, or a tuple: first up to three arguments `&mut M`, then the arguments that it only
/// reads, by value. For example, a training step is a function of `(&mut Net, &mut Optimizer<Net>, Tensor, Tensor)`.
/// Each call then also updates running statistics and the counts of random streams.
///
/// A result may overwrite the memory of an argument if nothing else holds this memory. For this reason, each `&mut`
/// argument holds placeholders instead of its tensors while the program runs. If the function panics, while it is
/// traced or by a callback while it runs, the arguments are unchanged.
///
/// # Examples
/// ```
/// use pytree_transform::{Tensor, jit_mut};
/// let add = jit_mut(|(sum, x): (&mut Tensor, Tensor)| {
///     *sum = &*sum + &x;
///     x * 2.0
/// });
/// let mut sum = Tensor::from(0.0);
/// assert_eq!(add((&mut sum, Tensor::from(1.5))).item::<f64>(), 3.0);
/// assert_eq!(add((&mut sum, Tensor::from(2.0))).item::<f64>(), 4.0);
/// assert_eq!(sum.item::<f64>(), 3.5);
/// assert_eq!(add.traces(), 1);
/// ```
///
/// # Panics
/// The compiled function panics if `function` panics. In this case nothing is written.
#[track_caller]
pub fn jit_mut<P, R, F, K>(function: F) -> JitMut<P, R::Value, R::With<R::Value>>
where
    P: Arguments,
    R: Returned<K>,
    F: WritingFunction<P, Output = R> + Send + Sync + 'static,
{
    let call = move |values| {
        let (written, result) =
            call_with_values::<P, R>(|arguments| function.call(arguments), values);
        match result.into_value() {
            Ok(value) => Ok((written, value)),
            Err(error) => Err(R::with(Err(error))),
        }
    };
    JitMut::of(
        Compiled::new(Arc::new(call), FunctionType::of::<F>(), Location::caller()),
        |value| R::with(Ok(value)),
    )
}

/// A compiled function. It takes all arguments by value, and returns the new values of the `&mut` arguments and the
/// result.
type CompiledWriting<P, R, O> = Compiled<<P as Parts>::Values, (<P as Parts>::Written, R), O>;

/// A compiled function that writes some of its arguments, the result of [`jit_mut`].
///
/// `P` lists the arguments: a `JitMut<(Mut<Net>, Tensor), Tensor>` is called with a `(&mut Net, Tensor)`. `O` is the
/// result of a call: `R`, or `Result<R, E>` if the function returns a `Result`.
pub struct JitMut<P: Arguments, R, O = R> {
    compiled: Arc<CompiledWriting<P, R, O>>,
    /// Converts the result of the program to the result of a call, for instance by `Ok`.
    ok: fn(R) -> O,
    call: Arc<Call<P, O>>,
}

type Call<P, O> = dyn for<'a> Fn(<P as Parts>::Borrowed<'a>) -> O + Send + Sync;

/// Runs the function, and stores the new values in the user's `&mut` arguments.
fn run<P: Arguments, R: Traceable, O>(
    compiled: &CompiledWriting<P, R, O>,
    arguments: P::Borrowed<'_>,
) -> Result<R, O> {
    if compiled.checks.any() {
        return compiled
            .checks
            .within(|| run_now::<P, R, O>(compiled, arguments));
    }
    run_now::<P, R, O>(compiled, arguments)
}

fn run_now<P: Arguments, R: Traceable, O>(
    compiled: &CompiledWriting<P, R, O>,
    arguments: P::Borrowed<'_>,
) -> Result<R, O> {
    let mut attempts = Attempts::default();
    let given = Borrowed::<P>(&arguments);
    let (entry, leaves, references) = compiled.entry(&given, &mut attempts)?;
    if !is_evaluated(&entry, &leaves) {
        let (mut places, _) = P::divide(arguments);
        let (written, result) = compiled.recorded(&entry, leaves, &references);
        P::store(&mut places, written);
        return Ok(result);
    }
    entry.check_states(compiled.line, &leaves);
    if entry.is_repeatable() {
        let entered = (entry, leaves, references);
        let (written, result) = compiled.run_repeatedly(&given, attempts, entered)?;
        P::store(&mut P::divide(arguments).0, written);
        return Ok(result);
    }
    let (mut places, read) = P::divide(arguments);
    // If a callback or a check panics, the arguments must keep their values, so they get no placeholders.
    if !entry.body.has_effect && !checks::active() {
        release::<P>(&entry, &mut places);
    }
    drop(read);
    let (written, result) = compiled.evaluated(&entry, leaves, &references);
    P::store(&mut places, written);
    Ok(result)
}

/// Stores placeholders in the user's `&mut` arguments. Then only the flattened leaves of the call refer to the tensors,
/// and the program may reuse the memory of these tensors.
fn release<P: Arguments>(entry: &Entry, places: &mut P::Places<'_>) {
    let treedef = &entry.signature.treedef;
    let nothing = Tensor::from(false);
    let leaves = vec![nothing; treedef.num_leaves()];
    // If the type rejects the placeholders, the arguments keep their tensors, and the memory of these tensors is not
    // reused.
    if let Ok((values, _)) = unflatten_with_new_references::<Tensor, P::Values>(treedef, leaves) {
        P::store(places, P::divide_values(values).0);
    }
}

impl<P: Arguments, R: Traceable, O: 'static> JitMut<P, R, O> {
    fn of(compiled: CompiledWriting<P, R, O>, ok: fn(R) -> O) -> Self {
        let compiled = Arc::new(compiled);
        let inner = Arc::clone(&compiled);
        Self {
            compiled,
            ok,
            call: Arc::new(move |arguments: P::Borrowed<'_>| {
                match run::<P, R, O>(&inner, arguments) {
                    Ok(value) => ok(value),
                    Err(failed) => failed,
                }
            }),
        }
    }

    /// Makes a copy of the function with an empty cache.
    fn anew(&self, checks: Checks, size: usize) -> Self {
        Self::of(self.compiled.anew(checks, size), self.ok)
    }

    fn with_checks(&self, checks: Checks) -> Self {
        self.anew(checks, self.compiled.cache.size())
    }

    /// Sets the maximum number of signatures in the cache; see [`Jit::cache_size`](crate::Jit::cache_size).
    #[must_use]
    pub fn cache_size(self, size: usize) -> Self {
        self.anew(self.compiled.checks, size)
    }

    /// Makes calls panic if an operation returns NaN; see [`Jit::check_nans`](crate::Jit::check_nans).
    #[must_use]
    pub fn check_nans(self) -> Self {
        self.with_checks(self.compiled.checks.with_nans())
    }

    /// Makes calls panic if an operation returns an infinity; see [`Jit::check_infs`](crate::Jit::check_infs).
    #[must_use]
    pub fn check_infs(self) -> Self {
        self.with_checks(self.compiled.checks.with_infs())
    }

    /// Returns how many times the function was traced.
    pub fn traces(&self) -> usize {
        self.compiled.cache.traces()
    }

    /// Returns for how many signatures the cache currently holds a program.
    pub fn cached(&self) -> usize {
        self.compiled.cache.len()
    }

    /// Removes all compiled programs; see [`Jit::clear_cache`](crate::Jit::clear_cache).
    pub fn clear_cache(&self) {
        self.compiled.cache.clear();
    }

    /// Returns why the function was last traced again; see [`Jit::why_retraced`](crate::Jit::why_retraced).
    pub fn why_retraced(&self) -> Option<Retrace> {
        self.compiled.why_retraced()
    }

    /// Returns the jaxpr of the function for the given arguments, without dead code. Its outputs are the new values of
    /// the `&mut` arguments, then the result. This method itself does not change the arguments.
    ///
    /// # Panics
    /// If the function panics or returns an `Err`.
    #[track_caller]
    pub fn jaxpr(&self, arguments: P::Borrowed<'_>) -> Jaxpr {
        self.entry(&arguments).body.jaxpr.clone()
    }

    /// Returns the program that runs for the given arguments; see [`Jit::lower`](crate::Jit::lower). This method itself
    /// does not change the arguments.
    ///
    /// # Panics
    /// If the function panics or returns an `Err`.
    #[track_caller]
    pub fn lower(&self, arguments: P::Borrowed<'_>) -> Lowered {
        Lowered::new(&self.entry(&arguments).body.jaxpr)
    }

    #[track_caller]
    fn entry(&self, arguments: &P::Borrowed<'_>) -> Arc<Entry> {
        let given = Borrowed::<P>(arguments);
        let Ok((entry, ..)) = self.compiled.entry(&given, &mut Attempts::default()) else {
            panic!("{}", returned_an_error("jit_mut", self.compiled.line))
        };
        entry
    }
}

impl<P: Arguments, R, O> Clone for JitMut<P, R, O> {
    fn clone(&self) -> Self {
        Self {
            compiled: Arc::clone(&self.compiled),
            ok: self.ok,
            call: Arc::clone(&self.call),
        }
    }
}

impl<P: Arguments, R, O: 'static> std::ops::Deref for JitMut<P, R, O> {
    type Target = Call<P, O>;
    fn deref(&self) -> &Self::Target {
        &*self.call
    }
}

impl<P: Arguments, R, O> fmt::Debug for JitMut<P, R, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "JitMut({})", self.compiled.line)
    }
}

writing_function!([] JitMut);
