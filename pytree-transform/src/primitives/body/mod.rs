//! Recorded functions, and the functions that transformations derive from them.
//!
//! A body is a jaxpr with its cached derivations: the batched function, the JVP, the split into a known and a linear
//! part, and the transpose. Calls, branches and loops are built from bodies.
//!
//! The carry of a loop must have the same form in each iteration: if a carried value has a tangent after one iteration,
//! this value has a tangent before each iteration. So a derivation can force an output to have a tangent, a cotangent
//! or a batch axis, even if the body's rule gives none.

mod cache;
mod derivations;
mod given;
mod linearized;
mod masks;
pub(crate) mod program;
pub(crate) mod recorded;
mod remat;
pub(crate) mod rules;
pub(crate) mod tape;

pub(crate) use self::masks::{chosen, in_places};
pub(crate) use self::recorded::{
    BODIES, Body, Derivative, GivenRule, Linearized, Rule, all_axis_names, single_body,
};
