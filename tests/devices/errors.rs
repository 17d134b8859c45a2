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
    mock.fail(When::Run, DeviceError::failed("no stream"));
    let message = panic_of(|| x.sin());
    assert_eq!(
        message,
        "cannot run `sin` on mock:0: the device reported: no stream"
    );
}

#[test]
fn failed_step_loses_only_donated_buffers() {
    let mock = Mock::new("mock:0");
    let put = |numbers: [f32; 2]| device_put(&Tensor::from(numbers), &mock);
    fn update((model, x): (&mut Vec<Tensor>, Tensor)) {
        model[0] = &model[0] * &x;
        model[1] = &model[1] + &x;
        model[2] = &model[2] - &model[3];
    }
    let step = jit_mut(update).on(&mock.device);
    let shared = put([3.0, 4.0]);
    // One buffer is on the device alone, one has another handle, one is on the host, and one is only read.
    let model = || {
        let on_host = Tensor::from([5.0_f32, 6.0]);
        vec![put([1.0, 2.0]), shared.clone(), on_host, put([7.0, 8.0])]
    };
    let x = || Tensor::from([2.0_f32, 2.0]);
    step((&mut model(), x()));
    let elements = |model: &[Tensor]| -> Vec<Result<Vec<f32>, String>> {
        let read = |it: &Tensor| it.try_to_vec().map_err(|error| error.to_string());
        model.iter().map(read).collect()
    };
    let whole = elements(&model());

    // Nothing has begun: the arguments are whole, and the step can be repeated.
    let mut kept = model();
    mock.fail(When::Put, DeviceError::out_of_memory("2 bytes"));
    assert!(panic_of(|| step((&mut kept, x()))).contains("cannot put f32[2] on mock:0"));
    assert_eq!(elements(&kept), whole);
    step((&mut kept, x()));
    assert_eq!(kept[0].to_vec::<f32>(), [2.0, 4.0]);

    let mut lost = model();
    mock.fail(When::Run, DeviceError::failed("no stream"));
    assert!(panic_of(|| step((&mut lost, x()))).ends_with("no stream"));
    let found = elements(&lost);
    assert_eq!(found[1..], whole[1..]);
    let message = found[0].clone().unwrap_err();
    assert_eq!(
        message,
        "cannot read f32[2], a result of `device_put`, on mock:0: its memory was donated to `update`, which failed; load a checkpoint"
    );
    let message = panic_of(|| &lost[0] + 1.0);
    assert!(message.starts_with("cannot use f32[2]"), "{message}");
    assert!(panic_of(|| step((&mut lost, x()))).starts_with("cannot use f32[2]"));
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
