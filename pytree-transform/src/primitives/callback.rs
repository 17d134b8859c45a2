//! `debug_callback` and `debug_print!`: values of a function under transformations, seen while it runs.

use std::fmt;
use std::sync::Arc;

use smallvec::smallvec;

use crate::base::array::{Array, with_type};
use crate::base::dtype::AbstractArray;
use crate::base::error::or_panic;
use crate::primitives::shape::batch_axis_first;
use crate::tensor::Tensor;
use crate::tensor::primitive::{
    AbstractResults, Batched, Cotangents, Linear, Operands, Outputs, Primitive, WithTangents,
    alone, not_linear,
};
use crate::tensor::trace::bind;

/// Prints a line to stdout when the values are there, as `println!` does: under `jit` at each run, under `vmap`
/// once for each example, under `grad` and `jvp` with the values themselves and without their tangents.
///
/// The operands are tensors, by value or by reference; a name before one is that of its place in the format. Prints
/// are in the order of the program, and dead-code elimination keeps them. It is `jax.debug.print`.
///
/// # Examples
/// ```
/// use pytree_transform::{Tensor, debug_print, jit, vmap};
/// let f = jit(|x: Tensor| {
///     let y = x.sin();
///     debug_print!("x = {x}, y = {y}", x = x, y = &y);
///     debug_print!("and {} again", y);
///     y * 2.0
/// });
/// f(Tensor::from([1.0_f32, 2.0]));
/// vmap(f)(Tensor::from([[1.0_f32], [2.0]]));
/// ```
#[macro_export]
macro_rules! debug_print {
    ($format:literal $(, $name:ident = $operand:expr)+ $(,)?) => {
        $crate::debug_callback(
            &[$($crate::raw::operand(&$operand)),+],
            |operands: &[$crate::Tensor]| {
                let mut operands = operands.iter();
                ::std::println!($format $(, $name = $crate::raw::next_operand(&mut operands))+);
            },
        )
    };
    ($format:literal $(, $operand:expr)* $(,)?) => {
        $crate::debug_callback(
            &[$($crate::raw::operand(&$operand)),*],
            |operands: &[$crate::Tensor]| {
                #[allow(unused_mut, unused_variables, reason = "there may be no operands")]
                let mut operands = operands.iter();
                ::std::println!($format $(, {
                    let _ = ::std::stringify!($operand);
                    $crate::raw::next_operand(&mut operands)
                })*);
            },
        )
    };
}

/// Calls a function with the values of tensors when they are there; see [`debug_print!`](crate::debug_print) for
/// when that is. It is `jax.debug.callback`.
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
/// If the function does; under `jit` when the compiled function runs.
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

/// What is called with values.
type Callback = dyn Fn(&[Tensor]) + Send + Sync;

/// Calls a function with its operands, once for each example.
#[derive(Clone)]
struct DebugCallback {
    callback: Arc<Callback>,
    /// How many axes in front are those of batches.
    batch_axes: usize,
}

impl fmt::Debug for DebugCallback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DebugCallback")
            .field("batch_axes", &self.batch_axes)
            .finish_non_exhaustive()
    }
}

/// An array without its first axes, at one position of these.
fn example(array: &Array, batch_axes: usize, position: usize) -> Tensor {
    let shape = &array.shape()[batch_axes..];
    let length: usize = shape.iter().product();
    Tensor::from_array(with_type!(array.dtype(), T => {
        let elements = &array.elements::<T>()[position * length..][..length];
        Array::new(shape, elements.to_vec())
    }))
}

impl Primitive for DebugCallback {
    fn name(&self) -> &'static str {
        "debug_callback"
    }

    fn abstract_evaluation(&self, _: &[&AbstractArray]) -> AbstractResults {
        Ok(smallvec![])
    }

    fn evaluate(&self, operands: Operands) -> Outputs<Array> {
        let batch = operands
            .first()
            .map_or(&[][..], |operand| &operand.shape()[..self.batch_axes]);
        for position in 0..batch.iter().product() {
            let values: Vec<Tensor> = operands
                .iter()
                .map(|operand| match self.batch_axes {
                    0 => Tensor::from_shared(Arc::clone(operand)),
                    axes => example(operand, axes, position),
                })
                .collect();
            (self.callback)(&values);
        }
        smallvec![]
    }

    fn jvp(&self, primals: &[Tensor], _: &[Option<Tensor>]) -> WithTangents {
        alone(self, primals)
    }

    fn transpose(&self, _: &[Option<Tensor>], _: &[Linear]) -> Cotangents {
        not_linear(self)
    }

    fn batch(&self, operands: &[Tensor], axes: &[Option<usize>], size: usize) -> Batched {
        let first = operands
            .iter()
            .zip(axes)
            .map(|(operand, axis)| or_panic(batch_axis_first(operand, *axis, size)))
            .collect::<Vec<_>>();
        let batched = Self {
            batch_axes: self.batch_axes + 1,
            ..self.clone()
        };
        or_panic(bind(&batched, &first.iter().collect::<Vec<_>>()));
        (smallvec![], smallvec![])
    }

    fn write_parameters(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.batch_axes {
            0 => Ok(()),
            axes => write!(f, "batch_axes={axes}"),
        }
    }

    fn to_shared(&self) -> Arc<dyn Primitive> {
        Arc::new(self.clone())
    }

    fn key(&self) -> Option<String> {
        None
    }

    fn has_effect(&self) -> bool {
        true
    }
}
