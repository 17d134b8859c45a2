//! The primitive of a loop that runs while a condition holds.

use std::sync::Arc;

use pytree_base::bug::{expect_next, pairs};
use pytree_kernels::loops::elementwise::Comparison;

use crate::base::axis_names::AxisName;
use crate::primitives::body::program::Slots;
use crate::primitives::body::rules::{
    arrays, bind_all, mapped_in_front, tangents_behind, with_condition, with_tangents,
};
use crate::primitives::body::{BODIES, Body, all_axis_names, in_places};
use crate::primitives::call::call;
use crate::primitives::control::agreement::check_agreement;
use crate::primitives::control::carry::{
    CARRY, fixed_point, with_carry_tangents, with_mapped_carry,
};
use crate::primitives::convert::convert;
use crate::primitives::create::broadcast_in_dim;
use crate::primitives::elementwise::compare_with;
use crate::primitives::prelude::*;
use crate::primitives::reduce;
use crate::primitives::select::select;
use crate::tensor::jaxpr::Jaxpr;
use crate::tensor::primitive::{Applied, Signature, Signatures, WithInputs, operands_at};
use crate::tensor::stage::stage;
use crate::tensor::trace::{bind, current_line, on_tape, under};

/// Applies a body to a carry while a condition holds. The operands are the constants of the condition, the constants of
/// the body, and the first carry.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct While {
    pub(crate) condition: Arc<Body>,
    pub(crate) body: Arc<Body>,
    pub(crate) condition_constants: usize,
    pub(crate) body_constants: usize,
    /// The names of the batch axes that the collectives in the condition and the body use.
    axis_names: Vec<AxisName>,
}

impl While {
    /// Creates a loop. `condition` and `body` each hold a recorded function and its number of constants.
    pub(crate) fn new(condition: (Arc<Body>, usize), body: (Arc<Body>, usize)) -> Self {
        let axis_names = all_axis_names([&condition.0, &body.0]);
        Self {
            condition: condition.0,
            body: body.0,
            condition_constants: condition.1,
            body_constants: body.1,
            axis_names,
        }
    }

    fn constants(&self) -> usize {
        self.condition_constants + self.body_constants
    }

    /// Computes the last carry and its tangents in one loop.
    fn pushed(&self, primals: &[Tensor], tangents: &[Option<Tensor>]) -> WithTangents {
        let first = self.constants();
        let active: Vec<bool> = tangents[self.condition_constants..]
            .iter()
            .map(Option::is_some)
            .collect();
        let (of_constants, of_carry) = active.split_at(self.body_constants);
        let (carry, pushed) = fixed_point(of_carry.to_vec(), |carry| {
            let pushed = self.body.pushed(&[of_constants, carry].concat(), carry);
            (pushed.has_tangent.clone(), pushed)
        });
        let tangents = with_carry_tangents(primals, tangents, first, &carry);
        let body_tangents = tangents[self.condition_constants..first].iter().flatten();
        let carry_tangents: Vec<Tensor> = tangents[first..].iter().flatten().cloned().collect();
        let of_tangents = body_tangents.clone().count();
        // The body's inputs: constants, carry, tangents of constants, tangents of the carry.
        let before = self.body_constants + carry.len();
        let inputs: Vec<usize> = (0..self.body_constants)
            .chain(before..before + of_tangents)
            .chain(self.body_constants..before)
            .chain(before + of_tangents..before + of_tangents + carry_tangents.len())
            .collect();
        let outputs: Vec<usize> = (0..carry.len() + carry_tangents.len()).collect();
        let mut condition = self.condition.jaxpr.clone();
        for tangent in &carry_tangents {
            let input = condition.unused_input(tangent.info().clone());
            condition.inputs.push(input);
        }
        let primitive = Self::new(
            (self.condition.derived(condition), self.condition_constants),
            (
                pushed.body.rearranged(&inputs, &outputs),
                self.body_constants + of_tangents,
            ),
        );
        let operands: Vec<Tensor> = primals[..first]
            .iter()
            .chain(body_tangents)
            .chain(&primals[first..])
            .chain(&carry_tangents)
            .cloned()
            .collect();
        tangents_behind(bind_all(&primitive, &operands), &carry)
    }

