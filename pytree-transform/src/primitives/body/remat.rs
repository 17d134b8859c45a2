//! Rematerialization: derivatives that recompute values instead of storing them.

use std::any::Any;
use std::collections::HashSet;

use pytree_kernels::base::dtype::AbstractArray;
use pytree_kernels::loops::dot::DotGeneral;

use super::recorded::RematPolicy;
use crate::primitives::body::recorded::Linearized;
use crate::primitives::create::{Broadcast, Full};
use crate::tensor::jaxpr::Variable;
use crate::tensor::primitive::Primitive;
use crate::tensor::stage::stage;
use crate::tensor::trace::under;

impl RematPolicy {
    /// Returns whether the results of a primitive are stored. An effect happens once, so its results always are. Repeated numbers take
    /// no time, so they never are.
    fn keeps(self, primitive: &dyn Primitive) -> bool {
        let any: &dyn Any = primitive;
        primitive.has_result_of_effect()
            || match self {
                Self::Nothing => false,
                Self::Dots => any.is::<DotGeneral>(),
                Self::Everything => !any.is::<Full>() && !any.is::<Broadcast>(),
            }
    }

    /// Returns `split` with a linear part that recomputes the residuals from the inputs and from the values that the
    /// policy stores.
    pub(crate) fn recomputed(self, split: &Linearized) -> Linearized {
        let known = &split.known.jaxpr;
        let mut again = known.clone();
        again.outputs.drain(..split.outputs);
        let mut kept: Vec<Variable> = Vec::new();
        again.equations.retain(|equation| {
            let keeps = self.keeps(&*equation.primitive);
            if keeps {
                kept.extend_from_slice(&equation.outputs);
            }
            !keeps
        });
        again.inputs.extend(kept);
        let mut again = again.only_needed();
        let used: HashSet<Variable> = again
            .equations
            .iter()
            .flat_map(|equation| equation.inputs.iter())
            .chain(&again.outputs)
            .copied()
            .collect();
        again.inputs.retain(|input| used.contains(input));

        let mut first = known.clone();
        first.outputs.truncate(split.outputs);
        first.outputs.extend_from_slice(&again.inputs);
        let linear = &split.linear;
        let of_tangents = linear.jaxpr.inputs.len() - again.outputs.len();
        let infos: Vec<AbstractArray> = linear
            .input_infos()
            .into_iter()
            .take(of_tangents)
            .chain(again.inputs.iter().map(|&input| again.info(input).clone()))
            .collect();
        let (jaxpr, _, ()) = stage(linear.recorder, &infos, |mut tensors| {
            let kept = tensors.split_off(of_tangents);
            tensors.extend(under(None, || again.apply(&kept)));
            (linear.jaxpr.apply(&tensors), ())
        });
        Linearized::new(
            split.known.derived(first),
            linear.derived(jaxpr),
            split.outputs,
            split.has_tangent.clone(),
        )
    }
}
