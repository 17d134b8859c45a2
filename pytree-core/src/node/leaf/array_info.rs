//! Dtypes and shapes of leaves that are arrays.

use std::fmt;

/// The dtype of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the names say it all")]
pub enum ElementType {
    Bool,
    I8,
    I16,
    I32,
    I64,
    U8,
    U16,
    U32,
    U64,
    /// The upper half of an [`F32`](Self::F32): 8 bits of exponent and 7 bits of mantissa.
    BF16,
    /// The half precision of IEEE 754: 5 bits of exponent and 10 bits of mantissa.
    F16,
    F32,
    F64,
}

impl ElementType {
    /// Returns the size of an element in bytes.
    pub const fn bytes(self) -> usize {
        match self {
            Self::Bool | Self::I8 | Self::U8 => 1,
            Self::I16 | Self::U16 | Self::BF16 | Self::F16 => 2,
            Self::I32 | Self::U32 | Self::F32 => 4,
            Self::I64 | Self::U64 | Self::F64 => 8,
        }
    }

    /// Returns whether the dtype is a float type. Only floats have gradients.
    pub const fn is_float(self) -> bool {
        matches!(self, Self::BF16 | Self::F16 | Self::F32 | Self::F64)
    }

    /// Returns whether the dtype is an integer type. `bool` is not an integer type.
    pub const fn is_integer(self) -> bool {
        !matches!(self, Self::Bool) && !self.is_float()
    }
}

impl fmt::Display for ElementType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Bool => "bool",
            Self::I8 => "i8",
            Self::I16 => "i16",
            Self::I32 => "i32",
            Self::I64 => "i64",
            Self::U8 => "u8",
            Self::U16 => "u16",
            Self::U32 => "u32",
            Self::U64 => "u64",
            Self::BF16 => "bf16",
            Self::F16 => "f16",
            Self::F32 => "f32",
            Self::F64 => "f64",
        })
    }
}

/// A Rust type that can be the element of an array leaf.
pub trait Element: Copy + fmt::Debug + Send + Sync + PartialEq + 'static {
    /// The dtype of the element.
    const TYPE: ElementType;
}

/// The dtype and shape of an array or a number. Displayed as `f32[2,3]`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ArrayInfo {
    /// The dtype.
    pub element: ElementType,
    /// The length of each axis. Empty for a number.
    pub shape: Vec<usize>,
}

/// The dtype and shape of a leaf, borrowed from the leaf.
#[derive(Clone, Copy, Debug, Eq)]
pub struct ArrayShape<'a> {
    /// The dtype.
    pub element: ElementType,
    /// The length of each axis. Empty for a number.
    pub shape: &'a [usize],
}

impl PartialEq for ArrayShape<'_> {
    /// Compares the lengths one by one. The empty shape of a number has an invalid address, at which the vector
    /// instructions of `memcmp` are very slow.
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        self.element == other.element && self.shape.iter().eq(other.shape)
    }
}

/// An axis that a `vmap` removed from an array. Inside of the `vmap`, the array is one example.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MappedAxis {
    /// The position of the axis.
    pub axis: usize,
    /// The length of the axis: the number of examples.
    pub length: usize,
    /// The dtype and shape of the array of all examples, with the axis.
    pub array: ArrayInfo,
}

impl From<ArrayShape<'_>> for ArrayInfo {
    fn from(shape: ArrayShape<'_>) -> Self {
        Self {
            element: shape.element,
            shape: shape.shape.to_vec(),
        }
    }
}

impl ArrayInfo {
    /// Returns the number of elements.
    pub fn len(&self) -> usize {
        self.shape.iter().product()
    }

    /// Returns whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the size of all elements in bytes.
    pub fn bytes(&self) -> usize {
        self.len() * self.element.bytes()
    }
}

impl fmt::Display for ArrayInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}[", self.element)?;
        for (position, length) in self.shape.iter().enumerate() {
            write!(f, "{}{length}", if position == 0 { "" } else { "," })?;
        }
        f.write_str("]")
    }
}
