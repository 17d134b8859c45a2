//! Functions that work on any jaxpr: display, verification, and execution with checks.

mod checked;
mod display;
mod equation;
mod verify;

pub(crate) use self::checked::run_checked;
pub use self::equation::JaxprEquation;
pub(crate) use self::verify::debug_verify;
pub use self::verify::{JaxprError, verify};
