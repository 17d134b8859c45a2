//! What a field of a module is, and what a leaf therefore is.
//!
//! A field has a [`FieldKind`]; the kind of a leaf follows from the outermost field on its path that
//! is a parameter or a state. A collection is a *type*, so that a misspelt one does not compile.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Mutex, PoisonError};

use crate::base::error::TreeError;
use crate::base::read_limit;

/// A named group of states, for instance [`BatchStat`]. Users derive it on a unit struct of their own.
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
    label = "`#[state(…)]` names a collection",
    note = "write `#[derive(Collection)] struct {Self};`, or take one of `pytree_core::kind`"
)]
pub trait Collection: 'static {
    /// The name shown in summaries and checkpoints.
    const NAME: &'static str;
}

/// About how many bytes a name takes besides its letters.
const NAME_SIZE: usize = 32;

/// The names of collections that are known at run time only.
static NAMES: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());

/// A [`Collection`] as a value: two are equal if their names are.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CollectionId {
    name: &'static str,
}

impl CollectionId {
    /// The identity of the collection `C`.
    pub const fn of<C: Collection>() -> Self {
        Self { name: C::NAME }
    }

    /// The collection of a name that is known at run time only: equal to every collection of that name.
    ///
    /// Names are kept for the life of the process.
    pub fn named(name: &str) -> Self {
        let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
        let name = names.get(name).copied().unwrap_or_else(|| {
            let kept: &'static str = Box::leak(name.into());
            names.insert(kept);
            kept
        });
        Self { name }
    }

    /// As [`named`](Self::named), of a name that was read from bytes.
    ///
    /// # Errors
    /// [`TreeError::Build`] if too much was read already.
    pub(crate) fn read(name: &str) -> Result<Self, TreeError> {
        let is_known = NAMES
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .contains(name);
        if !is_known {
            read_limit::reserve(NAME_SIZE + name.len())?;
        }
        Ok(Self::named(name))
    }

    /// The collection's name.
    pub const fn name(self) -> &'static str {
        self.name
    }
}

impl fmt::Debug for CollectionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// What a field of a module is: the values of the name-to-kind registry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FieldKind {
    /// Trained: `#[param]`.
    Param,
    /// A leaf that is not trained: `#[state]` or `#[state(Collection)]`.
    State(CollectionId),
    /// Part of the treedef, not a leaf: `#[r#static]`.
    Static,
    /// A module, or a container of modules: no attribute.
    Module,
}

impl fmt::Display for FieldKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Param => f.write_str("Param"),
            Self::State(collection) => f.write_str(collection.name),
            Self::Static => f.write_str("Static"),
            Self::Module => f.write_str("Module"),
        }
    }
}

/// What a leaf of a module is. Leaves outside of any module have none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LeafKind {
    /// A trained leaf.
    Param,
    /// A leaf that is not trained, in its collection.
    State(CollectionId),
}

impl LeafKind {
    /// The kind that a field gives to the leaves below it, if it decides one.
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
    /// States whose field names no collection: `#[state]`.
    State;
    /// Running statistics of normalisation layers.
    BatchStat;
    /// Keys and values kept between decoding steps.
    Cache;
    /// Values captured during a forward pass.
    Intermediate;
    /// Zeros added to values whose gradient is wanted.
    Perturbation;
    /// Random keys and counts.
    RngState;
    /// Moments and counts of an optimiser.
    OptState;
    /// Parameters that are frozen for a while.
    ///
    /// [`DynamicModule::unfreeze`](crate::DynamicModule::unfreeze) makes parameters of all states of this collection.
    Frozen;
}
