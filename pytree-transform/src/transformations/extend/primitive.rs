//! Primitives of other crates.

use std::fmt;
use std::hash::Hash;

use pytree_derive::panicking_twin;
use pytree_kernels::base::dtype::AbstractArray;

use crate::base::error::{TensorError, or_panic};
use crate::primitives::shape::move_axis;
use crate::tensor::Tensor;
use crate::tensor::stablehlo::{Block, Value};
use crate::tensor::trace::{bind, current_line};
use crate::transformations::control::loops::map;
use crate::transformations::extend::opened::Opened;

/// An operand of a transpose rule.
#[derive(Clone, Debug)]
pub enum Operand {
    /// An operand in which the primitive is linear. The rule returns the cotangent of this operand, which has this dtype and
    /// shape.
    Linear(AbstractArray),
    /// An operand with a known value.
    Known(Tensor),
}

impl Operand {
    /// Returns the value of the operand, or `None` if the primitive is linear in it.
    pub fn known(&self) -> Option<&Tensor> {
        match self {
            Self::Linear(_) => None,
            Self::Known(value) => Some(value),
        }
    }
}

/// The results of a JVP rule: the results of the primitive, and the tangent of each result, or `None` for zeros.
pub type Tangents = (Vec<Tensor>, Vec<Option<Tensor>>);

/// The results of a batching rule: the results of the primitive, and the batch axis of each result, or `None` if the
/// examples have the result in common.
pub type Examples = (Vec<Tensor>, Vec<Option<usize>>);

