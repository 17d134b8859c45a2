//! The cell that the handles of a reference share, and its operations for graph functions.

use std::any::Any;
use std::sync::{Arc, PoisonError};

use super::access::{Mutable, Updating};
use crate::base::error::{Access, ReferenceError, TreeError};
use crate::base::identity::NodeIdentity;
use crate::base::kind::LeafKind;
use crate::base::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use crate::base::sync::{RwLock, RwLockWriteGuard};
use crate::contract::arena::Content;
use crate::contract::commit::{Staged, wait_for_claims};
use crate::contract::handles::{AnyCell, AnyContent, AnyReference, address};
use crate::contract::pytree::Pytree;
use crate::contract::unflatten::Unflattener;
use crate::node::shape::OwnedShape;
use crate::references::level::Origin;

/// The state that the handles of a reference share.
pub(crate) struct Cell<T> {
    held: RwLock<Held<T>>,
    /// The address of the content. A call reads this address without a lock to check whether the content has changed.
    address: AtomicUsize,
    pub(super) origin: Origin,
    pub(super) shape: OwnedShape,
    written: AtomicBool,
    /// The number of the thread that wrote the content.
    writer: AtomicU64,
}

/// Returns a number that identifies this thread in the process.
fn this_thread() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    std::thread_local! {
        static NUMBER: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
    }
    if NUMBER.get() == 0 {
        NUMBER.set(NEXT.fetch_add(1, Ordering::Relaxed));
    }
    NUMBER.get()
}

struct Held<T> {
    /// `None` only while the reference is being built.
    content: Option<Arc<T>>,
    /// Whether a call is about to write this cell together with other cells. Other threads wait before they read or
    /// write the cell.
    is_claimed: bool,
}

impl<T> Cell<T> {
    /// Creates the cell of a reference whose value is not built yet.
    pub(crate) fn empty(shape: OwnedShape) -> Self {
        Self {
            held: RwLock::new(Held {
                content: None,
                is_claimed: false,
            }),
            address: AtomicUsize::new(0),
            origin: Origin::here(),
            shape,
            written: AtomicBool::new(false),
            writer: AtomicU64::new(0),
        }
    }

    /// Stores the value of a reference that is being built. No call can claim the reference yet.
    pub(crate) fn fill(&self, value: Arc<T>) {
        self.put(&mut self.lock(), Some(value));
    }

    fn lock(&self) -> RwLockWriteGuard<'_, Held<T>> {
        self.held.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until no call claims the cell, and locks the cell.
    fn unclaimed(&self) -> RwLockWriteGuard<'_, Held<T>> {
        loop {
            let held = self.lock();
            if !held.is_claimed {
                return held;
            }
            drop(held);
            wait_for_claims();
        }
    }

    #[inline]
    fn put(&self, held: &mut Held<T>, content: Option<Arc<T>>) -> Option<Arc<T>> {
        let address = content.as_ref().map_or(0, address);
        self.writer.store(this_thread(), Ordering::Relaxed);
        self.address.store(address, Ordering::Release);
        std::mem::replace(&mut held.content, content)
    }

    pub(super) fn held(&self) -> Option<Arc<T>> {
        let held = self.held.read().unwrap_or_else(PoisonError::into_inner);
        if !held.is_claimed {
            return held.content.clone();
        }
        drop(held);
        self.held_unclaimed()
    }

    /// Waits until no call claims the cell, and returns the content.
    #[cold]
    fn held_unclaimed(&self) -> Option<Arc<T>> {
        self.unclaimed().content.clone()
    }

    /// Returns the kind that the reference was created with, if any.
    pub(super) fn kind(&self) -> Option<LeafKind> {
        self.shape
            .get()
            .field_kind(0)
            .and_then(LeafKind::below_field)
    }

    /// Checks whether the reference may be written by the current code.
    pub(super) fn check_write(&self) -> Result<(), ReferenceError> {
        self.origin.check(Access::Write)?;
        if Updating::is_of(NodeIdentity::of_cell(self)) {
            return Err(ReferenceError::Updating);
        }
        let kind = self.kind();
        if Mutable::accepts(kind) {
            Ok(())
        } else {
            Err(ReferenceError::NotMutable { kind })
        }
    }

    pub(super) fn snapshot(&self) -> Result<Arc<T>, ReferenceError> {
        self.origin.check(Access::Read)?;
        match self.held() {
            Some(content) => Ok(content),
            None => panic!(
                "cannot read a reference while it is being built; do not read it in an impl of `Pytree::unflatten`"
            ),
        }
    }

    /// Replaces the value and returns the old value. The caller must have checked access by `check_write`.
    pub(super) fn write(&self, value: T) -> Option<Arc<T>> {
        let content = Some(Arc::new(value));
        self.written.store(true, Ordering::Relaxed);
        self.put(&mut self.unclaimed(), content)
    }

    /// Replaces the value if it is still `before`, and returns the old value. Otherwise returns `value` as the error.
    /// The caller must have checked access by `check_write`.
    pub(super) fn write_over(&self, before: &Arc<T>, value: T) -> Result<Option<Arc<T>>, Arc<T>> {
        let content = Arc::new(value);
        let mut held = self.unclaimed();
        if held
            .content
            .as_ref()
            .is_some_and(|held| Arc::ptr_eq(held, before))
        {
            self.written.store(true, Ordering::Relaxed);
            return Ok(self.put(&mut held, Some(content)));
        }
        Err(content)
    }
}

impl AnyReference {
    /// Returns the cell, if it holds a `T`.
    pub(crate) fn cell<T: Send + Sync + 'static>(&self) -> Option<Arc<Cell<T>>> {
        self.node().downcast().ok()
    }
}

impl<T: Pytree + Send + Sync> AnyCell for Cell<T> {
    fn identity(self: Arc<Self>) -> NodeIdentity {
        NodeIdentity::of(&self)
    }
    fn content(&self) -> Result<Content, ReferenceError> {
        self.snapshot().map(|content| content as Content)
    }
    fn address(&self) -> usize {
        self.address.load(Ordering::Acquire)
    }
    fn is_written(&self) -> bool {
        self.written.load(Ordering::Relaxed)
    }
    fn is_written_here(&self) -> bool {
        self.writer.load(Ordering::Relaxed) == this_thread()
    }
    fn check_return(&self) -> Result<(), ReferenceError> {
        self.origin.check(Access::Return)
    }
    fn check_write(&self) -> Result<(), ReferenceError> {
        Cell::check_write(self)
    }
    fn claim(&self, is_claimed: bool) {
        self.lock().is_claimed = is_claimed;
    }
    fn write_claimed(&self, content: AnyContent) -> Option<AnyContent> {
        let Ok(content) = content.downcast() else {
            unreachable!(
                "this is a bug in pytree: expected a new value of the type of the reference, found another type; please report it"
            );
        };
        self.written.store(true, Ordering::Relaxed);
        let replaced = self.put(&mut self.lock(), Some(content));
        replaced.map(|replaced| replaced as AnyContent)
    }
    fn stage(self: Arc<Self>, source: &mut Unflattener<'_>) -> Result<Staged, TreeError> {
        let value = T::unflatten(source)?;
        Ok(Staged::new(self, Arc::new(value)))
    }
    fn into_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync> {
        self
    }
}
