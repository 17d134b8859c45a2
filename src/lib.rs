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
//! - `#[derive(Module)]` makes a struct a pytree and gives each leaf a kind. [`mod@tree`], [`graph`], [`partition`] and
//!   [`edit`] contain the functions on trees.
//! - `#[param("in out")]` names the axes of a field, and [`shapes`] and [`shaped`] check the shapes of functions; see [`axes`].
//! - [`Tensor`] is the array; [`jit`], [`grad`], [`value_and_grad`], [`vmap`] transform functions. [`transform`]
//!   contains the types of transformed functions, [`control`] contains loops and branches, and [`collectives`] contains
//!   operations along a named axis.
//! - [`nn`] contains layers, activations and losses; [`optim`] contains optimizers; [`random`] contains keys and
//!   streams of random numbers; [`data`] contains batches of examples; [`training`] records metrics,
//!   progress and pictures of a run; [`checkpoint`] saves and loads; [`export`] writes programs for other tools;
//!   [`debug`] prints and checks values inside of compiled functions.
//!
//! Most functions that check their arguments panic with the line of the caller, and also exist as `try_…`, which returns a
//! `Result`. A transformation whose name ends in `_mut` takes a function that writes its arguments. The search of this
//! documentation finds items by their names in JAX, Flax, optax and PyTorch, such as `jnp.where`.

#[doc(inline)]
pub use pytree_base::platform;
/// The crate of pytrees, with further items for handwritten implementations of `Pytree` and of leaf types.
pub use pytree_core as core;

// Re-exports the traits without the derive macros of the same names. The crate's own macros with these names are
// re-exported below.
#[cfg(feature = "burn022")]
pub use pytree_core::burn022;
#[cfg(feature = "candle011")]
pub use pytree_core::candle011;
pub use pytree_core::traits::{Collection, Leaf, Module, Pytree};
pub use pytree_core::{
    Annotated, AnyLeaf, CollectionId, Dictionary, DynamicModule, FieldKind, Filter, Finding,
    Freeze, Frozen, KeyPath, LeafDiff, LeafKind, Metadata, Mixed, ModelDiff, ModuleType, Opaque,
    PathKey, PytreeOf, Ref, ReferenceError, SelectPart, Selector, ShapeError, ShapeMismatch,
    Shared, Tree, TreeBuilder, TreeDef, TreeError, WeakRef, WeakShared, arrays, at, at_each, axes,
    depth, diff, edit, graph, kind, lint, match_structure, mixed, nodes, partition, refs, tree,
};
pub use pytree_derive::{
    FacadeCollection as Collection, FacadeLeaf as Leaf, FacadeModule as Module,
    FacadePytree as Pytree, FacadeStatic as Static, facade_module_object as module_object,
    facade_shaped as shaped, facade_shapes as shapes,
};
pub use pytree_io::{checkpoint, data, export, files, training};
pub use pytree_nn::Model;
pub use pytree_transform::{
    AbstractArray, Axes, DType, Jaxpr, Jit, JitMut, NestedArray, NewLength, NewShape, Reversed,
    RunningAxis, Scalar, Shape, Tensor, TensorAxes, TensorElement, TensorError, Unravel, bf16,
    convolution, custom_jvp, custom_vjp, einsum, eval_shape, f16, grad, hessian, indexing, ix,
    jacfwd, jacrev, jit, jit_mut, jvp, linear_transpose, linearize, make_jaxpr, memory, padding,
    pooling, ravel, remat, saved_residuals, spmd, stack, try_einsum, try_ravel, unstack, update,
    value_and_grad, value_and_grad_mut, vjp, vmap, vmap_mut,
};

/// A part of an `M`: the structure of the `M`, in which some leaves are absent.
///
/// The leaves are tensors, unless another type is given: a gradient with respect to a `Net` is a `Partition<Net>`, and
/// a part of a model of ndarrays is a `Partition<Net, ArrayD<f32>>`. The type is [`core::Partition`] with another
/// default: the leaves of a [`core::Partition`] may be of any type if none is given.
///
/// # Examples
/// ```
/// use pytree::Partition;
/// use pytree::prelude::*;
///
/// /// Returns the parameters, each divided by the number of its elements.
/// fn scaled(model: &Mlp) -> Partition<Mlp> {
///     let params = partition::filter(model, &Filter::param());
///     params.map(|param| param / param.len() as f64)
/// }
/// let model = Mlp::new(&[2, 3, 1], Activation::Relu, &mut Rngs::new(0));
/// assert_eq!(scaled(&model)["layers[1].weight"], &model.layers[1].weight / 3.0);
/// ```
pub type Partition<M, L = Tensor> = pytree_core::Partition<M, L>;

