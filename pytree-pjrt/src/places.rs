//! The devices of a client as places of tensors.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use pytree_transform::device::Device;

/// The place of each device. A place is created when it is first used.
#[derive(Debug)]
pub(crate) struct Places {
    /// The number of the client in this process, starting at 1.
    pub(crate) number: usize,
    pub(crate) devices: Vec<OnceLock<Device>>,
}

impl Places {
    pub(crate) fn new(count: usize) -> Self {
        static CLIENTS: AtomicUsize = AtomicUsize::new(1);
        let number = if count == 0 {
            0
        } else {
            CLIENTS.fetch_add(1, Ordering::Relaxed)
        };
        let devices = (0..count).map(|_| OnceLock::new()).collect();
        Self { number, devices }
    }
}
