//! The primitive that calls one of several branches.

use std::collections::HashMap;
use std::sync::Arc;

use pytree_base::bug::{expect_at, expect_next, pairs};
use pytree_kernels::loops::elementwise::{Comparison, Unary};
use pytree_kernels::loops::reduction::Reduction;

use crate::base::axis_names::AxisName;
use crate::primitives::body::rules::{
    arrays, bind_all, cotangents_of, known_and_cotangents, mapped_in_front, tangents_behind,
    with_condition, with_tangents,
};
use crate::primitives::body::{BODIES, Body, all_axis_names};
use crate::primitives::call::call;
use crate::primitives::control::agreement::check_agreement;
use crate::primitives::create::{self, broadcast_in_dim};
use crate::primitives::elementwise::{compare_with, unary};
use crate::primitives::prelude::*;
use crate::primitives::reduce::reduce_by;
use crate::primitives::select::select;
use crate::primitives::shape::batch_axis_first;
use crate::tensor::jaxpr::Jaxpr;
use crate::tensor::primitive::{Applied, Signature, Signatures, WithInputs, operands_at};
use crate::tensor::stage::stage;
use crate::tensor::trace::{bind, on_tape};

/// Calls one of its branches. The first operand is the index of the branch. An index out of range is clipped.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Cond {
    pub(crate) branches: Vec<Arc<Body>>,
    /// The names of the batch axes that the collectives of any branch use.
    axis_names: Vec<AxisName>,
}

impl Cond {
    pub(crate) fn new(branches: Vec<Arc<Body>>) -> Self {
        let axis_names = all_axis_names(&branches);
        Self {
            branches,
            axis_names,
        }
    }

    /// Returns which of some branches an index selects. As in JAX, an index below 0 selects the first branch, and an index that is too
    /// large selects the last branch.
    pub(crate) fn branch(index: i32, branches: usize) -> usize {
        usize::try_from(index).unwrap_or(0).min(branches - 1)
    }

    fn outputs(&self) -> Vec<AbstractArray> {
        let first = expect_at(&self.branches, 0, BRANCH);
        first.jaxpr.output_infos().cloned().collect()
    }

    /// Applies a derivation to all branches so that the flags of the results agree. For instance, if the derivation
    /// gives one branch a tangent at an output, it gives all branches a tangent at this output.
    fn agreed<D>(
        &self,
        derive: impl Fn(&Body, &[bool]) -> Arc<D>,
        has: impl Fn(&D) -> &[bool],
    ) -> (Vec<Arc<D>>, Vec<bool>) {
        let any = |derived: &[Arc<D>]| {
            let mut flags: Vec<bool> = Vec::new();
            for derived in derived {
                let own = has(derived);
                if flags.is_empty() {
                    flags = own.to_vec();
                }
                pairs(
                    &mut flags,
                    own,
                    "each branch to have the same number of outputs",
                )
                .for_each(|(flag, own)| *flag |= own);
            }
            flags
        };
        let free: Vec<Arc<D>> = self.branches.iter().map(|body| derive(body, &[])).collect();
        let flags = any(&free);
        if free.iter().all(|derived| has(derived) == flags) {
            return (free, flags);
        }
        let forced = self.branches.iter().map(|body| derive(body, &flags));
        (forced.collect(), flags)
    }

    fn pushed(
        &self,
        primals: &[Tensor],
        active: &[bool],
        tangents: impl Iterator<Item = Tensor>,
    ) -> WithTangents {
        let (pushed, has_tangent) = self.agreed(
            |body, force| body.pushed(active, force),
            |pushed| &pushed.has_tangent,
        );
        let operands: Vec<Tensor> = primals.iter().cloned().chain(tangents).collect();
        let branches = pushed.iter().map(|it| Arc::clone(&it.body)).collect();
        tangents_behind(bind_all(&Self::new(branches), &operands), &has_tangent)
    }

