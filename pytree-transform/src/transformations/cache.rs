//! What a compiled function keeps: one entry for each structure, shapes and element types.
//!
//! A call first looks at the newest entries, by a walk over the argument that allocates nothing. Then it looks by
//! the hash of treedef, shapes and element types, so many entries cost no more than few. A bound keeps
//! the entries from growing without end; the one that was used longest ago makes room.

use std::cell::OnceCell;
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::panic::Location;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use pytree_core::crossing::Outcome;
use pytree_core::{References, TreeDef};

use crate::base::array::Array;
use crate::base::dtype::AbstractArray;
use crate::base::error::or_panic;
use crate::executor::Executable;
use crate::jaxpr::run_checked;
use crate::primitives::body::Body;
use crate::primitives::body::program::Slots;
use crate::tensor::Tensor;
use crate::tensor::checks::{self};
use crate::tensor::trace::{axis_length, bound_length};
use crate::tensor::traceable::Traceable;
use crate::transformations::tracing::{Asked, Tracing};

/// How many entries a function keeps by default: as many as JAX does.
pub(crate) const DEFAULT_SIZE: usize = 4096;

/// How many entries are looked at before the hash is computed.
const NEWEST: usize = 4;

/// What a function is compiled for.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Signature {
    pub(crate) treedef: TreeDef,
    pub(crate) infos: Vec<AbstractArray>,
}

impl Signature {
    /// Whether leaves have these shapes and element types.
    fn is_of(&self, leaves: &[&Tensor]) -> bool {
        let mut pairs = leaves.iter().zip(&self.infos);
        leaves.len() == self.infos.len() && pairs.all(|(leaf, info)| leaf.info() == info)
    }

    fn hashed(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.treedef.hash(&mut hasher);
        self.infos.hash(&mut hasher);
        hasher.finish()
    }
}

/// What a function was compiled to for one signature.
pub(crate) struct Entry {
    pub(crate) signature: Arc<Signature>,
    pub(crate) outcome: Outcome,
    pub(crate) body: Arc<Body>,
    /// Traced tensors that the function captured from an enclosing transformation.
    pub(crate) captured: Vec<Tensor>,
    /// What runs the body, once it was called on arrays.
    executable: OnceLock<Arc<Executable>>,
    /// When it was used last, by the cache's clock.
    used: AtomicU64,
}

impl Entry {
    pub(crate) fn new(
        signature: Arc<Signature>,
        outcome: Outcome,
        body: Arc<Body>,
        captured: Vec<Tensor>,
    ) -> Self {
        Self {
            signature,
            outcome,
            body,
            captured,
            executable: OnceLock::new(),
            used: AtomicU64::new(0),
        }
    }

    /// Runs the body on arrays, without the dynamic call that a body makes.
    pub(crate) fn run(&self, operands: Vec<Arc<Array>>) -> Vec<Arc<Array>> {
        if checks::active() {
            return run_checked(&self.body.jaxpr, operands);
        }
        self.executable
            .get_or_init(|| {
                let executable = Arc::new(Executable::optimized(&self.body.jaxpr));
                self.body.share(Arc::clone(&executable) as _);
                executable
            })
            .run_in(&mut Slots::new(), operands)
    }

    /// Whether a call is repeated if another thread writes the references that it has read: the program writes
    /// references, and does nothing else that would happen twice.
    pub(crate) fn is_repeatable(&self) -> bool {
        self.outcome.writes() && !self.body.has_effect
    }

    /// Whether the batch axes that it depends on are bound here, with the same lengths.
    fn is_under_its_batch_axes(&self) -> bool {
        let mut axes = self.body.jaxpr.batch_axes.iter();
        axes.all(|(name, length)| bound_length(name) == Some(*length))
    }

    /// What is being recorded depends on all that this depends on.
    pub(crate) fn depend_on_batch_axes(&self) {
        for (name, _) in &self.body.jaxpr.batch_axes {
            or_panic(axis_length("call a compiled function", name));
        }
    }
}

