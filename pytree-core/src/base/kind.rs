//! The kinds of the fields of a module, and of its leaves.
//!
//! A field has a [`FieldKind`]. The outermost parameter or state field on the path of a leaf determines the kind of the
//! leaf. A collection is a *type*, so a misspelt collection does not compile.

use std::fmt;

use crate::base::bug::bug;
use crate::base::error::TreeError;

/// A named group of states, for instance [`BatchStat`]. Derive this trait on a unit struct.
///
/// # Examples
/// ```
/// use pytree_core::kind::{Collection, CollectionId};
/// struct Ema;
/// impl Collection for Ema {
///     const NAME: &'static str = "Ema";
/// }
/// assert_eq!(CollectionId::of::<Ema>().name(), "Ema");
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a collection",
    label = "a collection is needed here",
    note = "write `#[derive(Collection)] struct {Self};`, or use a collection of the module `kind`, such as `BatchStat`"
)]
pub trait Collection: 'static {
    /// The name shown in summaries and checkpoints.
    const NAME: &'static str;
}

/// The greatest length of a collection's name, in bytes.
pub(crate) const NAME_LIMIT: usize = 46;

/// A [`Collection`] as a value. Two values are equal if their names are equal.
///
/// The value contains the bytes of the name instead of a pointer. So it is `Copy` even if the name was read from a
/// file, and no global table of names grows with the files that a process reads.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CollectionId {
    /// The name, padded with zeros.
    bytes: [u8; NAME_LIMIT],
    length: u8,
}

impl CollectionId {
    /// Returns the identity of the collection `C`.
    ///
    /// # Panics
    /// If the name of the collection is longer than 46 bytes. The derives call this function in a constant, where the
    /// panic is a compile error.
    pub const fn of<C: Collection>() -> Self {
        match Self::from_name(C::NAME) {
            Some(collection) => collection,
            None => {
                panic!("the name of this collection is longer than 46 bytes; write a shorter name")
            }
        }
    }

    /// Returns the collection named `name`, which may be known only at run time. The result equals every collection
    /// with the same name.
    ///
    /// # Errors
    /// [`TreeError::Build`] if the name is longer than 46 bytes.
    pub fn named(name: &str) -> Result<Self, TreeError> {
        Self::from_name(name).ok_or_else(|| TreeError::Build {
            node: "collection",
            reason: format!(
                "expected a name of at most {NAME_LIMIT} bytes, found `{name}` of {} bytes; write a shorter name",
                name.len()
            ),
        })
    }

    const fn from_name(name: &str) -> Option<Self> {
        let name = name.as_bytes();
        if name.len() > NAME_LIMIT {
            return None;
        }
        let mut bytes = [0; NAME_LIMIT];
        let mut at = 0;
        while at < name.len() {
            bytes[at] = name[at];
            at += 1;
        }
        #[allow(
            clippy::cast_possible_truncation,
            reason = "a name has at most 46 bytes"
        )]
        let length = name.len() as u8;
        Some(Self { bytes, length })
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
    /// The leaves of the field are not trained. The attribute is `#[state]` or `#[state(Collection)]`.
    State(CollectionId),
    /// The field is part of the treedef, not a leaf. The attribute is `#[r#static]`.
    Static,
    /// The field is a module or a container of modules. It has no attribute.
    Module,
}

impl FieldKind {
    /// Returns whether the field determines the kind of the leaves below it.
    #[inline]
    pub(crate) const fn decides(&self) -> bool {
        matches!(self, Self::Param | Self::State(_))
    }
}

impl fmt::Display for FieldKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Param => f.write_str("Param"),
            Self::State(collection) => f.write_str(collection.name()),
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
    /// A leaf that is not trained. The value names the collection of the leaf.
    State(CollectionId),
}

impl LeafKind {
    /// Returns the same as [`of_field`](Self::of_field) for a borrowed kind.
    #[inline]
    pub(crate) fn of(field: &FieldKind) -> Option<Self> {
        match field {
            FieldKind::Param => Some(Self::Param),
            FieldKind::State(collection) => Some(Self::State(*collection)),
            FieldKind::Static | FieldKind::Module => None,
        }
    }

    /// Returns the kind of the leaves below a field, if the field determines this kind.
    pub const fn of_field(field: FieldKind) -> Option<Self> {
        match field {
            FieldKind::Param => Some(Self::Param),
            FieldKind::State(collection) => Some(Self::State(collection)),
            FieldKind::Static | FieldKind::Module => None,
        }
    }
}

impl fmt::Display for LeafKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Param => f.write_str("Param"),
            Self::State(collection) => f.write_str(collection.name()),
        }
    }
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
    /// Parameters that are frozen for a while.
    ///
    /// [`DynamicModule::unfreeze`](crate::DynamicModule::unfreeze) turns all states of this collection into parameters.
    Frozen;
}
