//! A product whose right operand is 8-bit integers times scales, without the widened operand.

use pytree_kernels::loops::dot::DotGeneral;

use super::only_evaluated::only_evaluated;
use crate::primitives::create::Broadcast;
use crate::primitives::prelude::*;

/// The product of f32 numbers with integers · scales. The operands are the left one, the integers, and the scales with the axes of the
/// integers.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct QuantizedDot(DotGeneral);

impl QuantizedDot {
    /// Returns the product for a `dot_general` whose right operand is the product of `integers` and of the result of `broadcast`, whose
    /// operand is `scales`. Returns `None` if the kernel cannot compute it.
    pub(super) fn of(
        dot: &DotGeneral,
        left: &AbstractArray,
        integers: &AbstractArray,
        broadcast: &Broadcast,
        scales: &AbstractArray,
    ) -> Option<Self> {
        let contract = &dot.contract.1;
        let (rank, count) = (integers.rank(), contract.len());
        let is_at = |first: usize| contract.iter().copied().eq(first..first + count);
        // The scales have all lengths of the contracted axes, or of the free ones, or are a single number.
        let has = |is_contracted: bool, lengths: &[usize]| -> bool {
            let mut axes = (0..rank).filter(|axis| contract.contains(axis) == is_contracted);
            axes.all(|axis| scales.shape[axis] == lengths[axis])
        };
        let ones = vec![1; rank];
        let is_along =
            |is_contracted: bool| has(is_contracted, &integers.shape) && has(!is_contracted, &ones);
        let is_single = || has(true, &ones) && has(false, &ones);
        let fits = left.dtype == DType::F32
            && scales.dtype == DType::F32
            && integers.dtype == DType::I8
            && dot.batch.0.is_empty()
            && dot.contract.0.is_sorted()
            && (is_at(0) || is_at(rank - count))
            && broadcast.axes.iter().copied().eq(0..rank)
            && broadcast.shape == integers.shape
            && (is_along(true) || is_along(false) || is_single());
        fits.then(|| Self(dot.clone()))
    }
}

impl Primitive for QuantizedDot {
    fn name(&self) -> &'static str {
        "quantized_dot"
    }

    fn abstract_evaluation(&self, operands: &[&AbstractArray]) -> AbstractResults {
        let shape = self.0.result_shape(&operands[0].shape, &operands[1].shape);
        Ok(one(AbstractArray {
            dtype: DType::F32,
            shape,
        }))
    }

    fn evaluate(&self, operands: Operands) -> Outputs<Array> {
        let [left, integers, scales] = take(operands);
        one(self.0.evaluate_quantized(left, integers, &scales))
    }

    fn accepts_narrow(&self) -> bool {
        true
    }

    only_evaluated!();

    fn write_parameters(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.write_parameters(f)
    }
}
