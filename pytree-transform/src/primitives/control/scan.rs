//! The scan primitive: a loop with a fixed number of iterations.
//!
//! The operands are the constants, the first carry and the stacked inputs. The results are the last carry and the
//! stacked outputs. If a carried value gets a batch axis or a tangent in any iteration, this value has a batch axis or
//! a tangent in all iterations. To find the set of these values, the body's rule is applied until the set stops growing
//! (a least fixed point).

mod derivatives;

use std::sync::Arc;

use pytree_base::bug::pairs;
use pytree_kernels::base::bits::with_bits;

use crate::base::axis_names::AxisName;
use crate::primitives::body::program::Slots;
use crate::primitives::body::rules::{
    arrays, bind_all, cotangents_of, known_and_cotangents, with_condition,
};
use crate::primitives::body::{Body, chosen, single_body};
use crate::primitives::control::carry::{fixed_point, with_mapped_carry};
use crate::primitives::create::or_zeros;
use crate::primitives::prelude::*;
use crate::primitives::shape::{move_axis, with_front};
use crate::tensor::jaxpr::{Jaxpr, RESULTS};
use crate::tensor::primitive::{Applied, Signature, Signatures, WithInputs, operands_at};
use crate::tensor::trace::{bind, on_tape};

/// Applies a body to each element of stacked inputs and passes a carry to the next iteration.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Scan {
    /// The function of one iteration, which takes the constants, the carry and one element of each input, and returns
    /// the carry and one element of each output.
    pub(crate) body: Arc<Body>,
    pub(crate) constants: usize,
    pub(crate) carry: usize,
    pub(crate) length: usize,
    /// Whether the loop runs from the last element to the first.
    pub(crate) reverse: bool,
}

impl Scan {
    fn with(&self, body: Arc<Body>, constants: usize, carry: usize) -> Self {
        Self {
            body,
            constants,
            carry,
            ..*self
        }
    }
}

/// Returns the element of a stacked array at `position` on the first axis.
fn element(stacked: &Array, position: usize) -> Array {
    let shape = &stacked.shape()[1..];
    let length: usize = shape.iter().product();
    let info = AbstractArray::new(stacked.dtype(), shape);
    let mut part = Array::reused(&info);
    with_bits!(stacked.dtype(), T => {
        let from = &stacked.bits::<T>()[position * length..(position + 1) * length];
        part.bits_mut::<T>().copy_from_slice(from);
    });
    part
}

/// Writes the element of a stacked array at `position` on the first axis.
fn put(stacked: &mut Array, position: usize, part: &Array) {
    let length = part.info.len();
    with_bits!(part.dtype(), T => {
        let to = stacked.bits_mut::<T>();
        to[position * length..(position + 1) * length].copy_from_slice(part.bits::<T>());
    });
}

