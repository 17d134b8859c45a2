//! Mutable references: a value at several places that is written through any of them.
//!
//! A [`Ref`] gives values out and takes values in; no guard is ever held, so that threads can't block each other and a
//! value can be replaced while it is in use. It is a node of a tree, which holds its value. Graph operations visit it
//! once, and transformations carry what is written to it out again.

use std::any::Any;
use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{self, Arc, OnceLock, PoisonError, RwLock};

use thiserror::Error;

use crate::error::TreeError;
use crate::identity::{Identity, IdentityMap};
use crate::kept::Content;
use crate::kind::{Collection, CollectionId, FieldKind, LeafKind};
use crate::level::Origin;
use crate::pytree::{Pytree, ReferenceNode, SharedVisit, Visitor};
use crate::shape::{self, NodeKind, NodeShape};
use crate::unflatten::Unflattener;

/// What is done with a reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Its value is asked for.
    Read,
    /// Its value is replaced.
    Write,
    /// It is part of what a function gives.
    Return,
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Return => "return",
        })
    }
}

/// A reference is used at a trace level where it may not be.
#[derive(Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ReferenceError {
    /// It was made outside of the transformation in which it is used.
    #[error(
        "cannot {access} a reference inside of `{transformation}` that was made outside of it: {}; pass it as part of the argument{}",
        match .access {
            Access::Read => "its value would become a constant of what is recorded",
            Access::Write => "what is traced would leak out",
            Access::Return => "another one would come out",
        },
        match .access {
            Access::Read | Access::Return => "",
            Access::Write => ", and what is written to it comes out",
        }
    )]
    Captured {
        /// What was tried.
        access: Access,
        /// The transformation.
        transformation: &'static str,
    },
    /// References of its kind are not to be written at the moment.
    #[error(
        "cannot write a reference of kind {}: only others are mutable here; write it outside of `refs::with_mutable`, or let that accept its kind",
        .kind.map_or_else(|| "none".to_owned(), |kind| kind.to_string())
    )]
    NotMutable {
        /// The kind that the reference says.
        kind: Option<LeafKind>,
    },
    /// It was made inside of a transformation that is over, or that runs on another thread.
    #[error(
        "cannot {access} a reference that was made inside of `{transformation}`, which is over or runs on another thread; return it as part of the result, where it becomes one that lasts"
    )]
    Over {
        /// What was tried.
        access: Access,
        /// The transformation.
        transformation: &'static str,
    },
}

impl fmt::Debug for ReferenceError {
    /// As it displays: this is what `unwrap` and a program print that returns it from `main`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A mutable reference to a value that stands at several places: what is written through one handle is read through
/// all.
///
/// Cloning makes another handle of the same reference. It can be in a module, where the field says of what kind it is,
/// or say itself by [`param`](Self::param) or [`state`](Self::state). Transformations pass it through: inside, the
/// argument has a reference that can be read and written, and afterwards what was written is in the one outside.
/// A function that only captures it can't write it, and where it is recorded it can't read it either: that is an error.
///
/// Handles are sent to other threads and used from them. No lock is held while a value is made from another.
/// A reference that holds itself keeps itself alive: one of the edges of such a cycle is better a [`WeakRef`].
///
/// # Examples
/// ```
/// use pytree_core::{Ref, graph};
/// let count = Ref::new(1);
/// let pair = (count.clone(), count);
/// pair.0.set(5);
/// assert_eq!(pair.1.get(), 5);
/// assert_eq!(graph::flatten::<i32, _>(&pair).0, [5]);
/// ```
pub struct Ref<T>(pub(crate) Arc<Cell<T>>);

/// What the handles of a reference share.
pub(crate) struct Cell<T> {
    /// Nothing only while the reference is being built.
    content: RwLock<Option<Arc<T>>>,
    origin: Origin,
    shape: &'static NodeShape,
    written: AtomicBool,
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

    fn replace(&self, content: Option<Arc<T>>) -> Option<Arc<T>> {
        let mut held = self.content.write().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut *held, content)
    }

