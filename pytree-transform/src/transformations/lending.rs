//! Compiled functions that take some of their arguments by reference.
//!
//! Inside of a trace, the function gets references to copies of the arguments. A call only visits what the caller lends.

use std::borrow::Borrow;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use pytree_core::boundary::Visited;
use pytree_core::shape::TUPLE;
use pytree_core::{Visit, Visitor};

use crate::tensor::Tensor;
use crate::tensor::traceable::Traceable;
use crate::transformations::compiled::{Compiled, compiled_function, compiled_options};
use crate::transformations::function::{Callable, Function, Unary};
use crate::transformations::jit::{ByReference, JitParameter};
use crate::transformations::returned::Returned;
use crate::transformations::writing::argument_lists;

/// Marks an argument of type `&M` in the type of a compiled function: a `JitRef<(Lent<Net>, Tensor), Tensor>` is called
/// with a `(&Net, Tensor)` and returns a `Tensor`.
pub struct Lent<M>(PhantomData<fn() -> M>);

impl<M> fmt::Debug for Lent<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Lent")
    }
}

/// The arguments of a function that takes some of them by reference: [`Lent<M>`](Lent) for one argument `&M`, or a tuple of
/// members of the type `Lent<M>` and arguments that are passed by value. Of five to eight members, those of the type `Lent<M>` come
/// first.
///
/// No other types implement this trait.
pub trait LentArguments: 'static {
    /// The arguments of a call, for instance `(&'a M, A)`.
    type Given<'a>;
    /// All arguments by value, for instance `(M, A)`.
    type Values: Traceable;

    /// Visits the arguments of a call, in the same way as a walk visits a value of type [`Values`](Self::Values).
    fn visit<'v>(given: &'v Self::Given<'_>, visitor: &mut dyn Visitor<'v>);
    /// Calls a function with the values of all arguments.
    fn pass<R>(values: Self::Values, function: impl FnOnce(Self::Given<'_>) -> R) -> R;
}

/// The arguments of a call, wrapped so that they implement [`Visited`].
struct Given<'a, P: LentArguments>(P::Given<'a>);

impl<P: LentArguments> Visited<Tensor> for Given<'_, P> {
    #[inline]
    fn visit<'v>(&'v self, visitor: &mut dyn Visitor<'v>) {
        P::visit(&self.0, visitor);
    }
}

/// A compiled function that takes some of its arguments by reference, the result of [`jit`](crate::jit).
///
/// `P` lists the arguments, and `R` is the result of a call: a `JitRef<(Lent<Net>, Tensor), Tensor>` is called with a
/// `(&Net, Tensor)` and returns a `Tensor`.
pub struct JitRef<P: LentArguments, R> {
    compiled: Arc<Compiled<R, R>>,
    call: Arc<Call<P, R>>,
}

type Call<P, R> = dyn for<'a> Fn(<P as LentArguments>::Given<'a>) -> R + Send + Sync;

compiled_options!([P: LentArguments, R: 'static] JitRef<P, R>, |arguments: P::Given<'_>| &Given::<P>(arguments));

impl<P: LentArguments, R: 'static> JitRef<P, R> {
    fn of(compiled: Compiled<R, R>) -> Self {
        let compiled = Arc::new(compiled);
        let inner = Arc::clone(&compiled);
        let call = move |given: P::Given<'_>| inner.call(Given::<P>(given));
        Self {
            compiled,
            call: Arc::new(call),
        }
    }
}

compiled_function!([P: LentArguments, R] JitRef<P, R>, Call<P, R> where R: 'static);

/// Compiles a function, which `call` calls. `F` is the type of the user's function.
#[track_caller]
fn compiled<F, P, R, K>(
    call: impl for<'a> Fn(P::Given<'a>) -> R + Send + Sync + 'static,
) -> JitRef<P, R::With<R::Value>>
where
    F: 'static,
    P: LentArguments,
    R: Returned<K>,
    R::With<R::Value>: 'static,
{
    let call = move |values: P::Values| {
        let result = P::pass(values, |given| call(given).into_value());
        result.map_err(|error| R::with(Err(error)))
    };
    JitRef::of(Compiled::new::<F, P::Values, R::Value>(
        "jit",
        call,
        |outcome, leaves, references| {
            let value = outcome.unflatten_result(leaves, references)?;
            Ok(R::with(Ok(value)))
        },
    ))
}

impl<M: Traceable> LentArguments for Lent<M> {
    type Given<'a> = &'a M;
    type Values = M;