impl Primitive for Scan {
    fn name(&self) -> &'static str {
        "scan"
    }

    fn abstract_evaluation(&self, _: &[&AbstractArray]) -> AbstractResults {
        let results = self.body.jaxpr.output_infos().enumerate();
        Ok(results
            .map(|(position, info)| {
                let mut info = info.clone();
                if position >= self.carry {
                    info.shape = with_front(self.length, &info.shape);
                }
                info
            })
            .collect())
    }

    /// Runs the iterations. Each iteration takes ownership of the previous iteration's carry, so the body may overwrite
    /// the memory of the carry.
    fn evaluate(&self, operands: Operands) -> Outputs<Array> {
        let mut operands = match self.body.evaluate_small(self, operands.into_vec()) {
            Ok(results) => return arrays(results),
            Err(operands) => operands,
        };
        let inputs = operands.split_off(self.constants + self.carry);
        let mut carry = operands.split_off(self.constants);
        let mut outputs: Vec<Array> = self
            .body
            .jaxpr
            .output_infos()
            .skip(self.carry)
            .map(|info| {
                Array::reused(&AbstractArray {
                    dtype: info.dtype,
                    shape: with_front(self.length, &info.shape),
                })
            })
            .collect();
        let positions = (0..self.length).map(|step| {
            if self.reverse {
                self.length - 1 - step
            } else {
                step
            }
        });
        let mut slots = Slots::new();
        for position in positions {
            let mut given = Vec::with_capacity(operands.len() + carry.len() + inputs.len());
            given.extend(operands.iter().cloned());
            given.append(&mut carry);
            given.extend(
                inputs
                    .iter()
                    .map(|input| Arc::new(element(input, position))),
            );
            carry = self.body.run_in(&mut slots, given);
            let parts = carry.split_off(self.carry);
            for (output, part) in pairs(&mut outputs, parts, RESULTS) {
                put(output, position, &part);
            }
        }
        carry
            .into_iter()
            .map(Arc::unwrap_or_clone)
            .chain(outputs)
            .collect()
    }

    fn jvp(&self, primals: &[Tensor], tangents: &[Option<Tensor>]) -> WithTangents {
        if tangents.iter().all(Option::is_none) {
            return alone(self, primals);
        }
        if on_tape(tangents.iter().flatten().cloned()) {
            self.linearized(primals, tangents)
        } else {
            self.pushed(primals, tangents)
        }
    }

    /// Transposes the scan to a scan in the opposite direction. The carry of the transposed scan holds the cotangents
    /// of this scan's carry, and for each constant the sum of its cotangents.
    fn transpose(&self, cotangents: &[Option<Tensor>], operands: &[Linear]) -> Cotangents {
        let all = self.constants + self.carry;
        let mut unknown: Vec<bool> = operands.iter().map(Linear::is_unknown).collect();
        unknown[self.constants..all].fill(true);
        let infos: Vec<AbstractArray> = self.body.jaxpr.output_infos().cloned().collect();
        let mut has: Vec<bool> = cotangents.iter().map(Option::is_some).collect();
        has[..self.carry].fill(true);
        // In the transposed loop, every carried value has a cotangent, even if the transpose of one iteration returns
        // `None` for this value.
        let of_constants = unknown[..self.constants].iter().filter(|&&is| is).count();
        let force = [vec![false; of_constants], vec![true; self.carry]].concat();
        let transposed = self.body.transposed(&unknown, &has, &force, &[]);
        let summed = &transposed.has_cotangent[..of_constants];
        let of_sums = summed.iter().filter(|&&has| has).count();

        let known_constants: Vec<Tensor> = known(&operands[..self.constants]);
        let known_inputs: Vec<Tensor> = known(&operands[all..]);
        let carry: Vec<Tensor> = cotangents[..self.carry]
            .iter()
            .zip(&infos)
            .map(|(cotangent, info)| or_zeros(cotangent.as_ref(), info))
            .collect();
        let unknown_constants: Vec<AbstractArray> = operands[..self.constants]
            .iter()
            .filter(|operand| operand.is_unknown())
            .map(Linear::info)
            .collect();
        let sums: Vec<Tensor> = chosen(&unknown_constants, summed)
            .map(|info| or_zeros(None, info))
            .collect();
        let of_known = known_constants.len();
        let inputs: Vec<Tensor> = known_constants
            .into_iter()
            .chain(sums)
            .chain(carry)
            .chain(known_inputs)
            .chain(cotangents[self.carry..].iter().flatten().cloned())
            .collect();
        let body = self.transposed_body(&transposed.body, &unknown, of_known, of_sums, &has);
        let scan = Self {
            reverse: !self.reverse,
            ..self.with(body, of_known, of_sums + self.carry)
        };
        let results = bind_all(&scan, &inputs);
        let cotangents = cotangents_of(results, &transposed.has_cotangent, &unknown);
        // All carried values were treated as unknown above, so drop the cotangents of known carried values.
        let wanted = |(cotangent, operand): (Option<Tensor>, &Linear)| {
            cotangent.filter(|_| operand.is_unknown())
        };
        cotangents.into_iter().zip(operands).map(wanted).collect()
    }

    fn batch(&self, operands: &[Tensor], axes: &[Option<usize>], batch: &BatchAxis) -> Batched {
        let size = batch.size;
        let all = self.constants + self.carry;
        let mut operands = operands.to_vec();
        let mut axes = axes.to_vec();
        // The scan loops over the first axis of each stacked input, and the body gets one element without this axis. So
        // in the body, the indices of the other axes are less by one.
        for (operand, axis) in operands[all..].iter_mut().zip(&mut axes[all..]) {
            if *axis == Some(0) {
                *operand = or_panic(move_axis(operand, 0, 1));
                *axis = Some(1);
            }
            *axis = axis.map(|axis| axis - 1);
        }
        let given = axes.clone();
        let first = axes[self.constants..all].iter().map(Option::is_some);
        let (carry, batched) = fixed_point(first.collect(), |carry| {
            for (axis, mapped) in axes[self.constants..all].iter_mut().zip(carry) {
                *axis = mapped.then_some(0);
            }
            let batched = self.body.batched(&axes, batch, carry);
            (batched.mapped[..self.carry].to_vec(), batched)
        });
        let operands = with_mapped_carry(&operands, &given, self.constants, &carry, size);
        let scan = self.with(Arc::clone(&batched.body), self.constants, self.carry);
        let results = bind_all(&scan, &operands);
        let axes = batched.mapped.iter().enumerate().map(|(position, mapped)| {
            let axis = usize::from(position >= self.carry);
            mapped.then_some(axis)
        });
        (results.into_iter().collect(), axes.collect())
    }

    /// Writes a `while` that passes the iteration counter, the carry and the stacked outputs from iteration to
    /// iteration. Each iteration writes one element of each stacked output.
    fn lower(&self, block: &mut Block<'_>, operands: &[Value], results: &Infos<'_>) -> Lowered {
        let (constants, rest) = operands.split_at(self.constants);
        let (carry, inputs) = rest.split_at(self.carry);
        let stacks = results[self.carry..].iter();
        let stacks: Vec<Value> = stacks.map(|info| block.number(info, 0.0)).collect();
        if self.length == 0 {
            return Ok(carry.iter().cloned().chain(stacks).collect());
        }
        let dtype = match i32::try_from(self.length) {
            Ok(_) => DType::I32,
            Err(_) => DType::I64,
        };
        let first = block.number(&AbstractArray::new(dtype, []), 0.0);
        let all: Vec<Value> = std::iter::once(first)
            .chain(carry.iter().cloned())
            .chain(stacks)
            .collect();
        let length = self.length as f64;
        let results = block.while_loop(
            &all,
            |block, all| Ok(vec![block.comparison_with("LT", &all[0], length)]),
            |block, all| {
                let (carry, stacks) = all[1..].split_at(self.carry);
                let position = if self.reverse {
                    let last = block.number_like(&all[0], length - 1.0);
                    block.binary("stablehlo.subtract", &last, &all[0])
                } else {
                    all[0].clone()
                };
                let elements = inputs
                    .iter()
                    .map(|input| block.element_at(input, &position));
                let elements: Vec<Value> = elements.collect();
                let given = [constants, carry, &elements].concat();
                let mut results = self.body.lower_call(block, &given)?;
                let parts = results.split_off(self.carry);
                let mut next = vec![block.binary_with("stablehlo.add", &all[0], 1.0)];
                next.append(&mut results);
                for (stack, part) in pairs(stacks, parts, RESULTS) {
                    next.push(block.with_element(stack, &part, &position));
                }
                Ok(next)
            },
        )?;
        Ok(results.into_iter().skip(1).collect())
    }

    fn write_parameters(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "length={} num_carry={} num_consts={} reverse={}",
            self.length, self.carry, self.constants, self.reverse
        )
    }

    fn bodies(&self) -> Vec<(&'static str, &Jaxpr)> {
        vec![("jaxpr", &self.body.jaxpr)]
    }

    fn with_inputs(&self, bodies: Vec<Jaxpr>, count: usize) -> WithInputs {
        let body = self.body.derived(single_body(bodies));
        let primitive = self.with(body, self.constants + count, self.carry);
        (Arc::new(primitive), smallvec![0])
    }

    /// Returns the dtypes and shapes that the inputs and outputs of the body must have.
    fn signatures(&self, operands: &Infos<'_>, results: &[AbstractArray]) -> Signatures {
        let element = |stacked: &AbstractArray| match stacked.shape.split_first() {
            Some((&length, shape)) if length == self.length => {
                Ok(AbstractArray::new(stacked.dtype, shape))
            }
            _ => Err(format!(
                "expected a first axis of length {}, found {stacked}",
                self.length
            )),
        };
        let whole = self.constants + self.carry;
        let mut inputs: Vec<AbstractArray> = operands_at(operands, 0..whole)?
            .into_iter()
            .cloned()
            .collect();
        for operand in &operands[whole..] {
            inputs.push(element(operand)?);
        }
        let (carry, stacked) = results
            .split_at_checked(self.carry)
            .ok_or("expected a result for each carried value")?;
        let mut outputs = carry.to_vec();
        for result in stacked {
            outputs.push(element(result)?);
        }
        Ok(vec![Signature { inputs, outputs }])
    }

    fn may_call_host(&self) -> bool {
        self.body.may_call_host
    }

    fn bind_under(&self, condition: Option<&Tensor>, operands: &[&Tensor]) -> Applied {
        let body = self.body.under_condition(condition.is_some());
        let constants = self.constants + usize::from(condition.is_some());
        bind(
            &self.with(body, constants, self.carry),
            &with_condition(condition, operands, &[0]),
        )
    }

    fn scratch(&self) -> usize {
        self.body.needed()
    }

    fn axis_names(&self) -> &[AxisName] {
        &self.body.axis_names
    }
}

/// Returns the values of the known operands.
fn known(operands: &[Linear]) -> Vec<Tensor> {
    known_and_cotangents(operands, &[])
}
