//! The boundary to the C interface. This file contains all unsafe code of the crate, so the file is long. The interface
//! of the file is safe.
//!
//! Each handle owns one object of the plugin and frees the object when the handle is dropped. A handle also keeps alive
//! the objects that its own object depends on. If a function fails, the plugin's error object is converted to a
//! [`Failure`] and freed.
//!
//! # Threads
//! The handles are `Send` and `Sync` because PJRT requires thread-safe implementations. XLA documents `PjRtClient` as
//! thread-safe, its functions lock the data that they change, and JAX calls them from any number of threads. Only the
//! function that frees an object must not run at the same time as another use of the object. Rust drops a handle only
//! when no reference to it exists.

mod abi;

use std::any::Any;
use std::ffi::{c_char, c_int, c_void};
use std::ptr::{self, NonNull};
use std::sync::Arc;

use self::abi::{Arguments, NamedValue, NamedValueData, host_buffer, value_type};
use crate::error::{ErrorCode, Failure};
use crate::options::OptionValue;
use crate::stats::{CompiledMemory, DeviceMemory};

pub(crate) type Result<T> = std::result::Result<T, Failure>;

/// A function of the table. The function takes a pointer to the struct of its arguments.
type Function = unsafe extern "C" fn(*mut c_void) -> *mut abi::Error;
/// The type of the two functions without a result: one frees an error, and one reads its message.
type VoidFunction = unsafe extern "C" fn(*mut c_void);

/// The functions of a plugin. The library of the plugin is never unloaded.
#[derive(Debug)]
pub(crate) struct Api {
    table: NonNull<abi::Table>,
    size: usize,
    pub(crate) version: (i32, i32),
}

// SAFETY: the table is constant after the library is loaded, and the library is never unloaded.
unsafe impl Send for Api {}
// SAFETY: as above.
unsafe impl Sync for Api {}

/// The reason why a file is not a usable plugin.
#[derive(Debug)]
#[cfg(any(unix, windows))]
pub(crate) enum OpenError {
    /// The system cannot load the file as a library. The text is the reason.
    NotALibrary(String),
    /// The library has no function `GetPjrtApi`, or the function returns null.
    NotAPlugin,
    /// The plugin's table has this unsupported version.
    Version(i32, i32),
    /// The plugin could not be initialized.
    Initialize(Failure),
}

#[cfg(any(unix, windows))]
impl Api {
    /// The oldest version whose table has the functions in the order that this crate expects.
    pub(crate) const OLDEST: (i32, i32) = (abi::MAJOR, abi::OLDEST_MINOR);

    /// Loads a plugin and initializes it. The library stays loaded until the process ends.
    pub(crate) fn open(path: &std::path::Path) -> std::result::Result<Self, OpenError> {
        // SAFETY: initializers of a library may do anything. The caller of `Client::load` names the file, and thereby
        // trusts it.
        let library = unsafe { libloading::Library::new(path) }
            .map_err(|error| OpenError::NotALibrary(reason(&error)))?;
        // Leak the library, because objects and threads of the plugin may exist until the process ends.
        let library = Box::leak(Box::new(library));
        // SAFETY: the header declares `const PJRT_Api* GetPjrtApi()`.
        let get =
            unsafe { library.get::<unsafe extern "C" fn() -> *mut abi::Table>(b"GetPjrtApi\0") };
        let get = get.map_err(|_| OpenError::NotAPlugin)?;
        // SAFETY: the function has no arguments. The returned table lives as long as the library.
        let table = NonNull::new(unsafe { get() }).ok_or(OpenError::NotAPlugin)?;
        // SAFETY: every version of the table begins with its size and its version.
        let head = unsafe { table.as_ref() };
        let version = (head.major, head.minor);
        if version.0 != abi::MAJOR || version.1 < abi::OLDEST_MINOR {
            return Err(OpenError::Version(version.0, version.1));
        }
        let size = head.struct_size;
        let api = Self {
            table,
            size,
            version,
        };
        // SAFETY: the function takes no pointers.
        unsafe { api.call(abi::PluginInitialize::default()) }.map_err(OpenError::Initialize)?;
        Ok(api)
    }
}

impl Api {
    /// Returns the function that takes the arguments `A`, or `None` if the plugin's table is too short.
    fn function<A: Arguments>(&self) -> Option<Function> {
        let offset = size_of::<abi::Table>() + A::SLOT * size_of::<Option<Function>>();
        if offset + size_of::<Option<Function>>() > self.size {
            return None;
        }
        // SAFETY: the position is inside of the table. The table contains pointers to functions, which may be null.
        unsafe {
            self.table
                .byte_add(offset)
                .cast::<Option<Function>>()
                .read()
        }
    }

