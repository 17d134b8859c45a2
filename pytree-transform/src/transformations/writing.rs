//! Functions that write some of their arguments: the types of these arguments, and how transformations call the
//! functions.
//!
//! Such a function first takes the arguments that it writes, by `&mut`, and then the arguments that it only reads.
//! Inside of a transformation, the function gets copies of the arguments. At the end of the call, the written copies
//! are stored in the user's arguments. So a call that panics changes nothing.

use std::fmt;
use std::marker::PhantomData;

use pytree_core::boundary::Visited;
use pytree_core::shape::TUPLE;
use pytree_core::{TreeDef, Visit, Visitor};

use crate::tensor::Tensor;
use crate::tensor::traceable::Traceable;
use crate::transformations::function::Function;

/// Marks an argument of type `&mut M` in the type of a transformed function: a `JitMut<(Mut<Net>, Tensor), Tensor>` is
/// called with a `(&mut Net, Tensor)` and returns a `Tensor`.
pub struct Mut<M>(PhantomData<fn() -> M>);

impl<M> fmt::Debug for Mut<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Mut")
    }
}

/// The arguments of a function that writes some of them: [`Mut<M>`](Mut) for one argument `&mut M`, or a tuple. The
/// tuple has at most eight members: first those of the type `Mut<M>`, then the arguments that are only read.
///
/// No other types implement this trait.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not say which arguments the function writes",
    note = "write `Mut<Net>` for a single argument `&mut Net`, or a tuple that begins with it: `(Mut<Net>, Tensor)`"
)]
pub trait Arguments: Parts {}

/// How a list of arguments is divided into the user's `&mut` arguments (places) and the values that are only read.
pub trait Parts: 'static {
    /// The arguments of a call, for instance `(&'a mut M, A)`.
    type Borrowed<'a>;
    /// The `&mut` arguments, which a call writes, for instance `(&'a mut M,)`.
    type Places<'a>;
    /// All arguments by value, for instance `(M, A)`.
    type Values: Traceable;
    /// The written arguments by value, for instance `(M,)`.
    type Written: Traceable;
    /// The arguments that are only read, for instance `(A,)`.
    type Read;

    /// Visits the arguments of a call, in the same way as a walk visits a value of type [`Values`](Self::Values).
    fn visit<'v>(arguments: &'v Self::Borrowed<'_>, visitor: &mut dyn Visitor<'v>);
    /// Divides the arguments of a call into the `&mut` arguments and the values that are only read.
    fn divide(arguments: Self::Borrowed<'_>) -> (Self::Places<'_>, Self::Read);
    /// Divides the values of all arguments into the values to be written and the values that are only read.
    fn divide_values(values: Self::Values) -> (Self::Written, Self::Read);
    /// Borrows the values that the user's function writes, and combines them with the values that it only reads.
    fn lend(written: &mut Self::Written, read: Self::Read) -> Self::Borrowed<'_>;
    /// Stores the new values in the user's `&mut` arguments.
    fn store(places: &mut Self::Places<'_>, values: Self::Written);
    /// Returns the structure of the arguments after the call, and the number of leaves of the arguments that are only
    /// read. These leaves come last.
    fn structure_after(written: TreeDef, arguments: &TreeDef) -> (TreeDef, usize);
}

/// A function that writes some of its arguments: a closure with a parameter of type `&mut M` or `(&mut M, A)`, or the
/// result of a transformation such as [`jit_mut`](crate::jit_mut).
///
/// `P` lists the arguments, for instance `(Mut<M>, A)`. The compiler infers `P` from the type of the parameter, which
/// must be written in the closure.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a function that writes its arguments",
    label = "expected a function that takes `&mut Model`, or a tuple that begins with it",
    note = "take the model by `&mut` and write the type of the parameter: `|model: &mut Model| …`; several arguments are one tuple: `|(model, x): (&mut Model, Tensor)| …`; put the written arguments first, and take all other arguments by value: `Tensor`, not `&Tensor`; write `move` before a closure that captures variables",
    note = "for a function that writes none of its arguments, use `jit` or `vmap`"
)]
pub trait WritingFunction<P: Arguments> {
    /// The type of the result.
    type Output;

    /// Calls the function.
    #[track_caller]
    fn call(&self, arguments: P::Borrowed<'_>) -> Self::Output;
}

/// The arguments of a call, wrapped so that they implement [`Visited`].
pub(crate) struct Borrowed<'a, P: Arguments>(pub(crate) P::Borrowed<'a>);

