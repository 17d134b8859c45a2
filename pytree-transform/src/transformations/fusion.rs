//! Fusion: chains of element-by-element equations become one pass over memory.
//!
//! A group holds equations over as many elements each, of one float type and bools. It runs tile by tile:
//! the intermediate values of a tile stay in the first-level cache and are never written out. Broadcasts
//! that repeat a scalar, a row or a column are read in place. An equation joins the group of an earlier
//! one if all it needs is there by then, so equations in between do not break a chain.

#![allow(
    clippy::inline_always,
    reason = "only what is inlined is compiled for the wide instruction sets"
)]

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

/// A value that need not be in memory for a pass to read it.
#[derive(Clone, Copy)]
enum Virtual {
    /// The same number everywhere.
    Constant(f64),
    /// Another value, repeated.
    Repeated { source: Variable, pattern: Pattern },
}

/// The state of scheduling.
struct Planner<'j> {
    jaxpr: &'j Jaxpr,
    /// For each equation whose result is virtual, what it is.
    virtuals: Vec<Option<Virtual>>,
    /// For each variable, the equation that makes it.
    makers: Vec<Option<usize>>,
    /// For each variable, whether it is in memory by now.
    available: Vec<bool>,
    taken: Vec<bool>,
    uses: Vec<usize>,
    scheduled: Vec<Scheduled>,
}

/// Puts the equations of a jaxpr in an order, chains fused.
pub(crate) fn schedule(jaxpr: &Jaxpr) -> Vec<Scheduled> {
    let mut planner = Planner {
        jaxpr,
        virtuals: jaxpr
            .equations
            .iter()
            .map(|equation| virtual_value(jaxpr, equation))
            .collect(),
        makers: vec![None; jaxpr.variables.len()],
        available: vec![false; jaxpr.variables.len()],
        taken: vec![false; jaxpr.equations.len()],
        uses: count_uses(jaxpr),
        scheduled: Vec::with_capacity(jaxpr.equations.len()),
    };
    for variable in jaxpr
        .inputs
        .iter()
        .chain(jaxpr.constants.iter().map(|(variable, _)| variable))
    {
        planner.available[variable.index()] = true;
    }
    for (position, equation) in jaxpr.equations.iter().enumerate() {
        equation
            .outputs
            .iter()
            .for_each(|output| planner.makers[output.index()] = Some(position));
    }
    for start in 0..jaxpr.equations.len() {
        if !planner.taken[start] && planner.virtuals[start].is_none() {
            planner.take(start);
        }
    }
    jaxpr
        .outputs
        .iter()
        .for_each(|&output| planner.materialize(output));
    planner.scheduled
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
    let settled = match equation.primitive.elementwise()? {
        Elementwise::Unary(Unary::Not)
        | Elementwise::Binary(Binary::And | Binary::Or | Binary::Xor) => of_bools,
        Elementwise::Unary(_) | Elementwise::Binary(_) | Elementwise::Select => float(output.dtype),
        Elementwise::Compare(_) => float(dtype(0)),
        Elementwise::Convert(_) if dtype(0) == DType::Bool => float(output.dtype),
        Elementwise::Convert(_) => None,
    };
    settled.map(|float| (output.len(), float))
}

/// What an equation makes, if a pass can do without it in memory.
fn virtual_value(jaxpr: &Jaxpr, equation: &Equation) -> Option<Virtual> {
    if !jaxpr.info(*equation.outputs.first()?).dtype.is_float() {
        return None;
    }
    let primitive: &dyn Any = &*equation.primitive;
    if let Some(full) = primitive.downcast_ref::<Full>() {
        return Some(Virtual::Constant(full.value));
    }
    pattern(jaxpr, equation).map(|pattern| Virtual::Repeated {
        source: equation.inputs[0],
        pattern,
    })
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
    if operand.is_empty() {
        return None;
    }
    if kept.len() <= rest.len() && kept[..] == rest[rest.len() - kept.len()..] {
        return Some(Pattern::Cycle {
            period: operand.len(),
        });
    }
    if kept[..] == rest[..kept.len().min(rest.len())] {
        return Some(Pattern::Stretch {
            times: broadcast.shape.iter().product::<usize>() / operand.len(),
        });
    }
    None
}

