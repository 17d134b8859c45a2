//! How much of what is read from bytes may stay for the life of the process.
//!
//! Names of collections and shapes of structs are kept once they are known. Those that a program makes itself are as
//! many as it says; those that it reads from bytes are bounded, so that hostile bytes fail and nothing else does.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::base::error::TreeError;

/// The most bytes that are kept: some 100,000 small shapes.
const LIMIT: usize = 1 << 24;

static KEPT: AtomicUsize = AtomicUsize::new(0);

/// Counts bytes that are kept because they were read.
///
/// # Errors
/// [`TreeError::Build`] if too much was read already.
pub(crate) fn reserve(bytes: usize) -> Result<(), TreeError> {
    let more = |kept: usize| kept.checked_add(bytes).filter(|&kept| kept <= LIMIT);
    let outcome = KEPT.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
    match outcome {
        Ok(_) => Ok(()),
        Err(kept) => Err(TreeError::Build {
            node: "struct",
            reason: format!(
                "the shapes that were read from bytes take {kept} bytes already, and each is kept for the life of the process; read structures of this program's own types, or read the others in another process"
            ),
        }),
    }
}
