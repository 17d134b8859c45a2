//! `jit`: records a function once for each signature (structure, shapes and dtypes of the argument), and runs the
//! compiled program.

use std::fmt;
use std::panic::Location;
use std::sync::Arc;

use pytree_core::boundary::Attempts;

use crate::tensor::checks::Checks;
use crate::tensor::jaxpr::Jaxpr;
use crate::tensor::traceable::Traceable;
use crate::transformations::cache::Entry;
use crate::transformations::compiled::{Compiled, FunctionType, returned_an_error};
use crate::transformations::function::Function;
use crate::transformations::lowered::Lowered;
use crate::transformations::retrace::Retrace;
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
pub fn jit<A, R, F, K, C>(function: F) -> Jit<A, R::Value, R::With<R::Value>>
where
    A: Traceable,
    R: Returned<K>,
    F: Function<A, C, Output = R> + Send + Sync + 'static,
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

/// A compiled function, the result of [`jit`].
///
/// `O` is the result of a call: `R`, or `Result<R, E>` if the function returns a `Result`.
pub struct Jit<A, R, O = R> {
    compiled: Arc<Compiled<A, R, O>>,
    /// Converts the result of the program to the result of a call, for instance by `Ok`.
    ok: fn(R) -> O,
    call: Arc<dyn Fn(A) -> O + Send + Sync>,
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

#[diagnostic::do_not_recommend]
impl<A: Traceable, R: Traceable, O: 'static> Function<A> for Jit<A, R, O> {
    type Output = O;
    fn call(&self, argument: A) -> O {
        (self.call)(argument)
    }
}

#[diagnostic::do_not_recommend]
impl<'a, A: Traceable, R: Traceable, O: 'static> Function<&'a A> for Jit<A, R, O> {
    type Output = O;
    fn call(&self, argument: &'a A) -> O {
        match self.compiled.run(argument) {
            Ok(value) => (self.ok)(value),
            Err(failed) => failed,
        }
    }
}

#[diagnostic::do_not_recommend]
impl<A: Traceable, R: Traceable, O: 'static> Function<A> for &Jit<A, R, O> {
    type Output = O;
    fn call(&self, argument: A) -> O {
        Function::<A>::call(*self, argument)
    }
}

#[diagnostic::do_not_recommend]
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
