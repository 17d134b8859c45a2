//! Tests the values of reductions, and that their rules agree.

use pytree_kernels::base::dtype::DType;
use pytree_kernels::base::shape::{AxisList, without_axes};
use pytree_kernels::loops::reduction::{Extremum, Reduction};

use super::arg_extremum::ArgExtremum;
use super::{Reduce, Sum, argument_of, reduce_by, sum};
use crate::base::error::{TensorError, or_panic};
use crate::primitives::convert::convert;
use crate::primitives::shape::tests::rule_checks::{
    all_indices, assert_close, check_batching, check_tangent, check_transpose, noise,
};
use crate::tensor::Tensor;

fn max(operand: &Tensor, axes: &[usize]) -> Result<Tensor, TensorError> {
    reduce_by(Reduction::Max, operand, axes)
}

fn argmax(operand: &Tensor, axis: usize) -> Result<Tensor, TensorError> {
    argument_of(Extremum::Max, operand, axis)
}

fn argmin(operand: &Tensor, axis: usize) -> Result<Tensor, TensorError> {
    argument_of(Extremum::Min, operand, axis)
}

fn subsets(rank: usize) -> impl Iterator<Item = Vec<usize>> {
    (0..1 << rank).map(move |bits: usize| (0..rank).filter(|axis| bits >> axis & 1 == 1).collect())
}

#[test]
fn sums_and_maxima_match_definition() {
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
            let negated = reduce_by(Reduction::Min, &-&x, &axes).unwrap();
            assert_eq!(-negated, max(&x, &axes).unwrap());
        }
    }
}

#[test]
fn long_f32_sums_are_accurate() {
    // 0.1 in f32 is 0.100000001490116. A single accumulator would have an error of 958 after a million additions.
    // Blocks of 32 elements, added pairwise, have at most the error of 50 roundings.
    let x = Tensor::full(DType::F32, [1_000_000, 2], 0.1);
    let expected = 100_000.001_490_116;
    for total in sum(&x, &[0]).unwrap().to_vec::<f32>() {
        assert!((f64::from(total) - expected).abs() < 0.1, "{total}");
    }
    let total: f32 = sum(&x, &[0, 1]).unwrap().item();
    assert!((f64::from(total) - 2.0 * expected).abs() < 0.2, "{total}");
}

#[test]
fn empty_sum_is_zero_without_maximum() {
    let x = Tensor::zeros(DType::F32, [0, 3]);
    assert_eq!(sum(&x, &[0]).unwrap(), Tensor::zeros(DType::F32, [3]));
    assert_eq!(sum(&x, &[1]).unwrap(), Tensor::zeros(DType::F32, [0]));
    assert_eq!(max(&x, &[1]).unwrap().shape(), [0]);
    let error = max(&x, &[0]).unwrap_err().to_string();
    assert!(error.contains("axis 0 has length 0"), "{error}");
    assert!(argmax(&x, 0).is_err());
}

#[test]
fn argmax_finds_first_maximum_or_nan() {
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
                axes: AxisList::from_slice(axes),
                dtype: None,
            },
            Reduce {
                reduction: Reduction::Max,
                axes: AxisList::from_slice(axes),
                dtype: None,
            },
        );
        let converted = Sum {
            dtype: Some(DType::I32),
            ..sum.clone()
        };
        let truth = Reduce {
            reduction: Reduction::And,
            dtype: Some(DType::Bool),
            ..max.clone()
        };
        let x = [noise(&[2, 3, 4], 1)];
        check_transpose(&sum, &x, 0);
        check_tangent(&sum, &x);
        check_tangent(&max, &x);
        let others = [Reduction::Min, Reduction::Prod].map(|reduction| Reduce {
            reduction,
            ..max.clone()
        });
        others.iter().for_each(|other| check_tangent(other, &x));
        for axis in 0..4 {
            let mut shape = vec![2, 3, 4];
            shape.insert(axis, 5);
            let x = [noise(&shape, 1)];
            check_batching(&sum, &x, &[Some(axis)]);
            check_batching(&max, &x, &[Some(axis)]);
            let integers = [or_panic(convert(&(&x[0] * 2.0), DType::I8))];
            check_batching(&converted, &integers, &[Some(axis)]);
            check_batching(&truth, &integers, &[Some(axis)]);
            others
                .iter()
                .for_each(|other| check_batching(other, &x, &[Some(axis)]));
            for extremum in [Extremum::Max, Extremum::Min] {
                let argument = ArgExtremum {
                    extremum,
                    axis: axes[0],
                };
                check_batching(&argument, &x, &[Some(axis)]);
            }
        }
    }
}

#[test]
fn argmin_finds_first_minimum_or_nan() {
    let x = Tensor::from([[3.0, 1.0, 1.0], [f64::NAN, 2.0, f64::NAN]]);
    assert_eq!(argmin(&x, 1).unwrap(), Tensor::from([1, 0]));
    assert_eq!(argmin(&x, 0).unwrap(), Tensor::from([1, 0, 1]));
    let unsigned = Tensor::from([u32::MAX, 0, 5]);
    assert_eq!(argmin(&unsigned, 0).unwrap(), Tensor::from(1));
    assert_eq!(argmax(&unsigned, 0).unwrap(), Tensor::from(0));
}

#[test]
fn empty_reductions_have_neutral_values() {
    let x = Tensor::zeros(DType::I32, [0, 2]);
    let of = |reduction, x: &Tensor| reduce_by(reduction, x, &[0]);
    assert_eq!(of(Reduction::Prod, &x).unwrap(), Tensor::from([1, 1]));
    assert_eq!(of(Reduction::And, &x).unwrap(), Tensor::from([-1, -1]));
    assert_eq!(of(Reduction::Or, &x).unwrap(), Tensor::from([0, 0]));
    assert!(of(Reduction::Min, &x).is_err());
    let bits = Tensor::from([0b110, 0b011]);
    assert_eq!(of(Reduction::And, &bits).unwrap(), Tensor::from(0b010));
    assert_eq!(of(Reduction::Or, &bits).unwrap(), Tensor::from(0b111));
    let error = of(Reduction::And, &Tensor::from([1.0])).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("compare the tensor with a number first")
    );
    assert!(of(Reduction::Prod, &Tensor::from([true])).is_err());
}

#[test]
fn sum_of_bools_is_an_error() {
    let error = sum(&Tensor::from([true]), &[0]).unwrap_err().to_string();
    assert!(
        error.contains("count true elements with `count_nonzero`"),
        "{error}"
    );
}
