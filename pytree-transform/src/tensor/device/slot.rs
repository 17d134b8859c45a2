//! The programs of one recorded function, one for each device.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use super::handle::Device;
use super::mesh::Layout;
use super::program::Program;
use crate::base::error::TensorError;

/// A program that is compiled when it is first needed. Other threads that need the program wait until it is compiled.
#[derive(Debug, Default)]
pub(super) struct Slot(Mutex<Option<Arc<Program>>>);

impl Slot {
    /// Returns the program. Compiles it if necessary. An error is not stored, so the next call compiles again.
    pub(super) fn get_or_compile(
        &self,
        compile: impl FnOnce() -> Result<Program, TensorError>,
    ) -> Result<Arc<Program>, TensorError> {
        let mut slot = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(program) = &*slot {
            return Ok(Arc::clone(program));
        }
        let program = Arc::new(compile()?);
        *slot = Some(Arc::clone(&program));
        Ok(program)
    }
}

/// The programs of a recorded function, one for each device that has run it, and on a mesh one for each layout of the
/// operands.
#[derive(Default)]
pub(crate) struct Slots(Mutex<Vec<(Device, Layout, Arc<Slot>)>>);

impl Slots {
    /// Returns the program for a device and operands with a layout. Compiles it if necessary.
    pub(crate) fn get_or_compile(
        &self,
        device: &Device,
        layout: &Layout,
        compile: impl FnOnce() -> Result<Program, TensorError>,
    ) -> Result<Arc<Program>, TensorError> {
        self.of(device, layout).get_or_compile(compile)
    }

    fn of(&self, device: &Device, layout: &Layout) -> Arc<Slot> {
        let mut slots = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut known = slots.iter();
        let known = known.find(|(known, of, _)| known == device && of == layout);
        if let Some((.., slot)) = known {
            return Arc::clone(slot);
        }
        let slot = Arc::default();
        slots.push((device.clone(), layout.clone(), Arc::clone(&slot)));
        slot
    }
}

impl fmt::Debug for Slots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Slots")
    }
}
