//! The verifier of jaxprs. It checks that
//!
//! - each variable is assigned once, and before it is used;
//! - each constant is concrete and has the recorded dtype and shape;
//! - the shape rule of each equation accepts its operands and returns the recorded dtypes and shapes;
//! - the batch axes that an equation uses were bound when the jaxpr was recorded, with the same lengths;
//! - the inputs and outputs of each body (of a call, custom rule or control flow) fit the operands and results of its
//!   equation;
//! - each output of the jaxpr exists;
//! - nested jaxprs follow all of these rules.

use pytree_kernels::base::dtype::AbstractArray;
use thiserror::Error;

use crate::base::error::TensorError;
use crate::tensor::jaxpr::{Equation, Jaxpr, Variable};

/// An error in a jaxpr.
#[derive(Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum JaxprError {
    /// A variable that the jaxpr does not contain.
    #[error("variable {variable} of {place} is not in the jaxpr")]
    Unknown {
        /// The index of the variable.
        variable: u32,
        /// The equation, or another part of the jaxpr, that uses or assigns the variable, as text.
        place: String,
    },
    /// A variable that is assigned twice.
    #[error("variable {variable} is assigned by {place}, but was assigned before")]
    AssignedTwice {
        /// The index of the variable.
        variable: u32,
        /// The equation, or another part of the jaxpr, that assigns the variable again, as text.
        place: String,
    },
    /// A variable that is used before it is assigned.
    #[error("variable {variable} is used by {place} before it is assigned")]
    Unassigned {
        /// The index of the variable.
        variable: u32,
        /// The equation, or another part of the jaxpr, that uses the variable, as text.
        place: String,
    },
    /// A constant that is traced, or that differs from the recorded dtype or shape.
    #[error("constant {variable} is {found}, but was recorded as {recorded}")]
    Constant {
        /// The index of the variable.
        variable: u32,
        /// The recorded dtype and shape.
        recorded: AbstractArray,
        /// The dtype and shape of the constant, as text.
        found: String,
    },
    /// An equation whose shape rule rejects its operands.
    #[error("{place}: {error}")]
    Refused {
        /// The equation that has the error, as text.
        place: String,
        /// The error of the shape rule.
        error: TensorError,
    },
    /// An equation whose recorded results differ from the results that its shape rule returns.
    #[error(
        "{place} has the results {}, but its shape rule gives {}",
        list(recorded),
        list(expected)
    )]
    Results {
        /// The equation that has the error, as text.
        place: String,
        /// The recorded dtypes and shapes of the results.
        recorded: Vec<AbstractArray>,
        /// The dtypes and shapes of the results that the shape rule returns.
        expected: Vec<AbstractArray>,
    },
    /// An equation that has too few or too many operands for its bodies, or operands of a wrong shape or dtype.
    #[error("{place}: {problem}")]
    Operands {
        /// The equation that has the error, as text.
        place: String,
        /// The expected and the found operands, as text.
        problem: String,
    },
    /// A body whose inputs differ from the inputs that its equation passes.
    #[error(
        "{place} passes the inputs {} to `{body}`, which takes {}",
        list(found),
        list(expected)
    )]
    BodyInputs {
        /// The equation that has the error, as text.
        place: String,
        /// The name of the parameter that holds the body, for instance `jaxpr`.
        body: &'static str,
        /// The dtypes and shapes that the equation passes to the body.
        found: Vec<AbstractArray>,
        /// The dtypes and shapes that the body takes.
        expected: Vec<AbstractArray>,
    },
    /// A body whose outputs differ from the outputs that its equation needs.
    #[error(
        "{place} needs the outputs {} from `{body}`, which returns {}",
        list(expected),
        list(found)
    )]
    BodyOutputs {
        /// The equation that has the error, as text.
        place: String,
        /// The name of the parameter that holds the body, for instance `jaxpr`.
        body: &'static str,
        /// The dtypes and shapes that the equation needs from the body.
        expected: Vec<AbstractArray>,
        /// The dtypes and shapes that the body returns.
        found: Vec<AbstractArray>,
    },
    /// An equation that uses an unbound batch axis: no `vmap` bound the axis when the jaxpr was recorded.
    #[error(
        "{place} works over the batch axis `{name}`, which was not bound when the jaxpr was recorded"
    )]
    UnboundAxis {
        /// The equation that has the error, as text.
        place: String,
        /// The name of the batch axis.
        name: String,
    },
    /// An equation that expects a batch axis to have a different length than it had when the jaxpr was recorded.
    #[error(
        "{place} expects the batch axis `{name}` to have length {found}, but it had length {expected} when the jaxpr was recorded"
    )]
    AxisLength {
        /// The equation that has the error, as text.
        place: String,
        /// The name of the batch axis.
        name: String,
        /// The length of the batch axis when the jaxpr was recorded.
        expected: usize,
        /// The length of the batch axis that the equation expects.
        found: usize,
    },
    /// An error in a nested jaxpr.
    #[error("in `{body}` of {place}: {error}")]
    Nested {
        /// The equation that has the error, as text.
        place: String,
        /// The name of the parameter that holds the nested jaxpr.
        body: &'static str,
        /// The error in the nested jaxpr.
        error: Box<JaxprError>,
    },
}

