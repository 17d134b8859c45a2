//! Jaxprs: recorded functions of tensors as values.
//!
//! Invariants: each variable is assigned once, before its first use; a finished jaxpr holds no traced
//! tensor, since captured ones become inputs; each equation knows the user's line.

use std::fmt;
use std::panic::Location;
use std::sync::Arc;

use smallvec::SmallVec;

use crate::axis_names::AxisName;
use crate::dtype::AbstractArray;
use crate::primitive::{Outputs, Primitive};
use crate::tensor::Tensor;

/// A variable of a jaxpr.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Variable(pub(crate) u32);

impl Variable {
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for Variable {
    /// As letters: `a`, …, `z`, `ba`, …
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut letters = Vec::new();
        let mut rest = self.0;
        loop {
            letters.push(char::from(b'a' + u8::try_from(rest % 26).unwrap_or(0)));
            rest /= 26;
            if rest == 0 {
                break;
            }
        }
        letters
            .iter()
            .rev()
            .try_for_each(|letter| write!(f, "{letter}"))
    }
}

/// One operation of a jaxpr.
#[derive(Clone, Debug)]
pub(crate) struct Equation {
    pub(crate) primitive: Arc<dyn Primitive>,
    pub(crate) inputs: SmallVec<[Variable; 4]>,
    pub(crate) outputs: SmallVec<[Variable; 1]>,
    /// The user's line.
    pub(crate) line: &'static Location<'static>,
}

/// A recorded function.
#[derive(Clone, Debug)]
pub(crate) struct Jaxpr {
    pub(crate) variables: Vec<AbstractArray>,
    pub(crate) inputs: Vec<Variable>,
    pub(crate) constants: Vec<(Variable, Tensor)>,
    pub(crate) equations: Vec<Equation>,
    pub(crate) outputs: Vec<Variable>,
    /// The batch axes that it was recorded under and depends on, with their lengths.
    pub(crate) batch_axes: Vec<(AxisName, usize)>,
}

impl Jaxpr {
    pub(crate) fn info(&self, variable: Variable) -> &AbstractArray {
        &self.variables[variable.index()]
    }

    /// Element types and shapes of the outputs.
    pub(crate) fn output_infos(&self) -> impl Iterator<Item = &AbstractArray> {
        self.outputs.iter().map(|&variable| self.info(variable))
    }

    /// The names of the batch axes that its operations work over, each once.
    pub(crate) fn axis_names(&self) -> Vec<AxisName> {
        let mut names = Vec::new();
        for equation in &self.equations {
            let collective = equation.primitive.collective();
            for name in collective.iter().flat_map(|of| of.axis_names()) {
                if !names.contains(name) {
                    names.push(name.clone());
                }
            }
        }
        names
    }

    /// Removes the equations and constants that no output needs.
    pub(crate) fn without_dead_code(mut self) -> Self {
        let mut needed = vec![false; self.variables.len()];
        self.outputs
            .iter()
            .for_each(|output| needed[output.index()] = true);
        let mut kept = Vec::with_capacity(self.equations.len());
        for equation in self.equations.into_iter().rev() {
            if equation.outputs.iter().any(|output| needed[output.index()]) {
                equation
                    .inputs
                    .iter()
                    .for_each(|input| needed[input.index()] = true);
                kept.push(equation);
            }
        }
        kept.reverse();
        self.equations = kept;
        self.constants
            .retain(|(variable, _)| needed[variable.index()]);
        self
    }

    /// Applies the recorded function to tensors of whatever levels, operation by operation.
    pub(crate) fn apply(&self, inputs: &[Tensor]) -> Vec<Tensor> {
        let mut values: Vec<Option<Tensor>> = vec![None; self.variables.len()];
        for (variable, input) in self.inputs.iter().zip(inputs) {
            values[variable.index()] = Some(input.clone());
        }
        for (variable, constant) in &self.constants {
            values[variable.index()] = Some(constant.clone());
        }
        for equation in &self.equations {
            let operands: SmallVec<[&Tensor; 4]> = equation
                .inputs
                .iter()
                .filter_map(|input| values[input.index()].as_ref())
                .collect();
            let results = crate::trace::at_line(equation.line, || {
                crate::error::or_panic(crate::trace::bind(&*equation.primitive, &operands))
            });
            drop(operands);
            for (variable, result) in equation.outputs.iter().zip(results) {
                values[variable.index()] = Some(result);
            }
        }
        self.outputs
            .iter()
            .filter_map(|output| values[output.index()].clone())
            .collect()
    }
}

