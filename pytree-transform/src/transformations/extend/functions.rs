//! What a library of functions of tensors needs besides the operations: checks of arguments and of memory, and random bits.

use crate::base::error::{Called, TensorError, or_panic};
use crate::operations;
use crate::primitives::random;
use crate::tensor::Tensor;
use crate::tensor::trace::{self, Payload};
use pytree_kernels::base::dtype::AbstractArray;

/// Makes errors name `function` until the returned guard is dropped, like [`called`](crate::extend::called), and checks that `operand` has a float
/// dtype.
///
/// # Examples
/// ```should_panic
/// use pytree_transform::Tensor;
/// use pytree_transform::extend::called_with_floats;
///
/// fn gaussian(x: &Tensor) -> Tensor {
///     let _called = called_with_floats("gaussian", x);
///     (-x.square()).exp()
/// }
/// gaussian(&Tensor::from([1, 2])); // cannot gaussian i32[2]: expected a float dtype
/// ```
///
/// # Panics
/// If the tensor has another dtype.
#[track_caller]
pub fn called_with_floats(function: &'static str, operand: &Tensor) -> Called {
    or_panic(operations::called_with_floats(function, operand))
}

/// Checks that memory can hold a tensor of this shape. Call this function before you build a large tensor in parts: without
/// it, the system may end the program when the memory is used up. The error names `function`.
///
/// # Errors
/// [`TensorError::TooLarge`] if the elements cannot be addressed, or the system has too little memory.
///
/// # Examples
/// ```
/// use pytree_transform::extend::check_memory;
/// use pytree_transform::{AbstractArray, DType};
/// let large = AbstractArray::new(DType::F64, [usize::MAX / 16]);
/// assert!(check_memory("table", &large).is_err());
/// ```
pub fn check_memory(function: &'static str, found: &AbstractArray) -> Result<(), TensorError> {
    trace::check_creation(function, found)
}

/// Returns the elements of a tensor of floats, or `None` if they are not known, because the tensor is traced or on a device,
/// or if the dtype is not a float. A function that checks the values of an argument checks only known values.
///
/// # Examples
/// ```
/// use pytree_transform::extend::known_floats;
/// use pytree_transform::{Tensor, jit};
/// assert_eq!(known_floats(&Tensor::from([0.5_f32, 2.0])), Some(vec![0.5, 2.0]));
/// let compiled = jit(|x: &Tensor| {
///     assert_eq!(known_floats(x), None);
///     x + 1.0
/// });
/// compiled(&Tensor::from(1.0));
/// ```
pub fn known_floats(tensor: &Tensor) -> Option<Vec<f64>> {
    let array = tensor.array()?;
    array.dtype().is_float().then(|| array.data().to_f64())
}

/// Returns whether a tensor is being differentiated, directly or inside of a `vmap`.
///
/// # Examples
/// ```
/// use pytree_transform::extend::is_differentiated;
/// use pytree_transform::{Tensor, grad};
/// let x = Tensor::from(3.0);
/// assert!(!is_differentiated(&x));
/// let derivative = grad(|x: &Tensor| {
///     assert!(is_differentiated(x));
///     x.square()
/// });
/// assert_eq!(derivative(&x), Tensor::from(6.0));
/// ```
pub fn is_differentiated(tensor: &Tensor) -> bool {
    match tensor.tracer().map(|tracer| &tracer.payload) {
        Some(Payload::Jvp { tangent, .. }) => tangent.is_some(),
        Some(Payload::Batch { value, .. }) => is_differentiated(value),
        Some(Payload::Tape(_) | Payload::Stage(..)) | None => false,
    }
}

/// Computes Threefry-2x32 with 20 rounds: returns two words of random bits for each pair of words of a key and pair of
/// words of a counter (Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3").
///
/// # Examples
/// ```
/// use pytree_transform::Tensor;
/// use pytree_transform::extend::threefry2x32;
/// let zero = Tensor::from([0_u32]);
/// let (first, second) = threefry2x32(&zero, &zero, &zero, &zero);
/// // The first of the test vectors of the paper's implementation.
/// assert_eq!((first.to_vec(), second.to_vec()), (vec![0x6b20_0159_u32], vec![0x99ba_4efe_u32]));
/// ```
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
    or_panic(random::threefry2x32(key0, key1, count0, count1))
}