pytree_base::debug_as_display!(JaxprError);

fn list(infos: &[AbstractArray]) -> String {
    let infos: Vec<String> = infos.iter().map(ToString::to_string).collect();
    format!("({})", infos.join(", "))
}

/// Checks that a jaxpr is well formed. Debug builds of the library run this check after each recording and after each
/// compiler pass.
///
/// # Examples
/// ```
/// use pytree_transform::{Tensor, make_jaxpr, verify};
/// let jaxpr = make_jaxpr(|x: Tensor| x.exp().sum())(Tensor::from([1.0_f32, 2.0]));
/// assert_eq!(verify(&jaxpr), Ok(()));
/// ```
///
/// # Errors
/// Returns a [`JaxprError`] for each rule that the jaxpr violates.
pub fn verify(jaxpr: &Jaxpr) -> Result<(), Vec<JaxprError>> {
    check(jaxpr, true)
}

/// Verifies a jaxpr in debug builds, and panics on an error, because a malformed jaxpr is a bug in the library. Nested
/// jaxprs are skipped: they were verified when they were recorded.
#[track_caller]
pub(crate) fn debug_verify(jaxpr: &Jaxpr, after: &str) {
    if cfg!(debug_assertions)
        && let Err(errors) = check(jaxpr, false)
    {
        let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
        panic!(
            "this is a bug in pytree: expected a well-formed jaxpr after {after}, found that {}; please report it\n{jaxpr}",
            errors.join("; ")
        );
    }
}

fn check(jaxpr: &Jaxpr, nested: bool) -> Result<(), Vec<JaxprError>> {
    let mut verifier = Verifier {
        jaxpr,
        nested,
        assigned: vec![false; jaxpr.variables.len()],
        errors: Vec::new(),
    };
    verifier.run();
    if verifier.errors.is_empty() {
        Ok(())
    } else {
        Err(verifier.errors)
    }
}

struct Verifier<'j> {
    jaxpr: &'j Jaxpr,
    nested: bool,
    assigned: Vec<bool>,
    errors: Vec<JaxprError>,
}

