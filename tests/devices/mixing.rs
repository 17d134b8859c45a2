//! Tensors of two devices in one operation.

use pytree::TensorError;
use pytree::device::{Device, device_put, with_device};
use pytree::prelude::*;

use crate::devices::mock::Mock;
use crate::devices::panic_of;

fn on_two() -> (Tensor, Tensor) {
    let x = Tensor::from([1.0_f32, 2.0, 3.0]);
    let (first, second) = (Mock::new("mock:0"), Mock::new("mock:1"));
    (device_put(&x, &first), device_put(&x, &second))
}

#[test]
fn operation_names_both_devices() {
    let (x, y) = on_two();
    let message = panic_of(|| &x + &y);
    assert_eq!(
        message,
        "cannot add f32[3] on mock:0 and f32[3] on mock:1: all tensors must be on one device; move them, for instance with `device_put(&x, &device)`"
    );
    let error = x.try_matmul(&y).unwrap_err();
    assert!(matches!(error, TensorError::Devices { .. }), "{error}");
    assert!(panic_of(|| with_device(Device::HOST, || &x * &y)).contains("mock:1"));
}

#[test]
fn compiled_function_names_both_places() {
    fn add((x, y): (Tensor, Tensor)) -> Tensor {
        x + y
    }
    let (x, y) = on_two();
    assert_eq!(
        panic_of(|| jit(add)((x.clone(), y.clone()))),
        "cannot call `add` with f32[3] on mock:0 at [0] and f32[3] on mock:1 at [1]: all tensors must be on one device; move them, for instance with `device_put(&x, &device)`"
    );
    let captures = jit(move |x: Tensor| x + &y);
    let message = panic_of(|| captures(x.clone()));
    assert!(
        message
            .contains("` with f32[3] on mock:0 at the root and a captured tensor on mock:1: all"),
        "{message}"
    );
}

#[test]
fn chosen_device_refuses_other_devices() {
    fn double(x: Tensor) -> Tensor {
        x * 2.0
    }
    let (x, y) = on_two();
    assert_eq!(
        panic_of(|| jit(double).on(x.device())(y)),
        "cannot call `double` on mock:0 with f32[3] on mock:1 at the root: all tensors must be on one device; move them, for instance with `device_put(&x, &device)`"
    );
    assert!(
        panic_of(|| jit(double).on(Device::HOST)(x))
            .contains("`double` on host with f32[3] on mock:0")
    );
}

#[test]
fn program_may_use_two_devices() {
    let (x, y) = on_two();
    let sum = with_device(x.device(), || &y + 1.0);
    assert_eq!(sum.device(), y.device(), "its operand is there");
    let moved = device_put(&sum, x.device());
    assert_eq!((&moved + &x).to_vec::<f32>(), [3.0, 5.0, 7.0]);
}
