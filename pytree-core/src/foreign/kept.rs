//! Settings that layers return by value.

use std::any::Any;
use std::fmt;
use std::sync::{Mutex, PoisonError};

use crate::node::statics;

/// Returns a setting that lives as long as the program, because a treedef is compared with settings where they are. Each setting is stored
/// once, and a program has few different ones.
pub(super) fn kept<T: PartialEq + fmt::Debug + Send + Sync + 'static>(value: T) -> &'static T {
    static KEPT: Mutex<Vec<&'static (dyn Any + Send + Sync)>> = Mutex::new(Vec::new());
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    let mut same = kept
        .iter()
        .filter(|known| statics::eq::<T>(**known, &value));
    if let Some(known) = same.find_map(|known| known.downcast_ref()) {
        return known;
    }
    let new: &'static T = Box::leak(Box::new(value));
    kept.push(new);
    new
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_settings_are_stored_once() {
        for setting in [(f64::NAN, true), (0.5, true)] {
            assert!(std::ptr::eq(kept(setting), kept(setting)));
        }
        assert_eq!(kept((0.5, false)), &(0.5, false));
        assert_eq!(kept(3_usize), &3);
    }
}