    /// Calls the function that takes these arguments. Returns the arguments with the values that the function wrote.
    ///
    /// # Safety
    /// The pointers in the arguments must satisfy the requirements of the function in the header.
    unsafe fn call<A: Arguments>(&self, mut arguments: A) -> Result<A> {
        let Some(function) = self.function::<A>() else {
            let (major, minor) = self.version;
            let name = A::FUNCTION;
            return Err(Failure {
                function: name,
                code: ErrorCode::Unimplemented,
                message: format!(
                    "the plugin has PJRT {major}.{minor}, which has no function `{name}`; use a newer plugin"
                ),
            });
        };
        arguments.set_size();
        // SAFETY: the function belongs to this type of arguments, and the caller guarantees that the pointers are
        // valid.
        let error = unsafe { function(ptr::from_mut(&mut arguments).cast()) };
        match NonNull::new(error) {
            None => Ok(arguments),
            Some(error) => Err(self.take_error(A::FUNCTION, error)),
        }
    }

    /// Calls the function that takes these arguments and has no result.
    ///
    /// # Safety
    /// The function must have no result, and the pointers must be valid.
    unsafe fn call_void<A: Arguments>(&self, mut arguments: A) -> A {
        if let Some(function) = self.function::<A>() {
            arguments.set_size();
            // SAFETY: the header declares the function without a result. All function pointers have the same
            // representation.
            let function = unsafe { std::mem::transmute::<Function, VoidFunction>(function) };
            // SAFETY: the caller guarantees that the pointers are valid.
            unsafe { function(ptr::from_mut(&mut arguments).cast()) };
        }
        arguments
    }

    /// Reads an error and frees it.
    fn take_error(&self, function: &'static str, error: NonNull<abi::Error>) -> Failure {
        let error = error.as_ptr();
        // SAFETY: the error exists until it is destroyed at the end. The message is copied before the error is
        // destroyed.
        unsafe {
            let code = self.call(abi::ErrorGetCode::of(error));
            let code = code.map_or(ErrorCode::Unknown, |got| ErrorCode::from_raw(got.code));
            let got = self.call_void(abi::ErrorMessage::of(error));
            let message = text(got.message, got.message_size);
            self.call_void(abi::ErrorDestroy::of(error));
            Failure {
                function,
                code,
                message,
            }
        }
    }

    /// Returns the properties that the plugin reports, such as the versions of XLA and StableHLO.
    pub(crate) fn attributes(&self) -> Result<Vec<(String, OptionValue)>> {
        // SAFETY: the attributes live as long as the process.
        unsafe {
            let got = self.call(abi::PluginAttributes::default())?;
            Ok(named_values(got.attributes, got.num_attributes))
        }
    }

