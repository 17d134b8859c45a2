//! The C structs of PJRT, as `xla/pjrt/c/pjrt_c_api.h` declares them in version 0.81.
//!
//! Later versions of the header only append fields to structs, and functions to the table. Each struct begins with its
//! size, so a plugin knows the fields that the caller has.

use std::ffi::{c_char, c_int, c_void};
use std::fmt;
use std::mem::offset_of;

/// The major version of this header. Other major versions have other structs.
#[cfg(any(unix, windows))]
pub(super) const MAJOR: c_int = 0;

/// The oldest minor version whose table has the functions in this order. Version 0.57 rearranged the table.
#[cfg(any(unix, windows))]
pub(super) const OLDEST_MINOR: c_int = 57;

/// Declares types that only the plugin knows.
macro_rules! opaque {
    ($($name:ident)*) => {$(
        #[repr(C)]
        #[derive(Debug)]
        pub(crate) struct $name([u8; 0]);
    )*};
}

opaque! {
    Error Event Client Device DeviceDescription Memory Executable LoadedExecutable Buffer SerializedExecutable
}

/// The arguments of one function of the table.
pub(super) trait Arguments {
    /// The name of the function.
    const FUNCTION: &'static str;
    /// The position of the function in the table.
    const SLOT: usize;

    /// Writes the size of the struct into the struct.
    fn set_size(&mut self);
}

/// Declares the structs of arguments. Each struct belongs to one function, and has the position of this function in the
/// table.
///
/// Each struct reports its size up to the end of its last field, without padding, as `PJRT_STRUCT_SIZE` does. In a
/// later version, the padding may be a field.
macro_rules! arguments {
    ($($slot:literal $function:literal $name:ident { $object:ident: $object_type:ty, $($field:ident: $type:ty,)* })*) => {$(
        #[repr(C)]
        #[derive(Debug, Default)]
        #[allow(clippy::struct_field_names, reason = "the names are those of the header")]
        pub(super) struct $name {
            pub(super) struct_size: usize,
            pub(super) extension_start: *mut c_void,
            pub(super) $object: $object_type,
            $(pub(super) $field: $type,)*
        }

        impl $name {
            /// Returns arguments with the given first field. The other fields are 0.
            #[allow(dead_code, reason = "not all functions are called with it")]
            pub(super) fn of($object: $object_type) -> Self {
                Self { $object, ..Self::default() }
            }
        }

        impl Arguments for $name {
            const FUNCTION: &'static str = $function;
            const SLOT: usize = $slot;

            fn set_size(&mut self) {
                let ends = [
                    offset_of!(Self, $object) + size_of::<$object_type>(),
                    $(offset_of!(Self, $field) + size_of::<$type>(),)*
                ];
                self.struct_size = ends.into_iter().fold(0, usize::max);
            }
        }
    )*};
}

