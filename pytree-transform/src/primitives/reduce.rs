//! Reductions over axes: sum, maximum, position of the maximum. The reduced axes are dropped.

#[path = "reduction.rs"]
mod reduction;

use std::fmt;
use std::sync::Arc;

use smallvec::SmallVec;

use self::reduction::{Ordered, argmax_array, reduce, sum_array};
use crate::array::{Array, with_type};
use crate::dtype::{AbstractArray, DType, Shape};
use crate::error::{TensorError, or_panic};
use crate::primitive::{
    Fold, Linear, LinearPrimitive, Operands, Outputs, Primitive, not_linear, one,
};
use crate::primitives::convert::convert;
use crate::primitives::elementwise::{Comparison, compare, take};
use crate::primitives::shape::{Tuple, batched_axis, broadcast_in_dim};
use crate::tensor::Tensor;
use crate::trace::bind_one;

/// The sum over some axes.
#[derive(Clone, Debug)]
pub(crate) struct Sum {
    pub(crate) axes: Shape,
}

/// The maximum over some axes; NaN if there is one.
#[derive(Clone, Debug)]
pub(crate) struct ReduceMax {
    pub(crate) axes: Shape,
}

/// The position of the first maximum along an axis, as i32; NaN counts as the maximum.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ArgMax {
    pub(crate) axis: usize,
}

/// The sum over `axes`, each given once; the tensor itself if there are none.
#[track_caller]
pub(crate) fn sum(operand: &Tensor, axes: &[usize]) -> Result<Tensor, TensorError> {
    if axes.is_empty() && operand.dtype() != DType::Bool {
        return Ok(operand.clone());
    }
    bind_one(&Sum { axes: sorted(axes) }, &[operand])
}

/// The maximum over `axes`, each given once; the tensor itself if there are none.
#[track_caller]
pub(crate) fn max(operand: &Tensor, axes: &[usize]) -> Result<Tensor, TensorError> {
    if axes.is_empty() {
        return Ok(operand.clone());
    }
    bind_one(&ReduceMax { axes: sorted(axes) }, &[operand])
}

/// The position of the first maximum along an axis.
#[track_caller]
pub(crate) fn argmax(operand: &Tensor, axis: usize) -> Result<Tensor, TensorError> {
    bind_one(&ArgMax { axis }, &[operand])
}

fn sorted(axes: &[usize]) -> Shape {
    let mut axes = Shape::from_slice(axes);
    axes.sort_unstable();
    axes
}

/// The shape without some axes.
pub(crate) fn without_axes(shape: &[usize], axes: &[usize]) -> Shape {
    (0..shape.len())
        .filter(|axis| !axes.contains(axis))
        .map(|axis| shape[axis])
        .collect()
}

/// A reduced tensor repeated along the axes it lost, so that it fits the original.
#[track_caller]
fn broadcast_back(
    reduced: &Tensor,
    shape: &[usize],
    axes: &[usize],
) -> Result<Tensor, TensorError> {
    let kept: Shape = (0..shape.len())
        .filter(|axis| !axes.contains(axis))
        .collect();
    broadcast_in_dim(reduced, shape, &kept)
}

/// The reduced axes of a batch, and where its batch axis then is.
fn batched_axes(axes: &[usize], batch: usize) -> (Shape, usize) {
    let axes: Shape = axes.iter().map(|&axis| batched_axis(axis, batch)).collect();
    let before = axes.iter().filter(|&&axis| axis < batch).count();
    (axes, batch - before)
}

/// An error if there is nothing to take a maximum of.
fn not_empty(
    operation: &'static str,
    operand: &AbstractArray,
    axes: &[usize],
) -> Result<(), TensorError> {
    match axes.iter().find(|&&axis| operand.shape[axis] == 0) {
        None => Ok(()),
        Some(axis) => Err(TensorError::Shape {
            operation,
            found: vec![operand.clone()],
            problem: format!("axis {axis} has length 0 and so no maximum"),
            mend: "make sure that there is at least one element along it".to_owned(),
        }),
    }
}

fn axes_exist(
    operation: &'static str,
    operand: &AbstractArray,
    axes: &[usize],
) -> Result<(), TensorError> {
    if let Some(&axis) = axes.iter().find(|&&axis| axis >= operand.rank()) {
        return Err(TensorError::Axis {
            operation,
            found: operand.clone(),
            axis: axis.cast_signed(),
        });
    }
    match axes.windows(2).find(|pair| pair[0] == pair[1]) {
        None => Ok(()),
        Some(pair) => Err(TensorError::Shape {
            operation,
            found: vec![operand.clone()],
            problem: format!("axis {} is given twice", pair[0]),
            mend: "give each axis once".to_owned(),
        }),
    }
}

