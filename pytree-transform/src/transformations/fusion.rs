//! Fusion: chains of element-by-element equations become one pass over memory.
//!
//! A group holds equations over as many elements each, of one float type and bools. It runs tile by tile:
//! the intermediate values of a tile stay in the first-level cache and are never written out. Broadcasts
//! that repeat a scalar, a row or a column are read in place. An equation joins the group of an earlier
//! one if all it needs is there by then, so equations in between do not break a chain.

use std::any::Any;
use std::sync::Arc;

use smallvec::SmallVec;

use crate::array::Array;
use crate::dtype::{AbstractArray, DType};
use crate::jaxpr::{Equation, Jaxpr, Variable};
use crate::primitives::create::Full;
use crate::primitives::elementwise::{Binary, Comparison, Elementwise, Unary};
use crate::primitives::shape::Broadcast;
use crate::transformations::tiles::{Float, TILE, Tiles};

/// How many equations ahead a group looks for members: enough for an optimiser's update, and it keeps
/// the planning of long jaxprs linear.
const WINDOW: usize = 256;

/// A part of a schedule.
pub(crate) enum Scheduled {
    /// One equation on its own, by its position.
    One(usize),
    /// Several in one pass.
    Fused(Fused),
}

/// How the elements of a value that is read are found.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Pattern {
    /// As many elements as the group has.
    Whole,
    /// One for all.
    Scalar,
    /// A row repeated: element `i` is element `i % period`.
    Cycle { period: usize },
    /// A column repeated: element `i` is element `i / times`.
    Stretch { times: usize },
}

/// A value that a group reads.
struct Load {
    source: Source,
    /// The register it is put in, unless it is read in place.
    register: Option<usize>,
}

enum Source {
    Value { input: usize, pattern: Pattern },
    Constant(f64),
}

/// Where an operation of a group finds an operand.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Place {
    /// A register.
    Register(usize),
    /// A value read in place.
    Input(usize),
}

struct Operation {
    elementwise: Elementwise,
    operands: SmallVec<[Place; 3]>,
    output: usize,
}

/// Several equations in one pass over memory.
pub(crate) struct Fused {
    float: DType,
    length: usize,
    /// The values it reads.
    pub(crate) inputs: Vec<Variable>,
    /// The values it makes, with the registers they come from.
    pub(crate) outputs: Vec<Variable>,
    stores: Vec<(usize, AbstractArray)>,
    loads: Vec<Load>,
    operations: Vec<Operation>,
    registers: usize,
}

/// Puts the equations of a jaxpr in an order, chains fused.
pub(crate) fn schedule(jaxpr: &Jaxpr) -> Vec<Scheduled> {
    let mut available = vec![false; jaxpr.variables.len()];
    for variable in jaxpr
        .inputs
        .iter()
        .chain(jaxpr.constants.iter().map(|(variable, _)| variable))
    {
        available[variable.index()] = true;
    }
    let uses = count_uses(jaxpr);
    let mut taken = vec![false; jaxpr.equations.len()];
    let mut scheduled = Vec::with_capacity(jaxpr.equations.len());
    for start in 0..jaxpr.equations.len() {
        if taken[start] {
            continue;
        }
        let members = match class(jaxpr, &jaxpr.equations[start]) {
            Some(class) => members(jaxpr, start, class, &available, &taken),
            None => vec![start],
        };
        for &member in &members {
            taken[member] = true;
            jaxpr.equations[member]
                .outputs
                .iter()
                .for_each(|output| available[output.index()] = true);
        }
        let computes = members
            .iter()
            .filter(|&&member| jaxpr.equations[member].primitive.elementwise().is_some())
            .count();
        if computes == 0 || members.len() == 1 {
            scheduled.extend(members.into_iter().map(Scheduled::One));
        } else {
            scheduled.push(Scheduled::Fused(fuse(jaxpr, &members, &uses)));
        }
    }
    scheduled
}

fn count_uses(jaxpr: &Jaxpr) -> Vec<usize> {
    let mut uses = vec![0; jaxpr.variables.len()];
    let used = jaxpr
        .equations
        .iter()
        .flat_map(|equation| &equation.inputs)
        .chain(&jaxpr.outputs);
    used.for_each(|variable| uses[variable.index()] += 1);
    uses
}

