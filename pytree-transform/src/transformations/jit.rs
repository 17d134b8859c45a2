//! `jit`: records a function once for each signature (structure, shapes and dtypes of the argument), and runs the
//! compiled program.

use std::marker::PhantomData;
use std::sync::Arc;

use pytree_core::Visitor;
use pytree_core::boundary::Visited;

use crate::tensor::Tensor;
use crate::tensor::traceable::Traceable;
use crate::transformations::compiled::{Compiled, compiled_function, compiled_options};
use crate::transformations::function::{Function, Unary};
use crate::transformations::returned::Returned;

/// Compiles a function of a pytree: the returned [`Jit`] records the function and runs the compiled program.
///
/// The signature of a call consists of the argument's treedef (including static values), shapes and dtypes. The first
/// call with a signature traces the function. Later calls with the signature run the recorded program. Captured tensors
/// become constants. The compiled function can be stored, called from several threads, and passed to every other
/// transformation.
///
/// The function takes its argument by value or by reference. Several arguments are one tuple of up to eight members, for
/// instance `(&Net, &Tensor)` or `(&Net, Tensor)`. In a tuple of more than four, the arguments that the caller lends come first, then
/// those by value. A call with references copies nothing. A call by value reuses the memory of tensors that have no other handle, unless the program
/// writes references, because it may then have to run again.
///
/// If several threads call the function at the same time with the same signature, one thread traces it and the others
/// wait, as for a [`OnceLock`](std::sync::OnceLock). Compiled programs are cached for 4096 signatures, as in JAX.
/// [`cache_size`](Jit::cache_size) changes this number.
///
/// Inside of another transformation, the function may capture and read references of the outer transformation. The
/// values of these references are inputs of the recorded program. Each call traces the function, because the values may
/// have changed since the last call.
///
/// Build a compiled function once and store it: a function that is built for every call is also compiled for every
/// call. When a source line has built and traced 32 compiled functions of one type, a
/// [warning](crate::set_warning_hook) names the line. If most calls of a compiled function trace it again, another
/// warning names the part of the argument that changes.
///
/// The function may return a `Result`; see [`Returned`]. If the function returns an `Err` while it is traced, the call
/// returns this `Err`: nothing is compiled, no reference is written, and the next call traces the function again.
///
/// # Examples
/// ```
/// use pytree_transform::{Tensor, jit};
/// let f = jit(|(x, y): (Tensor, Tensor)| x.sin() * y);
/// let z = f((Tensor::from([0.0_f32, 1.0]), Tensor::from([1.0_f32, 2.0])));
/// assert_eq!(z.shape(), [2]);
/// assert_eq!(f.traces(), 1);
/// ```
/// A function of references, which the caller keeps:
/// ```
/// use pytree_transform::{Tensor, jit};
/// let f = jit(|(x, y): (&Tensor, &Tensor)| x.sin() * y);
/// let (x, y) = (Tensor::from([0.0_f32, 1.0]), Tensor::from([1.0_f32, 2.0]));
/// assert_eq!(f((&x, &y)), f((&x, &y)));
/// ```
///
/// # Panics
/// The compiled function panics if `function` panics.
#[doc(alias("jax.jit", "torch.compile", "FlareJax.filter_jit", "eqx.filter_jit"))]
#[track_caller]
pub fn jit<P, F, B, C, K>(function: F) -> P::Compiled
where
    F: Unary<P, C>,
    P: JitParameter<F, B, C, K>,
{
    P::compile(function)
}

/// The parameter of a function that [`jit`] can compile: a pytree of tensors, a reference to one, or a tuple with
/// references.
///
/// `By` says which members of the tuple are references, `Kind` is the kind of the [`Function`], and `Fails` says whether it returns
/// a `Result`. The compiler infers them.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be traced: every leaf must be a `Tensor`",
    label = "has leaves that are not tensors, or is not a pytree",
    note = "change numbers and ndarray arrays to `Tensor`, and write `#[r#static]` on fields that are not data",
    note = "to make your own type a pytree, write `#[derive(Module)]` or `#[derive(Pytree)]` on it",
    note = "a tuple of more than four arguments has first the arguments that `jit` lends, then those by value: `|(model, x, …): (&Model, Tensor, …)|`; for a function that writes its model, use `jit_mut`"
)]
pub trait JitParameter<F, By, Kind, Fails> {
    /// The compiled function: [`Jit`], or [`JitRef`](crate::JitRef) if some arguments are references.
    type Compiled;

