//! The instructions of the equations of a jaxpr.

use std::any::Any;
use std::sync::Arc;

use pytree_base::bug::pairs;
use pytree_kernels::base::array::Operands;
use pytree_kernels::base::dtype::AbstractArray;
use pytree_kernels::loops::arena::{Code, Place, Values};
use pytree_kernels::loops::elementwise::{Elementwise, Unary};
use pytree_kernels::loops::gather::{Outside, ScatterBy};
use pytree_kernels::loops::pad::Pad;

use super::places::Places;
use super::translator::{Operand, Pending, Translator};
use crate::passes::optimize_for_host;
use crate::primitives::control::cond::Cond;
use crate::primitives::control::scan::Scan;
use crate::primitives::control::while_loop::While;
use crate::primitives::create::{Broadcast, Full, Iota};
use crate::primitives::dot::product_of;
use crate::primitives::gather::{Scatter, ScatterAdd, Take};
use crate::primitives::random::Threefry2x32;
use crate::primitives::reduce::{ArgExtremum, Reduce, Sum};
use crate::primitives::shape::{Reshape, Transpose};
use crate::primitives::slice::{Concatenate, DynamicSlice, Reverse, Slice, UpdateSlice};
use crate::tensor::evaluation::evaluate;
use crate::tensor::jaxpr::{Jaxpr, RESULTS, Variable, constant_array};
use crate::tensor::primitive::Primitive;

/// The greatest number of equations of a program, so that translation takes no time for other programs.
const MOST_EQUATIONS: usize = 1024;

/// The greatest number of variables of a jaxpr in a program. Each output is compared with each input.
const MOST_VARIABLES: usize = 4 * MOST_EQUATIONS;

/// The greatest number of nanoseconds that one round of a program may take. Beyond it, fused kernels and threads are faster.
const LONGEST: usize = 20_000;

/// The greatest number of bytes of a value that is created from nothing. A program keeps it between runs.
const MOST_CREATED: usize = 1 << 20;

/// The number of elements that an instruction handles in a nanosecond.
const PER_NANOSECOND: usize = 8;