/// An operation with a kernel of its own: its shape and its evaluation. [`apply`] applies it, eagerly, under [`jit`](crate::jit)
/// and under [`vmap`](crate::vmap).
///
/// Each other rule is needed by the transformation that it names. Without the rule, this transformation panics with a message
/// that names the rule, the operation, and the line that applied it.
///
/// Rules are called with shapes that [`shape`](Self::shape) accepts. The rules of derivatives and batches compute with
/// operations of tensors, which may be traced, so that transformations can be nested: they must not read elements.
///
/// `Eq` and `Hash` compare the parameters: of two equal operations on the same operands, a compiled program computes one.
///
/// # Examples
/// The number of bits that are set:
/// ```
/// use pytree_transform::extend::{Primitive, apply};
/// use pytree_transform::{AbstractArray, Tensor, TensorError, jit, vmap};
///
/// #[derive(Clone, Debug, PartialEq, Eq, Hash)]
/// struct CountOnes;
///
/// impl Primitive for CountOnes {
///     fn name(&self) -> &'static str {
///         "count_ones"
///     }
///     fn shape(&self, operands: &[&AbstractArray]) -> Result<Vec<AbstractArray>, TensorError> {
///         Ok(vec![operands[0].clone()])
///     }
///     fn evaluate(&self, operands: &[Tensor]) -> Vec<Tensor> {
///         let bits = operands[0].view::<u32>().expect("u32");
///         vec![bits.mapv(u32::count_ones).into()]
///     }
/// }
///
/// let count = |x: Tensor| apply(&CountOnes, &[&x]).remove(0);
/// let x = Tensor::from([1_u32, 7]);
/// assert_eq!(jit(count)(x.clone()).to_vec::<u32>(), [1, 3]);
/// assert_eq!(vmap(count)(x).to_vec::<u32>(), [1, 3]);
/// ```
///
/// The sum of squares over the last axis, whose other rules are written with operations:
/// ```
/// use pytree_transform::extend::{Block, Examples, Primitive, Tangents, Value, apply};
/// use pytree_transform::{AbstractArray, Tensor, TensorError, grad, jit, vmap};
///
/// #[derive(Clone, Debug, PartialEq, Eq, Hash)]
/// struct SumOfSquares;
///
/// impl Primitive for SumOfSquares {
///     fn name(&self) -> &'static str {
///         "sum_of_squares"
///     }
///     fn shape(&self, operands: &[&AbstractArray]) -> Result<Vec<AbstractArray>, TensorError> {
///         let [x] = operands else { unreachable!("`sum_of_squares` passes one operand") };
///         Ok(vec![AbstractArray::new(x.dtype, &x.shape[..x.rank() - 1])])
///     }
///     fn evaluate(&self, operands: &[Tensor]) -> Vec<Tensor> {
///         let x = operands[0].view::<f32>().expect("floats");
///         vec![x.map_axis(ndarray::Axis(x.ndim() - 1), |row| row.dot(&row)).into()]
///     }
///     fn jvp(&self, primals: &[Tensor], tangents: &[Option<Tensor>]) -> Tangents {
///         let x = &primals[0];
///         let tangent = tangents[0].as_ref().map(|tangent| (x * tangent).sum_axes(-1) * 2.0);
///         (apply(self, &[x]), vec![tangent])
///     }
///     fn batch(&self, operands: &[Tensor], axes: &[Option<usize>], _: usize) -> Examples {
///         let x = match axes[0] {
///             Some(axis) => operands[0].move_axis(axis as isize, 0),
///             None => operands[0].clone(),
///         };
///         (apply(self, &[&x]), vec![axes[0].map(|_| 0)])
///     }
///     fn lower(&self, block: &mut Block<'_>, operands: &[Value], _: &[&AbstractArray]) -> Result<Vec<Value>, TensorError> {
///         block.computed(operands, |x| vec![x[0].square().sum_axes(-1)])
///     }
/// }
///
/// #[track_caller]
/// fn sum_of_squares(x: &Tensor) -> Tensor {
///     apply(&SumOfSquares, &[x]).remove(0)
/// }
///
/// let x = Tensor::from([[1.0_f32, 2.0], [3.0, 4.0]]);
/// assert_eq!(sum_of_squares(&x).to_vec::<f32>(), [5.0, 25.0]);
/// let gradients = jit(vmap(grad(|x: &Tensor| sum_of_squares(x))));
/// assert_eq!(gradients(x), Tensor::from([[2.0_f32, 4.0], [6.0, 8.0]]));
/// ```
pub trait Primitive: fmt::Debug + Clone + Eq + Hash + Send + Sync + 'static {
    /// Returns the name of the primitive in jaxprs and messages.
    fn name(&self) -> &'static str;

    /// Returns the dtypes and shapes of the results.
    ///
    /// # Errors
    /// Returns an error if the operands do not fit the primitive, for instance a [`TensorError::Shape`]. The function that
    /// calls [`apply`] determines the number of operands.
    fn shape(&self, operands: &[&AbstractArray]) -> Result<Vec<AbstractArray>, TensorError>;

    /// Computes the results on the host. The elements of the operands are known; see [`Tensor::view`] and [`Tensor::read`].
    ///
    /// The dtypes of half-precision floats and of integers with less than 32 bits arrive as f32, i32 or u32, and the results
    /// are converted to the dtypes that [`shape`](Self::shape) returns for the original operands.
    fn evaluate(&self, operands: &[Tensor]) -> Vec<Tensor>;

    /// Computes the results as [`evaluate`](Self::evaluate) does, or returns the error of a computation that can fail, for
    /// instance [`TensorError::NotConverged`]. If the results are computed at once, [`try_apply`] returns the error. In a compiled
    /// program, and for [`apply`], the error is the message of a panic. The default calls `evaluate`.
    ///
    /// # Errors
    /// Returns the errors of the implementation.
    fn try_evaluate(&self, operands: &[Tensor]) -> Result<Vec<Tensor>, TensorError> {
        Ok(self.evaluate(operands))
    }

    /// Returns the results and their tangents for the given tangents of the operands. `None` stands for zeros.
    ///
    /// All operations of this rule and of the following ones have the line of the call of [`apply`], also those of functions that
    /// the rule passes to `vmap`, `jvp` or loops.
    fn jvp(&self, primals: &[Tensor], tangents: &[Option<Tensor>]) -> Tangents {
        let _ = tangents;
        missing(self, "jvp", "differentiate", primals)
    }

    /// Returns the cotangent of each operand in which the primitive is linear, and `None` for the others. `cotangents` holds the
    /// cotangents of the results. `None` stands for zeros. Reverse mode calls this rule for primitives that a JVP rule applies
    /// to tangents.
    fn transpose(
        &self,
        cotangents: &[Option<Tensor>],
        operands: &[Operand],
    ) -> Vec<Option<Tensor>> {
        let _ = (cotangents, operands);
        missing(self, "transpose", "differentiate in reverse mode", &[])
    }

    /// Returns the results for a batch of `size` examples. `axes` holds the batch axis of each operand, or `None` if the examples
    /// have the operand in common. The default, [`each_example`], evaluates one example after the other, which is slow.
    fn batch(&self, operands: &[Tensor], axes: &[Option<usize>], size: usize) -> Examples {
        let _ = size;
        each_example(self, operands, axes)
    }

    /// Writes operations of StableHLO that compute the results, for devices. `results` holds the dtypes and shapes of the results.
    /// [`Block::computed`] writes a function of tensors.
    ///
    /// # Errors
    /// Returns the error of [`Block::refused`] if the primitive runs only on the host, as the default does.
    fn lower(
        &self,
        block: &mut Block<'_>,
        operands: &[Value],
        results: &[&AbstractArray],
    ) -> Result<Vec<Value>, TensorError> {
        let _ = results;
        Err(block.refused(
            operands,
            "it has a kernel for the host only",
            "implement `Primitive::lower`, or run the function on the host",
        ))
    }

    /// Writes the parameters in the notation of displayed jaxprs, for instance `axes=(0,)`. The default writes the `Debug` form of a
    /// type with fields.
    ///
    /// # Errors
    /// Returns the errors of `f`.
    fn write_parameters(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if size_of::<Self>() == 0 {
            return Ok(());
        }
        write!(f, "parameters={self:?}")
    }

    /// Returns whether the evaluation, or an operation of a rule, has an effect. A program then makes all evaluations, in their order.
    /// Under `vmap`, an example that does not reach the primitive does not evaluate it: the other examples are evaluated one by one.
    fn has_effect(&self) -> bool {
        false
    }
}

