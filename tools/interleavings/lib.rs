//! The cache of compiled functions and the turns of calls, with little stand-ins for what they need of the library.
//!
//! The locks, atomics and threads are shuttle's: `sync.rs` is in the place of the modules `base::sync` of the library.

#![allow(dead_code, unused_imports)]

extern crate self as pytree_core;
extern crate self as pytree_kernels;

#[path = "../../pytree-transform/src/transformations/cache.rs"]
mod cache;
#[path = "../../pytree-transform/src/transformations/signature.rs"]
mod signature;
mod sync;
#[path = "../../pytree-transform/src/transformations/tracing.rs"]
mod tracing;
#[path = "../../pytree-core/src/contract/turn.rs"]
mod turn;

#[cfg(test)]
mod caches;
#[cfg(test)]
mod turns;

/// How many orders are tried. One at random is a step of some thread at each lock and atomic.
fn orders() -> usize {
    std::env::var("PYTREE_ORDERS").map_or(2_000, |orders| orders.parse().unwrap())
}

/// The structure of an argument: any number.
#[derive(Clone, Debug, PartialEq, Hash)]
pub struct TreeDef(u32);

impl std::fmt::Display for TreeDef {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "treedef {}", self.0)
    }
}

pub struct References;

pub mod boundary {
    pub use super::References;
    use super::TreeDef;

    pub trait Visited<L> {
        fn treedef(&self) -> TreeDef;
    }

    pub struct Outcome;

    impl Outcome {
        pub fn writes(&self) -> bool {
            false
        }
        pub fn whole(&self) -> &TreeDef {
            &TreeDef(0)
        }
        pub fn flatten_argument<'t, L>(
            argument: &dyn Visited<L>,
            known: &dyn Fn(usize) -> Option<(&'t TreeDef, &'t Self)>,
            choose: &dyn Fn(usize, &[&L]) -> Option<usize>,
        ) -> Option<(usize, Vec<L>, References)> {
            let mut treedefs = (0..).map_while(|at| Some(known(at)?.0));
            let at = treedefs.position(|treedef| *treedef == argument.treedef())?;
            Some((choose(at, &[])?, Vec::new(), References))
        }
    }
}

mod base {
    pub(crate) use crate::sync;

    pub mod array {
        pub struct Array;
    }

    pub mod dtype {
        #[derive(Clone, Debug, PartialEq, Hash)]
        pub struct AbstractArray;

        impl std::fmt::Display for AbstractArray {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("f32[]")
            }
        }
    }

    pub mod error {
        pub fn or_panic<T>(result: Result<T, String>) -> T {
            result.unwrap()
        }

        #[derive(Debug)]
        pub enum TreeError {
            Conflict,
        }

        impl TreeError {
            pub fn is_conflict(&self) -> bool {
                true
            }
        }
    }
}

mod tensor {
    #[derive(Clone)]
    pub struct Tensor;

    impl Tensor {
        pub fn info(&self) -> &super::base::dtype::AbstractArray {
            &super::base::dtype::AbstractArray
        }
    }

    impl From<bool> for Tensor {
        fn from(_: bool) -> Self {
            Self
        }
    }

    pub mod checks {
        pub fn active() -> bool {
            false
        }
    }

    pub mod device {
        pub struct Device;

        #[derive(Default)]
        pub struct Slots;

        pub fn of_jaxpr(_: &crate::primitives::body::Jaxpr) -> Vec<Device> {
            Vec::new()
        }
    }

    pub mod stablehlo {
        pub struct StableHlo;

        impl StableHlo {
            pub fn with_names_of(self, _: &crate::TreeDef, _: &crate::TreeDef) -> Self {
                self
            }
        }
    }

    pub mod trace {
        pub fn axis_length(_: &str, _: &str) -> Result<usize, String> {
            Ok(0)
        }
        pub fn bound_length(_: &str) -> Option<usize> {
            None
        }
    }
}

mod jaxpr {
    use std::sync::Arc;

    use super::base::array::Array;
    use super::primitives::body::Jaxpr;

    pub fn run_checked(_: &Jaxpr, operands: Vec<Arc<Array>>) -> Vec<Arc<Array>> {
        operands
    }
}

mod primitives {
    pub mod body {
        use std::sync::Arc;

        #[derive(Default)]
        pub struct Body {
            pub jaxpr: Jaxpr,
            pub has_effect: bool,
        }

        impl Body {
            pub fn share(&self, _: Arc<crate::executor::Executable>) {}
        }

        #[derive(Default)]
        pub struct Jaxpr {
            pub batch_axes: Vec<(String, usize)>,
        }

        impl Jaxpr {
            pub fn to_stablehlo(&self) -> crate::tensor::stablehlo::StableHlo {
                crate::tensor::stablehlo::StableHlo
            }
        }

        pub mod program {
            pub struct Slots;

            impl Slots {
                pub fn new() -> Self {
                    Self
                }
            }
        }
    }
}

mod executor {
    use std::sync::Arc;

    use super::base::array::Array;
    use super::primitives::body::Jaxpr;
    use super::primitives::body::program::Slots;

    pub struct Executable;

    impl Executable {
        pub fn optimized(_: &Jaxpr) -> Self {
            Self
        }
        pub fn run_in(&self, _: &mut Slots, operands: Vec<Arc<Array>>) -> Vec<Arc<Array>> {
            operands
        }
        pub fn run_lent(&self, inputs: Vec<Arc<Array>>, _: &mut dyn FnMut()) -> Vec<Arc<Array>> {
            inputs
        }
    }
}

mod transformations {
    pub(crate) use crate::{cache, signature, tracing};

    pub mod dropped {
        use super::function::Origin;

        pub struct Dropped;

        impl Dropped {
            pub fn check(&self, _: Origin, _: &[crate::tensor::Tensor]) {}
        }
    }
    pub mod function {
        #[derive(Clone, Copy)]
        pub struct Origin(pub &'static std::panic::Location<'static>);

        impl std::fmt::Display for Origin {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, "jit at {}", self.0)
            }
        }
    }
}