impl fmt::Display for Jaxpr {
    /// In JAX's notation: `{ lambda ; a:f32[3]. let b:f32[3] = sin a in (b,) }`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("{ lambda ")?;
        let mut constants = self
            .constants
            .iter()
            .filter(|(_, value)| literal(value).is_none());
        if let Some((variable, _)) = constants.next() {
            write!(f, "{variable}:{}", self.info(*variable))?;
        }
        constants
            .try_for_each(|(variable, _)| write!(f, " {variable}:{}", self.info(*variable)))?;
        f.write_str("; ")?;
        for (position, input) in self.inputs.iter().enumerate() {
            write!(
                f,
                "{}{input}:{}",
                if position == 0 { "" } else { " " },
                self.info(*input)
            )?;
        }
        f.write_str(". let\n")?;
        for equation in &self.equations {
            f.write_str("    ")?;
            for output in &equation.outputs {
                write!(f, "{output}:{} ", self.info(*output))?;
            }
            write!(f, "= {}", equation.primitive.name())?;
            let parameters = Parameters(&*equation.primitive).to_string();
            if !parameters.is_empty() {
                write!(f, "[{parameters}]")?;
            }
            for input in &equation.inputs {
                f.write_str(" ")?;
                self.write_variable(f, *input)?;
            }
            f.write_str("\n")?;
        }
        f.write_str("  in (")?;
        for (position, output) in self.outputs.iter().enumerate() {
            f.write_str(if position == 0 { "" } else { ", " })?;
            self.write_variable(f, *output)?;
        }
        f.write_str(if self.outputs.len() == 1 {
            ",) }"
        } else {
            ") }"
        })
    }
}

impl Jaxpr {
    /// A variable, or the value of a scalar constant.
    fn write_variable(&self, f: &mut fmt::Formatter<'_>, variable: Variable) -> fmt::Result {
        let constant = self
            .constants
            .iter()
            .find(|(constant, _)| *constant == variable);
        match constant.and_then(|(_, value)| literal(value)) {
            Some(text) => write!(f, "{text}:{}", self.info(variable)),
            None => write!(f, "{variable}"),
        }
    }
}

fn literal(value: &Tensor) -> Option<String> {
    (value.rank() == 0).then(|| value.to_string())
}

struct Parameters<'a>(&'a dyn Primitive);
impl fmt::Display for Parameters<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.write_parameters(f)
    }
}

/// Records equations.
#[derive(Debug, Default)]
pub(crate) struct Builder {
    pub(crate) variables: Vec<AbstractArray>,
    pub(crate) inputs: Vec<Variable>,
    pub(crate) constants: Vec<(Variable, Tensor)>,
    pub(crate) equations: Vec<Equation>,
    pub(crate) batch_axes: Vec<(AxisName, usize)>,
}

impl Builder {
    /// Remembers that what is recorded depends on a batch axis.
    pub(crate) fn depend_on(&mut self, name: &AxisName, length: usize) {
        if !self.batch_axes.iter().any(|(known, _)| known == name) {
            self.batch_axes.push((name.clone(), length));
        }
    }

    fn variable(&mut self, info: AbstractArray) -> Variable {
        self.variables.push(info);
        // More than 2^32 variables would need over 100 GB.
        Variable(u32::try_from(self.variables.len() - 1).unwrap_or(u32::MAX))
    }

    /// A new input.
    pub(crate) fn input(&mut self, info: AbstractArray) -> Variable {
        let variable = self.variable(info);
        self.inputs.push(variable);
        variable
    }

    /// The variable of a tensor from a level below.
    pub(crate) fn constant(&mut self, tensor: &Tensor) -> Variable {
        // Only recent constants are looked through: a repeat is nearly always near.
        if let Some((variable, _)) = self
            .constants
            .iter()
            .rev()
            .take(16)
            .find(|(_, known)| known.same_handle(tensor))
        {
            return *variable;
        }
        let variable = self.variable(tensor.info().clone());
        self.constants.push((variable, tensor.clone()));
        variable
    }

    /// Adds an equation.
    pub(crate) fn equation(
        &mut self,
        primitive: Arc<dyn Primitive>,
        inputs: SmallVec<[Variable; 4]>,
        results: &Outputs<AbstractArray>,
        line: &'static Location<'static>,
    ) -> SmallVec<[Variable; 1]> {
        let outputs: SmallVec<[Variable; 1]> = results
            .iter()
            .map(|info| self.variable(info.clone()))
            .collect();
        self.equations.push(Equation {
            primitive,
            inputs,
            outputs: outputs.clone(),
            line,
        });
        outputs
    }

    /// The recorded function, and the traced tensors it captured: they are its last inputs.
    pub(crate) fn finish(self, outputs: Vec<Variable>) -> (Jaxpr, Vec<Tensor>) {
        let mut inputs = self.inputs;
        let mut constants = Vec::new();
        let mut captured = Vec::new();
        for (variable, tensor) in self.constants {
            if tensor.tracer().is_some() {
                inputs.push(variable);
                captured.push(tensor);
            } else {
                constants.push((variable, tensor));
            }
        }
        (
            Jaxpr {
                variables: self.variables,
                inputs,
                constants,
                equations: self.equations,
                outputs,
                batch_axes: self.batch_axes,
            },
            captured,
        )
    }
}
