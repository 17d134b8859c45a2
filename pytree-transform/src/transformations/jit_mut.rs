//! `jit_mut`: compiles a function that takes some of its arguments by `&mut` and writes them.

use std::sync::Arc;

use pytree_core::TreeDef;
use pytree_core::boundary::unflatten_with_new_references;

use crate::tensor::Tensor;
use crate::transformations::compiled::{Compiled, compiled_function, compiled_options};
use crate::transformations::returned::Returned;
use crate::transformations::writing::{
    Arguments, Borrowed, Parts, WritingFunction, call_with_values, writing_function,
};

/// Compiles a function that writes some of its arguments. Each call updates these arguments; see [`jit`](crate::jit).
///
/// The function takes `&mut M`, or a tuple of up to eight arguments: first the arguments `&mut M`, then the arguments
/// that it only reads, by value. For example, a training step is a function of `(&mut Net, &mut Optimizer<Net>, Tensor, Tensor)`.
/// Each call then also updates running statistics and the counts of random streams.
///
/// A result may overwrite the memory of an argument if nothing else holds this memory. This happens only after the last callback, check and
/// operation of another crate, and after the system has granted the memory of the results. So a call that panics leaves its arguments
/// unchanged: while it is traced, in a callback, in a check, or because of too little memory. The exception is a device that fails while
/// it runs the program: a buffer that was donated to it is lost, and each use of it is an error that names it.
///
/// The granted memory is not held, because most systems grant more than they have, and end the process where they cannot provide it. A
/// type whose `unflatten` accepts placeholders, which are scalars of bools, but rejects its new values, keeps the placeholders: its old
/// values may be overwritten. So check values outside of `unflatten`.
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
#[doc(alias = "nnx.jit")]
#[track_caller]
pub fn jit_mut<P, R, F, K>(function: F) -> JitMut<P, R::With<R::Value>>
where
    P: Arguments,
    R: Returned<K>,
    F: WritingFunction<P, Output = R> + Send + Sync + 'static,
{
    let call = move |values: P::Values| {
        let (written, result) =
            call_with_values::<P, R>(|arguments| function.call(arguments), values);
        match result.into_value() {
            Ok(value) => Ok((written, value)),
            Err(error) => Err(R::with(Err(error))),
        }
    };
    JitMut::of(Compiled::new::<F, P::Values, (P::Written, R::Value)>(
        "jit_mut",
        call,
        |outcome, leaves, references| {
            let (written, value) = outcome.unflatten_result(leaves, references)?;
            Ok((written, R::with(Ok(value))))
        },
    ))
}

/// A compiled function that writes some of its arguments, the result of [`jit_mut`].
///
/// `P` lists the arguments, and `R` is the result of a call: a `JitMut<(Mut<Net>, Tensor), Tensor>` is called with a
/// `(&mut Net, Tensor)` and returns a `Tensor`.
pub struct JitMut<P: Arguments, R> {
    compiled: Arc<CompiledWriting<P, R>>,
    call: Arc<Call<P, R>>,
}

/// A compiled function. A call computes the new values of the `&mut` arguments, and the result.
type CompiledWriting<P, R> = Compiled<(<P as Parts>::Written, R), R>;

type Call<P, R> = dyn for<'a> Fn(<P as Parts>::Borrowed<'a>) -> R + Send + Sync;

/// The arguments of a call: those that it writes, and those that it only reads, until the call releases them.
type Divided<'a, P> = (<P as Parts>::Places<'a>, Option<<P as Parts>::Read>);

fn divide<P: Arguments>(arguments: Borrowed<'_, P>) -> Divided<'_, P> {
    let (places, read) = P::divide(arguments.0);
    (places, Some(read))
}

/// Stores placeholders in the `&mut` arguments. The flattened leaves of the call are then the only handles of the tensors, so the
/// program may reuse the memory of these tensors.
fn release<P: Arguments>(
    (places, read): &mut Divided<'_, P>,
    treedef: &TreeDef,
    placeholders: Vec<Tensor>,
) {
    *read = None;
    // If the type rejects the placeholders, the arguments keep their tensors, and the memory of these tensors is not
    // reused.
    let values = unflatten_with_new_references::<Tensor, P::Values>(treedef, placeholders);
    if let Ok((values, _)) = values {
        P::store(places, P::divide_values(values).0);
    }
}

compiled_options!([P: Arguments, R: 'static] JitMut<P, R>, |arguments: P::Borrowed<'_>| &Borrowed::<P>(arguments));

impl<P: Arguments, R: 'static> JitMut<P, R> {
    fn of(compiled: CompiledWriting<P, R>) -> Self {
        let compiled = Arc::new(compiled);
        let inner = Arc::clone(&compiled);
        let call = move |arguments: P::Borrowed<'_>| match inner.run(
            Borrowed::<P>(arguments),
            divide,
            Some(release::<P>),
        ) {
            Ok(((written, result), (mut places, _))) => {
                P::store(&mut places, written);
                result
            }
            Err(failed) => failed,
        };
        Self {
            compiled,
            call: Arc::new(call),
        }
    }
}

compiled_function!([P: Arguments, R] JitMut<P, R>, Call<P, R> where R: 'static);

writing_function!([] JitMut);
