//! The places of the variables of a jaxpr while its equations are translated.

use std::collections::BTreeMap;

use pytree_kernels::loops::arena::Place;

use crate::tensor::jaxpr::{Jaxpr, Variable};

/// The places of the variables of a jaxpr, and how long each is read.
pub(super) struct Places {
    of: Vec<Option<Place>>,
    /// The last equation that reads each variable, and `usize::MAX` for outputs.
    last_reads: Vec<usize>,
    /// The last equation that reads each place. Several variables may have one place.
    read_until: BTreeMap<Place, usize>,
}

impl Places {
    pub(super) fn new(jaxpr: &Jaxpr) -> Self {
        let mut last_reads = vec![0; jaxpr.variables.len()];
        for (position, equation) in jaxpr.equations.iter().enumerate() {
            for input in &equation.inputs {
                last_reads[input.index()] = position;
            }
        }
        for output in &jaxpr.outputs {
            last_reads[output.index()] = usize::MAX;
        }
        Self {
            of: vec![None; jaxpr.variables.len()],
            last_reads,
            read_until: BTreeMap::new(),
        }
    }

    pub(super) fn put(&mut self, variable: Variable, place: Place) {
        self.of[variable.index()] = Some(place);
        let last = self.last_reads[variable.index()];
        let until = self.read_until.entry(place).or_default();
        *until = last.max(*until);
    }

    pub(super) fn of(&self, variable: Variable) -> Option<Place> {
        self.of[variable.index()]
    }

    pub(super) fn is_read_after(&self, place: Place, position: usize) -> bool {
        self.read_until
            .get(&place)
            .is_some_and(|&last| last > position)
    }
}
