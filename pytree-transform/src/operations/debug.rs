//! Printing inside of transformations.

/// Prints a line to stdout, like `println!`, as soon as the values of its operands are known.
///
/// Under `jit`, the line is printed at each run, and under `vmap` once per example that reaches it. Under `grad` and `jvp`, the values
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