arguments! {
    0 "PJRT_Error_Destroy" ErrorDestroy { error: *mut Error, }
    1 "PJRT_Error_Message" ErrorMessage { error: *const Error, message: *const c_char, message_size: usize, }
    2 "PJRT_Error_GetCode" ErrorGetCode { error: *const Error, code: c_int, }

    // This function has no arguments. The plugin does not read the field `none`.
    3 "PJRT_Plugin_Initialize" PluginInitialize { none: usize, }
    4 "PJRT_Plugin_Attributes" PluginAttributes { attributes: *const NamedValue, num_attributes: usize, }

    5 "PJRT_Event_Destroy" EventDestroy { event: *mut Event, }
    6 "PJRT_Event_IsReady" EventIsReady { event: *mut Event, is_ready: bool, }
    8 "PJRT_Event_Await" EventAwait { event: *mut Event, }
    9 "PJRT_Event_OnReady" EventOnReady {
        event: *mut Event,
        callback: Option<extern "C" fn(error: *mut Error, argument: *mut c_void)>,
        user_arg: *mut c_void,
    }

    10 "PJRT_Client_Create" ClientCreate {
        create_options: *const NamedValue,
        num_options: usize,
        kv_get_callback: *mut c_void,
        kv_get_user_arg: *mut c_void,
        kv_put_callback: *mut c_void,
        kv_put_user_arg: *mut c_void,
        client: *mut Client,
        kv_try_get_callback: *mut c_void,
        kv_try_get_user_arg: *mut c_void,
    }
    11 "PJRT_Client_Destroy" ClientDestroy { client: *mut Client, }
    12 "PJRT_Client_PlatformName" ClientPlatformName {
        client: *mut Client, platform_name: *const c_char, platform_name_size: usize,
    }
    14 "PJRT_Client_PlatformVersion" ClientPlatformVersion {
        client: *mut Client, platform_version: *const c_char, platform_version_size: usize,
    }
    16 "PJRT_Client_AddressableDevices" ClientAddressableDevices {
        client: *mut Client, addressable_devices: *const *mut Device, num_addressable_devices: usize,
    }
    20 "PJRT_Client_Compile" ClientCompile {
        client: *mut Client,
        program: *const Program,
        compile_options: *const c_char,
        compile_options_size: usize,
        executable: *mut LoadedExecutable,
    }
    22 "PJRT_Client_BufferFromHostBuffer" BufferFromHostBuffer {
        client: *mut Client,
        data: *const c_void,
        element_type: c_int,
        dims: *const i64,
        num_dims: usize,
        byte_strides: *const i64,
        num_byte_strides: usize,
        host_buffer_semantics: c_int,
        device: *mut Device,
        memory: *mut Memory,
        device_layout: *mut MemoryLayout,
        done_with_host_buffer: *mut Event,
        buffer: *mut Buffer,
    }

    23 "PJRT_DeviceDescription_Id" DeviceDescriptionId { device_description: *mut DeviceDescription, id: c_int, }
    26 "PJRT_DeviceDescription_Kind" DeviceDescriptionKind {
        device_description: *mut DeviceDescription, device_kind: *const c_char, device_kind_size: usize,
    }
    28 "PJRT_DeviceDescription_ToString" DeviceDescriptionToString {
        device_description: *mut DeviceDescription, to_string: *const c_char, to_string_size: usize,
    }
    29 "PJRT_Device_GetDescription" DeviceGetDescription {
        device: *mut Device, device_description: *mut DeviceDescription,
    }
    34 "PJRT_Device_MemoryStats" DeviceMemoryStats {
        device: *mut Device,
        bytes_in_use: i64,
        peak_bytes_in_use: i64,
        peak_bytes_in_use_is_set: bool,
        num_allocs: i64,
        num_allocs_is_set: bool,
        largest_alloc_size: i64,
        largest_alloc_size_is_set: bool,
        bytes_limit: i64,
        bytes_limit_is_set: bool,
        bytes_reserved: i64,
        bytes_reserved_is_set: bool,
        peak_bytes_reserved: i64,
        peak_bytes_reserved_is_set: bool,
        bytes_reservable_limit: i64,
        bytes_reservable_limit_is_set: bool,
        largest_free_block_bytes: i64,
        largest_free_block_bytes_is_set: bool,
        pool_bytes: i64,
        pool_bytes_is_set: bool,
        peak_pool_bytes: i64,
        peak_pool_bytes_is_set: bool,
    }

    40 "PJRT_Executable_Destroy" ExecutableDestroy { executable: *mut Executable, }
    41 "PJRT_Executable_Name" ExecutableName {
        executable: *mut Executable, executable_name: *const c_char, executable_name_size: usize,
    }
    44 "PJRT_Executable_NumOutputs" ExecutableNumOutputs { executable: *mut Executable, num_outputs: usize, }
    46 "PJRT_Executable_GetCostAnalysis" ExecutableGetCostAnalysis {
        executable: *mut Executable, num_properties: usize, properties: *const NamedValue,
    }
    48 "PJRT_Executable_OptimizedProgram" ExecutableOptimizedProgram {
        executable: *mut Executable, program: *mut Program,
    }
    49 "PJRT_Executable_Serialize" ExecutableSerialize {
        executable: *const Executable,
        serialized_bytes: *const c_char,
        serialized_bytes_size: usize,
        serialized_executable: *mut SerializedExecutable,
        serialized_executable_deleter: Option<unsafe extern "C" fn(*mut SerializedExecutable)>,
    }
    50 "PJRT_LoadedExecutable_Destroy" LoadedExecutableDestroy { executable: *mut LoadedExecutable, }
    51 "PJRT_LoadedExecutable_GetExecutable" LoadedExecutableGetExecutable {
        loaded_executable: *mut LoadedExecutable, executable: *mut Executable,
    }
    52 "PJRT_LoadedExecutable_AddressableDevices" LoadedExecutableAddressableDevices {
        executable: *mut LoadedExecutable, addressable_devices: *const *mut Device, num_addressable_devices: usize,
    }
    55 "PJRT_LoadedExecutable_Execute" LoadedExecutableExecute {
        executable: *mut LoadedExecutable,
        options: *mut ExecuteOptions,
        argument_lists: *const *const *mut Buffer,
        num_devices: usize,
        num_args: usize,
        output_lists: *const *mut *mut Buffer,
        device_complete_events: *mut *mut Event,
        execute_device: *mut Device,
    }
    56 "PJRT_Executable_DeserializeAndLoad" ExecutableDeserializeAndLoad {
        client: *mut Client,
        serialized_executable: *const c_char,
        serialized_executable_size: usize,
        loaded_executable: *mut LoadedExecutable,
        overridden_serialized_compile_options: *const c_char,
        overridden_serialized_compile_options_size: usize,
    }

    58 "PJRT_Buffer_Destroy" BufferDestroy { buffer: *mut Buffer, }
    // This function is deprecated in favour of an extension, but all versions have it.
    63 "PJRT_Buffer_GetMemoryLayout" BufferGetMemoryLayout { buffer: *mut Buffer, layout: MemoryLayout, }
    67 "PJRT_Buffer_Delete" BufferDelete { buffer: *mut Buffer, }
    68 "PJRT_Buffer_IsDeleted" BufferIsDeleted { buffer: *mut Buffer, is_deleted: bool, }
    70 "PJRT_Buffer_ToHostBuffer" BufferToHostBuffer {
        src: *mut Buffer, host_layout: *mut MemoryLayout, dst: *mut c_void, dst_size: usize, event: *mut Event,
    }
    71 "PJRT_Buffer_IsOnCpu" BufferIsOnCpu { buffer: *mut Buffer, is_on_cpu: bool, }
    72 "PJRT_Buffer_ReadyEvent" BufferReadyEvent { buffer: *mut Buffer, event: *mut Event, }

    74 "PJRT_Buffer_IncreaseExternalReferenceCount" BufferIncreaseReferences { buffer: *mut Buffer, }
    75 "PJRT_Buffer_DecreaseExternalReferenceCount" BufferDecreaseReferences { buffer: *mut Buffer, }
    76 "PJRT_Buffer_OpaqueDeviceMemoryDataPointer" BufferPointer {
        buffer: *mut Buffer, device_memory_ptr: *mut c_void,
    }

    90 "PJRT_Executable_OutputElementTypes" ExecutableOutputElementTypes {
        executable: *mut Executable, output_types: *const c_int, num_output_types: usize,
    }
    91 "PJRT_Executable_OutputDimensions" ExecutableOutputDimensions {
        executable: *mut Executable, num_outputs: usize, dims: *const i64, dim_sizes: *const usize,
    }
    // The last four fields were added in versions 0.90 and 0.104.
    96 "PJRT_Executable_GetCompiledMemoryStats" ExecutableGetCompiledMemoryStats {
        executable: *mut Executable,
        generated_code_size_in_bytes: i64,
        argument_size_in_bytes: i64,
        output_size_in_bytes: i64,
        alias_size_in_bytes: i64,
        temp_size_in_bytes: i64,
        host_generated_code_size_in_bytes: i64,
        host_argument_size_in_bytes: i64,
        host_output_size_in_bytes: i64,
        host_alias_size_in_bytes: i64,
        host_temp_size_in_bytes: i64,
        peak_memory_in_bytes: i64,
        total_size_in_bytes: i64,
        later: [i64; 3],
    }
}

