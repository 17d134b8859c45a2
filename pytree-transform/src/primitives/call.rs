//! The call of a recorded function as a primitive.
//!
//! Under other transformations a jitted function is one equation. Its rules apply the transformation to
//! the recorded function once and call the result. Where tangents are recorded for transposition, the JVP
//! splits into a known part, which also gives the residuals, and a linear part.

use std::fmt;
use std::sync::Arc;

use smallvec::SmallVec;

use crate::base::array::Array;
use crate::base::axis_names::AxisName;
use crate::base::dtype::AbstractArray;
use crate::base::error::{TensorError, or_panic};
use crate::primitives::body::{Body, in_places};
use crate::tensor::Tensor;
use crate::tensor::jaxpr::Jaxpr;
use crate::tensor::primitive::{
    BatchAxis, Batched, Linear, Operands, Outputs, Primitive, Signature,
};
use crate::tensor::trace::{Recorder, bind, on_tape};

/// The call of a recorded function.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Call(pub(crate) Arc<Body>);

/// The results of a call on tensors of whatever levels.
#[track_caller]
pub(crate) fn call(body: &Arc<Body>, operands: &[Tensor]) -> Vec<Tensor> {
    bind_all(&Call(Arc::clone(body)), operands)
}

/// The results of a primitive on tensors of whatever levels.
#[track_caller]
pub(crate) fn bind_all(primitive: &dyn Primitive, operands: &[Tensor]) -> Vec<Tensor> {
    let operands: Vec<&Tensor> = operands.iter().collect();
    or_panic(bind(primitive, &operands)).into_vec()
}

/// The known operands followed by the cotangents that there are: the inputs of a transposed body.
pub(crate) fn known_and_cotangents(
    operands: &[Linear],
    cotangents: &[Option<Tensor>],
) -> Vec<Tensor> {
    operands
        .iter()
        .filter_map(|operand| match operand {
            Linear::Known(tensor) => Some(tensor.clone()),
            Linear::Unknown(_) => None,
        })
        .chain(cotangents.iter().flatten().cloned())
        .collect()
}

impl Primitive for Call {
    fn name(&self) -> &'static str {
        self.0.recorder.name()
    }

    fn abstract_evaluation(
        &self,
        _: &[&AbstractArray],
    ) -> Result<Outputs<AbstractArray>, TensorError> {
        Ok(self.0.jaxpr.output_infos().cloned().collect())
    }

    fn evaluate(&self, operands: Operands) -> Outputs<Array> {
        self.0
            .run(operands.into_vec())
            .into_iter()
            .map(Arc::unwrap_or_clone)
            .collect()
    }

    fn jvp(
        &self,
        primals: &[Tensor],
        tangents: &[Option<Tensor>],
    ) -> (Outputs<Tensor>, Outputs<Option<Tensor>>) {
        let active: Vec<bool> = tangents.iter().map(Option::is_some).collect();
        let tangents = tangents.iter().flatten().cloned();
        if !active.contains(&true) {
            let results = call(&self.0, primals);
            let none = results.iter().map(|_| None).collect();
            return (results.into_iter().collect(), none);
        }
        if !on_tape(tangents.clone()) {
            let pushed = self.0.pushed(&active, &[]);
            let inputs: Vec<Tensor> = primals.iter().cloned().chain(tangents).collect();
            let mut results = call(&pushed.body, &inputs);
            let tangents = results.split_off(pushed.has_tangent.len());
            let tangents = in_places(tangents, &pushed.has_tangent);
            return (
                results.into_iter().collect(),
                tangents.into_iter().collect(),
            );
        }
        let split = self.0.linearized(&active, &[]);
        let (results, residuals) = split.call_known(primals);
        let inputs: Vec<Tensor> = tangents.chain(residuals).collect();
        let tangents = in_places(call(&split.linear, &inputs), &split.has_tangent);
        (
            results.into_iter().collect(),
            tangents.into_iter().collect(),
        )
    }

    fn transpose(
        &self,
        cotangents: &[Option<Tensor>],
        operands: &[Linear],
    ) -> SmallVec<[Option<Tensor>; 2]> {
        let unknown: Vec<bool> = operands.iter().map(Linear::is_unknown).collect();
        let has_cotangent: Vec<bool> = cotangents.iter().map(Option::is_some).collect();
        let transposed = self.0.transposed(&unknown, &has_cotangent, &[]);
        let results = call(
            &transposed.body,
            &known_and_cotangents(operands, cotangents),
        );
        let results = in_places(results, &transposed.has_cotangent);
        let in_operands = in_places(results, &unknown).into_iter();
        in_operands.map(Option::flatten).collect()
    }

    fn batch(&self, operands: &[Tensor], axes: &[Option<usize>], batch: &BatchAxis) -> Batched {
        let batched = self.0.batched(axes, batch, &[]);
        let results = call(&batched.body, operands).into_iter().collect();
        let mapped = batched.mapped.iter();
        (results, mapped.map(|&mapped| mapped.then_some(0)).collect())
    }

    fn write_parameters(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.label.is_empty() {
            return Ok(());
        }
        write!(f, "name={}", self.0.label)
    }

    fn bodies(&self) -> Vec<(&'static str, &Jaxpr)> {
        vec![("jaxpr", &self.0.jaxpr)]
    }

    fn signatures(
        &self,
        operands: &[&AbstractArray],
        results: &[AbstractArray],
    ) -> Result<Vec<Signature>, String> {
        Ok(vec![Signature::new(operands.iter().copied(), results)])
    }

    fn callee(&self) -> Option<(Recorder, &Jaxpr)> {
        Some((self.0.recorder, &self.0.jaxpr))
    }

    fn has_effect(&self) -> bool {
        self.0.has_effect
    }

    fn axis_names(&self) -> &[AxisName] {
        &self.0.axis_names
    }
}
