//! Evaluates a function of several operations on large tensors as one compiled program, so no intermediate result is as large as an
//! operand.
//!
//! The function is recorded in each call, which takes less time than one operation on so many elements. Its compiled program is cached by
//! the recorded jaxpr, without the captured tensors, which become inputs. The bits are those of the operations one by one, because
//! neither fused kernels nor passes change bits.
//!
//! The derivative is a compiled program, too. It holds the operands instead of the factors of each operation, and computes the factors
//! again. It adds cotangents in the order of the operations, so its bits are theirs.

use std::collections::HashSet;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use pytree_base::bug::{expect_next, expect_some};

use crate::base::error::{TensorError, or_panic};
use crate::executor::compile;
use crate::primitives::body::recorded::RematPolicy;
use crate::primitives::body::{Body, Derivative};
use crate::primitives::call::call_taking;
use crate::tensor::jaxpr::{Equation, Jaxpr};
use crate::tensor::stage::stage;
use crate::tensor::trace::{
    Payload, Recorder, at_line, current_line, is_staging, is_transforming, recording_all,
};
use crate::tensor::{Tensor, checks, device};

/// The least number of elements of an operand with which a function is compiled. Smaller intermediate results stay in the caches of a
/// processor, and some functions then take less time operation by operation.
const LARGE: usize = 1 << 21;

/// The number of programs in the cache, which is emptied when it is full.
const PROGRAMS: usize = 1024;

const ONE_CALL: &str = "one call of the recorded function";

/// A recorded function without the tensors that it captured, compared by its equations, and what its derivative holds.
struct Recorded(RematPolicy, Arc<Body>);

impl PartialEq for Recorded {
    fn eq(&self, other: &Self) -> bool {
        let (policies, [jaxpr, other]) =
            ([self.0, other.0], [&self.1, &other.1].map(|it| &it.jaxpr));
        let is_same = |(one, other): (&Equation, &Equation)| {
            one.inputs == other.inputs
                && one.outputs == other.outputs
                && *one.primitive == *other.primitive
        };
        policies[0] == policies[1]
            && jaxpr.variables == other.variables
            && jaxpr.inputs == other.inputs
            && jaxpr.outputs == other.outputs
            && jaxpr.equations.len() == other.equations.len()
            && jaxpr.equations.iter().zip(&other.equations).all(is_same)
    }
}

impl Eq for Recorded {}

impl Hash for Recorded {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        let jaxpr = &self.1.jaxpr;
        jaxpr.inputs().hash(hasher);
        for equation in &jaxpr.equations {
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
        if !is_large(operands) || !can_compile(operands) {
            return function();
        }
        let mut function = Some(function);
        let mut function = || expect_some(function.take(), ONE_CALL)();
        compiled(RematPolicy::Nothing, &mut function)
    })
}

/// Calls a function. If a large operand is differentiated, runs the function and its derivative as two compiled programs, which overwrite
/// cotangents. The policy says what the derivative holds.
#[track_caller]
pub(crate) fn try_differentiated(
    policy: RematPolicy,
    operands: &[&Tensor],
    function: impl FnOnce() -> Result<Tensor, TensorError>,
) -> Result<Tensor, TensorError> {
    if !is_large(operands) || !is_differentiated(operands) || !can_compile(operands) {
        return at_line(current_line(), function);
    }
    TensorError::composed("fused", || {
        let mut function = Some(function);
        let mut function = || expect_some(function.take(), ONE_CALL)();
        compiled(policy, &mut function)
    })
}

/// Calls a function of several operations on tensors, which it captures. If an operand has many elements, runs the function as one
/// compiled program, so no intermediate result takes the memory of an operand. Its derivative runs as one program, too, which computes
/// values again instead of holding them. The bits are the same. If an operand is traced otherwise, as in `jit` or in a second derivative,
/// calls the function as it is.
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

fn is_large(operands: &[&Tensor]) -> bool {
    operands.iter().any(|operand| operand.len() >= LARGE)
}

fn is_differentiated(operands: &[&Tensor]) -> bool {
    operands.iter().any(|operand| operand.tracer().is_some())
}

fn can_compile(operands: &[&Tensor]) -> bool {
    let is_on_host = |operand: &&Tensor| match operand.tracer().map(|tracer| &tracer.payload) {
        None => operand.array().is_some(),
        // Of higher derivatives, the compiled program would have other bits, because it computes first derivatives later.
        Some(Payload::Jvp { primal, .. }) => primal.array().is_some(),
        Some(_) => false,
    };
    operands.iter().all(is_on_host)
        && (!is_transforming() || is_differentiated(operands) && !is_staging())
        && !checks::active()
        && !device::is_chosen()
}

/// Records a function, and runs its compiled program.
#[track_caller]
fn compiled(
    policy: RematPolicy,
    function: &mut dyn FnMut() -> Result<Tensor, TensorError>,
) -> Result<Tensor, TensorError> {
    let (mut jaxpr, mut operands, outcome) = stage(Recorder::Fused, &[], |_| {
        let _all = recording_all();
        match function() {
            Ok(result) => (vec![result], Ok(())),
            Err(error) => (Vec::new(), Err(error)),
        }
    });
    outcome?;
    for (variable, tensor) in std::mem::take(&mut jaxpr.constants) {
        jaxpr.inputs.push(variable);
        operands.push(tensor);
    }
    let results = call_taking(&body(policy, jaxpr), operands);
    Ok(expect_next(
        &mut results.into_iter(),
        "the result of a fused function",
    ))
}

/// Returns a recorded function with its compiled programs.
fn body(policy: RematPolicy, jaxpr: Jaxpr) -> Arc<Body> {
    static CACHE: LazyLock<Mutex<HashSet<Recorded>>> = LazyLock::new(Mutex::default);
    let cache = || CACHE.lock().unwrap_or_else(PoisonError::into_inner);
    let derivative = Derivative::Recomputed(policy);
    let body = Body::with_derivative(Recorder::Fused, jaxpr, derivative, compile);
    let recorded = Recorded(policy, Arc::clone(&body));
    if let Some(Recorded(_, known)) = cache().get(&recorded) {
        return Arc::clone(known);
    }
    // The bodies of a loop are compared by identity, so a program with a loop is never found again.
    let mut equations = body.jaxpr.equations.iter();
    if equations.all(|equation| equation.primitive.bodies().is_empty()) {
        let mut cache = cache();
        if cache.len() >= PROGRAMS {
            cache.clear();
        }
        cache.insert(recorded);
    }
    body
}
