//! The primitive that calls a recorded function.
//!
//! Other transformations see a jitted function as one equation. Each rule transforms the recorded function once and
//! calls the transformed function. In reverse mode, the JVP is split into a known part and a linear part. The known
//! part also returns the residuals, and the linear part is transposed.

use std::sync::Arc;

use crate::base::axis_names::AxisName;
use crate::base::error::or_too_large;
use crate::primitives::body::rules::{
    arrays, bind_all, cotangents_of, known_and_cotangents, mapped_in_front, tangents_behind,
    with_condition, with_tangents,
};
use crate::primitives::body::{Body, single_body};
use crate::primitives::prelude::*;
use crate::tensor::device;
use crate::tensor::jaxpr::Jaxpr;
use crate::tensor::primitive::{Applied, Signature, Signatures, WithInputs};
use crate::tensor::trace::{Recorder, bind, is_staging, on_tape};

/// A call of a recorded function.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Call(pub(crate) Arc<Body>);

/// Calls a recorded function on tensors, which may be traced or concrete.
#[track_caller]
pub(crate) fn call(body: &Arc<Body>, operands: &[Tensor]) -> Vec<Tensor> {
    bind_all(&Call(Arc::clone(body)), operands)
}

/// Calls a recorded function on tensors like [`call`]. If they are on the host, the function may overwrite those that nothing else holds.
#[track_caller]
pub(crate) fn call_taking(body: &Arc<Body>, operands: Vec<Tensor>) -> Vec<Tensor> {
    let is_on_host = operands.iter().all(|operand| operand.array().is_some());
    if !is_on_host || is_staging() || device::is_chosen() {
        return call(body, &operands);
    }
    let arrays = operands.into_iter().filter_map(Tensor::into_array);
    let results = or_too_large(|| body.recorder.name(), || Ok(body.run(arrays.collect())));
    or_panic(results)
        .into_iter()
        .map(Tensor::from_shared)
        .collect()
}

impl Primitive for Call {
    fn name(&self) -> &'static str {
        self.0.recorder.name()
    }

    fn abstract_evaluation(&self, _: &[&AbstractArray]) -> AbstractResults {
        Ok(self.0.jaxpr.output_infos().cloned().collect())
    }

    fn evaluate(&self, operands: Operands) -> Outputs<Array> {
        arrays(self.0.run(operands.into_vec()))
    }

    fn jvp(&self, primals: &[Tensor], tangents: &[Option<Tensor>]) -> WithTangents {
        let active: Vec<bool> = tangents.iter().map(Option::is_some).collect();
        if !active.contains(&true) {
            return alone(self, primals);
        }
        let tangents = tangents.iter().flatten().cloned();
        if !on_tape(tangents.clone()) {
            let pushed = self.0.pushed(&active, &[]);
            let inputs: Vec<Tensor> = primals.iter().cloned().chain(tangents).collect();
            return tangents_behind(call(&pushed.body, &inputs), &pushed.has_tangent);
        }
        let split = self.0.linearized(&active, &[]);
        let (results, residuals) = split.call_known(primals);
        let inputs: Vec<Tensor> = tangents.chain(residuals).collect();
        with_tangents(results, call(&split.linear, &inputs), &split.has_tangent)
    }

    fn transpose(&self, cotangents: &[Option<Tensor>], operands: &[Linear]) -> Cotangents {
        let unknown: Vec<bool> = operands.iter().map(Linear::is_unknown).collect();
        let has_cotangent: Vec<bool> = cotangents.iter().map(Option::is_some).collect();
        let transposed = self.0.transposed(&unknown, &has_cotangent, &[], &[]);
        let inputs = known_and_cotangents(operands, cotangents);
        let results = call(&transposed.body, &inputs);
        cotangents_of(results, &transposed.has_cotangent, &unknown)
    }

    fn transpose_onto(
        &self,
        cotangents: &mut [Option<Tensor>],
        operands: &[Linear],
        sums: &mut [Option<Tensor>],
    ) -> Option<Cotangents> {
        // The bits of a function that is recorded only to save memory are those of its operations.
        (self.0.recorder == Recorder::Fused).then_some(())?;
        let unknown: Vec<bool> = operands.iter().map(Linear::is_unknown).collect();
        let [has_cotangent, has_sum] = [&*cotangents, &*sums]
            .map(|tensors| tensors.iter().map(Option::is_some).collect::<Vec<bool>>());
        let transposed = self.0.transposed(&unknown, &has_cotangent, &[], &has_sum);
        let mut inputs = known_and_cotangents(operands, cotangents);
        cotangents.fill(None);
        inputs.extend(sums.iter_mut().filter_map(Option::take));
        let results = call_taking(&transposed.body, inputs);
        Some(cotangents_of(results, &transposed.has_cotangent, &unknown))
    }

    fn batch(&self, operands: &[Tensor], axes: &[Option<usize>], batch: &BatchAxis) -> Batched {
        let batched = self.0.batched(axes, batch, &[]);
        mapped_in_front(call(&batched.body, operands), &batched.mapped)
    }

    fn lower(&self, block: &mut Block<'_>, operands: &[Value], _: &Infos<'_>) -> Lowered {
        self.0.lower_call(block, operands).map(Into::into)
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

    fn with_inputs(&self, bodies: Vec<Jaxpr>, _: usize) -> WithInputs {
        (
            Arc::new(Self(self.0.derived(single_body(bodies)))),
            smallvec![0],
        )
    }

    fn signatures(&self, operands: &Infos<'_>, results: &[AbstractArray]) -> Signatures {
        Ok(vec![Signature::new(operands.iter().copied(), results)])
    }

    fn callee(&self) -> Option<(Recorder, &Jaxpr)> {
        Some((self.0.recorder, &self.0.jaxpr))
    }

    fn scratch(&self) -> usize {
        self.0.needed()
    }

    fn has_effect(&self) -> bool {
        self.0.has_effect
    }

    fn may_call_host(&self) -> bool {
        self.0.may_call_host
    }

    fn bind_under(&self, condition: Option<&Tensor>, operands: &[&Tensor]) -> Applied {
        let body = self.0.under_condition(condition.is_some());
        bind(&Self(body), &with_condition(condition, operands, &[0]))
    }

    fn axis_names(&self) -> &[AxisName] {
        &self.0.axis_names
    }
}