    /// Returns the functions themselves: a client and an event keep them, and other handles keep the client.
    fn api(&'static self) -> &'static Self {
        self
    }

    /// Returns an event of the plugin as a handle.
    fn event(&'static self, raw: *mut abi::Event) -> Option<EventHandle> {
        NonNull::new(raw).map(|raw| EventHandle { api: self, raw })
    }
}

/// Returns the operating system's message about an error of `libloading`.
#[cfg(any(unix, windows))]
fn reason(error: &libloading::Error) -> String {
    use std::error::Error as _;
    error
        .source()
        .map_or_else(|| error.to_string(), ToString::to_string)
}

/// Copies a text of the plugin.
///
/// # Safety
/// The pointer must be null or point to `size` bytes.
unsafe fn text(pointer: *const c_char, size: usize) -> String {
    // SAFETY: the caller guarantees that the pointer is null or valid for `size` elements.
    String::from_utf8_lossy(unsafe { slice(pointer.cast::<u8>(), size) }).into_owned()
}

/// Returns an array of the plugin. The pointer may be null if the array is empty.
///
/// # Safety
/// The pointer must be null or point to `size` values that live for `'a`.
unsafe fn slice<'a, T>(pointer: *const T, size: usize) -> &'a [T] {
    if pointer.is_null() || size == 0 {
        return &[];
    }
    // SAFETY: the caller guarantees that the pointer is null or valid for `size` elements.
    unsafe { std::slice::from_raw_parts(pointer, size) }
}

/// Returns the object that a function created. Returns an error if the pointer is null.
fn created<T>(function: &'static str, pointer: *mut T) -> Result<NonNull<T>> {
    NonNull::new(pointer).ok_or_else(|| Failure {
        function,
        code: ErrorCode::Internal,
        message: "the plugin reported success and returned a null pointer".to_owned(),
    })
}

/// Copies named values of the plugin. Omits values of unknown types.
///
/// # Safety
/// The pointer must be null or point to `count` values.
unsafe fn named_values(first: *const NamedValue, count: usize) -> Vec<(String, OptionValue)> {
    let mut values = Vec::new();
    if first.is_null() {
        return values;
    }
    // A newer plugin may have longer structs. Each struct contains its size without padding.
    // SAFETY: a first value exists if the count is not 0.
    let stride = if count == 0 {
        0
    } else {
        unsafe { (*first).struct_size }
    };
    let stride = stride
        .next_multiple_of(align_of::<NamedValue>())
        .max(size_of::<NamedValue>());
    for index in 0..count {
        // SAFETY: the index is less than the count. The type of the value determines the valid field of the union.
        unsafe {
            let value = &*first.byte_add(index * stride);
            let data = value.value;
            let read = match value.value_type {
                value_type::STRING => OptionValue::String(text(data.string, value.value_size)),
                value_type::INT64 => OptionValue::Int(data.int64),
                value_type::INT64_LIST => {
                    OptionValue::Ints(slice(data.int64_list, value.value_size).to_vec())
                }
                value_type::FLOAT => OptionValue::Float(data.float),
                value_type::BOOL => OptionValue::Bool(data.boolean),
                _ => continue,
            };
            values.push((text(value.name, value.name_size), read));
        }
    }
    values
}

/// Returns the C form of an option. The C form borrows from the option.
fn named_value((name, value): &(String, OptionValue)) -> NamedValue {
    let (value_type, value, value_size) = match value {
        OptionValue::String(text) => (
            value_type::STRING,
            NamedValueData {
                string: text.as_ptr().cast(),
            },
            text.len(),
        ),
        OptionValue::Int(int64) => (value_type::INT64, NamedValueData { int64: *int64 }, 1),
        OptionValue::Ints(list) => (
            value_type::INT64_LIST,
            NamedValueData {
                int64_list: list.as_ptr(),
            },
            list.len(),
        ),
        OptionValue::Float(float) => (value_type::FLOAT, NamedValueData { float: *float }, 1),
        OptionValue::Bool(boolean) => (value_type::BOOL, NamedValueData { boolean: *boolean }, 1),
    };
    NamedValue {
        struct_size: NamedValue::SIZE,
        extension_start: ptr::null_mut(),
        name: name.as_ptr().cast(),
        name_size: name.len(),
        value_type,
        value,
        value_size,
    }
}

/// Declares a handle that frees its object with the given function.
macro_rules! handle {
    ($(#[$doc:meta])* $name:ident of $raw:ident, kept by $keeper:ident: $keeper_type:ty, freed by $free:ident) => {
        $(#[$doc])*
        #[derive(Debug)]
        pub(crate) struct $name {
            $keeper: $keeper_type,
            raw: NonNull<abi::$raw>,
        }

        // SAFETY: PJRT is thread-safe; see the module's documentation.
        unsafe impl Send for $name {}
        // SAFETY: as above.
        unsafe impl Sync for $name {}

        impl $name {
            fn api(&self) -> &'static Api {
                self.$keeper.api()
            }
        }

        impl Drop for $name {
            fn drop(&mut self) {
                // SAFETY: the handle owns the object, and nothing uses the object any more. An error cannot be reported
                // here.
                let _ = unsafe { self.api().call(abi::$free::of(self.raw.as_ptr())) };
            }
        }
    };
}

handle! {
    /// An event, which becomes ready when asynchronous work is done.
    EventHandle of Event, kept by api: &'static Api, freed by EventDestroy
}
handle! {
    /// A client, which owns devices.
    ClientHandle of Client, kept by api: &'static Api, freed by ClientDestroy
}
handle! {
    /// A compiled program with its device.
    LoadedHandle of LoadedExecutable, kept by client: Arc<ClientHandle>, freed by LoadedExecutableDestroy
}
handle! {
    /// A compiled program without its device. The plugin returns the properties of the program for this object.
    ProgramHandle of Executable, kept by client: Arc<ClientHandle>, freed by ExecutableDestroy
}
handle! {
    /// An array on a device.
    BufferHandle of Buffer, kept by client: Arc<ClientHandle>, freed by BufferDestroy
}

impl EventHandle {
    /// Waits until the work is done. Returns the error of the work.
    pub(crate) fn wait(&self) -> Result<()> {
        // SAFETY: the event is alive.
        unsafe { self.api.call(abi::EventAwait::of(self.raw.as_ptr())) }.map(drop)
    }

    /// Returns whether the work is done or has failed.
    pub(crate) fn is_ready(&self) -> Result<bool> {
        // SAFETY: the event is alive.
        let got = unsafe { self.api.call(abi::EventIsReady::of(self.raw.as_ptr()))? };
        Ok(got.is_ready)
    }

    /// Drops a value on a thread of the plugin, after the work is done.
    fn drop_when_ready(&self, owner: Box<dyn Any + Send + Sync>) -> Result<()> {
        /// The argument of the callback.
        struct Kept {
            api: &'static Api,
            owner: Box<dyn Any + Send + Sync>,
        }
        extern "C" fn release(error: *mut abi::Error, argument: *mut c_void) {
            // SAFETY: the argument is from `Box::into_raw` below, and the plugin calls this function only once.
            let kept = unsafe { Box::from_raw(argument.cast::<Kept>()) };
            drop(kept.owner);
            if let Some(error) = NonNull::new(error) {
                // The buffer reports the same error when it is read.
                let _ = kept.api.take_error("PJRT_Event_OnReady", error);
            }
        }
        let kept = Kept {
            api: self.api,
            owner,
        };
        let mut arguments = abi::EventOnReady::of(self.raw.as_ptr());
        arguments.callback = Some(release);
        arguments.user_arg = Box::into_raw(Box::new(kept)).cast();
        // SAFETY: the event is alive, and the argument stays alive until the callback runs. If the plugin refuses the
        // callback, the owner is leaked, because the plugin may still use the owner's memory.
        unsafe { self.api.call(arguments) }.map(drop)
    }
}

impl ClientHandle {
    /// Creates a client with options of the plugin.
    pub(crate) fn create(
        api: &'static Api,
        options: &[(String, OptionValue)],
    ) -> Result<Arc<Self>> {
        let options: Vec<NamedValue> = options.iter().map(named_value).collect();
        let mut arguments = abi::ClientCreate::of(options.as_ptr());
        arguments.num_options = options.len();
        // SAFETY: the options live during the call, and the callbacks are null.
        let got = unsafe { api.call(arguments)? };
        let raw = created("PJRT_Client_Create", got.client)?;
        Ok(Arc::new(Self { api, raw }))
    }

    /// Returns the name of the platform, such as `cpu`.
    pub(crate) fn platform_name(&self) -> Result<String> {
        // SAFETY: the text lives as long as the client.
        unsafe {
            let got = self
                .api
                .call(abi::ClientPlatformName::of(self.raw.as_ptr()))?;
            Ok(text(got.platform_name, got.platform_name_size))
        }
    }

    /// Returns the version of the platform as the plugin writes it.
    pub(crate) fn platform_version(&self) -> Result<String> {
        // SAFETY: the text lives as long as the client.
        unsafe {
            let got = self
                .api
                .call(abi::ClientPlatformVersion::of(self.raw.as_ptr()))?;
            Ok(text(got.platform_version, got.platform_version_size))
        }
    }

    /// Returns the devices that this process can use.
    pub(crate) fn devices(self: &Arc<Self>) -> Result<Vec<DeviceHandle>> {
        // SAFETY: the array and the devices live as long as the client.
        let devices = unsafe {
            let got = self
                .api
                .call(abi::ClientAddressableDevices::of(self.raw.as_ptr()))?;
            slice(got.addressable_devices, got.num_addressable_devices)
        };
        Ok(DeviceHandle::all(self, devices))
    }

    /// Compiles a StableHLO program. `options` holds the bytes of a `CompileOptionsProto`.
    pub(crate) fn compile(
        self: &Arc<Self>,
        program: &str,
        options: &[u8],
    ) -> Result<ExecutableHandle> {
        const FORMAT: &str = "mlir";
        let mut described = abi::Program::empty();
        described.code = program.as_ptr().cast_mut().cast();
        described.code_size = program.len();
        described.format = FORMAT.as_ptr().cast();
        described.format_size = FORMAT.len();
        let mut arguments = abi::ClientCompile::of(self.raw.as_ptr());
        arguments.program = &raw const described;
        arguments.compile_options = options.as_ptr().cast();
        arguments.compile_options_size = options.len();
        // SAFETY: the program and the options live during the call, which only reads them.
        let got = unsafe { self.api.call(arguments)? };
        ExecutableHandle::new(self, created("PJRT_Client_Compile", got.executable)?)
    }

    /// Loads an executable that [`ExecutableHandle::serialize`] of the same plugin wrote.
    pub(crate) fn deserialize(self: &Arc<Self>, bytes: &[u8]) -> Result<ExecutableHandle> {
        let mut arguments = abi::ExecutableDeserializeAndLoad::of(self.raw.as_ptr());
        arguments.serialized_executable = bytes.as_ptr().cast();
        arguments.serialized_executable_size = bytes.len();
        // SAFETY: the bytes live during the call, which only reads them.
        let got = unsafe { self.api.call(arguments)? };
        let loaded = created("PJRT_Executable_DeserializeAndLoad", got.loaded_executable)?;
        ExecutableHandle::new(self, loaded)
    }
}

/// A device of a client.
#[derive(Clone, Debug)]
pub(crate) struct DeviceHandle {
    client: Arc<ClientHandle>,
    raw: NonNull<abi::Device>,
}

// SAFETY: PJRT is thread-safe; see the module's documentation. The client owns the device.
unsafe impl Send for DeviceHandle {}
// SAFETY: as above.
unsafe impl Sync for DeviceHandle {}

impl PartialEq for DeviceHandle {
    fn eq(&self, other: &Self) -> bool {
        self.raw == other.raw
    }
}

impl DeviceHandle {
    fn all(client: &Arc<ClientHandle>, devices: &[*mut abi::Device]) -> Vec<Self> {
        let devices = devices.iter().filter_map(|&raw| NonNull::new(raw));
        let handle = |raw| Self {
            client: Arc::clone(client),
            raw,
        };
        devices.map(handle).collect()
    }

    /// Returns the client of the device.
    pub(crate) fn client(&self) -> &Arc<ClientHandle> {
        &self.client
    }

    fn description(&self) -> Result<*mut abi::DeviceDescription> {
        let arguments = abi::DeviceGetDescription::of(self.raw.as_ptr());
        // SAFETY: the device lives as long as the client.
        let got = unsafe { self.client.api.call(arguments)? };
        Ok(got.device_description)
    }

    /// Returns the id of the device, which is unique among the devices of all processes.
    pub(crate) fn id(&self) -> Result<i32> {
        let arguments = abi::DeviceDescriptionId::of(self.description()?);
        // SAFETY: the description lives as long as the device.
        let got = unsafe { self.client.api.call(arguments)? };
        Ok(got.id)
    }

    /// Returns the kind of the device, such as the model of a GPU.
    pub(crate) fn kind(&self) -> Result<String> {
        let arguments = abi::DeviceDescriptionKind::of(self.description()?);
        // SAFETY: the description and the text live as long as the device.
        unsafe {
            let got = self.client.api.call(arguments)?;
            Ok(text(got.device_kind, got.device_kind_size))
        }
    }

    /// Returns the plugin's text for the device.
    pub(crate) fn words(&self) -> Result<String> {
        let arguments = abi::DeviceDescriptionToString::of(self.description()?);
        // SAFETY: the description and the text live as long as the device.
        unsafe {
            let got = self.client.api.call(arguments)?;
            Ok(text(got.to_string, got.to_string_size))
        }
    }

    /// Returns the memory use of the device. Plugins for CPUs do not count memory.
    pub(crate) fn memory(&self) -> Result<DeviceMemory> {
        let arguments = abi::DeviceMemoryStats::of(self.raw.as_ptr());
        // SAFETY: the device lives as long as the client.
        let got = unsafe { self.client.api.call(arguments)? };
        Ok(DeviceMemory {
            in_use: got.bytes_in_use,
            peak: got
                .peak_bytes_in_use_is_set
                .then_some(got.peak_bytes_in_use),
            limit: got.bytes_limit_is_set.then_some(got.bytes_limit),
        })
    }

    /// Copies an array to the device. The plugin reads the bytes before the function returns.
    pub(crate) fn put(&self, element: i32, dims: &[i64], bytes: &[u8]) -> Result<BufferHandle> {
        let semantics = host_buffer::IMMUTABLE_ONLY_DURING_CALL;
        // SAFETY: with these semantics, the plugin does not read the bytes after the call.
        let (buffer, event) = unsafe { self.put_raw(element, dims, bytes, semantics)? };
        drop(event);
        Ok(buffer)
    }

    /// Copies an array to the device, or lends its memory to the device where possible. The owner is dropped when the
    /// device no longer uses the memory.
    pub(crate) fn put_shared<O>(
        &self,
        element: i32,
        dims: &[i64],
        size: usize,
        owner: O,
    ) -> Result<BufferHandle>
    where
        O: AsRef<[u8]> + Send + Sync + 'static,
    {
        let owner = Box::new(owner);
        let semantics = host_buffer::IMMUTABLE_ZERO_COPY;
        let bytes = (*owner).as_ref();
        // The caller has checked the bytes of an earlier call. Safe code may return other bytes in each call, so the
        // size is checked again.
        assert_eq!(
            bytes.len(),
            size,
            "the owner of shared bytes returned a different number of bytes than before"
        );
        // SAFETY: the box keeps the bytes at their address, and nothing changes them. The owner is dropped when the
        // event reports that the memory is no longer used. Without an event, or if the event takes no callback, the
        // owner is never dropped.
        let (buffer, event) = unsafe { self.put_raw(element, dims, bytes, semantics)? };
        match event {
            Some(event) => event.drop_when_ready(owner)?,
            None => std::mem::forget(owner),
        }
        Ok(buffer)
    }

    /// Calls `PJRT_Client_BufferFromHostBuffer`.
    ///
    /// # Safety
    /// The bytes must be the elements of the array, and must live as long as the semantics require.
    unsafe fn put_raw(
        &self,
        element_type: c_int,
        dims: &[i64],
        bytes: &[u8],
        host_buffer_semantics: c_int,
    ) -> Result<(BufferHandle, Option<EventHandle>)> {
        let arguments = abi::BufferFromHostBuffer {
            data: bytes.as_ptr().cast(),
            element_type,
            dims: dims.as_ptr(),
            num_dims: dims.len(),
            host_buffer_semantics,
            device: self.raw.as_ptr(),
            ..abi::BufferFromHostBuffer::of(self.client.raw.as_ptr())
        };
        // SAFETY: the dimensions live during the call, and the caller guarantees that the bytes are valid.
        let got = unsafe { self.client.api.call(arguments)? };
        let event = self.client.api.event(got.done_with_host_buffer);
        let raw = created("PJRT_Client_BufferFromHostBuffer", got.buffer)?;
        let client = Arc::clone(&self.client);
        Ok((BufferHandle { client, raw }, event))
    }
}

/// The function that runs a program.
const EXECUTE: &str = "PJRT_LoadedExecutable_Execute";

/// A compiled program.
#[derive(Debug)]
pub(crate) struct ExecutableHandle {
    program: ProgramHandle,
    loaded: LoadedHandle,
}

impl ExecutableHandle {
    fn new(client: &Arc<ClientHandle>, raw: NonNull<abi::LoadedExecutable>) -> Result<Self> {
        let loaded = LoadedHandle {
            client: Arc::clone(client),
            raw,
        };
        let arguments = abi::LoadedExecutableGetExecutable::of(raw.as_ptr());
        // SAFETY: the executable is alive.
        let got = unsafe { client.api.call(arguments)? };
        let raw = created("PJRT_LoadedExecutable_GetExecutable", got.executable)?;
        let program = ProgramHandle {
            client: Arc::clone(client),
            raw,
        };
        Ok(Self { program, loaded })
    }

    fn api(&self) -> &'static Api {
        self.loaded.client.api
    }

    /// Returns the name of the module.
    pub(crate) fn name(&self) -> Result<String> {
        // SAFETY: the text lives as long as the executable.
        unsafe {
            let got = self
                .api()
                .call(abi::ExecutableName::of(self.program.raw.as_ptr()))?;
            Ok(text(got.executable_name, got.executable_name_size))
        }
    }

    /// Returns the devices that run the program and that this process can use.
    pub(crate) fn devices(&self) -> Result<Vec<DeviceHandle>> {
        let arguments = abi::LoadedExecutableAddressableDevices::of(self.loaded.raw.as_ptr());
        // SAFETY: the array lives as long as the executable, and the devices as long as the client.
        let devices = unsafe {
            let got = self.api().call(arguments)?;
            slice(got.addressable_devices, got.num_addressable_devices)
        };
        Ok(DeviceHandle::all(&self.loaded.client, devices))
    }

    /// Returns the element type and the dimensions of each result.
    pub(crate) fn outputs(&self) -> Result<Vec<(i32, Vec<i64>)>> {
        let (api, executable) = (self.api(), self.program.raw.as_ptr());
        // SAFETY: the arrays live as long as the executable, and have one value for each result. The array `ranks`
        // holds the rank of each result, and the array `dims` holds the dimensions of all results in sequence.
        let (types, ranks, mut dims) = unsafe {
            let count = api
                .call(abi::ExecutableNumOutputs::of(executable))?
                .num_outputs;
            let types = api.call(abi::ExecutableOutputElementTypes::of(executable))?;
            let dims = api.call(abi::ExecutableOutputDimensions::of(executable))?;
            let types = slice(types.output_types, count.min(types.num_output_types));
            let ranks = slice(dims.dim_sizes, count.min(dims.num_outputs));
            (types, ranks, slice(dims.dims, ranks.iter().sum()))
        };
        let outputs = types.iter().zip(ranks).map(|(&element, &rank)| {
            let (own, rest) = dims.split_at(rank);
            dims = rest;
            (element, own.to_vec())
        });
        Ok(outputs.collect())
    }

    /// Returns the estimates of the compiler, such as the number of operations.
    pub(crate) fn cost(&self) -> Result<Vec<(String, OptionValue)>> {
        let arguments = abi::ExecutableGetCostAnalysis::of(self.program.raw.as_ptr());
        // SAFETY: the properties live as long as the executable.
        unsafe {
            let got = self.api().call(arguments)?;
            Ok(named_values(got.properties, got.num_properties))
        }
    }

    /// Returns the memory that the program uses.
    pub(crate) fn memory(&self) -> Result<CompiledMemory> {
        let arguments = abi::ExecutableGetCompiledMemoryStats::of(self.program.raw.as_ptr());
        // SAFETY: the executable is alive.
        let got = unsafe { self.api().call(arguments)? };
        Ok(CompiledMemory {
            code: got.generated_code_size_in_bytes,
            inputs: got.argument_size_in_bytes,
            outputs: got.output_size_in_bytes,
            aliased: got.alias_size_in_bytes,
            temporary: got.temp_size_in_bytes,
        })
    }

    /// Returns the format and the bytes of the compiled program.
    pub(crate) fn optimized_program(&self) -> Result<(String, Vec<u8>)> {
        let mut program = abi::Program::empty();
        // SAFETY: the first call writes the size, and the second call writes this number of bytes to the vector. The
        // format is a text that the executable owns.
        unsafe {
            self.describe(&mut program)?;
            let mut bytes = vec![0_u8; program.code_size];
            program.code = bytes.as_mut_ptr().cast();
            self.describe(&mut program)?;
            bytes.truncate(program.code_size);
            Ok((text(program.format, program.format_size), bytes))
        }
    }

    /// Calls `PJRT_Executable_OptimizedProgram`.
    ///
    /// # Safety
    /// The code must be null, or must have the size that the function has written.
    unsafe fn describe(&self, program: &mut abi::Program) -> Result<()> {
        let mut arguments = abi::ExecutableOptimizedProgram::of(self.program.raw.as_ptr());
        arguments.program = program;
        // SAFETY: the executable is alive, the program lives during the call, and the caller guarantees that the code
        // is valid.
        unsafe { self.api().call(arguments) }.map(drop)
    }

    /// Returns the compiled program as bytes that only the same version of the same plugin can read.
    pub(crate) fn serialize(&self) -> Result<Vec<u8>> {
        // SAFETY: the bytes live until the deleter is called. The deleter is called once.
        unsafe {
            let arguments = abi::ExecutableSerialize::of(self.program.raw.as_ptr());
            let got = self.api().call(arguments)?;
            let bytes = slice(got.serialized_bytes.cast::<u8>(), got.serialized_bytes_size);
            let bytes = bytes.to_vec();
            if let Some(delete) = got.serialized_executable_deleter {
                delete(got.serialized_executable);
            }
            Ok(bytes)
        }
    }

    /// Starts the program on its device. The inputs at the given positions are not donated.
    ///
    /// If the program has no results, no result can report an error later. So the function waits for the end of the
    /// run.
    pub(crate) fn execute<'a>(
        &self,
        inputs: impl Iterator<Item = &'a BufferHandle>,
        not_donated: &[i64],
        outputs: usize,
    ) -> Result<Vec<BufferHandle>> {
        let inputs = inputs.map(|input| input.raw.as_ptr()).collect();
        // SAFETY: there is one list, for the device of the program.
        let results = unsafe { self.execute_lists(&[inputs], not_donated, outputs, false)? };
        Ok(results.into_iter().flatten().collect())
    }

