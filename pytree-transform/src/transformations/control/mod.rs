//! Control flow that transformations see: branches and loops over recorded functions.

pub(crate) mod associative;
pub(crate) mod cond;
pub(crate) mod loops;
pub(crate) mod mismatch;
pub(crate) mod scan;
pub(crate) mod while_loop;
