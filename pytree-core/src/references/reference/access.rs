//! The rules that determine which references this thread can currently write.

use crate::base::identity::NodeIdentity;
use crate::base::kind::LeafKind;

crate::per_thread! {
    /// The references whose new values are being computed on this thread.
    static UPDATING: Vec<NodeIdentity> = Vec::new();
}
crate::per_thread! {
    /// Functions that accept or reject the kind of a reference. A reference can be written only if all these functions
    /// accept its kind.
    static MUTABLE: Vec<AcceptsKind> = Vec::new();
}

pub(super) type AcceptsKind = Box<dyn Fn(Option<LeafKind>) -> bool>;

/// A guard that exists while the new value of a reference is computed. Until the guard is dropped, this thread cannot
/// write the reference.
pub(super) struct Updating;

impl Updating {
    pub(super) fn begin(identity: NodeIdentity) -> Self {
        UPDATING.with_borrow_mut(|all| all.push(identity));
        Self
    }

    /// Returns whether a new value of the reference is being computed on this thread.
    pub(super) fn is_of(identity: NodeIdentity) -> bool {
        UPDATING.with_borrow(|all| all.contains(&identity))
    }
}

impl Drop for Updating {
    fn drop(&mut self) {
        let _ = UPDATING.with_borrow_mut(Vec::pop);
    }
}

/// A guard of a function in `MUTABLE`. Until the guard is dropped, this thread can write only references whose kinds
/// the function accepts.
pub(crate) struct Mutable;

impl Mutable {
    pub(crate) fn begin(accepts: AcceptsKind) -> Self {
        MUTABLE.with_borrow_mut(|all| all.push(accepts));
        Self
    }
}

impl Mutable {
    /// Returns whether references of the given kind can currently be written.
    pub(super) fn accepts(kind: Option<LeafKind>) -> bool {
        MUTABLE.with_borrow(|all| all.iter().all(|accepts| accepts(kind)))
    }
}

impl Drop for Mutable {
    fn drop(&mut self) {
        let _ = MUTABLE.with_borrow_mut(Vec::pop);
    }
}
