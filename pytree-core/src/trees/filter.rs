//! Filters select the leaves that an operation is applied to.

mod rule;

use std::any::TypeId;
use std::borrow::{Borrow, Cow};
use std::collections::BTreeSet;
use std::fmt;
use std::ops::{BitAnd, BitOr, Not};
use std::sync::Arc;

use pytree_base::suggest::Effort;

use self::rule::Rule;
use crate::base::error::TreeError;
use crate::base::kind::{Collection, LeafKind};
use crate::base::path::{KeyPath, PathKey};
use crate::node::axes::AxisRole;
use crate::node::leaf::Leaf;
use crate::treedef::TreeDef;

/// A filter accepts some leaves of a tree, by kind, collection, path, type or predicate.
///
/// Filters combine with `&`, `|` and `!`.
///
/// # Examples
/// ```
/// use pytree_core::Filter;
/// let trained = Filter::param() & !Filter::path("encoder");
/// assert_eq!(format!("{trained:?}"), "(param & !path(encoder))");
/// ```
#[doc(alias = "nnx.filterlib")]
#[derive(Clone)]
pub struct Filter(Rule);

impl Filter {
    /// Accepts every leaf.
    #[doc(alias = "nnx.Everything")]
    pub fn everything() -> Self {
        Self(Rule::Everything)
    }

    /// Accepts no leaf.
    #[doc(alias = "nnx.Nothing")]
    pub fn nothing() -> Self {
        Self(Rule::Nothing)
    }

    /// Accepts parameters, of every collection.
    pub fn param() -> Self {
        Self(Rule::Param)
    }

    /// Accepts states of every collection.
    pub fn any_state() -> Self {
        Self(Rule::AnyState)
    }

    /// Accepts states of the collection `C` and of its descendants. A collection of parameters does not compile; pass
    /// such a collection to [`collection`](Self::collection):
    /// ```compile_fail,E0080
    /// # use pytree_core::{Filter, kind::Param};
    /// #[derive(pytree_core::Collection)]
    /// #[collection(parent = Param)]
    /// struct LoraParam;
    /// let adapters = Filter::state::<LoraParam>();
    /// ```
    #[doc(alias = "nnx.OfType")]
    pub fn state<C: Collection>() -> Self {
        const {
            assert!(
                C::KIND.is_state(),
                "this is a collection of parameters, not of states: write `Filter::collection` instead of `Filter::state`"
            );
        }
        Self::collection::<C>()
    }

    /// Accepts the leaves of the collection `C` and of its descendants, whether they are parameters or states.
    ///
    /// # Examples
    /// ```
    /// use pytree_core::kind::Param;
    /// use pytree_core::{Filter, Module, partition};
    ///
    /// #[derive(pytree_core::Collection)]
    /// #[collection(parent = Param)]
    /// struct LoraParam;
    ///
    /// #[derive(Module)]
    /// struct Adapted {
    ///     #[param]
    ///     weight: f32,
    ///     #[param(LoraParam)]
    ///     scale: f32,
    /// }
    ///
    /// let model = Adapted { weight: 2.0, scale: 0.5 };
    /// let adapters = Filter::collection::<LoraParam>();
    /// assert_eq!(partition::filter::<_, f32>(&model, &adapters).leaves(), [0.5]);
    /// assert_eq!(partition::filter::<_, f32>(&model, &Filter::param()).len(), 2);
    /// ```
    pub fn collection<C: Collection>() -> Self {
        Self(match C::KIND {
            LeafKind::Param => Rule::Param,
            kind => Rule::In(Box::new(kind)),
        })
    }

    /// Accepts leaves at or below a path such as `layers[0]`. The path must exist in the tree that the filter is
    /// applied to. A leaf in a shared node has several paths, and is accepted if any of them is at or below the given
    /// path.
    ///
    /// # Errors
    /// [`TreeError::PathSyntax`] if the text is not a key path.
    #[pytree_derive::panicking_twin(path)]
    pub fn try_path(path: impl AsRef<str>) -> Result<Self, TreeError> {
        let path = path.as_ref().parse()?;
        Ok(Self(Rule::Path(path)))
    }

    /// Accepts leaves whose path contains a step with this name: `weight` accepts `layers[0].weight`. A leaf in a
    /// shared node has several paths, and is accepted if any of them contains the name.
    #[doc(alias = "nnx.PathContains")]
    pub fn path_contains(name: impl Into<String>) -> Self {
        Self(Rule::Contains(name.into()))
    }

