//! Programs of instructions that are prepared once and run many times, for the bodies of loops and for small functions.
//!
//! With few elements, an operation takes less time than the allocation of its result. So a value of a program has memory of its own,
//! which stays between runs, and an instruction is a closure that already knows the addresses, the loop and its geometry. A run
//! allocates nothing, compares no shapes and counts no references.
//!
//! An instruction takes two nanoseconds beside its arithmetic, so there are few: one for two arithmetic operations, and none for a slice that
//! an operation reads where it is. What is the same in all rounds of a loop is computed before it. Values with a short row of numbers
//! are computed in blocks of 16, with what is in the memory after the last number.
//!
//! **Invariants.** The instructions use the loops of whole arrays or add in their order, so both return the same bits. The memory of a
//! fixed value is written through one pointer, which its instructions share, and is freed when the [`Values`] are dropped. [`Code`] runs
//! only with the values for which it was made.

mod applied;
mod code;
mod elementwise;
mod indexing;
mod moves;
mod products;
mod reductions;
mod stacks;
mod values;

pub use self::code::Code;
pub use self::moves::Source;
pub use self::stacks::Stacks;
pub use self::values::{Place, Values};
