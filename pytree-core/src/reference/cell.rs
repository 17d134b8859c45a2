//! What the handles of a reference share, and what graph functions need of it whatever it holds.

use std::any::Any;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use super::access::{Access, Mutable, ReferenceError, Updating};
use crate::error::TreeError;
use crate::identity::Identity;
use crate::kept::Content;
use crate::kind::LeafKind;
use crate::level::Origin;
use crate::pytree::Pytree;
use crate::shape::NodeShape;
use crate::unflatten::Unflattener;

/// What the handles of a reference share.
pub(crate) struct Cell<T> {
    /// Nothing only while the reference is being built.
    pub(super) content: RwLock<Option<Arc<T>>>,
    pub(super) origin: Origin,
    pub(super) shape: &'static NodeShape,
    pub(super) written: AtomicBool,
}

impl<T> Cell<T> {
    /// A reference that is being built.
    pub(crate) fn empty(shape: &'static NodeShape) -> Self {
        Self {
            content: RwLock::new(None),
            origin: Origin::here(),
            shape,
            written: AtomicBool::new(false),
        }
    }

    /// Puts in the value of a reference that is being built.
    pub(crate) fn fill(&self, value: T) {
        self.replace(Some(Arc::new(value)));
    }

    pub(super) fn replace(&self, content: Option<Arc<T>>) -> Option<Arc<T>> {
        let mut held = self.content.write().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut *held, content)
    }

    pub(super) fn held(&self) -> Option<Arc<T>> {
        let held = self.content.read().unwrap_or_else(PoisonError::into_inner);
        held.clone()
    }

    /// The kind that the reference itself says, if it does.
    pub(super) fn kind(&self) -> Option<LeafKind> {
        let field = self.shape.fields.first()?;
        field.kind.and_then(LeafKind::of_field)
    }

    /// Whether it may be written here.
    pub(super) fn check_write(&self) -> Result<(), ReferenceError> {
        self.origin.check(Access::Write)?;
        if Updating::is_of(Identity::of_cell(self)) {
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
                "a reference is read while it is being built; an impl of `Pytree` reads what it unflattens"
            ),
        }
    }

    /// Replaces the value, which the caller may do.
    pub(super) fn write(&self, value: T) -> Option<Arc<T>> {
        self.written.store(true, Ordering::Relaxed);
        self.replace(Some(Arc::new(value)))
    }
}

/// What graph functions need of a reference, whatever it holds.
pub(crate) trait AnyCell: Send + Sync {
    fn identity(self: Arc<Self>) -> Identity;
    fn content(&self) -> Result<Content, ReferenceError>;
    fn is_written(&self) -> bool;
    fn check_return(&self) -> Result<(), ReferenceError>;
    fn check_write(&self) -> Result<(), ReferenceError>;
    /// Reads a value that is to be written, which [`Staged::write`] does.
    fn stage(self: Arc<Self>, source: &mut Unflattener<'_>) -> Result<Staged, TreeError>;
    fn into_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync>;
}

impl<T: Pytree + Send + Sync> AnyCell for Cell<T> {
    fn identity(self: Arc<Self>) -> Identity {
        Identity::of(&self)
    }
    fn content(&self) -> Result<Content, ReferenceError> {
        self.snapshot().map(|content| content as Content)
    }
    fn is_written(&self) -> bool {
        self.written.load(Ordering::Relaxed)
    }
    fn check_return(&self) -> Result<(), ReferenceError> {
        self.origin.check(Access::Return)
    }
    fn check_write(&self) -> Result<(), ReferenceError> {
        Cell::check_write(self)
    }
    fn stage(self: Arc<Self>, source: &mut Unflattener<'_>) -> Result<Staged, TreeError> {
        let value = T::unflatten(source)?;
        Ok(Staged::new(self, value))
    }
    fn into_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync> {
        self
    }
}

/// A value that is written to a reference once everything else is right.
pub(crate) struct Staged {
    cell: Arc<dyn AnyCell>,
    write: Box<dyn FnOnce()>,
}

impl Staged {
    pub(crate) fn new<T: Pytree + Send + Sync>(cell: Arc<Cell<T>>, value: T) -> Self {
        let target = Arc::clone(&cell);
        Self {
            cell,
            write: Box::new(move || drop(target.write(value))),
        }
    }

    /// Writes all values, or none.
    ///
    /// # Errors
    /// [`TreeError::Reference`] if one of the references may not be written here.
    pub(crate) fn write_all(staged: Vec<Self>) -> Result<(), TreeError> {
        for staged in &staged {
            staged.cell.check_write()?;
        }
        staged.into_iter().for_each(|staged| (staged.write)());
        Ok(())
    }
}