    /// Accepts the weights that multiply features: the parameters whose declared roles contain inputs and outputs, such
    /// as the weights of `Linear`, `Conv` and attention. Such weights are usually the parameters for a weight decay or
    /// for an optimizer of matrices, such as Muon.
    ///
    /// Accepts no bias and no scale, whatever their number of axes. Accepts no embedding, because an index selects its
    /// rows. A parameter with at least two axes needs declared roles, if the filter depends on them:
    /// `#[param("in out", roles(input, output))]`. Otherwise the function that applies the filter returns
    /// [`TreeError::Roles`].
    ///
    /// [`accepts`](Self::accepts) does not know the roles. Call [`for_leaves`](Self::for_leaves) first.
    ///
    /// # Examples
    /// ```
    /// use ndarray::{Array1, Array2};
    /// use pytree_core::{Filter, Module, partition};
    /// #[derive(Module)]
    /// struct Dense {
    ///     #[param("in out", roles(input, output))]
    ///     weight: Array2<f32>,
    ///     #[param("heads head_dim", roles(output_head, output))]
    ///     bias: Array2<f32>,
    /// }
    /// let dense = Dense { weight: Array2::zeros((3, 8)), bias: Array2::zeros((2, 4)) };
    /// let decayed = partition::filter::<_, Array2<f32>>(&dense, &Filter::matrices());
    /// let paths: Vec<_> = decayed.iter_with_path().map(|(path, _)| path.to_string()).collect();
    /// assert_eq!(paths, ["weight"]);
    /// ```
    pub fn matrices() -> Self {
        Self(Rule::Matrices)
    }

    /// Accepts leaves of the type `L`.
    pub fn leaf_type<L: Leaf>() -> Self {
        Self(Rule::Type(TypeId::of::<L>(), std::any::type_name::<L>()))
    }

    /// Accepts a leaf if `predicate` returns true.
    #[doc(alias = "eqx.is_array")]
    pub fn predicate(
        predicate: impl Fn(&KeyPath, &dyn Leaf) -> bool + Send + Sync + 'static,
    ) -> Self {
        Self::predicate_with_kind(move |path, _, leaf| predicate(path, leaf))
    }

    /// Accepts a leaf if `predicate` returns true. The predicate also receives the kind of the leaf. If the leaf is a
    /// state, the kind contains the collection.
    ///
    /// # Examples
    /// ```
    /// use pytree_core::{Filter, LeafKind};
    /// let saved = Filter::predicate_with_kind(|_, kind, _| match kind {
    ///     Some(LeafKind::State(collection)) => collection.name() != "Intermediate",
    ///     _ => true,
    /// });
    /// ```
    pub fn predicate_with_kind(
        predicate: impl Fn(&KeyPath, Option<LeafKind>, &dyn Leaf) -> bool + Send + Sync + 'static,
    ) -> Self {
        Self(Rule::Predicate(Arc::new(predicate)))
    }

    /// Accepts leaves that one of the filters accepts. Without filters, accepts no leaf.
    ///
    /// # Examples
    /// ```
    /// use pytree_core::Filter;
    /// let chosen: Vec<Filter> = ["encoder", "head"].map(Filter::path).into();
    /// assert_eq!(format!("{:?}", Filter::any_of(&chosen)), "(path(encoder) | path(head))");
    /// ```
    #[doc(alias = "nnx.Any")]
    pub fn any_of<F: Borrow<Self>>(filters: impl IntoIterator<Item = F>) -> Self {
        let filters = filters.into_iter().map(|filter| filter.borrow().clone());
        filters
            .reduce(|any, filter| any | filter)
            .unwrap_or_else(Self::nothing)
    }

    /// Accepts leaves that all of the filters accept. Without filters, accepts every leaf.
    #[doc(alias = "nnx.All")]
    pub fn all_of<F: Borrow<Self>>(filters: impl IntoIterator<Item = F>) -> Self {
        let filters = filters.into_iter().map(|filter| filter.borrow().clone());
        filters
            .reduce(|all, filter| all & filter)
            .unwrap_or_else(Self::everything)
    }

    /// Returns whether the filter accepts the leaf with this path and kind. If the structure has shared nodes, call
    /// [`resolved`](Self::resolved) first, and this method on the result.
    pub fn accepts(&self, path: &KeyPath, kind: Option<LeafKind>, leaf: &dyn Leaf) -> bool {
        self.0.accepts(path, kind, Some(leaf))
    }

    /// Returns whether the filter accepts the static field at a path. Filters by kind, type or predicate accept no
    /// static field.
    pub(crate) fn accepts_static(&self, path: &KeyPath) -> bool {
        self.0.accepts(path, None, None)
    }