    fn held(&self) -> Option<Arc<T>> {
        let held = self.content.read().unwrap_or_else(PoisonError::into_inner);
        held.clone()
    }

    /// The kind that the reference itself says, if it does.
    fn kind(&self) -> Option<LeafKind> {
        let field = self.shape.fields.first()?;
        field.kind.and_then(LeafKind::of_field)
    }

    /// Whether it may be written here.
    fn check_write(&self) -> Result<(), ReferenceError> {
        self.origin.check(Access::Write)?;
        let kind = self.kind();
        let is_mutable = MUTABLE.with_borrow(|all| all.iter().all(|accepts| accepts(kind)));
        if is_mutable {
            Ok(())
        } else {
            Err(ReferenceError::NotMutable { kind })
        }
    }

    fn snapshot(&self) -> Result<Arc<T>, ReferenceError> {
        self.origin.check(Access::Read)?;
        match self.held() {
            Some(content) => Ok(content),
            None => panic!(
                "a reference is read while it is being built; an impl of `Pytree` reads what it unflattens"
            ),
        }
    }

    /// Replaces the value, which the caller may do.
    fn write(&self, value: T) -> Option<Arc<T>> {
        self.written.store(true, Ordering::Relaxed);
        self.replace(Some(Arc::new(value)))
    }
}

impl<T> Ref<T> {
    /// A reference to a value. Its leaves have the kind that the field has which holds the reference, if any.
    pub fn new(value: T) -> Self {
        Self::with_shape(value, &shape::REFERENCE)
    }

    /// A reference to a parameter: its leaves are of kind param wherever no field says otherwise.
    pub fn param(value: T) -> Self {
        Self::with_shape(value, shape_of_kind(FieldKind::Param))
    }

    /// A reference to a state of the collection `C`: its leaves are of that kind wherever no field says otherwise.
    ///
    /// # Examples
    /// ```
    /// use pytree_core::kind::{BatchStat, CollectionId};
    /// use pytree_core::{LeafKind, Ref, graph};
    /// let refs = (Ref::param(1.0_f32), Ref::state::<BatchStat>(2.0_f32));
    /// let kinds = graph::structure(&refs).leaf_kinds();
    /// assert_eq!(kinds, [Some(LeafKind::Param), Some(LeafKind::State(CollectionId::of::<BatchStat>()))]);
    /// ```
    pub fn state<C: Collection>(value: T) -> Self {
        let kind = FieldKind::State(CollectionId::of::<C>());
        Self::with_shape(value, shape_of_kind(kind))
    }

    fn with_shape(value: T, shape: &'static NodeShape) -> Self {
        let cell = Cell::empty(shape);
        cell.fill(value);
        Self(Arc::new(cell))
    }

    /// The kind that the reference itself says, if it does.
    pub fn kind(&self) -> Option<LeafKind> {
        self.0.kind()
    }

    /// The value.
    ///
    /// # Panics
    /// As [`try_get`](Self::try_get) fails.
    #[track_caller]
    pub fn get(&self) -> T
    where
        T: Clone,
    {
        allowed(self.try_get())
    }

    /// The value.
    ///
    /// # Errors
    /// [`ReferenceError`] if the reference was captured by a function that is recorded, or made inside of a
    /// transformation that is over or runs on another thread.
    pub fn try_get(&self) -> Result<T, ReferenceError>
    where
        T: Clone,
    {
        self.0.snapshot().map(|content| (*content).clone())
    }

    /// Replaces the value.
    ///
    /// # Panics
    /// As [`try_set`](Self::try_set) fails.
    #[track_caller]
    pub fn set(&self, value: T) {
        allowed(self.try_set(value));
    }

    /// Replaces the value.
    ///
    /// # Errors
    /// [`ReferenceError`] if the reference was made outside of the transformation that runs, or inside of one that is
    /// over or runs on another thread.
    pub fn try_set(&self, value: T) -> Result<(), ReferenceError> {
        self.0.check_write()?;
        // The old value is dropped when no lock is held.
        drop(self.0.write(value));
        Ok(())
    }

