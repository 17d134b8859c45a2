//! The traits of leaves, and of those leaves that are arrays.
//!
//! Everything that stores, sends or compares arrays of any library needs only [`ArrayLeaf`]. Numbers are arrays without axes.

use std::any::Any;
use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use pytree_base::dtype::{ElementType, NumberKind};

use super::array_info::{ArrayInfo, LeafError, MappedAxis};
use crate::base::leaf_types::for_each_leaf_type;
use crate::node::shape::NodeShape;

/// A value of a pytree that has no children.
///
/// Numbers, strings, ndarray's owned arrays and tensors are leaves. `#[derive(Leaf)]` makes a user's type a leaf.
pub trait Leaf: Any + fmt::Debug + Send + Sync {
    /// Returns the leaf as a dynamically typed value.
    fn as_any(&self) -> &dyn Any;

    /// Returns the leaf as a mutable, dynamically typed value.
    fn as_any_mut(&mut self) -> &mut dyn Any;

    /// Returns a boxed copy of the leaf.
    fn clone_boxed(&self) -> Box<dyn Leaf>;

    /// Moves the leaf into `slot`, an `Option` of its type.
    ///
    /// # Errors
    /// Returns the leaf itself if `slot` is an `Option` of another type.
    fn move_into(self: Box<Self>, slot: &mut dyn Any) -> Result<(), Box<dyn Leaf>>;

    /// Returns the name of the leaf's type, for messages.
    fn type_name(&self) -> &'static str;

    /// Returns the node shape of the leaf in a treedef. The node shape stores the Rust type of the leaf.
    fn leaf_shape(&self) -> &'static NodeShape;

    /// Returns the inner leaf, if this leaf only wraps another leaf. Both leaves have the same elements.
    fn inner(&self) -> Option<&dyn Leaf> {
        None
    }

    /// Returns the inner leaf mutably; see [`inner`](Self::inner).
    fn inner_mut(&mut self) -> Option<&mut dyn Leaf> {
        None
    }

    /// Returns the leaf as an array, if it is an array or a number whose elements are known as bytes.
    #[inline]
    fn as_array(&self) -> Option<&dyn ArrayLeaf> {
        None
    }

    /// Returns the dtype and shape if the leaf is an array or a number.
    #[inline]
    fn array_info(&self) -> Option<ArrayInfo<&[usize]>> {
        self.as_array().map(ArrayLeaf::info)
    }

    /// Returns the axes that enclosing `vmap`s removed from the array, the innermost first. Inside of a `vmap`, an array is
    /// one example. Messages about shapes show the removed axes.
    fn mapped_axes(&self) -> Vec<MappedAxis> {
        Vec::new()
    }

    /// Returns the elements as numbers in row-major order, if the leaf is an array or a number, and its elements can
    /// currently be read. Comparisons of models and the search for NaNs use these numbers.
    ///
    /// `true` is one and `false` is zero. An integer beyond 2⁵³ is rounded to the nearest `f64`. The number of elements
    /// agrees with [`array_info`](Self::array_info).
    fn values(&self) -> Option<Vec<f64>> {
        self.as_array().and_then(values)
    }

    /// Returns the identity of the memory that holds the elements, if several leaves may share this memory.
    /// [`lint`](crate::tools::lint::lint) uses the identity to find leaves that share memory.
    fn storage_identity(&self) -> Option<usize> {
        None
    }

    /// Writes the leaf as Python's `repr` would, for displays of trees.
    ///
    /// # Errors
    /// The errors of the formatter.
    fn display(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

impl dyn Leaf {
    /// Returns the leaf as a `T`, if its type is `T`.
    pub fn downcast_ref<T: 'static>(&self) -> Option<&T> {
        self.as_any().downcast_ref()
    }

    /// Returns the leaf as a mutable `T`, if its type is `T`.
    pub fn downcast_mut<T: 'static>(&mut self) -> Option<&mut T> {
        self.as_any_mut().downcast_mut()
    }
}

