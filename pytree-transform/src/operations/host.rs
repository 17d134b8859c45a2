//! Functions of the host that compiled programs call, and checks of values in compiled programs.

use std::cell::Cell;
use std::fmt::Write as _;
use std::panic::Location;
use std::sync::{Arc, LazyLock};

use pytree_base::platform;
use pytree_kernels::base::dtype::{AbstractArray, DType};

use crate::base::error::{TensorError, or_panic};
use crate::primitives::callback::{HostCall, Purity};
use crate::tensor::Tensor;
use crate::tensor::trace::bind;

/// How `vmap` calls a function of the host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[doc(alias = "vmap_method")]
pub enum HostBatches {
    /// One call for each example, in order: `"sequential"` in JAX.
    #[default]
    EachExample,
    /// One call for the whole batch: `"broadcast_all"` in JAX. All operands and all results then have the batch axes in front. In a
    /// branch that only some examples take, the call has the values of all of them.
    Whole,
}

/// Calls a function of the host, whose results depend on its operands alone, as a part of a program.
///
/// `results` declares the dtypes and shapes of the results. The function gets tensors whose elements are known. A compiled program
/// calls it when it runs: never if nothing needs the results, and once for equal calls. Under `vmap`, the function is called for
/// each example that reaches the call; see [`pure_callback_with`]. A derivative needs a rule by [`custom_jvp`](crate::custom_jvp) or
/// [`custom_vjp`](crate::custom_vjp). Equivalent to `jax.pure_callback`.
///
/// # Examples
/// ```
/// use pytree_transform::{AbstractArray, DType, Tensor, jit, pure_callback};
/// /// The median, which needs no operation of its own.
/// fn median(x: &Tensor) -> Tensor {
///     let scalar = AbstractArray::new(DType::F32, []);
///     pure_callback(&[x], &[scalar], |values| {
///         let mut sorted = values[0].to_vec::<f32>();
///         sorted.sort_by(f32::total_cmp);
///         vec![Tensor::from(sorted[sorted.len() / 2])]
///     })
///     .remove(0)
/// }
/// let centred = jit(|x: &Tensor| x - median(x));
/// assert_eq!(centred(&Tensor::from([5.0_f32, 1.0, 2.0])).to_vec::<f32>(), [3.0, -1.0, 0.0]);
/// ```
/// A derivative, by a rule for the function:
/// ```
/// use pytree_transform::{Tensor, custom_jvp, grad, pure_callback};
/// let cube = |x: &Tensor| {
///     let cubes = |values: &[Tensor]| vec![values[0].view::<f64>().unwrap().mapv(|x| x.powi(3)).into()];
///     pure_callback(&[x], &[x.info().clone()], cubes).remove(0)
/// };
/// let cube = custom_jvp(cube, move |x: &Tensor, tangent: &Tensor| (cube(x), x * x * 3.0 * tangent));
/// assert_eq!(grad(cube)(&Tensor::from(2.0_f64)).item::<f64>(), 12.0);
/// ```
///
/// # Panics
/// The program panics when it runs if the function panics, or returns other results than declared. A device that cannot call the
/// host refuses the program, with the line of the call.
#[doc(alias = "jax.pure_callback")]
#[track_caller]
pub fn pure_callback<F>(operands: &[&Tensor], results: &[AbstractArray], function: F) -> Vec<Tensor>
where
    F: Fn(&[Tensor]) -> Vec<Tensor> + Send + Sync + 'static,
{
    pure_callback_with(operands, results, HostBatches::default(), function)
}

/// Calls a function of the host like [`pure_callback`], and chooses how `vmap` calls it.
///
/// # Examples
/// ```
/// use pytree_transform::{HostBatches, Tensor, pure_callback_with, vmap};
/// let doubled = |x: Tensor| {
///     let double = |values: &[Tensor]| {
///         assert_eq!(values[0].shape(), [3], "one call for the three examples");
///         vec![values[0].view::<f32>().unwrap().mapv(|x| 2.0 * x).into()]
///     };
///     pure_callback_with(&[&x], &[x.info().clone()], HostBatches::Whole, double).remove(0)
/// };
/// assert_eq!(vmap(doubled)(Tensor::from([1.0_f32, 2.0, 3.0])).to_vec::<f32>(), [2.0, 4.0, 6.0]);
/// ```
///
/// # Panics
/// As [`pure_callback`].
#[track_caller]
pub fn pure_callback_with<F>(
    operands: &[&Tensor],
    results: &[AbstractArray],
    batches: HostBatches,
    function: F,
) -> Vec<Tensor>
where
    F: Fn(&[Tensor]) -> Vec<Tensor> + Send + Sync + 'static,
{
    let function = move |values: &[Tensor], _: &[usize]| function(values);
    let name = "pure_callback";
    host_call(name, Purity::Pure, operands, results, batches, function)
}

