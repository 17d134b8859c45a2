//! Cumulative reductions along an axis. Each result combines an element with all elements before this element.

use std::sync::Arc;

use pytree_kernels::base::shape::{PerAxis, Shape};
use pytree_kernels::loops::cumulative::{self, Cumulation, Run};
use pytree_kernels::loops::elementwise::Binary;

use super::slice::slice;
use crate::primitives::elementwise::{binary, log_add_exp};
use crate::primitives::prelude::*;
use crate::primitives::shape::{batched_axis, reshape};
use crate::primitives::slice::{concatenate, reverse};
use crate::primitives::tangent::tangent_of;
use crate::tensor::linear_primitive::LinearPrimitive;
use crate::tensor::primitive::{Division, LoweredOne};
use crate::tensor::stablehlo::{Bound, bound, number};

/// The primitive of cumulative sums.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct CumulativeSum(pub(crate) Run);

/// The primitive of all cumulative reductions except sums. These reductions are not linear.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Cumulative {
    pub(crate) cumulation: Cumulation,
    pub(crate) run: Run,
}

/// Returns the cumulative sums of a tensor.
#[track_caller]
pub(crate) fn cumulative_sum(operand: &Tensor, run: Run) -> Result<Tensor, TensorError> {
    bind_one(&CumulativeSum(run), &[operand])
}

/// Returns a cumulative reduction of a tensor.
#[track_caller]
pub(crate) fn cumulative(
    cumulation: Cumulation,
    operand: &Tensor,
    run: Run,
) -> Result<Tensor, TensorError> {
    bind_one(&Cumulative { cumulation, run }, &[operand])
}

fn check(
    run: Run,
    operation: &'static str,
    operand: &AbstractArray,
    floats_only: bool,
) -> Result<AbstractArray, TensorError> {
    if run.axis >= operand.rank() {
        return Err(TensorError::axis(operation, operand, run.axis));
    }
    if operand.dtype == DType::Bool || (floats_only && !operand.dtype.is_float()) {
        return Err(TensorError::dtype(
            operation,
            &[operand],
            if floats_only {
                "a float dtype"
            } else {
                "numbers"
            },
        ));
    }
    Ok(operand.clone())
}

fn batched(run: Run, batch: usize) -> Run {
    Run {
        axis: batched_axis(run.axis, batch),
        ..run
    }
}

fn write(run: Run, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    write!(f, "axis={} reverse={}", run.axis, run.reverse)
}

/// Writes a cumulative reduction in log₂ n steps (Hillis and Steele, "Data parallel algorithms", 1986). Step `i`
/// combines each element with the element 2ⁱ positions before it. `start` is the value of the elements before the
/// first element. A combination with `start` does not change an element.
fn lower(
    run: Run,
    block: &mut Block<'_>,
    operand: &Value,
    start: &str,
    combine: impl Fn(&mut Block<'_>, &Value, &Value) -> Value,
) -> Value {
    let start = block.splat(&AbstractArray::new(operand.dtype(), []), start);
    let none: PerAxis = smallvec![0; operand.rank()];
    let mut result = operand.clone();
    let mut distance = 1;
    while distance < operand.shape()[run.axis] {
        let mut low: PerAxis<isize> = smallvec![0; operand.rank()];
        low[run.axis] = distance.cast_signed();
        let mut high: PerAxis<isize> = low.iter().map(|low| -low).collect();
        if run.reverse {
            std::mem::swap(&mut low, &mut high);
        }
        let before = block.padded(&result, &start, &low, &high, &none);
        result = combine(block, &before, &result);
        distance *= 2;
    }
    result
}

/// Returns the division along another axis than that of the reduction.
fn across(run: Run, operand: &AbstractArray) -> Option<Division> {
    Division::along(
        operand,
        (0..operand.rank()).filter(|&axis| axis != run.axis),
    )
}

impl LinearPrimitive for CumulativeSum {
    fn name(&self) -> &'static str {
        "cumsum"
    }

    fn result(&self, operand: &AbstractArray) -> Result<AbstractArray, TensorError> {
        check(self.0, "cumsum", operand, false)
    }

    fn evaluate(&self, operand: Arc<Array>) -> Array {
        cumulative::sum(self.0, operand)
    }

    /// Returns the cumulative sums of the cotangent in the opposite direction.
    fn transpose(&self, cotangent: &Tensor, _: &AbstractArray) -> Tensor {
        let run = Run {
            reverse: !self.0.reverse,
            ..self.0
        };
        or_panic(cumulative_sum(cotangent, run))
    }

    fn batch(&self, operand: &Tensor, axis: usize) -> (Tensor, usize) {
        (
            or_panic(cumulative_sum(operand, batched(self.0, axis))),
            axis,
        )
    }

    fn lower(&self, block: &mut Block<'_>, operand: &Value, _: &AbstractArray) -> LoweredOne {
        let start = number(operand.dtype(), 0.0);
        Ok(lower(self.0, block, operand, &start, |block, before, x| {
            block.binary("stablehlo.add", before, x)
        }))
    }

    fn division(&self, operand: &AbstractArray) -> Option<Division> {
        across(self.0, operand)
    }

    fn write_parameters(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write(self.0, f)
    }
}

