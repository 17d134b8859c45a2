//! The order of the passes.

use crate::jaxpr::debug_verify;
use crate::passes::common_subexpressions::common_subexpressions;
use crate::passes::constant_folding::constant_folding;
use crate::passes::joined_parts::joined_parts;
use crate::passes::simplify::simplify;
use crate::tensor::jaxpr::Jaxpr;

/// The name of a pass and its function.
type Pass = (&'static str, fn(Jaxpr) -> Jaxpr);

/// The passes in execution order.
const PASSES: [Pass; 6] = [
    ("dead code", Jaxpr::without_dead_code),
    ("constant folding", constant_folding),
    ("simplification", simplify),
    ("joined parts", joined_parts),
    ("common subexpressions", common_subexpressions),
    ("dead code", Jaxpr::without_dead_code),
];

/// Returns a jaxpr that computes the same results with fewer equations.
pub(crate) fn optimize(jaxpr: Jaxpr) -> Jaxpr {
    PASSES.iter().fold(jaxpr, |jaxpr, (name, pass)| {
        let optimized = pass(jaxpr);
        debug_verify(&optimized, name);
        optimized
    })
}

/// Returns the jaxpr after each compiler pass alone, and after all passes in order, each with a name. Use it to see which pass
/// changes a program.
///
/// # Examples
/// ```
/// use pytree_transform::{Tensor, each_pass, make_jaxpr};
/// let jaxpr = make_jaxpr(|x: Tensor| x.sin() + x.sin())(Tensor::from(1.0));
/// let (_, optimized) = each_pass(&jaxpr).last().unwrap();
/// assert_eq!((jaxpr.equations().len(), optimized.equations().len()), (3, 2));
/// ```
pub fn each_pass(jaxpr: &Jaxpr) -> impl Iterator<Item = (&'static str, Jaxpr)> {
    let alone = PASSES
        .iter()
        .map(|(name, pass)| (*name, pass(jaxpr.clone())));
    let all = std::iter::once_with(|| ("all passes", optimize(jaxpr.clone())));
    alone.chain(all)
}
