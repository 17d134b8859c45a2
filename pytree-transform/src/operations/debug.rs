//! Debugging aids that work inside transformations: printing and callbacks.

use std::sync::Arc;

use crate::base::error::or_panic;
use crate::primitives::callback::DebugCallback;
use crate::tensor::Tensor;
use crate::tensor::trace::bind;

/// Prints a line to stdout, like `println!`, as soon as the values of its operands are known.
///
/// Under `jit`, the line is printed at each run, and under `vmap` once per example. Under `grad` and `jvp`, the values
/// are printed without their tangents.
///
/// The operands are tensors, by value or by reference. A named operand fills the placeholder with the same name, and a
/// placeholder without an operand, such as `{x}`, prints the variable with its name, like in `println!`. Lines are
/// printed in program order. Dead-code elimination keeps the printing. Equivalent to `jax.debug.print`.
///
/// # Examples
/// ```
/// use pytree_transform::{Tensor, debug_print, jit, vmap};
/// let f = jit(|x: Tensor| {
///     let y = x.sin();
///     debug_print!("x = {x}, y = {y}");
///     debug_print!("and {} again, the sum of x is {sum}", y, sum = x.sum());
///     y * 2.0
/// });
/// f(Tensor::from([1.0_f32, 2.0]));
/// vmap(f)(Tensor::from([[1.0_f32], [2.0]]));
/// ```
#[doc(alias = "jax.debug.print")]
#[macro_export]
macro_rules! debug_print {
    ($($tokens:tt)*) => {
        $crate::raw::debug_print_of_tokens! { [$crate] $($tokens)* }
    };
}

/// Calls `callback` with the values of the operands as soon as these values are known. Under `jit`, the callback is
/// called at each run. Under `vmap`, the callback is called once for each example. Equivalent to `jax.debug.callback`.
///
/// # Examples
/// ```
/// use std::sync::{Arc, Mutex};
/// use pytree_transform::{Tensor, debug_callback, grad, jit};
/// let seen = Arc::new(Mutex::new(Vec::new()));
/// let inner = Arc::clone(&seen);
/// let f = jit(move |x: Tensor| {
///     let inner = Arc::clone(&inner);
///     debug_callback(&[&x], move |values| inner.lock().unwrap().push(values[0].item::<f32>()));
///     x.square()
/// });
/// f(Tensor::from(2.0_f32));
/// assert_eq!(grad(f)(&Tensor::from(3.0_f32)).item::<f32>(), 6.0);
/// assert_eq!(*seen.lock().unwrap(), [2.0, 3.0]);
/// ```
///
/// # Panics
/// Panics if `callback` panics. Under `jit` the panic happens when the compiled function runs.
#[doc(alias = "jax.debug.callback")]
#[track_caller]
pub fn debug_callback<F>(operands: &[&Tensor], callback: F)
where
    F: Fn(&[Tensor]) + Send + Sync + 'static,
{
    let primitive = DebugCallback {
        callback: Arc::new(callback),
        batch_axes: 0,
    };
    or_panic(bind(&primitive, operands));
}
