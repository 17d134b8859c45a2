//! Steps that write a result of the kernel to memory, so that no register is copied at the end of the tile.
//!
//! A result may have the memory of an input, which is known only when the kernel runs. Then a step may write the result to memory
//! only if no later step reads the input.

use std::collections::HashMap;

use smallvec::{SmallVec, smallvec};

use super::program::{Kernel, Store};
use crate::fused::places::KernelInput;
use crate::fused::steps::{Level, Step, Work};
use crate::loops::elementwise::classes::class_of;

/// For each register, the result that a step writes to memory instead of the register.
pub(crate) type Destinations = SmallVec<[Option<usize>; 16]>;

impl Kernel {
    /// Finds the results that a step can write to memory, and the inputs whose memory they may have.
    pub(super) fn find_direct(&mut self) {
        let mut writers = vec![None; self.registers];
        let mut last_reads: HashMap<usize, usize> = HashMap::new();
        for (position, step) in self.steps.iter().enumerate() {
            writers[step.output] = Some((position, step));
            last_reads.extend(step.inputs().map(|input| (input, position)));
        }
        for store in &mut self.stores {
            let writer = writers[store.register].filter(|(_, step)| can_write(step, store));
            store.direct = writer.map(|(position, _)| {
                let is_read =
                    |input: &usize| last_reads.get(input).is_some_and(|&last| last > position);
                let takes = store.takes.iter().copied();
                takes.filter(|input| !is_read(input)).collect()
            });
        }
    }

    /// Returns the results that steps write to memory in a run with these inputs.
    pub(super) fn destinations(&self, sources: &[KernelInput<'_>]) -> Destinations {
        let mut destinations: Destinations = smallvec![None; self.registers];
        let mut taken: SmallVec<[Option<usize>; 8]> = smallvec![None; self.stores.len()];
        for (input, source) in sources.iter().enumerate().rev() {
            // The memory of the product before the kernel comes after the results.
            if let KernelInput::Result(result) = source
                && let Some(taken) = taken.get_mut(*result)
            {
                *taken = Some(input);
            }
        }
        for (result, (store, taken)) in self.stores.iter().zip(taken).enumerate() {
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