impl LinearPrimitive for Sum {
    fn name(&self) -> &'static str {
        "reduce_sum"
    }

    fn result(&self, operand: &AbstractArray) -> Result<AbstractArray, TensorError> {
        axes_exist("sum", operand, &self.axes)?;
        if operand.dtype == DType::Bool {
            let expected = "numbers; to count, convert it to i32";
            return Err(TensorError::DType {
                operation: "sum",
                found: vec![operand.clone()],
                expected,
            });
        }
        Ok(AbstractArray {
            dtype: operand.dtype,
            shape: without_axes(&operand.shape, &self.axes),
        })
    }

    fn evaluate(&self, operand: Arc<Array>) -> Array {
        sum_array(&operand, &self.axes)
    }

    fn transpose(&self, cotangent: &Tensor, operand: &AbstractArray) -> Tensor {
        or_panic(broadcast_back(cotangent, &operand.shape, &self.axes))
    }

    fn batch(&self, operand: &Tensor, axis: usize) -> (Tensor, usize) {
        let (axes, axis) = batched_axes(&self.axes, axis);
        (or_panic(sum(operand, &axes)), axis)
    }

    fn write_parameters(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "axes={}", Tuple(&self.axes))
    }

    fn reduction(&self) -> Option<(Fold, &[usize])> {
        Some((Fold::Sum, &self.axes))
    }
}

impl Primitive for ReduceMax {
    fn name(&self) -> &'static str {
        "reduce_max"
    }

    fn abstract_evaluation(
        &self,
        operands: &[&AbstractArray],
    ) -> Result<Outputs<AbstractArray>, TensorError> {
        let operand = operands[0];
        axes_exist("take the maximum of", operand, &self.axes)?;
        not_empty("take the maximum of", operand, &self.axes)?;
        Ok(one(AbstractArray {
            dtype: operand.dtype,
            shape: without_axes(&operand.shape, &self.axes),
        }))
    }

    fn evaluate(&self, operands: Operands) -> Outputs<Array> {
        let [operand] = take(operands);
        one(
            with_type!(operand.dtype(), T => reduce(&operand, &self.axes, <T as Ordered>::LEAST, <T as Ordered>::greater)),
        )
    }

    /// The tangents of all that equal the maximum, in equal shares, as in JAX.
    fn jvp(
        &self,
        primals: &[Tensor],
        tangents: &[Option<Tensor>],
    ) -> (Outputs<Tensor>, Outputs<Option<Tensor>>) {
        let x = &primals[0];
        let maximum = or_panic(max(x, &self.axes));
        let tangent = tangents[0].as_ref().map(|tangent| {
            let beside = or_panic(broadcast_back(&maximum, x.shape(), &self.axes));
            let chosen = or_panic(convert(
                &or_panic(compare(Comparison::Eq, x, &beside)),
                x.dtype(),
            ));
            let count = or_panic(sum(&chosen, &self.axes));
            or_panic(sum(&(tangent * chosen), &self.axes)) / count
        });
        (one(maximum), one(tangent))
    }

    fn transpose(&self, _: &[Option<Tensor>], _: &[Linear]) -> SmallVec<[Option<Tensor>; 2]> {
        not_linear(self)
    }

    fn batch(
        &self,
        operands: &[Tensor],
        axes: &[Option<usize>],
        _: usize,
    ) -> (Outputs<Tensor>, Outputs<Option<usize>>) {
        let Some(batch) = axes[0] else {
            return (one(or_panic(max(&operands[0], &self.axes))), one(None));
        };
        let (axes, batch) = batched_axes(&self.axes, batch);
        (one(or_panic(max(&operands[0], &axes))), one(Some(batch)))
    }

    fn write_parameters(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "axes={}", Tuple(&self.axes))
    }

    fn to_shared(&self) -> Arc<dyn Primitive> {
        Arc::new(self.clone())
    }

    fn reduction(&self) -> Option<(Fold, &[usize])> {
        Some((Fold::Max, &self.axes))
    }
}