    /// Splits all branches into a known and a linear part. The selected branch returns its own residuals, and zeros for
    /// the residuals of the other branches. Residuals of different branches share one result if their shapes and dtypes
    /// are equal.
    fn linearized(
        &self,
        primals: &[Tensor],
        active: &[bool],
        tangents: impl Iterator<Item = Tensor>,
    ) -> WithTangents {
        let (splits, has_tangent) = self.agreed(
            |body, force| body.linearized(active, force),
            |split| &split.has_tangent,
        );
        let (places, taken) = shared_places(splits.iter().map(|split| {
            let infos = split.known.jaxpr.output_infos();
            infos.skip(split.outputs)
        }));
        let known = splits.iter().zip(&taken).map(|(split, own)| {
            let (jaxpr, _, ()) = stage(
                split.known.recorder,
                &split.known.input_infos(),
                |tensors| {
                    let mut results = split.known.jaxpr.apply(&tensors);
                    let residuals = results.split_off(split.outputs);
                    for (info, own) in places.iter().zip(own) {
                        let zeros = || create::zeros(info);
                        results.push(own.map_or_else(zeros, |own| residuals[own].clone()));
                    }
                    (results, ())
                },
            );
            split.known.derived(jaxpr)
        });
        let branches = known.collect();
        let mut results = bind_all(&Self::new(branches), primals);
        let residuals = results.split_off(has_tangent.len());

        let of_tangents = active.iter().filter(|&&active| active).count();
        let linear = splits.iter().zip(&taken).map(|(split, own)| {
            let mut jaxpr = split.linear.jaxpr.clone();
            let own_inputs = jaxpr.inputs.split_off(of_tangents);
            for (info, own) in places.iter().zip(own) {
                let input = match *own {
                    Some(own) => own_inputs[own],
                    None => jaxpr.unused_input(info.clone()),
                };
                jaxpr.inputs.push(input);
            }
            split.linear.derived(jaxpr)
        });
        let branches = linear.collect();
        let operands: Vec<Tensor> = primals[..1]
            .iter()
            .cloned()
            .chain(tangents)
            .chain(residuals)
            .collect();
        let tangents = bind_all(&Self::new(branches), &operands);
        with_tangents(results, tangents, &has_tangent)
    }

    /// Returns, for each example, whether its index selects the branch at `position`.
    fn is_taken(&self, index: &Tensor, position: usize) -> Tensor {
        let place = position as f64;
        if position == 0 {
            compare_with(Comparison::Le, index, place)
        } else if position + 1 == self.branches.len() {
            compare_with(Comparison::Ge, index, place)
        } else {
            compare_with(Comparison::Eq, index, place)
        }
    }

    /// Checks that a branch contains no collective over a mesh axis along which the index may differ. Returns the index of
    /// the first device: the caller needs only to know which results differ, and no device takes another branch than its
    /// own.
    fn of_first_device(&self, index: &Tensor, axis: usize, batch: &BatchAxis) -> Tensor {
        let (chooser, place) = if self.branches.len() == 2 {
            ("the predicate", "a branch of the `cond`")
        } else {
            ("the index", "a branch of the `switch`")
        };
        check_agreement(&self.branches, batch, chooser, place);
        or_panic(reduce_by(Reduction::Max, index, &[axis]))
    }

    /// Runs each branch for all examples, and selects the results of each example by the example's index.
    fn by_example(
        &self,
        operands: &[Tensor],
        axes: &[Option<usize>],
        batch: &BatchAxis,
    ) -> Vec<Tensor> {
        let size = batch.size;
        let index = or_panic(batch_axis_first(&operands[0], axes[0], size));
        let all = vec![true; self.outputs().len()];
        let of_branch = |(position, branch): (usize, &Arc<Body>)| {
            let taken = self.is_taken(&index, position);
            let (mut operands, mut axes) = guarded(&taken, &operands[1..], &axes[1..], size);
            if branch.may_call_host {
                operands.insert(0, taken.clone());
                axes.insert(0, Some(0));
            }
            let batched = branch.partial().batched(&axes, batch, &all);
            (taken, call(&batched.body, &operands))
        };
        let select_where = |taken: &Tensor, result: &Tensor, other: &Tensor| {
            let condition = or_panic(broadcast_in_dim(taken, result.shape(), &[0]));
            or_panic(select(&condition, result, other))
        };
        let mut branches = self.branches.iter().enumerate().map(of_branch);
        let (taken, mut chosen) = expect_next(&mut branches, BRANCH);
        if self.branches.len() > 2 {
            // No selection has a NaN of a branch that its example does not take, which `debug_nans` would report.
            for chosen in &mut chosen {
                *chosen = select_where(&taken, chosen, &create::zeros_like(chosen));
            }
        }
        for (taken, results) in branches {
            for (chosen, result) in pairs(
                &mut chosen,
                results,
                "each branch to have the same number of outputs",
            ) {
                *chosen = select_where(&taken, &result, chosen);
            }
        }
        chosen
    }
}

