//! The CPU executor: runs a jaxpr on concrete arrays.
//!
//! Chains of elementwise equations and reductions run in one fused kernel. Each value is dropped right after the last
//! operation that uses it. So this operation may write its result into the memory of the value.

mod arena;
mod builder;
mod executable;
mod kernel;
mod lent;
mod plan;
mod planner;
mod products;
mod schedule;
mod stages;
mod step;
#[cfg(test)]
mod tests;
mod views;

pub(crate) use self::executable::{Executable, compile};
pub(crate) use self::plan::{Planned, plan};
