//! The plan of threads for a whole program: which steps run side by side, and in how many pieces.
//!
//! A long step is divided among the threads on its own. Many steps are too short for that, or cannot be divided evenly: the
//! products of a small layer, the update of each parameter, a reduction. Steps that do not need each other's
//! results form a stage, and the threads take its pieces one after the other. So a core that has done its share of one step
//! continues with another one.
//!
//! The plan depends on shapes and on the number of threads, and never on time. It changes the order of steps, and no result.

use std::any::Any;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

use pytree_kernels::base::threads;

use super::planner::Scheduled;
use crate::primitives::dot::product_of;
use crate::primitives::shape::Reshape;
use crate::tensor::jaxpr::{Jaxpr, Variable};

/// The search for the steps of a stage ends after this number of steps that must wait for results. So the planning time is linear in the
/// number of steps, and no result is computed long before it is read.
const PASSED: usize = 16;

/// A step that takes one thread this number of nanoseconds is divided well on its own, so it runs alone. A stage gets no further
/// steps when all of them together take this long.
const LONG: usize = 500_000;

/// A step that takes one thread less than this number of nanoseconds runs before the stage. To hand it to another thread would take
/// as long.
const SHORT: usize = 500;

/// The number of elements that a step which only moves elements, or computes one operation, handles in a nanosecond.
const PER_NANOSECOND: usize = 8;

/// All steps of a stage together take one thread at least this many times as long as the shortest step that is divided on its own.
const SHORTEST: usize = 3;

/// The greatest number of pieces of a step for each thread.
const MOST_PIECES: usize = 2;

/// About how many nanoseconds threads need to begin and end shared work.
const JOIN: usize = 3_000;

/// A stage pays if it takes less time than its steps one after the other, by this part in percent. Steps one after the other have an
/// advantage that the estimate does not contain: a thread then works on the same part of each array, which is in the caches of its
/// core.
const GAIN: usize = 18;

/// A stage is balanced if the longest share of a thread takes at most this part of the time above the mean, in percent.
const UNEVEN: usize = 25;

/// Steps that run side by side.
#[derive(Debug)]
pub(super) struct Stage {
    /// The position after the last step. A stage begins where the stage before it ends.
    pub(super) end: usize,
    /// The steps with the number of their pieces, in the order in which threads take them. Empty if the steps run one after
    /// the other, each shared by all threads.
    pub(super) shares: Vec<Share>,
}

/// The pieces of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Share {
    /// The position of the step in its stage.
    pub(super) step: usize,
    pub(super) pieces: usize,
}

/// About how long a step takes.
#[derive(Clone, Copy)]
struct Estimate {
    nanoseconds: usize,
    is_divisible: bool,
}

impl Estimate {
    /// Returns how long the step takes if it runs alone. A step that is not divisible has several phases, which are divided.
    fn alone(self, threads: usize) -> usize {
        let joins = if self.is_divisible { 1 } else { 3 };
        if threads::is_long(self.nanoseconds) {
            self.nanoseconds / threads + joins * JOIN
        } else {
            self.nanoseconds
        }
    }

    /// Returns `None` for a step that is so long that it runs alone.
    fn new(nanoseconds: usize, is_divisible: bool) -> Option<Self> {
        (nanoseconds < LONG).then_some(Self {
            nanoseconds,
            is_divisible,
        })
    }
}

/// Orders the steps of a schedule by stages. A step moves only forward, before steps whose results it does not need.
pub(super) fn arrange(
    jaxpr: &Jaxpr,
    scheduled: Vec<Scheduled>,
    threads: usize,
) -> (Vec<Scheduled>, Vec<Stage>) {
    let mut arrangement = Arrangement {
        jaxpr,
        missing: vec![false; jaxpr.variables.len()],
        estimates: scheduled.iter().map(|step| estimate(jaxpr, step)).collect(),
        rest: Vec::new(),
    };
    scheduled
        .iter()
        .for_each(|step| arrangement.mark(step, true));
    arrangement.rest = scheduled.into_iter().map(Some).collect();
    let mut ordered = Vec::with_capacity(arrangement.rest.len());
    let mut stages: Vec<Stage> = Vec::new();
    for start in 0..arrangement.rest.len() {
        let (short, others) = arrangement.take_stage(start);
        let estimates: Vec<Estimate> = others
            .iter()
            .filter_map(|&(_, estimate)| estimate)
            .collect();
        let shares = shares(&estimates, threads).unwrap_or_default();
        for (steps, shares) in [(short, Vec::new()), (others, shares)] {
            if steps.is_empty() {
                continue;
            }
            for (step, _) in steps {
                arrangement.mark(&step, false);
                ordered.push(step);
            }
            let end = ordered.len();
            match stages.last_mut() {
                Some(last) if last.shares.is_empty() && shares.is_empty() => last.end = end,
                _ => stages.push(Stage { end, shares }),
            }
        }
    }
    (ordered, stages)
}

