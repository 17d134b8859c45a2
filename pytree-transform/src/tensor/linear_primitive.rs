//! Primitives with one operand that are linear in it.

use std::any::Any;
use std::fmt;
use std::hash::Hash;
use std::sync::Arc;

use pytree_base::bug::bug;
use pytree_kernels::base::array::{Array, Operands};
use pytree_kernels::base::dtype::AbstractArray;
use pytree_kernels::base::fold::Fold;

use super::handle::Tensor;
use super::primitive::{
    AbstractResults, BatchAxis, Batched, Cotangents, Division, Infos, Linear, Lowered, LoweredOne,
    Outputs, Primitive, WithTangents, one, take,
};
use super::stablehlo::{Block, Value};
use crate::base::axis_names::AxisName;
use crate::base::error::{TensorError, or_panic};

/// A primitive that is linear in its single operand. The tangent of the result is the primitive applied to the tangent
/// of the operand.
///
/// An implementation contains only the rules that differ between linear primitives. The other rules are in the
/// implementation of [`Primitive`] below.
pub(crate) trait LinearPrimitive:
    fmt::Debug + Clone + Eq + Hash + Send + Sync + Any
{
    /// Returns the name of the primitive in jaxprs and messages.
    fn name(&self) -> &'static str;

    /// **Shape**: returns the dtype and the shape of the result.
    fn result(&self, operand: &AbstractArray) -> Result<AbstractArray, TensorError>;

    /// **Evaluation**: computes the result on an array that the shape rule accepts.
    fn evaluate(&self, operand: Arc<Array>) -> Array;

    /// **Transpose**: returns the cotangent of the operand from the cotangent of the result.
    fn transpose(&self, cotangent: &Tensor, operand: &AbstractArray) -> Tensor;

    /// **Batching**: returns the result for a batch of operands with the batch axis `axis`, and the batch axis of the
    /// result.
    fn batch(&self, operand: &Tensor, axis: usize) -> (Tensor, usize);

    /// **Lowering**: writes operations of StableHLO that compute the result, and returns the value of the result.
    /// `result` is the dtype and shape of the result; see [`Primitive::lower`].
    fn lower(&self, block: &mut Block<'_>, operand: &Value, result: &AbstractArray) -> LoweredOne;

    /// **Display**: writes the parameters; see [`Primitive::write_parameters`].
    fn write_parameters(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result;

    /// Returns whether `evaluate` accepts operands of narrow dtypes; see [`Primitive::accepts_narrow`].
    fn accepts_narrow(&self) -> bool {
        !self.axis_names().is_empty()
    }

    /// Returns whether `evaluate` widens narrow operands part by part; see [`Primitive::widens_parts`].
    fn widens_parts(&self) -> bool {
        false
    }

    /// Returns axes along which an evaluation may be divided; see [`Primitive::division`].
    fn division(&self, operand: &AbstractArray) -> Option<Division> {
        let _ = operand;
        None
    }

    /// Returns the reduction and its axes; see [`Primitive::reduction`].
    fn reduction(&self) -> Option<(Fold, &[usize])> {
        None
    }

    /// Returns whether the primitive says how its result is divided; see [`Primitive::is_sharding_constraint`].
    fn is_sharding_constraint(&self) -> bool {
        false
    }

    /// Returns the names of the batch axes over which the primitive works; see [`Primitive::axis_names`].
    fn axis_names(&self) -> &[AxisName] {
        &[]
    }

    /// Returns the length of the batch axis over which the primitive works; see [`Primitive::axis_length`].
    fn axis_length(&self) -> Option<usize> {
        None
    }

    /// **Batching over a named axis**: combines the examples of a batch. Only primitives with
    /// [`axis_names`](Self::axis_names) have this rule; see [`Primitive::batch`].
    fn batch_over(&self, operand: &Tensor, axis: Option<usize>, _: &BatchAxis) -> Batched {
        bug(format_args!(
            "a batching rule of `{}` over named axes, for the operand {} with the batch axis {axis:?}",
            LinearPrimitive::name(self),
            operand.info()
        ))
    }

    /// Applies the primitive to a tensor. If the primitive does not change this tensor, an implementation may return
    /// the tensor itself, without an equation.
    #[track_caller]
    fn apply(&self, operand: &Tensor) -> Result<Tensor, TensorError> {
        crate::tensor::trace::bind_one(self, &[operand])
    }
}

impl<P: LinearPrimitive> Primitive for P {
    fn name(&self) -> &'static str {
        LinearPrimitive::name(self)
    }

    fn abstract_evaluation(&self, operands: &[&AbstractArray]) -> AbstractResults {
        self.result(operands[0]).map(one)
    }

    fn evaluate(&self, operands: Operands) -> Outputs<Array> {
        let [operand] = take(operands);
        one(LinearPrimitive::evaluate(self, operand))
    }

    fn jvp(&self, primals: &[Tensor], tangents: &[Option<Tensor>]) -> WithTangents {
        let result = |operand: &Tensor| or_panic(self.apply(operand));
        (
            one(result(&primals[0])),
            one(tangents[0].as_ref().map(result)),
        )
    }

    fn transpose(&self, cotangents: &[Option<Tensor>], operands: &[Linear]) -> Cotangents {
        let pulled = |cotangent| LinearPrimitive::transpose(self, cotangent, &operands[0].info());
        smallvec::smallvec![cotangents[0].as_ref().map(pulled)]
    }

    fn batch(&self, operands: &[Tensor], axes: &[Option<usize>], batch: &BatchAxis) -> Batched {
        if batch.name.is_some() {
            return self.batch_over(&operands[0], axes[0], batch);
        }
        let Some(axis) = axes[0] else {
            return (one(or_panic(self.apply(&operands[0]))), one(None));
        };
        let (result, axis) = LinearPrimitive::batch(self, &operands[0], axis);
        (one(result), one(Some(axis)))
    }

    fn lower(&self, block: &mut Block<'_>, operands: &[Value], results: &Infos<'_>) -> Lowered {
        LinearPrimitive::lower(self, block, &operands[0], results[0]).map(one)
    }

    fn write_parameters(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        LinearPrimitive::write_parameters(self, f)
    }

    fn accepts_narrow(&self) -> bool {
        LinearPrimitive::accepts_narrow(self)
    }

    fn widens_parts(&self) -> bool {
        LinearPrimitive::widens_parts(self)
    }

    fn division(&self, operands: &[&AbstractArray]) -> Option<Division> {
        LinearPrimitive::division(self, operands[0])
    }

    fn reduction(&self) -> Option<(Fold, &[usize])> {
        LinearPrimitive::reduction(self)
    }

    fn is_sharding_constraint(&self) -> bool {
        LinearPrimitive::is_sharding_constraint(self)
    }

    fn axis_names(&self) -> &[AxisName] {
        LinearPrimitive::axis_names(self)
    }

    fn axis_length(&self) -> Option<usize> {
        LinearPrimitive::axis_length(self)
    }
}
