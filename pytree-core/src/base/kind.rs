//! The kinds of the fields of a module, and of its leaves.
//!
//! A field has a [`FieldKind`]. The outermost parameter or state field on the path of a leaf determines the kind of the
//! leaf. A collection is a *type*, so a misspelt collection does not compile.

mod collection;
mod leaf_kind;
mod named;

use std::fmt;

pub use self::collection::{
    BatchStat, Cache, Collection, Frozen, Intermediate, Metric, OptState, Param, Perturbation,
    RngState, State,
};
pub(crate) use self::leaf_kind::NAME_LIMIT;
pub use self::leaf_kind::{CollectionId, LeafKind};

/// The kind of a field of a module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum FieldKind {
    /// The leaves of the field are trained. The attribute is `#[param]`.
    Param,
    /// The leaves of the field are trained, and belong to a collection below [`struct@Param`]. The attribute is
    /// `#[param(Collection)]`.
    ParamIn(CollectionId),
    /// The leaves of the field are not trained. The attribute is `#[state]` or `#[state(Collection)]`.
    State(CollectionId),
    /// The field is part of the treedef, not a leaf. The attribute is `#[r#static]`.
    Static,
    /// The field is a module or a container of modules, and has no attribute.
    Module,
}

impl FieldKind {
    /// Returns the kind of a field whose leaves belong to the collection `C`.
    pub const fn of<C: Collection>() -> Self {
        C::KIND.field()
    }

    /// Returns the kind of a field with the attribute `#[param(C)]`.
    ///
    /// # Panics
    /// If `C` is a collection of states.
    #[doc(hidden)]
    #[track_caller]
    pub const fn of_param<C: Collection>() -> Self {
        match C::KIND {
            LeafKind::State(_) => panic!(
                "this is a collection of states: write `#[state(…)]`, or give the collection the parent `Param`"
            ),
            kind => kind.field(),
        }
    }

    /// Returns the kind of a field with the attribute `#[state(C)]`.
    ///
    /// # Panics
    /// If `C` is a collection of parameters.
    #[doc(hidden)]
    #[track_caller]
    pub const fn of_state<C: Collection>() -> Self {
        match C::KIND {
            LeafKind::State(collection) => Self::State(collection),
            LeafKind::Param | LeafKind::ParamIn(_) => {
                panic!("this is a collection of parameters, not of states: write `#[param(…)]`")
            }
        }
    }

    /// Returns whether the field determines the kind of the leaves below it.
    #[inline]
    pub(crate) const fn decides(&self) -> bool {
        matches!(self, Self::Param | Self::ParamIn(_) | Self::State(_))
    }

    /// Returns the kind of the field after its parameters were frozen. A collection keeps its name, and [`Frozen`]
    /// becomes its outermost ancestor. If the names would become too long, the result is [`Frozen`] itself.
    pub(crate) fn frozen(self) -> Self {
        let frozen = CollectionId::of::<Frozen>();
        match self {
            Self::Param => Self::State(frozen),
            Self::ParamIn(collection) => {
                Self::State(collection.below_root(&frozen).unwrap_or(frozen))
            }
            kind => kind,
        }
    }

    /// Returns the kind of the field after its frozen parameters were unfrozen.
    #[inline]
    pub(crate) fn thawed(self) -> Self {
        match self {
            Self::State(collection) if collection == const { CollectionId::of::<Frozen>() } => {
                Self::Param
            }
            Self::State(collection) if collection.has_parent() => {
                let own = collection.without_root(&CollectionId::of::<Frozen>());
                own.map_or(self, Self::ParamIn)
            }
            kind => kind,
        }
    }
}

impl fmt::Display for FieldKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Param => f.write_str("Param"),
            Self::ParamIn(collection) | Self::State(collection) => f.write_str(collection.name()),
            Self::Static => f.write_str("Static"),
            Self::Module => f.write_str("Module"),
        }
    }
}

impl LeafKind {
    /// Returns the kind of a field whose leaves have this kind.
    pub const fn field(self) -> FieldKind {
        match self {
            Self::Param => FieldKind::Param,
            Self::ParamIn(collection) => FieldKind::ParamIn(collection),
            Self::State(collection) => FieldKind::State(collection),
        }
    }

    /// Returns the same as [`of_field`](Self::of_field) for a borrowed kind.
    #[inline]
    pub(crate) const fn below_field(field: &FieldKind) -> Option<Self> {
        match field {
            FieldKind::Param => Some(Self::Param),
            FieldKind::ParamIn(collection) => Some(Self::ParamIn(*collection)),
            FieldKind::State(collection) => Some(Self::State(*collection)),
            FieldKind::Static | FieldKind::Module => None,
        }
    }

    /// Returns the kind of the leaves below a field, if the field determines this kind.
    pub const fn of_field(field: FieldKind) -> Option<Self> {
        Self::below_field(&field)
    }
}

impl fmt::Display for LeafKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.field().fmt(f)
    }
}
