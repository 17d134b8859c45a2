//! Trait objects as modules: `Vec<Box<dyn Layer>>`.
//!
//! For each trait object a treedef stores a [`Constructor`], the function that rebuilds a value of the concrete type.
//! The code that [`module_object`](macro@crate::module_object) generates for a user's trait visits the constructor as a
//! static value.

use std::any::TypeId;
use std::fmt;
use std::hash::{Hash, Hasher};

use pytree_base::bug::{LEAVES, expect_next};

use crate::base::error::TreeError;
use crate::contract::arena::Arena;
use crate::contract::obstacle::passed;
use crate::contract::pytree::Pytree;
use crate::contract::unflatten::Unflattener;
use crate::treedef::Notation;
use crate::trees::functions::flatten_as_tree;

/// Rebuilds a boxed trait object of one concrete type. A constructor is a static value of the treedef.
pub struct Constructor<D: ?Sized + 'static> {
    identity: fn() -> TypeId,
    name: fn() -> &'static str,
    build: fn(&mut Unflattener<'_>) -> Result<Box<D>, TreeError>,
}

impl<D: ?Sized> Constructor<D> {
    /// Returns the constructor of the concrete type `T`.
    pub const fn new<T: 'static>(
        build: fn(&mut Unflattener<'_>) -> Result<Box<D>, TreeError>,
    ) -> Self {
        Self {
            identity: TypeId::of::<T>,
            name: std::any::type_name::<T>,
            build,
        }
    }

    /// Builds the object.
    ///
    /// # Errors
    /// Returns the errors of unflattening the type of the object.
    pub fn build(&self, source: &mut Unflattener<'_>) -> Result<Box<D>, TreeError> {
        (self.build)(source)
    }
}

impl<D: ?Sized> Clone for Constructor<D> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<D: ?Sized> Copy for Constructor<D> {}
impl<D: ?Sized> fmt::Debug for Constructor<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str((self.name)())
    }
}

impl<D: ?Sized> crate::node::statics::StaticValue for Constructor<D> {
    fn static_eq(&self, other: &Self) -> bool {
        (self.identity)() == (other.identity)()
    }
    fn static_hash(&self, mut hasher: &mut dyn Hasher) {
        (self.name)().hash(&mut hasher);
    }
    fn static_show(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// Formats a boxed module as a tree.
///
/// # Errors
/// The errors of the formatter.
pub fn debug<D: Pytree + ?Sized>(object: &D, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let arena = Arena::default();
    let (leaves, treedef) = passed(flatten_as_tree(object, &arena));
    let mut leaves = leaves.into_iter();
    treedef.write_with(f, Notation::Value, |f| {
        fmt::Debug::fmt(expect_next(&mut leaves, LEAVES), f)
    })
}
