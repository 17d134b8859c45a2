//! StableHLO: the text of a module that computes the same results as a jaxpr.
//!
//! Each primitive writes its operations to a [`Block`] in its rule
//! [`lower`](crate::tensor::primitive::Primitive::lower). The rules need the contents of this folder: values with
//! types, operations with attributes and regions, shared functions, and constants.
//!
//! Invariants: the text depends only on the jaxpr, so equal programs have equal texts. Writing takes time proportional
//! to the length of the text. No operation of the dialect `chlo` is written, so each module has a portable serialised
//! form. Operations have the generic form `%2 = "stablehlo.add"(%0, %1) : (…) -> …`, which all versions of StableHLO
//! can read.
//!
//! Every primitive lowers, or refuses with the user's line. Where StableHLO leaves a result undefined, such as a division of integers
//! by zero, the rule writes what evaluation computes. Source lines are stored apart from the text, so the text can be the key of a
//! cache.

mod block;
mod constraint;
mod literals;
mod lowering;
mod module;
mod operations;
mod ordered;
mod partitioning;
mod types;

pub use self::block::{Block, Value};
pub(crate) use self::literals::{number, table};
pub use self::module::StableHlo;
pub(crate) use self::operations::GatherAxes;
pub(crate) use self::partitioning::Partitioning;
pub(crate) use self::types::{Array64, Bound, Padding, all_bits, bound};