/// Declares structs that arguments point to. These structs also begin with their size.
macro_rules! structs {
    ($($name:ident { $($field:ident: $type:ty,)* })*) => {$(
        #[repr(C)]
        #[derive(Debug, Default)]
        pub(crate) struct $name {
            pub(super) struct_size: usize,
            pub(super) extension_start: *mut c_void,
            $(pub(super) $field: $type,)*
        }

        impl $name {
            /// The size that the struct reports: up to the end of its last field, without padding.
            pub(super) const SIZE: usize = {
                let mut size = 0;
                $(
                    let end = offset_of!(Self, $field) + size_of::<$type>();
                    if end > size {
                        size = end;
                    }
                )*
                size
            };

            /// Returns a struct that reports its size. All other fields are 0.
            #[allow(dead_code, reason = "named values are written in place")]
            pub(super) fn empty() -> Self {
                Self { struct_size: Self::SIZE, ..Self::default() }
            }
        }
    )*};
}

structs! {
    NamedValue {
        name: *const c_char,
        name_size: usize,
        value_type: c_int,
        value: NamedValueData,
        value_size: usize,
    }
    Program {
        code: *mut c_char,
        code_size: usize,
        format: *const c_char,
        format_size: usize,
    }
    ExecuteOptions {
        send_callbacks: *mut c_void,
        recv_callbacks: *mut c_void,
        num_send_ops: usize,
        num_recv_ops: usize,
        launch_id: c_int,
        non_donatable_input_indices: *const i64,
        num_non_donatable_input_indices: usize,
        context: *mut c_void,
        call_location: *const c_char,
        num_tasks: usize,
        task_ids: *mut c_int,
        incarnation_ids: *mut i64,
    }
    MemoryLayout {
        // A union of a tiled layout and of strides. The fields below are those of a tiled layout. The struct of strides
        // is smaller.
        tiled_struct_size: usize,
        tiled_extension_start: *mut c_void,
        minor_to_major: *const i64,
        minor_to_major_size: usize,
        tile_dims: *const i64,
        tile_dim_sizes: *const usize,
        num_tiles: usize,
        layout_type: c_int,
    }
}

