//! The primitive for the linear part of a `custom_vjp`. The only known rule of this linear part is the transpose: the
//! user's `backward`.

use std::sync::Arc;

use pytree_base::bug::pairs;

use crate::base::axis_names::AxisName;
use crate::primitives::body::rules::{bind_all, mapped_in_front, no_forward_mode, with_condition};
use crate::primitives::body::{Body, single_body};
use crate::primitives::call::call;
use crate::primitives::create::or_zeros;
use crate::primitives::prelude::*;
use crate::primitives::shape::{batch_axis_first, with_front};
use crate::tensor::jaxpr::{Jaxpr, RESULTS};
use crate::tensor::primitive::{Applied, Signature, Signatures, WithInputs, operands_at};
use crate::tensor::trace::{Recorder, bind};

/// A linear function whose only known rule is its transpose. The operands are tangents, followed by residuals.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Backward {
    /// The transpose, which takes the residuals and the cotangents of the results, and returns a cotangent for each
    /// tangent.
    pub(crate) body: Arc<Body>,
    pub(crate) tangents: usize,
    pub(crate) results: Vec<AbstractArray>,
}

impl Primitive for Backward {
    fn name(&self) -> &'static str {
        Recorder::CustomVjp.name()
    }

    fn abstract_evaluation(&self, _: &[&AbstractArray]) -> AbstractResults {
        Ok(self.results.iter().cloned().collect())
    }

    fn evaluate(&self, _: Operands) -> Outputs<Array> {
        no_forward_mode(self.name())
    }

    fn jvp(&self, _: &[Tensor], _: &[Option<Tensor>]) -> WithTangents {
        no_forward_mode(self.name())
    }

    fn transpose(&self, cotangents: &[Option<Tensor>], operands: &[Linear]) -> Cotangents {
        let cotangents = pairs(cotangents, &self.results, RESULTS)
            .map(|(cotangent, info)| or_zeros(cotangent.as_ref(), info));
        let (tangents, residuals) = operands.split_at(self.tangents);
        let residuals = residuals.iter().map(|residual| residual.known().clone());
        let inputs: Vec<Tensor> = residuals.chain(cotangents).collect();
        let results = call(&self.body, &inputs);
        let of_tangents = pairs(results, tangents, "a cotangent for each tangent")
            .map(|(result, tangent)| tangent.is_unknown().then_some(result));
        let of_residuals = operands[self.tangents..].iter().map(|_| None);
        of_tangents.chain(of_residuals).collect()
    }

    /// Gives every tangent and every result a batch axis, and batches the transpose.
    fn batch(&self, operands: &[Tensor], axes: &[Option<usize>], batch: &BatchAxis) -> Batched {
        let size = batch.size;
        let (tangents, residuals) = operands.split_at(self.tangents);
        let (of_tangents, of_residuals) = axes.split_at(self.tangents);
        let operands: Vec<Tensor> = tangents
            .iter()
            .zip(of_tangents)
            .map(|(tangent, axis)| or_panic(batch_axis_first(tangent, *axis, size)))
            .chain(residuals.iter().cloned())
            .collect();
        let mut axes = of_residuals.to_vec();
        axes.extend(self.results.iter().map(|_| Some(0)));
        let batched = self.body.batched(&axes, batch, &vec![true; self.tangents]);
        let batch =
            |info: &AbstractArray| AbstractArray::new(info.dtype, with_front(size, &info.shape));
        let primitive = Self {
            body: Arc::clone(&batched.body),
            tangents: self.tangents,
            results: self.results.iter().map(batch).collect(),
        };
        let mapped = vec![true; self.results.len()];
        mapped_in_front(bind_all(&primitive, &operands), &mapped)
    }

    fn lower(&self, block: &mut Block<'_>, operands: &[Value], _: &Infos<'_>) -> Lowered {
        Err(block.refused(
            operands,
            "this equation is the linear part of a `custom_vjp`, whose rule gives only cotangents",
            "lower a function that uses reverse mode, for instance `grad`",
        ))
    }

    fn bodies(&self) -> Vec<(&'static str, &Jaxpr)> {
        vec![("bwd_jaxpr", &self.body.jaxpr)]
    }

    fn with_inputs(&self, bodies: Vec<Jaxpr>, _: usize) -> WithInputs {
        let body = self.body.derived(single_body(bodies));
        let primitive = Self {
            body,
            ..self.clone()
        };
        (Arc::new(primitive), smallvec![self.tangents])
    }

    /// Returns the dtypes and shapes that the inputs and outputs of the transpose must have.
    fn signatures(&self, operands: &Infos<'_>, results: &[AbstractArray]) -> Signatures {
        let tangents = operands_at(operands, 0..self.tangents)?;
        let residuals = operands_at(operands, self.tangents..operands.len())?;
        Ok(vec![Signature::new(
            residuals.into_iter().chain(results),
            tangents,
        )])
    }

    fn may_call_host(&self) -> bool {
        self.body.may_call_host
    }

    fn bind_under(&self, condition: Option<&Tensor>, operands: &[&Tensor]) -> Applied {
        let primitive = Self {
            body: self.body.under_condition(condition.is_some()),
            ..self.clone()
        };
        bind(
            &primitive,
            &with_condition(condition, operands, &[self.tangents]),
        )
    }

    fn axis_names(&self) -> &[AxisName] {
        &self.body.axis_names
    }
}