    /// Starts the program on all of its devices. `inputs` has a list of the same length for each device, in the order of
    /// the replicas. The inputs at the given positions are not donated, on all devices. Returns the results of each
    /// device.
    ///
    /// With `waits`, the function returns at the end of the run. It also waits if the program has no results, like
    /// [`execute`](Self::execute).
    pub(crate) fn execute_all(
        &self,
        inputs: &[Vec<&BufferHandle>],
        not_donated: &[i64],
        outputs: usize,
        waits: bool,
    ) -> Result<Vec<Vec<BufferHandle>>> {
        let arity = inputs.first().map_or(0, Vec::len);
        // The plugin reads one list for each device of the program, and `arity` buffers from each list.
        if inputs.len() != self.devices()?.len() || inputs.iter().any(|list| list.len() != arity) {
            let message = format!("cannot run on {} lists of buffers", inputs.len());
            return Err(Failure::unimplemented(EXECUTE, message));
        }
        let raw = |list: &Vec<&BufferHandle>| list.iter().map(|input| input.raw.as_ptr()).collect();
        let inputs: Vec<Vec<*mut abi::Buffer>> = inputs.iter().map(raw).collect();
        // SAFETY: there is a list for each device, and all lists have the same length.
        unsafe { self.execute_lists(&inputs, not_donated, outputs, waits) }
    }

