//! Mistakes, and what a plugin refuses.

use pytree_pjrt::{Client, Options};
use pytree_transform::device::{Device, device_put};
use pytree_transform::{Tensor, debug_callback, jit_mut};

use crate::common::{client, plugin};
use crate::tensors::{device, panic_of};

#[test]
fn two_clients_are_not_mixed() {
    let (Some(path), Some(first)) = (plugin(), client()) else {
        return;
    };
    let second = Client::load_with(path, &Options::new()).unwrap();
    let x = Tensor::from([1.0_f32, 2.0]);
    let (x, y) = (device_put(&x, first), device_put(&x, &second));
    let message = panic_of(|| &x + &y);
    let (first, second) = (Device::from(first), Device::from(&second));
    let expected = format!(
        "cannot add f32[2] on {first} and f32[2] on {second}: all tensors must be on one device; move them, for instance with `device_put(&x, &device)`"
    );
    assert_eq!(message, expected);
    assert_eq!((&x + device_put(&y, &first)).to_vec::<f32>(), [2.0, 4.0]);
}

#[test]
fn callbacks_are_refused_with_their_line() {
    fn step(x: &mut Tensor) {
        debug_callback(&[&*x], |_| {});
        *x = &*x * 2.0;
    }
    let Some(device) = device() else { return };
    let mut x = device_put(&Tensor::from([1.0_f32, 2.0]), &device);
    let message = panic_of(|| jit_mut(step).on(&device)(&mut x));
    let expected = format!(
        "cannot compile `step` on {device}: the device does not support the operation `debug_callback` at "
    );
    assert!(message.starts_with(&expected), "{message}");
    assert!(message.contains("errors.rs:"), "{message}");
    // The argument is not lost.
    assert_eq!(x.to_vec::<f32>(), [1.0, 2.0]);
}
