//! The errors of plugins, compilations, buffers and runs.

use std::path::PathBuf;

use thiserror::Error;

use crate::element::ArrayInfo;

/// The kind of an error that a plugin reports. The kinds are the codes of `absl::Status`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[allow(
    missing_docs,
    reason = "the codes of `absl::Status` are documented there"
)]
pub enum ErrorCode {
    Cancelled,
    Unknown,
    InvalidArgument,
    DeadlineExceeded,
    NotFound,
    AlreadyExists,
    PermissionDenied,
    ResourceExhausted,
    FailedPrecondition,
    Aborted,
    OutOfRange,
    Unimplemented,
    Internal,
    Unavailable,
    DataLoss,
    Unauthenticated,
}

impl ErrorCode {
    /// The codes in the order of `PJRT_Error_Code`, starting at 1.
    const ALL: [Self; 16] = [
        Self::Cancelled,
        Self::Unknown,
        Self::InvalidArgument,
        Self::DeadlineExceeded,
        Self::NotFound,
        Self::AlreadyExists,
        Self::PermissionDenied,
        Self::ResourceExhausted,
        Self::FailedPrecondition,
        Self::Aborted,
        Self::OutOfRange,
        Self::Unimplemented,
        Self::Internal,
        Self::Unavailable,
        Self::DataLoss,
        Self::Unauthenticated,
    ];

    /// Returns the code with this number in the C interface.
    pub(crate) fn from_raw(raw: i32) -> Self {
        let index = usize::try_from(raw).ok().and_then(|raw| raw.checked_sub(1));
        index
            .and_then(|index| Self::ALL.get(index).copied())
            .unwrap_or(Self::Unknown)
    }
}

