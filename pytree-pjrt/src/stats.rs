//! What plugins report about memory.

/// The use of a device's memory, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeviceMemory {
    /// The bytes that are in use now.
    pub in_use: i64,
    /// The most bytes that were in use at once, if the plugin counts them.
    pub peak: Option<i64>,
    /// The bytes that programs may use, if there is a limit.
    pub limit: Option<i64>,
}

/// The memory that a compiled program uses, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CompiledMemory {
    /// The machine code.
    pub code: i64,
    /// The inputs.
    pub inputs: i64,
    /// The results.
    pub outputs: i64,
    /// The part of the results that lies in the memory of donated inputs.
    pub aliased: i64,
    /// The memory of intermediate values during a run.
    pub temporary: i64,
}
