//! A cache of functions that are derived from one recorded function.
use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};

/// A cache of derived functions. The key holds the arguments of the derivation. No lock is held during a derivation.
pub(super) struct Cache<K, V>(Mutex<HashMap<K, Arc<V>>>);

impl<K, V> Default for Cache<K, V> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Eq + Hash, V> Cache<K, V> {
    pub(super) fn get(&self, key: K, derive: impl FnOnce(&K) -> V) -> Arc<V> {
        if let Some(known) = self
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(&key)
        {
            return Arc::clone(known);
        }
        let derived = Arc::new(derive(&key));
        Arc::clone(
            self.0
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .entry(key)
                .or_insert(derived),
        )
    }
}
