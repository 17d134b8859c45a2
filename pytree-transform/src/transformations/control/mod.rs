//! Control flow: branches and loops over functions of pytrees.

pub(crate) mod associative;
pub(crate) mod cond;
mod inputs;
pub(crate) mod loops;
pub(crate) mod mismatch;
pub(crate) mod while_loop;
