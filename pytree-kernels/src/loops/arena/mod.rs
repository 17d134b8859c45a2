//! Programs of instructions that are prepared once and run many times, for the bodies of loops and for small functions.
//!
//! With few elements, an operation takes less time than the allocation of its result. So a value of a program has memory of its own,
//! which stays between runs, and an [`Instruction`] is a closure that already knows the addresses, the loop and its geometry. A run
//! allocates nothing, compares no shapes and counts no references.
//!
//! **Invariants.** The instructions use the loops of whole arrays, so both return the same bits. The memory of a fixed value is written
//! through one pointer, which its instructions share, and is freed when the [`Values`] are dropped. [`Code`] runs only with the values for which it was made.

mod elementwise;
mod indexing;
mod moves;
mod products;
mod reductions;
mod values;

pub use self::moves::Source;
pub use self::values::{Code, Instruction, Place, Values};
