//! Mutable references: a value at several paths of a tree, which can be read and written at each of them.
//!
//! A [`Ref`] returns copies of its value and never holds a guard. So threads cannot block each other, and a value can
//! be replaced while it is in use. A reference is a node of a tree, and its value is the child of the node. Graph
//! functions visit a reference once. When a transformation ends, it writes the last value from the user's function to
//! the reference.

mod access;
mod cell;

use std::fmt;
use std::sync::{self, Arc};

pub(crate) use self::access::Mutable;
use self::access::Updating;
pub(crate) use self::cell::Cell;
use crate::base::error::{ReferenceError, TreeError};
use crate::base::identity::NodeIdentity;
use crate::base::kind::{Collection, FieldKind, LeafKind};
use crate::contract::arena::Content;
use crate::contract::handles::{AnyCell, AnyReference};
use crate::contract::pytree::{Pytree, ReferenceNode, Visit, Visitor};
use crate::contract::turn;
use crate::contract::unflatten::Unflattener;
use crate::node::shape::{self, Field, NodeKind, NodeShape, OwnedShape};

/// A mutable reference to a value, shared by several handles. A value written through one handle is read through all.
///
/// Cloning creates another handle of the same reference. The kind of the leaves in the value is determined by the field
/// of the module that holds the reference, or by the reference itself ([`param`](Self::param), [`state`](Self::state)).
/// Transformations accept references in arguments. The user's function receives a new reference instead of each
/// reference of the argument. Afterwards, the last value of the new reference is written to the reference of the
/// argument. If the function captures a reference that is not in its argument, writing this reference is an error.
/// Reading this reference is an error if the function is recorded, as by `jit`.
///
/// Handles can be sent to other threads and used there. No lock is held while a new value is computed. A call of a
/// transformation writes its results to all references at one instant. If another thread has written a reference of the
/// argument that the call reads or writes, the call writes nothing. In this case, a call that only runs a compiled
/// program without effects is repeated. If the call has run a user's function, the call fails with
/// [`ReferenceError::Conflict`]. Another thread may write between a [`get`](Self::get) and a [`set`](Self::set): use
/// [`update`](Self::update) instead of both.
///
/// References have no `==` and no hash, because their values change, cannot be read everywhere, and may contain the
/// reference itself. Compare values by [`get`](Self::get), and identities by [`same`](Self::same).
///
/// A reference whose value contains the reference keeps itself alive. Use a [`WeakRef`] for one of the edges of such a
/// cycle.
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
#[doc(alias("nnx.Variable", "refx.Ref"))]
pub struct Ref<T>(pub(crate) Arc<Cell<T>>);

impl<T> Ref<T> {
    /// Creates a reference to a value. If a field holds the reference, the leaves of the value have the kind of this
    /// field.
    pub fn new(value: T) -> Self {
        Self::with_shape(value, &shape::REFERENCE)
    }

    /// Creates a reference to a parameter. The leaves of the value are parameters unless the field that holds the
    /// reference determines another kind.
    pub fn param(value: T) -> Self {
        Self::with_shape(value, &PARAM)
    }

