//! Mutable references: a value at several places that is written through any of them.
//!
//! A [`Ref`] gives values out and takes values in; no guard is ever held, so that threads can't block each other and a
//! value can be replaced while it is in use. It is a node of a tree, which holds its value. Graph operations visit it
//! once, and transformations carry what is written to it out again.

mod access;
mod cell;

use std::cell::RefCell;
use std::fmt;
use std::sync::{self, Arc};

pub(crate) use self::access::Mutable;
use self::access::Updating;
pub(crate) use self::cell::Cell;
use crate::base::error::{ReferenceError, TreeError};
use crate::base::identity::Identity;
use crate::base::kind::{Collection, CollectionId, FieldKind, LeafKind};
use crate::contract::arena::Content;
use crate::contract::handles::{AnyCell, AnyReference, allowed};
use crate::contract::pytree::{Pytree, ReferenceNode, SharedVisit, Visitor};
use crate::contract::turn;
use crate::contract::unflatten::Unflattener;
use crate::node::shape::{self, Field, NodeKind, NodeShape, OwnedShape};

/// A mutable reference to a value that stands at several places: what is written through one handle is read through
/// all.
///
/// Cloning makes another handle of the same reference. It can be in a module, where the field says of what kind it is,
/// or say itself by [`param`](Self::param) or [`state`](Self::state). Transformations pass it through: inside, the
/// argument has a reference that can be read and written, and afterwards what was written is in the one outside.
/// A function that only captures it can't write it, and where it is recorded it can't read it either: that is an error.
///
/// Handles are sent to other threads and used from them. No lock is held while a value is made from another. A call of a
/// transformation takes effect at one instant, for all references of its argument that it reads or writes, or not at
/// all: if another thread has written one of them while the call ran, nothing is written. A compiled program is then run
/// again; where a user's function has run, that is [`ReferenceError::Conflict`]. [`get`](Self::get) and
/// [`set`](Self::set) are two calls, between which others may write: use [`update`](Self::update).
///
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

impl<T> Ref<T> {
    /// A reference to a value. Its leaves have the kind that the field has which holds the reference, if any.
    pub fn new(value: T) -> Self {
        Self::with_shape(value, &shape::REFERENCE)
    }

    /// A reference to a parameter: its leaves are of kind param wherever no field says otherwise.
    pub fn param(value: T) -> Self {
        Self::with_shape(value, &PARAM)
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
        Self::with_shape(value, InState::<C>::SHAPE)
    }

    fn with_shape(value: T, shape: &'static NodeShape) -> Self {
        let cell = Cell::empty(OwnedShape::Static(shape));
        cell.fill(value);
        Self(Arc::new(cell))
    }

    /// The kind that the reference itself says, if it does.
    pub fn kind(&self) -> Option<LeafKind> {
        self.0.kind()
    }

    /// The value.
    ///
    /// # Errors
    /// [`ReferenceError`] if the reference was captured by a function that is recorded, or made inside of a
    /// transformation that is over or runs on another thread.
    #[pytree_derive::panicking_twin(get)]
    pub fn try_get(&self) -> Result<T, ReferenceError>
    where
        T: Clone,
    {
        self.0.snapshot().map(|content| (*content).clone())
    }

    /// Replaces the value.
    ///
    /// # Errors
    /// [`ReferenceError`] if the reference was made outside of the transformation that runs, or inside of one that is
    /// over or runs on another thread.
    #[pytree_derive::panicking_twin(set)]
    pub fn try_set(&self, value: T) -> Result<(), ReferenceError> {
        self.0.check_write()?;
        turn::give_way();
        // The old value is dropped when no lock is held.
        drop(self.0.write(value));
        Ok(())
    }

    /// Replaces the value by what `function` makes of it. If another thread writes meanwhile, `function` is called
    /// again with what that wrote, so that no update is lost. It may read the reference, and must not write it.
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
            let updating = Updating::begin(self.identity());
            let (after, result) = make((*before).clone());
            drop(updating);
            turn::give_way();
            // The old value, or the new one that is too late, is dropped when no lock is held.
            if cell.write_over(&before, after).is_ok() {
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

const fn field(kind: FieldKind) -> Field {
    Field {
        name: shape::REFERENCE_FIELD,
        kind: Some(kind),
    }
}

const fn shape_with(fields: &'static [Field]) -> NodeShape {
    NodeShape {
        fields,
        ..NodeShape::builtin(NodeKind::Reference, shape::REFERENCE_NAME)
    }
}

/// The shape of a reference to a parameter.
static PARAM: NodeShape = shape_with(&[field(FieldKind::Param)]);

/// The shape of a reference to a state of the collection `C`.
struct InState<C>(std::marker::PhantomData<C>);

impl<C: Collection> InState<C> {
    const FIELDS: &'static [Field] = &[field(FieldKind::State(CollectionId::of::<C>()))];
    const SHAPE: &'static NodeShape = &shape_with(Self::FIELDS);
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
            visitor.enter_shape(self.0.shape.get(), 1);
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
