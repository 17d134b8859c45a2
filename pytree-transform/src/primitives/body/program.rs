//! The interface to an executor that runs a recorded function on arrays.
//!
//! Executors are in a higher layer than the primitives. So a recorded function holds its executor as a function
//! pointer, and every derived function uses the same executor.

use std::sync::Arc;

use crate::base::array::Array;
use crate::tensor::jaxpr::Jaxpr;

/// The values of a run, by slot. All slots are empty between runs.
pub(crate) type Slots = Vec<Option<Arc<Array>>>;

/// Compiles a jaxpr to a program.
pub(crate) type Compile = fn(&Jaxpr) -> Arc<dyn Program>;

/// A compiled jaxpr.
pub(crate) trait Program: Send + Sync {
    /// Runs the program. Reuses the memory of operands that nobody else holds. `slots` may come from an earlier run, so
    /// that a loop allocates it once.
    fn run_in(&self, slots: &mut Slots, operands: Vec<Arc<Array>>) -> Vec<Arc<Array>>;
}
