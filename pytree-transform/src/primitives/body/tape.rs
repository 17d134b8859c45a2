//! Reverse-mode differentiation: a tape of linear operations, and its transposition.
//!
//! `grad` runs the function on values that carry tangents, and records the operations on tangents on a tape. The
//! operations are linear in the tangents, so the tape can be transposed. The transposition runs from the last operation
//! to the first. A residual is freed after the transposition of the first operation that uses this residual, because
//! earlier operations do not need the residual.

use std::cell::RefCell;
use std::rc::Rc;

use pytree_base::bug::pairs;
use pytree_kernels::base::dtype::AbstractArray;
use smallvec::SmallVec;

use crate::base::error::or_panic;
use crate::primitives::create::{Broadcast, Full};
use crate::primitives::elementwise::sum_of;
use crate::tensor::Tensor;
use crate::tensor::device::beside;
use crate::tensor::jaxpr::{Builder, Equation, INPUTS, Jaxpr, RESULTS, Variable};
use crate::tensor::primitive::{Linear, ToShared, one};
use crate::tensor::stage::called_once;
use crate::tensor::trace::{Interpreter, Payload, Trace, at_line, bind, current_line};

/// The expected cotangents, as text for the panic message of a library bug.
const COTANGENTS: &str = "a cotangent, or none for zeros, for each output";

/// The linear operations on tangents that were recorded while a function ran.
#[derive(Debug)]
pub(crate) struct Tape {
    pub(crate) builder: Builder,
    /// For each output, the variable of its tangent, or `None` if the tangent is zeros.
    pub(crate) outputs: Vec<Option<Variable>>,
}

/// Runs a function with tangents for the inputs that `active` marks, and records the operations on tangents on a tape.
///
/// `run` maps the inputs to outputs and an extra value for the caller. Returns the outputs without their tangents, the
/// tape and the extra value.
pub(crate) fn linearize<R>(
    inputs: &[Tensor],
    active: &[bool],
    run: impl FnOnce(Vec<Tensor>) -> (Vec<Tensor>, R),
) -> (Vec<Tensor>, Tape, R) {
    let ((primals, tape), rest) = called_once(run, |run| linearize_results(inputs, active, run));
    (primals, tape, rest)
}

/// Runs a function with tangents like [`linearize`], without its extra value.
fn linearize_results(
    inputs: &[Tensor],
    active: &[bool],
    run: &mut dyn FnMut(Vec<Tensor>) -> Vec<Tensor>,
) -> (Vec<Tensor>, Tape) {
    let builder = Rc::new(RefCell::new(Builder::default()));
    let tape = Trace::begin(Interpreter::Tape(Rc::clone(&builder)));
    let duals = Trace::begin(Interpreter::Jvp);
    let traced = pairs(inputs, active, INPUTS)
        .map(|(input, &active)| {
            if !active {
                return input.clone();
            }
            let variable = builder.borrow_mut().input(input.info().clone());
            let tangent = tape.tensor(input.info().clone(), Payload::Tape(variable));
            duals.dual(input.clone(), Some(tangent))
        })
        .collect();
    let results = run(traced);
    let mut primals = Vec::with_capacity(results.len());
    let mut outputs = Vec::with_capacity(results.len());
    for result in &results {
        let (primal, tangent) = or_panic(duals.undual(result));
        primals.push(primal);
        // A tangent that is not on the tape does not depend on the input tangents. Every tangent is linear in the input
        // tangents, so a tangent that does not depend on them is zero.
        outputs.push(tangent.and_then(|tangent| or_panic(tape.variable(&tangent))));
    }
    drop(results);
    drop(duals);
    drop(tape);
    let builder = builder.take();
    (primals, Tape { builder, outputs })
}

/// Records a function that is linear in its inputs, which are tangents. Also returns an extra value of the function. A
/// result that does not depend on the tangents becomes a constant of the tape.
pub(crate) fn record_linear<R>(
    infos: &[AbstractArray],
    run: impl FnOnce(Vec<Tensor>) -> (Vec<Tensor>, R),
) -> (Tape, R) {
    let builder = Rc::new(RefCell::new(Builder::default()));
    let tape = Trace::begin(Interpreter::Tape(Rc::clone(&builder)));
    let tangents = infos
        .iter()
        .map(|info| {
            let variable = builder.borrow_mut().input(info.clone());
            tape.tensor(info.clone(), Payload::Tape(variable))
        })
        .collect();
    let (results, rest) = run(tangents);
    let outputs = results
        .iter()
        .map(|result| {
            let variable = or_panic(tape.variable(result));
            Some(variable.unwrap_or_else(|| builder.borrow_mut().constant(result)))
        })
        .collect();
    drop(results);
    drop(tape);
    let builder = builder.take();
    (Tape { builder, outputs }, rest)
}

