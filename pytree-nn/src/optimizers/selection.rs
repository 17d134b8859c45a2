//! The parameters to which a transformation applies.

use std::fmt;
use std::hash::Hasher;

use pytree_base::bug::{LEAVES, pairs};
use pytree_core::{Filter, StaticData, StaticValue, Tree};
use pytree_transform::Tensor;

use crate::optimizers::error::OptimizerError;

/// The parameters to which a transformation applies: a filter before the parameters are known, and afterwards one flag
/// for each parameter.
///
/// The flags are static values, so an update does not apply the filter again, and a saved optimizer is equal to a new
/// one.
#[derive(Clone, Debug)]
pub(super) enum Selection {
    All,
    By(Filter),
    Flags(Vec<bool>),
}

impl Selection {
    /// Returns the selection of the parameters that a filter accepts, or of all parameters if there is no filter.
    pub(super) fn new(filter: Option<Filter>) -> Self {
        filter.map_or(Self::All, Self::By)
    }

    /// Returns one flag for each parameter, which is true if the parameter is selected.
    ///
    /// # Errors
    /// Returns [`OptimizerError::Mask`] if the filter has an unknown path or accepts no parameter.
    pub(super) fn choose(&self, parameters: &Tree<Tensor>) -> Result<Vec<bool>, OptimizerError> {
        match self {
            Self::All => Ok(vec![true; parameters.leaves().len()]),
            Self::By(filter) => filter
                .choose(parameters.treedef(), parameters.leaves())
                .map_err(OptimizerError::Mask),
            Self::Flags(flags) => Ok(flags.clone()),
        }
    }

    /// Replaces the filter by a flag for each parameter.
    ///
    /// # Panics
    /// If the filter has an unknown path or accepts no parameter. An optimizer first calls [`choose`](Self::choose),
    /// which returns an error in the same cases.
    pub(super) fn init(&mut self, parameters: &Tree<Tensor>) {
        if let Self::By(_) = self {
            *self = match self.choose(parameters) {
                Ok(flags) => Self::Flags(flags),
                Err(error) => panic!("{error}"),
            };
        }
    }

    /// Returns whether the parameter at a position is selected.
    pub(super) fn contains(&self, position: usize) -> bool {
        match self {
            Self::Flags(flags) => flags.get(position).copied().unwrap_or(false),
            Self::All | Self::By(_) => true,
        }
    }

    /// Returns the tree in which only the selected parameters are present.
    pub(super) fn part(&self, parameters: &Tree<Tensor>) -> Tree<Tensor> {
        let keep = |position| self.contains(position);
        let part = pytree_core::partition::select::<(), Tensor>(
            parameters.treedef(),
            parameters.leaves(),
            keep,
        );
        part.into_tree()
    }

    /// Returns the selected items of a list with an item for each parameter.
    pub(super) fn of<T: Clone>(&self, items: &[T]) -> Vec<T> {
        let items = items.iter().enumerate();
        let selected = items.filter(|(position, _)| self.contains(*position));
        selected.map(|(_, item)| item.clone()).collect()
    }

    /// Returns the positions of the selected parameters among `number` parameters.
    pub(super) fn positions(&self, number: usize) -> Vec<usize> {
        let selected = (0..number).filter(|position| self.contains(*position));
        selected.collect()
    }

    /// Writes `updates` to the places of the selected parameters.
    pub(super) fn put(&self, places: &mut [Tensor], updates: Vec<Tensor>) {
        let selected = self.positions(places.len());
        for (position, update) in pairs(selected, updates, LEAVES) {
            places[position] = update;
        }
    }
}

impl StaticValue for Selection {
    fn static_eq(&self, other: &Self) -> bool {
        self.static_data() == other.static_data()
    }

    fn static_hash(&self, hasher: &mut dyn Hasher) {
        self.static_data().add_to_hash(hasher);
    }

    fn static_show(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("all"),
            Self::By(filter) => write!(f, "{filter:?}"),
            Self::Flags(flags) => flags.static_show(f),
        }
    }

    fn static_data(&self) -> StaticData {
        match self {
            Self::All => StaticData::Unit,
            Self::By(filter) => StaticData::opaque::<Filter>(format!("{filter:?}")),
            Self::Flags(flags) => flags.static_data(),
        }
    }

    fn from_static_data(data: &StaticData) -> Option<Self> {
        match data {
            StaticData::Unit => Some(Self::All),
            other => Vec::from_static_data(other).map(Self::Flags),
        }
    }
}
