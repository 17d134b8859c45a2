use pytree_kernels::base::dtype::DType;
use pytree_kernels::base::shape::PerAxis;
use pytree_kernels::loops::reduce_window::Window;
use pytree_kernels::loops::reduction::Extremum;
use smallvec::smallvec;

use super::selection::{Direction, SelectAndAdd};
use super::{ReduceWindowExtremum, ReduceWindowSum, extremum_of_windows, sum_windows};
use crate::primitives::shape::tests::rule_checks::{
    all_indices, assert_close, check_batching, check_tangent, check_transpose, noise,
};
use crate::tensor::Tensor;
use crate::tensor::primitive::Primitive;
use crate::tensor::trace::bind_one;

/// Returns the indices of the elements of each window, in row-major order, by the definition.
fn slow(
    window: &Window,
    base_dilation: &[usize],
    shape: &[usize],
    result: &[usize],
) -> Vec<Vec<Vec<usize>>> {
    let of_window = |index: Vec<usize>| {
        let inside = |at: Vec<usize>| -> Option<Vec<usize>> {
            let axis = |axis: usize| {
                let position = index[axis] * window.strides[axis] + at[axis];
                let position =
                    usize::try_from(position.cast_signed() - window.padding[axis].0).ok()?;
                let dilation = base_dilation[axis];
                (position % dilation == 0 && position / dilation < shape[axis])
                    .then(|| position / dilation)
            };
            (0..shape.len()).map(axis).collect()
        };
        all_indices(&window.dimensions).filter_map(inside).collect()
    };
    all_indices(result).map(of_window).collect()
}

type Case = (
    &'static [usize],
    &'static [usize],
    &'static [usize],
    &'static [(isize, isize)],
    &'static [usize],
);

/// The shape of the operand, then the sizes, strides and padding of the windows, and the dilation of the operand.
const CASES: [Case; 11] = [
    (&[5], &[2], &[1], &[(0, 0)], &[1]),
    (
        &[2, 7, 3],
        &[1, 3, 1],
        &[1, 2, 1],
        &[(0, 0), (1, 2), (0, 0)],
        &[1, 1, 1],
    ),
    (
        &[2, 4, 6, 70],
        &[1, 2, 2, 1],
        &[1, 2, 2, 1],
        &[(0, 0), (0, 0), (0, 0), (0, 0)],
        &[1, 1, 1, 1],
    ),
    (
        &[5, 6, 2],
        &[3, 2, 1],
        &[1, 3, 1],
        &[(-1, 2), (2, -2), (0, 0)],
        &[1, 1, 1],
    ),
    (&[3, 4], &[2, 2], &[1, 1], &[(3, 0), (0, 3)], &[1, 1]),
    (
        &[4, 2, 5],
        &[2, 1, 3],
        &[2, 1, 1],
        &[(0, 0), (0, 0), (1, 1)],
        &[1, 1, 1],
    ),
    (&[3, 2], &[1, 1], &[1, 1], &[(0, 0), (0, 0)], &[1, 1]),
    (&[2, 3], &[1, 5], &[1, 1], &[(0, 0), (0, 0)], &[1, 1]),
    (
        &[0, 3, 2],
        &[1, 2, 1],
        &[1, 1, 1],
        &[(0, 0), (0, 0), (0, 0)],
        &[1, 1, 1],
    ),
    (
        &[2, 4, 3],
        &[1, 3, 1],
        &[1, 2, 1],
        &[(0, 0), (2, 1), (0, 0)],
        &[1, 3, 1],
    ),
    (&[5, 4], &[2, 3], &[1, 2], &[(1, 1), (-1, 2)], &[2, 2]),
];

fn window((_, dimensions, strides, padding, _): Case) -> Window {
    Window {
        dimensions: PerAxis::from_slice(dimensions),
        strides: PerAxis::from_slice(strides),
        padding: PerAxis::from_slice(padding),
    }
}

/// A primitive with the shapes of its operands.
type WithShapes = (Box<dyn Primitive>, Vec<Vec<usize>>);

