//! Jaxprs, the recorded functions of tensors.
//!
//! Invariants: each variable is assigned once, before its first use. A finished jaxpr holds no traced tensors, because
//! captured tensors become inputs. [`verify`](crate::verify()) checks these two invariants. Each equation stores the
//! line of the user's program that recorded it.

mod builder;
mod variable;

use std::any::Any;
use std::convert::Infallible;
use std::panic::Location;
use std::sync::Arc;

use pytree_base::bug::{bug, expect_some, pairs};
use pytree_derive::panicking_twin;
use pytree_kernels::base::array::Array;
use pytree_kernels::base::dtype::AbstractArray;
use smallvec::SmallVec;

use crate::base::axis_names::AxisName;
use crate::base::error::{TensorError, or_panic, or_too_large};
use crate::tensor::handle::Tensor;
use crate::tensor::primitive::Primitive;

pub(crate) use self::builder::Builder;
pub(crate) use self::variable::Variable;

/// The expected numbers of values while a jaxpr runs, as panic messages name them after a library bug. If a value were
/// missing, all later values would be assigned to the wrong variables.
pub(crate) const INPUTS: &str = "as many values as a jaxpr has inputs";
pub(crate) const OPERAND: &str = "a value for each operand of an equation";
pub(crate) const RESULTS: &str = "as many results as an equation has outputs";
pub(crate) const OUTPUT: &str = "a value for each output of a jaxpr";
const CONCRETE: &str = "the constants of a jaxpr to be untraced";

/// Returns the array of a constant of a jaxpr on the host. The elements of a constant on a device are read.
#[track_caller]
pub(crate) fn constant_array(constant: &Tensor) -> &Arc<Array> {
    if constant.is_traced() {
        bug(CONCRETE);
    }
    or_panic(constant.value())
}

/// One operation of a jaxpr.
#[derive(Clone, Debug)]
pub(crate) struct Equation {
    pub(crate) primitive: Arc<dyn Primitive>,
    pub(crate) inputs: SmallVec<[Variable; 4]>,
    pub(crate) outputs: SmallVec<[Variable; 1]>,
    /// The line of the user's program that recorded the operation.
    pub(crate) line: &'static Location<'static>,
}

/// A function of tensors that was recorded as inputs, equations and outputs, for instance by
/// [`make_jaxpr`](crate::make_jaxpr).
///
/// A jaxpr is displayed in JAX's notation. `{ lambda ; a:f32[3]. let b:f32[3] = sin a in (b,) }` maps a vector `a` to
/// the sines of its elements. Captured tensors are listed before the semicolon. Captured scalars are written where they
/// are used, for instance as `2.0:f32[]`. The name `_` marks a result that is not used.
///
/// # Examples
/// ```
/// use pytree_transform::{Tensor, make_jaxpr, verify};
/// let jaxpr = make_jaxpr(|x: Tensor| x.sin() * x)(Tensor::from([1.0_f32, 2.0]));
/// assert_eq!(
///     jaxpr.to_string(),
///     "{ lambda ; a:f32[2]. let b:f32[2] = sin a; c:f32[2] = mul b a in (c,) }"
/// );
/// assert_eq!(jaxpr.equations().map(|equation| equation.name()).collect::<Vec<_>>(), ["sin", "mul"]);
/// assert_eq!(verify(&jaxpr), Ok(()));
/// let results = jaxpr.evaluate(&[Tensor::from([0.0_f32, 0.0])]);
/// assert_eq!(results, [Tensor::from([0.0_f32, 0.0])]);
/// ```
#[doc(alias("jax.core.Jaxpr", "torch.fx.Graph"))]
#[derive(Clone)]
pub struct Jaxpr {
    pub(crate) variables: Vec<AbstractArray>,
    pub(crate) inputs: Vec<Variable>,
    pub(crate) constants: Vec<(Variable, Tensor)>,
    pub(crate) equations: Vec<Equation>,
    pub(crate) outputs: Vec<Variable>,
    /// The batch axes on which the jaxpr depends, each with its length during the recording.
    pub(crate) batch_axes: Vec<(AxisName, usize)>,
}

impl Jaxpr {
    /// Returns the dtypes and shapes of the inputs.
    pub fn inputs(&self) -> Vec<&AbstractArray> {
        self.inputs.iter().map(|&input| self.info(input)).collect()
    }

    /// Returns the dtypes and shapes of the outputs.
    pub fn outputs(&self) -> Vec<&AbstractArray> {
        self.output_infos().collect()
    }

    /// Returns the constants: the tensors that the recorded function captured, and the numbers in its code.
    pub fn constants(&self) -> impl ExactSizeIterator<Item = &Tensor> {
        self.constants.iter().map(|(_, tensor)| tensor)
    }