impl Primitive for ArgMax {
    fn name(&self) -> &'static str {
        "argmax"
    }

    fn abstract_evaluation(
        &self,
        operands: &[&AbstractArray],
    ) -> Result<Outputs<AbstractArray>, TensorError> {
        let operand = operands[0];
        axes_exist("argmax", operand, &[self.axis])?;
        not_empty("argmax", operand, &[self.axis])?;
        Ok(one(AbstractArray {
            dtype: DType::I32,
            shape: without_axes(&operand.shape, &[self.axis]),
        }))
    }

    fn evaluate(&self, operands: Operands) -> Outputs<Array> {
        let [operand] = take(operands);
        one(with_type!(operand.dtype(), T => argmax_array::<T>(&operand, self.axis)))
    }

    fn jvp(
        &self,
        primals: &[Tensor],
        _: &[Option<Tensor>],
    ) -> (Outputs<Tensor>, Outputs<Option<Tensor>>) {
        (one(or_panic(argmax(&primals[0], self.axis))), one(None))
    }

    fn transpose(&self, _: &[Option<Tensor>], _: &[Linear]) -> SmallVec<[Option<Tensor>; 2]> {
        not_linear(self)
    }

    fn batch(
        &self,
        operands: &[Tensor],
        axes: &[Option<usize>],
        _: usize,
    ) -> (Outputs<Tensor>, Outputs<Option<usize>>) {
        let Some(batch) = axes[0] else {
            return (one(or_panic(argmax(&operands[0], self.axis))), one(None));
        };
        let (axes, batch) = batched_axes(&[self.axis], batch);
        (
            one(or_panic(argmax(&operands[0], axes[0]))),
            one(Some(batch)),
        )
    }

    fn write_parameters(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "axes={} index_dtype=i32", Tuple(&[self.axis]))
    }

    fn to_shared(&self) -> Arc<dyn Primitive> {
        Arc::new(*self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::primitives::shape::rule_checks::{
        all_indices, assert_close, check_batching, check_tangent, check_transpose, noise,
    };

    fn subsets(rank: usize) -> impl Iterator<Item = Vec<usize>> {
        (0..1 << rank)
            .map(move |bits: usize| (0..rank).filter(|axis| bits >> axis & 1 == 1).collect())
    }

    #[test]
    fn sums_and_maxima_over_any_axes_are_those_of_the_definition() {
        for shape in [&[2, 3, 4, 5][..], &[3, 1, 40], &[70, 3], &[2, 3, 2, 3, 2]] {
            let x = noise(shape, 1);
            let view = x.view::<f64>().unwrap();
            for axes in subsets(shape.len()) {
                let kept = without_axes(shape, &axes);
                let mut sums = vec![0.0; kept.iter().product()];
                let mut maxima = vec![f64::NEG_INFINITY; sums.len()];
                for index in all_indices(shape) {
                    let at = (0..shape.len())
                        .filter(|axis| !axes.contains(axis))
                        .fold(0, |at, axis| at * shape[axis] + index[axis]);
                    sums[at] += view[&index[..]];
                    maxima[at] = view[&index[..]].max(maxima[at]);
                }
                assert_close(&sum(&x, &axes).unwrap(), &Tensor::new(&kept, sums), 1e-14);
                assert_eq!(max(&x, &axes).unwrap(), Tensor::new(&kept, maxima));
            }
        }
    }

    #[test]
    fn long_f32_sums_are_accurate() {
        // 0.1 in f32 is 0.100000001490116. A single accumulator would be off by 958 after a million of them;
        // blocks of 32, added pairwise, by 50 roundings at most.
        let x = Tensor::full(DType::F32, [1_000_000, 2], 0.1);
        let expected = 100_000.001_490_116;
        for total in sum(&x, &[0]).unwrap().to_vec::<f32>() {
            assert!((f64::from(total) - expected).abs() < 0.1, "{total}");
        }
        let total: f32 = sum(&x, &[0, 1]).unwrap().item();
        assert!((f64::from(total) - 2.0 * expected).abs() < 0.2, "{total}");
    }

    #[test]
    fn nothing_sums_to_zero_and_has_no_maximum() {
        let x = Tensor::zeros(DType::F32, [0, 3]);
        assert_eq!(sum(&x, &[0]).unwrap(), Tensor::zeros(DType::F32, [3]));
        assert_eq!(sum(&x, &[1]).unwrap(), Tensor::zeros(DType::F32, [0]));
        assert_eq!(max(&x, &[1]).unwrap().shape(), [0]);
        let error = max(&x, &[0]).unwrap_err().to_string();
        assert!(error.contains("axis 0 has length 0"), "{error}");
        assert!(argmax(&x, 0).is_err());
    }

    #[test]
    fn the_first_maximum_counts_and_nan_is_one() {
        let x = Tensor::from([[1.0, 3.0, 3.0], [f64::NAN, 2.0, f64::NAN]]);
        assert_eq!(argmax(&x, 1).unwrap(), Tensor::from([1, 0]));
        assert_eq!(argmax(&x, 0).unwrap(), Tensor::from([1, 0, 1]));
        assert!(max(&x, &[1]).unwrap().to_vec::<f64>()[1].is_nan());
        assert_eq!(
            argmax(&Tensor::from([f64::NEG_INFINITY; 2]), 0).unwrap(),
            Tensor::from(0)
        );
        assert_eq!(
            argmax(&Tensor::from([false, true]), 0).unwrap(),
            Tensor::from(1)
        );
    }

    #[test]
    fn rules_agree_with_evaluation() {
        for axes in [&[0][..], &[1, 2], &[0, 2]] {
            let (sum, max) = (
                Sum {
                    axes: Shape::from_slice(axes),
                },
                ReduceMax {
                    axes: Shape::from_slice(axes),
                },
            );
            let x = [noise(&[2, 3, 4], 1)];
            check_transpose(&sum, &x, 0);
            check_tangent(&sum, &x);
            check_tangent(&max, &x);
            for axis in 0..4 {
                let mut shape = vec![2, 3, 4];
                shape.insert(axis, 5);
                let x = [noise(&shape, 1)];
                check_batching(&sum, &x, &[Some(axis)]);
                check_batching(&max, &x, &[Some(axis)]);
                check_batching(&ArgMax { axis: axes[0] }, &x, &[Some(axis)]);
            }
        }
    }

    #[test]
    fn bools_are_not_summed() {
        let error = sum(&Tensor::from([true]), &[0]).unwrap_err().to_string();
        assert!(error.contains("to count, convert it to i32"), "{error}");
    }
}
