//! The processes of a mesh, and the communicators that connect them.
//!
//! A communicator belongs to the thread that made the mesh. The engine of a device must be usable from all threads, so it
//! holds a key, and a thread-local table holds the communicators.

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use pytree_base::bug::expect_some;

use crate::base::device_error::DeviceError;
use crate::tensor::device::MeshAxes;
use crate::tensor::device::processes::{CollectiveCall, Communicator, ConnectedAxis, Doing};

/// A process without others.
#[derive(Debug)]
struct Alone;

impl Communicator for Alone {
    fn rank(&self) -> usize {
        0
    }

    fn size(&self) -> usize {
        1
    }

    fn all_gather(&self, _: &CollectiveCall<'_>, own: &[u8], all: &mut [u8]) {
        all.copy_from_slice(own);
    }

    fn all_to_all(&self, _: &CollectiveCall<'_>, sent: &[u8], received: &mut [u8]) {
        received.copy_from_slice(sent);
    }

    fn permute(
        &self,
        _: &CollectiveCall<'_>,
        own: &[u8],
        destination: Option<usize>,
        source: Option<usize>,
        received: &mut [u8],
    ) {
        if destination.is_some() && source.is_some() {
            received.copy_from_slice(own);
        }
    }

    fn split(&self, _: &CollectiveCall<'_>, _: usize) -> Rc<dyn Communicator> {
        Rc::new(Self)
    }
}

/// Returns a communicator for each axis of a mesh. It connects the processes that differ only in their positions on the
/// axis.
pub(super) fn connected(
    all: &Rc<dyn Communicator>,
    mesh: &MeshAxes,
    shown: &[(&str, usize)],
) -> Rc<[ConnectedAxis]> {
    if let [(name, _)] = mesh.axes() {
        return Rc::new([(Arc::clone(name), Rc::clone(all))]);
    }
    let call = CollectiveCall::new(Doing::Mesh(shown));
    let axis = |(name, _): &(_, usize)| {
        let (length, stride) = expect_some(mesh.axis(name), "an axis of the mesh");
        let rank = all.rank();
        // The rank of the first process of the group.
        let group = rank - rank / stride % length * stride;
        (Arc::clone(name), all.split(&call, group))
    };
    mesh.axes().iter().map(axis).collect()
}

/// Keeps the axes of a mesh for this thread. Returns their key.
pub(super) fn kept(axes: Rc<[ConnectedAxis]>) -> u64 {
    let key = NEXT.fetch_add(1, Ordering::Relaxed);
    CONNECTED.with_borrow_mut(|known| known.push((key, axes)));
    key
}

static NEXT: AtomicU64 = AtomicU64::new(0);

pytree_core::per_thread! {
    /// The axes of the meshes that this thread has made, by the keys of their connections.
    static CONNECTED: Vec<(u64, Rc<[ConnectedAxis]>)> = Vec::new();
}

/// The processes of a mesh.
pub(super) struct Connection {
    /// The key of the communicators in the table of the thread that made the mesh. `None` for a process without others.
    pub(super) key: Option<u64>,
    pub(super) name: String,
    /// The number of this process.
    pub(super) rank: usize,
    pub(super) mesh: MeshAxes,
}

impl Connection {
    /// Returns the axes of the mesh, the outermost first.
    pub(super) fn axes(&self) -> Result<Rc<[ConnectedAxis]>, DeviceError> {
        let Some(key) = self.key else {
            let alone =
                |(name, _): &(_, usize)| -> ConnectedAxis { (Arc::clone(name), Rc::new(Alone)) };
            return Ok(self.mesh.axes().iter().map(alone).collect());
        };
        let found = CONNECTED.with_borrow(|known| {
            let mut known = known.iter();
            known.find_map(|(other, axes)| (*other == key).then(|| Rc::clone(axes)))
        });
        found.ok_or_else(|| {
            DeviceError::unsupported(
                "a call from another thread than the thread that made the mesh, because only that thread communicates",
                "call the function in the thread that made the mesh",
            )
        })
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let Some(own) = self.key else { return };
        // In another thread than the one that made the mesh, there is nothing to remove.
        let ended = CONNECTED.with_borrow_mut(|known| {
            let position = known.iter().position(|(key, _)| *key == own);
            position.map(|position| known.swap_remove(position))
        });
        // Dropping the communicators may run any code, so the thread-local variable is not borrowed here.
        drop(ended);
    }
}