impl<P: Arguments> Visited<Tensor> for Borrowed<'_, P> {
    #[inline]
    fn visit<'v>(&'v self, visitor: &mut dyn Visitor<'v>) {
        P::visit(&self.0, visitor);
    }
}

/// Calls a user's function with values as arguments. Returns the written values and the result.
pub(crate) fn call_with_values<P: Arguments, R>(
    function: impl FnOnce(P::Borrowed<'_>) -> R,
    values: P::Values,
) -> (P::Written, R) {
    let (mut written, read) = P::divide_values(values);
    let result = function(P::lend(&mut written, read));
    (written, result)
}

impl<M: Traceable> Arguments for Mut<M> {}

impl<M: Traceable> Parts for Mut<M> {
    type Borrowed<'a> = &'a mut M;
    type Places<'a> = &'a mut M;
    type Values = M;
    type Written = M;
    type Read = ();

    #[inline]
    fn visit<'v>(arguments: &'v Self::Borrowed<'_>, visitor: &mut dyn Visitor<'v>) {
        M::visit(arguments, visitor);
    }
    fn divide(arguments: Self::Borrowed<'_>) -> (Self::Places<'_>, ()) {
        (arguments, ())
    }
    fn divide_values(values: M) -> (M, ()) {
        (values, ())
    }
    fn lend(written: &mut M, (): ()) -> Self::Borrowed<'_> {
        written
    }
    fn store(places: &mut Self::Places<'_>, values: M) {
        **places = values;
    }
    fn structure_after(written: TreeDef, _: &TreeDef) -> (TreeDef, usize) {
        (written, 0)
    }
}

impl<F, M, R> WritingFunction<Mut<M>> for F
where
    M: Traceable,
    F: for<'a> Function<&'a mut M, Output = R>,
{
    type Output = R;

    fn call(&self, arguments: &mut M) -> R {
        Function::call(self, arguments)
    }
}

macro_rules! writing {
    ($($count:literal ($($m:ident $written:tt),+) ($($a:ident $read:tt $at:tt),*))*) => {$(
        impl<$($m: Traceable,)+ $($a: Traceable,)*> Arguments for ($(Mut<$m>,)+ $($a,)*) {}

        impl<$($m: Traceable,)+ $($a: Traceable,)*> Parts for ($(Mut<$m>,)+ $($a,)*) {
            type Borrowed<'a> = ($(&'a mut $m,)+ $($a,)*);
            type Places<'a> = ($(&'a mut $m,)+);
            type Values = ($($m,)+ $($a,)*);
            type Written = ($($m,)+);
            type Read = ($($a,)*);

            #[inline]
            fn visit<'v>(arguments: &'v Self::Borrowed<'_>, visitor: &mut dyn Visitor<'v>) {
                if visitor.enter(&TUPLE, $count) == Visit::Descend {
                    $($m::visit(arguments.$written, visitor);)+
                    $($a::visit(&arguments.$at, visitor);)*
                    visitor.exit();
                }
            }
            fn divide(arguments: Self::Borrowed<'_>) -> (Self::Places<'_>, Self::Read) {
                (($(arguments.$written,)+), ($(arguments.$at,)*))
            }
            fn divide_values(values: Self::Values) -> (Self::Written, Self::Read) {
                (($(values.$written,)+), ($(values.$at,)*))
            }
            fn lend(written: &mut Self::Written, _read: Self::Read) -> Self::Borrowed<'_> {
                ($(&mut written.$written,)+ $(_read.$read,)*)
            }
            fn store(places: &mut Self::Places<'_>, values: Self::Written) {
                $(*places.$written = values.$written;)+
            }
            fn structure_after(written: TreeDef, arguments: &TreeDef) -> (TreeDef, usize) {
                let mut members = written.children();
                let read = arguments.children().split_off(members.len());
                let num_read = read.iter().map(TreeDef::num_leaves).sum();
                members.extend(read);
                (TreeDef::tuple(members), num_read)
            }
        }

        impl<Func_, Result_, $($m,)+ $($a,)*> WritingFunction<($(Mut<$m>,)+ $($a,)*)> for Func_
        where
            $($m: Traceable,)+
            $($a: Traceable,)*
            Func_: for<'a> Function<($(&'a mut $m,)+ $($a,)*), Output = Result_>,
        {
            type Output = Result_;

            fn call(&self, arguments: ($(&mut $m,)+ $($a,)*)) -> Result_ {
                Function::call(self, arguments)
            }
        }
    )*};
}

