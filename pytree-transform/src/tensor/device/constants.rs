//! Converts the constants in the bodies of an equation into operands of the equation. An example of such a constant is
//! a tensor that the body of a loop has captured.
//!
//! A program must not contain the elements of a large tensor. So the constants of nested jaxprs become constants of the
//! jaxpr around them, up to the outermost jaxpr, whose constants become operands of the program.

use std::collections::HashMap;
use std::sync::Arc;

use pytree_base::bug::expect_some;
use smallvec::SmallVec;

use crate::tensor::handle::Tensor;
use crate::tensor::jaxpr::{Jaxpr, Variable};
use crate::tensor::primitive::Primitive;

/// The constants in the bodies of a primitive, and in the bodies inside of these bodies.
#[derive(Debug, Default)]
pub(super) struct Constants<'p> {
    /// Each tensor once, in the order of the first uses.
    pub(super) tensors: Vec<&'p Tensor>,
    /// For each constant of each body, the index of its tensor in `tensors`.
    pub(super) positions: SmallVec<[usize; 4]>,
}

impl<'p> Constants<'p> {
    pub(super) fn of(primitive: &'p dyn Primitive) -> Self {
        let mut constants = Self::default();
        constants.add(primitive, &mut HashMap::new());
        constants
    }

    fn add(&mut self, primitive: &'p dyn Primitive, known: &mut HashMap<usize, usize>) {
        for (_, body) in primitive.bodies() {
            for (_, tensor) in &body.constants {
                let next = self.tensors.len();
                let position = *known.entry(tensor.handle()).or_insert(next);
                if position == next {
                    self.tensors.push(tensor);
                }
                self.positions.push(position);
            }
            for equation in &body.equations {
                self.add(&*equation.primitive, known);
            }
        }
    }
}

/// Moves constants of nested jaxprs to the outermost jaxpr, if `is_lifted` returns true for them. Each of these
/// constants becomes an operand of the equations whose bodies use the constant.
pub(super) fn with_lifted_constants(mut jaxpr: Jaxpr, is_lifted: fn(&Tensor) -> bool) -> Jaxpr {
    let known = HashMap::new();
    Lifting { is_lifted, known }.in_equations(&mut jaxpr);
    jaxpr
}

struct Lifting {
    is_lifted: fn(&Tensor) -> bool,
    /// For each primitive with bodies, the primitive that replaces it, or `None` if no constant of the bodies is moved.
    /// Because of this map, two calls of the same function have the same primitive afterwards.
    known: HashMap<Arc<dyn Primitive>, Option<Lifted>>,
}

/// A primitive whose bodies take some of their constants as inputs.
#[derive(Clone)]
struct Lifted {
    primitive: Arc<dyn Primitive>,
    /// The positions, in ascending order, at which `tensors` are inserted into the operands. All of `tensors` are
    /// inserted at each position.
    places: SmallVec<[usize; 2]>,
    tensors: Vec<Tensor>,
}

impl Lifting {
    fn in_equations(&mut self, jaxpr: &mut Jaxpr) {
        let mut constants: HashMap<usize, Variable> = HashMap::new();
        for (variable, tensor) in &jaxpr.constants {
            constants.insert(tensor.handle(), *variable);
        }
        let mut equations = std::mem::take(&mut jaxpr.equations);
        for equation in &mut equations {
            let Some(lifted) = self.lifted(&equation.primitive) else {
                continue;
            };
            let operands = lifted.tensors.iter().map(|tensor| {
                *constants.entry(tensor.handle()).or_insert_with(|| {
                    let variable = jaxpr.unused_input(tensor.info().clone());
                    jaxpr.constants.push((variable, tensor.clone()));
                    variable
                })
            });
            let operands: Vec<Variable> = operands.collect();
            for &place in lifted.places.iter().rev() {
                equation.inputs.insert_many(place, operands.iter().copied());
            }
            equation.primitive = lifted.primitive;
        }
        jaxpr.equations = equations;
    }

    fn lifted(&mut self, primitive: &Arc<dyn Primitive>) -> Option<Lifted> {
        let bodies = primitive.bodies();
        if bodies.is_empty() {
            return None;
        }
        if let Some(known) = self.known.get(primitive) {
            return known.clone();
        }
        let mut bodies: Vec<Jaxpr> = bodies.into_iter().map(|(_, body)| body.clone()).collect();
        let mut tensors: Vec<Tensor> = Vec::new();
        let mut positions = HashMap::new();
        for body in &mut bodies {
            self.in_equations(body);
            for (_, tensor) in body.constants.iter().filter(|it| (self.is_lifted)(&it.1)) {
                positions.entry(tensor.handle()).or_insert_with(|| {
                    tensors.push(tensor.clone());
                    tensors.len() - 1
                });
            }
        }
        let lifted = (!tensors.is_empty()).then(|| {
            for body in &mut bodies {
                constants_as_inputs(body, &tensors, &positions);
            }
            let (primitive, places) = primitive.with_inputs(bodies, tensors.len());
            Lifted {
                primitive,
                places,
                tensors,
            }
        });
        self.known.insert(Arc::clone(primitive), lifted.clone());
        lifted
    }
}

/// Adds an input for each tensor of `tensors` before the inputs of a body. If a constant of the body is in `tensors`,
/// the input of the tensor replaces the constant. `positions` maps the handle of each tensor to its index in `tensors`.
fn constants_as_inputs(body: &mut Jaxpr, tensors: &[Tensor], positions: &HashMap<usize, usize>) {
    let mut added: Vec<Option<Variable>> = vec![None; tensors.len()];
    // A body may have two constants of the same tensor.
    let mut replaced: HashMap<Variable, Variable> = HashMap::new();
    body.constants.retain(|(variable, tensor)| {
        let position = positions.get(&tensor.handle());
        if let Some(&position) = position {
            let input = *added[position].get_or_insert(*variable);
            replaced.insert(*variable, input);
        }
        position.is_none()
    });
    let operands = body.equations.iter_mut().flat_map(|it| &mut it.inputs);
    for variable in operands.chain(&mut body.outputs) {
        *variable = *replaced.get(variable).unwrap_or(variable);
    }
    let inputs = tensors.iter().zip(added);
    let inputs: Vec<Variable> = inputs
        .map(|(tensor, variable)| {
            variable.unwrap_or_else(|| body.unused_input(tensor.info().clone()))
        })
        .collect();
    body.inputs.splice(0..0, inputs);
}

/// Turns all constants of a jaxpr into inputs after the existing inputs. The new inputs are in the order of `tensors`,
/// which has each constant once.
pub(super) fn as_inputs(jaxpr: &mut Jaxpr, tensors: &[&Tensor]) {
    let constants = std::mem::take(&mut jaxpr.constants).into_iter();
    let variables: HashMap<usize, Variable> = constants
        .map(|(variable, tensor)| (tensor.handle(), variable))
        .collect();
    let input = |tensor: &&Tensor| variables.get(&tensor.handle()).copied();
    let inputs = tensors
        .iter()
        .map(|tensor| expect_some(input(tensor), "a constant for each tensor"));
    jaxpr.inputs.extend(inputs);
}
