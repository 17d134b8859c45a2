//! The instructions of the equations of a jaxpr.

use std::any::Any;
use std::sync::Arc;

use pytree_base::bug::pairs;
use pytree_kernels::base::array::{Array, Operands};
use pytree_kernels::base::dtype::{AbstractArray, DType};
use pytree_kernels::loops::arena::{Code, Place, Values};
use pytree_kernels::loops::elementwise::{Elementwise, Unary};
use pytree_kernels::loops::pad::Pad;

use crate::passes::optimize_for_host;
use crate::primitives::control::cond::Cond;
use crate::primitives::control::scan::Scan;
use crate::primitives::control::while_loop::While;
use crate::primitives::create::{Broadcast, Full, Iota};
use crate::primitives::dot::product_of;
use crate::primitives::gather::{Scatter, Take};
use crate::primitives::reduce::{Reduce, Sum};
use crate::primitives::shape::{Reshape, Transpose};
use crate::primitives::slice::{Concatenate, Reverse, Slice, UpdateSlice};
use crate::tensor::evaluation::evaluate;
use crate::tensor::jaxpr::{Jaxpr, RESULTS, constant_array};
use crate::tensor::primitive::Primitive;

/// The greatest number of equations of a program, so that translation takes no time for other programs.
pub(super) const MOST_EQUATIONS: usize = 1024;

/// The greatest number of nanoseconds that one round of a program may take. Beyond it, fused kernels and threads are faster.
const LONGEST: usize = 20_000;

/// The number of elements that an instruction handles in a nanosecond.
const PER_NANOSECOND: usize = 8;

/// An operand of an equation.
#[derive(Clone, Copy)]
pub(super) struct Operand<'a> {
    pub(super) place: Place,
    /// The dtype and shape of the operand. The value may have another shape with the same elements.
    pub(super) info: &'a AbstractArray,
    /// Whether the equation may overwrite the array of a loose value.
    pub(super) is_last: bool,
}

/// Translates equations to instructions.
#[derive(Default)]
pub(super) struct Translator {
    pub(super) values: Values,
    equations: usize,
    /// About how many nanoseconds the instructions of the innermost loop take.
    pub(super) nanoseconds: usize,
}

impl Translator {
    /// Adds the equations of a jaxpr. Returns the places of its outputs, or `None` if an equation has no instruction. `owned` are values
    /// that nothing reads after the jaxpr.
    pub(super) fn jaxpr(
        &mut self,
        jaxpr: &Jaxpr,
        inputs: &[Place],
        owned: &[Place],
        code: &mut Code,
    ) -> Option<Vec<Place>> {
        let first = self.values.next();
        let mut places: Vec<Option<Place>> = vec![None; jaxpr.variables.len()];
        for (input, &place) in jaxpr.inputs.iter().zip(inputs) {
            places[input.index()] = Some(place);
        }
        for (variable, tensor) in &jaxpr.constants {
            let place = self.values.constant(constant_array(tensor));
            places[variable.index()] = Some(place);
        }
        for (position, equation) in jaxpr.equations.iter().enumerate() {
            let later = jaxpr.equations[position + 1..].iter();
            let later = || {
                later
                    .clone()
                    .flat_map(|it| &it.inputs)
                    .chain(&jaxpr.outputs)
            };
            let mut operands = Vec::with_capacity(equation.inputs.len());
            for &input in &equation.inputs {
                let place = places[input.index()]?;
                let is_read = || later().any(|other| places[other.index()] == Some(place));
                let is_owned = owned.contains(&place) || self.values.is_made_since(place, first);
                let mut others = equation
                    .inputs
                    .iter()
                    .filter(|&&it| places[it.index()] == Some(place));
                let is_last = is_owned
                    && !self.values.is_fixed(place)
                    && others.nth(1).is_none()
                    && !is_read();
                let info = jaxpr.info(input);
                operands.push(Operand {
                    place,
                    info,
                    is_last,
                });
            }
            let outputs = equation.outputs.iter();
            let infos: Vec<AbstractArray> = outputs.map(|&it| jaxpr.info(it).clone()).collect();
            let results = self.equation(&equation.primitive, &operands, &infos, code)?;
            for (output, &result) in equation.outputs.iter().zip(&results) {
                places[output.index()] = Some(result);
            }
        }
        let outputs = jaxpr.outputs.iter();
        outputs.map(|output| places[output.index()]).collect()
    }

    /// Adds a called jaxpr.
    pub(super) fn callee(
        &mut self,
        jaxpr: &Jaxpr,
        inputs: &[Place],
        owned: &[Place],
        code: &mut Code,
    ) -> Option<Vec<Place>> {
        self.jaxpr(&optimize_for_host(jaxpr.clone()), inputs, owned, code)
    }

