//! How transformations use a derivative rule that the user supplied.

use std::sync::Arc;

use pytree_base::bug::pairs;
use pytree_kernels::base::dtype::AbstractArray;

use crate::primitives::body::masks::{chosen, in_places};
use crate::primitives::body::recorded::{Batched, Body, Derivative, GivenRule, Linearized, Rule};
use crate::primitives::body::rules::no_forward_mode;
use crate::primitives::create::or_zeros;
use crate::tensor::Tensor;
use crate::tensor::primitive::BatchAxis;
use crate::tensor::stage::stage;
use crate::tensor::trace::{Interpreter, Trace, current_line};

impl GivenRule {
    /// Returns, for each argument of the function, whether it is a float. A derivative rule has tangents only for
    /// floats.
    fn floats(&self, body: &Body) -> Vec<bool> {
        let infos = body.input_infos();
        let arguments = infos[..self.arguments].iter();
        arguments.map(|info| info.dtype.is_float()).collect()
    }

    /// Returns the user's rule, split into a known and a linear part. The linear part takes only the tangents of the
    /// inputs that `active` marks. The tangents of all other inputs are zeros.
    pub(crate) fn linearized(&self, body: &Body, active: &[bool]) -> Linearized {
        let infos = body.input_infos();
        let mut captured: Vec<String> = chosen(&infos[self.arguments..], &active[self.arguments..])
            .map(ToString::to_string)
            .collect();
        captured.dedup();
        assert!(
            captured.is_empty(),
            "cannot differentiate the {} at {} with respect to the tensors that it captured ({}): its rule covers only its argument; pass each tensor as a part of the argument, or stop its gradient with `.stop_gradient()`",
            body.recorder,
            current_line(),
            captured.join(", ")
        );
        let floats = self.floats(body);
        if active[..self.arguments] == floats {
            return self.rule.get().clone();
        }
        let Linearized {
            known,
            linear,
            outputs,
            has_tangent,
            ..
        } = self.rule.get();
        let (infos, active) = (&infos[..self.arguments], &active[..self.arguments]);
        let of_floats: Vec<AbstractArray> = chosen(infos, &floats).cloned().collect();
        let given: Vec<bool> = chosen(active, &floats).copied().collect();
        let of_inputs = linear.input_infos();
        let residuals = of_inputs[of_floats.len()..].iter();
        let inputs: Vec<AbstractArray> = chosen(&of_floats, &given)
            .chain(residuals)
            .cloned()
            .collect();
        let count = given.iter().filter(|&&given| given).count();
        let (jaxpr, _, ()) = stage(linear.recorder, &inputs, |mut tensors| {
            let residuals = tensors.split_off(count);
            let tangents = in_places(tensors, &given)
                .into_iter()
                .zip(&of_floats)
                .map(|(tangent, info)| or_zeros(tangent.as_ref(), info));
            let inputs: Vec<Tensor> = tangents.chain(residuals).collect();
            (linear.jaxpr.apply(&inputs), ())
        });
        let linear = linear.derived(jaxpr);
        Linearized::new(Arc::clone(known), linear, *outputs, has_tangent.clone())
    }

    /// Runs the function and the user's rule. Returns the results, their tangents, and flags that mark the results with
    /// a tangent.
    pub(crate) fn push(
        &self,
        body: &Body,
        primals: &[Tensor],
        tangents: Vec<Tensor>,
        active: &[bool],
    ) -> (Vec<Tensor>, Vec<bool>) {
        if !self.forward {
            no_forward_mode(body.recorder.name());
        }
        let split = self.linearized(body, active);
        let mut results = split.known.jaxpr.apply(primals);
        let residuals = results.split_off(split.outputs);
        let inputs: Vec<Tensor> = tangents.into_iter().chain(residuals).collect();
        results.extend(split.linear.jaxpr.apply(&inputs));
        (results, split.has_tangent)
    }

    /// Returns the batched function with the batched rule. A result gets a batch axis if the batched function, the
    /// known part of the rule or the linear part of the rule gives this result a batch axis. If the rule has not run
    /// yet, every result gets a batch axis.
    pub(crate) fn batched(
        &self,
        body: &Body,
        axes: &[Option<usize>],
        batch: &BatchAxis,
        force: &[bool],
    ) -> Batched {
        let of_tangents: Vec<Option<usize>> = chosen(&axes[..self.arguments], &self.floats(body))
            .copied()
            .collect();
        let Some(split) = self.rule.known() else {
            let mapped = vec![true; body.jaxpr.outputs.len()];
            let rule = Arc::clone(&self.rule);
            let (axes_of_rule, batch_of_rule) = (axes.to_vec(), batch.clone());
            let of_results = mapped.clone();
            let rule = Rule::when_needed(move || {
                // The rule may use the name of the batch axis. The `vmap` that bound the name may have finished, so
                // bind the name again.
                let axis = Trace::begin(Interpreter::Batch(batch_of_rule.clone()));
                let split = rule.get();
                drop(axis);
                let (axes, batch) = (&axes_of_rule, &batch_of_rule);
                batch_split(split, axes, &of_tangents, batch, &of_results).0
            });
            return body.batch(axes, batch, &mapped, self.with(rule));
        };
        let mut mapped = body.batch(axes, batch, force, Derivative::Recorded).mapped;
        loop {
            let (split, grown) = batch_split(split, axes, &of_tangents, batch, &mapped);
            if grown == mapped {
                return body.batch(axes, batch, &mapped, self.with(Rule::recorded(split)));
            }
            mapped = grown;
        }
    }

    /// Returns the rule of the function [`under_condition`](Body::under_condition).
    pub(super) fn under_condition(&self, is_input: bool) -> Self {
        let rule = if let Some(split) = self.rule.known() {
            Rule::recorded(split.under_condition(is_input))
        } else {
            let rule = Arc::clone(&self.rule);
            Rule::when_needed(move || rule.get().under_condition(is_input))
        };
        Self {
            rule: Arc::new(rule),
            arguments: self.arguments + usize::from(is_input),
            ..*self
        }
    }

    fn with(&self, rule: Rule) -> Derivative {
        Derivative::Given(Self {
            rule: Arc::new(rule),
            ..*self
        })
    }
}

/// Returns the batched rule, and flags that mark the results with a batch axis. Every result that `mapped` marks gets a
/// batch axis.
fn batch_split(
    split: &Linearized,
    axes: &[Option<usize>],
    of_tangents: &[Option<usize>],
    batch: &BatchAxis,
    mapped: &[bool],
) -> (Linearized, Vec<bool>) {
    let known = split.known.batched(axes, batch, mapped);
    let of_residuals = known.mapped[split.outputs..].iter();
    let of_linear: Vec<Option<usize>> = of_tangents
        .iter()
        .copied()
        .chain(of_residuals.map(|mapped| mapped.then_some(0)))
        .collect();
    let of_results: Vec<bool> = chosen(mapped, &split.has_tangent).copied().collect();
    let linear = split.linear.batched(&of_linear, batch, &of_results);
    let in_linear = in_places(linear.mapped.iter().copied(), &split.has_tangent);
    let of_known = &known.mapped[..split.outputs];
    let grown = pairs(mapped, of_known, "both parts to have the same outputs")
        .zip(in_linear)
        .map(|((mapped, known), linear)| *mapped || *known || linear == Some(true))
        .collect();
    let split = Linearized::new(
        Arc::clone(&known.body),
        Arc::clone(&linear.body),
        split.outputs,
        split.has_tangent.clone(),
    );
    (split, grown)
}
