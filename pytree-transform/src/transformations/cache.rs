//! What a compiled function keeps: one entry for each structure, shapes and element types.
//!
//! A call first looks at the newest entries, by a walk over the argument that allocates nothing. Then it looks by
//! the hash of treedef, shapes and element types, so many entries cost no more than few. A bound keeps
//! the entries from growing without end; the one that was used longest ago makes room.

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
        // One by one: comparing runs code of the user, for which no lock is held. If another thread changes the list
        // meanwhile, an entry may be missed here, which is then found by its hash.
        for position in 0..NEWEST {
            let entry = self.read(|entries| entries.newest.iter().rev().nth(position).cloned())?;
            if !entry.is_under_its_batch_axes() {
                continue;
            }
            let infos = &entry.signature.infos;
            let fit = |leaves: &[&Tensor]| {
                let mut pairs = leaves.iter().zip(infos);
                pairs.all(|(leaf, info)| leaf.info() == info)
            };
            let treedef = &entry.signature.treedef;
            let found = entry.outcome.take_apart_as(argument, treedef, fit);
            if let Some((leaves, references)) = found {
                self.used(&entry);
                return Some((entry, leaves, references));
            }
        }
        None
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