/// Returns the primitives for a case, each with the shapes of its operands. Primitives of extrema ignore the dilation.
fn primitives(case: Case) -> Vec<WithShapes> {
    let (window, shape) = (window(case), case.0.to_vec());
    let base_dilation = PerAxis::from_slice(case.4);
    let sum = ReduceWindowSum {
        window: window.clone(),
        base_dilation,
    };
    let mut primitives: Vec<WithShapes> = vec![(Box::new(sum), vec![shape.clone()])];
    for extremum in [Extremum::Max, Extremum::Min] {
        let reduce = ReduceWindowExtremum {
            extremum,
            window: window.clone(),
        };
        let result = bind_one(&reduce, &[&noise(&shape, 1)])
            .unwrap()
            .shape()
            .to_vec();
        // A window without elements has an infinite extremum, and a difference of infinities is NaN. So check the
        // tangent only if all windows have elements.
        let all_windows_have_elements = slow(&window, &vec![1; shape.len()], &shape, &result)
            .iter()
            .all(|indices| !indices.is_empty());
        if all_windows_have_elements {
            primitives.push((Box::new(reduce), vec![shape.clone()]));
        }
        let (gather, scatter) = (
            SelectAndAdd {
                direction: Direction::Gather,
                extremum,
                window: window.clone(),
            },
            SelectAndAdd {
                direction: Direction::Scatter,
                extremum,
                window: window.clone(),
            },
        );
        primitives.push((Box::new(gather), vec![shape.clone(), shape.clone()]));
        primitives.push((Box::new(scatter), vec![result, shape.clone()]));
    }
    primitives
}

#[test]
fn reductions_match_definition() {
    for case in CASES {
        let (window, x) = (window(case), noise(case.0, 1));
        let view = x.view::<f64>().unwrap();
        let sum = ReduceWindowSum {
            window: window.clone(),
            base_dilation: PerAxis::from_slice(case.4),
        };
        let sums = bind_one(&sum, &[&x]).unwrap();
        let expected = slow(&window, case.4, case.0, sums.shape());
        let expected = expected
            .iter()
            .map(|indices| indices.iter().map(|at| view[&at[..]]).sum());
        assert_close(
            &sums,
            &Tensor::new(sums.shape(), expected.collect::<Vec<f64>>()),
            1e-14,
        );
        for extremum in [Extremum::Max, Extremum::Min] {
            let found = extremum_of_windows(extremum, &x, window.clone()).unwrap();
            let (start, best): (f64, fn(f64, f64) -> f64) = match extremum {
                Extremum::Max => (f64::NEG_INFINITY, f64::max),
                Extremum::Min => (f64::INFINITY, f64::min),
            };
            let ones = vec![1; case.0.len()];
            let windows = slow(&window, &ones, case.0, found.shape());
            let expected = windows
                .iter()
                .map(|indices| indices.iter().map(|at| view[&at[..]]).fold(start, best));
            assert_eq!(
                found,
                Tensor::new(found.shape(), expected.collect::<Vec<f64>>())
            );
        }
    }
}

#[test]
fn selections_match_definition() {
    for case in CASES {
        let (window, x, tangent) = (window(case), noise(case.0, 1), noise(case.0, 2));
        let gather = SelectAndAdd {
            direction: Direction::Gather,
            extremum: Extremum::Max,
            window: window.clone(),
        };
        let found = bind_one(&gather, &[&tangent, &x]).unwrap();
        let windows = slow(&window, &vec![1; case.0.len()], case.0, found.shape());
        let (view, tangents) = (x.view::<f64>().unwrap(), tangent.view::<f64>().unwrap());
        let at_greatest = |indices: &Vec<Vec<usize>>| {
            let greatest = indices
                .iter()
                .max_by(|left, right| view[&left[..]].total_cmp(&view[&right[..]]));
            greatest.map_or(0.0, |at| tangents[&at[..]])
        };
        let expected: Vec<f64> = windows.iter().map(at_greatest).collect();
        assert_eq!(found, Tensor::new(found.shape(), expected));
    }
}

