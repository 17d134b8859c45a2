//! The kinds of the fields of a module, and of its leaves.
//!
//! A field has a [`FieldKind`]. The outermost parameter or state field on the path of a leaf determines the kind of the
//! leaf. A collection is a *type*, so a misspelt collection does not compile.

mod collection;

use std::fmt;

pub(crate) use self::collection::NAME_LIMIT;
pub use self::collection::{
    BatchStat, Cache, Collection, CollectionId, Frozen, Intermediate, Metric, OptState, Param,
    Perturbation, RngState, State,
};
use self::collection::{PARAM_NAME_LIMIT, too_long};

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

/// The kind of a leaf of a module. Leaves outside of any module have no kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum LeafKind {
    /// A trained leaf.
    Param,
    /// A trained leaf in a collection below [`struct@Param`]. The value names this collection.
    ParamIn(CollectionId),
    /// A leaf that is not trained. The value names the collection of the leaf.
    State(CollectionId),
}

impl LeafKind {
    /// Returns the kind of the leaves in the collection `C`.
    pub const fn of<C: Collection>() -> Self {
        C::KIND
    }

    /// Returns the kind of the leaves in a collection `C` without a parent.
    ///
    /// # Panics
    /// If the name is longer than 46 bytes.
    #[track_caller]
    pub const fn state<C: Collection + ?Sized>() -> Self {
        match CollectionId::from_name(C::NAME, None) {
            Some(collection) => Self::State(collection),
            None => too_long(),
        }
    }

    /// Returns the kind of the leaves in a collection `C` whose parent is `P`.
    ///
    /// # Panics
    /// If the names of the collection and its ancestors, with one more byte for each ancestor, take more than 46 bytes.
    /// If the leaves are parameters, the limit is 39 bytes, and [`Param`](struct@Param) does not count as an ancestor.
    ///
    /// # Examples
    /// ```
    /// use pytree_core::LeafKind;
    /// use pytree_core::kind::{Collection, Param};
    /// struct LoraParam;
    /// impl Collection for LoraParam {
    ///     const NAME: &'static str = "LoraParam";
    ///     const KIND: LeafKind = LeafKind::below::<Param, Self>();
    /// }
    /// ```
    #[track_caller]
    pub const fn below<P: Collection, C: Collection + ?Sized>() -> Self {
        match Self::named_below::<P>(C::NAME) {
            Some(kind) => kind,
            None => too_long(),
        }
    }

    const fn named_below<P: Collection>(name: &str) -> Option<Self> {
        let parent = match &P::KIND {
            Self::Param => None,
            Self::ParamIn(parent) => Some(parent),
            Self::State(parent) => {
                return match CollectionId::from_name(name, Some(parent)) {
                    Some(collection) => Some(Self::State(collection)),
                    None => None,
                };
            }
        };
        match CollectionId::from_name(name, parent) {
            Some(collection) if collection.used() <= PARAM_NAME_LIMIT => {
                Some(Self::ParamIn(collection))
            }
            _ => None,
        }
    }

    /// Returns whether the leaf is trained: [`Param`](Self::Param) or [`ParamIn`](Self::ParamIn).
    #[inline]
    pub const fn is_param(&self) -> bool {
        matches!(self, Self::Param | Self::ParamIn(_))
    }

    /// Returns whether the leaf is a state, of any collection.
    #[inline]
    pub const fn is_state(&self) -> bool {
        matches!(self, Self::State(_))
    }

    /// Returns whether a leaf of this kind belongs to the collection of `other`, or to a collection below it. Every
    /// trained leaf is in [`Param`](Self::Param).
    ///
    /// # Examples
    /// ```
    /// use pytree_core::LeafKind;
    /// use pytree_core::kind::{BatchStat, Param};
    /// #[derive(pytree_core::Collection)]
    /// #[collection(parent = Param)]
    /// struct LoraParam;
    /// let kind = LeafKind::of::<LoraParam>();
    /// assert!(kind.is_in(&LeafKind::Param) && kind.is_in(&kind));
    /// assert!(!kind.is_in(&LeafKind::of::<BatchStat>()) && !LeafKind::Param.is_in(&kind));
    /// ```
    #[inline(never)]
    pub fn is_in(&self, other: &Self) -> bool {
        match (self, other) {
            (kind, Self::Param) => kind.is_param(),
            (Self::ParamIn(own), Self::ParamIn(other)) | (Self::State(own), Self::State(other)) => {
                own.is_in(other)
            }
            _ => false,
        }
    }

    /// Returns the collection of the leaf: [`Param`](struct@Param) for a parameter without another collection.
    pub const fn collection(&self) -> CollectionId {
        match self {
            Self::Param => const { CollectionId::of::<Param>() },
            Self::ParamIn(collection) | Self::State(collection) => *collection,
        }
    }

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
    pub(crate) fn below_field(field: &FieldKind) -> Option<Self> {
        match field {
            FieldKind::Param => Some(Self::Param),
            FieldKind::ParamIn(collection) => Some(Self::ParamIn(*collection)),
            FieldKind::State(collection) => Some(Self::State(*collection)),
            FieldKind::Static | FieldKind::Module => None,
        }
    }

    /// Returns the kind of the leaves below a field, if the field determines this kind.
    pub const fn of_field(field: FieldKind) -> Option<Self> {
        match field {
            FieldKind::Param => Some(Self::Param),
            FieldKind::ParamIn(collection) => Some(Self::ParamIn(collection)),
            FieldKind::State(collection) => Some(Self::State(collection)),
            FieldKind::Static | FieldKind::Module => None,
        }
    }
}

impl fmt::Display for LeafKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Param => f.write_str("Param"),
            Self::ParamIn(collection) | Self::State(collection) => f.write_str(collection.name()),
        }
    }
}
