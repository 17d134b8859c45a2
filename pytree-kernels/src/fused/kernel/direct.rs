//! Steps that write a result of the kernel to memory, so that no register is copied at the end of the tile.
//!
//! A result may have the memory of an input, which is known only when the kernel runs. Then a step may write the result to memory
//! only if no later step reads the input.

use smallvec::SmallVec;

use super::program::{Kernel, Store};
use crate::fused::places::KernelInput;
use crate::fused::steps::{Level, Step, Work};
use crate::loops::elementwise::classes::class_of;

/// For each register, the result that a step writes to memory instead of the register.
pub(crate) type Destinations = SmallVec<[Option<usize>; 16]>;

impl Kernel {
    /// Finds the results that a step can write to memory, and the inputs whose memory they may have.
    pub(super) fn find_direct(&mut self) {
        for result in 0..self.stores.len() {
            let store = &self.stores[result];
            let written = { self.steps.iter() }
                .position(|step| step.output == store.register && can_write(step, store));
            let direct = written.map(|position| {
                let later = &self.steps[position + 1..];
                let is_read = |input: usize| {
                    later
                        .iter()
                        .any(|step| step.inputs().any(|read| read == input))
                };
                { store.takes.iter().copied() }
                    .filter(|&input| !is_read(input))
                    .collect()
            });
            self.stores[result].direct = direct;
        }
    }

    /// Returns the results that steps write to memory in a run with these inputs.
    pub(super) fn destinations(&self, sources: &[KernelInput<'_>]) -> Destinations {
        let mut destinations: Destinations = smallvec::smallvec![None; self.registers];
        for (result, store) in self.stores.iter().enumerate() {
            let mut sources = sources.iter();
            let taken = sources
                .position(|source| matches!(source, KernelInput::Result(own) if *own == result));
            let is_direct = store
                .direct
                .as_ref()
                .is_some_and(|inputs| taken.is_none_or(|input| inputs.contains(&input)));
            destinations[store.register] = is_direct.then_some(result);
        }
        destinations
    }
}

/// Returns whether a step computes a result as it is in memory, element by element.
fn can_write(step: &Step, store: &Store) -> bool {
    let is_loop = matches!(
        step.work,
        Work::Elementwise(_)
            | Work::Called(..)
            | Work::Arithmetic(_)
            | Work::Chain(_)
            | Work::Choice(_)
            | Work::Limit(_)
    );
    is_loop && class_of(step.dtype) == step.dtype && store.level == Level::Element
}