impl Tape {
    /// Computes the cotangents of the active inputs from the cotangents of the outputs. `None` means zeros.
    pub(crate) fn transpose(self, cotangents: Vec<Option<Tensor>>) -> Vec<Option<Tensor>> {
        let Builder {
            variables,
            inputs,
            constants,
            equations,
            ..
        } = self.builder;
        let mut backward = Transposition::new(variables.len(), constants, &equations);
        backward.begin(&self.outputs, cotangents);
        for (position, equation) in equations.into_iter().enumerate().rev() {
            backward.step(&variables, &equation);
            backward.free_residuals(position);
        }
        backward.of_inputs(&inputs)
    }

    /// Returns the tape as a jaxpr, and the tape's residuals. The inputs of the jaxpr are the tangents of the active
    /// inputs, followed by the traced residuals. The jaxpr omits outputs whose tangent is zeros.
    pub(crate) fn into_jaxpr(mut self) -> (Jaxpr, Vec<Tensor>) {
        repeat_numbers(&mut self.builder);
        let outputs = self.outputs.into_iter().flatten().collect();
        let (jaxpr, captured) = self.builder.finish(outputs);
        (jaxpr, captured)
    }

    /// Gives an output a tangent even if the tangent is zeros.
    #[track_caller]
    pub(crate) fn force(&mut self, output: usize, info: &AbstractArray) {
        if self.outputs[output].is_some() {
            return;
        }
        let zeros = Full {
            dtype: info.dtype,
            shape: info.shape.clone(),
            value: 0.0,
        };
        let results = self.builder.equation(
            zeros.to_shared(),
            SmallVec::new(),
            &one(info.clone()),
            current_line(),
        );
        self.outputs[output] = Some(results[0]);
    }

    /// Transposes like [`transpose`](Self::transpose), but leaves the tape intact for another transposition.
    pub(crate) fn transpose_again(&self, cotangents: Vec<Option<Tensor>>) -> Vec<Option<Tensor>> {
        let builder = &self.builder;
        let count = builder.variables.len();
        let mut backward = Transposition::new(count, builder.constants.clone(), &[]);
        backward.begin(&self.outputs, cotangents);
        for equation in builder.equations.iter().rev() {
            backward.step(&builder.variables, equation);
        }
        backward.of_inputs(&builder.inputs)
    }
}

/// Repeats the numbers that the operations on a tape have as operands. A jaxpr has their repetitions.
fn repeat_numbers(builder: &mut Builder) {
    for mut equation in std::mem::take(&mut builder.equations) {
        let Some(&output) = equation.outputs.first() else {
            builder.equations.push(equation);
            continue;
        };
        let output = builder.variables[output.index()].clone();
        let inputs = equation.inputs.iter_mut();
        for input in inputs.filter(|_| equation.primitive.elementwise().is_some()) {
            let info = &builder.variables[input.index()];
            if info.shape == output.shape {
                continue;
            }
            let repeated = AbstractArray::new(info.dtype, &output.shape);
            let broadcast = Broadcast {
                axes: (output.rank() - info.rank()..output.rank()).collect(),
                shape: output.shape.clone(),
            };
            let (operands, results) = (smallvec::smallvec![*input], one(repeated));
            *input = builder.equation(broadcast.to_shared(), operands, &results, equation.line)[0];
        }
        builder.equations.push(equation);
    }
}

/// The state of a transposition.
struct Transposition {
    known: Vec<Option<Tensor>>,
    cotangents: Vec<Option<Tensor>>,
    /// For each equation, the residuals that no earlier equation uses. The transposition runs backward, so it frees
    /// these residuals after this equation.
    first_uses: Vec<SmallVec<[Variable; 2]>>,
}

impl Transposition {
    fn new(count: usize, constants: Vec<(Variable, Tensor)>, equations: &[Equation]) -> Self {
        let mut known = vec![None; count];
        for (variable, tensor) in constants {
            known[variable.index()] = Some(tensor);
        }
        let mut seen = vec![false; count];
        let first_uses = equations
            .iter()
            .map(|equation| {
                equation
                    .inputs
                    .iter()
                    .filter(|input| {
                        known[input.index()].is_some()
                            && !std::mem::replace(&mut seen[input.index()], true)
                    })
                    .copied()
                    .collect()
            })
            .collect();
        Self {
            known,
            cotangents: vec![None; count],
            first_uses,
        }
    }

