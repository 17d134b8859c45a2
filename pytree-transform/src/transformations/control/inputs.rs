//! Writes to the references in the inputs of a loop, such as the states of stacked layers.

use pytree_core::boundary::{Outcome, References};

use pytree_core::TreeDef;

use crate::tensor::Tensor;
use crate::tensor::trace::Recorder;
use crate::tensor::traceable::Traceable;
use crate::transformations::function::{Ending, rebuild_changed};

/// The references of the inputs that an iteration writes.
pub(super) struct WrittenInputs {
    /// The positions of the written references.
    pub(super) references: Vec<usize>,
    /// For each leaf of the written values, its position among the leaves of an element.
    leaves: Vec<usize>,
}

impl WrittenInputs {
    /// Returns the references of an element that the function has written, and the leaves of the written values.
    /// `treedef` is the structure of an element.
    ///
    /// # Panics
    /// If a written value has another structure than the value before.
    #[track_caller]
    pub(super) fn of(
        recorder: Recorder,
        treedef: &TreeDef,
        element: References,
    ) -> (Vec<Tensor>, Self) {
        let references = element.written();
        let element = element.without_shared();
        let (values, outcome) = Outcome::of::<Tensor, _>(&(), &element, references.clone());
        let places = treedef.references();
        let mut leaves = Vec::new();
        for (position, found) in outcome.written() {
            let place = &places[position];
            let Some(positions) = place.leaves_of(&found) else {
                panic!(
                    "cannot write the reference at {} inside of {recorder}, among its inputs: expected a value with the structure {}, found {found}; keep the structure, so that the values of all iterations can be stacked",
                    place.path.or_root(),
                    place.value
                );
            };
            leaves.extend(positions);
        }
        (values, Self { references, leaves })
    }

    /// Returns the carry after the loop. Writes its references, and the stacked `values` to the references of the inputs,
    /// all at one instant.
    #[track_caller]
    pub(super) fn write<C: Traceable, X: Traceable>(
        self,
        ending: Ending<'_>,
        values: Vec<Tensor>,
        (carry_treedef, mut leaves, references, mut changed): (
            TreeDef,
            Vec<Tensor>,
            References,
            Vec<bool>,
        ),
        (inputs_treedef, mut stacked, of_inputs): (TreeDef, Vec<Tensor>, References),
    ) -> C {
        if self.references.is_empty() {
            // The results may also depend on the references of the inputs, which the call has read.
            let references = references.beside(of_inputs);
            return rebuild_changed(ending, &carry_treedef, leaves, &references, &changed);
        }
        let of_carry = changed.len();
        changed.resize(of_carry + stacked.len(), false);
        for (position, value) in self.leaves.into_iter().zip(values) {
            stacked[position] = value;
            changed[of_carry + position] = true;
        }
        leaves.extend(stacked);
        let both = TreeDef::tuple(vec![carry_treedef, inputs_treedef]);
        let references = references.followed_by(of_inputs);
        let (carry, _): (C, X) = rebuild_changed(ending, &both, leaves, &references, &changed);
        carry
    }
}
