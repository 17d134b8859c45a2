//! A recorded function split into a known part, which does not depend on the tangents, and a part that is linear in the
//! tangents.

use std::sync::Arc;

use pytree_base::bug::expect_next;

use super::recorded::Linearized;
use crate::primitives::body::recorded::Body;
use crate::primitives::call::call;
use crate::tensor::Tensor;
use crate::tensor::jaxpr::Variable;

impl Linearized {
    pub(crate) fn new(
        known: Arc<Body>,
        linear: Arc<Body>,
        outputs: usize,
        has_tangent: Vec<bool>,
    ) -> Self {
        let jaxpr = &known.jaxpr;
        let inputs = jaxpr.input_positions();
        let input = |output: &Variable| inputs[output.index()];
        let forwarded: Vec<Option<usize>> = jaxpr.outputs[outputs..].iter().map(input).collect();
        let computed = forwarded.iter().enumerate();
        let kept: Vec<usize> = (0..outputs)
            .chain(
                computed
                    .filter(|(_, input)| input.is_none())
                    .map(|(position, _)| outputs + position),
            )
            .collect();
        let brief = if kept.len() == jaxpr.outputs.len() {
            Arc::clone(&known)
        } else {
            known.rearranged(&(0..jaxpr.inputs.len()).collect::<Vec<usize>>(), &kept)
        };
        Self {
            known,
            linear,
            outputs,
            has_tangent,
            brief,
            forwarded,
        }
    }

    /// Returns whether a part may call a function of the user on the host.
    pub(crate) fn may_call_host(&self) -> bool {
        self.known.may_call_host || self.linear.may_call_host
    }

    /// Returns both parts [under a condition](Body::under_condition). The condition is a residual, if the linear part needs it.
    pub(crate) fn under_condition(&self, is_input: bool) -> Self {
        let mut known = self.known.under_condition(is_input);
        let mut linear = Arc::clone(&self.linear);
        if linear.may_call_host {
            linear = linear.under_condition(is_input);
            if is_input {
                // The condition is the last residual, behind the tangents and the other residuals.
                let count = linear.jaxpr.inputs.len();
                let inputs: Vec<usize> = (1..count).chain([0]).collect();
                let outputs: Vec<usize> = (0..linear.jaxpr.outputs.len()).collect();
                linear = linear.rearranged(&inputs, &outputs);
                let mut jaxpr = known.jaxpr.clone();
                jaxpr.outputs.push(jaxpr.inputs[0]);
                known = known.derived(jaxpr);
            }
        }
        Self::new(known, linear, self.outputs, self.has_tangent.clone())
    }

    /// Calls the known part and returns its outputs and the residuals. Residuals that are inputs are taken from
    /// `inputs`.
    #[track_caller]
    pub(crate) fn call_known(&self, inputs: &[Tensor]) -> (Vec<Tensor>, Vec<Tensor>) {
        let mut results = call(&self.brief, inputs);
        let mut computed = results.split_off(self.outputs).into_iter();
        let residuals = self
            .forwarded
            .iter()
            .map(|input| match input {
                Some(input) => inputs[*input].clone(),
                None => expect_next(
                    &mut computed,
                    "a result for each residual that is not an input",
                ),
            })
            .collect();
        (results, residuals)
    }
}