/// Returns whether a jaxpr has so few equations and variables that it may have a program.
pub(in crate::executor) fn may_run(jaxpr: &Jaxpr) -> bool {
    jaxpr.equations.len() <= MOST_EQUATIONS && jaxpr.variables.len() <= MOST_VARIABLES
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
        let mut places = Places::new(jaxpr);
        for (input, &place) in jaxpr.inputs.iter().zip(inputs) {
            places.put(*input, place);
        }
        for (variable, tensor) in &jaxpr.constants {
            places.put(*variable, self.values.constant(constant_array(tensor)));
        }
        for (position, equation) in jaxpr.equations.iter().enumerate() {
            let mut operands = Vec::with_capacity(equation.inputs.len());
            for &input in &equation.inputs {
                let place = places.of(input)?;
                let is_owned = owned.contains(&place)
                    || self.values.is_made_since(place, first) && !code.is_hoisted(place);
                let same = |other: &&Variable| places.of(**other) == Some(place);
                let is_last = is_owned
                    && !places.is_read_after(place, position)
                    && equation.inputs.iter().filter(same).count() == 1;
                let info = jaxpr.info(input);
                operands.push(Operand {
                    place,
                    info,
                    is_last,
                });
            }
            let outputs = equation.outputs.iter();
            let infos: Vec<AbstractArray> = outputs.map(|&it| jaxpr.info(it).clone()).collect();
            // A result that the next round reads is written where the next round reads it.
            self.target = jaxpr
                .outputs
                .iter()
                .zip(owned)
                .find_map(|(output, &target)| {
                    let is_result = equation.outputs.first() == Some(output);
                    let fits = || *self.values.info(target) == infos[0];
                    let is_free = || !places.is_read_after(target, position);
                    (is_result && fits() && is_free()).then_some(target)
                });
            let read: Vec<Place> = operands.iter().map(|operand| operand.place).collect();
            let may_move = equation.primitive.bodies().is_empty()
                && !operands.is_empty()
                && infos.iter().all(Values::are_fixed);
            let before = may_move.then(|| code.before(&read, &self.values)).flatten();
            let results = if let Some(before) = before {
                self.target = None;
                let results = self.equation(&equation.primitive, &operands, &infos, before)?;
                code.hoist(&results);
                results
            } else {
                self.equation(&equation.primitive, &operands, &infos, code)?
            };
            for (&output, &result) in equation.outputs.iter().zip(&results) {
                places.put(output, result);
            }
        }
        let outputs = jaxpr.outputs.iter();
        let outputs: Option<Vec<Place>> = outputs.map(|&output| places.of(output)).collect();
        for &output in outputs.iter().flatten() {
            self.settle(output, code);
        }
        self.pending.clear();
        outputs
    }

    /// Adds a called jaxpr.
    pub(super) fn callee(
        &mut self,
        jaxpr: &Jaxpr,
        inputs: &[Place],
        owned: &[Place],
        code: &mut Code,
    ) -> Option<Vec<Place>> {
        may_run(jaxpr).then_some(())?;
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
        let target = self.target.take();
        let inputs: Vec<Place> = operands.iter().map(|operand| operand.place).collect();
        let elementwise = primitive.elementwise();
        if any.is::<Reshape>() || elementwise == Some(Elementwise::Unary(Unary::StopGradient)) {
            return Some(inputs);
        }
        if any.is::<Full>() || any.is::<Iota>() {
            (infos[0].bytes() <= MOST_CREATED).then_some(())?;
            let results = evaluate(&**primitive, Operands::new());
            let constants = results
                .into_iter()
                .map(|it| self.values.constant(&Arc::new(it)));
            return Some(constants.collect());
        }
        let mut all = operands.iter().map(|operand| operand.info).chain(infos);
        let are_fixed = all.all(Values::are_fixed);
        if are_fixed && moves(any) {
            for input in &inputs {
                if let Some(Pending::Arithmetic(..)) = self.pending.get(input) {
                    self.settle(*input, code);
                }
            }
            let sources = self.sources(&**primitive, operands, &infos[0])?;
            let place = self.values.place(&infos[0]);
            self.pending.insert(place, Pending::Moved(sources));
            return Some(vec![place]);
        }
        if let Some(Elementwise::Binary(operation)) = elementwise
            && are_fixed
            && Values::is_arithmetic(operation, infos[0].dtype)
        {
            self.count(&**primitive, operands, infos)?;
            return Some(vec![
                self.arithmetic(operation, operands, &infos[0], target, code),
            ]);
        }
        let reads_views = elementwise.is_some_and(|operation| {
            let dtype = operands.last().map(|operand| operand.info.dtype);
            dtype.is_some_and(|dtype| Values::reads_views(operation, dtype, infos[0].len()))
        });
        let inputs: Vec<Place> = if reads_views && are_fixed {
            let read = operands.iter().map(|operand| self.read(operand, code));
            read.collect()
        } else {
            inputs.iter().for_each(|&input| self.settle(input, code));
            inputs
        };
        if !primitive.bodies().is_empty() {
            self.settle_all(None, code);
        }
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
        self.count(&**primitive, operands, infos)?;
        if let Some(update) = any.downcast_ref::<UpdateSlice>()
            && let Some(place) = self.update(update, operands, code)
        {
            return Some(vec![place]);
        }
        if let Some(scatter) = any.downcast_ref::<Scatter>()
            && let Some(place) = self.scatter(scatter, operands, code)
        {
            return Some(vec![place]);
        }
        let target = target.filter(|_| elementwise.is_some());
        if let Some(target) = target {
            self.settle_all(Some(target), code);
        }
        let place = |info| target.unwrap_or_else(|| self.values.place(info));
        let places: Vec<Place> = infos.iter().map(place).collect();
        let reads_part = any.is::<Take>() || any.is::<DynamicSlice>();
        let is_small = are_fixed || reads_part && Values::are_fixed(&infos[0]);
        if !is_small || !self.prepared(&**primitive, operands, &inputs, &places, code) {
            let is_partial = reads_part || any.is::<Slice>() || updates(any);
            (are_fixed || is_partial).then_some(())?;
            Self::evaluated(primitive, operands, &places, code);
        }
        Some(places)
    }

    /// Adds the update of a window, in place if nothing reads the operand later. Returns the place of the result.
    fn update(
        &mut self,
        update: &UpdateSlice,
        operands: &[Operand<'_>],
        code: &mut Code,
    ) -> Option<Place> {
        let [operand, written, starts @ ..] = operands else {
            return None;
        };
        Values::are_fixed(written.info).then_some(())?;
        let place = self.overwritten(operand, code);
        let starts = starts_on(&update.axes, starts);
        let written = (written.place, &written.info.shape[..]);
        self.values
            .updated((place, operand.info), written, &starts, code)
            .then_some(place)
    }

    /// Adds the combination of blocks of a value with updates, in place if nothing reads the operand later. Returns the place of the result.
    fn scatter(
        &mut self,
        scatter: &Scatter,
        operands: &[Operand<'_>],
        code: &mut Code,
    ) -> Option<Place> {
        let [operand, indices, updates] = operands else {
            return None;
        };
        let is_set = scatter.by == ScatterBy::Set;
        let mut fixed = [indices, updates]
            .into_iter()
            .chain((!is_set).then_some(operand));
        fixed.all(|it| Values::are_fixed(it.info)).then_some(())?;
        let blocks = scatter.take().blocks(&operand.info.shape);
        let place = self.overwritten(operand, code);
        let places = [indices.place, updates.place, place];
        let blocks = (&blocks, Outside::Drop);
        self.values
            .scattered(Some(scatter.by), blocks, places, code)
            .then_some(place)
    }

    /// Returns the place of an operand that an instruction overwrites, or of a copy if something reads the operand later.
    fn overwritten(&mut self, operand: &Operand<'_>, code: &mut Code) -> Place {
        let from = operand.place;
        if operand.is_last {
            self.settle_all(Some(from), code);
            return from;
        }
        let place = self.values.like(from);
        code.push(move |values| values.copy(from, place));
        place
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
        inputs: &[Place],
        results: &[Place],
        code: &mut Code,
    ) -> bool {
        let any: &dyn Any = primitive;
        let (values, result) = (&mut self.values, results[0]);
        let given = |at: usize| (operands[at].place, operands[at].info);
        if let Some(operation) = primitive.elementwise() {
            values.elementwise(operation, inputs, result, code);
            return true;
        }
        if let Some(sum) = any.downcast_ref::<Sum>() {
            return values.reduced(None, given(0), &sum.axes, result, code);
        }
        if let Some(Reduce {
            reduction, axes, ..
        }) = any.downcast_ref()
        {
            return values.reduced(Some(*reduction), given(0), axes, result, code);
        }
        if let Some(ArgExtremum { extremum, axis }) = any.downcast_ref() {
            return values.argument(*extremum, given(0), *axis, result, code);
        }
        if let Some(take) = any.downcast_ref::<Take>() {
            let blocks = (&take.blocks(&operands[0].info.shape), take.outside);
            return values.taken(blocks, [inputs[0], inputs[1], result], code);
        }
        if let Some(window) = any.downcast_ref::<DynamicSlice>() {
            let starts = starts_on(&window.axes, &operands[1..]);
            return values.windowed(given(0), (result, &window.sizes), &starts, code);
        }
        if let Some(scatter) = any.downcast_ref::<ScatterAdd>() {
            let blocks = scatter.take().blocks(&values.info(result).shape);
            let (blocks, places) = ((&blocks, scatter.outside), [inputs[1], inputs[0], result]);
            return values.scattered(None, blocks, places, code);
        }
        if let (true, &[a, b, c, d], &[first, second]) = (any.is::<Threefry2x32>(), inputs, results)
        {
            values.random_bits([a, b, c, d], [first, second], code);
            return true;
        }
        let dot = product_of(primitive);
        dot.is_some_and(|dot| values.product(dot, [given(0), given(1)], result, code))
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
        code.push(move |values| {
            let operand = |(place, info, is_last): &(Place, AbstractArray, bool)| {
                if *is_last {
                    values.take(*place, info)
                } else {
                    values.result(*place, info)
                }
            };
            let evaluated = evaluate(&*primitive, operands.iter().map(operand).collect());
            for (&result, array) in pairs(&results, evaluated, RESULTS) {
                values.set(result, Arc::new(array));
            }
        });
    }
}

/// Returns the axes on which a window is moved, with the places of its starts.
fn starts_on(axes: &[usize], starts: &[Operand<'_>]) -> Vec<(usize, Place)> {
    let places = starts.iter().map(|start| start.place);
    axes.iter().copied().zip(places).collect()
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