    /// Compiles a function with this parameter.
    #[track_caller]
    fn compile(function: F) -> Self::Compiled;
}

/// A parameter that is passed by value: see [`JitParameter`].
#[derive(Debug)]
pub enum ByValue {}

/// A parameter that is a reference, or a tuple with references, whose [`LentArguments`](crate::LentArguments) are `P`: see
/// [`JitParameter`].
#[derive(Debug)]
pub struct ByReference<P>(PhantomData<fn() -> P>);

impl<A, F, R, C, K> JitParameter<F, ByValue, C, K> for A
where
    A: Traceable,
    F: Function<A, C, Output = R> + Send + Sync + 'static,
    R: Returned<K>,
    R::With<R::Value>: 'static,
{
    type Compiled = Jit<A, R::With<R::Value>>;

    #[track_caller]
    fn compile(function: F) -> Self::Compiled {
        let call = move |argument: A| {
            let result = function.call(argument).into_value();
            result.map_err(|error| R::with(Err(error)))
        };
        Jit::of(Compiled::new::<F, A, R::Value>(
            "jit",
            call,
            |outcome, leaves, references| {
                let value = outcome.unflatten_result(leaves, references)?;
                Ok(R::with(Ok(value)))
            },
        ))
    }
}

/// A compiled function that takes its argument by value, the result of [`jit`]. `R` is the result of a call: a value, or a `Result`.
pub struct Jit<A, R> {
    compiled: Arc<Compiled<R, R>>,
    call: Arc<dyn Fn(A) -> R + Send + Sync>,
}

/// An argument that a call receives by value.
struct Owned<A>(A);

impl<A: Traceable> Visited<Tensor> for Owned<A> {
    #[inline]
    fn visit<'v>(&'v self, visitor: &mut dyn Visitor<'v>) {
        A::visit(&self.0, visitor);
    }
}

impl<R> Compiled<R, R> {
    /// Calls the function with an argument that is passed by value or by reference.
    pub(crate) fn call(&self, argument: impl Visited<Tensor>) -> R {
        match self.run(argument, drop, None) {
            Ok((result, ())) | Err(result) => result,
        }
    }
}

compiled_options!([A: Traceable, R: 'static] Jit<A, R>, |argument: &A| &argument);

impl<A: Traceable, R: 'static> Jit<A, R> {
    fn of(compiled: Compiled<R, R>) -> Self {
        let compiled = Arc::new(compiled);
        let inner = Arc::clone(&compiled);
        Self {
            compiled,
            call: Arc::new(move |argument| inner.call(Owned(argument))),
        }
    }
}

compiled_function!([A, R] Jit<A, R>, dyn Fn(A) -> R + Send + Sync);

#[diagnostic::do_not_recommend]
impl<A: Traceable, R: 'static> Unary<A> for Jit<A, R> {}
#[diagnostic::do_not_recommend]
impl<A: Traceable, R: 'static> Unary<A> for &Jit<A, R> {}

#[diagnostic::do_not_recommend]
impl<A: Traceable, R: 'static> Function<A> for Jit<A, R> {
    type Output = R;
    fn call(&self, argument: A) -> R {
        (self.call)(argument)
    }
}

#[diagnostic::do_not_recommend]
impl<'a, A: Traceable, R: 'static> Function<&'a A> for Jit<A, R> {
    type Output = R;
    fn call(&self, argument: &'a A) -> R {
        self.compiled.call(argument)
    }
}

#[diagnostic::do_not_recommend]
impl<A: Traceable, R: 'static> Function<A> for &Jit<A, R> {
    type Output = R;
    fn call(&self, argument: A) -> R {
        Function::<A>::call(*self, argument)
    }
}

#[diagnostic::do_not_recommend]
impl<'a, A: Traceable, R: 'static> Function<&'a A> for &Jit<A, R> {
    type Output = R;
    fn call(&self, argument: &'a A) -> R {
        Function::<&'a A>::call(*self, argument)
    }
}
