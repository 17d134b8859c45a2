//! What is known while equations are translated: the values, and those that are computed when an instruction reads them.

use std::collections::BTreeMap;
use std::sync::Arc;

use pytree_kernels::base::array::Array;
use pytree_kernels::base::dtype::{AbstractArray, DType};
use pytree_kernels::loops::arena::{Code, Place, Source, Values};
use pytree_kernels::loops::elementwise::{Binary, Elementwise};

use crate::tensor::evaluation::evaluate;
use crate::tensor::primitive::Primitive;

/// An operand of an equation.
#[derive(Clone, Copy)]
pub(super) struct Operand<'a> {
    pub(super) place: Place,
    /// The dtype and shape of the operand. The value may have another shape with the same elements.
    pub(super) info: &'a AbstractArray,
    /// Whether the equation may overwrite the array of a loose value.
    pub(super) is_last: bool,
}

/// A value that is computed when an instruction reads it.
pub(super) enum Pending {
    /// The sources of all elements, so that moves of moves are one move.
    Moved(Vec<Source>),
    /// An arithmetic operation, which is one instruction with that of its result.
    Arithmetic(Binary, [Place; 2]),
}

impl Pending {
    fn reads(&self, place: Place, values: &Values) -> bool {
        match self {
            Self::Moved(sources) => sources.iter().any(|source| source.0 == place),
            Self::Arithmetic(_, operands) => operands
                .iter()
                .any(|&operand| values.owner(operand) == place),
        }
    }
}

/// Translates equations to instructions.
#[derive(Default)]
pub(super) struct Translator {
    pub(super) values: Values,
    /// The values that no instruction has computed yet.
    pub(super) pending: BTreeMap<Place, Pending>,
    pub(super) equations: usize,
    /// Where the result of the next equation is written, if it is elementwise.
    pub(super) target: Option<Place>,
    /// About how many nanoseconds the instructions of the innermost loop take.
    pub(super) nanoseconds: usize,
}

impl Translator {
    /// Adds the instruction that computes a value, unless it was added before.
    pub(super) fn settle(&mut self, place: Place, code: &mut Code) {
        let is_hoisted = code.is_hoisted(place);
        let code = match code.before(&[], &self.values) {
            Some(before) if is_hoisted => before,
            _ => code,
        };
        match self.pending.remove(&place) {
            Some(Pending::Moved(sources)) => self.values.moved(&sources, place, code),
            Some(Pending::Arithmetic(operation, operands)) => {
                let operation = Elementwise::Binary(operation);
                self.values.elementwise(operation, &operands, place, code);
            }
            None => {}
        }
    }

    /// Adds the instructions of all pending values, or of those that read a value, which is overwritten next.
    pub(super) fn settle_all(&mut self, read: Option<Place>, code: &mut Code) {
        let pending = self.pending.iter();
        let reads = |pending: &Pending| read.is_none_or(|it| pending.reads(it, &self.values));
        let wanted = pending.filter(|(_, pending)| reads(pending));
        let wanted: Vec<Place> = wanted.map(|(&place, _)| place).collect();
        wanted
            .into_iter()
            .for_each(|place| self.settle(place, code));
    }

    /// Returns a value with the elements of an operand, which the next instruction reads: a view, if they are neighbours in another value.
    pub(super) fn read(&mut self, operand: &Operand<'_>, code: &mut Code) -> Place {
        if let Some(Pending::Moved(sources)) = self.pending.get(&operand.place)
            && let Some(&(place, first)) = sources.first()
            && sources
                .iter()
                .copied()
                .eq((first..).map(|at| (place, at)).take(sources.len()))
            && let Some(view) = self.values.view((place, first), operand.info)
        {
            return view;
        }
        self.settle(operand.place, code);
        operand.place
    }

    /// Returns the elements of a move.
    pub(super) fn sources(
        &self,
        primitive: &dyn Primitive,
        operands: &[Operand<'_>],
        result: &AbstractArray,
    ) -> Option<Vec<Source>> {
        let elements = |operand: &Operand<'_>| match self.pending.get(&operand.place) {
            Some(Pending::Moved(sources)) => sources.clone(),
            _ => (0..operand.info.len())
                .map(|at| (operand.place, at))
                .collect(),
        };
        let elements: Vec<Source> = operands.iter().flat_map(elements).collect();
        let positions = positions(primitive, operands, result)?.into_iter();
        Some(positions.map(|position| elements[position]).collect())
    }

    /// Adds an arithmetic operation together with that of an operand, if nothing else reads the operand. Otherwise the operation waits for
    /// the one that reads its result. Returns the place of the result.
    pub(super) fn arithmetic(
        &mut self,
        operation: Binary,
        operands: &[Operand<'_>],
        result: &AbstractArray,
        target: Option<Place>,
        code: &mut Code,
    ) -> Place {
        let places = [operands[0].place, operands[1].place];
        let is_waiting = |at: &usize| {
            let waits = matches!(
                self.pending.get(&places[*at]),
                Some(Pending::Arithmetic(..))
            );
            let has_one_reader = operands[*at].is_last && !code.is_hoisted(places[*at]);
            waits && has_one_reader && operands[*at].info.len() == result.len()
        };
        let found = [0, 1].into_iter().find(is_waiting);
        let first = found.and_then(|at| self.pending.remove(&places[at]));
        let mut read = places;
        for (at, operand) in operands.iter().enumerate() {
            if found != Some(at) {
                read[at] = self.read(operand, code);
            }
        }
        if let Some(target) = target {
            self.settle_all(Some(target), code);
        }
        let place = target.unwrap_or_else(|| self.values.place(result));
        match (first, found) {
            (Some(Pending::Arithmetic(inner, [a, b])), Some(at)) => {
                let (operands, is_left) = ([a, b, read[1 - at]], at == 1);
                let operations = [inner, operation];
                self.values
                    .arithmetic(operations, operands, is_left, place, code);
            }
            _ if target.is_some() => {
                let operation = Elementwise::Binary(operation);
                self.values.elementwise(operation, &read, place, code);
            }
            _ => {
                self.pending
                    .insert(place, Pending::Arithmetic(operation, read));
            }
        }
        place
    }
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