    #[inline]
    fn visit<'v>(given: &'v &M, visitor: &mut dyn Visitor<'v>) {
        M::visit(given, visitor);
    }
    fn pass<R>(values: M, function: impl FnOnce(&M) -> R) -> R {
        function(&values)
    }
}

macro_rules! lending {
    ($($count:literal ($($m:ident $lent:tt),+) ($($a:ident $read:tt $at:tt),*))*) => {$(
        lent!($(($m $lent Lent<$m>; &$m; &'a $m; &))+ $(($a $at $a; $a; $a;))*);
    )*};
}

/// Implements the traits for the orders of a list of arguments in which a reference follows a value. The first word says
/// whether the arguments so far have a value, or also a reference after it.
macro_rules! mixed_orders {
    ($lent:ident $given:ident [$($list:tt)*] ($m:ident $at:tt) $($rest:tt)*) => {
        mixed_orders!($lent [$($list)* ($m $at Lent<$m>; &$m; &'a $m; &)] $($rest)*);
        mixed_orders!($given [$($list)* ($m $at $m; $m; $m;)] $($rest)*);
    };
    (mixed [$($list:tt)*]) => { lent!($($list)*); };
    ($before:ident $list:tt) => {};
    (references $list:tt $next:tt $($rest:tt)*) => { mixed_orders!(references value $list $next $($rest)*); };
    (value $list:tt $next:tt $($rest:tt)*) => { mixed_orders!(mixed value $list $next $($rest)*); };
    (mixed $list:tt $next:tt $($rest:tt)*) => { mixed_orders!(mixed mixed $list $next $($rest)*); };
}

/// Implements the traits for a list of arguments. Each has its type of value, its position, its type in the list, its types in
/// a call without and with a lifetime, and `&` if it is lent.
macro_rules! lent {
    ($(($m:ident $at:tt $member:ty; $given:ty; $given_for:ty; $($lend:tt)?))+) => {
        impl<$($m: Traceable),+> LentArguments for ($($member,)+) {
            type Given<'a> = ($($given_for,)+);
            type Values = ($($m,)+);

            #[inline]
            fn visit<'v>(given: &'v Self::Given<'_>, visitor: &mut dyn Visitor<'v>) {
                if visitor.enter(&TUPLE, [$($at),+].len()) == Visit::Descend {
                    $($m::visit(Borrow::<$m>::borrow(&given.$at), visitor);)+
                    visitor.exit();
                }
            }
            fn pass<Result_>(values: Self::Values, function: impl FnOnce(Self::Given<'_>) -> Result_) -> Result_ {
                function(($($($lend)? values.$at,)+))
            }
        }

        lending_function!(($($member,)+), ($($given,)+), ($($given_for,)+), $($m),+);
    };
}

/// Lets [`jit`](crate::jit) compile functions of a list of arguments. Implements [`Function`] for the results, so that
/// transformations can be nested.
macro_rules! lending_function {
    ($arguments:ty, $given:ty, $given_for:ty, $($m:ident),+ $(,)?) => {
        #[diagnostic::do_not_recommend]
        impl<Func_, Result_, Fails_, $($m: Traceable),+> JitParameter<Func_, ByReference<$arguments>, Callable, Fails_> for $given
        where
            Func_: for<'a> Function<$given_for, Output = Result_> + Send + Sync + 'static,
            Result_: Returned<Fails_>,
            Result_::With<Result_::Value>: 'static,
        {
            type Compiled = JitRef<$arguments, Result_::With<Result_::Value>>;

            #[track_caller]
            fn compile(function: Func_) -> Self::Compiled {
                compiled::<Func_, $arguments, Result_, Fails_>(move |given: $given| function.call(given))
            }
        }

        #[diagnostic::do_not_recommend]
        impl<'a, R: 'static, $($m: Traceable),+> Unary<$given_for> for JitRef<$arguments, R> {}

        #[diagnostic::do_not_recommend]
        impl<'a, R: 'static, $($m: Traceable),+> Function<$given_for> for JitRef<$arguments, R> {
            type Output = R;
            fn call(&self, given: $given_for) -> R {
                (self.call)(given)
            }
        }
    };
}

lending_function!(Lent<M>, &M, &'a M, M);
argument_lists! { lending! {} }
mixed_orders!(references [] (M 0) (N 1));
mixed_orders!(references [] (M 0) (N 1) (O 2));
mixed_orders!(references [] (M 0) (N 1) (O 2) (P 3));
