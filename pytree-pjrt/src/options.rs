//! The options of clients and of compilations.

use std::path::PathBuf;

use crate::proto::Writer;

/// The value of a plugin's option, of a compiler flag, or of a property that a plugin reports.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum OptionValue {
    /// A text.
    String(String),
    /// An integer.
    Int(i64),
    /// A list of integers.
    Ints(Vec<i64>),
    /// A number.
    Float(f32),
    /// A truth value.
    Bool(bool),
}

macro_rules! option_values {
    ($($rust:ty => $variant:ident),*) => {$(
        impl From<$rust> for OptionValue {
            fn from(value: $rust) -> Self {
                Self::$variant(value.into())
            }
        }
    )*};
}
option_values!(String => String, &str => String, i64 => Int, i32 => Int, u32 => Int, Vec<i64> => Ints, &[i64] => Ints, f32 => Float, bool => Bool);

/// The options of a client: the options of its plugin by name, and the directory in which compiled programs are cached.
///
/// The plugin defines the names. XLA's plugin for CPUs has `cpu_device_count`. The plugin for NVIDIA GPUs has
/// `visible_devices`, `memory_fraction`, `preallocate`, `allocator`, `node_id` and `num_nodes`.
///
/// # Examples
/// ```
/// use pytree_pjrt::Options;
///
/// let options = Options::new().set("cpu_device_count", 2).cache_dir("target/pjrt-cache");
/// ```
#[derive(Clone, Debug, Default)]
pub struct Options {
    pub(crate) values: Vec<(String, OptionValue)>,
    pub(crate) cache_dir: Option<PathBuf>,
}

impl Options {
    /// Creates options with the defaults of the plugin, and without a cache.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets an option of the plugin.
    #[must_use]
    pub fn set(mut self, name: impl Into<String>, value: impl Into<OptionValue>) -> Self {
        let name = name.into();
        self.values.retain(|(known, _)| *known != name);
        self.values.push((name, value.into()));
        self
    }

    /// Stores compiled programs in a directory. A program that is already stored is loaded and not compiled again.
    ///
    /// The directory is created if it does not exist. A file is used only for the same program with the same options,
    /// on the same devices, by the same plugin. If a file cannot be read or written, the compilation still succeeds;
    /// see [`Client::cache_stats`](crate::Client::cache_stats).
    #[must_use]
    pub fn cache_dir(mut self, directory: impl Into<PathBuf>) -> Self {
        self.cache_dir = Some(directory.into());
        self
    }
}

/// The options of a compilation: the device that runs the program, and flags of the compiler.
///
/// # Examples
/// ```
/// use pytree_pjrt::CompileOptions;
///
/// let options = CompileOptions::new().device(1).set("xla_cpu_enable_fast_math", false);
/// ```
#[derive(Clone, Debug, Default)]
pub struct CompileOptions {
    pub(crate) device: usize,
    flags: Vec<(String, OptionValue)>,
}

impl CompileOptions {
    /// Creates options that select the first device.
    pub fn new() -> Self {
        Self::default()
    }

    /// Selects the device that runs the program, by its index in [`Client::devices`](crate::Client::devices).
    #[must_use]
    pub fn device(mut self, index: usize) -> Self {
        self.device = index;
        self
    }

    /// Sets a flag of XLA: a field of `DebugOptions` in `xla/xla.proto`, or an option of the platform's compiler.
    #[must_use]
    pub fn set(mut self, name: impl Into<String>, value: impl Into<OptionValue>) -> Self {
        let name = name.into();
        self.flags.retain(|(known, _)| *known != name);
        self.flags.push((name, value.into()));
        self
    }

