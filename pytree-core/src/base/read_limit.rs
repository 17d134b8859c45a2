//! Bounds the bytes that stay allocated for the life of the process because they were read.
//!
//! Names of collections and shapes of structs are never freed. A program may make any number of them; those that it reads
//! from bytes are bounded. Once the bound is reached, structures are refused that need a name or shape which the process
//! does not know yet, honest ones too.

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
