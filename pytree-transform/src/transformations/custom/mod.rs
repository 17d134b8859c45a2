//! Functions whose derivatives are computed in another way than from their operations as recorded.

pub(crate) mod check;
pub(crate) mod custom_jvp;
pub(crate) mod custom_vjp;
pub(crate) mod remat;
