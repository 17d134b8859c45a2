//! Devices of clients.

use std::fmt;
use std::sync::Arc;

use crate::buffer::Buffer;
use crate::element::{ArrayInfo, Element, ElementType};
use crate::error::PjrtError;
use crate::stats::DeviceMemory;
use crate::sys::{DeviceHandle, Failure};

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

    /// Copies elements to the device. The last axis is contiguous.
    ///
    /// # Errors
    /// Returns an error if the number of elements does not fit the dimensions, or if the device has too little memory.
    pub fn put<T: Element>(&self, elements: &[T], dims: &[usize]) -> Result<Buffer, PjrtError> {
        self.put_bytes(T::TYPE, dims, bytemuck::cast_slice(elements))
    }

    /// Copies bytes to the device. The elements have the byte order of the host, and the last axis is contiguous.
    ///
    /// The bytes of a bool must be 0 or 1.
    ///
    /// # Errors
    /// Returns an error if the number of bytes does not fit the array, or if the device has too little memory.
    pub fn put_bytes(
        &self,
        element: ElementType,
        dims: &[usize],
        bytes: &[u8],
    ) -> Result<Buffer, PjrtError> {
        let (array, lengths) = checked(element, dims, bytes)?;
        let put = self.inner.handle.put(element.pjrt(), &lengths, bytes);
        self.buffer(array, put)
    }

    /// Passes an owner of bytes to the device. Avoids a copy where possible, unlike [`put_bytes`](Self::put_bytes).
    ///
    /// A CPU uses the owner's memory if the memory begins at a multiple of 64 bytes. A GPU copies from the memory while
    /// the program continues. The owner is dropped when the device no longer uses the memory, possibly on another
    /// thread.
    ///
    /// # Errors
    /// Returns the errors of [`put_bytes`](Self::put_bytes).
    ///
    /// # Panics
    /// Panics if two calls of the owner's `as_ref` return different numbers of bytes.
    pub fn put_shared(
        &self,
        element: ElementType,
        dims: &[usize],
        owner: impl AsRef<[u8]> + Send + Sync + 'static,
    ) -> Result<Buffer, PjrtError> {
        let bytes = owner.as_ref();
        let (size, (array, lengths)) = (bytes.len(), checked(element, dims, bytes)?);
        let put = self
            .inner
            .handle
            .put_shared(element.pjrt(), &lengths, size, owner);
        self.buffer(array, put)
    }

    fn buffer(
        &self,
        array: ArrayInfo,
        put: Result<crate::sys::BufferHandle, Failure>,
    ) -> Result<Buffer, PjrtError> {
        match put {
            Ok(handle) => Ok(Buffer::new(handle, Arc::new(array), self.clone(), None)),
            Err(failure) => Err(PjrtError::plugin(
                format!("put a `{array}` on {self}"),
                failure,
            )),
        }
    }
}

/// Returns the type of an array, and its dimensions for the plugin. Returns an error if the size of the array differs
/// from the length of `bytes`.
fn checked(
    element: ElementType,
    dims: &[usize],
    bytes: &[u8],
) -> Result<(ArrayInfo, Vec<i64>), PjrtError> {
    let shape = dims.to_vec();
    let array = ArrayInfo { element, shape };
    let lengths = dims
        .iter()
        .map(|&length| i64::try_from(length).ok())
        .collect();
    let found = bytes.len();
    match lengths {
        Some(lengths) if array.bytes() == found => Ok((array, lengths)),
        _ => Err(PjrtError::Size { array, found }),
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