    /// Calls `PJRT_LoadedExecutable_Execute`, and waits for the end of the run if `waits` is true or there are no results.
    ///
    /// # Safety
    /// There must be a list of inputs for each device of the program. All lists must have the same length, and `outputs` must be the
    /// number of results that the executable reported.
    unsafe fn execute_lists(
        &self,
        inputs: &[Vec<*mut abi::Buffer>],
        not_donated: &[i64],
        outputs: usize,
        waits: bool,
    ) -> Result<Vec<Vec<BufferHandle>>> {
        let mut results: Vec<Vec<*mut abi::Buffer>> =
            vec![vec![ptr::null_mut(); outputs]; inputs.len()];
        let input_lists: Vec<*const *mut abi::Buffer> = inputs.iter().map(Vec::as_ptr).collect();
        let output_lists: Vec<*mut *mut abi::Buffer> =
            results.iter_mut().map(Vec::as_mut_ptr).collect();
        let mut complete: Vec<*mut abi::Event> = vec![ptr::null_mut(); inputs.len()];
        let mut options = abi::ExecuteOptions::empty();
        options.non_donatable_input_indices = not_donated.as_ptr();
        options.num_non_donatable_input_indices = not_donated.len();
        let mut arguments = abi::LoadedExecutableExecute {
            options: &raw mut options,
            argument_lists: input_lists.as_ptr(),
            num_devices: inputs.len(),
            num_args: inputs.first().map_or(0, Vec::len),
            output_lists: output_lists.as_ptr(),
            ..abi::LoadedExecutableExecute::of(self.loaded.raw.as_ptr())
        };
        if waits || outputs == 0 {
            arguments.device_complete_events = complete.as_mut_ptr();
        }
        // SAFETY: the executable and the inputs are alive. The caller guarantees that there is a list of inputs for each device, and
        // there are as many lists of results. The lists live during the call. Each list of results has a place for each result,
        // because the caller passes the number of results that the executable reported. The list of events has a place for each
        // device.
        unsafe { self.api().call(arguments)? };
        let buffer = |raw| {
            let raw = created(EXECUTE, raw)?;
            let client = Arc::clone(&self.loaded.client);
            Ok(BufferHandle { client, raw })
        };
        let of_device = |results: Vec<*mut abi::Buffer>| results.into_iter().map(buffer).collect();
        let results = results.into_iter().map(of_device).collect();
        // The events and the results are owned now, so an error frees them.
        let complete = complete.into_iter().map(|event| self.api().event(event));
        let complete: Vec<EventHandle> = complete.flatten().collect();
        complete.iter().try_for_each(EventHandle::wait)?;
        results
    }
}