/// The value of `PJRT_Buffer_MemoryLayout_Type` for a tiled layout.
pub(super) const TILED: c_int = 0;

/// The size of the struct of a tiled layout. The union of [`MemoryLayout`] begins with this struct.
pub(super) const TILED_SIZE: usize =
    offset_of!(MemoryLayout, layout_type) - offset_of!(MemoryLayout, tiled_struct_size);

/// The value of a [`NamedValue`]. `value_type` determines the valid field.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) union NamedValueData {
    pub(super) string: *const c_char,
    pub(super) int64: i64,
    pub(super) int64_list: *const i64,
    pub(super) float: f32,
    pub(super) boolean: bool,
}

impl Default for NamedValueData {
    fn default() -> Self {
        Self { int64: 0 }
    }
}

impl fmt::Debug for NamedValueData {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("NamedValueData")
    }
}

/// The values of `PJRT_NamedValue_Type`.
pub(super) mod value_type {
    use std::ffi::c_int;

    pub(in crate::sys) const STRING: c_int = 0;
    pub(in crate::sys) const INT64: c_int = 1;
    pub(in crate::sys) const INT64_LIST: c_int = 2;
    pub(in crate::sys) const FLOAT: c_int = 3;
    pub(in crate::sys) const BOOL: c_int = 4;
}

/// The values of `PJRT_HostBufferSemantics` that this crate uses.
pub(super) mod host_buffer {
    use std::ffi::c_int;

    pub(in crate::sys) const IMMUTABLE_ONLY_DURING_CALL: c_int = 0;
    pub(in crate::sys) const IMMUTABLE_ZERO_COPY: c_int = 2;
}

/// The beginning of the table of functions, which `GetPjrtApi` returns. The pointers to the functions follow.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Table {
    pub(super) struct_size: usize,
    pub(super) extension_start: *mut c_void,
    version_struct_size: usize,
    version_extension_start: *mut c_void,
    pub(super) major: c_int,
    pub(super) minor: c_int,
}