    /// Computes the last carry. The tangents are computed by a call that runs the loop again, without its effects. This call is
    /// linear in the tangents, but it cannot be transposed.
    fn linearized(&self, primals: &[Tensor], tangents: &[Option<Tensor>]) -> WithTangents {
        let active: Vec<bool> = tangents.iter().map(Option::is_some).collect();
        let given: Vec<Tensor> = tangents.iter().flatten().cloned().collect();
        let infos: Vec<AbstractArray> = given
            .iter()
            .chain(primals)
            .map(|tensor| tensor.info().clone())
            .collect();
        let (jaxpr, _, has_tangent) = stage(self.body.recorder, &infos, |mut tensors| {
            let primals = tensors.split_off(given.len());
            let again = || self.pushed(&primals, &in_places(tensors, &active));
            let (_, tangents) = under(None, again);
            let has_tangent: Vec<bool> = tangents.iter().map(Option::is_some).collect();
            (tangents.into_iter().flatten().collect(), has_tangent)
        });
        let body = self.body.derived(jaxpr);
        let results = bind_all(self, primals);
        let operands: Vec<Tensor> = given.into_iter().chain(primals.iter().cloned()).collect();
        with_tangents(results, call(&body, &operands), &has_tangent)
    }

    /// Runs the loop over a batch. A further carried value says for each example whether its condition holds. Once it is false, the
    /// carry of this example does not change, and the example calls no function of the host.
    fn by_example(
        &self,
        operands: &[Tensor],
        axes: &[Option<usize>],
        batch: &BatchAxis,
    ) -> Vec<Tensor> {
        let (own, all) = (self.condition_constants, self.constants());
        let of_carry = vec![Some(0); operands.len() - all];
        let of_condition = [&axes[..own], &of_carry].concat();
        let of_body = [&axes[own..all], &of_carry].concat();
        let first = self.condition.batched(&of_condition, batch, &[true]);
        let given = [&operands[..own], &operands[all..]].concat();
        let first = call(&first.body, &given);
        let live_in = |body: &Arc<Body>, axes: &[Option<usize>], force: &[bool]| {
            let count = usize::from(body.may_call_host);
            let axes = [&[Some(0)][..count], axes].concat();
            (
                Arc::clone(&body.partial().batched(&axes, batch, force).body),
                count,
            )
        };
        let (condition, of_condition) = live_in(&self.condition, &of_condition, &[true]);
        let (body, of_body) = live_in(&self.body, &of_body, &vec![true; of_carry.len()]);
        let operands = [&operands[..all], &first, &operands[all..]].concat();
        let infos: Vec<AbstractArray> = operands.iter().map(|it| it.info().clone()).collect();
        let (jaxpr, _, ()) = stage(self.body.recorder, &infos, |tensors| {
            let (constants, carry) = tensors.split_at(all);
            let (of_holds, constants) = constants.split_at(own);
            let (live, carry) = carry.split_at(1);
            let after = call(&body, &[&live[..of_body], constants, carry].concat());
            let kept = pairs(after, carry, CARRY).map(|(after, before)| {
                let live = or_panic(broadcast_in_dim(&live[0], after.shape(), &[0]));
                or_panic(select(&live, &after, before))
            });
            let kept: Vec<Tensor> = kept.collect();
            let holds = call(
                &condition,
                &[&live[..of_condition], of_holds, &kept].concat(),
            );
            ([vec![&live[0] & &holds[0]], kept].concat(), ())
        });
        let body = self.body.derived(jaxpr);
        let (jaxpr, _, ()) = stage(self.condition.recorder, &infos[all..], |tensors| {
            (vec![any_of(&tensors[0])], ())
        });
        let primitive = Self::new((self.condition.derived(jaxpr), 0), (body, all));
        bind_all(&primitive, &operands).split_off(1)
    }
}

