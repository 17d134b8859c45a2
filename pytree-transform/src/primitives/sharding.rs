//! The annotation of how a tensor is divided among the devices of a mesh.
//!
//! The primitive is the identity. Its spec names axes of a mesh, but belongs to no mesh: a recorded function can run on
//! the host, on one device, and on meshes with these names. A device that is not a mesh ignores the annotation.

use std::sync::Arc;

use crate::primitives::prelude::*;
use crate::tensor::device::{PartitionSpec, problems_of};
use crate::tensor::linear_primitive::LinearPrimitive;
use crate::tensor::primitive::LoweredOne;

/// Returns its operand, divided as the spec says.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ShardingConstraint {
    pub(crate) spec: PartitionSpec,
}

/// Returns a tensor with the elements of `operand`, divided as `spec` says.
#[track_caller]
pub(crate) fn sharding_constraint(
    operand: &Tensor,
    spec: &PartitionSpec,
) -> Result<Tensor, TensorError> {
    let spec = spec.clone();
    bind_one(&ShardingConstraint { spec }, &[operand])
}

impl LinearPrimitive for ShardingConstraint {
    fn name(&self) -> &'static str {
        "shard"
    }

    fn result(&self, operand: &AbstractArray) -> Result<AbstractArray, TensorError> {
        let mistakes = problems_of(&self.spec, None, ("the tensor", operand));
        if mistakes.is_empty() {
            Ok(operand.clone())
        } else {
            Err(TensorError::sharding(format!("shard {operand}"), mistakes))
        }
    }

    fn evaluate(&self, operand: Arc<Array>) -> Array {
        Arc::unwrap_or_clone(operand)
    }

    fn transpose(&self, cotangent: &Tensor, _: &AbstractArray) -> Tensor {
        or_panic(sharding_constraint(cotangent, &self.spec))
    }

    fn batch(&self, operand: &Tensor, axis: usize) -> (Tensor, usize) {
        let spec = self.spec.batched(axis);
        (or_panic(sharding_constraint(operand, &spec)), axis)
    }

    fn lower(&self, block: &mut Block<'_>, operand: &Value, _: &AbstractArray) -> LoweredOne {
        block.sharding_constraint(operand, &self.spec)
    }

    fn write_parameters(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "spec={}", self.spec)
    }

    fn accepts_narrow(&self) -> bool {
        true
    }

    fn is_sharding_constraint(&self) -> bool {
        true
    }
}
