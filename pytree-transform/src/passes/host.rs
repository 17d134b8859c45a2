//! The passes for the executor of the host.

use super::concatenated_slices::concatenated_slices;
use super::constraints::without_constraints;
use super::forwarded::forwarded;
use super::loop_constants::laid_out_loop_constants;
use super::pipeline::optimize;
use super::quantized_weights::quantized_weights;
use super::rows::rows;
use super::sunk_weights::sunk_weights;
use super::unused_results::without_unused_results;
use crate::jaxpr::debug_verify;
use crate::tensor::jaxpr::Jaxpr;

/// Returns a jaxpr for the executor of the host: without the equations that divide values among devices and the results of loops that
/// nothing reads, with products that read quantized weights as they are stored, with constants of loops that are laid out before the loop,
/// with fewer equations, with the gradients of tables as rows, and with large slices that are concatenated where they are.
pub(crate) fn optimize_for_host(jaxpr: Jaxpr) -> Jaxpr {
    let jaxpr = forwarded(without_constraints(jaxpr));
    debug_verify(&jaxpr, "results that are operands");
    let jaxpr = without_unused_results(jaxpr);
    debug_verify(&jaxpr, "results of loops that nothing reads");
    let jaxpr = quantized_weights(sunk_weights(jaxpr));
    debug_verify(&jaxpr, "products with quantized weights");
    let jaxpr = laid_out_loop_constants(jaxpr);
    debug_verify(&jaxpr, "the layout of constants of loops");
    let jaxpr = rows(optimize(jaxpr));
    debug_verify(&jaxpr, "rows of tables");
    let jaxpr = concatenated_slices(jaxpr);
    debug_verify(&jaxpr, "concatenations of slices");
    jaxpr
}
