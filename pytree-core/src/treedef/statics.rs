//! Replacing static values of a treedef, by type or by the position of a static field.

use super::structure::TreeDef;
use crate::base::path::KeyPath;
use crate::node::shape::NodeKind;
use crate::node::statics::{StaticBox, StaticValue};

impl TreeDef {
    /// Returns the treedef with every static value of the type `T` replaced by the result of `function`.
    ///
    /// For instance, this function can switch a whole model between training and evaluation, because the mode is static
    /// data.
    #[must_use]
    pub fn map_static<T: StaticValue>(&self, function: impl Fn(&T) -> T) -> Self {
        self.map_aux(|_, value| value.downcast_ref::<T>().map(&function))
    }

    /// Returns a copy with `value` at the given positions among all static values. `positions` must be sorted.
    pub(crate) fn with_static<T: StaticValue>(&self, positions: &[usize], value: &T) -> Self {
        self.map_aux(|at, _| positions.binary_search(&at).is_ok().then(|| value.clone()))
    }

    fn map_aux<T: StaticValue>(&self, change: impl Fn(usize, &StaticBox) -> Option<T>) -> Self {
        let aux = self.0.aux.iter().enumerate();
        let aux = aux.map(|(at, value)| match change(at, value) {
            Some(changed) => StaticBox::new(changed),
            None => value.clone(),
        });
        self.with_nodes(self.0.nodes.to_vec(), aux.collect(), self.0.counts.leaves)
    }

    /// Replaces the value of each static field of a struct by `value`, if the field has the given name and the type
    /// `T`. Returns the new treedef and the number of these fields.
    pub(crate) fn with_static_named<T: StaticValue>(&self, name: &str, value: &T) -> (Self, usize) {
        let structs = self
            .nodes()
            .filter(|node| matches!(node.kind(), NodeKind::Struct | NodeKind::TupleStruct));
        let named = structs.filter_map(|node| {
            let field = node
                .shape()
                .static_names()
                .position(|found| found == name)?;
            let held = node.aux().get(field)?.to_value::<T>();
            held.map(|_| self.0.aux_start(node.position()) + field)
        });
        let positions: Vec<usize> = named.collect();
        (self.with_static(&positions, value), positions.len())
    }

    /// Returns the static fields of the type `T`: their positions among all static values, and their paths. Keys of
    /// maps are not fields.
    pub(crate) fn static_fields<T: StaticValue>(&self) -> Vec<(usize, KeyPath)> {
        self.static_fields_where(|value| value.downcast_ref::<T>().is_some())
    }

    /// Returns the values of the fields with `#[r#static(saved)]` as JSON, or the paths of those that have no such form and the problems.
    #[doc(hidden)]
    pub fn saved_statics(&self) -> Vec<(KeyPath, Result<String, String>)> {
        #[cfg(feature = "serde")]
        if self.0.aux.iter().any(StaticBox::is_saved) {
            let fields = self.static_fields_where(StaticBox::is_saved);
            let json = |(at, path): (usize, KeyPath)| Some((path, self.0.aux[at].json()?));
            return fields.into_iter().filter_map(json).collect();
        }
        Vec::new()
    }

    /// Returns the treedef with the values of fields with `#[r#static(saved)]` that `json` returns by path, or the path, the type and the
    /// problem of each text that is no value of the field.
    #[doc(hidden)]
    #[allow(unused_variables, reason = "nothing is saved without the feature")]
    pub fn with_saved_statics<'j>(
        &self,
        json: impl Fn(&KeyPath) -> Option<&'j str>,
    ) -> Result<Self, Vec<(KeyPath, &'static str, String)>> {
        #[cfg(feature = "serde")]
        if self.0.aux.iter().any(StaticBox::is_saved) {
            let mut aux = self.0.aux.to_vec();
            let mut problems = Vec::new();
            for (at, path) in self.static_fields_where(StaticBox::is_saved) {
                match json(&path).map(|json| aux[at].with_json(json)) {
                    Some(Ok(value)) => aux[at] = value,
                    Some(Err((name, problem))) => problems.push((path, name, problem)),
                    None => {}
                }
            }
            if !problems.is_empty() {
                return Err(problems);
            }
            return Ok(self.with_nodes(self.0.nodes.to_vec(), aux.into(), self.0.counts.leaves));
        }
        Ok(self.clone())
    }

    fn static_fields_where(&self, is: impl Fn(&StaticBox) -> bool) -> Vec<(usize, KeyPath)> {
        let nodes = self.nodes();
        let with_fields: Vec<usize> = nodes
            .filter(|node| node.shape().num_statics() > 0)
            .map(|node| node.position())
            .collect();
        let mut fields = Vec::new();
        for (node, path) in with_fields.iter().zip(self.node_paths(&with_fields)) {
            let shape = self.0.shape(*node);
            let first = self.0.aux_start(*node);
            let values = self.0.aux_of(*node).iter().take(shape.num_statics());
            for (position, value) in values.enumerate() {
                if is(value) {
                    let mut path = path.clone();
                    path.extend_by(shape.static_key(position));
                    fields.push((first + position, path));
                }
            }
        }
        fields
    }
}
