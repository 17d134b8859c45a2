//! Static values of a treedef replaced: by type, and at the places of static fields.

use super::TreeDef;
use crate::base::path::{Key, KeyPath};
use crate::node::statics::{StaticBox, StaticValue};

impl TreeDef {
    /// The treedef with every static value of the type `T` replaced by what `function` makes of it.
    ///
    /// This is how a whole model switches between training and evaluation: the mode is static data.
    #[must_use]
    pub fn map_static<T: StaticValue>(&self, function: impl Fn(&T) -> T) -> Self {
        self.map_aux(|_, value| value.downcast_ref::<T>().map(&function))
    }

    /// The treedef with `value` at the given positions, in order, among all static values.
    pub(crate) fn with_static<T: StaticValue>(&self, positions: &[usize], value: &T) -> Self {
        self.map_aux(|at, _| positions.binary_search(&at).is_ok().then(|| value.clone()))
    }

    fn map_aux<T: StaticValue>(&self, change: impl Fn(usize, &StaticBox) -> Option<T>) -> Self {
        let aux = self.0.aux.iter().enumerate();
        let aux = aux.map(|(at, value)| match change(at, value) {
            Some(changed) => StaticBox::new(changed),
            None => value.clone(),
        });
        let nodes = self.0.nodes.clone();
        Self::from_counted(nodes, aux.collect(), self.counts_with(self.0.leaves))
    }

    /// The static fields of the type `T`: their positions among all static values, and their paths. Keys of maps
    /// are not fields.
    pub(crate) fn static_fields<T: StaticValue>(&self) -> Vec<(usize, KeyPath)> {
        let nodes = &self.0.nodes;
        let with_fields: Vec<usize> = (0..nodes.len())
            .filter(|&node| !nodes[node].shape.statics.is_empty())
            .collect();
        let mut fields = Vec::new();
        for (node, path) in with_fields.iter().zip(self.node_paths(&with_fields)) {
            let names = nodes[*node].shape.statics.iter();
            let first = nodes[*node].aux as usize;
            for (name, (at, value)) in names.zip((first..).zip(self.0.aux_of(*node))) {
                if value.downcast_ref::<T>().is_some() {
                    let mut path = path.clone();
                    path.push(Key::Field((*name).into()));
                    fields.push((at, path));
                }
            }
        }
        fields
    }
}
