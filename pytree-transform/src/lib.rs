//! Tensors and function transformations over pytrees.
//!
//! [`Tensor`] is the type of arrays. [`jit`], [`grad`] and [`vmap`] transform functions of pytrees of tensors, and can
//! be nested in any order.

mod base;
mod executor;
mod jaxpr;
mod operations;
mod passes;
mod primitives;
mod tensor;
mod transformations;

pub use crate::base::axis_names::AxisNames;
/// The half-precision floats whose tensors have the dtypes [`DType::BF16`] and [`DType::F16`].
pub use half::{bf16, f16};

pub use crate::base::error::TensorError;
pub use crate::base::nested::{NestedArray, TensorElement};
pub use crate::base::warning::{Warning, WarningKind, reset_warning_hook, set_warning_hook};
pub use crate::jaxpr::{JaxprEquation, JaxprError, verify};
pub use crate::operations::axes::TensorAxes;
pub use crate::operations::collectives::{
    Tiling, all_gather, all_to_all, axis_index, axis_size, pmax, pmean, pmin, ppermute, pshuffle,
    psum, psum_scatter,
};
pub use crate::operations::cumulative::{Reversed, RunningAxis};
pub use crate::operations::einsum::{einsum, try_einsum};
pub use crate::operations::host::{
    HostBatches, debug_callback, error_if, io_callback, pure_callback, pure_callback_with,
    without_error_if,
};
pub use crate::operations::ravel::{Unravel, ravel, try_ravel};
pub use crate::operations::reshape::{NewLength, NewShape};
pub use crate::operations::stack::{stack, unstack};
pub use crate::operations::{convolution, indexing, padding, pooling, update};
pub use crate::passes::each_pass;
pub use crate::primitives::body::recorded::RematPolicy;
pub use crate::tensor::Tensor;
pub use crate::tensor::checks::{debug_infs, debug_nans};
pub use crate::tensor::jaxpr::Jaxpr;
pub use crate::tensor::scalar::Scalar;
pub use crate::tensor::stablehlo::StableHlo;
pub use crate::tensor::traceable::Traceable;
pub use crate::transformations::abstract_shape::eval_shape;
pub use crate::transformations::argument::Gradient;
pub use crate::transformations::axes::Axes;
pub use crate::transformations::control::associative::{associative_scan, associative_scan_with};
pub use crate::transformations::control::cond::{cond, cond_mut, switch};
pub use crate::transformations::control::loops::{
    Bound, ScanOptions, fori_loop, map, scan, scan_mut, scan_mut_with, scan_with,
};
pub use crate::transformations::control::while_loop::while_loop;
pub use crate::transformations::custom::custom_jvp::{CustomJvp, custom_jvp};
pub use crate::transformations::custom::custom_vjp::{CustomVjp, custom_vjp};
pub use crate::transformations::custom::remat::{Remat, remat};
pub use crate::transformations::function::{Callable, Function, Unary, Uncallable};
pub use crate::transformations::grad::{
    BothOf, Grad, Pullback, ValueAndGrad, ValueAndGradMut, WithPullback, grad, value_and_grad,
    value_and_grad_mut, vjp,
};
pub use crate::transformations::jacobian::{
    Hessian, HessianOf, Jacobian, JacobianOf, Jacobians, hessian, jacfwd, jacrev,
};
pub use crate::transformations::jit::{ByReference, ByValue, Jit, JitParameter, jit};
pub use crate::transformations::jit_mut::{JitMut, jit_mut};
pub use crate::transformations::jvp::jvp;
pub use crate::transformations::lending::{JitRef, Lent, LentArguments};
pub use crate::transformations::linear::{
    Linearization, WithDerivative, linear_transpose, linearize, saved_residuals,
};
pub use crate::transformations::lowered::{Lowered, LoweredStep, Memory};
pub use crate::transformations::make_jaxpr::{MakeJaxpr, make_jaxpr};
pub use crate::transformations::retrace::{Retrace, RetraceDifference};
pub use crate::transformations::returned::{Always, Fallible, Loss, Returned};
pub use crate::transformations::spmd::{Spmd, SpmdFunction, spmd};
pub use crate::transformations::vmap::{Vmap, vmap};
pub use crate::transformations::vmap_mut::{VmapMut, vmap_mut};
pub use crate::transformations::writing::{Arguments, Mut, WritingFunction};
pub use pytree_kernels::base::dtype::{AbstractArray, DType};
pub use pytree_kernels::base::shape::Shape;