impl Planner<'_> {
    /// Schedules an equation, alone or with those that its pass can hold.
    fn take(&mut self, start: usize) {
        let members = match class(self.jaxpr, &self.jaxpr.equations[start]) {
            Some(class) => self.members(start, class),
            None => vec![start],
        };
        let reads_virtual = |equation: &Equation| {
            equation
                .inputs
                .iter()
                .any(|&input| self.virtual_of(input).is_some())
        };
        let fuses = members.len() > 1
            || (self.jaxpr.equations[start]
                .primitive
                .elementwise()
                .is_some()
                && class(self.jaxpr, &self.jaxpr.equations[start]).is_some()
                && reads_virtual(&self.jaxpr.equations[start]));
        if fuses {
            let fused = self.fuse(&members);
            self.scheduled.push(Scheduled::Fused(fused));
            members.into_iter().for_each(|member| self.done(member));
        } else {
            self.alone(start);
        }
    }

    fn alone(&mut self, position: usize) {
        self.jaxpr.equations[position]
            .inputs
            .iter()
            .for_each(|&input| self.materialize(input));
        self.scheduled.push(Scheduled::One(position));
        self.done(position);
    }

    fn done(&mut self, position: usize) {
        self.taken[position] = true;
        self.jaxpr.equations[position]
            .outputs
            .iter()
            .for_each(|output| self.available[output.index()] = true);
    }

    /// Puts a virtual value in memory, for an equation that can't do without.
    fn materialize(&mut self, variable: Variable) {
        if let (false, Some(maker)) = (
            self.available[variable.index()],
            self.makers[variable.index()],
        ) && self.virtuals[maker].is_some()
        {
            self.alone(maker);
        }
    }

    /// What a value is, unless it is in memory anyway.
    fn virtual_of(&self, variable: Variable) -> Option<Virtual> {
        if self.available[variable.index()] {
            return None;
        }
        self.makers[variable.index()].and_then(|maker| self.virtuals[maker])
    }

    /// Whether a pass can read a value from outside of it.
    fn readable(&self, variable: Variable) -> bool {
        match self.virtual_of(variable) {
            Some(Virtual::Constant(_)) => true,
            Some(Virtual::Repeated { source, .. }) => self.available[source.index()],
            None => self.available[variable.index()],
        }
    }

    /// The equations that one pass can hold, beginning with `start`.
    fn members(&mut self, start: usize, (length, mut float): (usize, Option<DType>)) -> Vec<usize> {
        // What the first reads may be a repetition of a repetition, whose source is not in memory yet.
        for &input in &self.jaxpr.equations[start].inputs {
            if let Some(Virtual::Repeated { source, .. }) = self.virtual_of(input) {
                self.materialize(source);
            }
        }
        let mut members = vec![start];
        let mut inside: Vec<Variable> = self.jaxpr.equations[start].outputs.to_vec();
        let end = self.jaxpr.equations.len().min(start + WINDOW);
        for position in start + 1..end {
            let equation = &self.jaxpr.equations[position];
            if self.taken[position] || self.virtuals[position].is_some() {
                continue;
            }
            let Some((other_length, other_float)) = class(self.jaxpr, equation) else {
                continue;
            };
            let one_float = float.is_none() || other_float.is_none() || float == other_float;
            let ready = |&input: &Variable| inside.contains(&input) || self.readable(input);
            if other_length == length && one_float && equation.inputs.iter().all(ready) {
                float = float.or(other_float);
                members.push(position);
                inside.extend(&equation.outputs);
            }
        }
        members
    }

    /// Makes one pass of equations.
    fn fuse(&self, members: &[usize]) -> Fused {
        let jaxpr = self.jaxpr;
        let equations = || members.iter().map(|&member| &jaxpr.equations[member]);
        let length = jaxpr.info(jaxpr.equations[members[0]].outputs[0]).len();
        let float =
            equations().find_map(|equation| class(jaxpr, equation).and_then(|(_, float)| float));
        let mut fused = Fused {
            float: float.unwrap_or(DType::F32),
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
            let Some(elementwise) = equation.primitive.elementwise() else {
                continue;
            };
            let mut operands = SmallVec::new();
            for &input in &equation.inputs {
                uses_inside[input.index()] += 1;
                let place = match places[input.index()] {
                    Some(place) => place,
                    None => fused.read(input, self.virtual_of(input)),
                };
                places[input.index()] = Some(place);
                operands.push(place);
            }
            let output = fused.new_register();
            fused.operations.push(Operation {
                elementwise,
                operands,
                output,
            });
            places[equation.outputs[0].index()] = Some(Place::Register(output));
        }
        for equation in equations() {
            let output = equation.outputs[0];
            let needed = self.uses[output.index()] > uses_inside[output.index()];
            if let (true, Some(Place::Register(register))) = (needed, places[output.index()]) {
                fused.outputs.push(output);
                fused.stores.push((register, jaxpr.info(output).clone()));
            }
        }
        fused
    }
}

