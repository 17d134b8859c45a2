//! The transformations: they take and return functions of pytrees.

pub(crate) mod abstract_shape;
pub(crate) mod aliasing;
pub(crate) mod argument;
pub(crate) mod axes;
pub(crate) mod batch;
pub(crate) mod cache;
pub(crate) mod compiled;
pub(crate) mod control;
pub(crate) mod custom;
pub(crate) mod dropped;
pub(crate) mod function;
pub(crate) mod grad;
pub(crate) mod jacobian;
pub(crate) mod jit;
pub(crate) mod jit_mut;
pub(crate) mod jvp;
pub(crate) mod linear;
pub(crate) mod lowered;
pub(crate) mod make_jaxpr;
pub(crate) mod rebuilt;
pub(crate) mod retrace;
pub(crate) mod returned;
pub(crate) mod tracing;
pub(crate) mod vmap;
pub(crate) mod vmap_mut;
pub(crate) mod writing;