#[test]
fn rules_agree_with_evaluation() {
    for (primitive, shapes) in CASES.into_iter().flat_map(primitives) {
        let operands: Vec<Tensor> = shapes
            .iter()
            .zip(1..)
            .map(|(shape, seed)| noise(shape, seed))
            .collect();
        let is_linear = !primitive.name().starts_with("reduce_window_m");
        if is_linear {
            check_transpose(&*primitive, &operands, 0);
        }
        check_tangent(&*primitive, &operands);
        let batched = |shape: &[usize], axis: usize, seed| {
            let mut shape = shape.to_vec();
            shape.insert(axis, 2);
            noise(&shape, seed)
        };
        for axis in 0..=shapes[0].len() {
            let first = batched(&shapes[0], axis, 3);
            let Some(second) = operands.get(1) else {
                check_batching(&*primitive, &[first], &[Some(axis)]);
                continue;
            };
            check_batching(
                &*primitive,
                &[first.clone(), second.clone()],
                &[Some(axis), None],
            );
            let other = batched(&shapes[1], 0, 4);
            check_batching(
                &*primitive,
                &[operands[0].clone(), other.clone()],
                &[None, Some(0)],
            );
            check_batching(&*primitive, &[first, other], &[Some(axis), Some(0)]);
        }
    }
}

#[test]
fn first_of_equals_and_first_nan_are_selected() {
    let nan = f64::NAN;
    let x = Tensor::from([1.0, 1.0, nan, nan, f64::NEG_INFINITY]);
    let window = Window {
        dimensions: smallvec![2],
        strides: smallvec![1],
        padding: smallvec![(1, 1)],
    };
    let select = SelectAndAdd {
        direction: Direction::Gather,
        extremum: Extremum::Max,
        window: window.clone(),
    };
    let places = Tensor::from([1.0, 2.0, 3.0, 4.0, 5.0]);
    let found = bind_one(&select, &[&places, &x]).unwrap();
    assert_eq!(found, Tensor::from([1.0, 1.0, 3.0, 3.0, 4.0, 5.0]));
    let maxima = extremum_of_windows(Extremum::Max, &x, window).unwrap();
    let is_nan: Vec<bool> = maxima.to_vec::<f64>().iter().map(|x| x.is_nan()).collect();
    assert_eq!(is_nan, [false, false, true, true, true, false]);
}

#[test]
fn window_of_padding_has_least_value() {
    let window = |padding| Window {
        dimensions: smallvec![1],
        strides: smallvec![1],
        padding: smallvec![padding],
    };
    let x = Tensor::from([7]);
    let maxima = extremum_of_windows(Extremum::Max, &x, window((1, 1))).unwrap();
    assert_eq!(maxima, Tensor::from([i32::MIN, 7, i32::MIN]));
    assert_eq!(
        sum_windows(&x, window((0, 1))).unwrap(),
        Tensor::from([7, 0])
    );
    let nothing = Tensor::zeros(DType::I32, [0]);
    assert_eq!(
        sum_windows(&nothing, window((1, 1))).unwrap(),
        Tensor::from([0, 0])
    );
}

#[test]
fn long_sums_stay_accurate() {
    // If a million terms of 0.1 were added one after the other, the sum would have an error of 958.
    let x = Tensor::full(DType::F32, [1_000_000, 2], 0.1);
    let window = Window {
        dimensions: smallvec![1_000_000, 1],
        strides: smallvec![1, 1],
        padding: smallvec![(0, 0), (0, 0)],
    };
    for total in sum_windows(&x, window).unwrap().to_vec::<f32>() {
        assert!(
            (f64::from(total) - 100_000.001_490_116).abs() < 20.0,
            "{total}"
        );
    }
}

#[test]
fn errors_say_what_does_not_fit() {
    let x = noise(&[4], 1);
    let window = |size, stride, padding| Window {
        dimensions: smallvec![size],
        strides: smallvec![stride],
        padding,
    };
    for window in [
        window(0, 1, smallvec![(0, 0)]),
        window(1, 0, smallvec![(0, 0)]),
        window(1, 1, smallvec![(-5, 0)]),
        window(1, 1, smallvec![]),
    ] {
        let error = sum_windows(&x, window).unwrap_err().to_string();
        assert!(
            error.contains("a padding that removes at most the length of the axis"),
            "{error}"
        );
    }
    let bools = Tensor::from([true]);
    assert!(extremum_of_windows(Extremum::Max, &bools, window(1, 1, smallvec![(0, 0)])).is_err());
    let scatter = SelectAndAdd {
        direction: Direction::Scatter,
        extremum: Extremum::Max,
        window: window(2, 1, smallvec![(0, 0)]),
    };
    let error = bind_one(&scatter, &[&x, &x]).unwrap_err().to_string();
    assert!(
        error.contains("the first tensor has the shape [4], expected [3]"),
        "{error}"
    );
}
