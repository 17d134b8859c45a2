//! Runs a program on inputs that the caller lends.
//!
//! While the caller holds a handle of each input, no step overwrites an input. The caller releases its handles after the last step that
//! can fail, when the memory of all later steps was granted. So a call that fails leaves its inputs as they are.

use std::sync::Arc;

use pytree_kernels::base::array::Array;
use pytree_kernels::base::dtype::{AbstractArray, DType};
use pytree_kernels::base::memory;

use super::executable::{Executable, Lent};
use super::step::Work;
use crate::primitives::body::program::Slots;

/// Panics if the system does not grant this many bytes. Where a caller returns an error if memory is refused, unwinds to this caller.
fn check_room(bytes: usize) {
    if !memory::has_room(bytes) {
        memory::refuse(AbstractArray::new(DType::U8, [bytes]));
        panic!(
            "cannot run a compiled function: {bytes} bytes of memory for its values are not available; use a smaller batch, or drop tensors that are not needed"
        );
    }
}

impl Executable {
    /// Runs the program like [`run_in`](Self::run_in). The caller holds one handle of each input, and drops these handles when `release`
    /// is called. If the run panics before that, no input has changed. After that, the run does not panic.
    ///
    /// # Panics
    /// If a step fails, or if the system does not grant the memory of the program.
    pub(crate) fn run_lent(
        &self,
        inputs: Vec<Arc<Array>>,
        release: &mut dyn FnMut(),
    ) -> Vec<Arc<Array>> {
        let lent = self.lent.get_or_init(|| self.lending());
        // An input that has a third handle is copied instead of overwritten.
        let overwritten = inputs.iter().zip(&lent.overwritten).filter(|pair| *pair.1);
        let shared = overwritten.filter(|(input, _)| Arc::strong_count(input) > 2);
        let copies: usize = shared.map(|(input, _)| input.info.bytes()).sum();
        let mut values = Slots::new();
        self.begin(&mut values, inputs);
        self.run_steps(0..lent.release, &mut values);
        check_room(lent.needed + copies);
        release();
        self.run_steps(lent.release..self.steps.len(), &mut values);
        self.end(&mut values)
    }

    fn lending(&self) -> Lent {
        let last = self.steps.iter().rposition(|step| step.work.can_fail());
        let after = last.map_or(0, |last| last + 1);
        // A stage that threads share runs as a whole.
        let mut ends = self.stages.iter().filter(|stage| stage.end >= after);
        let release = match ends.next() {
            Some(stage) if after > 0 && !stage.shares.is_empty() => stage.end,
            _ => after,
        };
        Lent {
            release,
            needed: self.needed_from(release),
            overwritten: self.overwritten(),
        }
    }

    /// Returns, for each input, whether a step may overwrite it. A loop or a call may overwrite each of its operands.
    fn overwritten(&self) -> Vec<bool> {
        let mut slots = vec![false; self.slots];
        for step in &self.steps {
            let positions: Vec<usize> = match &step.work {
                Work::Kernel(kernel) => kernel.in_place().collect(),
                Work::One(primitive) | Work::Collective(primitive, _) => {
                    if primitive.bodies().is_empty() {
                        primitive.overwritten().into_iter().collect()
                    } else {
                        (0..step.inputs.len()).collect()
                    }
                }
            };
            for position in positions {
                slots[step.inputs[position].slot] = true;
            }
        }
        self.inputs.iter().map(|&slot| slots[slot]).collect()
    }

    /// Returns how many bytes the steps from `first` on need at most at a time, beside what is in memory before them.
    pub(super) fn needed_from(&self, first: usize) -> usize {
        let (mut live, mut most) = (0_isize, 0);
        for step in &self.steps[first..] {
            let bytes = |slot: usize| self.bytes[slot].cast_signed();
            let freed = step.inputs.iter().filter(|used| used.last);
            let results: isize = step.outputs.iter().map(|&slot| bytes(slot)).sum();
            let (overwritten, scratch) = match &step.work {
                Work::Kernel(kernel) => {
                    let inputs = kernel.in_place().map(|input| step.inputs[input]);
                    let inputs = inputs.filter(|used| used.last);
                    (inputs.map(|used| bytes(used.slot)).sum(), kernel.scratch())
                }
                Work::One(primitive) | Work::Collective(primitive, _) => {
                    let read = step.inputs.iter().map(|used| self.bytes[used.slot]);
                    let overwritten = primitive.overwritten().map(|input| step.inputs[input]);
                    let overwritten = overwritten.filter(|used| used.last);
                    let overwritten = overwritten.map_or(0, |used| self.bytes[used.slot]);
                    let read = read.sum::<usize>() - overwritten;
                    let scratch = primitive.scratch().max(read / 2);
                    (overwritten.cast_signed(), scratch)
                }
            };
            live += results;
            most = most.max(live - overwritten + scratch.cast_signed());
            live -= freed.map(|used| bytes(used.slot)).sum::<isize>();
        }
        most.max(0).cast_unsigned()
    }
}