    /// Replaces the value by what `function` makes of it. If another thread writes meanwhile, `function` is called
    /// again with what that wrote, so that no update is lost.
    ///
    /// # Examples
    /// ```
    /// use pytree_core::Ref;
    /// let count = Ref::new(0);
    /// std::thread::scope(|scope| {
    ///     for _ in 0..4 {
    ///         scope.spawn(|| (0..100).for_each(|_| count.update(|n| n + 1)));
    ///     }
    /// });
    /// assert_eq!(count.get(), 400);
    /// ```
    ///
    /// # Panics
    /// As [`get`](Self::get) and [`set`](Self::set).
    #[track_caller]
    pub fn update(&self, mut function: impl FnMut(T) -> T)
    where
        T: Clone,
    {
        allowed(self.exchange(|before| (function(before), ())));
    }

    /// Changes the value in place, as far as one sees, and gives what `function` returns: it works on a copy, which
    /// replaces the value. If another thread writes meanwhile, `function` is called again, as by
    /// [`update`](Self::update).
    ///
    /// # Examples
    /// ```
    /// use pytree_core::Ref;
    /// let stack = Ref::new(vec![1, 2, 3]);
    /// let last = stack.modify(|items| items.pop());
    /// assert_eq!((last, stack.get()), (Some(3), vec![1, 2]));
    /// ```
    ///
    /// # Panics
    /// As [`get`](Self::get) and [`set`](Self::set).
    #[track_caller]
    pub fn modify<R>(&self, mut function: impl FnMut(&mut T) -> R) -> R
    where
        T: Clone,
    {
        allowed(self.exchange(|mut value| {
            let result = function(&mut value);
            (value, result)
        }))
    }

    /// Replaces the value by what is made of it, again until nobody else has written meanwhile.
    fn exchange<R>(&self, mut make: impl FnMut(T) -> (T, R)) -> Result<R, ReferenceError>
    where
        T: Clone,
    {
        let cell = &self.0;
        cell.check_write()?;
        loop {
            let before = cell.snapshot()?;
            let (after, result) = make((*before).clone());
            let mut held = cell.content.write().unwrap_or_else(PoisonError::into_inner);
            if held.as_ref().is_some_and(|held| Arc::ptr_eq(held, &before)) {
                let replaced = held.replace(Arc::new(after));
                cell.written.store(true, Ordering::Relaxed);
                // The old value is dropped when no lock is held.
                drop(held);
                drop(replaced);
                return Ok(result);
            }
        }
    }

    /// A weak handle of the reference.
    pub fn downgrade(&self) -> WeakRef<T> {
        WeakRef(Arc::downgrade(&self.0))
    }

    /// Whether two handles are of the same reference.
    pub fn same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// The reference's identity.
    pub fn identity(&self) -> Identity {
        Identity::of(&self.0)
    }
}

thread_local! {
    /// What references must be accepted by to be written.
    static MUTABLE: RefCell<Vec<AcceptsKind>> = const { RefCell::new(Vec::new()) };
}

type AcceptsKind = Box<dyn Fn(Option<LeafKind>) -> bool>;

/// While it lives, references are written only if it accepts their kinds.
pub(crate) struct Mutable;

impl Mutable {
    pub(crate) fn begin(accepts: AcceptsKind) -> Self {
        MUTABLE.with_borrow_mut(|all| all.push(accepts));
        Self
    }
}

impl Drop for Mutable {
    fn drop(&mut self) {
        let _ = MUTABLE.with_borrow_mut(Vec::pop);
    }
}

#[track_caller]
fn allowed<T>(outcome: Result<T, ReferenceError>) -> T {
    match outcome {
        Ok(value) => value,
        Err(error) => panic!("{error}"),
    }
}

/// The shape of a reference that says of which kind its leaves are.
fn shape_of_kind(kind: FieldKind) -> &'static NodeShape {
    NodeShape::interned(
        NodeKind::Reference,
        shape::REFERENCE.name,
        &[(shape::REFERENCE_FIELD, Some(kind))],
        &[],
    )
}

impl<T> Clone for Ref<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

