//! Printing inside of transformations.

use std::borrow::Borrow;
use std::fmt::Arguments;
use std::slice::Iter;

use pytree_base::bug::expect_next;
use pytree_base::platform::{Stream, print};

use crate::tensor::Tensor;

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
        $crate::__macros_0_1::debug_print_of_tokens! { [$crate] $($tokens)* }
    };
}

/// Borrows an operand of the macro, which may be a tensor or a reference to a tensor.
pub fn operand<T: Borrow<Tensor>>(operand: &T) -> &Tensor {
    operand.borrow()
}

/// Returns the next value that the macro prints.
///
/// # Panics
/// If no value is left. This would be a bug in the library, because there are as many values as operands.
pub fn next_operand<'t>(operands: &mut Iter<'t, Tensor>) -> &'t Tensor {
    expect_next(operands, "a value for each operand of a callback")
}

/// Prints a line on the [output](pytree_base::platform) of the program.
pub fn print_line(text: Arguments<'_>) {
    print(Stream::Output, &format!("{text}\n"));
}