/// Combines two tensors elementwise by differentiable operations.
fn combine(cumulation: Cumulation, left: &Tensor, right: &Tensor) -> Tensor {
    match cumulation {
        Cumulation::Prod => left * right,
        Cumulation::Max => or_panic(binary(Binary::Max, left, right)),
        Cumulation::Min => or_panic(binary(Binary::Min, left, right)),
        Cumulation::LogSumExp => or_panic(binary(Binary::LogAddExp, left, right)),
    }
}

/// Computes a cumulative reduction in 2 log₂ n steps (Blelloch, "Prefix sums and their applications", 1990). A
/// recursive call on the combined pairs of neighbours returns every second result. One more combination returns the
/// other results. If several elements equal an extremum, each gets an equal share of the gradient, as in JAX's
/// `associative_scan`.
fn scan_in_pairs(cumulation: Cumulation, x: &Tensor, axis: usize) -> Tensor {
    let count = x.shape()[axis];
    if count < 2 {
        return x.clone();
    }
    let part = |tensor: &Tensor, start: usize, limit: usize, step: usize| {
        let mut starts: PerAxis = smallvec![0; tensor.rank()];
        let mut limits = PerAxis::from_slice(tensor.shape());
        let mut steps: PerAxis = smallvec![1; tensor.rank()];
        (starts[axis], limits[axis], steps[axis]) = (start, limit, step);
        or_panic(slice(tensor, &starts, &limits, &steps))
    };
    let pairs = combine(cumulation, &part(x, 0, count - 1, 2), &part(x, 1, count, 2));
    let odd = scan_in_pairs(cumulation, &pairs, axis);
    let before = part(&odd, 0, (count - 1) / 2, 1);
    let even = combine(cumulation, &before, &part(x, 2, count, 2));
    let even = or_panic(concatenate(&[&part(x, 0, 1, 1), &even], axis));
    // The results in their order: an even one and an odd one, and last an even one if their number is odd.
    let pairs = count / 2;
    let mut shape = Shape::from(odd.shape());
    shape.insert(axis + 1, 1);
    let column = |tensor: &Tensor| or_panic(reshape(tensor, &shape));
    let columns = [column(&part(&even, 0, pairs, 1)), column(&odd)];
    let joined = or_panic(concatenate(&[&columns[0], &columns[1]], axis + 1));
    let mut shape = Shape::from(odd.shape());
    shape[axis] = 2 * pairs;
    let joined = or_panic(reshape(&joined, &shape));
    if count.is_multiple_of(2) {
        return joined;
    }
    let last = part(&even, pairs, pairs + 1, 1);
    or_panic(concatenate(&[&joined, &last], axis))
}

