//! Structures of values that were flattened before.
//!
//! A model keeps its structure from step to step. So each thread remembers the structures that it built last, one for
//! each type, and compares the next value of the type with the structure. A remembered structure is not kept alive: it
//! is found only while a treedef or a part of it is in use somewhere.

use std::any::TypeId;
use std::cell::RefCell;

use crate::base::error::TreeError;
use crate::contract::arena::Arena;
use crate::contract::flatten::{Flatten, Sharing};
use crate::contract::matching::Match;
use crate::contract::pytree::Pytree;
use crate::treedef::{TreeDef, WeakTreeDef};

/// The number of types whose structures a thread remembers.
const TYPES: usize = 8;

/// The structures that were built last, by the types of their values.
struct Recent {
    structures: Vec<(TypeId, WeakTreeDef)>,
    /// The position of the entry that the next new type replaces.
    oldest: usize,
}

thread_local! {
    static RECENT: RefCell<Recent> = const {
        RefCell::new(Recent { structures: Vec::new(), oldest: 0 })
    };
}

impl Recent {
    fn find(&self, type_: TypeId) -> Option<TreeDef> {
        let mut structures = self.structures.iter();
        let (_, structure) = structures.find(|(of, _)| *of == type_)?;
        structure.upgrade()
    }

    fn insert(&mut self, type_: TypeId, structure: WeakTreeDef) {
        if let Some(entry) = self.structures.iter_mut().find(|(of, _)| *of == type_) {
            entry.1 = structure;
        } else if self.structures.len() < TYPES {
            self.structures.push((type_, structure));
        } else {
            self.structures[self.oldest] = (type_, structure);
            self.oldest = (self.oldest + 1) % TYPES;
        }
    }
}

/// Returns the structure of a value without shared nodes and references.
#[inline]
pub(crate) fn structure<T: Pytree>(value: &T) -> Result<TreeDef, TreeError> {
    structure_of(value, TypeId::of::<T>(), T::__is_uniform())
}

/// Returns the structure of a value of the type `type_`. If `is_uniform` is true, all values of the type have the same
/// structure.
fn structure_of(value: &dyn Pytree, type_: TypeId, is_uniform: bool) -> Result<TreeDef, TreeError> {
    let recent = RECENT.try_with(|recent| recent.borrow().find(type_));
    if let Ok(Some(treedef)) = recent
        && (is_uniform || Match::again(&treedef).run(value))
    {
        return Ok(treedef);
    }
    let arena = Arena::default();
    let treedef = Flatten::structure(Sharing::Preserve)
        .with_arena(&arena)
        .run(value)?;
    // While the thread ends, its values may be flattened without this memory.
    let _ = RECENT.try_with(|recent| {
        recent.borrow_mut().insert(type_, treedef.downgrade());
    });
    Ok(treedef)
}
