//! Devices of clients.

use std::fmt;
use std::sync::Arc;

use crate::error::Failure;
use crate::stats::DeviceMemory;
use crate::sys::DeviceHandle;

/// A device of a client. Two handles are equal if they refer to the same device of the same client.
///
/// A device is displayed as the plugin writes it.
#[derive(Clone)]
pub struct Device {
    inner: Arc<Inner>,
}

struct Inner {
    handle: DeviceHandle,
    index: usize,
    id: i32,
    kind: String,
    description: String,
}

impl Device {
    pub(crate) fn new(index: usize, handle: DeviceHandle) -> Result<Self, Failure> {
        let (id, kind, description) = (handle.id()?, handle.kind()?, handle.words()?);
        Ok(Self {
            inner: Arc::new(Inner {
                handle,
                index,
                id,
                kind,
                description,
            }),
        })
    }

    pub(crate) fn handle(&self) -> &DeviceHandle {
        &self.inner.handle
    }

    /// Returns the index of the device in [`Client::devices`](crate::Client::devices).
    pub fn index(&self) -> usize {
        self.inner.index
    }

    /// Returns the id of the device, which is unique among the devices of all processes.
    pub fn id(&self) -> i32 {
        self.inner.id
    }

    /// Returns the kind of the device, such as `cpu` or the model of a GPU.
    pub fn kind(&self) -> &str {
        &self.inner.kind
    }

    /// Returns the memory use of the device, or `None` if the plugin does not count memory. Plugins for CPUs do not
    /// count memory.
    pub fn memory(&self) -> Option<DeviceMemory> {
        self.inner.handle.memory().ok()
    }
}

impl PartialEq for Device {
    fn eq(&self, other: &Self) -> bool {
        self.inner.handle == other.inner.handle
    }
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Device({self})")
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.inner.description)
    }
}