    /// Returns whether running the jaxpr has a side effect, for instance printing.
    pub fn has_effect(&self) -> bool {
        self.equations
            .iter()
            .any(|equation| equation.primitive.has_effect())
    }

    /// Returns whether running the jaxpr may call a function of the user on the host.
    pub(crate) fn calls_host(&self) -> bool {
        self.equations.iter().any(|equation| {
            let bodies = equation.primitive.bodies();
            let calls = bodies.iter().any(|(_, body)| body.calls_host());
            calls || (bodies.is_empty() && equation.primitive.may_call_host())
        })
    }

    /// Returns whether a run may fail; see [`Primitive::can_fail`](crate::tensor::primitive::Primitive::can_fail).
    pub(crate) fn can_fail(&self) -> bool {
        self.equations
            .iter()
            .any(|equation| equation.primitive.can_fail())
    }

    /// Evaluates the jaxpr operation by operation, and returns the outputs. The inputs must have the recorded shapes
    /// and dtypes. The inputs may be traced, so a jaxpr can be differentiated, batched and recorded like any function.
    ///
    /// # Panics
    /// Panics if the number of inputs differs from the recorded jaxpr, or if the shape or dtype of an input differs.
    /// The message names every difference.
    #[doc(alias = "jax.core.eval_jaxpr")]
    #[panicking_twin(evaluate, Shape)]
    pub fn try_evaluate(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>, TensorError> {
        let expected = self.inputs();
        let mut problems = Vec::new();
        if inputs.len() != expected.len() {
            problems.push(format!(
                "expected {} inputs, found {}",
                expected.len(),
                inputs.len()
            ));
        }
        for (position, (input, expected)) in inputs.iter().zip(expected).enumerate() {
            if input.info() != expected {
                problems.push(format!(
                    "expected {expected} for input {position}, found {}",
                    input.info()
                ));
            }
        }
        if problems.is_empty() {
            return or_too_large(|| "evaluate a jaxpr", || Ok(self.apply(inputs)));
        }
        Err(TensorError::Shape {
            operation: "evaluate a jaxpr on",
            found: inputs.iter().map(|input| input.info().clone()).collect(),
            problem: problems.join(", "),
            fix: "pass inputs of the recorded shapes and dtypes, or record the function again with `make_jaxpr`"
                .to_owned(),
        })
    }

    /// Returns all variables of the jaxpr, in the order of their positions.
    pub(crate) fn all_variables(&self) -> impl Iterator<Item = Variable> + use<> {
        (0..self.variables.len()).map(Variable::at)
    }

    pub(crate) fn info(&self, variable: Variable) -> &AbstractArray {
        &self.variables[variable.index()]
    }

    /// Returns the dtypes and shapes of the outputs.
    pub(crate) fn output_infos(&self) -> impl Iterator<Item = &AbstractArray> {
        self.outputs.iter().map(|&variable| self.info(variable))
    }

    /// Returns the names of the batch axes that operations of the jaxpr use, each once.
    pub(crate) fn axis_names(&self) -> Vec<AxisName> {
        let mut names = Vec::new();
        for equation in &self.equations {
            for name in equation.primitive.axis_names() {
                if !names.contains(name) {
                    names.push(name.clone());
                }
            }
        }
        names
    }

    /// Returns the recorded length of a named batch axis, or `None` if the jaxpr does not depend on this axis.
    pub(crate) fn batch_axis(&self, name: &AxisName) -> Option<usize> {
        let mut axes = self.batch_axes.iter();
        axes.find_map(|(known, length)| (known == name).then_some(*length))
    }

    /// Adds an input that no equation or output uses, and returns its variable.
    pub(crate) fn unused_input(&mut self, info: AbstractArray) -> Variable {
        self.variables.push(info);
        Variable::at(self.variables.len() - 1)
    }

    /// Returns, for each variable, its constant, or `None` if the variable is not a constant.
    pub(crate) fn constants_by_variable(&self) -> Vec<Option<&Tensor>> {
        let mut constants = vec![None; self.variables.len()];
        for (variable, tensor) in &self.constants {
            constants[variable.index()] = Some(tensor);
        }
        constants
    }

    /// Returns, for each variable, the position of the equation that assigns it, or `None` if the variable is an input
    /// or a constant.
    pub(crate) fn makers(&self) -> Vec<Option<usize>> {
        let mut makers = vec![None; self.variables.len()];
        for (position, equation) in self.equations.iter().enumerate() {
            for output in &equation.outputs {
                makers[output.index()] = Some(position);
            }
        }
        makers
    }

    /// Returns, for each variable, its first position among the inputs, or `None` if the variable is not an input.
    pub(crate) fn input_positions(&self) -> Vec<Option<usize>> {
        let mut positions = vec![None; self.variables.len()];
        for (position, input) in self.inputs.iter().enumerate() {
            positions[input.index()].get_or_insert(position);
        }
        positions
    }

    /// Returns, for each variable, whether it depends on at least one of `inputs`.
    pub(crate) fn depending_on(&self, inputs: &[Variable]) -> Vec<bool> {
        let mut depends = vec![false; self.variables.len()];
        inputs
            .iter()
            .for_each(|input| depends[input.index()] = true);
        for equation in &self.equations {
            if equation.inputs.iter().any(|input| depends[input.index()]) {
                equation
                    .outputs
                    .iter()
                    .for_each(|output| depends[output.index()] = true);
            }
        }
        depends
    }

    /// Returns, for each variable, whether at least one of `outputs` depends on it.
    pub(crate) fn needed_by(&self, outputs: impl Iterator<Item = Variable>) -> Vec<bool> {
        let mut needed = vec![false; self.variables.len()];
        outputs.for_each(|output| needed[output.index()] = true);
        for equation in self.equations.iter().rev() {
            if equation.outputs.iter().any(|output| needed[output.index()]) {
                equation
                    .inputs
                    .iter()
                    .for_each(|input| needed[input.index()] = true);
            }
        }
        needed
    }

    /// Removes the equations and constants that no output needs. Also removes equations with a side effect.
    pub(crate) fn only_needed(mut self) -> Self {
        let needed = self.needed_by(self.outputs.iter().copied());
        self.equations
            .retain(|equation| equation.outputs.iter().any(|output| needed[output.index()]));
        self.constants
            .retain(|(variable, _)| needed[variable.index()]);
        self
    }

    /// Removes the equations and constants that neither an output nor an equation with a side effect needs.
    pub(crate) fn without_dead_code(mut self) -> Self {
        let mut needed = vec![false; self.variables.len()];
        for output in &self.outputs {
            needed[output.index()] = true;
        }
        let is_needed = |equation: &Equation, needed: &[bool]| {
            let mut outputs = equation.outputs.iter();
            outputs.any(|output| needed[output.index()]) || equation.primitive.has_effect()
        };
        for equation in self.equations.iter().rev() {
            if is_needed(equation, &needed) {
                for input in &equation.inputs {
                    needed[input.index()] = true;
                }
            }
        }
        self.equations
            .retain(|equation| is_needed(equation, &needed));
        self.constants
            .retain(|(variable, _)| needed[variable.index()]);
        self
    }

    /// Applies the recorded function to tensors, operation by operation. The tensors may belong to any trace levels.
    pub(crate) fn apply(&self, inputs: &[Tensor]) -> Vec<Tensor> {
        let each = |equation: &Equation, operands: &[&Tensor]| {
            Ok::<_, Infallible>(equation.apply(operands))
        };
        let Ok(outputs) = self.run(inputs.iter().cloned(), Tensor::clone, each);
        outputs
    }

    /// Runs the jaxpr with values of any type. `constant` returns the value of a constant, and `each` the results of an
    /// equation.
    ///
    /// # Errors
    /// Returns the first error of `each`.
    pub(crate) fn run<V: Clone, R: IntoIterator<Item = V, IntoIter: ExactSizeIterator>, E>(
        &self,
        inputs: impl ExactSizeIterator<Item = V>,
        mut constant: impl FnMut(&Tensor) -> V,
        mut each: impl FnMut(&Equation, &[&V]) -> Result<R, E>,
    ) -> Result<Vec<V>, E> {
        let mut values: Vec<Option<V>> = vec![None; self.variables.len()];
        for (variable, input) in pairs(&self.inputs, inputs, INPUTS) {
            values[variable.index()] = Some(input);
        }
        for (variable, tensor) in &self.constants {
            values[variable.index()] = Some(constant(tensor));
        }
        for equation in &self.equations {
            let operands: SmallVec<[&V; 4]> = equation
                .inputs
                .iter()
                .map(|input| expect_some(values[input.index()].as_ref(), OPERAND))
                .collect();
            let results = each(equation, &operands)?;
            drop(operands);
            for (variable, result) in pairs(&equation.outputs, results, RESULTS) {
                values[variable.index()] = Some(result);
            }
        }
        let outputs = self.outputs.iter();
        Ok(outputs
            .map(|output| expect_some(values[output.index()].clone(), OUTPUT))
            .collect())
    }
}

impl Equation {
    /// Returns the parameters of the operation if its primitive has the type `P`.
    pub(crate) fn parameters<P: 'static>(&self) -> Option<&P> {
        let primitive: &dyn Any = &*self.primitive;
        primitive.downcast_ref()
    }
}
