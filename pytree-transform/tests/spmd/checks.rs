//! `debug_nans` and `debug_infs` in `spmd`.

use pytree_transform::{Tensor, debug_infs, debug_nans, psum, scan, spmd};

use crate::spmd::{host, panic_of};

#[test]
fn first_nan_is_reported_with_its_line() {
    let line = line!() + 1;
    let f = spmd(|x: Tensor| psum(&(x.log() + 1.0).sum(), "data"));
    let f = f.over(&host(["data"])).in_axes("data", 0);
    let x = Tensor::from([1.0_f32, -1.0]);
    assert!(f(x.clone()).item::<f32>().is_nan());
    let message = panic_of(|| debug_nans(|| f(x.clone())));
    let expected = format!("`log` at pytree-transform/tests/spmd/checks.rs:{line}:");
    assert!(message.starts_with(&expected), "{message}");
    let expected = "returned NaN in 1 of 2 elements: ";
    assert!(message.contains(expected), "{message}");
    // The check ends with the call.
    assert!(f(x).item::<f32>().is_nan());
    assert_eq!(
        debug_nans(|| f(Tensor::from([1.0_f32, 1.0]))).item::<f32>(),
        2.0
    );
}

#[test]
fn bodies_of_loops_are_checked() {
    let f = spmd(|x: Tensor| {
        let step = |sum: Tensor, x: Tensor| (&sum / &x, x);
        psum(&scan(step, Tensor::from(1.0_f32), x).0, "data")
    });
    let f = f.over(&host(["data"])).in_axes("data", 0);
    let message = panic_of(|| debug_infs(|| f(Tensor::from([1.0_f32, 0.0]))));
    assert!(message.starts_with("`div` at "), "{message}");
    assert!(message.contains("returned an infinity"), "{message}");
}
