//! Tests of broadcasts, reshapes and transposes, and of all their rules.

pub(crate) mod rule_checks;

use self::rule_checks::{all_indices, check_batching, check_tangent, check_transpose, noise};
use super::*;
use crate::primitives::create::broadcast_to;

#[test]
fn broadcast_repeats_elements() {
    for (operand, shape, axes) in [
        (&[3][..], &[2, 3][..], &[1][..]),
        (&[3], &[3, 2], &[0]),
        (&[3, 1], &[2, 3, 40], &[1, 2]),
        (&[1, 3], &[5, 3, 2], &[0, 1]),
        (&[2, 3], &[2, 4, 3], &[0, 2]),
        (&[3], &[5000, 3], &[1]),
        (&[2, 3], &[2, 1, 3], &[0, 2]),
    ] {
        let x = noise(operand, 1);
        let y = broadcast_in_dim(&x, shape, axes).unwrap();
        let (x, y) = (x.view::<f64>().unwrap(), y.view::<f64>().unwrap());
        for index in all_indices(shape) {
            let source: Vec<usize> = axes
                .iter()
                .enumerate()
                .map(|(axis, &place)| if operand[axis] == 1 { 0 } else { index[place] })
                .collect();
            assert_eq!(
                y[&index[..]].to_bits(),
                x[&source[..]].to_bits(),
                "{operand:?} to {shape:?} at {index:?}"
            );
        }
    }
}

#[test]
fn transpose_permutes_axes() {
    for (operand, permutation) in [
        (&[40, 50][..], &[1, 0][..]),
        (&[3, 40, 50], &[0, 2, 1]),
        (&[3, 4, 50], &[2, 0, 1]),
        (&[3, 4, 5], &[2, 1, 0]),
        (&[3, 4, 5], &[1, 0, 2]),
        (&[2, 3, 4, 5], &[0, 2, 1, 3]),
        (&[2, 1, 4, 1], &[3, 2, 1, 0]),
        (&[2, 0, 3], &[2, 1, 0]),
    ] {
        let x = noise(operand, 1);
        let y = transpose(&x, permutation).unwrap();
        let (x, y) = (x.view::<f64>().unwrap(), y.view::<f64>().unwrap());
        assert_eq!(
            x.permuted_axes(permutation),
            y,
            "{operand:?} by {permutation:?}"
        );
    }
}

#[test]
fn no_op_shares_the_tensor() {
    let x = noise(&[2, 3], 1);
    assert!(broadcast_to(&x, &[2, 3]).unwrap().same(&x));
    assert!(reshape(&x, &[2, 3]).unwrap().same(&x));
    assert!(transpose(&x, &[0, 1]).unwrap().same(&x));
    assert!(move_axis(&x, 1, 1).unwrap().same(&x));
}

#[test]
fn broadcast_scalar_keeps_its_value() {
    for value in [0.1_f64, -0.0, f64::NAN, f64::INFINITY] {
        let y = broadcast_to(&Tensor::from(value), &[2]).unwrap();
        assert!(
            y.to_vec::<f64>()
                .iter()
                .all(|element| element.to_bits() == value.to_bits())
        );
    }
    for value in [i64::MAX, i64::MIN, (1 << 53) + 1] {
        assert_eq!(
            broadcast_to(&Tensor::scalar(value), &[2])
                .unwrap()
                .to_vec::<i64>(),
            [value; 2]
        );
    }
}

#[test]
fn rules_agree_with_evaluation() {
    let broadcast = Broadcast {
        shape: Shape::from([4, 3, 2]),
        axes: AxisList::from_slice(&[0, 2]),
    };
    check_transpose(&broadcast, &[noise(&[4, 1], 1)], 0);
    check_tangent(&broadcast, &[noise(&[4, 1], 1)]);
    check_batching(&broadcast, &[noise(&[4, 5, 1], 1)], &[Some(1)]);
    let reshape = Reshape {
        shape: Shape::from([6, 2]),
    };
    check_transpose(&reshape, &[noise(&[3, 4], 1)], 0);
    check_batching(&reshape, &[noise(&[3, 5, 4], 1)], &[Some(1)]);
    let transpose = Transpose {
        permutation: AxisList::from_slice(&[2, 0, 1]),
    };
    check_transpose(&transpose, &[noise(&[2, 3, 4], 1)], 0);
    for axis in 0..4 {
        let mut shape = vec![2, 3, 4];
        shape.insert(axis, 5);
        check_batching(&transpose, &[noise(&shape, 1)], &[Some(axis)]);
    }
}

#[test]
fn errors_name_the_axis() {
    let error = broadcast_to(&noise(&[3], 1), &[2, 4])
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("axis 0 has length 3, but axis 1 of the shape [2, 4] has length 4"),
        "{error}"
    );
    let error = reshape(&noise(&[3], 1), &[2, 2]).unwrap_err().to_string();
    assert!(
        error.contains("it has 3 elements, but the shape [2, 2] has 4"),
        "{error}"
    );
    assert!(transpose(&noise(&[3, 2], 1), &[0, 0]).is_err());
}
