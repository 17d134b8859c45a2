//! The cache of a compiled function. The cache has one entry for each signature: the structure, shapes and dtypes of
//! the argument.
//!
//! A call first compares its argument with the newest entries, by a walk that allocates nothing. If no entry matches,
//! the call looks up the hash of the signature, so its time does not grow with the number of entries. The number of
//! entries is limited. The least recently used entry is evicted.
//!
//! No lock is held while code of the user runs: while a function is traced, an argument is visited or static values are compared. A
//! comparison works on handles of entries, and looks again if the cache has changed meanwhile. Creations such as `zeros` are staged
//! under `jit`, because otherwise they would become stored constants.

use std::cell::OnceCell;
use std::collections::HashMap;
use std::sync::{Arc, OnceLock, PoisonError};

use pytree_core::boundary::{Outcome, References, Visited};
use pytree_kernels::base::array::Array;

use super::signature::Signature;
use crate::base::error::or_panic;
use crate::base::sync::RwLock;
use crate::base::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use crate::executor::Executable;
use crate::jaxpr::run_checked;
use crate::primitives::body::Body;
use crate::primitives::body::program::Slots;
use crate::tensor::device::{self, Device};
use crate::tensor::stablehlo::StableHlo;
use crate::tensor::trace::{axis_length, bound_length};
use crate::tensor::{Tensor, checks};
use crate::transformations::dropped::Dropped;
use crate::transformations::function::Origin;
use crate::transformations::tracing::{Asked, Tracing};

/// The default maximum number of entries of a cache, as in JAX.
pub(crate) const DEFAULT_SIZE: usize = 4096;

/// The number of newest entries that a call compares before it computes the hash.
const NEWEST: usize = 4;

/// Releases the operands of a program, which the caller lends: replaces the leaves of its arguments by placeholders, which are the leaves
/// that remain if the program fails later.
pub(crate) type Release<'a> = &'a mut dyn FnMut(Vec<Tensor>);

/// An entry of the cache: the compiled program of a function for one signature.
pub(crate) struct Entry {
    pub(crate) signature: Arc<Signature>,
    pub(crate) outcome: Outcome,
    pub(crate) body: Arc<Body>,
    /// The traced tensors that the function captured from an enclosing transformation.
    pub(crate) captured: Vec<Tensor>,
    /// Whether only one call can use the entry. If the function read a captured reference, the value of this reference
    /// may differ in the next call.
    pub(crate) is_used_once: bool,
    /// The states of the argument that the function changes without returning them.
    dropped: Option<Box<Dropped>>,
    /// The compiled program of the body, built when the entry is first called with arrays.
    executable: OnceLock<Arc<Executable>>,
    /// The compiled programs for devices other than the host.
    pub(crate) programs: device::Slots,
    /// The devices of the tensors that the function has captured.
    pub(crate) devices: Vec<Device>,
    /// The value of the cache's `clock` when the entry was last used.
    used: AtomicU64,
}

impl Entry {
    pub(crate) fn new(
        signature: Arc<Signature>,
        outcome: Outcome,
        body: Arc<Body>,
        captured: Vec<Tensor>,
        dropped: Option<Box<Dropped>>,
    ) -> Self {
        Self {
            devices: device::of_jaxpr(&body.jaxpr),
            signature,
            outcome,
            body,
            captured,
            dropped,
            is_used_once: false,
            executable: OnceLock::new(),
            programs: device::Slots::default(),
            used: AtomicU64::new(0),
        }
    }

    /// Evaluates the recorded function on concrete arrays directly, not operation by operation through `bind`. If the caller lends the
    /// operands, it passes the function that releases them.
    pub(crate) fn run(
        &self,
        operands: Vec<Arc<Array>>,
        release: Option<Release<'_>>,
    ) -> Vec<Arc<Array>> {
        if checks::active() {
            return run_checked(&self.body.jaxpr, operands);
        }
        let executable = self.executable.get_or_init(|| {
            let executable = Arc::new(Executable::optimized(&self.body.jaxpr));
            self.body.share(Arc::clone(&executable) as _);
            executable
        });
        let Some(release) = release else {
            return executable.run_in(&mut Slots::new(), operands);
        };
        let placeholders = vec![Tensor::from(false); operands.len()];
        executable.run_lent(operands, &mut || release(placeholders.clone()))
    }

    /// Returns the recorded function as a module of StableHLO, whose inputs and outputs have the names of the leaves.
    #[track_caller]
    pub(crate) fn stablehlo(&self) -> StableHlo {
        let module = self.body.jaxpr.to_stablehlo();
        module.with_names_of(&self.signature.treedef, self.outcome.whole())
    }

    /// Warns if the function changes states without returning them, and the first two calls received the same states.
    #[inline]
    pub(crate) fn check_states(&self, origin: Origin, leaves: &[Tensor]) {
        if let Some(dropped) = &self.dropped {
            dropped.check(origin, leaves);
        }
    }

    /// Returns whether a call may be repeated if another thread has written the references that the call read. A
    /// program may be repeated if it writes references and has no other effect. A program with another effect would,
    /// for instance, print twice.
    pub(crate) fn is_repeatable(&self) -> bool {
        self.outcome.writes() && !self.body.has_effect
    }

    /// Returns whether enclosing `vmap`s bind all batch axes on which the entry depends, with the recorded lengths.
    fn is_under_its_batch_axes(&self) -> bool {
        let mut axes = self.body.jaxpr.batch_axes.iter();
        axes.all(|(name, length)| bound_length(name) == Some(*length))
    }

