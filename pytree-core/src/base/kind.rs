//! The kinds of the fields of a module, and of its leaves.
//!
//! A field has a [`FieldKind`]. The outermost parameter or state field on the path of a leaf determines the kind of the
//! leaf. A collection is a *type*, so a misspelt collection does not compile.

use std::fmt;

use crate::base::bug::bug;
use crate::base::error::TreeError;

/// A named group of states or of parameters, for instance [`BatchStat`]. Derive this trait on a unit struct.
///
/// A collection may have a parent, another collection. The leaves of the collection also belong to the parent: a filter
/// for the parent accepts them. The leaves of a collection whose parent is [`Param`] are parameters.
///
/// # Examples
/// ```
/// use pytree_core::kind::{Collection, CollectionId, Param};
/// use pytree_core::LeafKind;
///
/// struct Ema;
/// impl Collection for Ema {
///     const NAME: &'static str = "Ema";
/// }
/// assert_eq!(CollectionId::of::<Ema>().name(), "Ema");
///
/// #[derive(pytree_core::Collection)]
/// #[collection(parent = Param)]
/// struct LoraParam;
/// assert!(LeafKind::of::<LoraParam>().is_param());
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a collection",
    label = "a collection is needed here",
    note = "write `#[derive(Collection)] struct {Self};`, or use a collection of the module `kind`, such as `BatchStat`"
)]
pub trait Collection: 'static {
    /// The name shown in summaries and checkpoints.
    const NAME: &'static str;

    /// The kind of the leaves in the collection. By default the collection has no parent, and its leaves are states.
    ///
    /// If you implement the trait by hand, [`LeafKind::below`] returns the kind of a collection that has a parent.
    const KIND: LeafKind = LeafKind::state::<Self>();
}

/// The greatest number of bytes that the names of a collection of states and of its ancestors may take. Each ancestor
/// takes one byte more than its name.
pub(crate) const NAME_LIMIT: usize = 46;

/// The limit for a collection of parameters. It is lower than [`NAME_LIMIT`], so that the name of [`Frozen`] fits
/// behind the names.
pub(crate) const PARAM_NAME_LIMIT: usize = NAME_LIMIT - 1 - Frozen::NAME.len();

/// A [`Collection`] as a value. Two values are equal if their names and the names of their ancestors are equal.
///
/// The value contains the bytes of the names instead of a pointer. So it is `Copy` even if the names were read from a
/// file, and no global table of names grows with the files that a process reads.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CollectionId {
    /// The name of the collection, then the names of its ancestors, beginning with the parent. Before the name of each
    /// ancestor, a byte contains the length of this name plus one. All remaining bytes are zero.
    bytes: [u8; NAME_LIMIT],
    /// The length of the collection's own name.
    length: u8,
}

impl CollectionId {
    /// Returns the identity of the collection `C`.
    ///
    /// # Panics
    /// If the names of the collection and its ancestors are too long. The derives call this function in a constant,
    /// where the panic is a compile error.
    #[track_caller]
    pub const fn of<C: Collection>() -> Self {
        match C::KIND {
            LeafKind::Param => match Self::from_name(C::NAME, None) {
                Some(collection) => collection,
                None => too_long(),
            },
            LeafKind::ParamIn(collection) | LeafKind::State(collection) => collection,
        }
    }

    /// Returns the collection named `name`, which may be known only at run time. The result equals every collection
    /// without a parent that has the same name.
    ///
    /// # Errors
    /// [`TreeError::Build`] if the name is longer than 46 bytes.
    pub fn named(name: &str) -> Result<Self, TreeError> {
        Self::from_name(name, None).ok_or_else(|| TreeError::Build {
            node: "collection",
            reason: format!(
                "expected a name of at most {NAME_LIMIT} bytes, found `{name}` of {} bytes; write a shorter name",
                name.len()
            ),
        })
    }

    /// Returns the collection named `name` whose parent is this collection. Both may be known only at run time.
    ///
    /// # Errors
    /// [`TreeError::Build`] if the names of the collection and its ancestors, with one more byte for each ancestor,
    /// take more than 46 bytes.
    ///
    /// # Examples
    /// ```
    /// use pytree_core::CollectionId;
    /// let (cache, other) = (CollectionId::named("Cache")?, CollectionId::named("Other")?);
    /// let keys = cache.child("Keys")?;
    /// assert_eq!(keys.name(), "Keys");
    /// assert_eq!(keys.parent(), Some(cache));
    /// assert!(keys.is_in(&cache) && !keys.is_in(&other));
    /// # Ok::<(), pytree_core::TreeError>(())
    /// ```
    pub fn child(&self, name: &str) -> Result<Self, TreeError> {
        Self::from_name(name, Some(self)).ok_or_else(|| TreeError::Build {
            node: "collection",
            reason: format!(
                "expected at most {NAME_LIMIT} bytes for the names of a collection and its ancestors, with one more for \
                 each ancestor, found {} for `{name}` below `{self:?}`; write shorter names",
                name.len() + 1 + self.used()
            ),
        })
    }