/// Layers, activations, initializers, losses, metrics, and intermediate values of models.
///
/// The defaults of layers are those of Flax NNX, and the features are on the last axis. Most losses return one number for
/// each example or element. Reduce these numbers with [`Tensor::mean`](crate::Tensor::mean), or with
/// [`Tensor::mean_where`](crate::Tensor::mean_where), [`Tensor::sum_where`](crate::Tensor::sum_where) or
/// [`Tensor::weighted_mean`](crate::Tensor::weighted_mean) if some examples are padding or have weights. The shapes of
/// predictions and targets are compared and never broadcast.
pub mod nn {
    pub use pytree_nn::{
        Distribution, Fan, FanAxes, Hyperparameter, Initializer, InputError, Summary, SummaryRow,
        accuracy, confusion_matrix, convert_floats, forward, sequential, summary, try_accuracy,
        try_confusion_matrix,
    };
    pub use pytree_nn::{functions::*, intermediates::*, layers::*, losses::*};
}

/// Optimizers: transformations of gradients that are chained, as in optax, and schedules of learning rates.
pub mod optim {
    pub use pytree_nn::{Hyperparameter, MixedPrecision, NamedHyperparameter};
    pub use pytree_nn::{optimizers::*, schedules::*};
}

/// Metrics that are collected over batches.
///
/// `update` adds a batch, `update_where` adds the examples of a batch where a mask is true, and `merge` adds the examples of
/// another metric. `compute` returns the metric of all examples that were added. All these methods run under `jit`. The
/// functions [`nn::accuracy`] and [`nn::confusion_matrix`] compute the
/// metrics of one batch.
pub mod metrics {
    pub use pytree_nn::metrics::*;
}

/// Random numbers: keys, and the random streams of models.
pub mod random {
    pub use pytree_nn::random::*;
}

/// Loops and branches that are recorded as one equation: `jax.lax`'s control flow.
pub mod control {
    pub use pytree_transform::{
        Bound, ScanOptions, associative_scan, associative_scan_with, cond, cond_mut, fori_loop,
        map, scan, scan_mut, scan_mut_with, scan_with, switch, while_loop,
    };
}

/// Operations between the examples of a `vmap` with a named axis, or between the devices of a mesh.
pub mod collectives {
    pub use pytree_transform::processes::{CollectiveCall, Communicator};
    pub use pytree_transform::{
        AxisNames, Tiling, all_gather, all_to_all, axis_index, axis_size, pmax, pmean, pmin,
        ppermute, pshuffle, psum, psum_scatter,
    };
}

/// Callbacks and prints inside of compiled functions, checks for NaN and infinities, and the hook for warnings.
pub mod debug {
    pub use pytree_transform::{
        Warning, WarningKind, debug_callback, debug_infs, debug_nans, debug_print, error_if,
        reset_warning_hook, set_warning_hook, without_error_if,
    };
}

/// Devices: where tensors are and programs run, and the interface that an engine for other hardware implements.
pub mod device {
    pub use pytree_transform::device::*;
}

/// The types of transformed functions, of their arguments and results, and of recorded functions.
pub mod transform {
    pub use pytree_transform::{
        Always, Arguments, BothOf, ByReference, ByValue, Callable, CustomJvp, CustomVjp, Fallible,
        Function, Grad, Gradient, Hessian, HessianOf, Jacobian, JacobianOf, Jacobians,
        JaxprEquation, JaxprError, Jit, JitMut, JitParameter, JitRef, Lent, LentArguments,
        Linearization, Loss, Lowered, LoweredStep, MakeJaxpr, Memory, Mut, Pullback, Remat,
        RematPolicy, Retrace, RetraceDifference, Returned, Spmd, SpmdFunction, Traceable, Unary,
        Uncallable, ValueAndGrad, ValueAndGradMut, Vmap, VmapMut, WithDerivative, WithPullback,
        WritingFunction, each_pass, verify,
    };
}

/// Operations of your own: a kernel in Rust, and its rules for derivatives, batches and devices.
///
/// A [`Primitive`](extend::Primitive) needs a shape and a kernel. [`pure_callback`](extend::pure_callback) calls a function of the
/// host without a type of its own.
pub mod extend {
    pub use pytree_transform::extend::*;
    pub use pytree_transform::{HostBatches, io_callback, pure_callback, pure_callback_with};
}

/// Programs in StableHLO, the input language of XLA and other compilers.
///
/// [`Jit::stablehlo`](crate::transform::Jit::stablehlo) and [`Jaxpr::to_stablehlo`](crate::Jaxpr::to_stablehlo) return
/// a module.
///
/// # Examples
/// ```
/// use pytree::prelude::*;
/// use pytree::stablehlo::StableHlo;
///
/// let model = Mlp::new(&[2, 3, 1], Activation::Tanh, &mut Rngs::new(0));
/// let forward = jit(|(model, x): (Mlp, Tensor)| model.forward(&x));
/// let module: StableHlo = forward.stablehlo(&(model, Tensor::zeros(DType::F32, [4, 2])));
/// assert_eq!(module.inputs().len(), 5);
/// assert_eq!(module.outputs()[0].to_string(), "f32[4,1]");
/// assert!(module.text().contains("stablehlo.dot_general"));
/// ```
pub mod stablehlo {
    pub use pytree_transform::StableHlo;
}

/// Linear algebra on matrices of f32 or f64, with derivatives: `jax.numpy.linalg` and `jax.scipy.linalg`. Needs the
/// feature `linalg`.
#[cfg(feature = "linalg")]
pub use pytree_linalg as linalg;