impl BufferHandle {
    /// Frees the memory of the buffer when running programs no longer use it.
    pub(crate) fn delete(&self) -> Result<()> {
        // SAFETY: the buffer is alive.
        unsafe { self.api().call(abi::BufferDelete::of(self.raw.as_ptr())) }.map(drop)
    }

    /// Returns whether the buffer was deleted or donated.
    pub(crate) fn is_deleted(&self) -> Result<bool> {
        // SAFETY: the buffer is alive.
        let got = unsafe {
            self.api()
                .call(abi::BufferIsDeleted::of(self.raw.as_ptr()))?
        };
        Ok(got.is_deleted)
    }

    /// Returns an event that becomes ready when the content is computed.
    pub(crate) fn ready(&self) -> Result<EventHandle> {
        // SAFETY: the buffer is alive.
        let got = unsafe {
            self.api()
                .call(abi::BufferReadyEvent::of(self.raw.as_ptr()))?
        };
        let raw = created("PJRT_Buffer_ReadyEvent", got.event)?;
        Ok(EventHandle {
            api: self.api(),
            raw,
        })
    }

    /// Waits for the content, and copies it to the host. The last axis is contiguous.
    pub(crate) fn read(&self, rank: usize, target: &mut [u8]) -> Result<()> {
        if !target.is_empty() && self.is_plain_memory(rank).unwrap_or(false) {
            return self.read_memory(target);
        }
        // SAFETY: the target is borrowed until the copy has ended.
        match unsafe { self.read_raw(rank, target.as_mut_ptr(), target.len())? } {
            Some(event) => event.wait(),
            None => Ok(()),
        }
    }

