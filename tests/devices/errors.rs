//! Errors of a device, and checks of results.

use pytree::device::{DeviceError, device_put, try_device_put, try_wait};
use pytree::prelude::*;
use pytree::{TensorError, debug};

use crate::devices::mock::{Mock, When, Work};
use crate::devices::panic_of;

fn double(x: Tensor) -> Tensor {
    x * 2.0
}

#[test]
fn transfer_error_names_tensor_and_device() {
    let mock = Mock::new("mock:0");
    let x = Tensor::from([1.0_f32, 2.0]);
    mock.fail(When::Put, DeviceError::out_of_memory("8 bytes requested"));
    let error = try_device_put(&x, &mock).unwrap_err();
    assert_eq!(
        error.to_string(),
        "cannot put f32[2] on mock:0: the device has not enough free memory: 8 bytes requested; drop tensors that are not needed, pass tensors by value, or use a smaller batch"
    );
    assert!(matches!(
        error,
        TensorError::Device {
            source: DeviceError::OutOfMemory { .. },
            ..
        }
    ));
    assert_eq!(device_put(&x, &mock), x, "the next transfer succeeds");
}

#[test]
fn compiler_error_names_function_and_keeps_arguments() {
    let mock = Mock::new("mock:0");
    let mut x = device_put(&Tensor::from([1.0_f32, 2.0]), &mock);
    let step = jit_mut(|x: &mut Tensor| *x = &*x * 2.0);
    let error = || DeviceError::unsupported("the operation `mul`", "use the host");
    mock.fail(When::Compile, error());
    let message = panic_of(|| step(&mut x));
    assert!(
        message.starts_with("cannot compile `jit_mut at "),
        "{message}"
    );
    assert!(
        message
            .ends_with("on mock:0: the device does not support the operation `mul`; use the host"),
        "{message}"
    );
    assert_eq!(x.to_vec::<f32>(), [1.0, 2.0], "the argument is unchanged");
    step(&mut x);
    assert_eq!(x.to_vec::<f32>(), [2.0, 4.0], "the error was not kept");
    mock.fail(When::Compile, error());
    let found = x.try_add(&x).unwrap_err();
    assert!(
        found
            .to_string()
            .starts_with("cannot compile `add` on mock:0: the device"),
        "{found}"
    );
}

#[test]
fn later_error_names_the_operation_when_read() {
    let mock = Mock::new("mock:0");
    let f = jit(double);
    let x = device_put(&Tensor::from([1.0_f32, 2.0]), &mock);
    mock.fail(When::Computation, DeviceError::failed("power failure"));
    let y = f(x.clone());
    let z = y.sin();
    let error = y.try_to_vec::<f32>().unwrap_err();
    assert_eq!(
        error.to_string(),
        "cannot read f32[2], a result of `double`, on mock:0: the device reported: power failure"
    );
    assert!(panic_of(|| z.to_vec::<f32>()).contains("a result of `sin`, on mock:0"));
    let error = try_wait(&(x.clone(), y)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "cannot wait for f32[2], a result of `double`, on mock:0: the device reported: power failure"
    );
    assert!(format!("{z}").contains("Tensor(f32[2], not read: cannot read f32[2]"));
    assert_eq!(f(x).to_vec::<f32>(), [2.0, 4.0], "the device goes on");
}

#[test]
fn start_error_is_raised_at_the_call() {
    let mock = Mock::new("mock:0");
    let x = device_put(&Tensor::from([1.0_f32, 2.0]), &mock);
    mock.fail(When::Run, DeviceError::failed("no stream"));
    assert_eq!(
        panic_of(|| jit(double)(x.clone())),
        "cannot run `double` on mock:0: the device reported: no stream"
    );
    let mut lost = x.clone();
    let step = jit_mut(|x: &mut Tensor| *x = &*x * 2.0);
    mock.fail(When::Run, DeviceError::failed("no stream"));
    let message = panic_of(|| step(&mut lost));
    assert!(
        message.ends_with(
            "no stream; the `&mut` arguments have lost their tensors: load a checkpoint"
        ),
        "{message}"
    );
    mock.fail(When::Run, DeviceError::failed("no stream"));
    let message = panic_of(|| x.sin());
    assert_eq!(
        message,
        "cannot run `sin` on mock:0: the device reported: no stream"
    );
}

#[test]
fn checks_run_on_the_host() {
    let mock = Mock::new("mock:0");
    let x = device_put(&Tensor::from([1.0_f32, -1.0]), &mock);
    let f = jit(|x: Tensor| x.log() * 2.0).check_nans();
    let message = panic_of(|| f(x.clone()));
    assert!(
        message.contains("returned NaN in 1 of 2 elements"),
        "{message}"
    );
    let message = panic_of(|| debug::debug_nans(|| x.log()));
    assert!(
        message.contains("operand 0 is f32[2] with values from -1 to 1"),
        "{message}"
    );
    mock.work();
    let y = f(device_put(&Tensor::from([1.0_f32, 2.0]), &mock));
    assert_eq!(
        y.device(),
        &mock.device,
        "a result that passes is on the device"
    );
    assert_eq!(
        mock.work(),
        Work {
            puts: 2,
            reads: 1,
            ..Work::default()
        }
    );
}
