//! The derivatives of a scan. A JVP is one loop over values and tangents. In reverse mode, the JVP is split into a loop
//! over values and a linear loop over tangents, and the linear loop is transposed.

use std::sync::Arc;

use pytree_base::bug::pairs;
use pytree_kernels::base::dtype::AbstractArray;

use crate::primitives::body::Body;
use crate::primitives::body::rules::{bind_all, with_tangents};
use crate::primitives::call::call;
use crate::primitives::control::carry::{fixed_point, with_carry_tangents};
use crate::primitives::control::scan::Scan;
use crate::tensor::Tensor;
use crate::tensor::jaxpr::Variable;
use crate::tensor::primitive::WithTangents;
use crate::tensor::stage::stage;
use crate::tensor::trace::{Recorder, under};

/// Where the linear loop of a scan gets a residual of the body.
enum Residual {
    /// The residual is the operand of the scan at this position.
    Operand(usize),
    /// The residual depends only on constants, so it is computed once. The number is the position of the residual among
    /// the residuals that are computed once.
    Invariant(usize),
    /// The residual is a stacked output of the known loop. The number is the position of this output.
    Stacked(usize),
}

impl Scan {
    fn flags(before: &[bool], carry: &[bool], after: &[bool]) -> Vec<bool> {
        [before, carry, after].concat()
    }

    /// Computes the results and their tangents in one loop.
    pub(super) fn pushed(&self, primals: &[Tensor], tangents: &[Option<Tensor>]) -> WithTangents {
        let of_constants = self.constants;
        let active: Vec<bool> = tangents.iter().map(Option::is_some).collect();
        let all = of_constants + self.carry;
        let (carry, pushed) = fixed_point(active[of_constants..all].to_vec(), |carry| {
            let active = Self::flags(&active[..of_constants], carry, &active[all..]);
            let pushed = self.body.pushed(&active, carry);
            (pushed.has_tangent[..self.carry].to_vec(), pushed)
        });
        let active = Self::flags(&active[..of_constants], &carry, &active[all..]);
        let tangents = with_carry_tangents(primals, tangents, of_constants, &carry);
        // The inputs of the body are all primals, followed by the tangents of the active primals. The loop expects each
        // group of primals (constants, carry, stacked inputs) followed by its tangents.
        let mut place = active.len();
        let places: Vec<Option<usize>> = active
            .iter()
            .map(|&active| {
                place += usize::from(active);
                active.then_some(place - 1)
            })
            .collect();
        let parts = [0..of_constants, of_constants..all, all..active.len()];
        let mut inputs = Vec::new();
        let mut operands = Vec::new();
        for part in parts.clone() {
            inputs.extend(part.clone());
            operands.extend_from_slice(&primals[part.clone()]);
            inputs.extend(places[part.clone()].iter().flatten());
            operands.extend(tangents[part].iter().flatten().cloned());
        }
        let count = pushed.has_tangent.len();
        let active_carry = carry.iter().filter(|&&active| active).count();
        let of_outputs = pushed.has_tangent.iter().filter(|&&has| has).count();
        let outputs: Vec<usize> = (0..self.carry)
            .chain(count..count + active_carry)
            .chain(self.carry..count)
            .chain(count + active_carry..count + of_outputs)
            .collect();
        let constants = of_constants + places[parts[0].clone()].iter().flatten().count();
        let body = pushed.body.rearranged(&inputs, &outputs);
        let scan = self.with(body, constants, self.carry + active_carry);
        let mut values = bind_all(&scan, &operands);
        let mut tail = values.split_off(self.carry + active_carry);
        let mut tangents = values.split_off(self.carry);
        tangents.extend(tail.split_off(count - self.carry));
        values.extend(tail);
        with_tangents(values, tangents, &pushed.has_tangent)
    }

