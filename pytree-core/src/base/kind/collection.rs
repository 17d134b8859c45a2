//! Collections: the named groups of states and parameters.

use super::leaf_kind::{CollectionId, LeafKind, NAME_LIMIT, too_long};

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

/// The greatest number of bytes for a collection of parameters. The limit is lower than [`NAME_LIMIT`], so that the
/// name of [`Frozen`] fits after the names.
pub(crate) const PARAM_NAME_LIMIT: usize = NAME_LIMIT - 1 - Frozen::NAME.len();

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

    /// Returns the collection of the leaf: [`Param`](struct@Param) for a parameter without another collection.
    pub const fn collection(&self) -> CollectionId {
        match self {
            Self::Param => const { CollectionId::of::<Param>() },
            Self::ParamIn(collection) | Self::State(collection) => *collection,
        }
    }
}