    /// Adds an equation. Returns the places of its results.
    pub(super) fn equation(
        &mut self,
        primitive: &Arc<dyn Primitive>,
        operands: &[Operand<'_>],
        infos: &[AbstractArray],
        code: &mut Code,
    ) -> Option<Vec<Place>> {
        self.equations += 1;
        if self.equations > MOST_EQUATIONS
            || primitive.can_fail()
            || !primitive.axis_names().is_empty()
        {
            return None;
        }
        let any: &dyn Any = &**primitive;
        let inputs: Vec<Place> = operands.iter().map(|operand| operand.place).collect();
        if let Some(scan) = any.downcast_ref::<Scan>() {
            return self.scan(scan, operands, infos, code);
        }
        if let Some(looped) = any.downcast_ref::<While>() {
            return self.while_loop(looped, operands, code);
        }
        if let Some(cond) = any.downcast_ref::<Cond>() {
            return self.cond(cond, &inputs, infos, code);
        }
        if let Some((_, jaxpr)) = primitive.callee() {
            return self.callee(jaxpr, &inputs, &[], code);
        }
        let elementwise = primitive.elementwise();
        if any.is::<Reshape>() || elementwise == Some(Elementwise::Unary(Unary::StopGradient)) {
            return Some(inputs);
        }
        if any.is::<Full>() || any.is::<Iota>() {
            let results = evaluate(&**primitive, Operands::new());
            let constants = results
                .into_iter()
                .map(|it| self.values.constant(&Arc::new(it)));
            return Some(constants.collect());
        }
        self.count(&**primitive, operands, infos)?;
        let places: Vec<Place> = infos.iter().map(|info| self.values.place(info)).collect();
        let mut all = inputs.iter().chain(&places);
        let are_fixed = all.all(|&place| self.values.is_fixed(place));
        let is_added = are_fixed && self.prepared(&**primitive, operands, places[0], infos, code);
        if !is_added {
            let is_partial = any.is::<Take>() || any.is::<Slice>() || updates(any);
            (are_fixed || is_partial).then_some(())?;
            Self::evaluated(primitive, operands, &places, code);
        }
        Some(places)
    }

    /// Counts the time of an equation. Returns `None` if the round takes too long.
    fn count(
        &mut self,
        primitive: &dyn Primitive,
        operands: &[Operand<'_>],
        infos: &[AbstractArray],
    ) -> Option<()> {
        let any: &dyn Any = primitive;
        let read = operands
            .iter()
            .map(|operand| operand.info)
            .filter(|info| Values::are_fixed(info));
        let written = infos.iter().filter(|_| !updates(any));
        let elements: usize = read.chain(written).map(AbstractArray::len).sum();
        self.nanoseconds += match product_of(primitive) {
            Some(dot) => dot.nanoseconds(operands[0].info, operands[1].info),
            None => elements / PER_NANOSECOND,
        };
        (self.nanoseconds <= LONGEST).then_some(())
    }

    /// Adds the instruction of an equation of fixed values, if there is one.
    fn prepared(
        &mut self,
        primitive: &dyn Primitive,
        operands: &[Operand<'_>],
        result: Place,
        infos: &[AbstractArray],
        code: &mut Code,
    ) -> bool {
        let any: &dyn Any = primitive;
        let given = |at: usize| (operands[at].place, operands[at].info);
        let inputs: Vec<Place> = operands.iter().map(|operand| operand.place).collect();
        if let Some(operation) = primitive.elementwise() {
            self.values.elementwise(operation, &inputs, result, code);
        } else if moves(any) {
            let Some(positions) = positions(primitive, operands, &infos[0]) else {
                return false;
            };
            self.values.moved(&inputs, &positions, result, code);
        } else if let Some(sum) = any.downcast_ref::<Sum>() {
            return self.values.reduced(None, given(0), &sum.axes, result, code);
        } else if let Some(Reduce {
            reduction, axes, ..
        }) = any.downcast_ref()
        {
            return self
                .values
                .reduced(Some(*reduction), given(0), axes, result, code);
        } else if let Some(dot) = product_of(primitive) {
            return self.values.product(dot, [given(0), given(1)], result, code);
        } else {
            return false;
        }
        true
    }

    /// Adds the evaluation of a primitive on whole arrays.
    fn evaluated(
        primitive: &Arc<dyn Primitive>,
        operands: &[Operand<'_>],
        results: &[Place],
        code: &mut Code,
    ) {
        let primitive = Arc::clone(primitive);
        let operands = operands
            .iter()
            .map(|it| (it.place, it.info.clone(), it.is_last));
        let operands: Vec<(Place, AbstractArray, bool)> = operands.collect();
        let results = results.to_vec();
        code.push(Box::new(move |values| {
            let operand = |(place, info, is_last): &(Place, AbstractArray, bool)| {
                let array = if *is_last {
                    values.take(*place)
                } else {
                    Arc::clone(values.array(*place))
                };
                if array.info == *info {
                    return array;
                }
                Arc::new(Array::reshaped(array, &info.shape))
            };
            let evaluated = evaluate(&*primitive, operands.iter().map(operand).collect());
            for (&result, array) in pairs(&results, evaluated, RESULTS) {
                values.set(result, Arc::new(array));
            }
        }));
    }
}

/// Returns whether a primitive only moves elements, to places that depend on shapes.
fn moves(primitive: &dyn Any) -> bool {
    primitive.is::<Broadcast>()
        || primitive.is::<Concatenate>()
        || primitive.is::<Pad>()
        || primitive.is::<Reverse>()
        || primitive.is::<Slice>()
        || primitive.is::<Transpose>()
}

/// Returns whether a primitive overwrites a part of its first operand.
fn updates(primitive: &dyn Any) -> bool {
    primitive.is::<UpdateSlice>() || primitive.is::<Scatter>()
}

/// Returns the position of each element of the result among the elements of all operands, by moving their positions.
fn positions(
    primitive: &dyn Primitive,
    operands: &[Operand<'_>],
    result: &AbstractArray,
) -> Option<Vec<usize>> {
    let mut positions = 0_i32..;
    let of_operand = |operand: &Operand<'_>| {
        let positions = positions.by_ref().take(operand.info.len()).collect();
        Arc::new(Array::new::<i32>(&operand.info.shape, positions))
    };
    let moved = evaluate(primitive, operands.iter().map(of_operand).collect());
    let moved = moved
        .first()
        .filter(|it| it.dtype() == DType::I32 && it.info.shape == result.shape)?;
    let moved = moved.elements::<i32>().iter();
    moved
        .map(|&position| usize::try_from(position).ok())
        .collect()
}
