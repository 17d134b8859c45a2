//! NaN, infinities and the sign of zero in maxima between devices, compared with the host.

use pytree_transform::device::{Device, device_put};
use pytree_transform::{DType, Tensor, debug_nans, jit, pmax, pmin, psum, spmd, vmap};

use crate::mesh::{mesh, panic_of};

const NAN: f64 = f64::NAN;
const INF: f64 = f64::INFINITY;

/// One row for each device.
const ROWS: [[f64; 8]; 4] = [
    [NAN, 1.0, 0.0, -0.0, INF, -INF, -INF, 2.0],
    [2.0, -3.0, -0.0, 0.0, 1.0, -INF, 5.0, -NAN],
    [1.0, -4.0, -1.0, 1.0, 2.0, -INF, 6.0, 3.0],
    [0.5, NAN, -2.0, 2.0, 3.0, -INF, 7.0, 9.0],
];

fn rows(dtype: DType) -> Tensor {
    Tensor::new([4, 8], ROWS.concat()).convert(dtype)
}

/// Checks that two tensors have the same elements. All NaN are equal. The sign of a zero may differ, because the host returns
/// one of two equal elements.
#[track_caller]
fn assert_same(what: &str, found: &Tensor, expected: &Tensor) {
    assert_eq!(found.info(), expected.info(), "{what}");
    let elements = |x: &Tensor| {
        let x = device_put(x, Device::HOST).convert(DType::F64);
        // The sum with 0.0 has no negative zero.
        let bits = |x: f64| {
            if x.is_nan() {
                NAN.to_bits()
            } else {
                (x + 0.0).to_bits()
            }
        };
        x.to_vec::<f64>().into_iter().map(bits).collect::<Vec<_>>()
    };
    assert_eq!(
        elements(found),
        elements(expected),
        "{what}: {found} and {expected}"
    );
}

#[test]
fn extrema_between_devices_keep_nan() {
    let Some(mesh) = mesh([("i", 4)]) else { return };
    let f = |x: Tensor| (pmax(&x, "i"), pmin(&x, "i"));
    let on_devices = spmd(move |x: Tensor| f(x.squeeze(0)))
        .over(&mesh)
        .in_axes("i", 0);
    let on_host = vmap(f).axis_name("i").out_axes(None);
    for dtype in [DType::F32, DType::F64, DType::BF16, DType::F16] {
        let (max, min) = on_devices(rows(dtype));
        let (host_max, host_min) = on_host(rows(dtype));
        assert_same(&format!("pmax of {dtype}"), &max, &host_max);
        assert_same(&format!("pmin of {dtype}"), &min, &host_min);
    }
    for dtype in [DType::I32, DType::I64, DType::I8, DType::U32, DType::Bool] {
        let x = Tensor::new(
            [4, 2],
            vec![
                0_i64,
                -7,
                2,
                1,
                i64::from(i32::MAX),
                0,
                1,
                i64::from(i32::MIN),
            ],
        );
        let (max, min) = on_devices(x.convert(dtype));
        let (host_max, host_min) = on_host(x.convert(dtype));
        assert_same(&format!("pmax of {dtype}"), &max, &host_max);
        assert_same(&format!("pmin of {dtype}"), &min, &host_min);
    }
}

type Named = (&'static str, fn(Tensor) -> Tensor);

/// XLA divides these functions, and reduces between devices.
const DIVIDED: [Named; 13] = [
    ("max", |x| x.max()),
    ("min", |x| x.min()),
    ("max of columns", |x| x.max_axes([0])),
    ("min of columns", |x| x.min_axes([0])),
    ("max of rows", |x| x.max_axes([1])),
    ("argmax", |x| x.argmax(0)),
    ("argmin", |x| x.argmin(0)),
    ("cummax", |x| x.cummax(0)),
    ("cummin", |x| x.cummin(0)),
    ("sort", |x| x.sort(0)),
    ("logsumexp", |x| x.logsumexp_axes([0])),
    ("segments", |x| {
        x.segment_max(&Tensor::from([0, 1, 0, 1]), 2)
    }),
    ("segments of minima", |x| {
        x.segment_min(&Tensor::from([0, 1, 0, 1]), 2)
    }),
];

#[test]
fn divided_extrema_keep_nan() {
    let Some(mesh) = mesh([("data", 4), ("model", 2)]) else {
        return;
    };
    for (name, f) in DIVIDED {
        let on_mesh = jit(f).on(&mesh);
        for dtype in [DType::F32, DType::F64, DType::BF16] {
            let expected = f(rows(dtype));
            let rows_divided = device_put(&rows(dtype), mesh.divided("data"));
            let both_divided = device_put(&rows(dtype), mesh.divided(("data", "model")));
            for x in [rows_divided, both_divided] {
                let what = format!("{name} of {dtype}");
                assert_same(&what, &on_mesh(x.clone()), &expected);
                assert_same(&format!("{what} without jit"), &f(x), &expected);
            }
        }
    }
}

/// The greater of two zeros is 0.0, as IEEE 754 defines the maximum, in whatever order the devices are combined.
#[test]
fn zeros_of_different_signs_are_ordered() {
    let Some(mesh) = mesh([("i", 2)]) else { return };
    let f = spmd(|x: Tensor| (pmax(&x, "i"), pmin(&x, "i")));
    let f = f.over(&mesh).in_axes("i", 0);
    for x in [[0.0_f32, -0.0], [-0.0, 0.0]] {
        let (max, min) = f(Tensor::from(x));
        assert!(max.item::<f32>().is_sign_positive(), "{max}");
        assert!(min.item::<f32>().is_sign_negative(), "{min}");
        let x = device_put(&Tensor::from(x), mesh.divided("i"));
        assert!(x.max().item::<f32>().is_sign_positive());
        assert!(x.min().item::<f32>().is_sign_negative());
    }
}

/// The devices run a compiled program, so the function is checked on the host.
#[test]
fn first_nan_is_reported_with_its_line() {
    let Some(mesh) = mesh([("data", 2), ("model", 2)]) else {
        return;
    };
    let line = line!() + 2;
    let f = spmd(|(x, scale): (Tensor, Tensor)| {
        let y = (x * scale).log();
        // The NaN does not reach the result.
        let known = y.greater(-1.0).convert(DType::F32);
        psum(&known.sum(), ("data", "model"))
    });
    let f = f.over(&mesh);
    let f = f.in_axes("data", (0, None)).in_axes("model", (1, 0));
    let scale = Tensor::from([1.0_f32, 2.0]);
    let mut x = [[1.0_f32, 2.0], [3.0, 4.0], [5.0, 6.0], [7.0, 8.0]];
    let good = (device_put(&Tensor::from(x), &mesh), scale.clone());
    assert_eq!(debug_nans(|| f(good)).item::<f32>(), 8.0);
    x[3][1] = -8.0;
    let bad = (Tensor::from(x), scale);
    assert_eq!(f(bad.clone()).item::<f32>(), 7.0);
    let message = panic_of(|| debug_nans(|| f(bad)));
    let expected = format!("`log` at pytree-pjrt/tests/mesh/nans.rs:{line}:");
    assert!(message.starts_with(&expected), "{message}");
    assert!(
        message.contains("returned NaN in 1 of 8 elements"),
        "{message}"
    );
    assert!(message.contains("with values from -16 to 12"), "{message}");
}
