//! Buffers: arrays on devices.

use std::fmt;
use std::sync::{Arc, OnceLock};

use crate::device::Device;
use crate::element::{ArrayInfo, Element, ElementType};
use crate::error::{Failure, PjrtError};
use crate::sys::{BufferHandle, ReadHandle};

/// An array on a device.
///
/// The content may not be computed yet, because a run returns its results before it ends. Reading waits for the
/// content. If the run fails, reading returns the error of the run. The memory of a dropped buffer is freed when no run
/// uses it any more.
pub struct Buffer {
    handle: BufferHandle,
    array: Arc<ArrayInfo>,
    device: Device,
    /// The program that computes the content.
    maker: Option<Arc<str>>,
    /// The program that received the memory.
    donated: OnceLock<Arc<str>>,
}

impl Buffer {
    pub(crate) fn new(
        handle: BufferHandle,
        array: Arc<ArrayInfo>,
        device: Device,
        maker: Option<Arc<str>>,
    ) -> Self {
        Self {
            handle,
            array,
            device,
            maker,
            donated: OnceLock::new(),
        }
    }

    pub(crate) fn handle(&self) -> &BufferHandle {
        &self.handle
    }

    /// Returns the element type and the dimensions.
    pub fn array_info(&self) -> &ArrayInfo {
        &self.array
    }

    /// Returns the type of the elements.
    pub fn element_type(&self) -> ElementType {
        self.array.element
    }

    /// Returns the length of each axis.
    pub fn dims(&self) -> &[usize] {
        &self.array.shape
    }

    /// Returns the device that holds the array.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Returns whether the buffer was donated to a run. A donated buffer has no memory, and every use of it is an
    /// error.
    pub fn is_donated(&self) -> bool {
        self.donated.get().is_some()
    }

    /// Returns whether the content is computed or its computation has failed. Never waits.
    ///
    /// # Errors
    /// Returns an error if the buffer was donated.
    pub fn is_ready(&self) -> Result<bool, PjrtError> {
        const DOING: &str = "ask whether a buffer is ready";
        self.check(DOING)?;
        let ready = self.handle.ready().and_then(|event| event.is_ready());
        ready.map_err(|failure| PjrtError::plugin(DOING, failure))
    }

    /// Waits until the content is computed.
    ///
    /// # Errors
    /// Returns an error if the run that computes the content fails, or if the buffer was donated.
    pub fn wait(&self) -> Result<(), PjrtError> {
        const DOING: &str = "wait for a buffer";
        self.check(DOING)?;
        let waited = self.handle.ready().and_then(|event| event.wait());
        waited.map_err(|failure| self.failed(DOING, failure))
    }

    /// Waits for the content, and copies it to the host.
    ///
    /// # Errors
    /// Returns an error if:
    /// - the elements have another type
    /// - the run that computes the content fails
    /// - the buffer was donated
    pub fn to_vec<T: Element>(&self) -> Result<Vec<T>, PjrtError> {
        if T::TYPE != self.array.element {
            let found = ArrayInfo::clone(&self.array);
            return Err(PjrtError::ElementType {
                expected: T::TYPE,
                found,
            });
        }
        self.check(READING)?;
        T::read(self.array.len(), |bytes| self.read(bytes))
    }

    /// Waits for the content, and copies it to the host as bytes. The last axis is contiguous.
    ///
    /// # Errors
    /// Returns an error if the run that computes the content fails, or if the buffer was donated.
    pub fn to_bytes(&self) -> Result<Vec<u8>, PjrtError> {
        self.check(READING)?;
        let mut bytes = vec![0; self.array.bytes()];
        self.read(&mut bytes)?;
        Ok(bytes)
    }

    /// Waits for the content, and copies it to `target`. The last axis is contiguous.
    ///
    /// # Errors
    /// Returns an error if:
    /// - the number of bytes differs
    /// - the run that computes the content fails
    /// - the buffer was donated
    pub fn read_bytes(&self, target: &mut [u8]) -> Result<(), PjrtError> {
        let found = target.len();
        if self.array.bytes() != found {
            let array = ArrayInfo::clone(&self.array);
            return Err(PjrtError::Size { array, found });
        }
        self.check(READING)?;
        self.read(target)
    }

