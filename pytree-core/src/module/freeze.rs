//! Modules whose parameters can be frozen.
//!
//! The outermost parameter or state field above a leaf determines the kind of the leaf. The only field of the wrapper
//! [`Freeze`] is either a module or a state. If this field is a state, all leaves below the field become states. The
//! leaves and the type of the inner model do not change.

use std::any::TypeId;
use std::fmt;

use crate::base::error::TreeError;
use crate::base::kind::{CollectionId, FieldKind, Frozen};
use crate::contract::pytree::{Pytree, PytreeOf, Visit, Visitor};
use crate::contract::unflatten::Unflattener;
use crate::module::field::{HoldsArrays, ModuleField};
use crate::module::registry::{Module, Registry};
use crate::node::leaf::Leaf;
use crate::node::shape::{Field, NodeKind, NodeShape};
use crate::trees::dynamic::Tree;
use crate::trees::partition::Partition;
use crate::trees::select_part::{SelectPart, select_partition};

/// A module that can be frozen. The leaves of a frozen module are states of the collection [`Frozen`], so they get no
/// gradient and no optimizer changes them.
///
/// The wrapper dereferences to the inner module. The treedef contains whether the module is frozen, so a function is
/// compiled once for a frozen module and once for a module that is not frozen.
///
/// # Examples
/// ```
/// use pytree_core::{Filter, Freeze, Module, partition};
/// #[derive(Module, Clone, Debug)]
/// struct Line {
///     #[param]
///     slope: f32,
/// }
/// let mut line = Freeze::new(Line { slope: 2.0 });
/// assert_eq!(partition::filter(&line, &Filter::param()).len(), 1);
/// line.freeze();
/// assert!(partition::filter(&line, &Filter::param()).is_empty());
/// assert_eq!(line.slope, 2.0);
/// ```
#[doc(alias = "torch.Tensor.requires_grad_")]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Freeze<M> {
    model: M,
    frozen: bool,
}

/// The [registry](crate::Module::registry) of a module that is not frozen.
const THAWED: &[(&str, FieldKind); 1] = &[("model", FieldKind::Module)];
/// The [registry](crate::Module::registry) of a frozen module: the leaves of the model are in the collection `Frozen`.
const FROZEN: &[(&str, FieldKind); 1] =
    &[("model", FieldKind::State(CollectionId::of::<Frozen>()))];

impl<M> Freeze<M> {
    /// Wraps a module that is not frozen.
    pub const fn new(model: M) -> Self {
        Self {
            model,
            frozen: false,
        }
    }

    /// Wraps a module that is frozen from the start.
    pub const fn frozen(model: M) -> Self {
        Self {
            model,
            frozen: true,
        }
    }

    /// Turns all leaves into states of the collection [`Frozen`].
    pub const fn freeze(&mut self) {
        self.frozen = true;
    }

    /// Restores the kinds that the leaves have in the inner module.
    pub const fn unfreeze(&mut self) {
        self.frozen = false;
    }

    /// Returns whether the module is frozen.
    pub const fn is_frozen(&self) -> bool {
        self.frozen
    }

    /// Returns the inner module.
    pub fn into_inner(self) -> M {
        self.model
    }
}

const fn field(registry: &[(&'static str, FieldKind); 1]) -> Field {
    Field::new(registry[0].0, registry[0].1)
}

impl<M: 'static> Freeze<M> {
    const THAWED_SHAPE: &'static NodeShape = &NodeShape {
        identity: TypeId::of::<Freeze<()>>,
        type_name: std::any::type_name::<Self>,
        fields: const { &[field(THAWED)] },
        ..NodeShape::builtin(NodeKind::Struct, "Freeze::Thawed")
    };
    const FROZEN_SHAPE: &'static NodeShape = &NodeShape {
        identity: TypeId::of::<Freeze<()>>,
        type_name: std::any::type_name::<Self>,
        fields: const { &[field(FROZEN)] },
        ..NodeShape::builtin(NodeKind::Struct, "Freeze::Frozen")
    };
}

impl<M: Pytree> Pytree for Freeze<M> {
    fn visit<'a>(&'a self, visitor: &mut dyn Visitor<'a>) {
        let shape = if self.frozen {
            Self::FROZEN_SHAPE
        } else {
            Self::THAWED_SHAPE
        };
        if visitor.enter(shape, 1) == Visit::Descend {
            self.model.visit(visitor);
            visitor.exit();
        }
    }

    fn unflatten(source: &mut Unflattener<'_>) -> Result<Self, TreeError> {
        let frozen = source.is_next(Self::FROZEN_SHAPE);
        if !frozen && !source.is_next(Self::THAWED_SHAPE) {
            return Err(source.wrong_node(std::any::type_name::<Self>()));
        }
        let shape = if frozen {
            Self::FROZEN_SHAPE
        } else {
            Self::THAWED_SHAPE
        };
        source.enter_fixed(shape, 1)?;
        let model = M::unflatten(source)?;
        Ok(source.exit(Self { model, frozen }))
    }
}

impl<M: PytreeOf<L>, L: Leaf + Clone> PytreeOf<L> for Freeze<M> {
    fn each_leaf<'a, F: FnMut(&'a L)>(&'a self, visit: &mut F) {
        self.model.each_leaf(visit);
    }
    fn each_pair<'a, F: FnMut(&'a L, &'a L)>(&'a self, other: &'a Self, visit: &mut F) -> bool {
        self.frozen == other.frozen && self.model.each_pair(&other.model, visit)
    }
    fn map_leaves<F: FnMut(&L) -> L>(&self, function: &mut F) -> Self {
        Self {
            model: self.model.map_leaves(function),
            frozen: self.frozen,
        }
    }
}
impl<M: PytreeOf<L>, L: Leaf + Clone> SelectPart<L> for Freeze<M> {
    type Part = Partition<Self, L>;
    fn select_part(tree: Tree<L>) -> Result<Self::Part, TreeError> {
        select_partition(tree)
    }
}
#[diagnostic::do_not_recommend]
impl<M: Module> Module for Freeze<M> {
    fn registry(&self) -> Registry<'_> {
        Registry::Borrowed(if self.frozen { FROZEN } else { THAWED })
    }
}
#[diagnostic::do_not_recommend]
impl<M: ModuleField> ModuleField for Freeze<M> {}
impl<M: HoldsArrays> HoldsArrays for Freeze<M> {}

impl<M> From<M> for Freeze<M> {
    fn from(model: M) -> Self {
        Self::new(model)
    }
}

pytree_base::dereferences! { [M] Freeze<M>, model: M }
impl<M: fmt::Debug> fmt::Debug for Freeze<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = if self.frozen { "Frozen" } else { "Thawed" };
        f.debug_tuple(name).field(&self.model).finish()
    }
}
