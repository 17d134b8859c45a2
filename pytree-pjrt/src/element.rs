//! The element types of buffers, and the Rust types that hold elements.

use bytemuck::{NoUninit, Pod};
use pytree_base::for_each_element_type;
pub use pytree_core::{ArrayInfo, ElementType};

mod sealed {
    pub trait Sealed {}
}

/// A Rust type whose slices can be copied to buffers and back.
///
/// `bf16` and `f16` have no such Rust type. Pass their bits as bytes to
/// [`Client::put_bytes`](crate::Client::put_bytes), and read them by [`Buffer::to_bytes`](crate::Buffer::to_bytes).
pub trait Element: NoUninit + sealed::Sealed {
    /// The element type of this Rust type.
    const TYPE: ElementType;

    /// Returns elements whose bytes `read` writes.
    #[doc(hidden)]
    fn read<E>(count: usize, read: impl FnOnce(&mut [u8]) -> Result<(), E>)
    -> Result<Vec<Self>, E>;
}

/// Returns elements of a type that allows all byte values.
fn read_plain<T: Pod, E>(
    count: usize,
    read: impl FnOnce(&mut [u8]) -> Result<(), E>,
) -> Result<Vec<T>, E> {
    let mut elements = vec![T::zeroed(); count];
    read(bytemuck::cast_slice_mut(&mut elements))?;
    Ok(elements)
}

macro_rules! element {
    // Other crates define these types.
    (half $dtype:ident $type:ty) => {};
    (bool $dtype:ident $type:ty) => {};
    ($kind:ident $dtype:ident $type:ty) => {
        impl sealed::Sealed for $type {}
        impl Element for $type {
            const TYPE: ElementType = ElementType::$dtype;
            fn read<E>(
                count: usize,
                read: impl FnOnce(&mut [u8]) -> Result<(), E>,
            ) -> Result<Vec<Self>, E> {
                read_plain(count, read)
            }
        }
    };
}

macro_rules! elements {
    ($([$kind:ident $dtype:ident $type:ty])*) => {
        $(element!($kind $dtype $type);)*
    };
}
for_each_element_type!([elements]);

impl sealed::Sealed for bool {}
impl Element for bool {
    const TYPE: ElementType = ElementType::Bool;

    fn read<E>(
        count: usize,
        read: impl FnOnce(&mut [u8]) -> Result<(), E>,
    ) -> Result<Vec<Self>, E> {
        let bytes = read_plain::<u8, E>(count, read)?;
        Ok(bytes.into_iter().map(|byte| byte != 0).collect())
    }
}
