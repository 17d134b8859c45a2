//! Changes to a module and all modules below it.

use super::{DynamicModule, kinds};
use crate::dynamic::Tree;
use crate::error::TreeError;
use crate::freeze::Frozen;
use crate::kind::{CollectionId, FieldKind};
use crate::leaf::Leaf;
use crate::statics::StaticValue;

/// The static field that [`DynamicModule::train`] and [`DynamicModule::eval`] switch.
const IS_TRAINING: &str = "is_training";

/// The kind of a parameter that is frozen.
const FROZEN: FieldKind = FieldKind::State(CollectionId::of::<Frozen>());

impl<L: Leaf + Clone> DynamicModule<L> {
    /// Makes every parameter of the module and of all below a state of the collection [`Frozen`].
    ///
    /// # Errors
    /// [`TreeError::Build`] if there are too many shapes of nodes made at run time; nothing is changed then.
    ///
    /// # Examples
    /// ```
    /// use pytree_core::{DynamicModule, Filter, partition};
    /// let mut layer: DynamicModule = DynamicModule::new("Layer")?;
    /// layer.register_param("weight", 1.5)?;
    /// layer.freeze()?;
    /// assert!(partition::filter(&layer, &Filter::param()).is_empty());
    /// layer.unfreeze()?;
    /// assert_eq!(partition::filter(&layer, &Filter::param()).len(), 1);
    /// # Ok::<(), pytree_core::TreeError>(())
    /// ```
    pub fn freeze(&mut self) -> Result<(), TreeError> {
        self.change_kinds(|kind| match kind {
            FieldKind::Param => FROZEN,
            kind => kind,
        })
    }

    /// Makes every state of the collection [`Frozen`], in the module and in all below, a parameter again.
    ///
    /// # Errors
    /// As [`freeze`](Self::freeze).
    pub fn unfreeze(&mut self) -> Result<(), TreeError> {
        self.change_kinds(|kind| {
            if kind == FROZEN {
                FieldKind::Param
            } else {
                kind
            }
        })
    }

    fn change_kinds(&mut self, change: impl Fn(FieldKind) -> FieldKind) -> Result<(), TreeError> {
        let shape = kinds::shape_with_kinds(self.shape, &change)?;
        let values = self.values.iter().map(|value| {
            let treedef = kinds::with_kinds(value.treedef(), &change)?;
            Ok(Tree::from_parts(treedef, value.leaves().to_vec()))
        });
        let values = values.collect::<Result<_, TreeError>>()?;
        *self = Self::from_shape(shape, values, std::mem::take(&mut self.statics));
        Ok(())
    }

    /// Gives `value` to every static field of that name that holds a `T`, in the module and in all below, and tells
    /// how many there are.
    pub fn set_static_everywhere<T: StaticValue>(&mut self, name: &str, value: T) -> usize {
        let (leaves, treedef) = self.to_tree().into_parts();
        let (treedef, count) = kinds::with_static(&treedef, name, &value);
        self.statics = treedef.0.aux_of(0).to_vec();
        self.values = Tree::from_parts(treedef, leaves).into_children();
        count
    }

    /// Sets the static field `is_training` of the module and of all below to `true`; tells how many there are.
    pub fn train(&mut self) -> usize {
        self.set_static_everywhere(IS_TRAINING, true)
    }

    /// Sets the static field `is_training` of the module and of all below to `false`; tells how many there are.
    pub fn eval(&mut self) -> usize {
        self.set_static_everywhere(IS_TRAINING, false)
    }
}
