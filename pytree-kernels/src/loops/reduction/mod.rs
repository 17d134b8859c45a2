//! Reductions over axes. [`crate::base::fold`] defines the order in which the kernels combine elements.

mod groups;
mod pass;
mod positions;
mod reduce;
#[cfg(test)]
mod tests;
mod truth;
mod widening;

pub(crate) use self::groups::{Grouped, grouped};
pub(crate) use self::pass::{Pass, run};
pub use self::positions::argument;
pub(crate) use self::positions::positions;
pub use self::reduce::{Extremum, Reduction, reduce, sum};
