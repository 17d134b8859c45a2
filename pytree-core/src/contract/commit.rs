//! Writes the values that a call has computed: all at one instant, or none.
//!
//! When a call begins, it keeps the contents of its references alive. At the end, the call claims the cells that it
//! writes. While a cell is claimed, other threads wait before they read or write the cell. If all references of the
//! call still have the same contents, the new values are stored, and all claims end. Until then, the call keeps the old
//! contents alive. No other content can have the address of a content that is alive, so an equal address means an
//! unchanged content.
//!
//! The call takes effect when all its cells are claimed. A lock of the process lets a single thread claim cells, so two
//! calls never wait for each other's cells. The lock is held for comparisons and moves of pointers only.

use std::sync::{Arc, PoisonError};

use crate::base::error::{ReferenceError, TreeError, Unrepeated, Writer};
use crate::base::sync::{Mutex, MutexGuard};
use crate::contract::handles::{AnyCell, AnyContent, References};
use crate::contract::turn;

/// The lock that a thread holds while it claims cells.
static CLAIMING: Mutex<()> = Mutex::new(());

fn claiming() -> MutexGuard<'static, ()> {
    CLAIMING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits until the current claims have ended. The caller must hold no lock.
#[cold]
pub(crate) fn wait_for_claims() {
    drop(claiming());
}

/// A value to be written to a reference after all checks have passed.
pub(crate) struct Staged {
    cell: Arc<dyn AnyCell>,
    /// The new value. After the write, this field holds the old content of the cell.
    content: Option<AnyContent>,
}

impl Staged {
    pub(crate) fn new(cell: Arc<dyn AnyCell>, content: AnyContent) -> Self {
        Self {
            cell,
            content: Some(content),
        }
    }

    /// Writes all values, or none if a reference in `read` has changed since it was read.
    ///
    /// # Errors
    /// [`TreeError::Reference`] if a reference may not be written by the current code, or if another thread has written
    /// a reference in `read` since it was read.
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
        // The cells remain claimed until all values are stored. So a thread that reads one new value reads the others,
        // too.
        for staged in &staged {
            staged.cell.claim(false);
        }
        drop(claiming);
        // The values that are no longer needed are dropped while no lock is held.
        drop(staged);
        match outdated {
            None => Ok(()),
            Some(position) => Err(TreeError::Reference(ReferenceError::Conflict {
                path: read.map(|read| read.path(position)).unwrap_or_default(),
                writer: if read.is_some_and(|read| read.is_written_here(position)) {
                    Writer::SameThread
                } else {
                    Writer::OtherThread
                },
                unrepeated: Unrepeated::Caller,
            })),
        }
    }
}