    /// Returns whether the content is in the memory of the host with a contiguous last axis.
    fn is_plain_memory(&self, rank: usize) -> Result<bool> {
        let (api, buffer) = (self.api(), self.raw.as_ptr());
        // SAFETY: the buffer is alive, and the layout lives as long as the buffer.
        unsafe {
            if !api.call(abi::BufferIsOnCpu::of(buffer))?.is_on_cpu {
                return Ok(false);
            }
            let layout = api.call(abi::BufferGetMemoryLayout::of(buffer))?.layout;
            if layout.layout_type != abi::TILED || layout.num_tiles != 0 {
                return Ok(false);
            }
            let axes = slice(layout.minor_to_major, layout.minor_to_major_size);
            Ok(axes
                .iter()
                .copied()
                .eq((0..).take(rank).collect::<Vec<i64>>().into_iter().rev()))
        }
    }

    /// Waits for the content, and copies it from the memory of the host. A copy by the plugin takes 30 microseconds
    /// more, because it runs on another thread.
    fn read_memory(&self, target: &mut [u8]) -> Result<()> {
        const POINTER: &str = "PJRT_Buffer_OpaqueDeviceMemoryDataPointer";
        self.ready()?.wait()?;
        let (api, buffer) = (self.api(), self.raw.as_ptr());
        // SAFETY: the buffer is alive and ready. While the buffer has an external reference, the memory of the buffer
        // is not freed or donated. The target has the size of the content, which `read_raw` also requires.
        unsafe {
            api.call(abi::BufferIncreaseReferences::of(buffer))?;
            let got = api.call(abi::BufferPointer::of(buffer));
            let source = got.and_then(|got| created(POINTER, got.device_memory_ptr));
            let copied = source.map(|source| {
                let source = source.as_ptr().cast::<u8>();
                ptr::copy_nonoverlapping(source, target.as_mut_ptr(), target.len());
            });
            api.call(abi::BufferDecreaseReferences::of(buffer))?;
            copied
        }
    }

