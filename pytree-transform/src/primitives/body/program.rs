//! How a recorded function runs on arrays.
//!
//! Executors are above the primitives. So what is recorded names the executor that is to run it by a function, and
//! everything that is derived from it runs on the same one.

use std::sync::Arc;

use crate::base::array::Array;
use crate::tensor::jaxpr::Jaxpr;

/// The values of a run, by slot; all empty between runs.
pub(crate) type Slots = Vec<Option<Arc<Array>>>;

/// Makes a jaxpr ready to run.
pub(crate) type Compile = fn(&Jaxpr) -> Arc<dyn Program>;

/// A jaxpr made ready to run.
pub(crate) trait Program: Send + Sync {
    /// Runs on the operands, whose memory is reused where nobody else holds them. The slots may be those of an
    /// earlier run: a loop makes them once.
    fn run_in(&self, slots: &mut Slots, operands: Vec<Arc<Array>>) -> Vec<Arc<Array>>;
}