    /// Computes the results in one loop and the tangents in another loop. The first loop also stacks the residuals.
    pub(super) fn linearized(
        &self,
        primals: &[Tensor],
        tangents: &[Option<Tensor>],
    ) -> WithTangents {
        let first = self.constants;
        let active: Vec<bool> = tangents.iter().map(Option::is_some).collect();
        let all = first + self.carry;
        let (carry, split) = fixed_point(active[first..all].to_vec(), |carry| {
            let active = Self::flags(&active[..first], carry, &active[all..]);
            let split = self.body.linearized(&active, carry);
            (split.has_tangent[..self.carry].to_vec(), split)
        });
        let active = Self::flags(&active[..first], &carry, &active[all..]);
        let tangents = with_carry_tangents(primals, tangents, first, &carry);
        let count = split.outputs;
        let (residuals, invariant, stacked) = self.residuals(&split.known, count);

        let inputs: Vec<usize> = (0..active.len()).collect();
        let outputs: Vec<usize> = (0..count).chain(stacked).collect();
        let known = self.with(split.known.rearranged(&inputs, &outputs), first, self.carry);
        let mut values = bind_all(&known, primals);
        let stacks = values.split_off(count);
        let invariants = if invariant.is_empty() {
            Vec::new()
        } else {
            let used = split.known.needed_inputs(&invariant);
            let body = split.known.rearranged(&used, &invariant);
            let operands: Vec<Tensor> = used.iter().map(|&at| primals[at].clone()).collect();
            under(None, || call(&body, &operands))
        };

        // The operands of the linear loop (constants, carry and stacked inputs). Each operand is stored with its
        // position among the inputs of the body.
        let mut constants: Vec<(usize, Tensor)> = Vec::new();
        let mut carries: Vec<(usize, Tensor)> = Vec::new();
        let mut elements: Vec<(usize, Tensor)> = Vec::new();
        let mut place = 0;
        for (position, tangent) in tangents.into_iter().enumerate() {
            let Some(tangent) = tangent else { continue };
            let part = if position < first {
                &mut constants
            } else if position < all {
                &mut carries
            } else {
                &mut elements
            };
            part.push((place, tangent));
            place += 1;
        }
        for residual in residuals {
            match residual {
                Residual::Operand(at) if at < first => constants.push((place, primals[at].clone())),
                Residual::Operand(at) => elements.push((place, primals[at].clone())),
                Residual::Invariant(at) => constants.push((place, invariants[at].clone())),
                Residual::Stacked(at) => elements.push((place, stacks[at].clone())),
            }
            place += 1;
        }
        let of_tangents = split.has_tangent.iter().filter(|&&has| has).count();
        let (of_constants, of_carries) = (constants.len(), carries.len());
        let (inputs, operands): (Vec<usize>, Vec<Tensor>) =
            constants.into_iter().chain(carries).chain(elements).unzip();
        let outputs: Vec<usize> = (0..of_tangents).collect();
        let body = split.linear.rearranged(&inputs, &outputs);
        let linear = self.with(body, of_constants, of_carries);
        with_tangents(values, bind_all(&linear, &operands), &split.has_tangent)
    }

    /// Returns the source of each residual of the body, the outputs of the known body that are computed once, and the
    /// outputs that are stacked.
    fn residuals(&self, known: &Body, outputs: usize) -> (Vec<Residual>, Vec<usize>, Vec<usize>) {
        let jaxpr = &known.jaxpr;
        let effects = jaxpr.equations.iter();
        let effects = effects.filter(|equation| equation.primitive.has_result_of_effect());
        let of_effects = effects.flat_map(|equation| &equation.outputs);
        let of_elements = &jaxpr.inputs[self.constants..];
        let varying: Vec<Variable> = of_elements.iter().chain(of_effects).copied().collect();
        let varying = jaxpr.depending_on(&varying);
        let carry = self.constants..self.constants + self.carry;
        let (mut invariant, mut stacked) = (Vec::new(), Vec::new());
        let inputs = jaxpr.input_positions();
        let residuals = jaxpr
            .outputs
            .iter()
            .enumerate()
            .skip(outputs)
            .map(|(position, residual)| {
                let operand = inputs[residual.index()];
                match operand.filter(|operand| !carry.contains(operand)) {
                    Some(operand) => Residual::Operand(operand),
                    None if varying[residual.index()] => {
                        stacked.push(position);
                        Residual::Stacked(stacked.len() - 1)
                    }
                    None => {
                        invariant.push(position);
                        Residual::Invariant(invariant.len() - 1)
                    }
                }
            })
            .collect();
        (residuals, invariant, stacked)
    }

    /// Returns the body of the transposed scan. The body transposes one iteration, and adds the cotangents of the
    /// constants to their sums.
    pub(super) fn transposed_body(
        &self,
        transposed: &Body,
        unknown: &[bool],
        known_constants: usize,
        sums: usize,
        has: &[bool],
    ) -> Arc<Body> {
        let all = self.constants + self.carry;
        let infos = transposed.input_infos();
        // The arguments of one transposed iteration: the known constants, the known elements of the scanned inputs, the
        // cotangents of the carry, and the cotangents of the elements of the stacked outputs.
        let known_elements = unknown[all..].iter().filter(|&&unknown| !unknown).count();
        let of_outputs = has[self.carry..].iter().filter(|&&has| has).count();
        let carry_at = known_constants + known_elements;
        let results: Vec<AbstractArray> = transposed.jaxpr.output_infos().cloned().collect();
        let given: Vec<AbstractArray> = infos[..known_constants]
            .iter()
            .chain(&results[..sums])
            .chain(&infos[carry_at..carry_at + self.carry])
            .chain(&infos[known_constants..carry_at])
            .chain(&infos[carry_at + self.carry..carry_at + self.carry + of_outputs])
            .cloned()
            .collect();
        let (jaxpr, _, ()) = stage(Recorder::Scan, &given, |mut tensors| {
            let elements = tensors.split_off(known_constants + sums + self.carry);
            let carry = tensors.split_off(known_constants + sums);
            let before = tensors.split_off(known_constants);
            let (known, of_outputs) = elements.split_at(known_elements);
            let inputs: Vec<Tensor> = tensors
                .into_iter()
                .chain(known.iter().cloned())
                .chain(carry)
                .chain(of_outputs.iter().cloned())
                .collect();
            let mut results = transposed.jaxpr.apply(&inputs);
            for (sum, before) in pairs(&mut results[..sums], before, "a sum for each constant") {
                *sum = before + &*sum;
            }
            (results, ())
        });
        self.body.derived(jaxpr)
    }
}