    /// Returns the collection `name` below `parent`; `None` if the names are too long.
    const fn from_name(name: &str, parent: Option<&Self>) -> Option<Self> {
        let name = name.as_bytes();
        let behind = match parent {
            None => 0,
            Some(parent) => 1 + parent.used(),
        };
        if name.len() + behind > NAME_LIMIT {
            return None;
        }
        let mut bytes = [0; NAME_LIMIT];
        let mut at = 0;
        while at < name.len() {
            bytes[at] = name[at];
            at += 1;
        }
        if let Some(parent) = parent {
            bytes[at] = parent.length + 1;
            at += 1;
            let mut from = 0;
            while from < parent.used() {
                bytes[at + from] = parent.bytes[from];
                from += 1;
            }
        }
        #[allow(
            clippy::cast_possible_truncation,
            reason = "a name has at most 46 bytes"
        )]
        let length = name.len() as u8;
        Some(Self { bytes, length })
    }

    /// Returns the number of bytes of all names, with one more for each ancestor.
    pub(crate) const fn used(&self) -> usize {
        let mut at = self.length as usize;
        while at < NAME_LIMIT && self.bytes[at] > 0 {
            at += self.bytes[at] as usize;
        }
        at
    }

    /// Returns the name of the collection.
    pub fn name(&self) -> &str {
        match self
            .bytes
            .get(..usize::from(self.length))
            .map(str::from_utf8)
        {
            Some(Ok(name)) => name,
            _ => bug("the name of a collection to be valid UTF-8"),
        }
    }

    /// Returns the parent; `None` if the collection has no parent, or if its parent is [`Param`], which is a kind.
    pub fn parent(&self) -> Option<Self> {
        let at = usize::from(self.length);
        let length = self.bytes.get(at).copied().unwrap_or(0).checked_sub(1)?;
        let mut bytes = [0; NAME_LIMIT];
        for (to, from) in bytes.iter_mut().zip(&self.bytes[at + 1..]) {
            *to = *from;
        }
        Some(Self { bytes, length })
    }

    /// Returns the collection and its ancestors, from the parent on.
    pub(crate) fn with_ancestors(self) -> impl Iterator<Item = Self> {
        std::iter::successors(Some(self), Self::parent)
    }

    /// Returns whether this collection is `other`, or a descendant of `other`.
    #[inline]
    pub fn is_in(&self, other: &Self) -> bool {
        self == other || (self.has_parent() && self.is_below(other))
    }

    #[inline]
    fn has_parent(&self) -> bool {
        let behind = self.bytes.get(usize::from(self.length));
        behind.is_some_and(|length| *length > 0)
    }

    #[inline(never)]
    fn is_below(self, other: &Self) -> bool {
        self.with_ancestors()
            .skip(1)
            .any(|ancestor| ancestor == *other)
    }

    /// Returns the collection with `root` as an additional, outermost ancestor, or `None` if the names are too long.
    pub(crate) fn below_root(&self, root: &Self) -> Option<Self> {
        let names: Vec<Self> = self.with_ancestors().collect();
        let mut names = names.iter().rev();
        names.try_fold(*root, |parent, name| {
            Self::from_name(name.name(), Some(&parent))
        })
    }

    /// Returns the collection without its last ancestor, if this ancestor is `root`.
    pub(crate) fn without_root(&self, root: &Self) -> Option<Self> {
        let mut names: Vec<Self> = self.with_ancestors().collect();
        if names.pop()? != *root {
            return None;
        }
        let below =
            |parent: Option<Self>, name: &Self| Self::from_name(name.name(), parent.as_ref());
        let (outermost, rest) = names.split_last()?;
        let outermost = below(None, outermost)?;
        let mut rest = rest.iter().rev();
        rest.try_fold(outermost, |parent, name| below(Some(parent), name))
    }
}

#[track_caller]
const fn too_long() -> ! {
    panic!(
        "the names of a collection and its ancestors, with one more byte for each ancestor, have at most 46 bytes, or 39 if \
         the leaves are parameters; write shorter ones"
    )
}

impl fmt::Debug for CollectionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The kind of a field of a module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
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
    /// The field is a module or a container of modules. It has no attribute.
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
                "this collection is of states: write `#[state(…)]`, or give the collection the parent `Param`"
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
                panic!("this collection is of parameters: write `#[param(…)]`")
            }
        }
    }

    /// Returns whether the field determines the kind of the leaves below it.
    #[inline]
    pub(crate) const fn decides(&self) -> bool {
        matches!(self, Self::Param | Self::ParamIn(_) | Self::State(_))
    }

    /// Returns the kind of the field after its parameters were frozen. A collection keeps its name, below [`Frozen`].
    /// If the names would become too long, the result is [`Frozen`] itself.
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

    /// Returns whether a leaf of this kind belongs to the collection of the kind `other`, or to a descendant of this
    /// collection. Every trained leaf is in [`Param`](Self::Param).
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

/// The parameters: the collection of all trained leaves. It is the parent of a collection of parameters.
///
/// A field with the attribute `#[param]` has the kind [`LeafKind::Param`], a field with `#[param(Collection)]` has
/// [`LeafKind::ParamIn`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Param;
impl Collection for Param {
    const NAME: &'static str = "Param";
    const KIND: LeafKind = LeafKind::Param;
}

macro_rules! collections {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct $name;
        impl Collection for $name {
            const NAME: &'static str = stringify!($name);
        }
    )*};
}

collections! {
    /// States without a collection of their own, marked `#[state]`.
    State;
    /// Running statistics of normalization layers.
    BatchStat;
    /// Keys and values of attention, kept between decoding steps.
    Cache;
    /// Values captured during a forward pass.
    Intermediate;
    /// Zeros that are added to an intermediate value: the gradient of the zeros is the gradient of the value.
    Perturbation;
    /// Random keys and counts.
    RngState;
    /// Moments and counts of an optimizer.
    OptState;
    /// Parameters that are temporarily frozen.
    ///
    /// [`DynamicModule::unfreeze`](crate::DynamicModule::unfreeze) turns all states of this collection into parameters.
    Frozen;
}
