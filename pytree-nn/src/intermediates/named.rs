//! Values of a forward pass under names that are known only at run time.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Index;

use pytree_core::field::{HoldsArrays, StateField};
use pytree_core::{
    Leaf, Partition, Pytree, PytreeOf, SelectPart, Tree, TreeError, Unflattener, Visitor,
};
use pytree_transform::Tensor;

use crate::intermediates::sown::Sown;

/// Stores values of a forward pass under names that are known only at run time. The values of each name are a [`Sown`].
/// The names are sorted.
///
/// If a name is known at compile time, prefer a field of type [`Sown`], because a misspelt field does not compile.
///
/// # Examples
/// ```
/// use pytree_core::{Module, kind::Intermediate};
/// use pytree_nn::Intermediates;
/// use pytree_transform::Tensor;
/// #[derive(Module, Clone, Debug)]
/// struct Powers {
///     #[state(Intermediate)]
///     sown: Intermediates,
/// }
/// let mut powers = Powers { sown: Intermediates::new() };
/// for power in 1..4 {
///     powers.sown.sow(format!("power{power}"), Tensor::from(2.0_f32).powi(power));
/// }
/// assert_eq!(powers.sown["power3"][0].item::<f32>(), 8.0);
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Intermediates<T = Tensor>(BTreeMap<String, Sown<T>>);

impl<T> Intermediates<T> {
    /// Creates a collection without names.
    pub const fn new() -> Self {
        Self(BTreeMap::new())
    }

    /// Appends `value` to the values that are stored under `name`.
    #[doc(alias = "nnx.Module.sow")]
    pub fn sow(&mut self, name: impl Into<String>, value: T) {
        self.0.entry(name.into()).or_default().sow(value);
    }

    /// Combines `value` with the value that is stored under `name`: see [`Sown::sow_with`].
    ///
    /// # Panics
    /// See [`Sown::sow_with`].
    #[track_caller]
    pub fn sow_with<V>(
        &mut self,
        name: impl Into<String>,
        value: V,
        init: impl FnOnce() -> T,
        reduce: impl FnOnce(T, V) -> T,
    ) {
        self.0
            .entry(name.into())
            .or_default()
            .sow_with(value, init, reduce);
    }

    /// Returns the values that are stored under `name`, if there are any.
    pub fn get(&self, name: &str) -> Option<&Sown<T>> {
        self.0.get(name)
    }

    /// Iterates over the names with their values, in the order of the names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Sown<T>)> {
        self.0.iter().map(|(name, sown)| (name.as_str(), sown))
    }

    /// Returns the number of names.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether there are no values.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<T> Default for Intermediates<T> {
    fn default() -> Self {
        Self::new()
    }
}
impl<T> Index<&str> for Intermediates<T> {
    type Output = Sown<T>;

    /// Returns the values that are stored under `name`.
    ///
    /// # Panics
    /// If no value is stored under `name`.
    #[track_caller]
    fn index(&self, name: &str) -> &Sown<T> {
        let Some(sown) = self.get(name) else {
            let names: Vec<String> = self.0.keys().map(|name| format!("`{name}`")).collect();
            panic!(
                "no value was sown under the name `{name}`, found {}; run the model first, and read the value before it is popped",
                if names.is_empty() {
                    "nothing".to_owned()
                } else {
                    names.join(", ")
                }
            );
        };
        sown
    }
}
impl<T: fmt::Debug> fmt::Debug for Intermediates<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<T: Pytree> Pytree for Intermediates<T> {
    fn visit<'a>(&'a self, visitor: &mut dyn Visitor<'a>) {
        self.0.visit(visitor);
    }
    /// Builds the collection without the names that have no values. So if the values of a run are popped, the structure
    /// is the same as before the run.
    fn unflatten(source: &mut Unflattener<'_>) -> Result<Self, TreeError> {
        let mut named = BTreeMap::<String, Sown<T>>::unflatten(source)?;
        named.retain(|_, sown| !sown.is_empty());
        Ok(Self(named))
    }
}
impl<T: PytreeOf<L>, L: Leaf + Clone> PytreeOf<L> for Intermediates<T> {
    fn each_leaf<'a, F: FnMut(&'a L)>(&'a self, visit: &mut F) {
        self.0.each_leaf(visit);
    }
    fn map_leaves<F: FnMut(&L) -> L>(&self, function: &mut F) -> Self {
        Self(self.0.map_leaves(function))
    }
}
impl<T: PytreeOf<L>, L: Leaf + Clone> SelectPart<L> for Intermediates<T> {
    type Part = Partition<Self, L>;
    fn select_part(tree: Tree<L>) -> Result<Self::Part, TreeError> {
        Ok(Partition::from_tree(tree))
    }
}
#[diagnostic::do_not_recommend]
impl<T: StateField> StateField for Intermediates<T> {}
impl<T> HoldsArrays for Intermediates<T> {}

#[cfg(test)]
mod tests {
    use super::*;
    use pytree_core::tree;

    #[test]
    fn emptied_name_is_removed() -> Result<(), TreeError> {
        let mut named = Intermediates::new();
        let bare = tree::structure(&named);
        named.sow("b", 2);
        named.sow("a", 1);
        named.sow("b", 3);
        assert_eq!(
            tree::structure(&named).to_string(),
            "PyTreeDef({'a': (*,), 'b': (*, *)})"
        );
        let empty = BTreeMap::from([("a", Sown::<i32>::new()), ("b", Sown::new())]);
        let popped: Intermediates<i32> =
            tree::unflatten::<_, i32>(&tree::structure(&empty), Vec::new())?;
        assert!(popped.is_empty());
        assert_eq!(tree::structure(&popped), bare);
        Ok(())
    }

    #[test]
    #[should_panic(
        expected = "no value was sown under the name `c`, found `a`, `b`; run the model first"
    )]
    fn missing_name_lists_existing_names() {
        let mut named = Intermediates::new();
        named.sow("b", 2);
        named.sow("a", 1);
        let _ = &named["c"];
    }
}