/// Calls a function of the host that has an effect, for instance one that reads a sensor, as a part of a program.
///
/// Each call counts: a compiled program makes all calls, in their order, also if nothing needs the results. A derivative, also of a
/// [`remat`](crate::remat), makes each call once. Under `vmap`, the function is called for each example that reaches the call, in order:
/// not in a branch that the example does not take, nor in a loop that has ended for it. If neither an operand nor the way to the call
/// differs between the examples, it is called once, and all examples have its results. For the rest, see [`pure_callback`]. Equivalent to `jax.experimental.io_callback` with `ordered=True`.
///
/// # Examples
/// ```
/// use std::sync::atomic::{AtomicI32, Ordering};
/// use pytree_transform::{AbstractArray, DType, Tensor, io_callback, jit};
/// static CALLS: AtomicI32 = AtomicI32::new(0);
/// let ticket = jit(|x: Tensor| {
///     let scalar = AbstractArray::new(DType::I32, []);
///     let next = |_: &[Tensor]| vec![Tensor::from(CALLS.fetch_add(1, Ordering::Relaxed))];
///     x + io_callback(&[], &[scalar], next).remove(0)
/// });
/// assert_eq!(ticket(Tensor::from(10)).item::<i32>(), 10);
/// assert_eq!(ticket(Tensor::from(10)).item::<i32>(), 11);
/// ```
///
/// # Panics
/// As [`pure_callback`].
#[doc(alias = "jax.experimental.io_callback")]
#[track_caller]
pub fn io_callback<F>(operands: &[&Tensor], results: &[AbstractArray], function: F) -> Vec<Tensor>
where
    F: Fn(&[Tensor]) -> Vec<Tensor> + Send + Sync + 'static,
{
    let function = move |values: &[Tensor], _: &[usize]| function(values);
    let (name, batches) = ("io_callback", HostBatches::EachExample);
    host_call(name, Purity::Effect, operands, results, batches, function)
}

#[track_caller]
fn host_call(
    name: &'static str,
    purity: Purity,
    operands: &[&Tensor],
    results: &[AbstractArray],
    batches: HostBatches,
    function: impl Fn(&[Tensor], &[usize]) -> Vec<Tensor> + Send + Sync + 'static,
) -> Vec<Tensor> {
    let call = HostCall {
        name,
        function: Arc::new(function),
        results: results.into(),
        purity,
        takes_batches: batches == HostBatches::Whole,
        has_condition: false,
        batch: Vec::new(),
        line: Location::caller(),
    };
    or_panic(bind(&call, operands)).into_vec()
}

/// Calls `callback` with the values of the operands as soon as these values are known. Under `jit`, the callback is
/// called at each run. Under `vmap`, the callback is called once for each example that reaches it. Equivalent to `jax.debug.callback`.
///
/// # Examples
/// ```
/// use std::sync::{Arc, Mutex};
/// use pytree_transform::{Tensor, debug_callback, grad, jit};
/// let seen = Arc::new(Mutex::new(Vec::new()));
/// let inner = Arc::clone(&seen);
/// let f = jit(move |x: Tensor| {
///     let inner = Arc::clone(&inner);
///     debug_callback(&[&x], move |values| inner.lock().unwrap().push(values[0].item::<f32>()));
///     x.square()
/// });
/// f(Tensor::from(2.0_f32));
/// assert_eq!(grad(f)(&Tensor::from(3.0_f32)).item::<f32>(), 6.0);
/// assert_eq!(*seen.lock().unwrap(), [2.0, 3.0]);
/// ```
///
/// # Panics
/// Panics if `callback` panics. Under `jit` the panic happens when the compiled function runs.
#[doc(alias = "jax.debug.callback")]
#[track_caller]
pub fn debug_callback<F>(operands: &[&Tensor], callback: F)
where
    F: Fn(&[Tensor]) + Send + Sync + 'static,
{
    observe("debug_callback", operands, move |values, _| {
        callback(values);
    });
}

