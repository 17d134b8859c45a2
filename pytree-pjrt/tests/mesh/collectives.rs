//! Each collective on 2, 4 and 8 devices, compared with `vmap` with the same axis name.

use pytree_transform::{
    DType, Tensor, Tiling, all_gather, all_to_all, axis_index, axis_size, pmax, pmean, pmin,
    ppermute, pshuffle, psum, psum_scatter, spmd, vmap,
};

use crate::mesh::{assert_near, mesh, numbers};

/// The numbers of devices.
const COUNTS: [usize; 3] = [2, 4, 8];

/// Runs a function on parts of `x` along axis 0, on devices and as a `vmap`. The results are joined along axis 0.
fn both(count: usize, x: &Tensor, f: fn(Tensor) -> Tensor) -> Option<(Tensor, Tensor)> {
    let mesh = mesh([("i", count)])?;
    let on_devices = spmd(f).over(&mesh).in_axes("i", 0).out_axes("i", 0);
    let found = on_devices(x.clone());
    assert_eq!(found.device(), mesh.device());
    let parts: Vec<Tensor> = x.split(count, 0);
    let batch = Tensor::stack(&parts, 0);
    let expected = vmap(f).axis_name("i")(batch);
    let mut shape = expected.shape().to_vec();
    let first = shape.remove(0);
    shape[0] *= first;
    Some((found, expected.reshape(shape)))
}

/// Checks that devices and `vmap` compute the same bits.
#[track_caller]
fn assert_same(shape: impl Fn(usize) -> Vec<usize>, f: fn(Tensor) -> Tensor) {
    for count in COUNTS {
        let x = numbers(&shape(count));
        let Some((found, expected)) = both(count, &x, f) else {
            return;
        };
        assert_eq!(found, expected, "{count} devices");
    }
}

/// The sum of 8 numbers below 1 in another order differs by at most 8 roundings of numbers below 8.
const SUM: f32 = 8.0 * 8.0 * f32::EPSILON;

#[track_caller]
fn assert_sums(f: fn(Tensor) -> Tensor) {
    for count in COUNTS {
        let x = numbers(&[count * 3, 5]);
        let Some((found, expected)) = both(count, &x, f) else {
            return;
        };
        assert_near(&found, &expected, SUM);
    }
}

fn rows(count: usize) -> Vec<usize> {
    vec![count * 3, 5]
}

#[test]
fn psum_equals_vmap() {
    assert_sums(|x| psum(&x, "i"));
    assert_sums(|x| &x * psum(&x.square(), "i"));
}

#[test]
fn psum_of_integers_equals_vmap() {
    for count in COUNTS {
        let x = Tensor::arange(DType::I32, count * 6).reshape([count * 2, 3]);
        let Some((found, expected)) = both(count, &x, |x| psum(&x, "i")) else {
            return;
        };
        assert_eq!(found, expected);
    }
}

#[test]
fn pmean_equals_vmap() {
    assert_sums(|x| &x - pmean(&x, "i"));
}

#[test]
fn pmax_and_pmin_equal_vmap() {
    assert_same(rows, |x| pmax(&x, "i"));
    assert_same(rows, |x| pmin(&x, "i"));
}

#[test]
fn all_gather_equals_vmap() {
    assert_same(rows, |x| all_gather(&x, "i", 0, Tiling::Stacked));
    assert_same(rows, |x| all_gather(&x, "i", 1, Tiling::Stacked));
    assert_same(rows, |x| all_gather(&x, "i", 0, Tiling::Tiled));
    assert_same(rows, |x| all_gather(&x, "i", -1, Tiling::Tiled));
}

#[test]
fn axis_index_and_size_equal_vmap() {
    assert_same(rows, |x| {
        // Integers, because XLA may compute a product and a sum of floats with one rounding.
        let x = (x * 1000.0).round().convert(DType::I32);
        x * axis_index("i") + i32::try_from(axis_size("i")).unwrap()
    });
}

#[test]
fn ppermute_equals_vmap() {
    assert_same(rows, |x| {
        let count = axis_size("i");
        let ring: Vec<(usize, usize)> = (0..count).map(|at| (at, (at + 1) % count)).collect();
        ppermute(&x, "i", ring)
    });
    assert_same(rows, |x| ppermute(&x, "i", [(1, 0)]));
    assert_same(rows, |x| ppermute(&x, "i", []));
    assert_same(rows, |x| {
        let reversed: Vec<usize> = (0..axis_size("i")).rev().collect();
        pshuffle(&x, "i", reversed)
    });
}

#[test]
fn all_to_all_equals_vmap() {
    let square = |count| vec![count * count, 2, count];
    assert_same(square, |x| all_to_all(&x, "i", 0, 0, Tiling::Stacked));
    assert_same(square, |x| all_to_all(&x, "i", 0, 1, Tiling::Stacked));
    assert_same(square, |x| all_to_all(&x, "i", 2, 0, Tiling::Stacked));
    assert_same(square, |x| all_to_all(&x, "i", 2, 0, Tiling::Tiled));
    assert_same(square, |x| all_to_all(&x, "i", 0, 2, Tiling::Tiled));
}

#[test]
fn psum_scatter_equals_vmap() {
    for count in COUNTS {
        let x = numbers(&[count * count, 2, count]);
        let stacked = |x: Tensor| psum_scatter(&x, "i", 0, Tiling::Stacked);
        let last = |x: Tensor| psum_scatter(&x, "i", -1, Tiling::Stacked);
        let tiled = |x: Tensor| psum_scatter(&x, "i", 0, Tiling::Tiled);
        for f in [stacked, last, tiled] as [fn(Tensor) -> Tensor; 3] {
            let Some((found, expected)) = both(count, &x, f) else {
                return;
            };
            assert_near(&found, &expected, SUM);
        }
    }
}

#[test]
fn half_precision_collectives_equal_vmap() {
    for dtype in [DType::BF16, DType::F16] {
        for count in COUNTS {
            let x = (numbers(&[count * 2, 3]) * 8.0).round().convert(dtype);
            let sums = |x: Tensor| psum(&x, "i") + pmax(&x, "i");
            let Some((found, expected)) = both(count, &x, sums) else {
                return;
            };
            assert_eq!(found, expected, "{dtype} on {count} devices");
        }
    }
}
