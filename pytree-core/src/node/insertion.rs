//! The insertion order of the entries of a map. A map stores the order beside its sorted keys. Comparisons of maps
//! ignore the order.

use std::fmt;
use std::hash::Hasher;
use std::sync::Arc;

use pytree_base::bug::bug;

use crate::node::statics::{StaticBox, StaticData, StaticValue};

/// The insertion order of a map: the position of each entry among the sorted keys. `None` if the order is unknown or
/// equals the order of the keys.
///
/// An insertion order is the last static value of every [`NodeKind::Dict`](crate::node::shape::NodeKind::Dict). Two
/// insertion orders always compare as equal: maps with the same keys have the same structure, in whatever order the
/// keys were inserted.
#[derive(Clone, Debug, Default)]
pub struct InsertionOrder(Option<Arc<[u32]>>);

impl InsertionOrder {
    /// The insertion order of a map whose entries were inserted in the order of the keys.
    pub const SORTED: &'static Self = &Self(None);

    /// Creates the insertion order from the position of each entry among the sorted keys.
    pub(crate) fn of_positions(positions: &[usize]) -> Self {
        if positions.is_sorted() {
            return Self(None);
        }
        let narrow = |&position: &usize| match u32::try_from(position) {
            Ok(position) => position,
            Err(_) => bug(format_args!(
                "fewer than 2^32 entries in a map, found {}",
                positions.len()
            )),
        };
        Self(Some(positions.iter().map(narrow).collect()))
    }

    /// Reorders items from key order to insertion order.
    pub(crate) fn restore<T>(&self, sorted: Vec<T>) -> Vec<T> {
        let Some(order) = self.0.as_ref().filter(|order| order.len() == sorted.len()) else {
            return sorted;
        };
        let mut sorted: Vec<Option<T>> = sorted.into_iter().map(Some).collect();
        let entries = order.iter().map(|&position| {
            match sorted.get_mut(position as usize).and_then(Option::take) {
                Some(entry) => entry,
                None => bug(format_args!(
                    "an insertion order that contains each of {} positions once, found {order:?}",
                    order.len()
                )),
            }
        });
        entries.collect()
    }
}

impl StaticValue for InsertionOrder {
    // The maps of Rust have no insertion order of their own, so it differs only in dynamic trees.
    const __IS_EXACT: bool = true;
    fn static_eq(&self, _: &Self) -> bool {
        true
    }
    fn static_hash(&self, _: &mut dyn Hasher) {}
    fn static_show(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        Ok(())
    }
    fn static_data(&self) -> StaticData {
        StaticData::Optional(self.0.as_ref().map(|order| {
            let positions = order
                .iter()
                .map(|&position| StaticData::Integer(position.into()));
            Box::new(StaticData::Sequence(positions.collect()))
        }))
    }
    fn from_static_data(data: &StaticData) -> Option<Self> {
        let Some(positions) = Option::<Vec<usize>>::from_static_data(data)? else {
            return Some(Self(None));
        };
        let mut sorted = positions.clone();
        sorted.sort_unstable();
        sorted
            .iter()
            .enumerate()
            .all(|(expected, &found)| expected == found)
            .then(|| Self::of_positions(&positions))
    }
}

/// Sorts the entries of a map by key, and returns the keys, the values and the insertion order. Of several entries with
/// equal keys, a single entry remains. This entry has the insertion position of the first of these entries, and the
/// value of the last.
pub(crate) fn sort_entries<T>(
    entries: Vec<(StaticBox, T)>,
) -> (Vec<StaticBox>, Vec<T>, InsertionOrder) {
    let mut entries: Vec<(StaticData, usize, StaticBox, T)> = entries
        .into_iter()
        .enumerate()
        .map(|(inserted, (key, value))| (key.data(), inserted, key, value))
        .collect();
    entries.sort_by(|left, right| left.0.cmp(&right.0));
    let mut sorted: Vec<(StaticData, usize, StaticBox, T)> = Vec::with_capacity(entries.len());
    for entry in entries {
        match sorted.last_mut().filter(|last| last.0 == entry.0) {
            Some(last) => last.3 = entry.3,
            None => sorted.push(entry),
        }
    }
    let mut positions: Vec<usize> = (0..sorted.len()).collect();
    positions.sort_by_key(|&position| sorted[position].1);
    let order = InsertionOrder::of_positions(&positions);
    let (keys, values) = sorted
        .into_iter()
        .map(|(_, _, key, value)| (key, value))
        .unzip();
    (keys, values, order)
}
