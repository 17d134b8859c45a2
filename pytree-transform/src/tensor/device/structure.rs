//! The structure of operations. Two loops have the same structure if their bodies were recorded separately from the
//! same code.
//!
//! A primitive with bodies is compared by its displayed parameters and by the equations of its bodies, so two
//! recordings of the same loop compare as equal. The comparison ignores the values of the bodies' constants. All other
//! primitives are compared as usual.

use std::any::{Any, TypeId};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use pytree_kernels::base::dtype::AbstractArray;
use smallvec::SmallVec;

use crate::base::axis_names::AxisName;
use crate::tensor::jaxpr::{Equation, Jaxpr, Variable};
use crate::tensor::primitive::Primitive;

/// The structure of a primitive. A structure does not keep the tensors alive that a body has captured.
#[derive(Debug)]
pub(super) enum Structure {
    WithoutBodies(Arc<dyn Primitive>),
    WithBodies {
        of_type: TypeId,
        name: &'static str,
        parameters: String,
        bodies: Vec<BodyStructure>,
    },
}

#[derive(Debug)]
pub(super) struct BodyStructure {
    variables: Vec<AbstractArray>,
    inputs: Vec<Variable>,
    constants: Vec<Variable>,
    equations: Vec<EquationStructure>,
    outputs: Vec<Variable>,
    batch_axes: Vec<(AxisName, usize)>,
}

#[derive(Debug)]
struct EquationStructure {
    primitive: Structure,
    inputs: SmallVec<[Variable; 4]>,
    outputs: SmallVec<[Variable; 1]>,
}

impl Structure {
    pub(super) fn of(primitive: &dyn Primitive) -> Self {
        let bodies = primitive.bodies();
        if bodies.is_empty() {
            return Self::WithoutBodies(primitive.to_shared());
        }
        let bodies = bodies.into_iter();
        Self::WithBodies {
            of_type: (primitive as &dyn Any).type_id(),
            name: primitive.name(),
            parameters: parameters(primitive),
            bodies: bodies.map(|(_, body)| BodyStructure::of(body)).collect(),
        }
    }

    /// Returns whether this is the structure of a primitive.
    pub(super) fn is_of(&self, primitive: &dyn Primitive) -> bool {
        let found = primitive.bodies();
        match self {
            Self::WithoutBodies(expected) => **expected == *primitive,
            Self::WithBodies {
                of_type,
                name,
                parameters: expected,
                bodies,
            } => {
                *of_type == (primitive as &dyn Any).type_id()
                    && *name == primitive.name()
                    && bodies.len() == found.len()
                    && *expected == parameters(primitive)
                    && bodies
                        .iter()
                        .zip(found)
                        .all(|(body, (_, it))| body.is_of(it))
            }
        }
    }
}

impl BodyStructure {
    fn of(jaxpr: &Jaxpr) -> Self {
        let equation = |equation: &Equation| EquationStructure {
            primitive: Structure::of(&*equation.primitive),
            inputs: equation.inputs.clone(),
            outputs: equation.outputs.clone(),
        };
        Self {
            variables: jaxpr.variables.clone(),
            inputs: jaxpr.inputs.clone(),
            constants: constants(jaxpr).collect(),
            equations: jaxpr.equations.iter().map(equation).collect(),
            outputs: jaxpr.outputs.clone(),
            batch_axes: jaxpr.batch_axes.clone(),
        }
    }

    fn is_of(&self, jaxpr: &Jaxpr) -> bool {
        let mut equations = self.equations.iter().zip(&jaxpr.equations);
        self.inputs == jaxpr.inputs
            && self.outputs == jaxpr.outputs
            && self.equations.len() == jaxpr.equations.len()
            && self.variables == jaxpr.variables
            && self.batch_axes == jaxpr.batch_axes
            && self.constants.iter().copied().eq(constants(jaxpr))
            && equations.all(|(equation, it)| {
                equation.inputs == it.inputs
                    && equation.outputs == it.outputs
                    && equation.primitive.is_of(&*it.primitive)
            })
    }
}

/// A primitive that is hashed by its structure.
#[derive(Clone, Copy)]
pub(super) struct ByStructure<'p>(pub(super) &'p dyn Primitive);

impl Hash for ByStructure<'_> {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        let bodies = self.0.bodies();
        if bodies.is_empty() {
            self.0.hash(hasher);
            return;
        }
        self.0.name().hash(hasher);
        parameters(self.0).hash(hasher);
        for (_, body) in bodies {
            body.inputs.hash(hasher);
            body.outputs.hash(hasher);
            body.variables.hash(hasher);
            for equation in &body.equations {
                equation.inputs.hash(hasher);
                equation.outputs.hash(hasher);
                ByStructure(&*equation.primitive).hash(hasher);
            }
        }
    }
}

/// Returns the variables of the constants of a jaxpr.
fn constants(jaxpr: &Jaxpr) -> impl Iterator<Item = Variable> {
    jaxpr.constants.iter().map(|(variable, _)| *variable)
}

/// Returns the parameters of a primitive as displayed jaxprs write them, without its bodies.
fn parameters(primitive: &dyn Primitive) -> String {
    struct Written<'p>(&'p dyn Primitive);
    impl fmt::Display for Written<'_> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            self.0.write_parameters(f)
        }
    }
    Written(primitive).to_string()
}