    /// Returns the paths that the filter contains; see [`Filter::path`].
    pub(crate) fn paths(&self) -> Vec<&KeyPath> {
        let mut paths = Vec::new();
        self.0.collect_paths(&mut paths);
        paths
    }

    /// Returns the filter for a structure in which each leaf of a shared node has only its first path. The returned
    /// filter accepts such a leaf at its first path if this filter accepts any of its paths.
    ///
    /// # Examples
    /// ```
    /// use pytree_core::{Filter, Shared, graph};
    /// let table = Shared::new(1.0_f32);
    /// let treedef = graph::structure(&(table.clone(), table));
    /// let head = Filter::path("[1]");
    /// assert_eq!(format!("{:?}", head.resolved(&treedef)), "(path([1]) | path([0]))");
    /// ```
    #[must_use]
    pub fn resolved(&self, treedef: &TreeDef) -> Cow<'_, Self> {
        if self.is_by_kind() || !treedef.has_aliases() {
            return Cow::Borrowed(self);
        }
        Cow::Owned(Self(self.0.resolved(treedef, &[])))
    }

    /// Returns the filter for the leaves of a structure: see [`resolved`](Self::resolved). Also checks that the filter
    /// can decide about each leaf.
    ///
    /// # Errors
    /// The errors of [`check`](Self::check), and [`TreeError::Roles`] if the filter depends on the roles of a parameter
    /// that has at least two axes and declares no roles.
    pub fn for_leaves<L: Leaf>(
        &self,
        treedef: &TreeDef,
        leaves: &[L],
    ) -> Result<Cow<'_, Self>, TreeError> {
        self.check(treedef)?;
        if !self.0.needs_roles() {
            return Ok(self.resolved(treedef));
        }
        let (mut matrices, mut undeclared) = (Vec::new(), Vec::new());
        let places = treedef.leaf_roles().into_iter();
        for ((roles, kind), leaf) in places.zip(treedef.leaf_kinds()).zip(leaves) {
            match roles.try_of_leaf(leaf) {
                Ok(axes) if is_multiplied(&axes) => matrices.push(roles.path()),
                Ok(_) => {}
                Err(missing) => undeclared.push((*missing, kind, leaf)),
            }
        }
        let resolved = Self(self.0.resolved(treedef, &matrices));
        // The filter depends on the roles of a leaf if it decides differently when the leaf is a matrix.
        matrices.extend(undeclared.iter().map(|(missing, ..)| missing.path.clone()));
        let with_undeclared = Self(self.0.resolved(treedef, &matrices));
        undeclared.retain(|(missing, kind, leaf)| {
            let accepts = |filter: &Self| filter.accepts(&missing.path, *kind, *leaf);
            accepts(&resolved) != accepts(&with_undeclared)
        });
        let missing: Vec<_> = undeclared
            .into_iter()
            .map(|(missing, ..)| missing)
            .collect();
        if missing.is_empty() {
            return Ok(Cow::Owned(resolved));
        }
        Err(TreeError::Roles { missing })
    }

    /// Checks that each path of the filter leads to a leaf of a structure, or to a node above a leaf. Without this
    /// check a misspelt path would silently select nothing.
    ///
    /// # Errors
    /// [`TreeError::NoLeaf`] with the nearest existing path.
    pub fn check(&self, treedef: &TreeDef) -> Result<(), TreeError> {
        let mut wanted = self.paths();
        if wanted.is_empty() {
            return Ok(());
        }
        if treedef.has_aliases() {
            wanted.retain(|path| !treedef.leads_behind_alias(path));
        }
        match treedef.first_without_place(&wanted) {
            None => Ok(()),
            Some(path) if treedef.is_static(path) => {
                let path = path.clone();
                Err(TreeError::StaticField { path })
            }
            // `walk_places` lists only the first path of a leaf in a shared node.
            Some(path) => {
                let nearest = || {
                    let mut places = Vec::new();
                    treedef.walk_places(|place| places.push(place.path.clone()));
                    nearest_prefix(path, &places)
                };
                Err(TreeError::NoLeaf {
                    path: path.clone(),
                    nearest: treedef.nearest_behind_alias(path).or_else(nearest),
                })
            }
        }
    }

    /// Returns for each leaf, in order, whether the filter accepts it.
    ///
    /// Optimizers use this function, because the set of leaves that they train must not be empty. Without the check a
    /// misspelt name would silently select nothing.
    ///
    /// # Errors
    /// The errors of [`for_leaves`](Self::for_leaves), and [`TreeError::NothingSelected`] if no leaf is accepted.
    pub fn choose<L: Leaf>(&self, treedef: &TreeDef, leaves: &[L]) -> Result<Vec<bool>, TreeError> {
        let filter = self.for_leaves(treedef, leaves)?;
        let paths = treedef.leaf_paths();
        let places = paths.iter().zip(treedef.leaf_kinds()).zip(leaves);
        let chosen: Vec<bool> = places
            .map(|((path, kind), leaf)| filter.accepts(path, kind, leaf))
            .collect();
        if chosen.contains(&true) {
            return Ok(chosen);
        }
        let kinds = treedef.leaf_kinds();
        let kinds = || kinds.iter().flatten();
        Err(TreeError::NothingSelected {
            filter: format!("{self:?}"),
            parameters: kinds().filter(|kind| kind.is_param()).count(),
            states: kinds().filter(|kind| kind.is_state()).count(),
            misspelt: self.misspelt(&paths),
        })
    }

    /// Returns the names in the filter that occur in none of `paths`, each with the most similar name that occurs in
    /// `paths`.
    fn misspelt(&self, paths: &[KeyPath]) -> Vec<(String, Option<String>)> {
        let steps: BTreeSet<String> = paths
            .iter()
            .flat_map(|path| path.keys().iter().map(PathKey::plain))
            .collect();
        let mut names = Vec::new();
        self.0.collect_names(&mut names);
        let absent = names.into_iter().filter(|name| !steps.contains(*name));
        let mut effort = Effort::default();
        absent
            .map(|name| {
                let nearest = effort.nearest(name, steps.iter().map(|step| (step, step)));
                (name.clone(), nearest.map(|(step, _)| step.clone()))
            })
            .collect()
    }

    /// Checks the order of filters for a split, in which each leaf belongs to the first filter that accepts it. After
    /// [`everything`](Self::everything) only another [`everything`](Self::everything) is allowed, because any other
    /// filter would silently select nothing.
    ///
    /// # Errors
    /// [`TreeError::AfterEverything`] with the filters after [`everything`](Self::everything).
    pub fn check_order<'a>(filters: impl IntoIterator<Item = &'a Self>) -> Result<(), TreeError> {
        let is_everything = |filter: &&Self| matches!(filter.0, Rule::Everything);
        let mut filters = filters.into_iter();
        if !filters.any(|filter| is_everything(&filter)) {
            return Ok(());
        }
        let after: Vec<String> = filters
            .filter(|filter| !is_everything(filter))
            .map(|filter| format!("{filter:?}"))
            .collect();
        if after.is_empty() {
            Ok(())
        } else {
            Err(TreeError::AfterEverything { filters: after })
        }
    }

    /// Returns whether the filter depends only on the kind of a leaf.
    pub(crate) fn is_by_kind(&self) -> bool {
        self.0.is_by_kind()
    }

    /// Returns whether the filter, which must depend only on the kind, accepts leaves of a kind.
    pub(crate) fn accepts_kind(&self, kind: Option<&LeafKind>) -> bool {
        self.0.accepts_kind(kind)
    }
}