    /// Starts to copy the content to the host. Does not wait for the copy.
    ///
    /// # Errors
    /// Returns an error if the copy cannot start, or if the buffer was donated.
    pub fn start_read(&self) -> Result<Read, PjrtError> {
        self.check(READING)?;
        let size = self.array.bytes();
        let handle = self.handle.start_read(self.array.shape.len(), size);
        let handle = handle.map_err(|failure| self.failed(READING, failure))?;
        Ok(Read {
            handle,
            maker: self.maker.clone(),
        })
    }

    fn read(&self, bytes: &mut [u8]) -> Result<(), PjrtError> {
        let read = self.handle.read(self.array.shape.len(), bytes);
        read.map_err(|failure| self.failed(READING, failure))
    }

    /// Returns an error if the buffer was donated.
    pub(crate) fn check(&self, doing: &str) -> Result<(), PjrtError> {
        match self.donated.get() {
            None => Ok(()),
            Some(executable) => Err(self.was_donated(doing, executable)),
        }
    }

    /// Returns the error for a use of this buffer after a donation.
    pub(crate) fn was_donated(&self, doing: &str, executable: &str) -> PjrtError {
        PjrtError::Donated {
            doing: doing.to_owned(),
            buffer: ArrayInfo::clone(&self.array),
            executable: executable.to_owned(),
        }
    }

    /// Marks the buffer as donated, and frees its memory if the program did not take it.
    pub(crate) fn donate(&self, executable: &Arc<str>) {
        let _ = self.donated.set(Arc::clone(executable));
        // If this fails, the memory is freed when the buffer is dropped.
        let _ = self.handle.delete();
    }

    fn failed(&self, doing: &str, failure: Failure) -> PjrtError {
        failed(self.maker.as_deref(), doing, failure)
    }
}

/// The operation of a read, for messages.
const READING: &str = "read a buffer";

/// Returns the error for an operation on a buffer. `maker` is the program that computes the buffer.
fn failed(maker: Option<&str>, doing: &str, failure: Failure) -> PjrtError {
    match maker {
        Some(executable) => PjrtError::execute(executable, failure),
        None => PjrtError::plugin(doing, failure),
    }
}

impl Device {
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
        let put = self.handle().put(element.pjrt(), &lengths, bytes);
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
            .handle()
            .put_shared(element.pjrt(), &lengths, size, owner);
        self.buffer(array, put)
    }

    fn buffer(
        &self,
        array: ArrayInfo,
        put: Result<BufferHandle, Failure>,
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

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer({} on {}", self.array, self.device)?;
        if let Some(executable) = self.donated.get() {
            write!(f, ", donated to `{executable}`")?;
        }
        f.write_str(")")
    }
}

/// A copy to the host that [`Buffer::start_read`] started. If a `Read` is dropped, the drop waits until the copy has
/// ended.
#[derive(Debug)]
pub struct Read {
    handle: ReadHandle,
    maker: Option<Arc<str>>,
}

impl Read {
    /// Returns whether the copy has ended. Never waits.
    ///
    /// # Errors
    /// Returns an error if the plugin cannot answer.
    pub fn is_ready(&self) -> Result<bool, PjrtError> {
        let ready = self.handle.is_ready();
        ready.map_err(|failure| PjrtError::plugin("ask whether a copy has ended", failure))
    }

    /// Waits until the copy has ended, and returns the bytes. The last axis is contiguous.
    ///
    /// # Errors
    /// Returns an error if the run that computes the content fails.
    pub fn wait(self) -> Result<Vec<u8>, PjrtError> {
        let Self { handle, maker } = self;
        handle
            .wait()
            .map_err(|failure| failed(maker.as_deref(), READING, failure))
    }
}