/// Panics because a primitive does not have a rule.
#[cold]
fn missing<P: Primitive>(primitive: &P, rule: &str, verb: &str, operands: &[Tensor]) -> ! {
    let mut of = String::new();
    for operand in operands {
        of.push_str(if of.is_empty() { " of " } else { ", " });
        of.push_str(&operand.info().to_string());
    }
    panic!(
        "cannot {verb} `{}`{of} at {}: the operation has no rule `{rule}`; implement `Primitive::{rule}` for `{}`",
        primitive.name(),
        current_line(),
        std::any::type_name::<P>()
    )
}

/// Applies a primitive to tensors, which may be traced, and returns the results.
///
/// The errors, and messages about the operation, have the line of the caller. So a function that calls `apply` has the attribute
/// `#[track_caller]`.
///
/// # Panics
/// Panics if the operands do not fit the primitive. When a transformation calls a rule, panics if the rule returns another number
/// of values, or values of other dtypes, shapes or numbers of examples, than the shape rule determines. Messages of a rule, also of
/// its panics, have the primitive, the rule and the line of the caller.
#[panicking_twin(apply, Shape)]
pub fn try_apply<P: Primitive>(
    primitive: &P,
    operands: &[&Tensor],
) -> Result<Vec<Tensor>, TensorError> {
    let results = bind(&Opened::new(primitive), operands)?;
    Ok(results.into_vec())
}

/// A batching rule for every primitive: applies the primitive to one example after the other.
///
/// The rule takes what [`Primitive::batch`] takes, apart from the size of the batch.
#[track_caller]
pub fn each_example<P: Primitive>(
    primitive: &P,
    operands: &[Tensor],
    axes: &[Option<usize>],
) -> Examples {
    map_examples(operands, axes, |operands| apply(primitive, operands))
}

/// Applies a function to one example after the other.
pub(super) fn map_examples(
    operands: &[Tensor],
    axes: &[Option<usize>],
    function: impl Fn(&[&Tensor]) -> Vec<Tensor>,
) -> Examples {
    let (mut batched, mut common) = (Vec::new(), Vec::new());
    for (operand, axis) in operands.iter().zip(axes) {
        match axis {
            Some(axis) => batched.push(or_panic(move_axis(operand, *axis, 0))),
            None => common.push(operand.clone()),
        }
    }
    let results = map(
        |examples: Vec<Tensor>| {
            let (mut examples, mut common) = (examples.into_iter(), common.iter().cloned());
            let operands: Vec<Tensor> = axes
                .iter()
                .filter_map(|axis| match axis {
                    Some(_) => examples.next(),
                    None => common.next(),
                })
                .collect();
            function(&operands.iter().collect::<Vec<_>>())
        },
        batched,
    );
    let axes = vec![Some(0); results.len()];
    (results, axes)
}