/// Passes the lists of arguments to another macro: up to eight arguments, of which the first ones are written. For each
/// list: the number of arguments, the written arguments with their positions, and the arguments that are only read, with
/// their positions among them and in the list.
macro_rules! argument_lists {
    ($then:ident! { $($first:tt)* }) => {
        $then! { $($first)*
            1 (M 0) ()
            2 (M 0) (A 0 1)
            3 (M 0) (A 0 1, B 1 2)
            4 (M 0) (A 0 1, B 1 2, C 2 3)
            5 (M 0) (A 0 1, B 1 2, C 2 3, D 3 4)
            6 (M 0) (A 0 1, B 1 2, C 2 3, D 3 4, E 4 5)
            7 (M 0) (A 0 1, B 1 2, C 2 3, D 3 4, E 4 5, F 5 6)
            8 (M 0) (A 0 1, B 1 2, C 2 3, D 3 4, E 4 5, F 5 6, G 6 7)
            2 (M 0, N 1) ()
            3 (M 0, N 1) (A 0 2)
            4 (M 0, N 1) (A 0 2, B 1 3)
            5 (M 0, N 1) (A 0 2, B 1 3, C 2 4)
            6 (M 0, N 1) (A 0 2, B 1 3, C 2 4, D 3 5)
            7 (M 0, N 1) (A 0 2, B 1 3, C 2 4, D 3 5, E 4 6)
            8 (M 0, N 1) (A 0 2, B 1 3, C 2 4, D 3 5, E 4 6, F 5 7)
            3 (M 0, N 1, O 2) ()
            4 (M 0, N 1, O 2) (A 0 3)
            5 (M 0, N 1, O 2) (A 0 3, B 1 4)
            6 (M 0, N 1, O 2) (A 0 3, B 1 4, C 2 5)
            7 (M 0, N 1, O 2) (A 0 3, B 1 4, C 2 5, D 3 6)
            8 (M 0, N 1, O 2) (A 0 3, B 1 4, C 2 5, D 3 6, E 4 7)
            4 (M 0, N 1, O 2, P 3) ()
            5 (M 0, N 1, O 2, P 3) (A 0 4)
            6 (M 0, N 1, O 2, P 3) (A 0 4, B 1 5)
            7 (M 0, N 1, O 2, P 3) (A 0 4, B 1 5, C 2 6)
            8 (M 0, N 1, O 2, P 3) (A 0 4, B 1 5, C 2 6, D 3 7)
            5 (M 0, N 1, O 2, P 3, Q 4) ()
            6 (M 0, N 1, O 2, P 3, Q 4) (A 0 5)
            7 (M 0, N 1, O 2, P 3, Q 4) (A 0 5, B 1 6)
            8 (M 0, N 1, O 2, P 3, Q 4) (A 0 5, B 1 6, C 2 7)
            6 (M 0, N 1, O 2, P 3, Q 4, S 5) ()
            7 (M 0, N 1, O 2, P 3, Q 4, S 5) (A 0 6)
            8 (M 0, N 1, O 2, P 3, Q 4, S 5) (A 0 6, B 1 7)
            7 (M 0, N 1, O 2, P 3, Q 4, S 5, T 6) ()
            8 (M 0, N 1, O 2, P 3, Q 4, S 5, T 6) (A 0 7)
            8 (M 0, N 1, O 2, P 3, Q 4, S 5, T 6, U 7) ()
        }
    };
}
pub(crate) use argument_lists;

argument_lists! { writing! {} }

/// Implements [`Function`] for the struct that a transformation returns, so that transformations can be nested.
macro_rules! writing_function {
    ([$($lifetime:lifetime)?] $name:ident) => {
        writing_function!(one [$($lifetime)?] $name, $crate::Mut<M>, &'a mut M, M);
        $crate::transformations::writing::argument_lists! { writing_function! { lists [$($lifetime)?] $name } }
    };
    (lists $lifetimes:tt $name:ident $($count:literal ($($m:ident $written:tt),+) ($($a:ident $read:tt $at:tt),*))*) => {$(
        writing_function!(one $lifetimes $name, ($($crate::Mut<$m>,)+ $($a,)*), ($(&'a mut $m,)+ $($a,)*), $($m,)+ $($a,)*);
    )*};
    (one [$($lifetime:lifetime)?] $name:ident, $arguments:ty, $borrowed:ty, $($m:ident),+ $(,)?) => {
        #[diagnostic::do_not_recommend]
        impl<'a, $($lifetime,)? R: 'static, $($m: $crate::Traceable),+>
            $crate::transformations::function::Function<$borrowed> for $name<$($lifetime,)? $arguments, R>
        {
            type Output = R;
            #[track_caller]
            fn call(&self, arguments: $borrowed) -> R {
                (self.call)(arguments)
            }
        }
    };
}
pub(crate) use writing_function;
