//! Where a checkpoint is: a path or bytes in memory.

use std::path::Path;

/// Where a checkpoint is: the path of a file or a folder, or its [`Bytes`].
pub trait Location: sealed::Location {}

impl<P: AsRef<Path>> Location for P {}

/// A checkpoint in memory, such as one that a page has received, with the content of a file. Every function that reads a checkpoint at
/// a path accepts it in place of the path.
///
/// # Examples
/// ```
/// use ndarray::{Array2, array};
/// use pytree_store::checkpoint::{self, Bytes};
/// let model = (array![[1.0_f32, 2.0]], 3_i64);
/// let bytes = checkpoint::to_bytes(&model)?;
/// let template = (Array2::zeros((1, 2)), 0_i64);
/// assert_eq!(checkpoint::load(Bytes(&bytes), &template)?, model);
/// assert_eq!(checkpoint::inspect(Bytes(&bytes))?[0].shape, [1, 2]);
/// # Ok::<(), checkpoint::CheckpointError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bytes<'b>(pub &'b [u8]);

impl Location for Bytes<'_> {}

pub(super) mod sealed {
    use std::path::Path;

    /// Where a checkpoint is.
    #[derive(Debug)]
    pub enum Given<'p> {
        Path(&'p Path),
        Bytes(&'p [u8]),
    }

    pub trait Location {
        fn place(&self) -> Given<'_>;
    }

    impl<P: AsRef<Path>> Location for P {
        fn place(&self) -> Given<'_> {
            Given::Path(self.as_ref())
        }
    }

    impl Location for super::Bytes<'_> {
        fn place(&self) -> Given<'_> {
            Given::Bytes(self.0)
        }
    }
}
