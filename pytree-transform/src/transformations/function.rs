//! What transformations take and what they are: functions of one pytree.
//!
//! A tuple serves as an argument list. Closures are functions, and so is the result of every
//! transformation, which also derefs to `dyn Fn` and is therefore called like one.

use pytree_core::{PytreeOf, graph};

use crate::tensor::Tensor;

/// A pytree all of whose leaves are tensors: what transformations take and give.
#[diagnostic::on_unimplemented(
    message = "`{Self}` can't be traced: every leaf must be a `Tensor`",
    label = "holds leaves that are not tensors, or is no pytree",
    note = "change numbers and ndarray arrays to `Tensor`, or mark fields that are not data `#[r#static]`; \
            a type of your own becomes a pytree by `#[derive(Module)]` or `#[derive(Pytree)]`; \
            `jit` and `vmap` take their argument by value: write `|model: Model|`, not `|model: &Model|`"
)]
pub trait Traceable: PytreeOf<Tensor> {}

#[diagnostic::do_not_recommend]
impl<T: PytreeOf<Tensor>> Traceable for T {}

/// A function of one argument: a closure, or the result of a transformation.
pub trait Function<A> {
    /// What it returns.
    type Output;

    /// Calls it.
    #[track_caller]
    fn call(&self, argument: A) -> Self::Output;
}

impl<F, A, R> Function<A> for F
where
    F: Fn(A) -> R,
{
    type Output = R;

    fn call(&self, argument: A) -> R {
        self(argument)
    }
}

/// The result of a function, from which a gradient is taken: a scalar tensor, alone or first in a tuple
/// with auxiliary results.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no loss: it must be a `Tensor`, or a tuple whose first member is one",
    note = "return the scalar to differentiate, alone or before other results: `(loss, logits)`"
)]
pub trait Loss: Traceable {
    /// The scalar to differentiate.
    fn loss(&self) -> &Tensor;
}

impl Loss for Tensor {
    fn loss(&self) -> &Tensor {
        self
    }
}
impl<A: Traceable> Loss for (Tensor, A) {
    fn loss(&self) -> &Tensor {
        &self.0
    }
}
impl<A: Traceable, B: Traceable> Loss for (Tensor, A, B) {
    fn loss(&self) -> &Tensor {
        &self.0
    }
}

/// A value built from leaves of the same treedef it came from.
#[track_caller]
pub(crate) fn rebuild<T: Traceable>(treedef: &pytree_core::TreeDef, leaves: Vec<Tensor>) -> T {
    match graph::unflatten(treedef, leaves) {
        Ok(value) => value,
        Err(error) => panic!(
            "a value does not go together again as it came apart: {error}; an impl of `Pytree` visits and unflattens differently"
        ),
    }
}

/// Makes the struct that a transformation returns callable and a [`Function`].
macro_rules! transformed {
    ([$($generics:tt)*] $type:ty, ($argument:ty) -> $output:ty) => {
        impl<'f, $($generics)*> std::ops::Deref for $type {
            type Target = dyn Fn($argument) -> $output + Send + Sync + 'f;
            fn deref(&self) -> &Self::Target {
                &*self.call
            }
        }
        impl<'f, $($generics)*> $crate::Function<$argument> for $type {
            type Output = $output;
            fn call(&self, argument: $argument) -> $output {
                (self.call)(argument)
            }
        }
        impl<'f, 'a, $($generics)*> $crate::Function<&'a $argument> for $type {
            type Output = $output;
            fn call(&self, argument: &'a $argument) -> $output {
                let (leaves, treedef) = pytree_core::graph::flatten(argument);
                (self.call)($crate::transformations::function::rebuild(&treedef, leaves))
            }
        }
        impl<'r, 'f, $($generics)*> $crate::Function<$argument> for &'r $type {
            type Output = $output;
            fn call(&self, argument: $argument) -> $output {
                $crate::Function::<$argument>::call(*self, argument)
            }
        }
        impl<'r, 'f, 'a, $($generics)*> $crate::Function<&'a $argument> for &'r $type {
            type Output = $output;
            fn call(&self, argument: &'a $argument) -> $output {
                $crate::Function::<&'a $argument>::call(*self, argument)
            }
        }
        impl<'f, $($generics)*> std::fmt::Debug for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, "{}", stringify!($type))
            }
        }
    };
    (reference [$($generics:tt)*] $type:ty, ($argument:ty) -> $output:ty $(where $($bounds:tt)+)?) => {
        impl<'f, $($generics)*> std::ops::Deref for $type $(where $($bounds)+)? {
            type Target = dyn Fn(&$argument) -> $output + Send + Sync + 'f;
            fn deref(&self) -> &Self::Target {
                &*self.call
            }
        }
        impl<'f, $($generics)*> $crate::Function<$argument> for $type $(where $($bounds)+)? {
            type Output = $output;
            fn call(&self, argument: $argument) -> $output {
                (self.call)(&argument)
            }
        }
        impl<'f, 'a, $($generics)*> $crate::Function<&'a $argument> for $type $(where $($bounds)+)? {
            type Output = $output;
            fn call(&self, argument: &'a $argument) -> $output {
                (self.call)(argument)
            }
        }
        impl<'r, 'f, $($generics)*> $crate::Function<$argument> for &'r $type $(where $($bounds)+)? {
            type Output = $output;
            fn call(&self, argument: $argument) -> $output {
                $crate::Function::<$argument>::call(*self, argument)
            }
        }
        impl<'r, 'f, 'a, $($generics)*> $crate::Function<&'a $argument> for &'r $type $(where $($bounds)+)? {
            type Output = $output;
            fn call(&self, argument: &'a $argument) -> $output {
                $crate::Function::<&'a $argument>::call(*self, argument)
            }
        }
        impl<'f, $($generics)*> std::fmt::Debug for $type $(where $($bounds)+)? {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, "{}", stringify!($type))
            }
        }
    };
}
pub(crate) use transformed;
