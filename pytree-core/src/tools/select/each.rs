//! Selectors of several nodes of one type, which are replaced together.

use std::any::type_name;
use std::fmt;
use std::sync::Arc;

use super::{Graph, Selected, filter_of, mistaken};
use crate::base::error::{SelectionMistake, TreeError};
use crate::base::path::KeyPath;
use crate::base::text::short_name;
use crate::contract::pytree::Pytree;
use crate::tools::edit::place::Places;
use crate::tools::edit::replace_all;
use crate::trees::filter::Filter;

/// The closure of a selector of several places.
type Select<M, T> = dyn Fn(&M) -> Vec<&T> + Send + Sync;

/// A selector of several `T` in a model of type `M`, created by [`at_each`].
pub struct EachSelector<M, T>(Arc<Select<M, T>>);

/// Selects several leaves or nodes of one type by a closure that borrows all of them. See [`at`](crate::at) for a
/// single leaf or node.
///
/// # Examples
/// ```
/// use pytree_core::{at_each, Module};
///
/// #[derive(Module, Clone, Debug)]
/// struct Linear {
///     #[param]
///     weight: f32,
///     #[param]
///     bias: Option<f32>,
/// }
///
/// let layer = |weight| Linear { weight, bias: Some(0.5) };
/// let model = (layer(1.0), layer(2.0), layer(3.0));
/// type Model = (Linear, Linear, Linear);
///
/// let outer = at_each(|m: &Model| vec![&m.0.weight, &m.2.weight]);
/// let changed = outer.update(&model, |weight| weight * 10.0)?;
/// assert_eq!((changed.0.weight, changed.1.weight, changed.2.weight), (10.0, 2.0, 30.0));
///
/// // As many values as places.
/// let changed = outer.replace(&model, [7.0, 8.0])?;
/// assert_eq!((changed.0.weight, changed.2.weight), (7.0, 8.0));
/// let mistake = outer.replace(&model, [7.0]).unwrap_err();
/// assert!(mistake.to_string().contains("2 selected places, found 1 value"));
///
/// // The new values may have other structures.
/// let biases = at_each(|m: &Model| vec![&m.0.bias, &m.1.bias, &m.2.bias]);
/// assert_eq!(biases.update(&model, |_| None)?.1.bias, None);
/// # Ok::<(), pytree_core::TreeError>(())
/// ```
#[doc(alias = "eqx.tree_at")]
pub fn at_each<M, T, F>(places: F) -> EachSelector<M, T>
where
    M: Pytree,
    T: Pytree,
    F: Fn(&M) -> Vec<&T> + Send + Sync + 'static,
{
    EachSelector(Arc::new(places))
}

impl<M: Pytree, T: Pytree> EachSelector<M, T> {
    /// Returns the selected values, in the order in which the closure returns them.
    ///
    /// # Panics
    /// If the closure panics, for instance because an index is out of range.
    #[track_caller]
    pub fn get<'m>(&self, model: &'m M) -> Vec<&'m T> {
        (self.0)(model)
    }

    /// Returns the paths of the selected values, in their order. For a shared node, returns its first path.
    ///
    /// # Errors
    /// [`TreeError::Selection`] if the closure returns a value without leaves, or a value outside of the model.
    ///
    /// # Panics
    /// In the same cases as [`get`](Self::get).
    #[track_caller]
    pub fn paths(&self, model: &M) -> Result<Vec<KeyPath>, TreeError> {
        let places = Places::of(model)?;
        let nodes = find(model, &places, &self.get(model))?;
        let paths = nodes.into_iter().map(|node| places.treedef.path_of(node));
        Ok(paths.collect())
    }

    /// Returns a filter that accepts the leaves of the selected values.
    ///
    /// The filter compares paths, so it can be used with every model that has the structure of `model`, and with
    /// gradients.
    ///
    /// # Errors
    /// The errors of [`paths`](Self::paths).
    ///
    /// # Panics
    /// In the same cases as [`get`](Self::get).
    #[track_caller]
    pub fn filter(&self, model: &M) -> Result<Filter, TreeError> {
        filter_of(model, self.paths(model)?, &self.get(model))
    }

    /// Replaces the selected values: the first by the first of `values`, and so on.
    ///
    /// The values may have other structures, for instance longer `Vec`s. A shared node is replaced at all its paths.
    ///
    /// # Errors
    /// - The errors of [`paths`](Self::paths).
    /// - [`TreeError::Selection`] if the numbers of values and selected places differ, if a place is selected twice, or
    ///   if a place is inside of another selected place.
    /// - [`TreeError::Replacement`] if the model cannot be built with the values.
    ///
    /// # Panics
    /// In the same cases as [`get`](Self::get).
    #[track_caller]
    pub fn replace(&self, model: &M, values: impl IntoIterator<Item = T>) -> Result<M, TreeError> {
        let selected = self.get(model);
        let values: Vec<T> = values.into_iter().collect();
        if values.len() != selected.len() {
            return Err(mistaken::<T>(SelectionMistake::Count {
                places: selected.len(),
                values: values.len(),
            }));
        }
        replace_found(model, &selected, &values)
    }

    /// Replaces each selected value by the result of `change`.
    ///
    /// # Errors
    /// The errors of [`replace`](Self::replace).
    ///
    /// # Panics
    /// In the same cases as [`get`](Self::get), and if `change` panics.
    #[track_caller]
    pub fn update(&self, model: &M, change: impl FnMut(&T) -> T) -> Result<M, TreeError> {
        let selected = self.get(model);
        let values: Vec<T> = selected.iter().copied().map(change).collect();
        replace_found(model, &selected, &values)
    }
}

/// Returns the node of each selected value.
fn find<M: Pytree, T: Pytree>(
    model: &M,
    places: &Places,
    selected: &[&T],
) -> Result<Vec<usize>, TreeError> {
    let graph = Graph::of(model, &places.treedef)?;
    let by_first_leaf = graph.by_first_leaf();
    let selected = selected.iter().map(|value| {
        let selected = Selected::of(*value)?;
        // This lookup does not find a node of the model that begins with an alias, because the first leaf of such a
        // node differs from the first leaf of the value. So `position_of` then compares all nodes.
        let positions = by_first_leaf.get(&selected.leaves[0]);
        match graph.first_of(positions.into_iter().flatten().copied(), &selected) {
            Some(node) => Ok(node),
            None => graph.position_of::<T>(&selected),
        }
    });
    selected.collect()
}

/// Replaces the selected values by the same number of other values.
fn replace_found<M: Pytree, T: Pytree>(
    model: &M,
    selected: &[&T],
    values: &[T],
) -> Result<M, TreeError> {
    let places = Places::of(model)?;
    let nodes = find(model, &places, selected)?;
    let mut replacements: Vec<(usize, &T)> = nodes.into_iter().zip(values).collect();
    replacements.sort_by_key(|(node, _)| *node);
    for pair in replacements.windows(2) {
        if let [(outer, _), (inner, _)] = *pair
            && inner < outer + places.size_of(outer)
        {
            let path = |node| places.treedef.path_of(node);
            return Err(mistaken::<T>(SelectionMistake::Overlap {
                outer: path(outer),
                inner: path(inner),
            }));
        }
    }
    replace_all(model, &places, &replacements)
}

impl<M, T> Clone for EachSelector<M, T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}
impl<M, T> fmt::Debug for EachSelector<M, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "EachSelector({} of {})",
            short_name(type_name::<T>()),
            short_name(type_name::<M>())
        )
    }
}