impl Fused {
    fn new_register(&mut self) -> usize {
        self.registers += 1;
        self.registers - 1
    }

    fn input(&mut self, variable: Variable) -> usize {
        if let Some(position) = self.inputs.iter().position(|&known| known == variable) {
            position
        } else {
            self.inputs.push(variable);
            self.inputs.len() - 1
        }
    }

    fn load(&mut self, source: Source) -> Place {
        let register = self.new_register();
        self.loads.push(Load {
            source,
            register: Some(register),
        });
        Place::Register(register)
    }

    /// A value from outside: in place if it has as many elements as the pass, else through a register.
    fn read(&mut self, variable: Variable, virtual_value: Option<Virtual>) -> Place {
        match virtual_value {
            Some(Virtual::Constant(value)) => self.load(Source::Constant(value)),
            Some(Virtual::Repeated { source, pattern }) => {
                let input = self.input(source);
                self.load(Source::Value { input, pattern })
            }
            None => Place::Input(self.input(variable)),
        }
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
                    } => {
                        // An empty pass reads nothing.
                        let value = inputs[input].elements::<F>().first().copied();
                        tiles.fill(register, value.unwrap_or_default());
                    }
                    Source::Value { .. } => {}
                }
            }
        }
        pulp::Arch::new().dispatch(Pass {
            fused: self,
            tiles: &mut tiles,
            inputs,
            results: &mut results,
        });
        results
    }
}

/// One pass over memory, compiled for each instruction set.
struct Pass<'a, F: Float> {
    fused: &'a Fused,
    tiles: &'a mut Tiles<F>,
    inputs: &'a [Arc<Array>],
    results: &'a mut [Array],
}

impl<F: Float> pulp::WithSimd for Pass<'_, F> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: pulp::Simd>(self, _: S) {
        let mut start = 0;
        while start < self.fused.length {
            let count = TILE.min(self.fused.length - start);
            self.fused.load_tile(self.tiles, self.inputs, start, count);
            for operation in &self.fused.operations {
                let Operation {
                    elementwise,
                    operands,
                    output,
                } = operation;
                self.tiles
                    .apply(*elementwise, operands, *output, self.inputs, start, count);
            }
            for ((register, _), result) in self.fused.stores.iter().zip(self.results.iter_mut()) {
                self.tiles.store(*register, result, start, count);
            }
            start += count;
        }
    }
}

impl Fused {
    #[inline(always)]
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
                Pattern::Scalar => {}
            }
        }
    }
}

/// Whether a comparison is of floats; the planner lets no other in.
#[inline(always)]
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
