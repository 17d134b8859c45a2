//! Operations of other crates with some of the rules.

use std::fmt;
use std::hash::Hash;

use pytree_kernels::base::dtype::AbstractArray;

use crate::base::error::TensorError;
use crate::tensor::Tensor;
use crate::tensor::stablehlo::{Block, Value};
use crate::tensor::trace::current_line;
use crate::transformations::extend::primitive::{Examples, Operand, Primitive, Tangents};

/// An operation with a kernel of its own: its shape and its evaluation. [`apply`](crate::extend::apply) applies it, eagerly and
/// under [`jit`](crate::jit).
///
/// Each other rule is needed by the transformation that it names. Without the rule, this transformation panics with a message
/// that names the rule, the operation, and the line that applied it. Every `CustomOp` is a [`Primitive`], whose documentation
/// describes the rules.
///
/// # Examples
/// ```
/// use pytree_transform::extend::{CustomOp, apply};
/// use pytree_transform::{AbstractArray, Tensor, TensorError, jit};
///
/// /// The number of bits that are set.
/// #[derive(Clone, Debug, PartialEq, Eq, Hash)]
/// struct CountOnes;
///
/// impl CustomOp for CountOnes {
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
/// let f = jit(|x: &Tensor| apply(&CountOnes, &[x]).remove(0) * 10_u32);
/// assert_eq!(f(&Tensor::from([1_u32, 7])).to_vec::<u32>(), [10, 30]);
/// ```
pub trait CustomOp: fmt::Debug + Clone + Eq + Hash + Send + Sync + 'static {
    /// Returns the name of the operation in jaxprs and messages.
    fn name(&self) -> &'static str;

    /// Returns the dtypes and shapes of the results; see [`Primitive::shape`].
    ///
    /// # Errors
    /// Returns an error if the operands do not fit the operation.
    fn shape(&self, operands: &[&AbstractArray]) -> Result<Vec<AbstractArray>, TensorError>;

    /// Computes the results on the host; see [`Primitive::evaluate`].
    fn evaluate(&self, operands: &[Tensor]) -> Vec<Tensor>;

    /// Returns the results and their tangents, for `grad`, `jvp` and all other derivatives; see [`Primitive::jvp`].
    fn jvp(&self, primals: &[Tensor], tangents: &[Option<Tensor>]) -> Tangents {
        let _ = tangents;
        missing(self, "jvp", "differentiate", primals)
    }

    /// Returns the cotangents of the operands, for reverse mode through an operation that a JVP rule applies to tangents; see
    /// [`Primitive::transpose`].
    fn transpose(
        &self,
        cotangents: &[Option<Tensor>],
        operands: &[Operand],
    ) -> Vec<Option<Tensor>> {
        let _ = (cotangents, operands);
        missing(self, "transpose", "differentiate in reverse mode", &[])
    }

    /// Returns the results for a batch, for `vmap`; see [`Primitive::batch`].
    fn batch(&self, operands: &[Tensor], axes: &[Option<usize>], size: usize) -> Examples {
        let _ = (axes, size);
        missing(self, "batch", "map over a batch", operands)
    }

    /// Writes the operation in StableHLO, for devices; see [`Primitive::lower`].
    ///
    /// # Errors
    /// Returns an error with the line of the operation, unless the rule is implemented.
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
            "implement `CustomOp::lower`, or run the function on the host",
        ))
    }

    /// Returns whether the evaluation, or an operation of a rule, has an effect; see [`Primitive::has_effect`].
    fn has_effect(&self) -> bool {
        false
    }

    /// Writes the parameters of the operation in displayed jaxprs. The default writes the `Debug` form of a type with fields.
    ///
    /// # Errors
    /// Returns the errors of `f`.
    fn write_parameters(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if size_of::<Self>() == 0 {
            return Ok(());
        }
        write!(f, "parameters={self:?}")
    }
}

/// Panics because an operation does not have a rule.
#[cold]
fn missing<P: CustomOp>(op: &P, rule: &str, verb: &str, operands: &[Tensor]) -> ! {
    let mut of = String::new();
    for operand in operands {
        of.push_str(if of.is_empty() { " of " } else { ", " });
        of.push_str(&operand.info().to_string());
    }
    panic!(
        "cannot {verb} `{}`{of} at {}: the operation has no rule `{rule}`; implement `CustomOp::{rule}` for `{}`",
        op.name(),
        current_line(),
        std::any::type_name::<P>()
    )
}

impl<P: CustomOp> Primitive for P {
    fn name(&self) -> &'static str {
        CustomOp::name(self)
    }

    fn shape(&self, operands: &[&AbstractArray]) -> Result<Vec<AbstractArray>, TensorError> {
        CustomOp::shape(self, operands)
    }

    fn evaluate(&self, operands: &[Tensor]) -> Vec<Tensor> {
        CustomOp::evaluate(self, operands)
    }

    fn jvp(&self, primals: &[Tensor], tangents: &[Option<Tensor>]) -> Tangents {
        CustomOp::jvp(self, primals, tangents)
    }

    fn transpose(
        &self,
        cotangents: &[Option<Tensor>],
        operands: &[Operand],
    ) -> Vec<Option<Tensor>> {
        CustomOp::transpose(self, cotangents, operands)
    }

    fn batch(&self, operands: &[Tensor], axes: &[Option<usize>], size: usize) -> Examples {
        CustomOp::batch(self, operands, axes, size)
    }

    fn lower(
        &self,
        block: &mut Block<'_>,
        operands: &[Value],
        results: &[&AbstractArray],
    ) -> Result<Vec<Value>, TensorError> {
        CustomOp::lower(self, block, operands, results)
    }

    fn write_parameters(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        CustomOp::write_parameters(self, f)
    }

    fn has_effect(&self) -> bool {
        CustomOp::has_effect(self)
    }
}