    /// Starts to copy the content to the host.
    pub(crate) fn start_read(&self, rank: usize, size: usize) -> Result<ReadHandle> {
        let mut bytes = vec![0_u8; size];
        // SAFETY: the handle owns the bytes. The handle does not use the bytes while the copy runs, and frees the bytes
        // after the end of the copy.
        let event = unsafe { self.read_raw(rank, bytes.as_mut_ptr(), size)? };
        Ok(ReadHandle { bytes, event })
    }

    /// Calls `PJRT_Buffer_ToHostBuffer`.
    ///
    /// # Safety
    /// The target must have `size` bytes, and nothing else may use it until the event is ready.
    unsafe fn read_raw(
        &self,
        rank: usize,
        target: *mut u8,
        size: usize,
    ) -> Result<Option<EventHandle>> {
        let mut minor_to_major: Vec<i64> = (0..).take(rank).collect();
        minor_to_major.reverse();
        let mut layout = abi::MemoryLayout::empty();
        layout.tiled_struct_size = abi::TILED_SIZE;
        layout.minor_to_major = minor_to_major.as_ptr();
        layout.minor_to_major_size = rank;
        let arguments = abi::BufferToHostBuffer {
            host_layout: &raw mut layout,
            dst: target.cast(),
            dst_size: size,
            ..abi::BufferToHostBuffer::of(self.raw.as_ptr())
        };
        // SAFETY: the buffer is alive, the layout lives during the call, and the caller guarantees that the target is
        // valid.
        let got = unsafe { self.api().call(arguments)? };
        Ok(self.api().event(got.event))
    }
}

/// A copy to the host that may still run.
#[derive(Debug)]
pub(crate) struct ReadHandle {
    bytes: Vec<u8>,
    event: Option<EventHandle>,
}

impl ReadHandle {
    /// Returns whether the copy has ended.
    pub(crate) fn is_ready(&self) -> Result<bool> {
        self.event.as_ref().map_or(Ok(true), EventHandle::is_ready)
    }

    /// Waits until the copy has ended, and returns the bytes.
    pub(crate) fn wait(mut self) -> Result<Vec<u8>> {
        if let Some(event) = self.event.take() {
            event.wait()?;
        }
        Ok(std::mem::take(&mut self.bytes))
    }
}

impl Drop for ReadHandle {
    fn drop(&mut self) {
        // The plugin writes to the bytes until the copy has ended.
        if let Some(event) = &self.event {
            let _ = event.wait();
        }
    }
}
