//! Identities of shared nodes and references.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

use smallvec::SmallVec;

/// The identity of a shared node or a reference: its memory address. No two nodes have the same identity while both are
/// alive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeIdentity(usize);

impl NodeIdentity {
    /// Returns the identity of the value behind an [`Arc`]. All clones of the `Arc` have the same identity.
    pub(crate) fn of<T: ?Sized>(node: &Arc<T>) -> Self {
        Self(Arc::as_ptr(node).cast::<()>() as usize)
    }
}

impl NodeIdentity {
    /// Returns the identity of a shared value from a borrow of the value.
    pub(crate) fn of_cell<T>(cell: &T) -> Self {
        Self(std::ptr::from_ref(cell).cast::<()>() as usize)
    }
}

/// Hashes addresses by a multiplication. The high bits of the product are well distributed.
#[derive(Clone, Debug, Default)]
struct AddressHasher(u64);

impl Hasher for AddressHasher {
    #[inline]
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_usize(byte.into()));
    }
    #[inline]
    fn write_usize(&mut self, address: usize) {
        let mixed = (self.0 ^ address as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ (mixed >> 32);
    }
}

/// Assigns numbers to identities, in the order in which the identities are inserted.
#[derive(Clone, Debug, Default)]
pub(crate) struct IdentityMap {
    few: SmallVec<[(NodeIdentity, usize); 4]>,
    table: HashMap<NodeIdentity, usize, BuildHasherDefault<AddressHasher>>,
    next: usize,
}

/// From this number of identities on, a table is faster than a scan.
const FEW: usize = 16;

impl IdentityMap {
    /// Gives an identity the next number. If the identity already has a number, returns that number as the error.
    #[inline]
    pub(crate) fn insert(&mut self, identity: NodeIdentity) -> Result<(), usize> {
        if self.table.is_empty() {
            if let Some(number) = self.get(identity) {
                return Err(number);
            }
            self.few.push((identity, self.next));
            if self.few.len() > FEW {
                self.table.reserve(8 * FEW);
                self.table.extend(self.few.drain(..));
            }
        } else {
            match self.table.entry(identity) {
                Entry::Occupied(entry) => return Err(*entry.get()),
                Entry::Vacant(entry) => {
                    entry.insert(self.next);
                }
            }
        }
        self.next += 1;
        Ok(())
    }

    /// Gives an identity the number `number`, unless the identity already has a number.
    pub(crate) fn insert_as(&mut self, identity: NodeIdentity, number: usize) {
        self.next = number;
        let _ = self.insert(identity);
    }

    /// Returns the number of an identity, or `None` if the identity has no number.
    pub(crate) fn get(&self, identity: NodeIdentity) -> Option<usize> {
        if self.table.is_empty() {
            let mut few = self.few.iter();
            return few
                .find(|(seen, _)| *seen == identity)
                .map(|&(_, number)| number);
        }
        self.table.get(&identity).copied()
    }

    /// Returns the next number: the count of all assigned and skipped numbers.
    pub(crate) fn len(&self) -> usize {
        self.next
    }

    /// Skips `count` numbers, for shared nodes of a dynamic tree, which have numbers but no identities.
    pub(crate) fn skip(&mut self, count: usize) {
        self.next += count;
    }
}
