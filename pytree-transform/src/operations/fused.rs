//! Evaluates a function of several operations on large tensors as one compiled program, so no intermediate result is as large as an
//! operand.
//!
//! The function is recorded in each call, which takes less time than one operation on so many elements. Its compiled program is cached by
//! the recorded jaxpr, without the captured tensors, which become inputs. The bits are those of the operations one by one, because
//! neither fused kernels nor passes change bits.

use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use pytree_base::bug::{expect_next, expect_some};
use pytree_kernels::base::array::Array;

use crate::base::error::{TensorError, or_panic};
use crate::executor::Executable;
use crate::primitives::body::program::Slots;
use crate::tensor::jaxpr::{Equation, Jaxpr, constant_array};
use crate::tensor::stage::stage;
use crate::tensor::trace::{Recorder, is_transforming, recording_all};
use crate::tensor::{Tensor, checks, device};

/// The least number of elements of an operand with which a function is compiled. Smaller intermediate results stay in the caches of a
/// processor, and some functions then take less time operation by operation.
const LARGE: usize = 1 << 21;

/// The number of programs in the cache, which is emptied when it is full.
const PROGRAMS: usize = 1024;

/// A recorded function without the tensors that it captured.
struct Recorded(Jaxpr);

impl PartialEq for Recorded {
    fn eq(&self, Self(other): &Self) -> bool {
        let Self(jaxpr) = self;
        let is_same = |(one, other): (&Equation, &Equation)| {
            one.inputs == other.inputs
                && one.outputs == other.outputs
                && *one.primitive == *other.primitive
        };
        jaxpr.variables == other.variables
            && jaxpr.inputs == other.inputs
            && jaxpr.outputs == other.outputs
            && jaxpr.equations.len() == other.equations.len()
            && jaxpr.equations.iter().zip(&other.equations).all(is_same)
    }
}

impl Eq for Recorded {}

impl Hash for Recorded {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.0.inputs().hash(hasher);
        for equation in &self.0.equations {
            equation.primitive.hash(hasher);
            equation.inputs.hash(hasher);
        }
    }
}

/// Calls a function of tensors that it captures, and of numbers. If an operand is large, runs the function as one compiled program.
/// Returns an error if the system refuses memory, which names the function of [`called`](crate::extend::called).
#[track_caller]
pub(crate) fn try_fused(
    operands: &[&Tensor],
    function: impl FnOnce() -> Result<Tensor, TensorError>,
) -> Result<Tensor, TensorError> {
    TensorError::composed("fused", || {
        let is_large = operands.iter().any(|operand| operand.len() >= LARGE);
        if !is_large || !can_compile(operands) {
            return function();
        }
        let mut function = Some(function);
        compiled(&mut || expect_some(function.take(), "one call of the recorded function")())
    })
}

/// Calls a function of several operations on tensors, which it captures. If an operand has many elements, runs the function as one
/// compiled program, so no intermediate result takes the memory of an operand. The bits are the same. If an operand is traced, as in
/// `jit`, calls the function as it is.
///
/// The function may be called for each shape anew, and must not depend on the elements of its operands: like a function in `jit`, it
/// cannot read them.
///
/// # Examples
/// ```
/// use pytree_transform::Tensor;
/// use pytree_transform::extend::fused;
/// let gaussian = |x: &Tensor| fused(&[x], || (-x.square()).exp());
/// assert_eq!(gaussian(&Tensor::from([0.0_f32, 1.0])).to_vec::<f32>()[0], 1.0);
/// ```
///
/// # Panics
/// Panics if the function panics, or if the system refuses memory. The error names the function of
/// [`called`](crate::extend::called).
#[track_caller]
pub fn fused(operands: &[&Tensor], function: impl FnOnce() -> Tensor) -> Tensor {
    or_panic(try_fused(operands, || Ok(function())))
}

fn can_compile(operands: &[&Tensor]) -> bool {
    let is_on_host = |operand: &&Tensor| operand.array().is_some();
    operands.iter().all(is_on_host)
        && !is_transforming()
        && !checks::active()
        && !device::is_chosen()
}

/// Records a function, and runs its compiled program.
fn compiled(
    function: &mut dyn FnMut() -> Result<Tensor, TensorError>,
) -> Result<Tensor, TensorError> {
    let (mut jaxpr, _, outcome) = stage(Recorder::Jit, &[], |_| {
        let _all = recording_all();
        match function() {
            Ok(result) => (vec![result], Ok(())),
            Err(error) => (Vec::new(), Err(error)),
        }
    });
    outcome?;
    let captured = std::mem::take(&mut jaxpr.constants).into_iter();
    let arrays: Vec<Arc<Array>> = captured
        .map(|(variable, tensor)| {
            jaxpr.inputs.push(variable);
            Arc::clone(constant_array(&tensor))
        })
        .collect();
    let results = program(jaxpr).run_in(&mut Slots::new(), arrays);
    let result = expect_next(&mut results.into_iter(), "the result of a fused function");
    Ok(Tensor::from_shared(result))
}

/// Returns the compiled program of a recorded function.
fn program(jaxpr: Jaxpr) -> Arc<Executable> {
    static CACHE: LazyLock<Mutex<HashMap<Recorded, Arc<Executable>>>> =
        LazyLock::new(Mutex::default);
    let cache = || CACHE.lock().unwrap_or_else(PoisonError::into_inner);
    let recorded = Recorded(jaxpr);
    if let Some(known) = cache().get(&recorded) {
        return Arc::clone(known);
    }
    let executable = Arc::new(Executable::optimized(&recorded.0));
    // The bodies of a loop are compared by identity, so a program with a loop is never found again.
    let mut equations = recorded.0.equations.iter();
    if equations.all(|equation| equation.primitive.bodies().is_empty()) {
        let mut cache = cache();
        if cache.len() >= PROGRAMS {
            cache.clear();
        }
        cache.insert(recorded, Arc::clone(&executable));
    }
    executable
}
