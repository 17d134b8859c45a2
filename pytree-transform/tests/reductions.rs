//! Calls every reduction in each form: over all axes, over some, over kept ones, and the fallible versions.

#![allow(
    clippy::pedantic,
    clippy::unwrap_used,
    missing_docs,
    reason = "a test says what it checks in its name, and fails by panicking"
)]

use pytree_transform::{DType, Tensor, TensorError, jit};

type Fallible = Result<Tensor, TensorError>;

/// A reduction: its forms, and the value of a slice of elements.
struct Reduction {
    name: &'static str,
    all: fn(&Tensor) -> Tensor,
    some: fn(&Tensor, &[isize]) -> Tensor,
    kept: fn(&Tensor, &[isize]) -> Tensor,
    try_all: fn(&Tensor) -> Fallible,
    try_some: fn(&Tensor, &[isize]) -> Fallible,
    try_kept: fn(&Tensor, &[isize]) -> Fallible,
    expected: fn(&[f64]) -> f64,
}

macro_rules! table {
    ($($all:ident $some:ident $kept:ident $try_all:ident $try_some:ident $try_kept:ident = $expected:expr;)*) => {
        [$(Reduction {
            name: stringify!($all),
            all: |x| x.$all(),
            some: |x, axes| x.$some(axes),
            kept: |x, axes| x.$kept(axes),
            try_all: |x| x.$try_all(),
            try_some: |x, axes| x.$try_some(axes),
            try_kept: |x, axes| x.$try_kept(axes),
            expected: $expected,
        }),*]
    };
}

fn variance(x: &[f64]) -> f64 {
    let mean = x.iter().sum::<f64>() / x.len() as f64;
    x.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / x.len() as f64
}

fn median(x: &[f64]) -> f64 {
    let mut x = x.to_vec();
    x.sort_by(f64::total_cmp);
    (x[(x.len() - 1) / 2] + x[x.len() / 2]) / 2.0
}

fn truth(holds: bool) -> f64 {
    f64::from(u8::from(holds))
}

#[rustfmt::skip]
fn reductions() -> Vec<Reduction> {
    table! {
        sum sum_axes sum_keep try_sum try_sum_axes try_sum_keep = |x| x.iter().sum();
        mean mean_axes mean_keep try_mean try_mean_axes try_mean_keep = |x| x.iter().sum::<f64>() / x.len() as f64;
        max max_axes max_keep try_max try_max_axes try_max_keep = |x| x.iter().copied().fold(f64::MIN, f64::max);
        min min_axes min_keep try_min try_min_axes try_min_keep = |x| x.iter().copied().fold(f64::MAX, f64::min);
        prod prod_axes prod_keep try_prod try_prod_axes try_prod_keep = |x| x.iter().product();
        all all_axes all_keep try_all try_all_axes try_all_keep = |x| truth(x.iter().all(|&x| x != 0.0));
        any any_axes any_keep try_any try_any_axes try_any_keep = |x| truth(x.iter().any(|&x| x != 0.0));
        count_nonzero count_nonzero_axes count_nonzero_keep
            try_count_nonzero try_count_nonzero_axes try_count_nonzero_keep
            = |x| x.iter().filter(|&&x| x != 0.0).count() as f64;
        variance variance_axes variance_keep try_variance try_variance_axes try_variance_keep = variance;
        standard_deviation standard_deviation_axes standard_deviation_keep
            try_standard_deviation try_standard_deviation_axes try_standard_deviation_keep
            = |x| variance(x).sqrt();
        median median_axes median_keep try_median try_median_axes try_median_keep = median;
        norm norm_axes norm_keep try_norm try_norm_axes try_norm_keep
            = |x| x.iter().map(|x| x * x).sum::<f64>().sqrt();
        logsumexp logsumexp_axes logsumexp_keep try_logsumexp try_logsumexp_axes try_logsumexp_keep
            = |x| x.iter().map(|x| x.exp()).sum::<f64>().ln();
    }
    .into()
}

const LENGTHS: [usize; 3] = [2, 3, 4];

fn elements() -> Vec<f64> {
    let numbers = (0..24).map(|position: u32| f64::from(position * 7 % 24) / 6.0 - 1.5);
    numbers.collect()
}

/// Returns the values over `axes`, in row-major order of the other axes.
fn expected(reduction: &Reduction, axes: &[isize]) -> Vec<f64> {
    let reduced: Vec<usize> = axes
        .iter()
        .map(|&axis| (axis + 3).unsigned_abs() % 3)
        .collect();
    let mut groups = std::collections::BTreeMap::<Vec<usize>, Vec<f64>>::new();
    for (position, element) in elements().into_iter().enumerate() {
        let place = [position / 12, position / 4 % 3, position % 4];
        let others = (0..3).filter(|axis| !reduced.contains(axis));
        let group = groups.entry(others.map(|axis| place[axis]).collect());
        group.or_default().push(element);
    }
    groups
        .into_values()
        .map(|group| (reduction.expected)(&group))
        .collect()
}

fn check(name: &str, found: &Tensor, shape: &[usize], expected: &[f64]) {
    assert_eq!(found.shape(), shape, "{name}");
    let found = found.convert(DType::F64).to_vec::<f64>();
    for (found, expected) in found.iter().zip(expected) {
        assert!(
            (found - expected).abs() < 1e-12,
            "{name}: {found}, not {expected}"
        );
    }
}