/// Assigns each residual of each branch a position in the list of results. Residuals of different branches share a
/// position if their shapes and dtypes are equal. Also returns, for each branch and position, the residual that the
/// branch stores at the position.
fn shared_places<'j, R>(
    residuals: impl Iterator<Item = R>,
) -> (Vec<AbstractArray>, Vec<Vec<Option<usize>>>)
where
    R: Iterator<Item = &'j AbstractArray>,
{
    let mut places = Vec::new();
    let mut of_info: HashMap<&AbstractArray, Vec<usize>> = HashMap::new();
    let mut taken: Vec<Vec<Option<usize>>> = residuals
        .map(|own| {
            let mut taken = vec![None; places.len()];
            let mut met: HashMap<&AbstractArray, usize> = HashMap::new();
            for (residual, info) in own.enumerate() {
                let (known, before) = (
                    of_info.entry(info).or_default(),
                    met.entry(info).or_default(),
                );
                if let Some(&place) = known.get(*before) {
                    taken[place] = Some(residual);
                } else {
                    known.push(places.len());
                    places.push(info.clone());
                    taken.push(Some(residual));
                }
                *before += 1;
            }
            taken
        })
        .collect();
    for taken in &mut taken {
        taken.resize(places.len(), None);
    }
    (places, taken)
}

/// Returns the operands of a branch that runs for all examples. Stops the gradients of the examples that do not select
/// the branch, so a NaN derivative of such an example cannot reach the result.
fn guarded(
    taken: &Tensor,
    operands: &[Tensor],
    axes: &[Option<usize>],
    size: usize,
) -> (Vec<Tensor>, Vec<Option<usize>>) {
    let guard = |(operand, &axis): (&Tensor, &Option<usize>)| {
        if !operand.dtype().is_float() || !operand.is_traced() {
            return (operand.clone(), axis);
        }
        let operand = or_panic(batch_axis_first(operand, axis, size));
        let taken = or_panic(broadcast_in_dim(taken, operand.shape(), &[0]));
        let stopped = or_panic(unary(Unary::StopGradient, &operand));
        let guarded = or_panic(select(&taken, &operand, &stopped));
        (guarded, Some(0))
    };
    operands.iter().zip(axes).map(guard).unzip()
}

/// The expected branches, as text for the panic message of a library bug.
const BRANCH: &str = "at least one branch";

