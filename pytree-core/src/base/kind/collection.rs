//! Collections: the named groups of states and parameters.

use std::fmt;

use pytree_base::bug::bug;

use super::LeafKind;
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

/// The greatest total length, in bytes, of the names of a state collection and its ancestors. Each ancestor takes one
/// byte more than its name.
pub(crate) const NAME_LIMIT: usize = 46;

/// The greatest number of bytes for a collection of parameters. The limit is lower than [`NAME_LIMIT`], so that the
/// name of [`Frozen`] fits after the names.
pub(crate) const PARAM_NAME_LIMIT: usize = NAME_LIMIT - 1 - Frozen::NAME.len();

/// A [`Collection`] as a value. Two values are equal if their names and the names of their ancestors are equal.
///
/// The value contains the bytes of the names instead of a pointer. So a `CollectionId` is `Copy` even if the names were
/// read from a file, and there is no global table of names that would grow with the files that a process reads.
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

    /// Returns the collection named `name`, which may be known only at run time. The result is equal to every other
    /// collection that has the same name and no parent.
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

    /// Returns the collection named `name` whose parent is this collection. The name and the parent may be known only
    /// at run time.
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

    /// Returns the collection `name` below `parent`, or `None` if the names are too long.
    pub(super) const fn from_name(name: &str, parent: Option<&Self>) -> Option<Self> {
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

    /// Returns the number of bytes of all names, plus one byte for each ancestor.
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

    /// Returns the parent. Returns `None` if the collection has no parent or if its parent is [`Param`], because
    /// [`LeafKind::ParamIn`] already implies this parent.
    pub fn parent(&self) -> Option<Self> {
        let at = usize::from(self.length);
        let length = self.bytes.get(at).copied().unwrap_or(0).checked_sub(1)?;
        let mut bytes = [0; NAME_LIMIT];
        for (to, from) in bytes.iter_mut().zip(&self.bytes[at + 1..]) {
            *to = *from;
        }
        Some(Self { bytes, length })
    }

    /// Returns the collection, then its ancestors, beginning with the parent.
    pub(crate) fn with_ancestors(self) -> impl Iterator<Item = Self> {
        std::iter::successors(Some(self), Self::parent)
    }

    /// Returns whether this collection is `other`, or a descendant of `other`.
    #[inline]
    pub fn is_in(&self, other: &Self) -> bool {
        self == other || (self.has_parent() && self.is_below(other))
    }

    #[inline]
    pub(super) fn has_parent(&self) -> bool {
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
pub(super) const fn too_long() -> ! {
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

/// The parameters: the collection of all trained leaves. All other collections of parameters are below this collection.
///
/// The leaves of a field with the attribute `#[param]` have the kind [`LeafKind::Param`]. The leaves of a field with
/// `#[param(Collection)]` have the kind [`LeafKind::ParamIn`].
#[doc(alias("nnx.Param", "nn.Parameter"))]
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
    #[doc(alias("nnx.Variable", "nn.Buffer"))]
    State;
    /// Running statistics of normalization layers.
    #[doc(alias = "nnx.BatchStat")]
    BatchStat;
    /// Keys and values of attention, kept between decoding steps.
    #[doc(alias = "nnx.Cache")]
    Cache;
    /// Values captured during a forward pass.
    #[doc(alias = "nnx.Intermediate")]
    Intermediate;
    /// Zeros that are added to an intermediate value: the gradient of the zeros is the gradient of the value.
    #[doc(alias = "nnx.Perturbation")]
    Perturbation;
    /// Random keys and counts.
    #[doc(alias = "nnx.RngState")]
    RngState;
    /// Moments and counts of an optimizer.
    #[doc(alias = "nnx.OptState")]
    OptState;
    /// Sums and counts of metrics, such as the sum of the losses of an epoch.
    Metric;
    /// Parameters that are temporarily frozen.
    ///
    /// [`DynamicModule::unfreeze`](crate::DynamicModule::unfreeze) turns all states of this collection into parameters.
    Frozen;
}
