//! How the values that a call has computed are written: all at one instant, or none.
//!
//! A call keeps what its references held when it began. At its end the cells to be written are claimed: whoever reads
//! or writes a claimed cell waits. If all references of the call still hold what they held, the new values are put in,
//! and then all claims end. The kept values can't be freed meanwhile, so the same address is the same value.
//!
//! The call takes effect when all its cells are claimed. One lock of the process lets a single thread claim cells, so
//! two calls never wait for each other's. It is held for comparisons and moves of pointers only.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::base::error::{ReferenceError, TreeError, Unrepeated};
use crate::contract::handles::{AnyCell, AnyContent, References};
use crate::contract::turn;

/// Held while cells are claimed.
static CLAIMING: Mutex<()> = Mutex::new(());

fn claiming() -> MutexGuard<'static, ()> {
    CLAIMING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits until the cells that are claimed now are no longer. The caller holds no lock.
#[cold]
pub(crate) fn wait_for_claims() {
    drop(claiming());
}

/// A value that is written to a reference once everything else is right.
pub(crate) struct Staged {
    cell: Arc<dyn AnyCell>,
    /// The value, then what the cell held before.
    content: Option<AnyContent>,
}

impl Staged {
    pub(crate) fn new(cell: Arc<dyn AnyCell>, content: AnyContent) -> Self {
        Self {
            cell,
            content: Some(content),
        }
    }

    /// Writes all values, or none. What `read` has read must still be there, if something is written.
    ///
    /// # Errors
    /// [`TreeError::Reference`] if one of the references may not be written here, or another thread has written one of
    /// `read` meanwhile.
    pub(crate) fn write_all(
        mut staged: Vec<Self>,
        read: Option<&References>,
    ) -> Result<(), TreeError> {
        if staged.is_empty() {
            return Ok(());
        }
        for staged in &staged {
            staged.cell.check_write()?;
        }
        turn::give_way();
        let claiming = claiming();
        for staged in &staged {
            staged.cell.claim(true);
        }
        let outdated = read.and_then(References::outdated);
        if outdated.is_none() {
            for staged in &mut staged {
                let content = staged.content.take();
                staged.content = content.and_then(|content| staged.cell.write_claimed(content));
            }
        }
        // No claim ends before all values are in: who has read one of the new values finds that the others have changed.
        for staged in &staged {
            staged.cell.claim(false);
        }
        drop(claiming);
        // The values that are not needed are dropped when no lock is held.
        drop(staged);
        match outdated {
            None => Ok(()),
            Some(position) => Err(TreeError::Reference(ReferenceError::Conflict {
                path: read.map(|read| read.path(position)).unwrap_or_default(),
                unrepeated: Unrepeated::Caller,
            })),
        }
    }
}