/// The entries of a function.
pub(crate) struct Cache {
    size: usize,
    clock: AtomicU64,
    traces: AtomicUsize,
    entries: RwLock<Entries>,
    tracing: Tracing,
}

#[derive(Default)]
struct Entries {
    /// From the oldest to the newest.
    newest: Vec<Arc<Entry>>,
    by_hash: HashMap<u64, Vec<Arc<Entry>>>,
    count: usize,
}

impl Cache {
    /// A cache of at most `size` entries, and of at least one.
    pub(crate) fn new(size: usize) -> Self {
        Self {
            size: size.max(1),
            clock: AtomicU64::new(1),
            traces: AtomicUsize::new(0),
            entries: RwLock::default(),
            tracing: Tracing::default(),
        }
    }

    pub(crate) fn size(&self) -> usize {
        self.size
    }

    /// How many times the function was traced.
    pub(crate) fn traces(&self) -> usize {
        self.traces.load(Ordering::Relaxed)
    }

    /// How many entries there are.
    pub(crate) fn len(&self) -> usize {
        self.read(|entries| entries.count)
    }

    /// Forgets all entries.
    pub(crate) fn clear(&self) {
        let forgotten =
            std::mem::take(&mut *self.entries.write().unwrap_or_else(PoisonError::into_inner));
        drop(forgotten);
    }

    fn read<R>(&self, look: impl FnOnce(&Entries) -> R) -> R {
        look(&self.entries.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn used(&self, entry: &Entry) {
        let now = self.clock.fetch_add(1, Ordering::Relaxed);
        entry.used.store(now, Ordering::Relaxed);
    }

    /// The entry for an argument with the argument's leaves and references, if it is among the newest.
    pub(crate) fn newest<A: Traceable>(
        &self,
        argument: &A,
    ) -> Option<(Arc<Entry>, Vec<Tensor>, References)> {
        let newest = Newest::of(self)?;
        let known = |at| {
            let entry = newest.entry(at)?;
            Some((&entry.signature.treedef, &entry.outcome))
        };
        let choose = |at, leaves: &[&Tensor]| newest.with_leaves(at, leaves);
        let (at, leaves, references) = Outcome::take_apart_as_known(argument, known, choose)?;
        let entry = newest.into_entry(at)?;
        self.used(&entry);
        Some((entry, leaves, references))
    }

    fn known(&self, signature: &Signature, hash: u64) -> Option<Arc<Entry>> {
        let alike = self.read(|entries| entries.by_hash.get(&hash).cloned())?;
        let entry = alike
            .into_iter()
            .find(|entry| *entry.signature == *signature && entry.is_under_its_batch_axes())?;
        self.used(&entry);
        Some(entry)
    }

    /// The entry for a signature; made by `trace` if there is none. Another thread that asks for it meanwhile
    /// waits, so that the function is traced once. Threads that would wait for each other trace it twice.
    ///
    /// # Panics
    /// If `trace` asks for the same signature.
    pub(crate) fn get_or_trace(
        &self,
        signature: Signature,
        line: &Location<'_>,
        trace: impl FnOnce(Arc<Signature>) -> Entry,
    ) -> Arc<Entry> {
        let hash = signature.hashed();
        let signature = Arc::new(signature);
        let asked = self
            .tracing
            .ask((&signature, hash), line, || self.known(&signature, hash));
        // No lock is held while the function is traced: it may call others or fail.
        let _begun = match asked {
            Asked::Known(entry) => return entry,
            Asked::Trace(begun) => begun,
        };
        self.traces.fetch_add(1, Ordering::Relaxed);
        let entry = Arc::new(trace(signature));
        // Another thread may have had to trace it, too.
        if self.known(&entry.signature, hash).is_none() {
            self.insert(hash, Arc::clone(&entry));
        }
        entry
    }

    fn insert(&self, hash: u64, entry: Arc<Entry>) {
        self.used(&entry);
        let mut entries = self.entries.write().unwrap_or_else(PoisonError::into_inner);
        let mut removed = Vec::new();
        while entries.count >= self.size {
            removed.extend(entries.remove_oldest());
        }
        if entries.newest.len() >= NEWEST {
            entries.newest.remove(0);
        }
        entries.newest.push(Arc::clone(&entry));
        entries.by_hash.entry(hash).or_default().push(entry);
        entries.count += 1;
        // What an entry holds is dropped without the lock.
        drop(entries);
        drop(removed);
    }
}

/// The newest entries of a cache, the newest first, without those whose batch axes are not bound here.
///
/// They are handles: comparing runs code of the user, for which no lock is held. Most calls look at the first only; the
/// others are copied from the cache when one of them is looked at. If another thread changes the list meanwhile, an entry
/// may be missed, which is then found by its hash.
struct Newest<'c> {
    cache: &'c Cache,
    first: Arc<Entry>,
    /// The place of the first in the list.
    place: usize,
    others: OnceCell<Vec<Arc<Entry>>>,
}

impl<'c> Newest<'c> {
    fn of(cache: &'c Cache) -> Option<Self> {
        let at = |place| cache.read(|entries| entries.newest.iter().rev().nth(place).cloned());
        let mut places = (0..NEWEST).map_while(|place| Some((place, at(place)?)));
        let (place, first) = places.find(|(_, entry)| entry.is_under_its_batch_axes())?;
        Some(Self {
            cache,
            first,
            place,
            others: OnceCell::new(),
        })
    }