/// Devices: the places where tensors are stored and programs run, and the interface that an engine for other hardware
/// implements.
pub mod device {
    pub use crate::base::device_error::DeviceError;
    pub use crate::tensor::device::{
        Buffer, Device, Engine, Executable, Input, Mesh, MeshBuffer, MeshDevices, MeshEngine,
        ParallelFunction, PartMaker, PartitionSpec, Partitioned, PartitionedFunction, Shard,
        Sharding, SpecAxis, visualize_sharding, with_device,
    };
    pub use crate::transformations::compiled_shardings::{CompiledShardings, LeafSharding};
    pub use crate::transformations::device_put::{Placement, device_put, try_device_put};
    pub use crate::transformations::shard::{shard, try_shard};
    pub use crate::transformations::sharding_rules::{NamedSharding, ShardingRules, Shardings};
    pub use crate::transformations::wait::{try_wait, wait};
}

/// The pool of freed memory, which stores the memory of a freed array for the next array of the same size.
///
/// The system's allocator returns large blocks to the operating system. Each page of a new block then costs a page
/// fault. A training step frees and allocates the same sizes repeatedly, so the library stores freed memory in a pool.
///
/// All threads share one pool of at most [`limit`](memory::limit) bytes. When the pool is full, it frees the least
/// recently used memory. For each size, the pool stores at most as many arrays as the program had in use at one time. If
/// the program needs memory again that a full pool has freed, the limit grows.
///
/// # Examples
/// ```
/// use pytree_transform::{DType, Tensor, memory};
/// for _ in 0..3 {
///     let x = Tensor::full(DType::F32, [1000, 1000], 1.0);
///     drop(&x + &x);
/// }
/// assert!(memory::held() <= memory::limit());
/// memory::release();
/// assert_eq!(memory::held(), 0);
/// ```
pub mod memory {
    pub use pytree_kernels::base::memory::{held, limit, release, set_limit};
}

/// Operations of other crates: an operation with a kernel of its own, and its rules for derivatives, batches and devices.
///
/// Kernels may use the library's threads with [`share`](extend::share), and its matrix products with
/// [`matrix_product`](extend::matrix_product). Functions that are composed of operations name themselves in errors with
/// [`called`](extend::called).
pub mod extend {
    pub use crate::base::error::{Called, called};
    pub use crate::base::warning::warn_of_debug_build;
    pub use crate::operations::fused::fused;
    pub use crate::primitives::dot::MatrixElement;
    pub use crate::tensor::bytes::TensorBuffer;
    pub use crate::tensor::stablehlo::{Block, Value};
    pub use crate::tensor::trace::{is_same_for_all_examples, note_created_key};
    pub use crate::transformations::extend::functions::{
        called_with_floats, check_memory, is_differentiated, known_floats, threefry2x32,
    };
    pub use crate::transformations::extend::primitive::{
        Examples, Operand, Primitive, Tangents, apply, each_example, try_apply,
    };
    pub use pytree_kernels::base::threads::share;
    pub use pytree_kernels::loops::dot::slices::{Strides, matrix_product};
}

/// Processes that run the same program: the interface of a library that connects them.
/// [`Mesh::new`](crate::device::Mesh::new) makes a mesh of the processes.
pub mod processes {
    pub use crate::tensor::device::processes::{CollectiveCall, Communicator};
}

/// The items that the code of macros uses. Not for users. The name contains a version, as that of the derive's items.
#[doc(hidden)]
pub mod __macros_0_1 {
    pub use crate::operations::debug::{next_operand, operand, print_line};
    pub use pytree_derive::debug_print_of_tokens;
}
