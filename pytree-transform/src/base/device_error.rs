//! The errors that engines report. The library adds the device and the operation to these errors.

use thiserror::Error;

/// An error that an [`Engine`](crate::device::Engine) reports. The library adds the device and the operation; see
/// [`TensorError::Device`](crate::TensorError::Device).
#[derive(Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum DeviceError {
    /// The device does not support an operation or a dtype.
    #[error("the device does not support {what}; {fix}")]
    Unsupported {
        /// The unsupported operation or dtype, as a noun phrase, for instance `` the operation `debug_callback` ``.
        what: Box<str>,
        /// The fix as an imperative phrase, for instance `convert to f32`.
        fix: Box<str>,
    },
    /// The memory of the device is too small.
    #[error(
        "the device has not enough free memory: {message}; drop tensors that are not needed, pass tensors by value, or use a smaller batch"
    )]
    OutOfMemory {
        /// The message of the device's runtime.
        message: Box<str>,
    },
    /// The memory of a buffer was donated to a program that failed.
    #[error("its memory was donated to `{program}`, which failed; load a checkpoint")]
    Donated {
        /// The name of the program, or the line that compiled it.
        program: Box<str>,
    },
    /// The runtime of the device reported another error.
    #[error("the device reported: {message}")]
    Failed {
        /// The message of the device's runtime.
        message: Box<str>,
    },
}

pytree_base::debug_as_display!(DeviceError);

impl DeviceError {
    /// Creates the error for something that the device does not support. `what` is a noun phrase, and `fix` is a
    /// command.
    pub fn unsupported(what: impl Into<Box<str>>, fix: impl Into<Box<str>>) -> Self {
        Self::Unsupported {
            what: what.into(),
            fix: fix.into(),
        }
    }

    /// Creates the error for too little memory. `message` is the message of the runtime.
    pub fn out_of_memory(message: impl Into<Box<str>>) -> Self {
        Self::OutOfMemory {
            message: message.into(),
        }
    }

    /// Creates the error for any other failure. `message` is the message of the runtime.
    pub fn failed(message: impl Into<Box<str>>) -> Self {
        Self::Failed {
            message: message.into(),
        }
    }
}
