//! Models as plain structs that are pytrees, and `jit`, `grad` and `vmap` over them in any composition.
//!
//! ```
//! use pytree::prelude::*;
//!
//! #[derive(Module, Clone, Debug)]
//! struct Line {
//!     #[param]
//!     slope: Tensor,
//!     #[param]
//!     offset: Tensor,
//! }
//!
//! let line = Line { slope: Tensor::from(1.0_f32), offset: Tensor::from(0.0_f32) };
//! let x = Tensor::from([0.0_f32, 1.0, 2.0]);
//! let y = Tensor::from([1.0_f32, 3.0, 5.0]);
//! let gradient = grad(|line: &Line| mse(&(&x * &line.slope + &line.offset), &y))(&line);
//! assert!(gradient["slope"].item::<f32>() < 0.0);
//! ```
//!
//! - `#[derive(Module)]` makes a struct a pytree and gives each leaf a kind: [`core`].
//! - [`Tensor`] is the array; [`jit`], [`grad`], [`value_and_grad`], [`vmap`] transform functions.
//! - [`nn`] holds layers, losses, optimisers, random numbers, checkpoints and summaries.

pub use pytree_core as core;
pub use pytree_nn as nn;

// This re-exports the traits without the derive macros of the same names. The macros for users of `pytree` are
// re-exported below.
pub use pytree_core::traits::{Collection, Leaf, Module, Pytree};
pub use pytree_core::{
    Annotated, AnyLeaf, CollectionId, Dictionary, DynamicModule, FieldKind, Filter, Finding,
    Freeze, Frozen, Key as PathKey, KeyPath, LeafDiff, LeafKind, Metadata, ModelDiff, ModuleType,
    Partition, PytreeOf, Ref, ReferenceError, SelectPart, Selector, Shared, Tree, TreeBuilder,
    TreeDef, TreeError, Weak, WeakRef, at, diff, edit, graph, kind, lint, match_structure, nodes,
    partition, refs, tree,
};
pub use pytree_derive::{
    FacadeCollection as Collection, FacadeLeaf as Leaf, FacadeModule as Module,
    FacadePytree as Pytree, FacadeStatic as Static, facade_module_object as module_object,
};
pub use pytree_transform::*;

/// The items that most programs need.
pub mod prelude {
    pub use crate::kind::{
        BatchStat, Cache, Intermediate, OptState, Perturbation, RngState, State,
    };
    pub use crate::nn::*;
    pub use crate::{
        AnyLeaf, Collection, DType, DynamicModule, FieldKind, Filter, Freeze, Gradient, Jit,
        JitMut, KeyPath, Leaf, Module, ModuleType, Mut, Partition, Pytree, PytreeOf, Ref, Selector,
        Shared, Static, Tensor, Tree, TreeBuilder, TreeDef, TreeError, Weak, WeakRef, at, cond,
        cond_mut, diff, edit, einsum, grad, graph, hessian, ix, jacfwd, jacrev, jit, jit_mut, jvp,
        module_object, partition, ravel, scan, scan_mut, stack, tree, unstack, value_and_grad,
        value_and_grad_mut, vjp, vmap, vmap_mut, while_loop,
    };
}

// Compiles and runs the programs of the documents.
#[cfg(doctest)]
mod documents {
    #[doc = include_str!("../README.md")]
    struct Readme;
    #[doc = include_str!("../docs/guide.md")]
    struct Guide;
    #[doc = include_str!("../docs/for-jax-users.md")]
    struct ForJaxUsers;
    #[doc = include_str!("../docs/adding-a-layer.md")]
    struct AddingALayer;
    #[doc = include_str!("../docs/adding-a-primitive.md")]
    struct AddingAPrimitive;
    #[doc = include_str!("../docs/how-it-works.md")]
    struct HowItWorks;
}