/// What equations must have in common to be fused: the number of elements, and the float type if the
/// equation settles one.
fn class(jaxpr: &Jaxpr, equation: &Equation) -> Option<(usize, Option<DType>)> {
    let output = jaxpr.info(*equation.outputs.first()?);
    let dtype = |position: usize| jaxpr.info(equation.inputs[position]).dtype;
    let float = |dtype: DType| dtype.is_float().then_some(Some(dtype));
    let of_bools = (output.dtype == DType::Bool).then_some(None);
    let settled = match equation.primitive.elementwise() {
        Some(Elementwise::Unary(Unary::Not)) => of_bools,
        Some(Elementwise::Binary(Binary::And | Binary::Or | Binary::Xor)) => of_bools,
        Some(Elementwise::Unary(_) | Elementwise::Binary(_)) => float(output.dtype),
        Some(Elementwise::Compare(_)) => float(dtype(0)),
        Some(Elementwise::Select) => float(output.dtype),
        Some(Elementwise::Convert(_)) if dtype(0) == DType::Bool => float(output.dtype),
        Some(Elementwise::Convert(_)) => None,
        None if constant(equation).is_some() => float(output.dtype),
        None => pattern(jaxpr, equation).and_then(|_| float(output.dtype)),
    };
    settled.map(|float| (output.len(), float))
}

/// The value of an equation that makes a constant.
fn constant(equation: &Equation) -> Option<f64> {
    let primitive: &dyn Any = &*equation.primitive;
    primitive.downcast_ref::<Full>().map(|full| full.value)
}

/// How the operand of a broadcast is repeated, if it is one that can be read in place.
fn pattern(jaxpr: &Jaxpr, equation: &Equation) -> Option<Pattern> {
    let primitive: &dyn Any = &*equation.primitive;
    let broadcast = primitive.downcast_ref::<Broadcast>()?;
    let operand = jaxpr.info(*equation.inputs.first()?);
    // Axes of length 1 do not matter; the others must lie in order and keep their lengths.
    let kept: SmallVec<[usize; 4]> = operand
        .shape
        .iter()
        .zip(&broadcast.axes)
        .filter(|(length, _)| **length != 1)
        .map(|(_, &axis)| axis)
        .collect();
    let rest: SmallVec<[usize; 4]> = (0..broadcast.shape.len())
        .filter(|&axis| broadcast.shape[axis] != 1)
        .collect();
    if kept.is_empty() {
        return Some(Pattern::Scalar);
    }
    if kept.len() <= rest.len() && kept[..] == rest[rest.len() - kept.len()..] {
        return Some(Pattern::Cycle {
            period: operand.len(),
        });
    }
    if kept[..] == rest[..kept.len().min(rest.len())] {
        return Some(Pattern::Stretch {
            times: broadcast.shape.iter().product::<usize>() / operand.len().max(1),
        });
    }
    None
}

/// The equations that one pass can hold, beginning with `start`.
fn members(
    jaxpr: &Jaxpr,
    start: usize,
    (length, mut float): (usize, Option<DType>),
    available: &[bool],
    taken: &[bool],
) -> Vec<usize> {
    let mut members = vec![start];
    let mut inside: Vec<Variable> = jaxpr.equations[start].outputs.to_vec();
    let end = jaxpr.equations.len().min(start + WINDOW);
    for position in start + 1..end {
        let equation = &jaxpr.equations[position];
        if taken[position] {
            continue;
        }
        let Some((other_length, other_float)) = class(jaxpr, equation) else {
            continue;
        };
        let one_float = float.is_none() || other_float.is_none() || float == other_float;
        // What a broadcast reads has another length, so it can't be made inside.
        let reads_outside = equation.primitive.elementwise().is_none();
        let ready = |input: &Variable| {
            available[input.index()] || (!reads_outside && inside.contains(input))
        };
        if other_length == length && one_float && equation.inputs.iter().all(ready) {
            float = float.or(other_float);
            members.push(position);
            inside.extend(&equation.outputs);
        }
    }
    members
}

