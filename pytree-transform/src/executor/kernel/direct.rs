//! Steps that write a result of the kernel to memory, so that no register is copied at the end of the tile.

use smallvec::SmallVec;

use super::{Kernel, Level, Place, Step, Store, Work};
use crate::base::dtype::DType;

impl Kernel {
    /// Lets steps write the results to memory where they can.
    ///
    /// A result may have the memory of an input. Such an input must not be read after the result is written.
    pub(super) fn write_directly(&mut self) {
        for result in 0..self.stores.len() {
            let store = &self.stores[result];
            let written = { self.steps.iter() }.position(|step| {
                store.register == Some(step.output.register) && self.can_write(step, store)
            });
            let Some(position) = written else {
                continue;
            };
            let later = &self.steps[position + 1..];
            let is_read = |input: usize| later.iter().any(|step| step.reads(input));
            let takes: SmallVec<[usize; 4]> = store
                .takes
                .iter()
                .copied()
                .filter(|&input| !is_read(input))
                .collect();
            // A copy costs less than memory of its own.
            if takes.is_empty() && !store.takes.is_empty() {
                continue;
            }
            let store = &mut self.stores[result];
            store.takes = takes;
            let register = store.register.take();
            self.steps[position].output.result = Some(result);
            let operands = self.steps[position + 1..]
                .iter_mut()
                .flat_map(|step| &mut step.operands);
            for operand in operands {
                if matches!(*operand, Place::Register(read) if Some(read) == register) {
                    *operand = Place::Result(result);
                }
            }
        }
    }

    /// Returns whether a step computes a result as it is in memory, element by element.
    fn can_write(&self, step: &Step, store: &Store) -> bool {
        let dtype = store.info.dtype;
        let is_loop = matches!(
            step.work,
            Work::Elementwise(_) | Work::Arithmetic(_) | Work::Chain(_)
        );
        is_loop && store.level == Level::Element && (dtype == self.float || dtype == DType::Bool)
    }
}

impl Step {
    /// Returns whether an operand of the step is the input with the given position.
    fn reads(&self, input: usize) -> bool {
        self.operands
            .iter()
            .any(|place| matches!(*place, Place::Input(read) if read == input))
    }
}
