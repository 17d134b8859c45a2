//! The memory statistics that plugins report.

/// The use of a device's memory, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeviceMemory {
    /// The bytes that are currently in use.
    pub in_use: i64,
    /// The greatest number of bytes that were in use at the same time, if the plugin counts them.
    pub peak: Option<i64>,
    /// The number of bytes that programs may use, if it is limited.
    pub limit: Option<i64>,
}

/// The memory that a compiled program uses, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CompiledMemory {
    /// The size of the machine code.
    pub code: i64,
    /// The size of the inputs.
    pub inputs: i64,
    /// The size of the results.
    pub outputs: i64,
    /// The size of the results that are stored in the memory of donated inputs.
    pub aliased: i64,
    /// The size of the intermediate values during a run.
    pub temporary: i64,
}