/// Returns whether these are the roles of a weight that multiplies features: it has inputs and outputs, and its rows are
/// not selected by an index.
fn is_multiplied(roles: &[AxisRole]) -> bool {
    let has = |is: fn(AxisRole) -> bool| roles.iter().copied().any(is);
    let is_other = |role| matches!(role, AxisRole::Item | AxisRole::Feature);
    has(AxisRole::is_row) && has(AxisRole::is_column) && !has(is_other)
}

/// Returns the path to a leaf, or to a node above a leaf, that is most similar to `path`.
fn nearest_prefix(path: &KeyPath, places: &[KeyPath]) -> Option<KeyPath> {
    let length = path.keys().len();
    let prefixes = places.iter().map(|place| {
        let keys = place.keys().iter().take(length);
        let prefix: KeyPath = keys.cloned().collect();
        let text = prefix.to_string();
        (prefix, text)
    });
    let nearest = Effort::default().nearest(&path.to_string(), prefixes);
    nearest.map(|(prefix, _)| prefix)
}

impl Not for Filter {
    type Output = Self;
    fn not(self) -> Self {
        Self(self.0.inverted())
    }
}
impl BitAnd for Filter {
    type Output = Self;
    fn bitand(self, other: Self) -> Self {
        Self(self.0.and(other.0))
    }
}
impl BitOr for Filter {
    type Output = Self;
    fn bitor(self, other: Self) -> Self {
        Self(self.0.or(other.0))
    }
}

impl fmt::Debug for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