/// Makes one pass of equations.
fn fuse(jaxpr: &Jaxpr, members: &[usize], uses: &[usize]) -> Fused {
    let equations = || members.iter().map(|&member| &jaxpr.equations[member]);
    let length = jaxpr.info(jaxpr.equations[members[0]].outputs[0]).len();
    let float = equations()
        .find_map(|equation| class(jaxpr, equation).and_then(|(_, float)| float))
        .unwrap_or(DType::F32);
    let mut fused = Fused {
        float,
        length,
        inputs: Vec::new(),
        outputs: Vec::new(),
        stores: Vec::new(),
        loads: Vec::new(),
        operations: Vec::new(),
        registers: 0,
    };
    let mut places: Vec<Option<Place>> = vec![None; jaxpr.variables.len()];
    let mut uses_inside = vec![0_usize; jaxpr.variables.len()];
    for equation in equations() {
        let output = equation.outputs[0];
        let register = match equation.primitive.elementwise() {
            Some(elementwise) => {
                let operands = equation
                    .inputs
                    .iter()
                    .map(|input| {
                        uses_inside[input.index()] += 1;
                        *places[input.index()].get_or_insert_with(|| fused.read_in_place(*input))
                    })
                    .collect();
                let output = fused.new_register();
                fused.operations.push(Operation {
                    elementwise,
                    operands,
                    output,
                });
                output
            }
            None => match constant(equation) {
                Some(value) => fused.load(Source::Constant(value)),
                None => {
                    uses_inside[equation.inputs[0].index()] += 1;
                    let input = fused.input(equation.inputs[0]);
                    let pattern = pattern(jaxpr, equation).unwrap_or(Pattern::Scalar);
                    fused.load(Source::Value { input, pattern })
                }
            },
        };
        places[output.index()] = Some(Place::Register(register));
    }
    for equation in equations() {
        let output = equation.outputs[0];
        if let (true, Some(Place::Register(register))) = (
            uses[output.index()] > uses_inside[output.index()],
            places[output.index()],
        ) {
            fused.outputs.push(output);
            fused.stores.push((register, jaxpr.info(output).clone()));
        }
    }
    fused
}

impl Fused {
    fn new_register(&mut self) -> usize {
        self.registers += 1;
        self.registers - 1
    }

    fn input(&mut self, variable: Variable) -> usize {
        match self.inputs.iter().position(|&known| known == variable) {
            Some(position) => position,
            None => {
                self.inputs.push(variable);
                self.inputs.len() - 1
            }
        }
    }

    fn load(&mut self, source: Source) -> usize {
        let register = self.new_register();
        self.loads.push(Load {
            source,
            register: Some(register),
        });
        register
    }

    /// A value with as many elements as the group.
    fn read_in_place(&mut self, variable: Variable) -> Place {
        let input = self.input(variable);
        self.loads.push(Load {
            source: Source::Value {
                input,
                pattern: Pattern::Whole,
            },
            register: None,
        });
        Place::Input(input)
    }

    /// Runs the pass.
    pub(crate) fn run(&self, inputs: &[Arc<Array>]) -> SmallVec<[Array; 1]> {
        match self.float {
            DType::F64 => self.run_with::<f64>(inputs),
            _ => self.run_with::<f32>(inputs),
        }
    }

    fn run_with<F: Float>(&self, inputs: &[Arc<Array>]) -> SmallVec<[Array; 1]> {
        let mut results: SmallVec<[Array; 1]> = self
            .stores
            .iter()
            .map(|(_, info)| Array::reused(info))
            .collect();
        let mut tiles = Tiles::<F>::borrow(self.registers);
        for load in &self.loads {
            if let Some(register) = load.register {
                match load.source {
                    Source::Constant(value) => tiles.fill(register, F::from_f64(value)),
                    Source::Value {
                        input,
                        pattern: Pattern::Scalar,
                    } => tiles.fill(register, inputs[input].elements::<F>()[0]),
                    Source::Value { .. } => {}
                }
            }
        }
        let mut start = 0;
        while start < self.length {
            let count = TILE.min(self.length - start);
            self.load_tile(&mut tiles, inputs, start, count);
            for operation in &self.operations {
                tiles.apply(
                    operation.elementwise,
                    &operation.operands,
                    operation.output,
                    inputs,
                    start,
                    count,
                );
            }
            for ((register, _), result) in self.stores.iter().zip(&mut results) {
                tiles.store(*register, result, start, count);
            }
            start += count;
        }
        results
    }

    fn load_tile<F: Float>(
        &self,
        tiles: &mut Tiles<F>,
        inputs: &[Arc<Array>],
        start: usize,
        count: usize,
    ) {
        for load in &self.loads {
            let (Some(register), Source::Value { input, pattern }) = (load.register, &load.source)
            else {
                continue;
            };
            match *pattern {
                Pattern::Cycle { period } => tiles.cycle(
                    register,
                    inputs[*input].elements::<F>(),
                    period,
                    start,
                    count,
                ),
                Pattern::Stretch { times } => tiles.stretch(
                    register,
                    inputs[*input].elements::<F>(),
                    times,
                    start,
                    count,
                ),
                Pattern::Whole | Pattern::Scalar => {}
            }
        }
    }
}

/// Whether a comparison is of floats; the planner lets no other in.
pub(crate) fn holds<F: PartialOrd>(comparison: Comparison, left: &F, right: &F) -> bool {
    match comparison {
        Comparison::Eq => left == right,
        Comparison::Ne => left != right,
        Comparison::Lt => left < right,
        Comparison::Le => left <= right,
        Comparison::Gt => left > right,
        Comparison::Ge => left >= right,
    }
}
