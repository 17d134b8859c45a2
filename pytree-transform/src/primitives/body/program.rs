//! The interface to an executor that runs a recorded function on arrays.
//!
//! Executors are in a higher layer than the primitives. So a recorded function holds a function pointer to its
//! executor, and all functions derived from the recorded function share this pointer.

use std::sync::Arc;

use pytree_kernels::base::array::Array;

use crate::tensor::jaxpr::Jaxpr;
use crate::tensor::primitive::Primitive;

/// The arrays that a running program holds, by slot number. A slot is a memory cell for one array. All slots are empty
/// between runs.
pub(crate) type Slots = Vec<Option<Arc<Array>>>;

/// A function that compiles a jaxpr to a program.
pub(crate) type Compile = fn(&Jaxpr) -> Arc<dyn Program>;

/// A compiled jaxpr that an executor can run.
pub(crate) trait Program: Send + Sync {
    /// Runs the program on `operands`. Overwrites the memory of an operand if no other handle of this operand exists. A
    /// loop may pass the same `slots` to each run, so that they are allocated only once.
    fn run_in(&self, slots: &mut Slots, operands: Vec<Arc<Array>>) -> Vec<Arc<Array>>;

    /// Returns how many bytes a run needs at most at a time, beside its operands.
    fn needed(&self) -> usize;

    /// Evaluates a loop over the program without the overhead of arrays. Returns the operands if the program is too large for that.
    fn evaluate_small(
        &self,
        primitive: &dyn Primitive,
        operands: Vec<Arc<Array>>,
    ) -> Result<Vec<Arc<Array>>, Vec<Arc<Array>>> {
        let _ = primitive;
        Err(operands)
    }
}
