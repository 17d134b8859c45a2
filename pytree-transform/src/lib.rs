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
pub use crate::primitives::body::remat::RematPolicy;
pub use crate::tensor::Tensor;
pub use crate::tensor::checks::{debug_infs, debug_nans};
pub use crate::tensor::jaxpr::Jaxpr;
pub use crate::tensor::scalar::Scalar;
pub use crate::tensor::stablehlo::StableHlo;
pub use crate::tensor::traceable::Traceable;
pub use crate::transformations::abstract_shape::eval_shape;
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
    BothOf, Grad, Gradient, Pullback, ValueAndGrad, ValueAndGradMut, WithPullback, grad,
    value_and_grad, value_and_grad_mut, vjp,
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
    pub use crate::primitives::dot::MatrixElement;
    pub use crate::tensor::bytes::TensorBuffer;
    pub use crate::tensor::stablehlo::{Block, Value};
    pub use crate::transformations::extend::custom_op::CustomOp;
    pub use crate::transformations::extend::primitive::{
        Examples, Operand, Primitive, Tangents, apply, each_example, try_apply,
    };
    pub use pytree_kernels::base::threads::share;
    pub use pytree_kernels::primitives::dot::slices::{Strides, matrix_product};
}

/// Processes that run the same program: the interface of a library that connects them.
/// [`Mesh::new`](crate::device::Mesh::new) makes a mesh of the processes.
pub mod processes {
    pub use crate::tensor::device::processes::{CollectiveCall, Communicator};
}

/// Internal functions for the other crates of pytree. Do not use them in programs, because they may change at any time.
#[doc(hidden)]
pub mod raw {
    use crate::base::error::{TensorError, or_panic};
    use crate::tensor::Tensor;
    use crate::tensor::trace::Payload;
    use pytree_kernels::base::dtype::AbstractArray;

    pub use crate::base::error::{Called, called};
    pub use crate::base::warning::warn_of_debug_build;
    pub use crate::passes::each_pass;
    pub use pytree_derive::debug_print_of_tokens;

    /// Returns an error if memory cannot hold a tensor of a shape. The error names `function`, the library function
    /// that builds the tensor in parts.
    ///
    /// # Errors
    /// Returns [`TensorError::TooLarge`] if the elements cannot be addressed, or the system has too little memory.
    pub fn check_memory(function: &'static str, found: &AbstractArray) -> Result<(), TensorError> {
        crate::tensor::trace::check_creation(function, found)
    }

    /// Makes errors name `function` until the returned guard is dropped, and checks that `operand` has a float dtype;
    /// see [`called`].
    ///
    /// # Panics
    /// If the tensor has another dtype.
    #[track_caller]
    pub fn called_with_floats(function: &'static str, operand: &Tensor) -> Called {
        let called = called(function);
        or_panic(crate::operations::check_float(function, operand));
        called
    }

    /// Prints a line on the [output](pytree_core::platform) of the program.
    pub fn print_line(text: std::fmt::Arguments<'_>) {
        let stream = pytree_core::platform::Stream::Output;
        pytree_core::platform::print(stream, &format!("{text}\n"));
    }

    /// Borrows an operand of a macro, which may be a tensor or a reference to a tensor.
    pub fn operand<T: std::borrow::Borrow<Tensor>>(operand: &T) -> &Tensor {
        operand.borrow()
    }

    /// Returns the elements of a tensor of floats as f64 numbers. Returns `None` if they are not known, because the tensor
    /// is traced or on a device, or if the dtype is not a float.
    pub fn known_floats(tensor: &Tensor) -> Option<Vec<f64>> {
        let array = tensor.array()?;
        array.dtype().is_float().then(|| array.data().to_f64())
    }

    /// Returns whether a tensor is being differentiated, directly or inside of a `vmap`.
    pub fn is_differentiated(tensor: &Tensor) -> bool {
        match tensor.tracer().map(|tracer| &tracer.payload) {
            Some(Payload::Jvp { tangent, .. }) => tangent.is_some(),
            Some(Payload::Batch { value, .. }) => is_differentiated(value),
            Some(Payload::Tape(_) | Payload::Stage(..)) | None => false,
        }
    }

    /// Registers the key of a new random stream with the innermost running `vmap`. For [`is_same_for_all_examples`],
    /// the stream then counts as created inside of this `vmap`.
    pub fn note_created_key(key: &Tensor) {
        crate::tensor::trace::note_created_key(key);
    }

    /// Returns whether a random stream with this key and count was created outside of a running `vmap`, and is the same
    /// for all examples of this `vmap`.
    pub fn is_same_for_all_examples(key: &Tensor, count: &Tensor) -> bool {
        crate::tensor::trace::is_same_for_all_examples(key, count)
    }

    /// Returns the next value that a macro prints.
    ///
    /// # Panics
    /// If no value is left. This would be a bug in the library, because there are as many values as operands.
    pub fn next_operand<'t>(operands: &mut std::slice::Iter<'t, Tensor>) -> &'t Tensor {
        pytree_core::bug::expect_next(operands, "a value for each operand of a callback")
    }

    /// Computes Threefry-2x32 with 20 rounds: two words of random bits for each pair of counters. All four tensors must
    /// have the same shape.
    ///
    /// # Panics
    /// If a dtype is not u32, or the shapes differ.
    #[track_caller]
    pub fn threefry2x32(
        key0: &Tensor,
        key1: &Tensor,
        count0: &Tensor,
        count1: &Tensor,
    ) -> (Tensor, Tensor) {
        or_panic(crate::primitives::random::threefry2x32(
            key0, key1, count0, count1,
        ))
    }
}
