//! The processes of a mesh, and the communicators that connect them.
//!
//! A communicator belongs to the thread that made the mesh. The engine of a device must be usable from all threads, so it
//! holds a key, and a thread-local table holds the communicators.

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use pytree_base::bug::expect_some;

use super::ProcessEngine;
use crate::base::device_error::DeviceError;
use crate::tensor::device::MeshAxes;
use crate::tensor::device::processes::{CollectiveCall, Communicator, ConnectedAxis, Doing};
use crate::tensor::device::{Device, MeshDevices, MeshEngine};

impl MeshDevices for Rc<dyn Communicator> {
    /// Returns the engine of a mesh of all processes of the communicator. All processes must call this function with the same axes,
    /// because it communicates.
    fn together(&self, axes: &[(&str, usize)]) -> Result<Box<dyn MeshEngine>, DeviceError> {
        let named = axes.iter().map(|(name, length)| ((*name).into(), *length));
        let mesh = MeshAxes::new(named.collect());
        let (wanted, found) = (mesh.replicas(), self.size());
        if wanted != found {
            return Err(DeviceError::unsupported(
                format!("a mesh of {wanted} processes, because the run has {found}"),
                format!("choose lengths whose product is {found}, or start {wanted} processes"),
            ));
        }
        let connected = connected(self, &mesh, axes);
        let key = NEXT.fetch_add(1, Ordering::Relaxed);
        CONNECTED.with_borrow_mut(|known| known.push((key, connected)));
        let name = format!("process mesh ({mesh})");
        Ok(Connection::engine(name, Some(key), self.rank(), mesh))
    }
}

impl MeshDevices for Device {
    /// Returns the engine of a mesh of the host alone: all axes have length 1. A program for a mesh then runs in one process, from any
    /// thread.
    fn together(&self, axes: &[(&str, usize)]) -> Result<Box<dyn MeshEngine>, DeviceError> {
        let named = axes.iter().map(|(name, length)| ((*name).into(), *length));
        let mesh = MeshAxes::new(named.collect());
        if !self.is_host() {
            return Err(DeviceError::unsupported(
                match self.mesh() {
                    Some(_) => format!("a mesh of another mesh, the {self}"),
                    None => format!("a mesh of {self} alone"),
                },
                "pass the client of the devices, the processes, or `Device::HOST`, as in `Mesh::new(&client, [(\"data\", 4)])`",
            ));
        }
        if mesh.replicas() != 1 {
            return Err(DeviceError::unsupported(
                format!(
                    "a mesh of {} devices, because the host is one device",
                    mesh.replicas()
                ),
                "choose the length 1 for each axis, or make the mesh of a client or of processes",
            ));
        }
        Ok(Connection::engine(
            format!("host mesh ({mesh})"),
            None,
            0,
            mesh,
        ))
    }
}

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
fn connected(
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

static NEXT: AtomicU64 = AtomicU64::new(0);

pytree_core::per_thread! {
    /// The axes of the meshes that this thread has made, by the keys of their connections.
    static CONNECTED: Vec<(u64, Rc<[ConnectedAxis]>)> = Vec::new();
}

/// The processes of a mesh.
pub(super) struct Connection {
    /// The key of the communicators in the table of the thread that made the mesh. `None` for a process without others.
    key: Option<u64>,
    pub(super) name: String,
    /// The number of this process.
    pub(super) rank: usize,
    pub(super) mesh: MeshAxes,
}

impl Connection {
    fn engine(name: String, key: Option<u64>, rank: usize, mesh: MeshAxes) -> Box<dyn MeshEngine> {
        Box::new(ProcessEngine(Arc::new(Self {
            key,
            name,
            rank,
            mesh,
        })))
    }

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