/// A schedule whose steps are taken one stage after the other.
struct Arrangement<'j> {
    jaxpr: &'j Jaxpr,
    /// For each variable, whether a step that is not in a complete stage computes it.
    missing: Vec<bool>,
    /// For each step, how long it takes, if it may run beside others and is not too long.
    estimates: Vec<Option<Estimate>>,
    /// The steps that are in no stage yet.
    rest: Vec<Option<Scheduled>>,
}

impl Arrangement<'_> {
    fn mark(&mut self, step: &Scheduled, is_missing: bool) {
        for output in step.outputs(self.jaxpr) {
            self.missing[output.index()] = is_missing;
        }
    }

    /// Takes the step at the position `start`, and later steps that can run beside it. Returns the steps that are too short
    /// to run on another thread, and the others.
    fn take_stage(&mut self, start: usize) -> (Vec<Member>, Vec<Member>) {
        let (mut short, mut others) = (Vec::new(), Vec::new());
        let (mut total, mut passed) = (0, 0);
        for position in start..self.rest.len() {
            let estimate = self.estimates[position];
            let is_first = position == start;
            if passed >= PASSED || total >= LONG {
                break;
            }
            let Some(step) = self.rest[position].take_if(|step| {
                let mut inputs = step.inputs(self.jaxpr).iter();
                is_first || estimate.is_some() && inputs.all(|input| !self.missing[input.index()])
            }) else {
                passed += usize::from(self.rest[position].is_some());
                if is_first {
                    break;
                }
                continue;
            };
            let nanoseconds = estimate.map_or(LONG, |estimate| estimate.nanoseconds);
            total += nanoseconds;
            let members = if nanoseconds < SHORT {
                &mut short
            } else {
                &mut others
            };
            members.push((step, estimate));
        }
        (short, others)
    }
}

/// A step of a stage.
type Member = (Scheduled, Option<Estimate>);

/// Divides the steps of a stage into pieces that threads can share evenly. Returns `None` if it is better to run one step after
/// the other.
fn shares(members: &[Estimate], threads: usize) -> Option<Vec<Share>> {
    let total: usize = members.iter().map(|member| member.nanoseconds).sum();
    if members.len() < 2 || threads < 2 || !threads::is_long(total / SHORTEST) {
        return None;
    }
    let mut shares: Vec<Share> = (0..members.len())
        .map(|step| Share { step, pieces: 1 })
        .collect();
    let piece = |share: &Share| members[share.step].nanoseconds / share.pieces;
    loop {
        shares.sort_by_key(|share| Reverse(piece(share)));
        let mut busy: BinaryHeap<Reverse<usize>> = (0..threads).map(|_| Reverse(0)).collect();
        let mut longest = 0;
        for share in &shares {
            for _ in 0..share.pieces {
                let Reverse(before) = busy.pop()?;
                let after = before + piece(share);
                longest = longest.max(after);
                busy.push(Reverse(after));
            }
        }
        if longest * threads * 100 <= total * (100 + UNEVEN) {
            let apart: usize = members.iter().map(|member| member.alone(threads)).sum();
            return ((longest + JOIN) * 100 <= apart * (100 - GAIN)).then_some(shares);
        }
        // The longest pieces come first.
        let can_be_divided = |share: &&mut Share| {
            members[share.step].is_divisible
                && share.pieces < MOST_PIECES * threads
                && threads::is_long(piece(share))
        };
        shares.iter_mut().find(can_be_divided)?.pieces *= 2;
    }
}

/// Estimates how long a step takes. Returns `None` if the step must not run beside others: it is long, it has an effect, it
/// exchanges messages with other processes, it runs a body, or its time is not known.
fn estimate(jaxpr: &Jaxpr, scheduled: &Scheduled) -> Option<Estimate> {
    let position = match scheduled {
        Scheduled::Kernel(fused) => {
            let kernel = &fused.kernel;
            return Estimate::new(kernel.nanoseconds(), kernel.is_divisible());
        }
        Scheduled::One(position) => *position,
    };
    let equation = &jaxpr.equations[position];
    let primitive = &*equation.primitive;
    let info = |variable: &Variable| jaxpr.info(*variable);
    if let Some(dot) = product_of(primitive) {
        let (left, right) = (info(&equation.inputs[0]), info(&equation.inputs[1]));
        return Estimate::new(dot.nanoseconds(left, right), dot.is_divisible(left, right));
    }
    let any: &dyn Any = primitive;
    if any.is::<Reshape>() {
        return Estimate::new(0, false);
    }
    let moves = primitive.accepts_narrow() || primitive.elementwise().is_some();
    let is_known = moves || primitive.reduction().is_some();
    let is_free = !primitive.has_effect()
        && primitive.axis_names().is_empty()
        && primitive.bodies().is_empty()
        && primitive.callee().is_none();
    if !(is_known && is_free) {
        return None;
    }
    let read = if moves { &[] } else { &equation.inputs[..] };
    let elements: usize = read
        .iter()
        .chain(&equation.outputs)
        .map(|variable| info(variable).len())
        .sum();
    Estimate::new(elements / PER_NANOSECOND, false)
}
