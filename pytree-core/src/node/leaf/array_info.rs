//! Dtypes and shapes of leaves that are arrays.

use std::fmt;

use pytree_base::dtype::ElementType;

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
