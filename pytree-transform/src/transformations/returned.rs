//! The results of functions that are transformed: values, and `Result`s of values.
//!
//! A function may return a `Result`. If the function returns an `Err` while it is traced, the transformation ends and
//! returns this `Err`: nothing is compiled, and no reference is written. The functions of loops and branches are traced
//! in the same way.

use std::convert::Infallible;

use crate::tensor::Tensor;
use crate::tensor::traceable::Traceable;

/// The kind of a function that returns a value: see [`Returned`].
#[derive(Debug)]
pub enum Always {}

/// The kind of a function that returns a `Result`: see [`Returned`].
#[derive(Debug)]
pub enum Fallible {}

/// The result of a function that can be transformed: a value whose leaves are all tensors, or a `Result` of such a
/// value with an error of any type.
///
/// `Kind` is [`Always`] or [`Fallible`]. The compiler infers it.
#[diagnostic::on_unimplemented(
    message = "`{Self}` can't be traced: every leaf must be a `Tensor`",
    label = "has leaves that are not tensors, or is not a pytree",
    note = "return a value whose leaves are all tensors, or a `Result` of such a value; \
            return a tensor and read it with `.item()` after the call; \
            change numbers and ndarray arrays to `Tensor`, and write `#[r#static]` on fields that are not data; \
            to make your own type a pytree, write `#[derive(Module)]` or `#[derive(Pytree)]` on it"
)]
pub trait Returned<Kind>: Sized {
    /// The type of the value: `T` if the function returns a `T` or a `Result<T, E>`.
    type Value: Traceable;

    /// The type of the error: `E` if the function returns a `Result<T, E>`, and `Infallible` otherwise.
    type Error: 'static;

    /// The type that a transformation returns when it computes a `T`: `Result<T, E>` if the function returns a `Result`
    /// with errors of type `E`, and `T` otherwise.
    type With<T: 'static>: 'static;

    /// Returns the value or the error.
    ///
    /// # Errors
    /// Returns the error if `self` is an `Err`.
    fn into_value(self) -> Result<Self::Value, Self::Error>;

    /// Converts the value that a transformation computed, or the error of the function, to the type that the
    /// transformation returns.
    fn with<T: 'static>(result: Result<T, Self::Error>) -> Self::With<T>;
}

#[diagnostic::do_not_recommend]
impl<T: Traceable> Returned<Always> for T {
    type Value = T;
    type Error = Infallible;
    type With<U: 'static> = U;

    fn into_value(self) -> Result<T, Infallible> {
        Ok(self)
    }

    fn with<U: 'static>(result: Result<U, Infallible>) -> U {
        always(result)
    }
}

#[diagnostic::do_not_recommend]
impl<T: Traceable, E: 'static> Returned<Fallible> for Result<T, E> {
    type Value = T;
    type Error = E;
    type With<U: 'static> = Result<U, E>;

    fn into_value(self) -> Self {
        self
    }

    fn with<U: 'static>(result: Result<U, E>) -> Result<U, E> {
        result
    }
}

/// Returns the value of a computation that cannot fail.
pub(crate) fn always<T>(result: Result<T, Infallible>) -> T {
    match result {
        Ok(value) => value,
        Err(never) => match never {},
    }
}

/// The result of a function whose gradient is taken: a scalar tensor, or a tuple of a scalar tensor and auxiliary
/// results. The function may also return a `Result` of such a value.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a loss: return a `Tensor`, or a tuple whose first member is a `Tensor`",
    label = "expected a loss that is a tensor",
    note = "return the scalar to differentiate, alone or as the first member of a tuple such as `(loss, logits)`, or a `Result` of one of these; read its value with `.item()` after the call"
)]
pub trait Loss: Sized {
    /// The type of the value: `T` if the function returns a `T` or a `Result<T, E>`.
    type Value: Traceable;

    /// The type of the error: `E` if the function returns a `Result<T, E>`, and `Infallible` otherwise.
    type Error;

    /// The type that a transformation returns when it computes a `T`: `Result<T, E>` if the function returns a `Result`
    /// with errors of type `E`, and `T` otherwise.
    type With<T>;

    /// Returns the value or the error.
    ///
    /// # Errors
    /// Returns the error if `self` is an `Err`.
    fn into_value(self) -> Result<Self::Value, Self::Error>;

    /// Converts the value that a transformation computed, or the error of the function, to the type that the
    /// transformation returns.
    fn with<T>(result: Result<T, Self::Error>) -> Self::With<T>;

    /// Returns the scalar to differentiate.
    fn loss(value: &Self::Value) -> &Tensor;
}

macro_rules! losses {
    ($([$($generic:ident),*] $loss:ty, $value:ident => $scalar:expr;)*) => {$(
        #[diagnostic::do_not_recommend]
        impl<$($generic: Traceable),*> Loss for $loss {
            type Value = Self;
            type Error = Infallible;
            type With<U> = U;

            fn into_value(self) -> Result<Self, Infallible> {
                Ok(self)
            }

            fn with<U>(result: Result<U, Infallible>) -> U {
                always(result)
            }

            fn loss($value: &Self) -> &Tensor {
                $scalar
            }
        }
    )*};
}
losses! {
    [] Tensor, value => value;
    [A] (Tensor, A), value => &value.0;
    [A, B] (Tensor, A, B), value => &value.0;
}

#[diagnostic::do_not_recommend]
impl<L: Loss<Error = Infallible>, E> Loss for Result<L, E> {
    type Value = L::Value;
    type Error = E;
    type With<U> = Result<U, E>;

    fn into_value(self) -> Result<L::Value, E> {
        self.map(|loss| always(loss.into_value()))
    }

    fn with<U>(result: Result<U, E>) -> Result<U, E> {
        result
    }

    fn loss(value: &L::Value) -> &Tensor {
        L::loss(value)
    }
}