thread_local! {
    /// The references that are being shown: one that is inside of itself is shown as Python does.
    static SHOWN: RefCell<Vec<Identity>> = const { RefCell::new(Vec::new()) };
}

/// Ends the showing of a reference.
struct Showing;

impl Showing {
    fn begin(identity: Identity) -> Option<Self> {
        SHOWN.with_borrow_mut(|shown| {
            if shown.contains(&identity) {
                return None;
            }
            shown.push(identity);
            Some(Self)
        })
    }
}

impl Drop for Showing {
    fn drop(&mut self) {
        SHOWN.with_borrow_mut(Vec::pop);
    }
}

impl<T: fmt::Debug> fmt::Debug for Ref<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(_showing) = Showing::begin(self.identity()) else {
            return f.write_str("Ref(...)");
        };
        match self.0.held() {
            Some(content) => f.debug_tuple("Ref").field(&content).finish(),
            None => f.write_str("Ref(<being built>)"),
        }
    }
}

impl<T: Pytree + Send + Sync> ReferenceNode for Ref<T> {
    fn identity(&self) -> Identity {
        Self::identity(self)
    }
    fn handle(&self) -> AnyReference {
        AnyReference(Arc::clone(&self.0) as Arc<dyn AnyCell>)
    }
}

impl<T: Pytree + Send + Sync> Pytree for Ref<T> {
    fn visit<'a>(&'a self, visitor: &mut dyn Visitor<'a>) {
        if visitor.reference(self) == SharedVisit::Descend {
            visitor.enter(self.0.shape, 1);
            let content = allowed(self.0.snapshot()) as Content;
            visitor.keep(content).visit(visitor);
            visitor.exit();
        }
    }

    fn unflatten(source: &mut Unflattener<'_>) -> Result<Self, TreeError> {
        source.reference()
    }
}

/// A handle of a [`Ref`] that does not keep it alive.
///
/// Graph operations, transformations and checkpoints keep it, as they do a [`Weak`](crate::Weak) edge.
pub struct WeakRef<T>(pub(crate) sync::Weak<Cell<T>>);

impl<T> WeakRef<T> {
    /// A handle of nothing.
    pub fn new() -> Self {
        Self(sync::Weak::new())
    }

    /// The reference, if it is alive.
    pub fn upgrade(&self) -> Option<Ref<T>> {
        self.0.upgrade().map(Ref)
    }
}

impl<T> Default for WeakRef<T> {
    fn default() -> Self {
        Self::new()
    }
}
impl<T> Clone for WeakRef<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}
impl<T> fmt::Debug for WeakRef<T> {
    /// As Python shows what leads back: `(...)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(...)")
    }
}

impl<T: Pytree + Send + Sync> Pytree for WeakRef<T> {
    fn visit<'a>(&'a self, visitor: &mut dyn Visitor<'a>) {
        visitor.weak(self.upgrade().map(|reference| reference.identity()));
    }

    fn unflatten(source: &mut Unflattener<'_>) -> Result<Self, TreeError> {
        source.weak_reference()
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

/// A handle of a reference, whatever it holds.
#[derive(Clone)]
pub struct AnyReference(pub(crate) Arc<dyn AnyCell>);

impl AnyReference {
    /// The reference's identity.
    pub fn identity(&self) -> Identity {
        Arc::clone(&self.0).identity()
    }

    /// Whether it was written since it was made.
    pub fn is_written(&self) -> bool {
        self.0.is_written()
    }

    /// Panics unless it was made at the level of the code that calls.
    #[track_caller]
    pub(crate) fn check_return(&self) {
        allowed(self.0.check_return());
    }

    /// What it holds at the moment.
    #[track_caller]
    pub(crate) fn content(&self) -> Content {
        allowed(self.0.content())
    }

    /// The handle, as that of any node.
    pub(crate) fn node(&self) -> Arc<dyn Any + Send + Sync> {
        Arc::clone(&self.0).into_any()
    }

    /// The cell, if it holds a `T`.
    pub(crate) fn cell<T: Send + Sync + 'static>(&self) -> Option<Arc<Cell<T>>> {
        self.node().downcast().ok()
    }
}

