//! The handle of a device.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::panic::RefUnwindSafe;
use std::sync::Arc;

use super::compiled::Operations;
use super::engine::Engine;

/// The place of a tensor: the host, or a device with its own engine. A clone refers to the same device.
///
/// # Examples
/// ```
/// use pytree_transform::device::Device;
/// use pytree_transform::Tensor;
/// let x = Tensor::from([1.0_f32, 2.0]);
/// assert_eq!(x.device(), &Device::HOST);
/// assert_eq!(x.device().to_string(), "host");
/// ```
#[doc(alias = "jax.Device")]
#[derive(Clone)]
pub struct Device(Option<Arc<Attached>>);

/// A device other than the host.
pub(crate) struct Attached {
    name: Box<str>,
    pub(super) engine: Box<dyn Engine>,
    pub(super) operations: Operations,
    /// The name of the operation that transfers tensors, for messages.
    pub(super) put_by: Arc<str>,
}

impl Device {
    /// The host: the memory of this process, and the library's own executor.
    pub const HOST: Self = Self(None);

    /// Creates a device from its engine. Each call creates a different device, so call this function only once for an
    /// engine and keep the result.
    pub fn new(engine: impl Engine) -> Self {
        Self(Some(Arc::new(Attached {
            name: engine.name().into(),
            engine: Box::new(engine),
            operations: Operations::default(),
            put_by: "device_put".into(),
        })))
    }

    /// Returns the name of the device, for instance `host`.
    pub fn name(&self) -> &str {
        self.0.as_ref().map_or("host", |attached| &attached.name)
    }

    /// Returns whether this is the host.
    pub fn is_host(&self) -> bool {
        self.0.is_none()
    }

    /// Returns the device, or `None` if this is the host.
    pub(crate) fn attached(&self) -> Option<&Arc<Attached>> {
        self.0.as_ref()
    }

    /// Returns the address of the engine, which identifies the device.
    fn address(&self) -> usize {
        self.0
            .as_ref()
            .map_or(0, |attached| Arc::as_ptr(attached).addr())
    }
}

/// The engine must remain usable in other threads after a panic, so it also remains usable in the thread that panicked.
impl RefUnwindSafe for Attached {}

impl Attached {
    /// Returns the handle of this device.
    pub(crate) fn device(self: &Arc<Self>) -> Device {
        Device(Some(Arc::clone(self)))
    }
}

impl From<&Self> for Device {
    fn from(device: &Self) -> Self {
        device.clone()
    }
}

impl PartialEq for Device {
    /// Returns whether two handles refer to the same device.
    fn eq(&self, other: &Self) -> bool {
        self.address() == other.address()
    }
}

impl Eq for Device {}

impl Hash for Device {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.address().hash(hasher);
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Device({self})")
    }
}

impl fmt::Debug for Attached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Device({})", self.name)
    }
}