    /// Returns the bytes of a `CompileOptionsProto` for these devices. Each row is a replica, and each column is a
    /// partition.
    ///
    /// The field numbers are from `xla/pjrt/proto/compile_options.proto`. The field numbers of the device assignment
    /// are from `xla/xla_data.proto`.
    ///
    /// If there are several partitions, XLA's partitioner divides the program, with the shardings of the dialect `sdy`.
    /// `open_results` has an entry for each result: whether the partitioner chooses how the result is divided.
    pub(crate) fn encode(&self, devices: &[&[i32]], open_results: Option<&[bool]>) -> Vec<u8> {
        let replicas = devices.len();
        let partitions = devices.first().map_or(0, |row| row.len());
        let mut options = Writer::default();
        // CompileOptionsProto.executable_build_options
        options.message(3, |build| {
            // ExecutableBuildOptionsProto: device_ordinal (-1 means that it is not set), num_replicas, num_partitions.
            build.int(1, -1);
            build.count(4, replicas).count(5, partitions);
            if let Some(open) = open_results {
                // ExecutableBuildOptionsProto: use_spmd_partitioning, allow_spmd_sharding_propagation_to_output,
                // use_shardy_partitioner.
                let open: Vec<i64> = open.iter().map(|&open| open.into()).collect();
                build.int(6, 1).packed(12, &open).int(19, 1);
            }
            // ExecutableBuildOptionsProto.device_assignment
            build.message(9, |assignment| {
                // DeviceAssignmentProto: replica_count, computation_count, computation_devices (one for each
                // partition).
                assignment.count(1, replicas).count(2, partitions);
                for partition in 0..partitions {
                    let ids: Vec<i64> = devices.iter().map(|row| row[partition].into()).collect();
                    // ComputationDevice.replica_device_ids
                    assignment.message(3, |computation| {
                        computation.packed(1, &ids);
                    });
                }
            });
        });
        for (name, value) in &self.flags {
            // CompileOptionsProto.env_option_overrides is a map. The entries of this map have the fields key and value.
            options.message(7, |entry| {
                entry.bytes(1, name.as_bytes());
                // OptionOverrideProto: string_field, bool_field, int_field, double_field.
                entry.message(2, |field| {
                    match value {
                        OptionValue::String(text) => field.bytes(1, text.as_bytes()),
                        OptionValue::Bool(value) => field.int(2, (*value).into()),
                        OptionValue::Int(value) => field.int(3, *value),
                        OptionValue::Float(value) => field.double(4, (*value).into()),
                        OptionValue::Ints(values) => field.bytes(1, list(values).as_bytes()),
                    };
                });
            });
        }
        options.finish()
    }
}

/// Returns a list in the notation of the compiler's text options.
fn list(values: &[i64]) -> String {
    let values: Vec<String> = values.iter().map(i64::to_string).collect();
    values.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::proto::{Fields, Value};

    /// Returns the values of fields with a number.
    fn values(message: &[u8], number: u64) -> Vec<Value<'_>> {
        let fields = Fields::new(message).map(|field| field.unwrap());
        fields
            .filter(|&(found, _)| found == number)
            .map(|(_, value)| value)
            .collect()
    }

    /// The expected bytes are those of jaxlib 0.10.2 for device 3 and these flags. `tests/golden/compile_options.py`
    /// prints them.
    #[test]
    fn options_are_encoded_as_by_jax() {
        let options = CompileOptions::new()
            .set("xla_backend_optimization_level", 2)
            .set("xla_cpu_enable_fast_math", false)
            .set("xla_dump_to", "d")
            .set("x", 1.5_f32);
        let encoded = options.encode(&[&[3]], None);
        let build = values(&encoded, 3);
        let [Value::Bytes(build)] = build[..] else {
            panic!("one message: {build:?}");
        };
        assert_eq!(values(build, 1), [Value::Int(u64::MAX)]);
        assert_eq!(values(build, 4), [Value::Int(1)]);
        assert_eq!(values(build, 5), [Value::Int(1)]);
        assert_eq!(
            values(build, 9),
            [Value::Bytes(b"\x08\x01\x10\x01\x1a\x03\x0a\x01\x03")]
        );
        let flags = [
            Value::Bytes(b"\x0a\x1exla_backend_optimization_level\x12\x02\x18\x02"),
            Value::Bytes(b"\x0a\x18xla_cpu_enable_fast_math\x12\x02\x10\x00"),
            Value::Bytes(b"\x0a\x0bxla_dump_to\x12\x03\x0a\x01d"),
            Value::Bytes(b"\x0a\x01x\x12\x09\x21\x00\x00\x00\x00\x00\x00\xf8\x3f"),
        ];
        assert_eq!(values(&encoded, 7), flags);
    }

    /// The expected bytes are those of jaxlib 0.12.0 for four partitions and these results.
    /// `tests/golden/compile_options.py` prints them.
    #[test]
    fn partitions_are_encoded_as_by_jax() {
        let encoded = CompileOptions::new().encode(&[&[0, 1, 2, 3]], Some(&[true, false]));
        let build = values(&encoded, 3);
        let [Value::Bytes(build)] = build[..] else {
            panic!("one message: {build:?}");
        };
        assert_eq!(values(build, 4), [Value::Int(1)]);
        assert_eq!(values(build, 5), [Value::Int(4)]);
        assert_eq!(values(build, 6), [Value::Int(1)]);
        let assignment = b"\x08\x01\x10\x04\x1a\x03\x0a\x01\x00\x1a\x03\x0a\x01\x01\x1a\x03\x0a\x01\x02\x1a\x03\x0a\x01\x03";
        assert_eq!(values(build, 9), [Value::Bytes(assignment)]);
        assert_eq!(values(build, 12), [Value::Bytes(b"\x01\x00")]);
        assert_eq!(values(build, 19), [Value::Int(1)]);
    }

    #[test]
    fn options_set_twice_have_last_value() {
        let options = Options::new().set("a", 1).set("b", true).set("a", "x");
        let expected = [
            ("b".to_owned(), OptionValue::Bool(true)),
            ("a".to_owned(), OptionValue::String("x".to_owned())),
        ];
        assert_eq!(options.values, expected);
    }
}