impl fmt::Debug for AnyReference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AnyReference({:?})", self.identity())
    }
}

/// The references of a value, in the order in which a graph function meets them, and its shared nodes.
#[derive(Clone)]
pub struct References {
    pub(crate) cells: Vec<AnyReference>,
    /// The handles of all nodes that aliases refer to, by their numbers: those of references and of shared nodes.
    pub(crate) nodes: Vec<Arc<dyn Any + Send + Sync>>,
    /// Whether shared nodes are known where they are met again, too.
    knows_shared: bool,
    /// The numbers of those that are known, when they were asked for first.
    numbers: OnceLock<IdentityMap>,
}

impl References {
    /// How many references there are.
    pub fn len(&self) -> usize {
        self.cells.len()
    }

    /// Whether there is no reference.
    pub fn is_empty(&self) -> bool {
        self.cells.is_empty()
    }

    /// What tells the references apart.
    pub fn identities(&self) -> Vec<Identity> {
        self.cells.iter().map(AnyReference::identity).collect()
    }

    /// The positions of the references that were written since they were made.
    pub fn written(&self) -> Vec<usize> {
        let numbered = self.cells.iter().enumerate();
        numbered
            .filter(|(_, reference)| reference.is_written())
            .map(|(position, _)| position)
            .collect()
    }

    /// The same references; shared nodes are not known where they are met again.
    #[must_use]
    pub fn without_shared(self) -> Self {
        Self {
            knows_shared: false,
            numbers: OnceLock::new(),
            ..self
        }
    }

    /// The nodes of these numbers, which are numbered anew.
    pub(crate) fn only(&self, numbers: impl IntoIterator<Item = usize>) -> Self {
        let references: HashMap<Identity, &AnyReference> = self
            .cells
            .iter()
            .map(|reference| (reference.identity(), reference))
            .collect();
        let mut kept = Self::default();
        for node in numbers
            .into_iter()
            .filter_map(|number| self.nodes.get(number))
        {
            match references.get(&Identity::of(node)) {
                Some(reference) => kept.push_reference((*reference).clone()),
                None => kept.push(Arc::clone(node)),
            }
        }
        kept
    }

    /// The number of a node that is known.
    pub(crate) fn number(&self, identity: Identity) -> Option<usize> {
        let numbers = self.numbers.get_or_init(|| {
            let mut numbers = IdentityMap::default();
            for node in &self.nodes {
                let _ = numbers.insert(Identity::of(node));
            }
            if self.knows_shared {
                return numbers;
            }
            let references = self.cells.iter().map(AnyReference::identity);
            numbers.only(references)
        });
        numbers.get(identity)
    }

    /// Adds the shared node that was met next.
    pub(crate) fn push(&mut self, node: Arc<dyn Any + Send + Sync>) {
        self.nodes.push(node);
    }

    /// Adds the reference that was met next.
    pub(crate) fn push_reference(&mut self, reference: AnyReference) {
        self.nodes.push(reference.node());
        self.cells.push(reference);
    }

    /// Lets go of the nodes for whose numbers `keeps` is false; references stay.
    pub(crate) fn release(&mut self, keeps: impl Fn(u32) -> bool) {
        if self.nodes.is_empty() {
            return;
        }
        let nothing: Arc<dyn Any + Send + Sync> = Arc::new(());
        for (node, number) in self.nodes.iter_mut().zip(0..) {
            if !keeps(number) {
                *node = Arc::clone(&nothing);
            }
        }
    }

    /// Adds nodes that have no identity any more.
    pub(crate) fn skip(&mut self, count: usize) {
        self.nodes
            .resize_with(self.nodes.len() + count, || Arc::new(()));
    }
}

impl Default for References {
    fn default() -> Self {
        Self {
            cells: Vec::new(),
            nodes: Vec::new(),
            knows_shared: true,
            numbers: OnceLock::new(),
        }
    }
}

impl fmt::Debug for References {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.cells).finish()
    }
}