/// The error of an operation with a PJRT plugin.
///
/// If a plugin aborts the process, no error is returned. XLA aborts the process when it finds a bug in itself.
#[derive(Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum PjrtError {
    /// The environment variable does not name a plugin.
    #[error(
        "cannot load a PJRT plugin: expected the path of a plugin in the environment variable `{variable}`, found {found}; set it to a shared library such as `pjrt_c_api_gpu_plugin.so`, or pass the path to `Client::load`"
    )]
    NoPlugin {
        /// The name of the variable.
        variable: &'static str,
        /// The content of the variable.
        found: String,
    },
    /// No file exists at the path of the plugin.
    #[error(
        "cannot load the PJRT plugin {path:?}: expected a shared library, found no file; correct the path{}, or the environment variable `PYTREE_PJRT_PLUGIN` if it comes from there",
        .absolute.as_ref().map(|path| format!(" (it means {} here)", path.display())).unwrap_or_default()
    )]
    NotFound {
        /// The path.
        path: PathBuf,
        /// The absolute path, if the path is relative.
        absolute: Option<PathBuf>,
    },
    /// The file of the plugin is not a shared library that this system can load.
    #[error(
        "cannot load the PJRT plugin {path:?}: expected a shared library, found {found}; {fix} ({reason})"
    )]
    NotALibrary {
        /// The path.
        path: PathBuf,
        /// A description of the file.
        found: String,
        /// How to fix the call.
        fix: &'static str,
        /// The error of the system.
        reason: String,
    },
    /// The shared library is not a PJRT plugin.
    #[error(
        "cannot load the PJRT plugin {path:?}: expected a library with the function `GetPjrtApi`, found {found}; {fix}"
    )]
    NotAPlugin {
        /// The path.
        path: PathBuf,
        /// A description of the library.
        found: &'static str,
        /// How to fix the call.
        fix: &'static str,
    },
    /// The plugin has an unsupported version of the PJRT interface.
    #[error(
        "cannot load the PJRT plugin {path:?}: expected PJRT {}.{} or newer with the major version {}, found {}.{}; use a plugin of a JAX release of 2025 or later",
        .oldest.0, .oldest.1, .oldest.0, .found.0, .found.1
    )]
    Version {
        /// The path.
        path: PathBuf,
        /// The oldest supported version: major and minor.
        oldest: (i32, i32),
        /// The version of the plugin.
        found: (i32, i32),
    },
    /// This target has no shared libraries.
    #[error(
        "cannot load the PJRT plugin {path:?}: expected a target with shared libraries, found `{target}`; build for a system such as Linux"
    )]
    UnsupportedTarget {
        /// The path.
        path: PathBuf,
        /// The architecture and the operating system of the target.
        target: String,
    },
    /// The plugin finds no device.
    #[error(
        "cannot create a client of the PJRT plugin {path:?}: expected at least one device, found none: {message}; check the driver and the devices that the process may see (`nvidia-smi`, `CUDA_VISIBLE_DEVICES`), or use the plugin of another platform"
    )]
    NoDevice {
        /// The path.
        path: PathBuf,
        /// The plugin's message.
        message: String,
    },
    /// The plugin cannot create a client.
    #[error(
        "cannot create a client of the PJRT plugin {path:?} with the options {options}: {message} ({code:?}); check the names and types of the options in the plugin's documentation"
    )]
    Client {
        /// The path.
        path: PathBuf,
        /// The names and values of the options.
        options: String,
        /// The kind of the error.
        code: ErrorCode,
        /// The plugin's message.
        message: String,
    },
    /// A client has no device with the index.
    #[error(
        "cannot {doing}: expected the index of one of {count} devices, found {index}; use an index less than {count}, or load the plugin with more devices"
    )]
    DeviceIndex {
        /// The operation.
        doing: &'static str,
        /// The index.
        index: usize,
        /// The number of devices.
        count: usize,
    },
    /// The plugin could not compile a program.
    #[error("cannot compile the StableHLO program `{program}`: {} ({code:?}); correct the program at the place that the message names", first_lines(.message))]
    Compile {
        /// The name of the module. If the module has no name, the first line of its text.
        program: String,
        /// The kind of the error.
        code: ErrorCode,
        /// The plugin's message.
        message: String,
    },
    /// The device has too little memory.
    #[error(
        "cannot {doing}: the memory of the device is exhausted: {message}; drop buffers, donate inputs, or use smaller arrays"
    )]
    OutOfMemory {
        /// The operation.
        doing: String,
        /// The plugin's message.
        message: String,
    },
    /// The number of inputs differs from the number of the program's parameters.
    #[error(
        "cannot run `{executable}`: expected {expected} inputs, found {found}; pass one buffer for each parameter of the program"
    )]
    InputCount {
        /// The name of the program.
        executable: String,
        /// The number of parameters.
        expected: usize,
        /// The number of inputs.
        found: usize,
    },
    /// The element type or the dimensions of an input differ from those of the program's parameter.
    #[error(
        "cannot run `{executable}`: expected `{expected}` for input {index}, found `{found}`; pass a buffer of type `{expected}`, or compile the program for `{found}`"
    )]
    InputType {
        /// The name of the program.
        executable: String,
        /// The index of the input.
        index: usize,
        /// The type of the parameter.
        expected: ArrayInfo,
        /// The type of the buffer.
        found: ArrayInfo,
    },
    /// The device or the client of an input differs from that of the program.
    #[error(
        "cannot run `{executable}`: expected input {index} on {expected}, found it on {found}; put the input on {expected}, or compile the program for {found}"
    )]
    InputDevice {
        /// The name of the program.
        executable: String,
        /// The index of the input.
        index: usize,
        /// The device of the program.
        expected: String,
        /// The device of the buffer.
        found: String,
    },
    /// A buffer is used after it was donated.
    #[error(
        "cannot {doing}: expected a buffer with memory, found a `{buffer}` that was donated to `{executable}`; use the result of that run, or do not donate this input"
    )]
    Donated {
        /// The operation.
        doing: String,
        /// The type of the buffer.
        buffer: ArrayInfo,
        /// The program that received the memory.
        executable: String,
    },
    /// An input cannot be donated.
    #[error("cannot donate input {index} of `{executable}`: {problem}; {fix}")]
    Donation {
        /// The name of the program.
        executable: String,
        /// The index of the input.
        index: usize,
        /// The reason why the input cannot be donated.
        problem: String,
        /// How to fix the call.
        fix: &'static str,
    },
    /// A run failed. This error may be returned when a result is read.
    #[error("the run of `{executable}` failed: {message} ({code:?}); its results have no values")]
    Execute {
        /// The name of the program.
        executable: String,
        /// The kind of the error.
        code: ErrorCode,
        /// The plugin's message.
        message: String,
    },
    /// The number of bytes differs from the size of the array.
    #[error("cannot put a `{array}`: expected {}, found {found} bytes; pass the elements of all axes, the last axis contiguous", match .array.bytes() { usize::MAX => "an array that fits into memory".to_owned(), bytes => format!("{bytes} bytes") })]
    Size {
        /// The type of the array.
        array: ArrayInfo,
        /// The number of bytes that were passed.
        found: usize,
    },
    /// A buffer is read as elements of another type.
    #[error("cannot read a buffer as elements of `{expected}`: found a `{found}`; read it as `{}`, or use `to_bytes`", .found.element)]
    ElementType {
        /// The element type of the Rust type.
        expected: crate::element::ElementType,
        /// The type of the buffer.
        found: ArrayInfo,
    },
    /// A parameter or a result of a program has an element type that this crate does not support.
    #[error(
        "cannot use `{executable}`: expected results of known element types, found the PJRT type {found}; convert it in the program"
    )]
    UnknownType {
        /// The name of the program.
        executable: String,
        /// The number in `PJRT_Buffer_Type`.
        found: i32,
    },
    /// The bytes are not a program that this plugin can load.
    #[error(
        "cannot load a compiled program: expected bytes of `Executable::serialize` of the same plugin, found {found} bytes: {message}; compile the program again"
    )]
    Deserialize {
        /// The number of bytes.
        found: usize,
        /// The plugin's message.
        message: String,
    },
    /// Another function of the plugin returned an error.
    #[error(
        "cannot {doing}: the PJRT plugin's function `{function}` returned: {message} ({code:?})"
    )]
    Plugin {
        /// The operation.
        doing: String,
        /// The name of the function.
        function: &'static str,
        /// The kind of the error.
        code: ErrorCode,
        /// The plugin's message.
        message: String,
    },
}