/// Returns whether the condition holds for at least one example.
fn any_of(holds: &Tensor) -> Tensor {
    let axes: Vec<usize> = (0..holds.rank()).collect();
    let numbers = or_panic(convert(holds, DType::I32));
    compare_with(Comparison::Gt, &or_panic(reduce::sum(&numbers, &axes)), 0.0)
}

impl Primitive for While {
    fn name(&self) -> &'static str {
        "while"
    }

    fn abstract_evaluation(&self, _: &[&AbstractArray]) -> AbstractResults {
        Ok(self.body.jaxpr.output_infos().cloned().collect())
    }

    /// Runs the iterations. Each iteration takes ownership of the previous iteration's carry, so the body may overwrite
    /// the memory of the carry.
    fn evaluate(&self, operands: Operands) -> Outputs<Array> {
        let mut of_condition = match self.body.evaluate_small(self, operands.into_vec()) {
            Ok(results) => return arrays(results),
            Err(operands) => operands,
        };
        let mut constants = of_condition.split_off(self.condition_constants);
        let mut carry = constants.split_off(self.body_constants);
        let (mut condition_slots, mut body_slots) = (Slots::new(), Slots::new());
        loop {
            let given = of_condition.iter().chain(&carry).cloned().collect();
            let holds = self.condition.run_in(&mut condition_slots, given);
            if !holds[0].elements::<bool>()[0] {
                break;
            }
            drop(holds);
            let mut given = constants.clone();
            given.append(&mut carry);
            carry = self.body.run_in(&mut body_slots, given);
        }
        arrays(carry)
    }

    fn jvp(&self, primals: &[Tensor], tangents: &[Option<Tensor>]) -> WithTangents {
        // The condition is not differentiable, so its constants do not affect a tangent.
        let of_body = &tangents[self.condition_constants..];
        if of_body.iter().all(Option::is_none) {
            return alone(self, primals);
        }
        let mut tangents = tangents.to_vec();
        tangents[..self.condition_constants].fill(None);
        if on_tape(tangents.iter().flatten().cloned()) {
            self.linearized(primals, &tangents)
        } else {
            self.pushed(primals, &tangents)
        }
    }

    fn transpose(&self, _: &[Option<Tensor>], _: &[Linear]) -> Cotangents {
        panic!(
            "cannot differentiate the `while_loop` at {} in reverse mode: the number of its iterations is not known beforehand; use `scan`, or `fori_loop` with bounds that are numbers and not traced tensors, or forward mode (`jvp`, `jacfwd`)",
            current_line()
        )
    }

    fn batch(&self, operands: &[Tensor], axes: &[Option<usize>], batch: &BatchAxis) -> Batched {
        let size = batch.size;
        let (own, all) = (self.condition_constants, self.constants());
        let carry_axes = |carry: &[bool]| -> Vec<Option<usize>> {
            carry.iter().map(|mapped| mapped.then_some(0)).collect()
        };
        let first = axes[all..].iter().map(Option::is_some).collect();
        let (carry, (condition, body, by_example)) = fixed_point(first, |carry| {
            let of_carry = carry_axes(carry);
            let condition = self
                .condition
                .batched(&[&axes[..own], &of_carry].concat(), batch, &[]);
            let body = self
                .body
                .batched(&[&axes[own..all], &of_carry].concat(), batch, carry);
            let by_example = condition.mapped.contains(&true);
            let after = if by_example {
                vec![true; carry.len()]
            } else {
                body.mapped.clone()
            };
            (after, (condition, body, by_example))
        });
        let operands = with_mapped_carry(operands, axes, all, &carry, size);
        if by_example && batch.is_mesh {
            let bodies = [&self.condition, &self.body];
            check_agreement(bodies, batch, "the condition", "the `while_loop`");
        }
        let results = if by_example {
            self.by_example(&operands, axes, batch)
        } else {
            let condition = (Arc::clone(&condition.body), own);
            let primitive = Self::new(condition, (Arc::clone(&body.body), self.body_constants));
            bind_all(&primitive, &operands)
        };
        mapped_in_front(results, &carry)
    }

    /// Writes a `while`, whose regions read the constants from the enclosing function.
    fn lower(&self, block: &mut Block<'_>, operands: &[Value], _: &Infos<'_>) -> Lowered {
        let (of_condition, rest) = operands.split_at(self.condition_constants);
        let (of_body, carry) = rest.split_at(self.body_constants);
        let results = block.while_loop(
            carry,
            |block, carry| {
                self.condition
                    .lower_call(block, &[of_condition, carry].concat())
            },
            |block, carry| self.body.lower_call(block, &[of_body, carry].concat()),
        )?;
        Ok(results.into())
    }

    fn write_parameters(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "body_nconsts={} cond_nconsts={}",
            self.body_constants, self.condition_constants
        )
    }

    fn bodies(&self) -> Vec<(&'static str, &Jaxpr)> {
        vec![
            ("body_jaxpr", &self.body.jaxpr),
            ("cond_jaxpr", &self.condition.jaxpr),
        ]
    }

    fn with_inputs(&self, bodies: Vec<Jaxpr>, count: usize) -> WithInputs {
        let mut bodies = bodies.into_iter();
        let body = self.body.derived(expect_next(&mut bodies, BODIES));
        let condition = self.condition.derived(expect_next(&mut bodies, BODIES));
        let primitive = Self::new(
            (condition, self.condition_constants + count),
            (body, self.body_constants + count),
        );
        (Arc::new(primitive), smallvec![0, self.condition_constants])
    }

    /// Returns the dtypes and shapes that the inputs and outputs of the condition and the body must have. The condition
    /// returns a bool, and the body returns the carry.
    fn signatures(&self, operands: &Infos<'_>, results: &[AbstractArray]) -> Signatures {
        let constants = self.condition_constants + self.body_constants;
        let of_condition = operands_at(operands, 0..self.condition_constants)?;
        let of_body = operands_at(operands, self.condition_constants..constants)?;
        let carry = operands_at(operands, constants..operands.len())?;
        let flag = AbstractArray::new(DType::Bool, []);
        Ok(vec![
            Signature::new(of_body.into_iter().chain(carry.iter().copied()), results),
            Signature::new(of_condition.into_iter().chain(carry), [&flag]),
        ])
    }

    fn may_call_host(&self) -> bool {
        self.condition.may_call_host || self.body.may_call_host
    }

    fn bind_under(&self, condition: Option<&Tensor>, operands: &[&Tensor]) -> Applied {
        let count = usize::from(condition.is_some());
        let mut holds = self.condition.under_condition(count > 0);
        if count > 0 && (self.condition.jaxpr.calls_host() || self.body.jaxpr.calls_host()) {
            // A loop that is not reached has no iterations: with zeros as results of the host, it might not end.
            let (jaxpr, _, ()) = stage(holds.recorder, &holds.input_infos(), |tensors| {
                let results = holds.jaxpr.apply(&tensors);
                (vec![&tensors[0] & &results[0]], ())
            });
            holds = holds.derived(jaxpr);
        }
        let body = self.body.under_condition(count > 0);
        let primitive = Self::new(
            (holds, self.condition_constants + count),
            (body, self.body_constants + count),
        );
        let places = [0, self.condition_constants];
        bind(&primitive, &with_condition(condition, operands, &places))
    }

    fn scratch(&self) -> usize {
        self.condition.needed().max(self.body.needed())
    }

    fn axis_names(&self) -> &[AxisName] {
        &self.axis_names
    }
}
