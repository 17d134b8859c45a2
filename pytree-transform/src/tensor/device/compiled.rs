//! The compiled operations of a device.

use std::hash::{BuildHasher, Hash};
use std::sync::{Arc, Mutex, PoisonError};

use hashbrown::DefaultHashBuilder;
use pytree_kernels::base::dtype::AbstractArray;
use smallvec::SmallVec;

use super::mesh::Layout;
use super::slot::Slot;
use super::structure::{ByStructure, Structure};
use crate::tensor::handle::Tensor;
use crate::tensor::primitive::Primitive;

/// The maximum number of compiled operations of a device. The least recently used operation is evicted first.
const MOST_OPERATIONS: usize = 4096;

/// The compiled operations of a device.
#[derive(Debug, Default)]
pub(super) struct Operations(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    /// The operations by the hash of their keys.
    by_hash: hashbrown::HashTable<Operation>,
    hasher: DefaultHashBuilder,
    /// The number of lookups so far.
    clock: u64,
}

#[derive(Debug)]
struct Operation {
    hash: u64,
    structure: Structure,
    operands: SmallVec<[AbstractArray; 2]>,
    layout: Layout,
    positions: SmallVec<[usize; 4]>,
    slot: Arc<Slot>,
    used: u64,
}

impl Operations {
    /// Returns the slot for the program of an operation. The last operands are the tensors that the bodies of the
    /// primitive have captured. For each constant of the bodies, `positions` has the index of its tensor among these
    /// operands.
    pub(super) fn of(
        &self,
        primitive: &dyn Primitive,
        (operands, layout): (&[&Tensor], &Layout),
        positions: &[usize],
    ) -> Arc<Slot> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.clock += 1;
        let now = known.clock;
        let infos: SmallVec<[&AbstractArray; 4]> = operands.iter().map(|it| it.info()).collect();
        let hash = {
            let key = Key(ByStructure(primitive), &infos, layout, positions);
            known.hasher.hash_one(key)
        };
        let is_same = |operation: &Operation| {
            operation.operands.iter().eq(infos.iter().copied())
                && operation.layout == *layout
                && *operation.positions == *positions
                && operation.structure.is_of(primitive)
        };
        if let Some(operation) = known.by_hash.find_mut(hash, is_same) {
            operation.used = now;
            return Arc::clone(&operation.slot);
        }
        let removed = known.remove_oldest();
        let slot = Arc::default();
        let operation = Operation {
            hash,
            structure: Structure::of(primitive),
            operands: infos.into_iter().cloned().collect(),
            layout: layout.clone(),
            positions: positions.into(),
            slot: Arc::clone(&slot),
            used: now,
        };
        known.by_hash.insert_unique(hash, operation, |it| it.hash);
        drop(known);
        // Dropping a program runs code of the engine, so release the lock first.
        drop(removed);
        slot
    }
}

/// The key of an operation: the parameters, the equations of the bodies, the shapes and dtypes of the operands, their
/// shardings, and for each constant in the bodies its operand.
#[derive(Hash)]
struct Key<'a>(
    ByStructure<'a>,
    &'a [&'a AbstractArray],
    &'a Layout,
    &'a [usize],
);

impl Known {
    /// Removes the least recently used operation if the cache is full.
    fn remove_oldest(&mut self) -> Option<Operation> {
        if self.by_hash.len() < MOST_OPERATIONS {
            return None;
        }
        let oldest = self.by_hash.iter().min_by_key(|operation| operation.used)?;
        let (hash, used) = (oldest.hash, oldest.used);
        let found = self.by_hash.find_entry(hash, |it| it.used == used).ok()?;
        Some(found.remove().0)
    }
}