/// Returns a number of any element type as an `f64`, or `None` if the value is not a number.
#[allow(clippy::cast_lossless, reason = "i64 and u64 are rounded")]
pub(crate) fn number(value: &dyn Any) -> Option<f64> {
    macro_rules! number_of {
        (integer $number:expr) => {
            $number as f64
        };
        ($kind:ident $number:expr) => {
            f64::from($number)
        };
    }
    macro_rules! attempt {
        ($([$kind:ident $dtype:ident $type:ty])*) => {
            $(if let Some(&number) = value.downcast_ref::<$type>() {
                return Some(number_of!($kind number));
            })*
        };
    }
    for_each_leaf_type!([attempt]);
    None
}

/// Writes the elements of a region of an array, which has a range for each axis, as bytes in row-major order and in the byte
/// order of the host. A bool is 0 or 1.
pub type ReadRegion<'r> = dyn FnMut(&[Range<usize>], &mut [u8]) -> Result<(), LeafError> + 'r;

/// A leaf that is an array or a number: it has a dtype, a shape, and elements that are known as bytes.
///
/// A type with `#[derive(Leaf)]` that implements this trait is an array for all functions of pytrees. Checkpoints store every
/// such leaf.
///
/// # Examples
/// ```
/// use std::borrow::Cow;
/// use pytree_core::leaf::{ArrayLeaf, LeafError, ReadRegion};
/// use pytree_core::{ArrayInfo, ElementType, Leaf};
///
/// /// An array of another library.
/// #[derive(Leaf, Clone, Debug, PartialEq)]
/// struct Words(Vec<u8>, [usize; 1]);
///
/// impl ArrayLeaf for Words {
///     fn info(&self) -> ArrayInfo<&[usize]> {
///         ArrayInfo { element: ElementType::U8, shape: &self.1 }
///     }
///     fn bytes(&self) -> Result<Cow<'_, [u8]>, LeafError> {
///         Ok(Cow::Borrowed(&self.0))
///     }
///     fn refilled(&self, read: &mut ReadRegion<'_>) -> Result<Box<dyn Leaf>, LeafError> {
///         let mut words = vec![0; self.0.len()];
///         read(&[0..words.len()], &mut words)?;
///         Ok(Box::new(Self(words, self.1)))
///     }
/// }
///
/// let words = Words(vec![1, 2, 3], [3]);
/// assert_eq!(words.array_info().unwrap().to_string(), "u8[3]");
/// ```
pub trait ArrayLeaf: Leaf {
    /// Returns the dtype and the shape.
    fn info(&self) -> ArrayInfo<&[usize]>;

    /// Returns the elements as bytes, in row-major order and in the byte order of the host. A bool is 0 or 1.
    ///
    /// # Errors
    /// The error of the library of the array, for instance if the elements are not known inside of a transformation.
    fn bytes(&self) -> Result<Cow<'_, [u8]>, LeafError>;

    /// Returns a leaf of the same type, dtype and shape, at the same place, with other elements. Calls `read` once with the
    /// whole region, or, for an array that consists of parts, once for each part.
    ///
    /// # Errors
    /// The error of `read`, or that of the library of the array.
    fn refilled(&self, read: &mut ReadRegion<'_>) -> Result<Box<dyn Leaf>, LeafError>;
}

/// Returns the elements of an array as numbers, if its library can read them.
fn values(array: &dyn ArrayLeaf) -> Option<Vec<f64>> {
    let (element, bytes) = (array.info().element, array.bytes().ok()?);
    let numbers = bytes.chunks_exact(element.bytes());
    Some(numbers.map(|bytes| value(element, bytes)).collect())
}

/// Returns the number that an element is, whose bytes are in the order of the host.
fn value(element: ElementType, bytes: &[u8]) -> f64 {
    let bits = if cfg!(target_endian = "little") {
        bytes
            .iter()
            .rev()
            .fold(0, |bits, &byte| bits << 8 | u64::from(byte))
    } else {
        bytes
            .iter()
            .fold(0, |bits, &byte| bits << 8 | u64::from(byte))
    };
    let unused = 64 - element.bits();
    match element.kind() {
        NumberKind::Float => element.float_from_bits(bits),
        NumberKind::Signed => ((bits << unused).cast_signed() >> unused) as f64,
        NumberKind::Bool | NumberKind::Unsigned => bits as f64,
    }
}
