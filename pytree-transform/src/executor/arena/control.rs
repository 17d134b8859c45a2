//! The instructions of loops and branches, which run further instructions.

use pytree_kernels::base::dtype::AbstractArray;
use pytree_kernels::loops::arena::{Code, Place, Stacks, Values};

use super::translator::{Operand, Translator};
use crate::primitives::control::cond::Cond;
use crate::primitives::control::scan::Scan;
use crate::primitives::control::while_loop::While;

/// A copy of a value to another one.
#[derive(Clone, Copy)]
enum Feed {
    Copy(Place, Place),
    /// Exchanges two loose values, of which the first one is not read any more.
    Swap(Place, Place),
}

impl Feed {
    fn run(self, values: &mut Values) {
        match self {
            Self::Copy(from, to) => values.copy(from, to),
            Self::Swap(from, to) => values.swap(from, to),
        }
    }
}

impl Translator {
    /// Makes places for the carry of a loop, and the copies of its start.
    fn start(&mut self, carry: &[Operand<'_>]) -> (Vec<Place>, Vec<Feed>) {
        let start = |operand: &Operand<'_>| {
            let place = self.values.place(operand.info);
            let feed = if operand.is_last && !self.values.is_fixed(place) {
                Feed::Swap
            } else {
                Feed::Copy
            };
            (place, feed(operand.place, place))
        };
        carry.iter().map(start).unzip()
    }

    /// Adds the body of a loop, whose last instruction copies the outputs to the carry of the next iteration. Returns the other outputs. The
    /// loop writes no value before the place `outside`.
    fn body(
        &mut self,
        body: impl FnOnce(&mut Self, &mut Code) -> Option<Vec<Place>>,
        outside: Place,
        carry: &[Place],
    ) -> Option<(Code, Vec<Place>, Vec<Feed>)> {
        let first = self.values.next();
        let mut code = self.values.body(outside);
        let outside = std::mem::take(&mut self.nanoseconds);
        let outputs = body(self, &mut code)?;
        self.nanoseconds = outside;
        let (next, rest) = outputs.split_at(carry.len());
        let mut feeds = Vec::new();
        for (at, (&from, &to)) in next.iter().zip(carry).enumerate() {
            if from == to {
                continue;
            }
            let is_own = !self.values.is_fixed(from) && self.values.is_made_since(from, first);
            let is_shared = outputs[..at].contains(&from) || outputs[at + 1..].contains(&from);
            if carry.contains(&from) {
                // The value is overwritten before it is copied, or is copied twice.
                let between = self.values.like(from);
                code.push(move |values| values.copy(from, between));
                feeds.push(Feed::Copy(between, to));
            } else {
                feeds.push(if is_own && !is_shared {
                    Feed::Swap(from, to)
                } else {
                    Feed::Copy(from, to)
                });
            }
        }
        Some((code, rest.to_vec(), feeds))
    }

    pub(super) fn scan(
        &mut self,
        scan: &Scan,
        operands: &[Operand<'_>],
        infos: &[AbstractArray],
        code: &mut Code,
    ) -> Option<Vec<Place>> {
        let (constants, rest) = operands.split_at(scan.constants);
        let (first, stacks) = rest.split_at(scan.carry);
        let outside = self.values.next();
        let (carry, start) = self.start(first);
        let jaxpr = &scan.body.jaxpr;
        let elements = jaxpr.inputs[scan.constants + scan.carry..].iter();
        let elements: Vec<Place> = elements
            .map(|&input| self.values.place(jaxpr.info(input)))
            .collect();
        let inputs = constants
            .iter()
            .map(|it| it.place)
            .chain(carry.iter().copied());
        let inputs: Vec<Place> = inputs.chain(elements.iter().copied()).collect();
        let (mut body, parts, feeds) = self.body(
            |this, code| this.callee(jaxpr, &inputs, &carry, code),
            outside,
            &carry,
        )?;
        code.prepare(&mut body);
        let loads: Vec<(Place, Place)> = stacks.iter().map(|it| it.place).zip(elements).collect();
        let stacked: Vec<(Place, AbstractArray)> = infos[scan.carry..]
            .iter()
            .map(|info| (self.values.place(info), info.clone()))
            .collect();
        let mut moved = loads.iter().map(|load| load.1).chain(parts.iter().copied());
        if !moved.all(|place| self.values.is_fixed(place)) {
            return None;
        }
        let results = carry
            .iter()
            .copied()
            .chain(stacked.iter().map(|(place, _)| *place))
            .collect();
        let (length, reverse) = (scan.length, scan.reverse);
        let mut loads = Stacks::new(loads);
        let mut stores = Stacks::new(stacked.iter().map(|(stack, _)| *stack).zip(parts));
        code.push(move |values| {
            start.iter().for_each(|feed| feed.run(values));
            for (place, info) in &stacked {
                values.renew(*place, info);
            }
            loads.find(length, values);
            stores.find(length, values);
            for step in 0..length {
                let position = if reverse { length - 1 - step } else { step };
                loads.load(position, values);
                body.run(values);
                stores.store(position, values);
                feeds.iter().for_each(|feed| feed.run(values));
            }
            loads.leave();
            stores.leave();
        });
        Some(results)
    }

    pub(super) fn while_loop(
        &mut self,
        looped: &While,
        operands: &[Operand<'_>],
        code: &mut Code,
    ) -> Option<Vec<Place>> {
        let (of_condition, rest) = operands.split_at(looped.condition_constants);
        let (of_body, first) = rest.split_at(looped.body_constants);
        let outside = self.values.next();
        let (carry, start) = self.start(first);
        let with = |constants: &[Operand<'_>]| -> Vec<Place> {
            constants
                .iter()
                .map(|it| it.place)
                .chain(carry.iter().copied())
                .collect()
        };
        let mut condition = self.values.code();
        let holds = self.callee(
            &looped.condition.jaxpr,
            &with(of_condition),
            &[],
            &mut condition,
        )?[0];
        let inputs = with(of_body);
        let (mut body, _, feeds) = self.body(
            |this, code| this.callee(&looped.body.jaxpr, &inputs, &carry, code),
            outside,
            &carry,
        )?;
        code.prepare(&mut body);
        code.push(move |values| {
            start.iter().for_each(|feed| feed.run(values));
            loop {
                condition.run(values);
                if !values.holds(holds) {
                    break;
                }
                body.run(values);
                feeds.iter().for_each(|feed| feed.run(values));
            }
        });
        Some(carry)
    }

    pub(super) fn cond(
        &mut self,
        cond: &Cond,
        inputs: &[Place],
        infos: &[AbstractArray],
        code: &mut Code,
    ) -> Option<Vec<Place>> {
        let (&index, inputs) = inputs.split_first()?;
        let results: Vec<Place> = infos.iter().map(|info| self.values.place(info)).collect();
        let mut branches = Vec::new();
        for branch in &cond.branches {
            let mut code = self.values.code();
            let outputs = self.callee(&branch.jaxpr, inputs, &[], &mut code)?;
            let feeds: Vec<(Place, Place)> =
                outputs.into_iter().zip(results.iter().copied()).collect();
            code.push(move |values| {
                feeds.iter().for_each(|&(from, to)| values.copy(from, to));
            });
            branches.push(code);
        }
        code.push(move |values| {
            let index = Cond::branch(values.index(index), branches.len());
            branches[index].run(values);
        });
        Some(results)
    }
}