/// Published models with their pretrained weights: BERT, GPT-2, Llama, ResNet. Needs the feature `models`, and its
/// `Tokenizer` the feature `tokenizers`.
#[cfg(feature = "models")]
pub use pytree_models as models;

/// Compiles StableHLO and runs it on CPUs, GPUs and TPUs through PJRT plugins of XLA. Needs the feature `pjrt`.
#[cfg(feature = "pjrt")]
pub use pytree_pjrt as pjrt;

/// Runs a program in several processes, whose collectives are messages of MPI. Needs the feature `mpi`.
#[cfg(feature = "mpi")]
pub use pytree_mpi as mpi;

/// The items that most programs need: the items that the README or several of the programs in `tests/programs`, the examples
/// and the pages use.
pub mod prelude {
    pub use crate::checkpoint::{CheckpointFolder, Goal};
    pub use crate::control::{scan, scan_mut};
    pub use crate::data::Batches;
    pub use crate::kind::BatchStat;
    pub use crate::nn::{
        Activation, BatchNorm, Conv, Dropout, Embed, LayerNorm, Linear, Lora, Mlp, Sequential,
        TransformerBlock, accuracy, eval, forward, mse, sequential, softmax, softmax_cross_entropy,
        summary, train,
    };
    pub use crate::optim::{Optimizer, Schedule, adam, adamw, sgd};
    pub use crate::random::{Key, Rngs};
    pub use crate::{
        DType, Filter, Model, Module, Partition, Pytree, Ref, Shared, Tensor, Tree, TreeError,
        checkpoint, diff, einsum, grad, graph, hessian, ix, jit, jit_mut, jvp, partition, shaped,
        shapes, stack, tree, value_and_grad, value_and_grad_mut, vmap, vmap_mut,
    };
}

// Compiles and runs the programs of the documents.
#[cfg(doctest)]
mod documents {
    #[doc = include_str!("../README.md")]
    struct Readme;
    #[doc = include_str!("../docs/tutorial.md")]
    struct Tutorial;
    #[doc = include_str!("../docs/how-to/compile.md")]
    struct Compile;
    #[doc = include_str!("../docs/how-to/errors.md")]
    struct Errors;
    #[doc = include_str!("../docs/how-to/look-inside.md")]
    struct LookInside;
    #[doc = include_str!("../docs/how-to/random-numbers.md")]
    struct RandomNumbers;
    #[doc = include_str!("../docs/how-to/shared-nodes.md")]
    struct SharedNodes;
    #[doc = include_str!("../docs/how-to/trees.md")]
    struct Trees;
    #[doc = include_str!("../docs/how-to/any-model.md")]
    struct AnyModel;
    #[doc = include_str!("../docs/how-to/own-types.md")]
    struct OwnTypes;
    #[doc = include_str!("../docs/how-to/checkpoints.md")]
    struct Checkpoints;
    #[doc = include_str!("../docs/how-to/several-devices.md")]
    struct SeveralDevices;
    #[doc = include_str!("../docs/how-to/sharding.md")]
    struct Sharding;
    #[doc = include_str!("../docs/how-to/several-processes.md")]
    struct SeveralProcesses;
    #[doc = include_str!("../docs/explanation/references.md")]
    struct References;
    #[doc = include_str!("../docs/reference/layers.md")]
    struct Layers;
    #[doc = include_str!("../docs/how-to/data.md")]
    struct Data;
    #[doc = include_str!("../docs/reference/shapes.md")]
    struct Shapes;
    #[doc = include_str!("../docs/how-to/devices.md")]
    struct Devices;
    #[doc = include_str!("../docs/how-to/export.md")]
    struct Export;
    #[doc = include_str!("../docs/how-to/weights.md")]
    struct Weights;
    #[doc = include_str!("../docs/reference/optimizers.md")]
    struct Optimizers;
    #[doc = include_str!("../docs/how-to/own-training.md")]
    struct OwnTraining;
    #[doc = include_str!("../docs/how-to/serving.md")]
    struct Serving;
    #[doc = include_str!("../docs/how-to/browser.md")]
    struct Browser;
    #[doc = include_str!("../docs/reference/for-jax-users.md")]
    struct ForJaxUsers;
    #[doc = include_str!("../docs/reference/for-pytorch-users.md")]
    struct ForPytorchUsers;
    #[cfg(feature = "pjrt")]
    #[doc = include_str!("../docs/how-to/gpu.md")]
    struct Gpu;
    #[cfg(feature = "models")]
    #[doc = include_str!("../docs/how-to/published-models.md")]
    struct PublishedModels;
    #[cfg(feature = "linalg")]
    #[doc = include_str!("../docs/reference/linear-algebra.md")]
    struct LinearAlgebra;
    #[doc = include_str!("../docs/how-to/adding-a-layer.md")]
    struct AddingALayer;
    #[doc = include_str!("../docs/how-to/own-operation.md")]
    struct OwnOperation;
    #[doc = include_str!("../docs/how-to/adding-a-primitive.md")]
    struct AddingAPrimitive;
    #[doc = include_str!("../docs/explanation/how-it-works.md")]
    struct HowItWorks;
}
