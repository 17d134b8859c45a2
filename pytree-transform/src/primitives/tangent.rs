//! Tangents for JVP rules without a formula of their own. Such a rule differentiates an equivalent function.

use crate::base::error::or_panic;
use crate::primitives::create;
use crate::tensor::Tensor;
use crate::tensor::trace::{Interpreter, Trace};

/// Returns the tangent of the result of `function` at `primal`, where `tangent` is the tangent of `primal`.
pub(crate) fn tangent_of(
    function: impl FnOnce(&Tensor) -> Tensor,
    primal: &Tensor,
    tangent: &Tensor,
) -> Tensor {
    let trace = Trace::begin(Interpreter::Jvp);
    let result = function(&trace.dual(primal.clone(), Some(tangent.clone())));
    let (value, tangent) = or_panic(trace.undual(&result));
    drop(trace);
    tangent.unwrap_or_else(|| create::zeros_like(&value))
}
