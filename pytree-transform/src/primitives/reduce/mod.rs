//! Reductions over axes: sum, extrema, products, logic, and positions of extrema. The reduced axes are removed.

mod arg_extremum;
mod axes;
mod combined;
mod sum;
mod sum_rules;
#[cfg(test)]
mod tests;

pub(crate) use self::arg_extremum::{ArgExtremum, argument_of};
pub(crate) use self::combined::{Reduce, reduce_as, reduce_by};
pub(crate) use self::sum::{Sum, sum, sum_as};