#[test]
fn every_reduction_has_every_form() {
    let x = Tensor::new(LENGTHS, elements());
    for reduction in reductions() {
        let name = reduction.name;
        let of_all = expected(&reduction, &[0, 1, 2]);
        check(name, &(reduction.all)(&x), &[], &of_all);
        check(name, &(reduction.try_all)(&x).unwrap(), &[], &of_all);
        for axes in [
            &[0_isize][..],
            &[-1],
            &[1],
            &[0, -1],
            &[-2, 0],
            &[2, 0, 1],
            &[],
        ] {
            let values = expected(&reduction, axes);
            let is_reduced =
                |axis: usize| axes.iter().any(|&other| (other + 3) % 3 == axis as isize);
            let removed: Vec<usize> = (0..3)
                .filter(|&axis| !is_reduced(axis))
                .map(|axis| LENGTHS[axis])
                .collect();
            let with_ones: Vec<usize> = (0..3)
                .map(|axis| if is_reduced(axis) { 1 } else { LENGTHS[axis] })
                .collect();
            let name = format!("{name} over {axes:?}");
            check(&name, &(reduction.some)(&x, axes), &removed, &values);
            check(&name, &(reduction.kept)(&x, axes), &with_ones, &values);
            let some = (reduction.try_some)(&x, axes).unwrap();
            check(&name, &some, &removed, &values);
            let kept = (reduction.try_kept)(&x, axes).unwrap();
            check(&name, &kept, &with_ones, &values);
        }
        for axes in [&[3_isize][..], &[-4], &[1, -2]] {
            let error = (reduction.try_some)(&x, axes).unwrap_err().to_string();
            assert_eq!(
                (reduction.try_kept)(&x, axes).unwrap_err().to_string(),
                error
            );
            assert!(error.contains("f64[2,3,4]: axis"), "{name}: {error}");
        }
        let kept = reduction.kept;
        let compiled = jit(move |x: Tensor| kept(&x, &[-1]));
        check(
            name,
            &compiled(x.clone()),
            &[2, 3, 1],
            &expected(&reduction, &[-1]),
        );
    }
}

#[test]
fn positions_of_extrema_have_both_forms() {
    let x = Tensor::from([[1.0, 5.0, 2.0], [6.0, 4.0, 0.0]]);
    for axis in [1, -1] {
        assert_eq!(x.argmax(axis), Tensor::from([1, 0]));
        assert_eq!(x.argmax_keep(axis), Tensor::from([[1], [0]]));
        assert_eq!(x.argmin(axis), Tensor::from([0, 2]));
        assert_eq!(x.try_argmin_keep(axis).unwrap(), Tensor::from([[0], [2]]));
    }
    assert_eq!(x.flatten().argmax(0), Tensor::from(3));
    assert_eq!(x.flatten().argmin(0), Tensor::from(5));
    assert_eq!(x.take_along_axis(&x.argmax_keep(-1), -1), x.max_keep([-1]));
    let error = x.try_argmax_keep(2).unwrap_err().to_string();
    assert!(error.contains("cannot argmax f64[2,3]: axis 2"), "{error}");
}

#[test]
fn reductions_of_nothing_are_as_in_numpy() {
    let nothing = Tensor::zeros(DType::F64, [2, 0]);
    assert!(nothing.median().item::<f64>().is_nan());
    assert!(nothing.variance().item::<f64>().is_nan());
    assert_eq!(nothing.norm_axes([1]), Tensor::from([0.0, 0.0]));
    assert_eq!(
        nothing.logsumexp_axes([1]),
        Tensor::from([f64::NEG_INFINITY; 2])
    );
    assert!(nothing.try_max().is_err());
    assert!(nothing.try_min_axes([1]).is_err());
}

#[test]
fn median_of_extremes_is_as_in_numpy() {
    let of = |x: &[f64]| Tensor::from(x).median().item::<f64>();
    assert!(of(&[1.0, f64::NAN, 2.0]).is_nan());
    assert_eq!(of(&[f64::MAX, f64::MAX]), f64::MAX);
    assert_eq!(of(&[f64::INFINITY, 1.0, f64::INFINITY]), f64::INFINITY);
    let rows = Tensor::from([[f64::NAN, 1.0], [3.0, 1.0]]);
    assert_eq!(rows.median_axes([1]).to_vec::<f64>()[1], 2.0);
    let flags = Tensor::from([[true, false], [true, true]]);
    assert_eq!(flags.all_keep([0]), Tensor::from([[true, false]]));
    assert!(flags.try_sum().is_err() && flags.try_median().is_err());
}

#[test]
fn every_axis_may_be_negative() {
    let x = Tensor::iota(DType::F32, [2, 3, 4], -1);
    assert_eq!(x, Tensor::iota(DType::F32, [2, 3, 4], 2));
    assert_eq!(x.transpose([-1, 0, -2]), x.transpose([2, 0, 1]));
    let y = Tensor::ones(DType::F32, [4, 3, 5]);
    assert_eq!(
        x.dot_general(&y, (&[-1], &[-3]), (&[-2], &[1])),
        x.dot_general(&y, (&[2], &[0]), (&[1], &[1]))
    );
    assert_eq!(x.reverse([-1]), x.reverse([2]));
    assert!(x.try_reverse([-4]).is_err() && x.try_transpose([0, 1, -4]).is_err());
    assert!(x.try_squeeze(-4).is_err() && x.try_move_axis(0, 3).is_err());
    assert!(x.try_expand_dims(-5).is_err() && x.try_expand_dims(-4).is_ok());
}