    /// Sets the cotangents of the outputs that are on the tape.
    fn begin(&mut self, outputs: &[Option<Variable>], cotangents: Vec<Option<Tensor>>) {
        for (variable, cotangent) in pairs(outputs, cotangents, COTANGENTS) {
            if let Some(variable) = *variable {
                self.accumulate(variable, cotangent);
            }
        }
    }

    /// Returns the cotangents of the inputs, after all equations are transposed.
    fn of_inputs(&mut self, inputs: &[Variable]) -> Vec<Option<Tensor>> {
        let cotangents = inputs.iter();
        cotangents
            .map(|input| self.cotangents[input.index()].take())
            .collect()
    }

    fn accumulate(&mut self, variable: Variable, cotangent: Option<Tensor>) {
        if self.known[variable.index()].is_none() {
            let slot = &mut self.cotangents[variable.index()];
            *slot = sum_of(slot.take(), cotangent);
        }
    }

    /// Transposes one equation.
    fn step(&mut self, variables: &[AbstractArray], equation: &Equation) {
        let mut cotangents: SmallVec<[Option<Tensor>; 1]> = equation
            .outputs
            .iter()
            .map(|output| self.cotangents[output.index()].take())
            .collect();
        if cotangents.iter().all(Option::is_none) {
            return;
        }
        let operands: SmallVec<[Linear; 4]> = equation
            .inputs
            .iter()
            .map(|input| match &self.known[input.index()] {
                Some(tensor) => Linear::Known(tensor.clone()),
                None => Linear::Unknown(variables[input.index()].clone()),
            })
            .collect();
        let of_operands = operands.iter().filter_map(Linear::value);
        let _device = beside(cotangents.iter().flatten().chain(of_operands));
        at_line(equation.line, || {
            let primitive = &equation.primitive;
            let inputs = equation.inputs.iter();
            let mut sums: SmallVec<[Option<Tensor>; 4]> = match primitive.callee() {
                Some(_) => inputs
                    .map(|it| self.cotangents[it.index()].take())
                    .collect(),
                None => SmallVec::new(),
            };
            let results = primitive.transpose_onto(&mut cotangents, &operands, &mut sums);
            let results = results.unwrap_or_else(|| {
                for (input, sum) in equation.inputs.iter().zip(sums) {
                    self.accumulate(*input, sum);
                }
                primitive.transpose(&cotangents, &operands)
            });
            let expected = "as many cotangents as an equation has operands";
            for (input, cotangent) in pairs(&equation.inputs, results, expected) {
                self.accumulate(*input, cotangent);
            }
        });
    }

    fn free_residuals(&mut self, position: usize) {
        for variable in &self.first_uses[position] {
            self.known[variable.index()] = None;
        }
    }
}

/// Transposes a jaxpr that is linear in its unknown operands. The cotangents of the operands are added to `sums`.
pub(crate) fn transpose_jaxpr(
    jaxpr: &Jaxpr,
    operands: &[Linear],
    cotangents: &[Option<Tensor>],
    sums: Vec<Option<Tensor>>,
) -> Vec<Option<Tensor>> {
    let mut backward = Transposition::new(jaxpr.variables.len(), jaxpr.constants.clone(), &[]);
    for (input, sum) in jaxpr.inputs.iter().zip(sums) {
        backward.cotangents[input.index()] = sum;
    }
    for (input, operand) in pairs(&jaxpr.inputs, operands, INPUTS) {
        if let Linear::Known(tensor) = operand {
            backward.known[input.index()] = Some(tensor.clone());
        }
    }
    let mut linear = Vec::with_capacity(jaxpr.equations.len());
    for equation in &jaxpr.equations {
        // Evaluate an equation whose operands are all known. An equation with an unknown operand is linear in this
        // operand, and is transposed below.
        let operands: SmallVec<[&Tensor; 4]> = equation
            .inputs
            .iter()
            .filter_map(|input| backward.known[input.index()].as_ref())
            .collect();
        if operands.len() < equation.inputs.len() {
            linear.push(equation);
            continue;
        }
        let results = at_line(equation.line, || {
            or_panic(bind(&*equation.primitive, &operands))
        });
        drop(operands);
        for (output, result) in pairs(&equation.outputs, results, RESULTS) {
            backward.known[output.index()] = Some(result);
        }
    }
    for (output, cotangent) in pairs(&jaxpr.outputs, cotangents, COTANGENTS) {
        backward.accumulate(*output, cotangent.clone());
    }
    for equation in linear.into_iter().rev() {
        backward.step(&jaxpr.variables, equation);
    }
    backward.of_inputs(&jaxpr.inputs)
}