impl Primitive for Cumulative {
    fn name(&self) -> &'static str {
        match self.cumulation {
            Cumulation::Prod => "cumprod",
            Cumulation::Max => "cummax",
            Cumulation::Min => "cummin",
            Cumulation::LogSumExp => "cumlogsumexp",
        }
    }

    fn abstract_evaluation(&self, operands: &[&AbstractArray]) -> AbstractResults {
        let floats_only = self.cumulation == Cumulation::LogSumExp;
        check(self.run, Primitive::name(self), operands[0], floats_only).map(one)
    }

    fn evaluate(&self, operands: Operands) -> Outputs<Array> {
        let [operand] = take(operands);
        one(cumulative::reduce(self.cumulation, self.run, operand))
    }

    /// Differentiates [`scan_in_pairs`], which computes the same results by differentiable operations.
    fn jvp(&self, primals: &[Tensor], tangents: &[Option<Tensor>]) -> WithTangents {
        let reversed: &[usize] = if self.run.reverse {
            &[self.run.axis]
        } else {
            &[]
        };
        let tangent = tangents[0].as_ref().map(|tangent| {
            let scan = |x: &Tensor| {
                let x = or_panic(reverse(x, reversed));
                let result = scan_in_pairs(self.cumulation, &x, self.run.axis);
                or_panic(reverse(&result, reversed))
            };
            tangent_of(scan, &primals[0], tangent)
        });
        let result = or_panic(bind_one(self, &[&primals[0]]));
        (one(result), one(tangent))
    }

    fn batch(&self, operands: &[Tensor], axes: &[Option<usize>], _: &BatchAxis) -> Batched {
        let run = axes[0].map_or(self.run, |batch| batched(self.run, batch));
        let result = cumulative(self.cumulation, &operands[0], run);
        (one(or_panic(result)), one(axes[0]))
    }

    fn lower(&self, block: &mut Block<'_>, operands: &[Value], _: &Infos<'_>) -> Lowered {
        let dtype = operands[0].dtype();
        let (name, start) = match self.cumulation {
            Cumulation::Prod => ("stablehlo.multiply", number(dtype, 1.0)),
            Cumulation::Max => ("stablehlo.maximum", bound(dtype, Bound::Least)),
            Cumulation::Min => ("stablehlo.minimum", bound(dtype, Bound::Greatest)),
            Cumulation::LogSumExp => ("", bound(dtype, Bound::Least)),
        };
        let combine = |block: &mut Block<'_>, before: &Value, x: &Value| match self.cumulation {
            Cumulation::LogSumExp => log_add_exp(block, before, x),
            _ => block.binary(name, before, x),
        };
        Ok(one(lower(self.run, block, &operands[0], &start, combine)))
    }

    fn division(&self, operands: &[&AbstractArray]) -> Option<Division> {
        across(self.run, operands[0])
    }

    fn write_parameters(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write(self.run, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::primitives::shape::tests::rule_checks::{
        assert_close, check_batching, check_tangent, check_transpose, noise,
    };

    const KINDS: [Cumulation; 4] = [
        Cumulation::Prod,
        Cumulation::Max,
        Cumulation::Min,
        Cumulation::LogSumExp,
    ];

    #[test]
    fn pairwise_scan_matches_sequential_scan() {
        for length in 0..10 {
            let x = noise(&[2, length, 3], 1);
            for cumulation in KINDS {
                let run = Run {
                    axis: 1,
                    reverse: false,
                };
                let found = cumulative(cumulation, &x, run).unwrap();
                assert_close(&scan_in_pairs(cumulation, &x, 1), &found, 1e-14);
            }
        }
    }

    #[test]
    fn long_f32_cumsum_is_accurate() {
        const COUNT: usize = 20_000_000;
        let ones = Tensor::ones(DType::F32, [COUNT]);
        let run = Run {
            axis: 0,
            reverse: true,
        };
        let sums = cumulative_sum(&ones, run).unwrap();
        let sums = sums.read::<f32>().unwrap();
        for count in (1..COUNT).step_by(9973).chain([1 << 24, COUNT]) {
            let found = f64::from(sums[COUNT - count]);
            // Above 2²⁴, f32 can represent only every second whole number.
            assert!((found - count as f64).abs() <= 1.0, "{found} of {count}");
        }
    }

    #[test]
    fn long_f32_cumlogsumexp_is_accurate() {
        const COUNT: usize = 4_000_000;
        let zeros = Tensor::zeros(DType::F32, [COUNT]);
        let run = Run {
            axis: 0,
            reverse: false,
        };
        let sums = cumulative(Cumulation::LogSumExp, &zeros, run).unwrap();
        let last = f64::from(sums.read::<f32>().unwrap()[COUNT - 1]);
        // Each of about a dozen steps has a rounding error of at most 2⁻²¹, half the spacing of f32 near 15.
        assert!((last - (COUNT as f64).ln()).abs() < 2e-5, "{last}");
    }

    #[test]
    fn integers_wrap_and_infinities_are_kept() {
        let run = |reverse| Run { axis: 0, reverse };
        let x = Tensor::from([1, i32::MAX, 3]);
        assert_eq!(
            cumulative_sum(&x, run(false)).unwrap(),
            Tensor::from([1, i32::MIN, i32::MIN + 3])
        );
        assert_eq!(
            cumulative(Cumulation::Max, &x, run(true)).unwrap(),
            Tensor::from([i32::MAX, i32::MAX, 3])
        );
        let x = Tensor::from([f64::NEG_INFINITY, f64::NEG_INFINITY, 0.0, f64::INFINITY]);
        assert_eq!(
            cumulative(Cumulation::LogSumExp, &x, run(false)).unwrap(),
            x
        );
        assert!(cumulative_sum(&Tensor::from([true]), run(false)).is_err());
        assert!(cumulative(Cumulation::LogSumExp, &Tensor::from([1]), run(false)).is_err());
    }

    #[test]
    fn rules_agree_with_evaluation() {
        for reverse in [false, true] {
            let run = Run { axis: 1, reverse };
            let sum = CumulativeSum(run);
            check_transpose(&sum, &[noise(&[2, 5], 1)], 0);
            let others = KINDS.map(|cumulation| Cumulative { cumulation, run });
            let primitives = others.iter().map(|other| other as &dyn Primitive);
            for primitive in primitives.chain([&sum as &dyn Primitive]) {
                check_tangent(primitive, &[noise(&[2, 5], 1)]);
                for (axis, shape) in [(0, [3, 2, 5]), (1, [2, 3, 5]), (2, [2, 5, 3])] {
                    check_batching(primitive, &[noise(&shape, 1)], &[Some(axis)]);
                }
            }
        }
    }
}