    /// Creates a reference to a state. The leaves of the value are states of the collection `C` unless the field that
    /// holds the reference determines another kind.
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
        const {
            assert!(
                C::KIND.is_state(),
                "this is a collection of parameters, not of states: write `Ref::in_collection` instead of `Ref::state`"
            );
        }
        Self::in_collection::<C>(value)
    }

    /// Creates a reference in the collection `C`, a collection of parameters or of states. The leaves of the value have
    /// this kind unless the field that holds the reference determines another kind.
    pub fn in_collection<C: Collection>(value: T) -> Self {
        Self::with_shape(value, InCollection::<C>::SHAPE)
    }

    fn with_shape(value: T, shape: &'static NodeShape) -> Self {
        let cell = Cell::empty(OwnedShape::Static(shape));
        cell.fill(Arc::new(value));
        Self(Arc::new(cell))
    }

    /// Returns the kind that the reference was created with, if any.
    pub fn kind(&self) -> Option<LeafKind> {
        self.0.kind()
    }

    /// Returns the value.
    ///
    /// # Errors
    /// [`ReferenceError`] if a recorded function captured the reference, or if the transformation in which the
    /// reference was created has finished or runs on another thread.
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
    /// [`ReferenceError`] if the reference was created outside of the current transformation, or inside a
    /// transformation that has finished or runs on another thread.
    #[pytree_derive::panicking_twin(set)]
    pub fn try_set(&self, value: T) -> Result<(), ReferenceError> {
        self.0.check_write()?;
        turn::give_way();
        // The old value is dropped while no lock is held.
        drop(self.0.write(value));
        Ok(())
    }

    /// Replaces the value by the result of `function`.
    ///
    /// If another thread writes the reference during the call, `function` is called again with the new value, so no
    /// update is lost. `function` may read the reference, but must not write it.
    ///
    /// # Errors
    /// [`ReferenceError`] if the reference may not be read or written here; see [`try_get`](Self::try_get) and
    /// [`try_set`](Self::try_set).
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
    #[pytree_derive::panicking_twin(update)]
    pub fn try_update(&self, mut function: impl FnMut(T) -> T) -> Result<(), ReferenceError>
    where
        T: Clone,
    {
        self.exchange(|before| (function(before), ()))
    }

    /// Changes the value by a function that mutates a copy, and returns the result of the function.
    ///
    /// The copy then replaces the value. If another thread writes the reference during the call, `function` is called
    /// again, as by [`update`](Self::update).
    ///
    /// # Errors
    /// [`ReferenceError`] if the reference may not be read or written here; see [`try_get`](Self::try_get) and
    /// [`try_set`](Self::try_set).
    ///
    /// # Examples
    /// ```
    /// use pytree_core::Ref;
    /// let stack = Ref::new(vec![1, 2, 3]);
    /// let last = stack.modify(|items| items.pop());
    /// assert_eq!((last, stack.get()), (Some(3), vec![1, 2]));
    /// ```
    #[pytree_derive::panicking_twin(modify)]
    pub fn try_modify<R>(&self, mut function: impl FnMut(&mut T) -> R) -> Result<R, ReferenceError>
    where
        T: Clone,
    {
        self.exchange(|mut value| {
            let result = function(&mut value);
            (value, result)
        })
    }

    /// Replaces the value by a new value that `make` computes from the old value. If another thread writes the
    /// reference during the call, calls `make` again.
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
            // Drops the old value. If another thread has written the reference, drops the new value instead. No lock is
            // held during the drop.
            if cell.write_over(&before, after).is_ok() {
                return Ok(result);
            }
        }
    }

    /// Returns a weak handle of the reference.
    pub fn downgrade(&self) -> WeakRef<T> {
        WeakRef(Arc::downgrade(&self.0))
    }

    /// Returns whether two handles belong to the same reference.
    pub fn same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Returns the identity of the reference.
    pub fn identity(&self) -> NodeIdentity {
        NodeIdentity::of(&self.0)
    }
}

const fn field(kind: FieldKind) -> Field {
    Field::new(shape::REFERENCE_FIELD, kind)
}

const fn shape_with(fields: &'static [Field]) -> NodeShape {
    NodeShape {
        fields,
        ..NodeShape::builtin(NodeKind::Reference, shape::REFERENCE_NAME)
    }
}

/// The shape of a reference to a parameter.
static PARAM: NodeShape = shape_with(&[field(FieldKind::Param)]);

/// The shape of a reference to a value in the collection `C`.
struct InCollection<C>(std::marker::PhantomData<C>);

impl<C: Collection> InCollection<C> {
    const FIELDS: &'static [Field] = &[field(FieldKind::of::<C>())];
    const SHAPE: &'static NodeShape = &shape_with(Self::FIELDS);
}

impl<T> Clone for Ref<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

crate::per_thread! {
    /// The references that are being formatted. A reference that occurs inside its own value is written as `Ref(...)`.
    static SHOWN: Vec<NodeIdentity> = Vec::new();
}

/// A guard that marks a reference as being formatted.
struct Showing;

impl Showing {
    fn begin(identity: NodeIdentity) -> Option<Self> {
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
    fn identity(&self) -> NodeIdentity {
        Self::identity(self)
    }
    fn handle(&self) -> AnyReference {
        AnyReference(Arc::clone(&self.0) as Arc<dyn AnyCell>)
    }
}

impl<T: Pytree + Send + Sync> Pytree for Ref<T> {
    fn visit<'a>(&'a self, visitor: &mut dyn Visitor<'a>) {
        if visitor.reference(self) == Visit::Descend
            && visitor.enter_shape(self.0.shape.get(), 1) == Visit::Descend
        {
            match self.0.snapshot() {
                Ok(content) => visitor.keep(content as Content).visit(visitor),
                Err(error) => visitor.refuse(error.into()),
            }
            visitor.exit();
        }
    }

    fn unflatten(source: &mut Unflattener<'_>) -> Result<Self, TreeError> {
        source.reference()
    }
}

/// A handle of a [`Ref`] that does not keep the reference alive.
///
/// Graph functions, transformations and checkpoints preserve the handle, like a [`WeakShared`](crate::WeakShared) edge.
pub struct WeakRef<T>(pub(crate) sync::Weak<Cell<T>>);

impl<T> WeakRef<T> {
    /// Creates a handle that does not belong to any reference.
    pub fn new() -> Self {
        Self(sync::Weak::new())
    }

    /// Returns the reference, if it is alive.
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
    /// Writes `(...)`, as Python formats a cycle.
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
