//! Functions with custom derivatives, which replace the derivatives of the recorded operations.

pub(crate) mod check;
pub(crate) mod custom_jvp;
pub(crate) mod custom_vjp;
pub(crate) mod remat;