    /// Marks the functions that are being recorded as dependent on the batch axes of this entry.
    pub(crate) fn depend_on_batch_axes(&self) {
        for (name, _) in &self.body.jaxpr.batch_axes {
            or_panic(axis_length("call a compiled function", name));
        }
    }
}

/// The cached entries of one function.
pub(crate) struct Cache {
    size: usize,
    clock: AtomicU64,
    traces: AtomicUsize,
    entries: RwLock<Entries>,
    tracing: Tracing,
}

#[derive(Default)]
struct Entries {
    /// At most [`NEWEST`] entries, from the oldest to the newest.
    newest: Vec<Arc<Entry>>,
    by_hash: HashMap<u64, Vec<Arc<Entry>>>,
    count: usize,
}

impl Cache {
    /// Creates a cache of at most `size` entries. A `size` of 0 counts as 1.
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

    /// Counts a trace that has succeeded.
    pub(crate) fn traced(&self) {
        self.traces.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns how many times the function was traced without a failure.
    pub(crate) fn traces(&self) -> usize {
        self.traces.load(Ordering::Relaxed)
    }

    /// Returns how many times the function was called. The count includes the current call if this call traces the
    /// function.
    pub(crate) fn calls(&self) -> u64 {
        self.clock.load(Ordering::Relaxed)
    }

    /// Returns the number of entries.
    pub(crate) fn len(&self) -> usize {
        self.read(|entries| entries.count)
    }

    /// Removes all entries.
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

    /// Returns the entry for an argument if the entry is among the newest entries. Also returns the leaves and
    /// references of the argument.
    pub(crate) fn newest(
        &self,
        argument: &dyn Visited<Tensor>,
    ) -> Option<(Arc<Entry>, Vec<Tensor>, References)> {
        let newest = Newest::of(self)?;
        let known = |at: usize| {
            let entry = newest.entry(at)?;
            Some((&entry.signature.treedef, &entry.outcome))
        };
        let choose = |at: usize, leaves: &[&Tensor]| newest.with_leaves(at, leaves);
        let (at, leaves, references) = Outcome::flatten_argument(argument, &known, &choose)?;
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

    /// Returns the entry for a signature. On a cache miss, `trace` creates the entry. Other threads with the same
    /// signature wait for this entry, so that the function is traced only once. If threads would wait for each other
    /// forever, each of them traces the function.
    ///
    /// # Errors
    /// Returns the error of `trace`. In this case no entry is created, and the next call with this signature traces again: only
    /// the function itself can make another error of its type, or panic at the user's line, and its failure may have passed.
    ///
    /// # Panics
    /// If `trace` requests the same signature.
    pub(crate) fn get_or_trace<E>(
        &self,
        signature: Signature,
        origin: Origin,
        trace: &dyn Fn(Arc<Signature>) -> Result<Entry, E>,
    ) -> Result<Arc<Entry>, E> {
        let hash = signature.hashed();
        let signature = Arc::new(signature);
        let asked = self
            .tracing
            .ask((&signature, hash), origin, || self.known(&signature, hash));
        // No lock is held while the function is traced, because the function may call other compiled functions, or
        // panic.
        let _begun = match asked {
            Asked::Known(entry) => return Ok(entry),
            Asked::Trace(begun) => begun,
        };
        let entry = Arc::new(trace(signature)?);
        // Another thread may have traced the same signature in the meantime, because a thread does not wait if the wait
        // would be a deadlock.
        if !entry.is_used_once && self.known(&entry.signature, hash).is_none() {
            self.insert(hash, Arc::clone(&entry));
        }
        Ok(entry)
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
        // Dropping an entry may run code of the user, so the lock is released first.
        drop(entries);
        drop(removed);
    }
}

/// The newest entries of a cache whose batch axes are bound by enclosing `vmap`s, newest first.
///
/// The entries are cloned `Arc`s, because a comparison runs code of the user, and the cache must not be locked during
/// such code. Most calls compare only the first entry, so the other entries are cloned only when they are needed. If
/// another thread changes the cache in between, an entry may be missing in this list. The lookup by hash still finds
/// the entry.
struct Newest<'c> {
    cache: &'c Cache,
    first: Arc<Entry>,
    /// The position of the entry `first` in the cache's list, counted from the newest entry.
    place: usize,
    others: OnceCell<Vec<Arc<Entry>>>,
}

impl<'c> Newest<'c> {
    #[inline]
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

    #[inline]
    fn entry(&self, at: usize) -> Option<&Entry> {
        match at.checked_sub(1) {
            None => Some(&self.first),
            Some(at) => self.others().get(at).map(|entry| &**entry),
        }
    }

    /// Searches the entries that have the same structure as the entry at `at`. Returns the position of the entry that
    /// has the shapes and dtypes of `leaves`.
    #[inline]
    fn with_leaves(&self, at: usize, leaves: &[&Tensor]) -> Option<usize> {
        if at == 0 && self.first.signature.is_of(leaves) {
            return Some(at);
        }
        self.older_with_leaves(at, leaves)
    }

    /// Continues the search of [`with_leaves`](Self::with_leaves) in the entries after the first, beginning at position
    /// `at`. The entries before `at` have other structures.
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

    #[inline]
    fn into_entry(mut self, at: usize) -> Option<Arc<Entry>> {
        match at.checked_sub(1) {
            None => Some(self.first),
            Some(at) => Some(self.others.get_mut()?.swap_remove(at)),
        }
    }
}

impl Entries {
    /// Removes the least recently used entry.
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