pytree_base::debug_as_display!(PjrtError);

/// An error that a function of the plugin returned.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub(crate) function: &'static str,
    pub(crate) code: ErrorCode,
    pub(crate) message: String,
}

impl Failure {
    /// Creates the failure of a function that cannot do what the crate needs.
    pub(crate) fn unimplemented(function: &'static str, message: String) -> Self {
        Self {
            function,
            code: ErrorCode::Unimplemented,
            message,
        }
    }
}

impl PjrtError {
    /// Returns the error for an operation during which a function of the plugin failed.
    pub(crate) fn plugin(doing: impl Into<String>, failure: Failure) -> Self {
        let doing = doing.into();
        if is_exhausted(&failure) {
            let message = failure.message;
            return Self::OutOfMemory { doing, message };
        }
        let Failure {
            function,
            code,
            message,
        } = failure;
        Self::Plugin {
            doing,
            function,
            code,
            message,
        }
    }

    /// Returns the error for a run that failed, immediately or later.
    pub(crate) fn execute(executable: &str, failure: Failure) -> Self {
        if is_exhausted(&failure) {
            return Self::plugin(format!("run `{executable}`"), failure);
        }
        let Failure { code, message, .. } = failure;
        let executable = executable.to_owned();
        Self::Execute {
            executable,
            code,
            message,
        }
    }
}

/// Returns whether memory was exhausted. An error that is returned later may have another code, but its message
/// contains the message of the first error.
fn is_exhausted(failure: &Failure) -> bool {
    failure.code == ErrorCode::ResourceExhausted || failure.message.contains("Out of memory")
}

/// The number of lines of a compiler's message that an error displays. The field `message` contains the whole message.
const LINES: usize = 12;

/// Returns the first lines of a message, which may contain a whole program.
fn first_lines(message: &str) -> String {
    let lines: Vec<&str> = message.trim_end().lines().collect();
    match lines.len().checked_sub(LINES) {
        None | Some(0) => lines.join("\n"),
        Some(more) => format!("{}\n… and {more} more lines", lines[..LINES].join("\n")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_those_of_absl() {
        assert_eq!(ErrorCode::from_raw(3), ErrorCode::InvalidArgument);
        assert_eq!(ErrorCode::from_raw(8), ErrorCode::ResourceExhausted);
        assert_eq!(ErrorCode::from_raw(16), ErrorCode::Unauthenticated);
        assert_eq!(ErrorCode::from_raw(17), ErrorCode::Unknown);
        assert_eq!(ErrorCode::from_raw(0), ErrorCode::Unknown);
    }

    #[test]
    fn long_messages_are_cut() {
        let message = "line\n".repeat(20);
        assert_eq!(first_lines(&message).lines().count(), LINES + 1);
        assert!(first_lines(&message).ends_with("… and 8 more lines"));
        assert_eq!(first_lines("one\ntwo\n"), "one\ntwo");
    }
}
