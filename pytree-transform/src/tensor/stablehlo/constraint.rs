//! The operation that divides a value among the devices of a mesh.

use super::block::{Block, Value};
use super::partitioning::attribute;
use crate::base::error::{Mistake, TensorError};
use crate::tensor::device::{PartitionSpec, problems_of};

impl Block<'_> {
    /// Writes the operation that divides a value as a spec says. Without a mesh, a single device computes everything, and
    /// the result is the value itself.
    pub(crate) fn sharding_constraint(
        &mut self,
        operand: &Value,
        spec: &PartitionSpec,
    ) -> Result<Value, TensorError> {
        let Some(mesh) = self.partition_mesh() else {
            if self.mesh().axes().is_empty() {
                return Ok(operand.clone());
            }
            return Err(self.refused(
                std::slice::from_ref(operand),
                "inside of `spmd` and of a named batch axis, a tensor is the part of one device, which cannot be divided",
                "remove `shard`, or compile the function with `jit(f).on(&mesh)` instead of `spmd`",
            ));
        };
        let mistakes = problems_of(spec, Some(mesh), ("the tensor", &operand.info));
        if !mistakes.is_empty() {
            let all = Mistake::joined(mistakes);
            return Err(self.refused(std::slice::from_ref(operand), all.problem, all.fix));
        }
        let attribute = attribute(spec, operand.rank());
        Ok(self.operation(
            "sdy.sharding_constraint",
            &[operand],
            format_args!("sharding = {attribute}"),
            operand.info.clone(),
        ))
    }
}
