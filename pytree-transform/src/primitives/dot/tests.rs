//! Tests of tensor products.

use super::*;
use crate::primitives::convert::convert;
use crate::primitives::shape::tests::rule_checks::{
    all_indices, assert_close, check_batching, check_tangent, check_transpose, noise,
};

type Case = (&'static [usize], &'static [usize], [&'static [usize]; 4]);

/// The shapes of the left and right operand, their contracted axes, and their batch axes.
const CASES: [Case; 17] = [
    (&[3, 4], &[4, 5], [&[1], &[0], &[], &[]]),
    (&[4, 3], &[5, 4], [&[0], &[1], &[], &[]]),
    (&[40, 50], &[50, 60], [&[1], &[0], &[], &[]]),
    (&[40, 50], &[60, 50], [&[1], &[1], &[], &[]]),
    (&[50, 40], &[50, 60], [&[0], &[0], &[], &[]]),
    (&[70], &[70], [&[0], &[0], &[], &[]]),
    (&[30, 70], &[70], [&[1], &[0], &[], &[]]),
    (&[70], &[70, 30], [&[0], &[0], &[], &[]]),
    (&[30], &[40], [&[], &[], &[], &[]]),
    (&[30, 2], &[2, 40], [&[1], &[0], &[], &[]]),
    (&[2, 3, 4], &[2, 4, 5], [&[2], &[1], &[0], &[0]]),
    (&[3, 2, 4], &[4, 5, 2], [&[2], &[0], &[1], &[2]]),
    (&[3, 4, 5], &[5, 4, 6], [&[1, 2], &[1, 0], &[], &[]]),
    (&[3, 4, 5], &[6, 4, 5], [&[2, 1], &[2, 1], &[], &[]]),
    (&[8, 4, 9], &[4, 10, 11], [&[1], &[0], &[], &[]]),
    (&[2, 3, 0], &[0, 4], [&[2], &[0], &[], &[]]),
    (
        &[2, 3, 4, 5],
        &[3, 7, 4, 2, 6],
        [&[2], &[2], &[0, 1], &[3, 0]],
    ),
];

fn primitive(axes: [&[usize]; 4]) -> DotGeneral {
    let [contract_left, contract_right, batch_left, batch_right] = axes.map(AxisList::from_slice);
    DotGeneral {
        contract: (contract_left, contract_right),
        batch: (batch_left, batch_right),
    }
}

/// Computes the product by its definition.
fn slow(dot: &DotGeneral, left: &Tensor, right: &Tensor) -> Tensor {
    let (left_side, right_side) = dot.sides(left.rank(), right.rank());
    let shape = dot.result_shape(left.shape(), right.shape());
    let depth: Vec<usize> = dot
        .contract
        .0
        .iter()
        .map(|&axis| left.shape()[axis])
        .collect();
    let (left, right) = (left.view::<f64>().unwrap(), right.view::<f64>().unwrap());
    let element = |index: Vec<usize>| {
        let terms = all_indices(&depth).map(|depth| {
            let place = |side: &Side<'_>, rank: usize| {
                let mut place = vec![0; rank];
                side.batch
                    .iter()
                    .zip(&index)
                    .for_each(|(&axis, &at)| place[axis] = at);
                side.free
                    .iter()
                    .zip(&side.kept)
                    .for_each(|(&axis, &kept)| place[axis] = index[kept]);
                side.contract
                    .iter()
                    .zip(&depth)
                    .for_each(|(&axis, &at)| place[axis] = at);
                place
            };
            left[&place(&left_side, left.ndim())[..]] * right[&place(&right_side, right.ndim())[..]]
        });
        terms.sum::<f64>()
    };
    Tensor::new(&shape, all_indices(&shape).map(element).collect::<Vec<_>>())
}

#[test]
fn products_match_definition() {
    for (left, right, axes) in CASES {
        let dot = primitive(axes);
        let (left, right) = (noise(left, 1), noise(right, 2));
        let expected = slow(&dot, &left, &right);
        // Results reuse memory without clearing it. Fill the pool of freed memory with NaN, so that the test fails
        // if the product leaves an element unwritten.
        drop(Tensor::full(DType::F64, expected.shape(), f64::NAN));
        assert_close(&bind_one(&dot, &[&left, &right]).unwrap(), &expected, 1e-14);
        for dtype in [DType::F32, DType::I32, DType::I64, DType::U32] {
            let whole = |tensor: &Tensor| {
                convert(&convert(&(tensor * 7.0), DType::I32).unwrap(), DType::F64).unwrap()
            };
            let (left, right) = (whole(&left), whole(&right));
            let expected = convert(
                &convert(&slow(&dot, &left, &right), DType::I64).unwrap(),
                dtype,
            )
            .unwrap();
            let narrow =
                |tensor: &Tensor| convert(&convert(tensor, DType::I64).unwrap(), dtype).unwrap();
            drop(Tensor::full(dtype, expected.shape(), f64::NAN));
            assert_eq!(
                bind_one(&dot, &[&narrow(&left), &narrow(&right)]).unwrap(),
                expected,
                "{axes:?} in {dtype}"
            );
        }
    }
}

#[test]
fn rules_agree_with_evaluation() {
    for (left, right, axes) in CASES {
        let dot = primitive(axes);
        let operands = [noise(left, 1), noise(right, 2)];
        check_transpose(&dot, &operands, 0);
        check_transpose(&dot, &operands, 1);
        check_tangent(&dot, &operands);
        let with_batch = |shape: &[usize], axis: usize, seed| {
            let mut shape = shape.to_vec();
            shape.insert(axis, 3);
            noise(&shape, seed)
        };
        for left_axis in 0..=left.len() {
            let left_batch = with_batch(left, left_axis, 3);
            check_batching(
                &dot,
                &[left_batch.clone(), operands[1].clone()],
                &[Some(left_axis), None],
            );
            for right_axis in 0..=right.len() {
                let right_batch = with_batch(right, right_axis, 4);
                check_batching(
                    &dot,
                    &[left_batch.clone(), right_batch],
                    &[Some(left_axis), Some(right_axis)],
                );
            }
        }
        for right_axis in 0..=right.len() {
            check_batching(
                &dot,
                &[operands[0].clone(), with_batch(right, right_axis, 4)],
                &[None, Some(right_axis)],
            );
        }
    }
}