/// Calls `observer` with the values of the operands, and with the position of the example in a batch.
#[track_caller]
fn observe(
    name: &'static str,
    operands: &[&Tensor],
    observer: impl Fn(&[Tensor], &[usize]) + Send + Sync + 'static,
) {
    let (purity, batches) = (Purity::Observer, HostBatches::EachExample);
    let function = move |values: &[Tensor], position: &[usize]| {
        observer(values, position);
        Vec::new()
    };
    host_call(name, purity, operands, &[], batches, function);
}

static IS_CHECKED_BY_DEFAULT: LazyLock<bool> =
    LazyLock::new(|| platform::flag("PYTREE_ERROR_IF").unwrap_or(true));

thread_local! {
    static IS_CHECKED: Cell<bool> = Cell::new(*IS_CHECKED_BY_DEFAULT);
}

/// Panics if an element of `condition` is true, also inside of compiled functions. Returns `x`.
///
/// The check happens when the program runs. It survives `jit`, `vmap`, `grad` and loops: the message has the line of the call, and
/// under `vmap` the first example that fails, with its value of `x`. A branch is checked only for the examples that take it. [`without_error_if`], or the environment variable
/// `PYTREE_ERROR_IF=0`, leaves the checks out of the functions that are traced. Equivalent to `eqx.error_if` in Equinox.
///
/// # Examples
/// ```should_panic
/// use pytree_transform::{Tensor, error_if, jit, vmap};
/// let log = |x: Tensor| {
///     let x = error_if(&x, &x.less_equal(0.0), "expected positive numbers");
///     x.log()
/// };
/// // cannot continue: expected positive numbers (`error_if` at src/main.rs:3:13, example [1]); x is f32[]: -2
/// jit(vmap(log))(Tensor::from([1.0_f32, -2.0]));
/// ```
///
/// # Panics
/// If an element of `condition` is true. Immediately if `condition` does not have the dtype bool. A device that cannot call the host
/// refuses the program, with the line of the call.
#[doc(alias("eqx.error_if", "checkify.check", "torch._assert_async"))]
#[track_caller]
pub fn error_if(x: &Tensor, condition: &Tensor, message: impl Into<String>) -> Tensor {
    let has_dtype = match condition.dtype() {
        DType::Bool => Ok(()),
        _ => Err(TensorError::DType {
            operation: "check",
            found: vec![condition.info().clone()],
            expected: "bool; compare numbers first, for instance with `.less(0.0)`",
        }),
    };
    or_panic(has_dtype);
    if !IS_CHECKED.get() {
        return x.clone();
    }
    let (message, line) = (message.into(), Location::caller());
    observe("error_if", &[condition, x], move |values, position| {
        let is_true = or_panic(values[0].read::<bool>()).iter().position(|&it| it);
        let Some(element) = is_true else { return };
        let mut text = format!("cannot continue: {message} (`error_if` at {line}");
        if !position.is_empty() {
            let _ = write!(text, ", example {position:?}");
        }
        if values[0].len() > 1 {
            let _ = write!(text, ", element {element} of {}", values[0].info());
        }
        panic!("{text}); x is {}: {}", values[1].info(), values[1])
    });
    x.clone()
}

/// Runs a function, and leaves all checks by [`error_if`] out of it. Functions that [`jit`](crate::jit) traces in it stay without
/// checks.
///
/// # Examples
/// ```
/// use pytree_transform::{Tensor, error_if, without_error_if};
/// let x = Tensor::from(-1.0_f32);
/// let y = without_error_if(|| error_if(&x, &x.less(0.0), "negative"));
/// assert_eq!(y, x);
/// ```
#[doc(alias = "EQX_ON_ERROR")]
pub fn without_error_if<R>(function: impl FnOnce() -> R) -> R {
    struct Restore(bool);
    impl Drop for Restore {
        fn drop(&mut self) {
            IS_CHECKED.set(self.0);
        }
    }
    let _restore = Restore(IS_CHECKED.replace(false));
    function()
}