impl Primitive for Cond {
    fn name(&self) -> &'static str {
        "cond"
    }

    fn abstract_evaluation(&self, _: &[&AbstractArray]) -> AbstractResults {
        Ok(self.outputs().into_iter().collect())
    }

    fn evaluate(&self, operands: Operands) -> Outputs<Array> {
        let mut operands = operands.into_iter();
        let index = expect_next(&mut operands, "the index of a branch");
        let index = Self::branch(index.elements::<i32>()[0], self.branches.len());
        arrays(self.branches[index].run(operands.collect()))
    }

    fn jvp(&self, primals: &[Tensor], tangents: &[Option<Tensor>]) -> WithTangents {
        let active: Vec<bool> = tangents[1..].iter().map(Option::is_some).collect();
        let tangents = tangents.iter().flatten().cloned();
        if !active.contains(&true) {
            return alone(self, primals);
        }
        if on_tape(tangents.clone()) {
            self.linearized(primals, &active, tangents)
        } else {
            self.pushed(primals, &active, tangents)
        }
    }

    fn transpose(&self, cotangents: &[Option<Tensor>], operands: &[Linear]) -> Cotangents {
        let unknown: Vec<bool> = operands.iter().map(Linear::is_unknown).collect();
        let has: Vec<bool> = cotangents.iter().map(Option::is_some).collect();
        let (transposed, has_cotangent) = self.agreed(
            |body, force| body.transposed(&unknown[1..], &has, force, &[]),
            |transposed| &transposed.has_cotangent,
        );
        let branches = transposed.iter().map(|it| Arc::clone(&it.body)).collect();
        let inputs = known_and_cotangents(operands, cotangents);
        let results = bind_all(&Self::new(branches), &inputs);
        cotangents_of(results, &has_cotangent, &unknown)
    }

    fn batch(&self, operands: &[Tensor], axes: &[Option<usize>], batch: &BatchAxis) -> Batched {
        if let (Some(axis), true) = (axes[0], batch.is_mesh) {
            let index = self.of_first_device(&operands[0], axis, batch);
            let operands = [&[index], &operands[1..]].concat();
            let all = vec![true; self.outputs().len()];
            let batched = self.branches.iter();
            let batched = batched.map(|body| body.batched(&axes[1..], batch, &all));
            let branches = batched.map(|batched| Arc::clone(&batched.body)).collect();
            return mapped_in_front(bind_all(&Self::new(branches), &operands), &all);
        }
        if axes[0].is_some() {
            let results = self.by_example(operands, axes, batch);
            let mapped = vec![true; results.len()];
            return mapped_in_front(results, &mapped);
        }
        let (batched, mapped) = self.agreed(
            |body, force| body.batched(&axes[1..], batch, force),
            |batched| &batched.mapped,
        );
        let branches = batched.iter().map(|it| Arc::clone(&it.body)).collect();
        mapped_in_front(bind_all(&Self::new(branches), operands), &mapped)
    }

    /// Writes a `case`. StableHLO runs the last branch for an index below 0, so such an index is replaced by 0.
    fn lower(&self, block: &mut Block<'_>, operands: &[Value], results: &Infos<'_>) -> Lowered {
        let zero = block.number_like(&operands[0], 0.0);
        let index = block.binary("stablehlo.maximum", &operands[0], &zero);
        let results = results.iter().map(|&info| info.clone());
        let none = format_args!("");
        let results =
            block.operation_with_regions("stablehlo.case", &[&index], none, results, |block| {
                self.branches.iter().try_for_each(|branch| {
                    block.region([], |block, _| branch.lower_call(block, &operands[1..]))
                })
            })?;
        Ok(results.into())
    }

    fn bodies(&self) -> Vec<(&'static str, &Jaxpr)> {
        let branches = self.branches.iter();
        branches.map(|branch| ("branches", &branch.jaxpr)).collect()
    }

    fn with_inputs(&self, bodies: Vec<Jaxpr>, _: usize) -> WithInputs {
        let branches = pairs(&self.branches, bodies, BODIES);
        let branches = branches.map(|(branch, jaxpr)| branch.derived(jaxpr));
        (Arc::new(Self::new(branches.collect())), smallvec![1])
    }

    fn signatures(&self, operands: &Infos<'_>, results: &[AbstractArray]) -> Signatures {
        let index = operands_at(operands, 0..1)?[0];
        if *index != AbstractArray::new(DType::I32, []) {
            return Err(format!("expected an index i32[], found {index}"));
        }
        if self.branches.is_empty() {
            return Err("expected a branch, found none".to_owned());
        }
        let signature = Signature::new(operands[1..].iter().copied(), results);
        Ok(vec![signature; self.branches.len()])
    }

    fn may_call_host(&self) -> bool {
        self.branches.iter().any(|branch| branch.may_call_host)
    }

    fn bind_under(&self, condition: Option<&Tensor>, operands: &[&Tensor]) -> Applied {
        let branches = self.branches.iter();
        let branches = branches.map(|branch| branch.under_condition(condition.is_some()));
        bind(
            &Self::new(branches.collect()),
            &with_condition(condition, operands, &[1]),
        )
    }

    fn scratch(&self) -> usize {
        self.branches
            .iter()
            .map(|branch| branch.needed())
            .max()
            .unwrap_or(0)
    }

    fn axis_names(&self) -> &[AxisName] {
        &self.axis_names
    }
}