    fn others(&self) -> &[Arc<Entry>] {
        self.others.get_or_init(|| {
            let older = |entries: &Entries| -> Vec<Arc<Entry>> {
                let newest = entries.newest.iter().rev();
                newest.skip(self.place + 1).cloned().collect()
            };
            let mut others = self.cache.read(older);
            others.retain(|entry| entry.is_under_its_batch_axes());
            others
        })
    }

    fn entry(&self, at: usize) -> Option<&Entry> {
        match at.checked_sub(1) {
            None => Some(&self.first),
            Some(at) => self.others().get(at).map(|entry| &**entry),
        }
    }

    /// The entry for leaves in the structure of the entry at a position.
    #[inline]
    fn with_leaves(&self, at: usize, leaves: &[&Tensor]) -> Option<usize> {
        if at == 0 && self.first.signature.is_of(leaves) {
            return Some(at);
        }
        self.older_with_leaves(at, leaves)
    }

    /// As [`with_leaves`](Self::with_leaves), where it is not the first one. Entries before the position have other
    /// structures.
    #[cold]
    fn older_with_leaves(&self, at: usize, leaves: &[&Tensor]) -> Option<usize> {
        let treedef = &self.entry(at)?.signature.treedef;
        (at..NEWEST).find(|&other| {
            let signature = self.entry(other).map(|entry| &*entry.signature);
            signature.is_some_and(|signature| {
                signature.is_of(leaves) && (other == at || signature.treedef == *treedef)
            })
        })
    }

    fn into_entry(mut self, at: usize) -> Option<Arc<Entry>> {
        match at.checked_sub(1) {
            None => Some(self.first),
            Some(at) => Some(self.others.get_mut()?.swap_remove(at)),
        }
    }
}

impl Entries {
    /// Removes the entry that was used longest ago.
    fn remove_oldest(&mut self) -> Option<Arc<Entry>> {
        let used = |entry: &Arc<Entry>| entry.used.load(Ordering::Relaxed);
        let oldest = self
            .by_hash
            .values()
            .flatten()
            .min_by_key(|entry| used(entry));
        let Some(oldest) = oldest.map(Arc::clone) else {
            self.count = 0;
            return None;
        };
        let is_other = |entry: &Arc<Entry>| !Arc::ptr_eq(entry, &oldest);
        self.by_hash.retain(|_, entries| {
            entries.retain(is_other);
            !entries.is_empty()
        });
        self.newest.retain(is_other);
        self.count -= 1;
        Some(oldest)
    }
}
