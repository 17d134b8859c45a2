//! Changes to a module and to all modules below it.

use super::DynamicModule;
use super::kinds::{self, Change};
use crate::node::leaf::Leaf;
use crate::node::statics::StaticValue;
use crate::trees::dynamic::Tree;

/// The static field that [`DynamicModule::train`] and [`DynamicModule::eval`] set.
const IS_TRAINING: &str = "is_training";

impl<L: Leaf + Clone> DynamicModule<L> {
    /// Turns every parameter of the module, and of all modules below the module, into a state of the collection
    /// [`Frozen`](crate::Frozen).
    ///
    /// [`value`](Self::value) can still read a field as a typed module. In the typed module, the leaves are not frozen:
    /// they have the kinds that the type determines.
    ///
    /// # Examples
    /// ```
    /// use pytree_core::{DynamicModule, Filter, partition};
    /// let mut layer: DynamicModule = DynamicModule::new("Layer")?;
    /// layer.register_param("weight", 1.5)?;
    /// layer.freeze();
    /// assert!(partition::filter(&layer, &Filter::param()).is_empty());
    /// layer.unfreeze();
    /// assert_eq!(partition::filter(&layer, &Filter::param()).len(), 1);
    /// # Ok::<(), pytree_core::TreeError>(())
    /// ```
    #[doc(alias = "pax.freeze_parameters")]
    pub fn freeze(&mut self) {
        self.change_kinds(Change::Freeze);
    }

    /// Turns the states of the collection [`Frozen`](crate::Frozen) back into parameters, in the module and in all
    /// modules below it. A [`Freeze`](crate::Freeze) wrapper below the module is not changed: if it is frozen, it stays
    /// frozen.
    #[doc(alias = "pax.unfreeze_parameters")]
    pub fn unfreeze(&mut self) {
        self.change_kinds(Change::Thaw);
    }

    fn change_kinds(&mut self, change: Change) {
        let has_own = |value: &Tree<L>| kinds::has_kinds(value.treedef().nodes());
        let kinds = self.layout.fields().iter().zip(&self.values);
        let kinds: Vec<_> = kinds
            .map(|((_, kind), value)| change.of(*kind, || has_own(value)))
            .collect();
        for (position, kind) in kinds.into_iter().enumerate() {
            if self.layout.fields()[position].1 != kind {
                self.layout.set_kind(position, kind);
            }
        }
        for value in &mut self.values {
            let treedef = kinds::with_kinds(value.treedef(), change);
            let leaves = value.leaves().to_vec();
            *value = Tree::from_parts(treedef, leaves);
        }
    }

    /// Sets every static field that is named `name` and holds a `T`, in the module and in all modules below it. Returns
    /// the number of fields that were set.
    pub fn set_static_everywhere<T: StaticValue>(&mut self, name: &str, value: T) -> usize {
        let (leaves, treedef) = self.to_tree().into_parts();
        let (treedef, count) = treedef.with_static_named(name, &value);
        self.statics = treedef.root().aux().to_vec();
        self.values = Tree::from_parts(treedef, leaves).into_children();
        count
    }

    /// Sets the static field `is_training` of the module and of all modules below it to `true`. Returns the number of
    /// these fields.
    #[doc(alias = "pax.enable_train_mode")]
    pub fn train(&mut self) -> usize {
        self.set_static_everywhere(IS_TRAINING, true)
    }

    /// Sets the static field `is_training` of the module and of all modules below it to `false`. Returns the number of
    /// these fields.
    #[doc(alias = "pax.enable_eval_mode")]
    pub fn eval(&mut self) -> usize {
        self.set_static_everywhere(IS_TRAINING, false)
    }
}
