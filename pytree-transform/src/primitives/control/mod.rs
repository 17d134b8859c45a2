//! Control flow that transformations can see: branches and loops over recorded functions.

mod agreement;
mod carry;
pub(crate) mod cond;
pub(crate) mod scan;
pub(crate) mod while_loop;