impl Verifier<'_> {
    fn run(&mut self) {
        let jaxpr = self.jaxpr;
        for (variable, tensor) in &jaxpr.constants {
            self.assign(*variable, &|| "the constants".to_owned());
            let traced = tensor.is_traced();
            if let Some(recorded) = jaxpr.variables.get(variable.index())
                && (traced || tensor.info() != recorded)
            {
                let found = tensor.info();
                self.errors.push(JaxprError::Constant {
                    variable: variable.0,
                    recorded: recorded.clone(),
                    found: if traced {
                        format!("a traced {found}")
                    } else {
                        found.to_string()
                    },
                });
            }
        }
        for input in &jaxpr.inputs {
            self.assign(*input, &|| "the inputs".to_owned());
        }
        for (position, equation) in jaxpr.equations.iter().enumerate() {
            let place = || describe(equation, position);
            let before = self.errors.len();
            for input in &equation.inputs {
                self.use_of(*input, &place);
            }
            if self.errors.len() == before {
                self.types(equation, &place);
            }
            for output in &equation.outputs {
                self.assign(*output, &place);
            }
        }
        for output in &jaxpr.outputs {
            self.use_of(*output, &|| "the outputs".to_owned());
        }
    }

    fn assign(&mut self, variable: Variable, place: &dyn Fn() -> String) {
        match self.assigned.get_mut(variable.index()) {
            None => self.errors.push(JaxprError::Unknown {
                variable: variable.0,
                place: place(),
            }),
            Some(assigned) if *assigned => self.errors.push(JaxprError::AssignedTwice {
                variable: variable.0,
                place: place(),
            }),
            Some(assigned) => *assigned = true,
        }
    }

    fn use_of(&mut self, variable: Variable, place: &dyn Fn() -> String) {
        match self.assigned.get(variable.index()) {
            None => self.errors.push(JaxprError::Unknown {
                variable: variable.0,
                place: place(),
            }),
            Some(false) => self.errors.push(JaxprError::Unassigned {
                variable: variable.0,
                place: place(),
            }),
            Some(true) => {}
        }
    }

    /// Checks the dtypes and shapes of an equation. The caller has checked that the operands are variables of the
    /// jaxpr.
    fn types(&mut self, equation: &Equation, place: &dyn Fn() -> String) {
        let jaxpr = self.jaxpr;
        let operands: Vec<&AbstractArray> = equation
            .inputs
            .iter()
            .map(|input| jaxpr.info(*input))
            .collect();
        // The function `assign` reports outputs that are not variables of the jaxpr.
        let recorded: Vec<AbstractArray> = equation
            .outputs
            .iter()
            .filter_map(|output| jaxpr.variables.get(output.index()).cloned())
            .collect();
        let before = self.errors.len();
        self.signatures(equation, &operands, &recorded, place);
        if self.errors.len() > before {
            return;
        }
        self.nested(equation, place);
        self.batch_axes(equation, place);
        match equation.primitive.abstract_evaluation(&operands) {
            Err(error) => self.errors.push(JaxprError::Refused {
                place: place(),
                error,
            }),
            Ok(expected) if expected[..] != recorded[..] => {
                self.errors.push(JaxprError::Results {
                    place: place(),
                    recorded,
                    expected: expected.to_vec(),
                });
            }
            Ok(_) => {}
        }
    }

    /// Checks that the bodies of an equation fit its operands and results.
    fn signatures(
        &mut self,
        equation: &Equation,
        operands: &[&AbstractArray],
        results: &[AbstractArray],
        place: &dyn Fn() -> String,
    ) {
        let bodies = equation.primitive.bodies();
        if bodies.is_empty() {
            return;
        }
        let signatures = match equation.primitive.signatures(operands, results) {
            Ok(signatures) if signatures.len() == bodies.len() => signatures,
            Ok(signatures) => {
                return self.errors.push(JaxprError::Operands {
                    place: place(),
                    problem: format!(
                        "expected a signature for each of {} bodies, found {}",
                        bodies.len(),
                        signatures.len()
                    ),
                });
            }
            Err(problem) => {
                return self.errors.push(JaxprError::Operands {
                    place: place(),
                    problem,
                });
            }
        };
        for ((name, body), signature) in bodies.into_iter().zip(signatures) {
            let (inputs, outputs) = (body.inputs(), body.outputs());
            if !inputs.iter().copied().eq(&signature.inputs) {
                self.errors.push(JaxprError::BodyInputs {
                    place: place(),
                    body: name,
                    found: signature.inputs,
                    expected: inputs.into_iter().cloned().collect(),
                });
            }
            if !outputs.iter().copied().eq(&signature.outputs) {
                self.errors.push(JaxprError::BodyOutputs {
                    place: place(),
                    body: name,
                    expected: signature.outputs,
                    found: outputs.into_iter().cloned().collect(),
                });
            }
        }
    }

    /// Checks that the batch axes that an equation uses were bound, with the same lengths, when the jaxpr was recorded.
    fn batch_axes(&mut self, equation: &Equation, place: &dyn Fn() -> String) {
        for name in equation.primitive.axis_names() {
            let Some(expected) = self.jaxpr.batch_axis(name) else {
                self.errors.push(JaxprError::UnboundAxis {
                    place: place(),
                    name: name.to_string(),
                });
                continue;
            };
            let bodies = equation.primitive.bodies().into_iter();
            let of_bodies = bodies.filter_map(|(_, body)| body.batch_axis(name));
            let lengths = equation.primitive.axis_length().into_iter();
            for found in lengths
                .chain(of_bodies)
                .filter(|&length| length != expected)
            {
                self.errors.push(JaxprError::AxisLength {
                    place: place(),
                    name: name.to_string(),
                    expected,
                    found,
                });
            }
        }
    }

    /// Checks the jaxprs nested in an equation.
    fn nested(&mut self, equation: &Equation, place: &dyn Fn() -> String) {
        if !self.nested {
            return;
        }
        for (name, body) in equation.primitive.bodies() {
            for error in verify(body).err().into_iter().flatten() {
                self.errors.push(JaxprError::Nested {
                    place: place(),
                    body: name,
                    error: Box::new(error),
                });
            }
        }
    }
}

/// Describes an equation for messages. Does not display the jaxpr, because a malformed jaxpr may have no display.
fn describe(equation: &Equation, position: usize) -> String {
    format!(
        "equation {position} (`{}`, from {})",
        equation.primitive.name(),
        equation.line
    )
}

#[cfg(test)]
mod tests;
